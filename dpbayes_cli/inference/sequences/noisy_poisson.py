"""Poisson counts seen through integer noise: their marginal law as a function of the rate, and draws of the counts.

A count c ~ Poisson(mu) is seen as y = c + noise. Under discrete Laplace noise, q = exp(-1 / b), the marginal law is

    p(y | mu)  ~  q^y e^(mu / q - mu) Q(y + 1, mu / q)  +  q^-y e^(mu q - mu) P(y + 1, mu q),

with the regularized incomplete gamma functions P and Q (for y < 0 the second term alone, P = 1). Other noise has no
closed form; there the sum over c is taken. In the square root of the rate, in which a Poisson count has
the standard deviation 1, log p is smooth: it is tabulated once for every value of y that occurs, and interpolated.

c given y and mu is log-concave where the noise is: it is drawn exactly, by rejection from a hat with a flat middle and
geometric tails. Of other noise it is drawn as if that were Laplace noise, and rejected by the ratio of the two.

Source: mechanisms, noise-aware inference; Devroye 1986, Non-Uniform Random Variate Generation, X.2 (log-concave laws).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammainc, gammaincc, gammaln, wrightomega, xlogy

from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

    Mask = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

_STEP, _LEAST_STEP = 0.25, 1.0 / 64.0
"""Between tabulated points, in u = 2 sqrt(mu); less where there is little noise, as log p bends more for it."""
_REACH = 24.0
"""So far the table goes from the observed count; beyond, log p is continued: exactly where one term is all there is,
else along its last slope, where one would not tell exp(-250) from exp(-288)."""
_WIDE = 14.0
"""Of Gaussian noise, which has no such term, so many of its standard deviations more."""
_TERMS = 48
_SDS, _MORE, _MOST_TERMS = 12, 40, 4096
"""Standard deviations of a Poisson count, and counts, that are summed over beside the most likely one, and how many."""
_PURE = 1e-9
_LEAST = 1e-290
_NEVER = 700.0


def log_marginal(law: NoiseLaw, observed: Integers, rate: Floats) -> Floats:
    """Return log p(y | mu) up to a constant that depends on the law alone.

    Args:
        law: of the noise.
        observed: y, any shape.
        rate: mu, not negative, of a shape that fits.
    """
    if law.decay is None:
        return _summed_marginal(law, observed, rate)
    if law.decay.exponential:
        return np.logaddexp(*_laplace_terms(law.scale, observed, rate))
    return _gaussian_marginal(law.scale, observed, rate)


def _laplace_terms(scale: float, observed: Integers, rate: Floats) -> tuple[Floats, Floats]:
    """Return the logs of both terms of p(y | mu) under Laplace noise."""
    q = math.exp(-1.0 / scale)
    y, positive = np.maximum(observed, 0), observed >= 0
    low, high = rate * q, rate / q
    with np.errstate(divide="ignore", invalid="ignore"):
        lower, upper = gammaincc(y + 1.0, high), gammainc(y + 1.0, low)
        point = _log_poisson(y, rate)
        # where the tails are too small for floating point they are geometric
        below = np.where(lower > _LEAST, np.log(lower) - y / scale + high - rate, point - np.log1p(-y / high))
        next_ = np.log(low / (y + 1.0)) - np.log1p(-low / (y + 2.0))
        above = np.where(upper > _LEAST, np.log(upper) + y / scale + low - rate, point + next_)
    return np.where(positive, below, -np.inf), np.where(positive, above, observed / scale + low - rate)


def _gaussian_marginal(scale: float, observed: Integers, rate: Floats) -> Floats:
    """Sum over the counts around the most likely one; wide sums are taken with a stride, which normal laws forgive."""
    shape = np.broadcast_shapes(np.shape(observed), np.shape(rate))
    y = np.broadcast_to(observed, shape).ravel().astype(np.float64)
    mu = np.maximum(np.broadcast_to(rate, shape).ravel(), 1e-300)
    middle = gaussian_mode(scale, y, mu)
    width = 1.0 / np.sqrt(1.0 / np.maximum(middle, 1.0) + 1.0 / scale**2)
    stride = np.maximum(np.floor(width * 10.0 / _TERMS), 1.0)
    found = np.full(len(y), -np.inf)
    for j in range(-_TERMS, _TERMS + 1):
        c = middle + j * stride
        term = np.where(c < 0.0, -np.inf, _log_poisson(np.maximum(c, 0.0), mu) - 0.5 * ((y - c) / scale) ** 2)
        found = np.logaddexp(found, term)
    return np.asarray((found + np.log(stride)).reshape(shape))


def _summed_marginal(law: NoiseLaw, observed: Integers, rate: Floats) -> Floats:
    """Sum over the counts that matter if tails are geometric: a law that falls as fast has the rest below e^-60."""
    shape = np.broadcast_shapes(np.shape(observed), np.shape(rate))
    y = np.broadcast_to(observed, shape).ravel().astype(np.float64)
    mu = np.maximum(np.broadcast_to(rate, shape).ravel(), 1e-300)
    middle = laplace_mode(law.scale, y, mu)
    reach = math.ceil(_SDS * math.sqrt(float(middle.max(initial=0.0)) + 1.0)) + _MORE
    stride = max(1, reach // _MOST_TERMS)
    found = np.full(len(y), -np.inf)
    for j in range(-reach // stride, reach // stride + 1):
        c = middle + j * stride
        noise = law.log_pmf((y - c).astype(np.int64))
        found = np.logaddexp(found, np.where(c < 0.0, -np.inf, _log_poisson(np.maximum(c, 0.0), mu) + noise))
    return np.asarray(found.reshape(shape))


def _log_poisson(count: Floats, rate: Floats) -> Floats:
    return np.asarray(xlogy(count, rate) - gammaln(count + 1.0) - rate)


def gaussian_mode(scale: float, observed: Floats, rate: Floats) -> Floats:
    """Return the most likely counts under Gaussian noise: the largest c with mu / c e^((y - c + 1/2) / s^2) >= 1."""
    variance = scale**2
    return np.floor(variance * wrightomega(np.log(rate / variance) + (observed + 0.5) / variance).real)


def laplace_mode(scale: float, observed: Floats, rate: Floats) -> Floats:
    """Return the most likely counts under Laplace noise: y, or the nearest to it at which p stops falling."""
    q = math.exp(-1.0 / scale)
    return np.maximum(np.minimum(observed, np.floor(rate / q)), np.floor(rate * q))


@dataclass(frozen=True, eq=False)
class MarginalTable:
    """log p(y | mu) of many cells, as cubics in u = 2 sqrt(mu) around each value of y.

    Wherever p is at least e^-12 of its largest, log p is off by 2e-3 at most from the scales 0.2 (Laplace) and 0.5
    (Gaussian) on, by 5e-4 from 1 and 3 on. Less noise than that is hardly any.

    Attributes:
        scale: the scale of the noise.
        geometric: whether its tails are geometric.
        row: for each cell the row of its y.
        observed: the values of y, shape (n_rows,).
        step: between points, in u.
        start: where the table of each begins, in steps.
        cubics: the coefficients between two points, shape (n_rows n_points, 4).
        n_points: intervals a row.
        pure: at the lower and the upper end, whether one term alone is left there; shape (2, n_rows).
    """

    scale: float
    geometric: bool
    row: Integers
    observed: Integers
    step: float
    start: Floats
    cubics: Floats
    n_points: int
    pure: np.ndarray[tuple[int, int], np.dtype[np.bool_]]

    @classmethod
    def of(cls, law: NoiseLaw, observed: Integers) -> MarginalTable:
        """Tabulate the marginal law of each cell's y, shape (n_cells,)."""
        distinct, row = np.unique(observed, return_inverse=True)
        geometric = law.decay is not None and law.decay.exponential
        wide = 0.0 if geometric else _WIDE * law.scale
        step = max(_STEP * min(1.0, law.scale if geometric else law.scale / 4.0), _LEAST_STEP)
        low, high = (2.0 * np.sqrt(np.maximum(distinct + away, 0.0)) for away in (-wide, wide))
        start = np.maximum(np.floor((low - _REACH) / step), 0.0)
        n_points = math.ceil(float((high + _REACH - start * step).max()) / step)
        points = start[:, None] + np.arange(-1, n_points + 2)
        rate = np.asarray((step * points) ** 2 / 4.0)  # log p is even in u, and so is what is left of zero
        values = log_marginal(law, distinct[:, None], rate)
        before, here, after, later = (values[:, k : k + n_points] for k in range(4))
        bend, skew = before - 2.0 * here + after, later - 3.0 * after + 3.0 * here - before
        cubics = np.stack([here, (after - before) / 2.0 - skew / 6.0, bend / 2.0, skew / 6.0], axis=-1)
        pure = np.zeros((2, len(distinct)), dtype=bool)
        if geometric:
            q = math.exp(-1.0 / law.scale)
            y = np.maximum(distinct, 0) + 1.0
            pure[0] = (gammaincc(y, rate[:, 1] / q) > 1.0 - _PURE) & (distinct >= 0)
            pure[1] = (gammainc(y, rate[:, -2] * q) > 1.0 - _PURE) | (distinct < 0)
        return cls(law.scale, geometric, row.ravel(), distinct, step, start, cubics.reshape(-1, 4), n_points, pure)

    def at(self, rate: Floats) -> Floats:
        """Return log p(y | mu) of every cell, shape (n_cells, n_rates), for positive rates of that shape."""
        x, cubic, outside = self._found(rate)
        value = ((cubic[..., 3] * x + cubic[..., 2]) * x + cubic[..., 1]) * x + cubic[..., 0]
        if outside.any():
            value[outside] = self._beyond(rate, x, cubic, outside)[0]
        return np.asarray(value)

    def with_slope(self, rate: Floats) -> tuple[Floats, Floats]:
        """Return log p(y | mu) of every cell and its derivative by the rate; see ``at``."""
        x, cubic, outside = self._found(rate)
        high = cubic[..., 3] * x
        low = high + cubic[..., 2]
        value = (low * x + cubic[..., 1]) * x + cubic[..., 0]
        slope = ((high + 2.0 * low) * x + cubic[..., 1]) / np.sqrt(rate) / self.step
        if outside.any():
            value[outside], slope[outside] = self._beyond(rate, x, cubic, outside)
        return np.asarray(value), np.asarray(slope)

    def _found(self, rate: Floats) -> tuple[Floats, Floats, Mask]:
        """Return where in which cubic each rate is, and whether it is beyond all of them."""
        x = np.sqrt(rate)
        x *= 2.0 / self.step
        x -= self.start[self.row][:, None]
        i = x.astype(np.int64)
        np.clip(i, 0, self.n_points - 1, out=i)
        x -= i
        outside = (x > 1.0) | (x < 0.0)
        i += (self.row * self.n_points)[:, None]
        return x, self.cubics.take(i, axis=0), outside

    def _beyond(self, rate: Floats, x: Floats, cubic: Floats, outside: Mask) -> tuple[Floats, Floats]:
        """Continue beyond the ends of the table: along the last slope, or where one term is all there is by that."""
        away, mu, cubic = x[outside], rate[outside], cubic[outside]
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
        pure = self.pure[upper.astype(np.int64), row]
        return np.where(pure, np.where(upper, y, -y) + mu * grows, value), np.where(pure, grows, slope)


