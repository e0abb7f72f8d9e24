"""Estimates from several synthetic tables, combined into one estimate with an interval that holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from dpbayes_cli.base.numeric import Floats

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Rule = Literal["rubin", "rubin-t", "mixture"]
_GRID = 100  # the number of points at which the posterior of the variance is evaluated
_LEAST_RATIO = 1e-9  # a smaller variance between the tables, as a share of that within, changes no interval
_BISECTIONS = 40  # enough for 12 digits


@dataclass(frozen=True)
class Combined:
    """An estimate from several synthetic tables; arrays have one number for each analyzed quantity.

    Attributes:
        estimate: the mean of the tables' estimates.
        low, high: the ends of the interval.
        within: the mean of the tables' variances.
        between: the variance of the tables' estimates.
        n_tables: the number of tables.
        interval: the probability of the interval.
        rule: the rule by which the estimates were combined.
    """

    estimate: Floats
    low: Floats
    high: Floats
    within: Floats
    between: Floats
    n_tables: int
    interval: float
    rule: Rule


def combine_tables(estimates: ArrayLike, variances: ArrayLike, interval: float, rule: Rule) -> Combined:
    """Combine the analyses of several synthetic tables; see ``api.combined.combine`` for arguments, rules and errors.

    Source: Raghunathan, Reiter and Rubin 2003, J. Official Statistics 19(1), sec. 2.1; Reiter 2002, sec. 3.2 (variance
        that is not positive); Raisa, Jalko and Honkela 2025, JMLR 26 (mixtures for large tables).
    """
    q, v = np.asarray(estimates, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    if q.shape != v.shape or q.ndim not in {1, 2} or len(q) < 2:
        raise ValueError("estimates and variances need one shape, (m,) or (m, n_quantities), with m at least 2")
    if not (np.isfinite(q).all() and np.isfinite(v).all() and (v >= 0.0).all()):
        raise ValueError("estimates must be finite, and variances must be finite and not negative")
    if not 0.0 < interval < 1.0:
        raise ValueError("an interval needs a probability between 0 and 1")
    if rule not in get_args(Rule):
        raise ValueError(f"there is no rule {rule!r}; expected {', '.join(get_args(Rule))}")
    m, mean, within, between = len(q), q.mean(axis=0), v.mean(axis=0), q.var(axis=0, ddof=1)
    level = 0.5 + interval / 2.0
    if rule == "mixture":
        low, high = _mixture_quantile(q, v, 1.0 - level), _mixture_quantile(q, v, level)
    else:
        half = _half_width(m, within, between, level) if rule == "rubin" else _t_half_width(m, within, between, level)
        low, high = mean - half, mean + half
    return Combined(mean, low, high, within, between, m, interval, rule)


def _half_width(m: int, within: Floats, between: Floats, level: float) -> Floats:
    """Return a quantile of an equal mixture of normal laws whose variances are quantiles of the posterior of T."""
    from scipy.special import gammainc, gammaincinv

    shape, b = (m - 1) / 2.0, np.maximum(between, _LEAST_RATIO * within)
    largest = gammainc(shape, shape * np.where(within > 0.0, b / np.where(within > 0.0, within, 1.0), np.inf))
    levels = ((np.arange(_GRID) + 0.5) / _GRID).reshape(-1, *(1,) * between.ndim)
    drawn = shape * b / gammaincinv(shape, levels * largest)
    return _mixture_quantile(np.zeros_like(drawn), (1.0 + 1.0 / m) * drawn - within, level)


def _t_half_width(m: int, within: Floats, between: Floats, level: float) -> Floats:
    from scipy.special import stdtrit

    spread = (1.0 + 1.0 / m) * between
    is_positive = spread > within
    variance = np.where(is_positive, spread - within, within)
    degrees = (m - 1.0) * np.where(is_positive, variance / np.where(is_positive, spread, 1.0), 1.0) ** 2
    return np.asarray(stdtrit(np.maximum(degrees, 1.0), level) * np.sqrt(variance))


def _mixture_quantile(centers: Floats, variances: Floats, probability: float) -> Floats:
    """Return a quantile of an equal mixture of normal laws along the first axis, by bisection."""
    from scipy.special import ndtr, ndtri

    sds, z = np.sqrt(variances), ndtri(probability)
    low, high = (centers + z * sds).min(axis=0), (centers + z * sds).max(axis=0)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        is_below = ndtr((middle - centers) / np.maximum(sds, 1e-300)).mean(axis=0) < probability
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return np.asarray(0.5 * (low + high))
