"""Poisson counts with integer noise: the likelihood of the rate with the count summed out, and draws of the count.

A count c ~ Poisson(mu) is observed as y = c + noise. Under discrete Laplace noise of scale b, with q = exp(-1 / b), the
marginal likelihood is

    p(y | mu)  ~  q^y e^(mu / q - mu) Q(y + 1, mu / q)  +  q^-y e^(mu q - mu) P(y + 1, mu q)

up to a constant, where P and Q are the regularized incomplete gamma functions. For y < 0 there is only the second term,
with P = 1. For other noise, p is computed as a sum over c. Since log p is a smooth function of sqrt(mu), it is
tabulated for each value of y that occurs, and interpolated.

If the noise is log-concave, the distribution of c given y and mu is log-concave, too. Then c is drawn exactly, by
rejection sampling from a proposal with a flat middle and geometric tails. For other noise, c is drawn as if the noise
were Laplace, and accepted by the ratio of the two noise laws.

Source: Devroye 1986, Non-Uniform Random Variate Generation, X.2 (log-concave laws); the rest is derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammainc, gammaincc, gammaln, wrightomega, xlogy

from dpbayes_cli.base.numeric import Booleans, Floats, Integers
from dpbayes_cli.privacy.noise import NoiseLaw

_TABLE_STEP, _MIN_TABLE_STEP = 0.25, 1.0 / 64.0
"""The usual and the smallest step of tables in u = 2 * sqrt(mu); steps are smaller if the noise is small, because log p
is then more curved."""
_TABLE_REACH = 24.0
"""Tables extend this far in u = 2 * sqrt(mu) on both sides of the observed count. Outside, p is below exp(-250), and
log p is extrapolated: exactly if one of the two terms dominates, otherwise linearly."""
_GAUSSIAN_TABLE_SDS = 14.0
"""For Gaussian noise, p has no such terms, and tables extend further, by this many standard deviations of the noise."""
_GAUSSIAN_TERMS = 48
_POISSON_SDS, _EXTRA_COUNTS, _MAX_TERMS = 12, 40, 4096
"""On each side of the mode, a sum over counts extends ``_POISSON_SDS`` standard deviations of the Poisson law plus
``_EXTRA_COUNTS`` counts; it has at most about ``_MAX_TERMS`` terms there."""
_DOMINANCE_TOLERANCE = 1e-9
_MIN_GAMMA_FUNCTION = 1e-290
_NO_TAIL_NATS = 700.0
_ALL = slice(None)


def log_marginal(law: NoiseLaw, observed: Integers, rate: Floats) -> Floats:
    """Return log p(y | mu) for mu >= 0, up to a constant that depends on the law alone; y and mu are broadcast."""
    if law.decay is not None and law.decay.exponential:
        return np.logaddexp(*_laplace_terms(law.scale, observed, rate))
    return _summed_marginal(law, observed, rate)


def _laplace_terms(scale: float, observed: Integers, rate: Floats) -> tuple[Floats, Floats]:
    q = math.exp(-1.0 / scale)
    y, positive = np.maximum(observed, 0), observed >= 0
    low, high = rate * q, rate / q
    with np.errstate(divide="ignore", invalid="ignore"):
        lower, upper = gammaincc(y + 1.0, high), gammainc(y + 1.0, low)
        point = _log_poisson(y, rate)
        # tails too small for floating point are treated as geometric
        below = np.where(
            lower > _MIN_GAMMA_FUNCTION, np.log(lower) - y / scale + high - rate, point - np.log1p(-y / high)
        )
        next_ = np.log(low / (y + 1.0)) - np.log1p(-low / (y + 2.0))
        above = np.where(upper > _MIN_GAMMA_FUNCTION, np.log(upper) + y / scale + low - rate, point + next_)
    return np.where(positive, below, -np.inf), np.where(positive, above, observed / scale + low - rate)


def _summed_marginal(law: NoiseLaw, observed: Integers, rate: Floats) -> Floats:
    """Return log p(y | mu) as a sum over counts near the mode; if there are many, over equally spaced counts.

    If the noise is not Gaussian, the probabilities of counts left out are below e^-60 times that of the mode.
    """
    shape = np.broadcast_shapes(np.shape(observed), np.shape(rate))
    y = np.broadcast_to(observed, shape).ravel().astype(np.float64)
    mu = np.maximum(np.broadcast_to(rate, shape).ravel(), 1e-300)
    decay = law.decay
    curvature = 0.0 if decay is None else decay.quadratic
    stride: Floats
    if decay is not None:  # Gaussian
        mode = gaussian_mode(law.scale, y, mu)
        width = 1.0 / np.sqrt(1.0 / np.maximum(mode, 1.0) + 1.0 / law.scale**2)
        stride = np.maximum(np.floor(width * 10.0 / _GAUSSIAN_TERMS), 1.0)
        first, last = -_GAUSSIAN_TERMS, _GAUSSIAN_TERMS
    else:
        mode = laplace_mode(law.scale, y, mu)
        reach = math.ceil(_POISSON_SDS * math.sqrt(float(mode.max(initial=0.0)) + 1.0)) + _EXTRA_COUNTS
        step = max(1, reach // _MAX_TERMS)
        stride, first, last = np.full(1, float(step)), -reach // step, reach // step
    log_sum = np.full(len(y), -np.inf)
    for j in range(first, last + 1):
        c = mode + j * stride
        exact = decay is not None and decay.exact
        noise = -curvature * (y - c) ** 2 if exact else law.log_pmf((y - c).astype(np.int64))
        log_sum = np.logaddexp(log_sum, np.where(c < 0.0, -np.inf, _log_poisson(np.maximum(c, 0.0), mu) + noise))
    return np.asarray((log_sum + np.log(stride)).reshape(shape))


def _log_poisson(count: Floats, rate: Floats) -> Floats:
    return np.asarray(xlogy(count, rate) - gammaln(count + 1.0) - rate)


def gaussian_mode(scale: float, observed: Floats, rate: Floats) -> Floats:
    """Return the modes of counts under Gaussian noise: the largest c with (mu / c) * e^((y - c + 1/2) / s^2) >= 1."""
    variance = scale**2
    return np.floor(variance * wrightomega(np.log(rate / variance) + (observed + 0.5) / variance).real)


def laplace_mode(scale: float, observed: Floats, rate: Floats) -> Floats:
    """Return the modes of counts under Laplace noise: y, clipped to the range from mu * q to mu / q."""
    q = math.exp(-1.0 / scale)
    return np.maximum(np.minimum(observed, np.floor(rate / q)), np.floor(rate * q))


@dataclass(frozen=True, eq=False)
class MarginalTable:
    """log p(y | mu) of many cells, as piecewise cubics in u = 2 * sqrt(mu) for each distinct value of y.

    Errors of log p have been measured where p is at least e^-12 times its maximum. For Laplace noise they are at most
    2e-3 if the scale is at least 0.2, and at most 5e-4 if it is at least 1. For Gaussian noise they are at most 2e-3 if
    the scale is at least 0.5, and at most 5e-4 if it is at least 3.

    Attributes:
        scale: the scale of the noise.
        geometric: whether the tails of the noise are geometric.
        row: for each cell the row of the table for its y.
        observed: the distinct values of y, shape (n_rows,).
        step: the distance between tabulated points, in u.
        start: the first point of each row, in steps.
        cubics: the coefficients of each interval side by side in memory, shape (n_rows * n_points, 4).
        n_points: the number of intervals of a row.
        one_term: whether one of the two terms dominates at the lower and at the upper end of each row, shape (2,
            n_rows).
    """

    scale: float
    geometric: bool
    row: Integers
    observed: Integers
    step: float
    start: Floats
    cubics: Floats
    n_points: int
    one_term: Booleans

    @classmethod
    def of(cls, law: NoiseLaw, observed: Integers) -> MarginalTable:
        """Return the table for noisy counts, shape (n_cells,)."""
        distinct, row = np.unique(observed, return_inverse=True)
        geometric = law.decay is not None and law.decay.exponential
        extra_reach = 0.0 if geometric else _GAUSSIAN_TABLE_SDS * law.scale
        step = max(_TABLE_STEP * min(1.0, law.scale if geometric else law.scale / 4.0), _MIN_TABLE_STEP)
        low, high = (2.0 * np.sqrt(np.maximum(distinct + away, 0.0)) for away in (-extra_reach, extra_reach))
        start = np.maximum(np.floor((low - _TABLE_REACH) / step), 0.0)
        n_points = math.ceil(float((high + _TABLE_REACH - start * step).max()) / step)
        points = start[:, None] + np.arange(-1, n_points + 2)
        rate = np.asarray((step * points) ** 2 / 4.0)  # log p is even in u, so that u < 0 is allowed
        values = log_marginal(law, distinct[:, None], rate)
        before, here, after, later = (values[:, k : k + n_points] for k in range(4))
        curvature, skew = before - 2.0 * here + after, later - 3.0 * after + 3.0 * here - before
        cubics = np.stack([here, (after - before) / 2.0 - skew / 6.0, curvature / 2.0, skew / 6.0])
        one_term = np.zeros((2, len(distinct)), dtype=bool)
        if geometric:
            q = math.exp(-1.0 / law.scale)
            y = np.maximum(distinct, 0) + 1.0
            one_term[0] = (gammaincc(y, rate[:, 1] / q) > 1.0 - _DOMINANCE_TOLERANCE) & (distinct >= 0)
            one_term[1] = (gammainc(y, rate[:, -2] * q) > 1.0 - _DOMINANCE_TOLERANCE) | (distinct < 0)
        cubics = np.ascontiguousarray(cubics.reshape(4, -1).T)
        return cls(law.scale, geometric, row.ravel(), distinct, step, start, cubics, n_points, one_term)

    def at(self, rate: Floats) -> Floats:
        """Return log p(y | mu) of every cell for positive rates, shape (n_cells, n_rates)."""
        x, cubic, outside, _ = self._locate(rate)
        value = cubic[3] * x
        value += cubic[2]
        value *= x
        value += cubic[1]
        value *= x
        value += cubic[0]
        if outside.any():
            value[outside] = self._extrapolate(rate, x, cubic, outside)[0]
        return np.asarray(value)

    def with_slope(self, rate: Floats) -> tuple[Floats, Floats]:
        """Return log p(y | mu) of every cell and its derivative with respect to the rate; see ``at``."""
        x, cubic, outside, root = self._locate(rate)
        high = cubic[3] * x
        low = high + cubic[2]
        value = low * x
        value += cubic[1]
        value *= x
        value += cubic[0]
        low *= 2.0
        low += high
        low *= x
        low += cubic[1]
        root *= self.step
        low /= root
        if outside.any():
            value[outside], low[outside] = self._extrapolate(rate, x, cubic, outside)
        return np.asarray(value), np.asarray(low)

    def _locate(self, rate: Floats) -> tuple[Floats, Floats, Booleans, Floats]:
        """Return the place of each rate in its interval, the cubic there, whether it is outside, and its root."""
        first, start = self._intervals
        root = np.sqrt(rate)
        x = root * (2.0 / self.step)
        x -= start
        i = x.astype(np.int64)
        np.clip(i, 0, self.n_points - 1, out=i)
        x -= i
        outside = np.abs(x - 0.5) > 0.5
        i += first
        return x, np.moveaxis(self.cubics.take(i, axis=0), -1, 0), outside, root

    @cached_property
    def _intervals(self) -> tuple[Integers, Floats]:
        """The index of the first interval of each cell, and its position in steps, shape (n_cells, 1)."""
        return self.row[:, None] * self.n_points, self.start[self.row][:, None]

    def _extrapolate(self, rate: Floats, x: Floats, cubics: Floats, outside: Booleans) -> tuple[Floats, Floats]:
        """Return value and slope outside the table: exact if one term dominates, otherwise linear in u."""
        away, mu = x[outside], rate[outside]
        cubic = cubics[:, outside].T
        row = np.broadcast_to(self.row[:, None], outside.shape)[outside]
        upper = away > 0.0
        end = upper.astype(np.float64)
        slope = cubic[:, 1] + end * (2.0 * cubic[:, 2] + 3.0 * cubic[:, 3])
        value = cubic[:, 0] + end * (cubic[:, 1] + cubic[:, 2] + cubic[:, 3]) + slope * (away - end)
        slope = slope / self.step / np.sqrt(mu)
        if not self.geometric:
            return value, slope
        q = math.exp(-1.0 / self.scale)
        y = self.observed[row] / self.scale
        grows = np.where(upper, q - 1.0, 1.0 / q - 1.0)
        one_term = self.one_term[upper.astype(np.int64), row]
        return np.where(one_term, np.where(upper, y, -y) + mu * grows, value), np.where(one_term, grows, slope)


def draw_counts(law: NoiseLaw, observed: Integers, rate: Floats, rng: np.random.Generator) -> Floats:
    """Draw counts given noisy values y and positive rates mu, exactly and independently; all have shape (n,)."""
    if law.decay is not None:
        return _draw_log_concave(law, observed, rate, rng, laplace=law.decay.exponential, exact=law.decay.exact)
    drawn, left = np.empty(len(observed)), np.arange(len(observed))
    while len(left):
        count = _draw_log_concave(law, observed[left], rate[left], rng, laplace=True)
        away = (observed[left] - count).astype(np.int64)
        ratio = law.log_pmf(away) - law.log_pmf(0 * away) + np.abs(away) / law.scale - law.excess
        accepted = -rng.standard_exponential(len(left)) <= ratio
        drawn[left[accepted]] = count[accepted]
        left = left[~accepted]
    return drawn


class _CountLaws:
    """The laws of counts given noisy values and rates, as if the noise were Laplace or Gaussian.

    Gaussian noise that is not ``exact`` has the probabilities of its law, which is log-concave, too.
    """

    def __init__(self, law: NoiseLaw, observed: Integers, rate: Floats, *, laplace: bool, exact: bool) -> None:
        self._law, self._laplace, self._exact = law, laplace, exact
        self._y, self._log_rate = observed.astype(np.float64), np.log(rate)
        self.mode = (laplace_mode if laplace else gaussian_mode)(law.scale, self._y, rate)
        while not exact:  # the mode is at most a few counts away
            falls = (self.mode > 0.0) & (self.log_ratio(np.maximum(self.mode, 1.0)) < 0.0)
            step = 1.0 * (self.log_ratio(self.mode + 1.0) > 0.0) - falls
            self.mode = self.mode + step
            if not step.any():
                break
        self._at_mode = gammaln(self.mode + 1.0)

    def relative_log_p(self, count: Floats, among: Integers | slice = _ALL) -> Floats:
        """Return the log probabilities of counts, relative to those of the modes."""
        m, v, scale = self.mode[among], self._y[among], self._law.scale
        if self._laplace:
            away = (np.abs(v - m) - np.abs(v - count)) / scale
        elif self._exact:
            away = (count - m) * (2 * v - count - m) / 2 / scale**2
        else:
            away = self._log_noise(v - count) - self._log_noise(v - m)
        return np.asarray((count - m) * self._log_rate[among] - gammaln(count + 1.0) + self._at_mode[among] + away)

    def log_ratio(self, count: Floats) -> Floats:
        """Return the log ratios of p(count) to p(count - 1)."""
        y, scale = self._y, self._law.scale
        if self._laplace:
            away = np.where(count <= y, 1.0, -1.0) / scale
        elif self._exact:
            away = (y - count + 0.5) / scale**2
        else:
            away = self._log_noise(y - count) - self._log_noise(y - count + 1.0)
        return np.asarray(self._log_rate - np.log(np.maximum(count, 1.0)) + away)

    def _log_noise(self, z: Floats) -> Floats:
        return self._law.log_pmf(z.astype(np.int64))


def _draw_log_concave(
    law: NoiseLaw, observed: Integers, rate: Floats, rng: np.random.Generator, *, laplace: bool, exact: bool = True
) -> Floats:
    counts = _CountLaws(law, observed, rate, laplace=laplace, exact=exact)
    mode, log_ratio, relative_log_p = counts.mode, counts.log_ratio, counts.relative_log_p
    curvature = 1.0 / (mode + 1.0) + (0.0 if laplace else 1.0 / law.scale**2)

    def width(slope: Floats) -> Floats:
        """Return the distance over which the log probability falls by about one, given its slope."""
        return np.maximum(np.rint(2.0 / (slope + np.sqrt(slope**2 + 2.0 * curvature))), 1.0)

    right = mode + width(np.maximum(-log_ratio(mode + 1.0), 0.0))
    left = mode - width(np.maximum(np.where(mode > 0.0, log_ratio(mode), 0.0), 0.0))
    at_right = relative_log_p(right)
    right_fall = np.minimum(log_ratio(right + 1.0), -1e-12)
    has_left = left >= 0.0
    inner = np.where(has_left, left, 0.0)
    at_left = relative_log_p(inner)
    left_fall = np.where(inner > 0.0, np.minimum(-log_ratio(inner), -1e-12), -_NO_TAIL_NATS)
    right_mass = np.exp(at_right) / -np.expm1(right_fall)
    left_mass = np.where(has_left, np.exp(at_left) / -np.expm1(left_fall), 0.0)
    first = np.where(has_left, left + 1.0, 0.0)
    middle_mass = right - first
    total = middle_mass + left_mass + right_mass

    drawn = np.empty(len(mode))
    open_ = np.arange(len(mode))
    while len(open_):
        u = rng.random(len(open_)) * total[open_]
        in_middle = u < middle_mass[open_]
        to_right = ~in_middle & (u < middle_mass[open_] + right_mass[open_])
        tail = np.where(to_right, right_fall[open_], left_fall[open_])
        steps = np.floor(rng.standard_exponential(len(open_)) / -tail)
        count = np.where(
            in_middle, first[open_] + np.floor(u), np.where(to_right, right[open_] + steps, left[open_] - steps)
        )
        possible = count >= 0.0
        count = np.maximum(count, 0.0)
        hat = np.where(in_middle, 0.0, steps * tail + np.where(to_right, at_right[open_], at_left[open_]))
        accepted = possible & (-rng.standard_exponential(len(open_)) <= relative_log_p(count, open_) - hat)
        drawn[open_[accepted]] = count[accepted]
        open_ = open_[~accepted]
    return drawn
