"""What is measured on a cell: uniform ranks, coverage, width, distance to the non-private posterior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

INTERVAL = 0.9
"""The probability of the intervals whose coverage is measured."""


@dataclass(frozen=True)
class Measures:
    """The numbers of one cell.

    Attributes:
        ks: Kolmogorov-Smirnov distance of the ranks from the uniform law.
        ks_p_value: its p-value.
        coverage: how often the central 90 % interval holds the parameter.
        mean_sd: the mean standard deviation of the posterior.
        mmd: root of the mean squared distance to the non-private posterior, 0 where its estimate is negative; None
            where it was not measured.
        mmd_squared, mmd_squared_error: the unbiased estimate, and its standard error over trials.
    """

    ks: float
    ks_p_value: float
    coverage: float
    mean_sd: float
    mmd: float | None
    mmd_squared: float | None
    mmd_squared_error: float | None


def measure(ranks: Floats, sds: Floats, distances: Floats | None) -> Measures:
    """Return the measures of a cell.

    Args:
        ranks: of the parameter that is looked at, shape (n_trials,).
        sds: of its posteriors, the same shape.
        distances: squared distances, the same shape; None where they are not measured.
    """
    from scipy import stats

    found = stats.kstest(ranks, "uniform")
    low, high = (1.0 - INTERVAL) / 2.0, (1.0 + INTERVAL) / 2.0
    held = float(np.mean((ranks > low) & (ranks < high)))
    mean = error = None
    if distances is not None:
        mean, error = float(distances.mean()), float(distances.std(ddof=1) / math.sqrt(len(distances)))
    return Measures(
        float(found.statistic),
        float(found.pvalue),
        held,
        float(sds.mean()),
        None if mean is None else math.sqrt(max(0.0, mean)),
        mean,
        error,
    )


def ks_band(trials: int, probability: float = 0.95) -> float:
    """Return the distance that uniform ranks of so many trials stay below with a probability."""
    from scipy import stats

    return float(stats.kstwo.ppf(probability, trials))
