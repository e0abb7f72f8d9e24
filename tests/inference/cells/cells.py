"""Cells for the tests of published tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dpbayes_cli.inference.cells.cell_laws import CELL_LAWS
from dpbayes_cli.inference.cells.count_lattices import NoisyCells
from dpbayes_cli.inference.cells.draw_cells import KnownTotal, Links
from dpbayes_cli.inference.cells.power_priors import learn_priors

NOTHING = np.array([], dtype=np.int64)
FREE = Links((), NOTHING, NOTHING)


def noisy_cells(
    observed: ArrayLike,
    law: str = "discrete-laplace",
    scale: float = 2.0,
    below: float = -np.inf,
    *,
    non_negative: bool = True,
    lists_suppressed: bool = False,
    power_law: bool = False,
) -> NoisyCells:
    values = np.array(observed, dtype=np.float64)
    n = len(values)
    cells = NoisyCells(
        values,
        (CELL_LAWS[law],),
        np.zeros(n, dtype=np.int64),
        np.full(n, scale),
        np.full(n, below),
        np.full(n, 0 if np.isfinite(below) or power_law else -1),
        non_negative,
        lists_suppressed,
    )
    return learn_priors(cells)


def with_total(total: int, *cells: int) -> Links:
    return Links((KnownTotal(np.array(cells), total, "the known total"),), NOTHING, NOTHING)


def as_pair(part: int, whole: int) -> Links:
    return Links((), np.array([part]), np.array([whole]))
