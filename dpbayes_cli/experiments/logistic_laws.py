"""The law from which each method of logistic regression draws, and approximate draws from posteriors.

There is no way to draw exactly from these posteriors. Metropolis chains approximate exact draws, for simulations only.
A chain moves on z = L'(w - mode), where LL' is the Hessian at the mode, so that the law of z is nearly standard normal.
It starts from a standard normal draw. Its proposals alternate between standard normal draws and Langevin steps, which
suit heavier tails. Each proposal is accepted or rejected, so that the posterior is invariant.

Source: Tierney 1994 (mixtures of kernels); Roberts and Tweedie 1996 (Metropolis-adjusted Langevin).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.design import Design
from dpbayes_cli.core.langevin import Normals
from dpbayes_cli.mechanisms.samplers.langevin_calibration import UNTEMPERED, Calibrator, LangevinOptions
from dpbayes_cli.mechanisms.samplers.stated_mu import BELOW_TARGET
from dpbayes_cli.models.families.convex_loss import ConvexLossModel
from dpbayes_cli.privacy import noisy_descent
from dpbayes_cli.privacy.conversions import bisect_floats, bounded_range_rdp

_SLOPE = 1.0  # upper bound on the norm of the gradient of a record's loss, for rows of norm one
_SCALE = 1.3
"""Langevin proposals have the sd _SCALE / d^(1/6) in d dimensions. Under a normal law 3 of 4 are accepted."""
_NEWTON_STEPS = 100
_OUTSIDE = 1e300
"""The potential outside the ball. A chain that starts outside moves freely until it enters the ball for good."""
_RECORDS_AT_ONCE = 1 << 12
"""Number of records in a block, so that their linear predictors fit into the processor's cache."""


class Price(NamedTuple):
    """A privacy cost in exact decimals: either a Renyi divergence of an order, or an epsilon at a delta."""

    epsilon: str
    order: str | None = None
    delta: str | None = None

    @property
    def family(self) -> str:
        return f"order {self.order}" if self.order is not None else f"delta {self.delta}"


class LogisticLaw(NamedTuple):
    """A law with density proportional to exp(-T * (sum of losses) - (tau / 2) * |w|^2), or a Langevin chain on it."""

    likelihood_power: float  # the power T of the likelihood, and the prior precision
    tau: float
    radius: float | None = None  # the radius of the ball to which the coefficients are restricted; None: no restriction
    step_size: float | None = None  # the chain's step size and number of steps; None: draws are from the law itself
    n_steps: int | None = None


@dataclass(frozen=True)
class UnitRows(Design):
    """Rows of norm one: all entries are scaled to [-0.5, 0.5], then a row is divided by its norm.

    Privacy: each row depends on one record, and has norm one for every record.
    Source: Geumlek, Song and Chaudhuri 2017, sec. 5.2.
    """

    intercept: bool = False

    @property
    def row_norm(self) -> float:
        return 1.0

    @property
    def entries_per_row(self) -> int:
        return self.width  # an indicator that is off is -0.5, not 0

    @property
    def dense(self) -> bool:
        return True

    def rows(self, codes: Integers, n_records: int | None = None) -> Floats:
        whole = np.full((len(codes), self.width), -0.5)
        first = 0
        for i, feature in enumerate(self.features):
            if isinstance(feature.column, NumericColumn):
                whole[:, first] = feature.scaled(codes[:, i]) / 2.0
                first += 1
            else:
                whole[np.arange(len(codes)), first + codes[:, i]] = 0.5
                first += len(feature.column.levels)
        lengths = np.sqrt(np.square(whole).sum(axis=1, keepdims=True))
        return np.asarray(whole / np.maximum(lengths, 1e-300))


