"""Statistical assertions that state how often they fail without reason, and how often they miss what they look for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

FALSE_FAIL = 1e-9


def uniformity_p_value(values: ArrayLike) -> float:
    """Return the Kolmogorov-Smirnov p-value of values of [0, 1] against the uniform law."""
    return float(stats.kstest(np.asarray(values, dtype=float), "uniform").pvalue)


def assert_uniform(values: ArrayLike, false_fail: float = FALSE_FAIL) -> None:
    """Fail where independent values of [0, 1] are not uniform; fails without reason with probability ``false_fail``."""
    p_value = uniformity_p_value(values)
    assert p_value >= false_fail, f"not uniform: Kolmogorov-Smirnov p = {p_value:.2g}"


def assert_not_uniform(values: ArrayLike, false_fail: float = FALSE_FAIL) -> None:
    """Fail where ``assert_uniform`` would let these values pass: a planted bug must be caught."""
    p_value = uniformity_p_value(values)
    assert p_value < false_fail, f"a planted miscalibration went unnoticed: p = {p_value:.2g}"


def chi_square_p_value(draws: ArrayLike, support: ArrayLike, probabilities: ArrayLike) -> float:
    """Return the chi-square p-value of integer draws against a pmf; cells of expectation below 10 are merged.

    Args:
        draws: independent integers.
        support: integers, ascending; draws outside count as one more cell.
        probabilities: their probabilities; what is missing to one belongs to the rest.
    """
    draws, support = np.asarray(draws), np.asarray(support)
    expected = np.append(np.asarray(probabilities), max(0.0, 1.0 - float(np.sum(probabilities)))) * len(draws)
    index = np.searchsorted(support, draws)
    inside = (index < len(support)) & (support[np.minimum(index, len(support) - 1)] == draws)
    observed = np.bincount(np.where(inside, index, len(support)), minlength=len(support) + 1).astype(float)
    keep = expected >= 10
    assert keep.sum() >= 3, "too few draws for a chi-square test"
    observed = np.append(observed[keep], observed[~keep].sum())
    expected = np.append(expected[keep], expected[~keep].sum())
    if expected[-1] < 10:  # too rare for a cell of its own
        smallest = int(np.argmin(expected[:-1]))
        observed[smallest] += observed[-1]
        expected[smallest] += expected[-1]
        observed, expected = observed[:-1], expected[:-1]
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return float(stats.chi2.sf(statistic, len(expected) - 1))


def assert_follows(
    draws: ArrayLike, support: ArrayLike, probabilities: ArrayLike, false_fail: float = FALSE_FAIL
) -> None:
    """Fail where integer draws do not follow a pmf."""
    p_value = chi_square_p_value(draws, support, probabilities)
    assert p_value >= false_fail, f"the draws do not follow the law: chi-square p = {p_value:.2g}"


def assert_means(draws: ArrayLike, expected: Sequence[float] | float, false_fail: float = FALSE_FAIL) -> None:
    """Fail where the means of independent rows differ from what is expected (normal approximation, Bonferroni)."""
    rows = np.asarray(draws, dtype=float)
    error = rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
    z = np.abs(rows.mean(axis=0) - np.asarray(expected)) / np.maximum(error, 1e-300)
    limit = float(stats.norm.isf(false_fail / (2 * z.size)))
    assert np.all(z <= limit), f"a mean is {float(np.max(z)):.1f} standard errors off (limit {limit:.1f})"
