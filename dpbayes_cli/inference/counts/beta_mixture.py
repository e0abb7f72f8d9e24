"""The exact posterior of one proportion: a finite mixture of Beta distributions.

With two categories and a known record count n, the posterior of theta_0 is sum_s w_s Beta(a + s, b + n - s) with w_s
proportional to BetaBinomial(s; n, a, b) times the probability of the noise. Counts s are left out if their weight is
below 4e-18 times the largest weight. If n is large and the noise is wide, weights and components vary slowly with s.
The range of s is then divided into panels, and the sum over a panel is computed by a quadrature rule with 16 nodes,
which is exact for polynomials of degree below 16. A few thousand components suffice for n = 1e8.

Source: Bernstein and Sheldon 2018 (the model), solved exactly here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import betainc, betaln

from dpbayes_cli.base.numeric import Floats, Integers, log_gamma_ratio, normalize
from dpbayes_cli.core.noisy_observation import NoisyCounts
from dpbayes_cli.inference.posterior import QUANTILES, Marginal, Posterior
from dpbayes_cli.privacy.coordinate import expit

_NODES = 16
_MIN_PANEL = 64
"""Panels with fewer counts are summed term by term; their Clenshaw-Curtis points would not be distinct integers."""
_NEGLIGIBLE_NATS = 40.0
"""Weights below exp(-40) = 4e-18 times the largest weight are left out."""


@dataclass(frozen=True)
class BetaMixture:
    """A finite mixture of Beta(shape_a, shape_b) distributions, with ascending means.

    All components have the same sum shape_a + shape_b. Weights are positive and add up to one. All arrays have shape
    (n_components,).
    """

    shape_a: Floats
    shape_b: Floats
    weights: Floats

    @property
    def mean(self) -> float:
        """The mean of the mixture."""
        return float(self.weights @ (self.shape_a / (self.shape_a + self.shape_b)))

    @property
    def variances(self) -> tuple[float, float]:
        """The mean of the components' variances and the variance of their means; their sum is the total variance."""
        total = self.shape_a + self.shape_b
        means = self.shape_a / total
        within = self.weights @ (means * (self.shape_b / total) / (total + 1.0))
        between = self.weights @ (means - self.mean) ** 2
        return float(within), float(between)

    @cached_property
    def _log_factors(self) -> Floats:
        """The log of weight / B(shape_a, shape_b) for each component, where B is the Beta function."""
        return np.asarray(np.log(self.weights) - betaln(self.shape_a, self.shape_b))

    def pdf(self, theta: Floats) -> Floats:
        """Return the density at points in (0, 1), shape (n_points,)."""
        theta = np.atleast_1d(np.asarray(theta, dtype=np.float64))
        logs = np.multiply.outer(np.log(theta), self.shape_a - 1.0)
        rests = np.multiply.outer(np.log1p(-theta), self.shape_b - 1.0)
        return np.asarray(np.exp(self._log_factors + logs + rests).sum(axis=1))

    def cdf(self, theta: float) -> float:
        """Return P(parameter <= theta).

        If the mean of a component is further than ``reach`` from theta, its CDF is within 1e-18 of 0 or 1, and is set
        to 0 or 1.

        Source: Marchal and Arbel 2017 (a Beta variable is sub-Gaussian with variance proxy 1 / (4 (a + b + 1))).
        """
        total = float(self.shape_a[0] + self.shape_b[0])
        reach = math.sqrt(42.0 / (2.0 * (total + 1.0)))
        means = self.shape_a / total
        low, high = np.searchsorted(means, [theta - reach, theta + reach])
        inside = self.weights[low:high] @ betainc(self.shape_a[low:high], self.shape_b[low:high], theta)
        return float(min(1.0, self.weights[:low].sum() + inside))

    def cdf_of(self, theta: Floats) -> Floats:
        """Return P(parameter <= theta) at many points, interpolated on a grid of 2,049 points."""
        sd = math.sqrt(sum(self.variances))
        ends = max(0.0, self.mean - 12.0 * sd), min(1.0, self.mean + 12.0 * sd)
        grid = np.linspace(*ends, 2049)
        return np.interp(theta, grid, [self.cdf(float(point)) for point in grid])

    def quantile(self, probability: float) -> float:
        """Return the theta with cdf(theta) = probability, by bracketed Newton steps on the logit scale."""
        low, high = -745.0, 37.0
        mean, sd = self.mean, math.sqrt(sum(self.variances))
        logit = math.log(mean / (1.0 - mean)) + (probability - 0.5) * sd / max(mean * (1.0 - mean), 1e-300)
        for _ in range(100):
            if not low < logit < high:
                logit = (low + high) / 2.0
            theta = expit(logit)
            excess = self.cdf(theta) - probability
            low, high = (logit, high) if excess < 0 else (low, logit)
            slope = float(self.pdf(np.array([theta]))[0]) * theta * (1.0 - theta) if 0.0 < theta < 1.0 else 0.0
            if abs(excess) < 1e-15 or high - low < 1e-13 * max(1.0, abs(logit)):
                break
            step = excess / slope if slope > 0 else math.inf
            if abs(step) < 1e-14 * max(1.0, abs(logit)):
                break
            logit = logit - step
        return expit(logit)

    def draw(self, size: int, rng: np.random.Generator) -> Floats:
        """Return independent draws, shape (size,)."""
        index = np.searchsorted(np.cumsum(self.weights), rng.random(size))
        index = np.minimum(index, len(self.weights) - 1)
        return np.asarray(rng.beta(self.shape_a[index], self.shape_b[index]))

    def posterior(self, n_draws: int, rng: np.random.Generator) -> Posterior:
        """Return the posterior of (theta, 1 - theta)."""
        within, between = self.variances
        theta = self.draw(n_draws, rng)
        sds = (math.sqrt(within + between), math.sqrt(within), math.sqrt(between))
        quantiles = {name: self.quantile(p) for name, p in QUANTILES.items()}
        mirrored = dict(zip(QUANTILES, [1.0 - q for q in reversed(quantiles.values())], strict=True))
        return Posterior(
            tuple(
                Marginal(mean, sds[0], by_level, sds[1], sds[2])
                for mean, by_level in ((self.mean, quantiles), (1.0 - self.mean, mirrored))
            ),
            np.column_stack([theta, 1.0 - theta]),
            f"exact mixture of {len(self.weights)} Beta distributions",
            exact=True,
        )