def law_at(method: str, price: Price | None, model: ConvexLossModel, n_records: int) -> LogisticLaw:
    """Return the law from which a method draws at a privacy cost, or the true posterior if ``price`` is None.

    Source: Geumlek, Song and Chaudhuri 2017, Algorithms 4 and 5, and Figure 3; Minami et al. 2016, Theorem 7; the rest
        is derived here.
    """
    tau = model.precision
    if price is None:
        return LogisticLaw(UNTEMPERED, tau)
    epsilon = float(price.epsilon)
    if method.endswith("-langevin"):
        options = LangevinOptions(epsilon=Decimal(price.epsilon))
        chains = Calibrator(model, options, n_records, model.curvature(n_records, 2))
        if method == "gdp-langevin":  # the largest power whose divergence or delta is within the cost
            mu = math.sqrt(2.0 * epsilon / float(price.order or "nan"))
            mu = mu if price.delta is None else noisy_descent.mu_of_statement(epsilon, float(price.delta))
            chain = chains.with_largest_power(mu * BELOW_TARGET)
        elif price.delta is not None:
            rule = noisy_descent.minami_likelihood_power(epsilon, float(price.delta), _SLOPE, tau)
            chain = chains.chain(min(UNTEMPERED, rule * BELOW_TARGET), tau)
        else:
            raise ValueError(f"{method} needs a privacy cost at a delta")
        return LogisticLaw(chain.likelihood_power, chain.tau, None, chain.step_size, chain.n_steps)
    if price.order is None:
        raise ValueError(f"{method} needs a privacy cost at a Renyi order")
    order = float(price.order)
    if method == "rdp-diffuse":
        return LogisticLaw(min(UNTEMPERED, noisy_descent.diffuse_likelihood_power(order, epsilon, _SLOPE, tau)), tau)
    if method == "rdp-concentrated":
        least = noisy_descent.concentrated_precision(order, epsilon, _SLOPE, UNTEMPERED)
        return LogisticLaw(UNTEMPERED, max(tau, least))
    radius = n_records / tau  # 1 / beta, the smallest ball that surely holds the most probable coefficients
    return LogisticLaw(min(UNTEMPERED, restricted_range(epsilon, order) / (2.0 * radius)), tau, radius)


def divergence_of_range(range_: float, order: float) -> float:
    """Return a bound on the Renyi divergence of an order, if log likelihood ratios vary by at most ``range_``.

    Source: Cesar and Rogers 2021. At order 1, pure DP implies the bound R * tanh(R / 2), and bounded range the bound
        R^2 / 8, where R is ``range_``.
    """
    if order > 1.0:
        return bounded_range_rdp(range_, order)
    return min(range_ * math.tanh(range_ / 2.0), range_**2 / 8.0)


def restricted_range(epsilon: float, order: float) -> float:
    """Return the largest range, rounded down, at which ``divergence_of_range`` is at most epsilon."""
    most = 4.0 * epsilon + 4.0 * math.sqrt(epsilon) + 4.0
    return bisect_floats(lambda range_: divergence_of_range(range_, order) <= epsilon, 0.0, most)[0]


def normals_from_the_end(rng: np.random.Generator, steps: int) -> Normals:
    """Return a source of normal numbers for a chain; chains of different lengths get equal numbers in the last steps.

    Two chains with nearly the same step size then end nearly in the same place, and differ by their laws alone.
    """
    left: list[Floats] = []

    def normals(shape: tuple[int, ...]) -> Floats:
        if not left:
            left.extend(rng.standard_normal((steps, *shape)))
        return left.pop()

    return normals


class LogisticPosterior(NamedTuple):
    """The posteriors of sets of records, with rows x, shape (n_sets, n, width), and classes y, shape (n_sets, n)."""

    x: Floats
    y: Floats
    law: LogisticLaw

    def potential(self, w: Floats) -> tuple[Floats, Floats]:
        """Return the potential, shape (n_sets, 1), and its gradient, shape (n_sets, width, 1)."""
        law, y, t = self.law, self.y[:, :, None], self.x @ w
        energy = law.likelihood_power * (np.logaddexp(0.0, t) - y * t).sum(axis=1)
        gradient = law.likelihood_power * (self.x.transpose(0, 2, 1) @ (expit(t) - y)) + law.tau * w
        return energy + 0.5 * law.tau * np.square(w).sum(axis=1), gradient

    def hessian(self, w: Floats) -> Floats:
        """Return the Hessian of the potential, shape (n_sets, width, width)."""
        share = expit(self.x @ w)
        curved = self.x.transpose(0, 2, 1) @ (self.x * (share * (1.0 - share)))
        return np.asarray(self.law.likelihood_power * curved + self.law.tau * np.eye(self.x.shape[2]))


