"""Means over independent trials, and how far off they may be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats


def standard_error(values: Floats) -> float:
    """Return the standard error of a mean of independent trials."""
    return float((values - values[0]).std(ddof=1) / math.sqrt(len(values)))  # of equal numbers exactly zero


def mean_difference(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """Return the mean of ``first`` less ``second`` over trials that both saw, and its standard error.

    Raises:
        ValueError: there are not as many trials of both.
    """
    away = np.array([a - b for a, b in zip(first, second, strict=True)])
    return float(away.mean()), standard_error(away)