def beta_mixture(observation: NoisyCounts) -> BetaMixture:
    """Return the posterior of the first category's probability, given two categories and a known record count."""
    a, b = observation.concentration
    n = observation.total.n

    def log_weight(s: Integers) -> Floats:
        terms = log_gamma_ratio(s + 1.0, a - 1.0) + log_gamma_ratio(n - s + 1.0, b - 1.0)
        for observed, count in zip(observation.observed, (s, n - s), strict=True):
            if observed is not None:
                terms = terms + observation.noise.log_pmf(observed - count)
        return np.asarray(terms)

    y0, y1 = observation.observed
    kinks = [min(max(k, 0), n) for k in (y0, None if y1 is None else n - y1) if k is not None]
    low, high = _support(log_weight, n, kinks)
    s, multiplicity = _panels(low, high, kinks, _smooth_length(observation))
    weights = normalize(log_weight(s)) * multiplicity
    keep = weights > 1e-22 * weights.max()
    s, weights = s[keep], weights[keep]
    return BetaMixture(a + s, b + n - s, weights / weights.sum())


def _support(log_weight: Callable[[Integers], Floats], n: int, kinks: list[int]) -> tuple[int, int]:
    """Return the ends of a range of s that contains all weights that are not negligible, and few others.

    Between kinks of the noise law and the ends 0 and n, the weight is monotone or log-concave in s. Therefore a grid
    of evenly spaced points, and of geometrically spaced points around kinks and ends, shows where weights become
    negligible. A second, finer grid narrows the range.
    """
    low, high = 0, n
    for _ in range(2):
        steps = np.unique(np.geomspace(1, max(2, n), 200).astype(np.int64))
        around = [sign * steps + point for point in (0, n, *kinks) for sign in (-1, 1)]
        points = np.concatenate([np.linspace(low, high, 4097).astype(np.int64), np.asarray(kinks, np.int64), *around])
        grid = np.unique(points[(points >= low) & (points <= high)])
        values = log_weight(grid)
        (above,) = np.nonzero(values > values.max() - _NEGLIGIBLE_NATS)
        low, high = int(grid[max(0, above[0] - 1)]), int(grid[min(len(grid) - 1, above[-1] + 1)])
    return low, high


def _smooth_length(observation: NoisyCounts) -> Callable[[int], float]:
    """Return a function of a count s: the width of the range around s in which weights and components vary little."""
    (a, b), n, grain = observation.concentration, observation.total.n, observation.noise.grain
    at_zero, at_n = math.sqrt(1.0 + abs(a - 1.0)), math.sqrt(1.0 + abs(b - 1.0))

    def length(s: int) -> float:
        component = math.sqrt((a + s) * (b + n - s) / (a + b + n))
        return min(grain, component, (s + 1.0) / at_zero / 2.0, (n - s + 1.0) / at_n / 2.0)

    return length


def _panels(low: int, high: int, kinks: list[int], length: Callable[[int], float]) -> tuple[Integers, Floats]:
    """Divide low..high into panels that end at kinks; return their nodes, ascending, and their quadrature weights."""
    nodes, multiplicities = [], []
    start = low
    while start <= high:
        stop = min([high + 1, *(kink for kink in kinks if kink > start)])
        size = int(min(length(start), length(stop - 1) if stop - start < 4 * length(start) else math.inf))
        if size < _MIN_PANEL or stop - start < _MIN_PANEL:
            size = min(stop - start, _MIN_PANEL)
            nodes.append(np.arange(start, start + size))
            multiplicities.append(np.ones(size))
        else:
            size = 1 << (min(size, stop - start).bit_length() - 1)
            offsets, weights = _rule(size)
            nodes.append(start + offsets)
            multiplicities.append(weights)
        start += size
    return np.concatenate(nodes), np.concatenate(multiplicities)


@lru_cache(maxsize=64)
def _rule(size: int) -> tuple[Integers, Floats]:
    """Return integer nodes in 0..size-1, and weights that sum any polynomial of degree < 16 over 0..size-1 exactly.

    The nodes are the integers next to the Clenshaw-Curtis points. The weights solve the moment equations in the
    Chebyshev basis; they are positive and add up to ``size``.
    """
    angles = np.pi * np.arange(_NODES) / (_NODES - 1)
    offsets = np.rint((size - 1) * (1.0 - np.cos(angles)) / 2.0).astype(np.int64)
    basis = np.polynomial.chebyshev.chebvander(2.0 * offsets / (size - 1) - 1.0, _NODES - 1)
    moments = np.polynomial.chebyshev.chebvander(2.0 * np.arange(size) / (size - 1) - 1.0, _NODES - 1).sum(axis=0)
    return offsets, np.linalg.solve(basis.T, moments)