def draw_posterior(posterior: LogisticPosterior, n_chains: int, steps: int, rng: Any) -> tuple[Floats, float, float]:
    """Run ``n_chains`` chains of at least four steps for each set of records.

    Returns:
        The last states of the chains, shape (n_sets, width, n_chains); the share of accepted proposals; and the largest
        R-hat of a coordinate of z over the second half of the steps, pooled over the sets.
    """
    sets, _, width = posterior.x.shape
    mode = mode_of(posterior)
    root = np.linalg.cholesky(posterior.hessian(mode[:, :, None]))
    back = np.linalg.inv(root).transpose(0, 2, 1)  # w = mode + back z
    target = _Target(posterior, mode, back)
    scale = _SCALE * width ** (-1.0 / 6.0)
    z = rng.standard_normal((sets, width, n_chains))
    energy, slope = target(z)
    accepted, watched = 0.0, []
    for k in range(steps):
        fresh = k % 2 == 0
        away = np.zeros(z.shape) if fresh else z - 0.5 * scale**2 * slope
        proposed = away + (1.0 if fresh else scale) * rng.standard_normal(z.shape)
        new_energy, new_slope = target(proposed)
        if fresh:
            ratio = energy - new_energy + (np.square(proposed) - np.square(z)).sum(axis=1) / 2.0
        else:
            there = np.square(proposed - away).sum(axis=1)
            again = np.square(z - proposed + 0.5 * scale**2 * new_slope).sum(axis=1)
            ratio = energy - new_energy + (there - again) / (2.0 * scale**2)
        taken = np.log(rng.random(ratio.shape)) < ratio
        accepted += float(taken.mean())
        z = np.where(taken[:, None, :], proposed, z)
        slope = np.where(taken[:, None, :], new_slope, slope)
        energy = np.where(taken, new_energy, energy)
        if 2 * k >= steps:
            watched.append(z)
    return mode[:, :, None] + back @ z, accepted / steps, _r_hat(np.array(watched))


class _Target:
    """The potential of z, minus its value at the mode. Single precision changes it by about 1e-4."""

    def __init__(self, posterior: LogisticPosterior, mode: Floats, back: Floats) -> None:
        self._law, self._mode, self._back = posterior.law, mode[:, :, None], back
        self._x = posterior.x.astype(np.float32)
        self._across = posterior.x.transpose(0, 2, 1) @ posterior.y[:, :, None]
        self._at_mode = self._losses(self._mode)[0]

    def __call__(self, z: Floats) -> tuple[Floats, Floats]:
        """Return the potential, shape (n_sets, n_chains), and the gradient in the shape of z."""
        law, w = self._law, self._mode + self._back @ z
        losses, slopes = self._losses(w)
        energy = law.likelihood_power * (losses - self._at_mode)
        energy += 0.5 * law.tau * (np.square(w).sum(axis=1) - np.square(self._mode).sum(axis=1))
        if law.radius is not None:
            energy = np.where(np.square(w).sum(axis=1) > law.radius**2, _OUTSIDE, energy)
        return energy, self._back.transpose(0, 2, 1) @ (law.likelihood_power * slopes + law.tau * w)

    def _losses(self, w: Floats) -> tuple[Floats, Floats]:
        total, slopes, narrow = -(self._across * w).sum(axis=1), np.zeros(w.shape) - self._across, w.astype(np.float32)
        for start in range(0, self._x.shape[1], _RECORDS_AT_ONCE):
            x = self._x[:, start : start + _RECORDS_AT_ONCE]
            t = x @ narrow
            small = np.exp(-np.abs(t))
            total += (np.maximum(t, 0.0) + np.log1p(small)).sum(axis=1, dtype=np.float64)
            slopes += x.transpose(0, 2, 1) @ (np.where(t >= 0.0, np.float32(1.0), small) / (np.float32(1.0) + small))
        return total, slopes


def _r_hat(states: Floats) -> float:
    """Return the largest R-hat of a coordinate, for states of shape (n, n_sets, width, n_chains)."""
    n = len(states)
    means = states.sum(axis=0) / n
    within = ((np.square(states).sum(axis=0) - n * means**2) / (n - 1)).mean(axis=2).sum(axis=0)
    between = means.var(axis=2, ddof=1).sum(axis=0)
    return float(np.sqrt((within * (n - 1) / n + between) / within).max())


def mode_of(posterior: LogisticPosterior) -> Floats:
    """Return the most probable coefficients, shape (n_sets, width), by Newton's method with step halving."""
    w = np.zeros((len(posterior.x), posterior.x.shape[2], 1))
    energy, slope = posterior.potential(w)
    for _ in range(_NEWTON_STEPS):
        step = np.linalg.solve(posterior.hessian(w), slope)
        decrement = (slope * step).sum(axis=1)
        if float(decrement.max()) < 1e-16:
            break
        size = np.ones((len(w), 1, 1))
        for _ in range(40):
            tried = w - size * step
            new_energy, new_slope = posterior.potential(tried)
            worse = new_energy > energy - 1e-4 * size[:, :, 0] * decrement + 1e-9 * np.abs(energy)
            if not worse.any():
                break
            size = np.where(worse[:, :, None], size / 2.0, size)
        w, energy, slope = tried, new_energy, new_slope
    return np.asarray(w[:, :, 0])