def draw_counts(law: NoiseLaw, observed: Integers, rate: Floats, rng: np.random.Generator) -> Floats:
    """Draw each count given what was observed of it and its rate, exactly and independently.

    Args:
        law: of the noise.
        observed: y, shape (n,).
        rate: mu, positive, shape (n,).
        rng: the generator.
    """
    if law.decay is not None:
        return _log_concave_counts(law.scale, observed, rate, rng, laplace=law.decay.exponential)
    found, left = np.empty(len(observed)), np.arange(len(observed))
    while len(left):
        count = _log_concave_counts(law.scale, observed[left], rate[left], rng, laplace=True)
        away = (observed[left] - count).astype(np.int64)
        ratio = law.log_pmf(away) - law.log_pmf(0 * away) + np.abs(away) / law.scale - law.excess
        taken = -rng.standard_exponential(len(left)) <= ratio
        found[left[taken]] = count[taken]
        left = left[~taken]
    return found


def _log_concave_counts(
    scale: float, observed: Integers, rate: Floats, rng: np.random.Generator, *, laplace: bool
) -> Floats:
    """Draw the counts through Laplace noise, or Gaussian."""
    y = observed.astype(np.float64)
    mode = (laplace_mode if laplace else gaussian_mode)(scale, y, rate)
    log_rate, at_mode = np.log(rate), gammaln(mode + 1.0)
    everyone = slice(None)

    def relative(count: Floats, among: Integers | slice) -> Floats:
        """Return the log weights of counts, relative to the modes."""
        m, v = mode[among], y[among]
        away = (
            (np.abs(v - m) - np.abs(v - count)) / scale if laplace else (count - m) * (2 * v - count - m) / 2 / scale**2
        )
        return np.asarray((count - m) * log_rate[among] - gammaln(count + 1.0) + at_mode[among] + away)

    def falls(count: Floats) -> Floats:
        """Return the log ratio of the weights of counts and of the ones below them."""
        away = np.where(count <= y, 1.0, -1.0) / scale if laplace else (y - count + 0.5) / scale**2
        return np.asarray(log_rate - np.log(np.maximum(count, 1.0)) + away)

    bend = 1.0 / (mode + 1.0) + (0.0 if laplace else 1.0 / scale**2)

    def width(slope: Floats) -> Floats:
        """Return how far the log weight falls by one, where it falls from this slope and bends."""
        return np.maximum(np.rint(2.0 / (slope + np.sqrt(slope**2 + 2.0 * bend))), 1.0)

    right = mode + width(np.maximum(-falls(mode + 1.0), 0.0))
    left = mode - width(np.maximum(np.where(mode > 0.0, falls(mode), 0.0), 0.0))
    at_right = relative(right, everyone)
    right_fall = np.minimum(falls(right + 1.0), -1e-12)
    has_left = left >= 0.0
    inner = np.where(has_left, left, 0.0)
    at_left = relative(inner, everyone)
    left_fall = np.where(inner > 0.0, np.minimum(-falls(inner), -1e-12), -_NEVER)
    right_mass = np.exp(at_right) / -np.expm1(right_fall)
    left_mass = np.where(has_left, np.exp(at_left) / -np.expm1(left_fall), 0.0)
    first = np.where(has_left, left + 1.0, 0.0)
    middle_mass = right - first
    total = middle_mass + left_mass + right_mass

    found = np.empty(len(y))
    open_ = np.arange(len(y))
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
        taken = possible & (-rng.standard_exponential(len(open_)) <= relative(count, open_) - hat)
        found[open_[taken]] = count[taken]
        open_ = open_[~taken]
    return found
