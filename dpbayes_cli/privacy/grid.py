"""Draws of a cell of a public grid, with probability exactly proportional to an integer weight.

A law with probabilities m_i becomes the integer weights W_i = floor(S m_i) + c with public S and c. The constant c
keeps every cell possible under every data set. A uniform integer below the sum of the weights chooses the cell, and no
float influences the choice. Weights are evaluated in decimals of 60 digits whose elementary functions round correctly.
"""

from __future__ import annotations

import secrets
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import reduce
from itertools import accumulate

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.privacy.lazy_numpy import np

EXACT = Context(prec=60)
"""The arithmetic of weights: 60 digits, in which the decimal module rounds ``exp`` and ``ln`` correctly."""

WEIGHT_SCALE = 1 << 140
MIN_WEIGHT = 1 << 60
GRID_SLACK = Decimal("1e-17")
"""Bound on how much the rounding of weights changes the log ratio of a cell's probabilities under two data sets.

Rounding down changes the log ratio by at most eta = -ln(1 - 1 / MIN_WEIGHT) < 8.7e-19 on each side. Relative errors d
of the masses m_i change it by at most 4 d. Exponents stay below 1e14 in size, so that 60 digits leave d < 1e-40. The
sum of the masses omits unlikely cells, whose share is below 2^24 exp(-109) < 1e-39. Together 2 eta + 4 d < 2e-18.
"""

WINDOW_NATS = 110.0
"""A cell whose log weight is this many nats or more below the largest has S m_i < 1, because S = exp(97.04) and the
float log weights have errors below one nat."""


@dataclass(frozen=True)
class CellWeights:
    """Integer weights of the cells of a grid.

    Attributes:
        n_cells: the number of cells; the weight of each cell is at least ``MIN_WEIGHT``.
        first: the first likely cell.
        extra: the weight minus ``MIN_WEIGHT`` of each cell, from ``first`` to the last likely cell.
    """

    n_cells: int
    first: int
    extra: tuple[int, ...]

    def draw(self, size: int) -> list[int]:
        """Draw cells independently with the operating system's randomness, exactly in proportion to the weights."""
        base = self.n_cells * MIN_WEIGHT
        cumulative = list(accumulate(self.extra))
        total = base + (cumulative[-1] if cumulative else 0)
        drawn = []
        for _ in range(size):
            point = secrets.randbelow(total)
            drawn.append(point // MIN_WEIGHT if point < base else self.first + bisect_right(cumulative, point - base))
        return drawn


def cell_weights(log_weights: Floats, exact: Callable[[int], Decimal]) -> CellWeights:
    """Return the integer weights of the cells, given their unnormalized log weights.

    ``exact`` returns the log weight of a cell in ``EXACT`` arithmetic. The floats ``log_weights``, shape (n_cells,),
    only locate the likely cells; their errors must be below one nat.

    Privacy: the log ratio of a cell's probabilities under two data sets exceeds the log ratio under the real laws m by
        less than ``GRID_SLACK``. The choice is exact: it uses no inverse CDF and no float.
    Source: derived here.
    """
    (relevant,) = np.nonzero(log_weights > log_weights.max() - WINDOW_NATS)
    first, last = int(relevant[0]), int(relevant[-1])
    logs = [exact(cell) for cell in range(first, last + 1)]
    largest = max(logs)
    masses = [EXACT.exp(EXACT.subtract(log, largest)) for log in logs]
    total, scale = sum_exact(masses), Decimal(WEIGHT_SCALE)
    extra = tuple(int(EXACT.divide(EXACT.multiply(mass, scale), total)) for mass in masses)
    return CellWeights(len(log_weights), first, extra)


def sum_exact(terms: Sequence[Decimal]) -> Decimal:
    """Return the sum of decimals in ``EXACT`` arithmetic."""
    return reduce(EXACT.add, terms, Decimal(0))


def uniform_fraction() -> float:
    """Return a uniform number in (0, 1); it places a draw within its cell, which is post-processing."""
    return (secrets.randbits(52) + 0.5) / (1 << 52)
