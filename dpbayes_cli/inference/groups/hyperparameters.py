"""Draw hyperparameters from a density of a few unconstrained coordinates: mode and curvature, then weighted draws.

The mode is found by Newton steps on finite differences. The proposals are multivariate t laws: the first has the mode
and the curvature there, and each later one has the weighted mean and covariance of all points so far. A point's weight
is its density divided by that of the mixture of all proposals (deterministic mixture weights). Points are taken from a
randomly shifted lattice (Kronecker sequence), so that averages over them have smaller errors than over independent
points. Proposals are added until the effective sample size is large enough.

Source: Cornuet, Marin, Mira and Robert 2012 (adaptive multiple importance sampling).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaincinv, ndtri

from dpbayes_cli.base.eigen import eigh
from dpbayes_cli.base.numeric import normalize

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Booleans, Floats

LogDensity = Callable[["Floats"], "Floats"]
"""Maps points, shape (n, d), to log densities up to a common constant, shape (n,)."""
_DEGREES = 6.0
_INFLATION = 1.15
_LEAST_PRECISION = 0.05
_NEWTON_STEPS = 40
_MOST_ROUNDS = 12
_ENOUGH_NATS = 0.005
_IMPOSSIBLE = -1e299
"""Where parameters are beyond their bounds, log densities are less than this."""


@dataclass(frozen=True, eq=False)
class WeightedPoints:
    """Points with importance weights.

    Attributes:
        points: shape (n, d).
        weights: non-negative, adding up to one, shape (n,).
        log_mass: an estimate of the log of the integral of the density, up to a constant that depends only on d.
    """

    points: Floats
    weights: Floats
    log_mass: float = 0.0

    @property
    def ess(self) -> float:
        """The effective sample size of the weights."""
        return float(1.0 / (self.weights**2).sum())

    @property
    def moments(self) -> tuple[Floats, Floats]:
        """The mean of the weighted points, shape (d,), and the Cholesky factor of their covariance, shape (d, d)."""
        center = self.weights @ self.points
        rest = self.points - center
        return center, np.asarray(np.linalg.cholesky((rest.T * self.weights) @ rest + 1e-14 * np.eye(len(center))))

    def resample(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw points independently with probabilities equal to the weights, shape (size, d)."""
        return np.asarray(self.points[rng.choice(len(self.weights), size, p=self.weights)])

    def thin(self, size: int, rng: np.random.Generator) -> Floats:
        """Return ``size`` equally weighted points by systematic resampling, ordered by the first coordinate."""
        order = np.argsort(self.points[:, 0])
        places = (np.arange(size) + rng.random()) / size
        index = np.searchsorted(np.cumsum(self.weights[order]), places)
        return np.asarray(self.points[order[np.minimum(index, len(order) - 1)]])


@dataclass(frozen=True, eq=False)
class Proposal:
    """A multivariate t law with 6 degrees of freedom.

    Attributes:
        center: shape (d,).
        root: the Cholesky factor of the squared scale, shape (d, d).
    """

    center: Floats
    root: Floats

    def draw(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw points, shape (size, d), from a randomly shifted lattice."""
        uniform = _lattice(size, len(self.center) + 1, rng)
        radius = np.sqrt(_DEGREES / (2.0 * gammaincinv(_DEGREES / 2.0, uniform[:, :1])))
        return np.asarray(self.center + (radius * ndtri(uniform[:, 1:])) @ self.root.T)

    def log_density(self, points: Floats) -> Floats:
        """Return the log density at points, up to a constant that all proposals share, shape (n,)."""
        standard = np.linalg.solve(self.root, (points - self.center).T)
        d = len(self.center)
        log_det = np.log(np.abs(np.diag(self.root))).sum()
        return np.asarray(-(_DEGREES + d) / 2.0 * np.log1p((standard**2).sum(axis=0) / _DEGREES) - log_det)


def sample_density(
    log_density: LogDensity, starts: Floats, size: int, least_ess: float, rng: np.random.Generator
) -> WeightedPoints:
    """Return weighted draws from a density.

    Args:
        log_density: the log density.
        starts: rough guesses of the mode, shape (n_starts, d); the best is used.
        size: how many points each proposal draws.
        least_ess: the effective sample size at which no more proposals are added.
        rng: the generator.
    """
    return sample_around(log_density, peak_proposal(log_density, starts), size, least_ess, rng)


def peak_proposal(log_density: LogDensity, starts: Floats) -> Proposal:
    """Return a proposal with the mode and the curvature of a density; see ``sample_density``."""
    mode, precision = find_mode(log_density, starts)
    return Proposal(mode, _root(np.asarray(np.linalg.inv(precision), dtype=np.float64)))


def sample_around(
    log_density: LogDensity, proposal: Proposal, size: int, least_ess: float, rng: np.random.Generator
) -> WeightedPoints:
    """Return weighted draws from a density, given the first proposal; see ``sample_density``."""
    proposals = [proposal]
    points, values = np.empty((0, len(proposal.center))), np.empty(0)
    while True:
        points = np.concatenate([points, proposals[-1].draw(size, rng)])
        values = np.concatenate([values, log_density(points[-size:])])
        mixture = np.logaddexp.reduce([each.log_density(points) for each in proposals], axis=0)
        log_mass = float(np.logaddexp.reduce(values - mixture)) - math.log(size)
        sample = WeightedPoints(points, normalize(values - mixture), log_mass)
        if (sample.ess >= least_ess and len(proposals) > 1) or len(proposals) == _MOST_ROUNDS:
            return sample
        proposals.append(_moment_proposal(sample, proposals[-1]))


def find_mode(log_density: LogDensity, starts: Floats) -> tuple[Floats, Floats]:
    """Return the mode of a density, shape (d,), and a positive definite matrix near minus the Hessian there."""
    values = log_density(starts)
    point, value = starts[int(np.argmax(values))], float(values.max())
    steps = np.full(starts.shape[1], 0.1)
    for _ in range(_NEWTON_STEPS):
        gradient, hessian, bounded = _derivatives(log_density, point, value, steps)
        roots, vectors = eigh(-hessian)
        roots = np.maximum(np.abs(roots), _LEAST_PRECISION)
        move = vectors @ ((vectors.T @ gradient) / roots)
        move *= min(1.0, 2.0 / float(np.abs(move).max() + 1e-300))
        steps = np.where(bounded, 1.0, 0.3) / np.sqrt(np.abs(np.diag(hessian)) + 1e-12)
        steps = np.clip(steps, 1e-5, 0.3)
        trials = point + np.multiply.outer([1.5, 1.0, 0.5, 0.2, 0.05], move)
        values = log_density(trials)
        gain = float(values.max()) - value
        if gain > 0:
            point, value = trials[int(np.argmax(values))], float(values.max())
        if gain < _ENOUGH_NATS:
            break
    _, hessian, _ = _derivatives(log_density, point, value, steps)
    roots, vectors = eigh(-hessian)
    return point, np.asarray((vectors * np.maximum(roots, _LEAST_PRECISION)) @ vectors.T)


def ess_warnings(ess: float, least: float) -> tuple[str, ...]:
    """Return a warning if the draws of the hyperparameters have an effective sample size below ``least``."""
    return () if ess >= least else (f"the draws of the hyperparameters are worth only {ess:.0f} independent ones",)


def _derivatives(
    log_density: LogDensity, point: Floats, value: float, steps: Floats
) -> tuple[Floats, Floats, Booleans]:
    """Return the gradient, the Hessian, and whether a step leads beyond a bound of a parameter, shape (d,).

    Across a bound the density may be normal or exponential. The curvature is that of a normal density that is wide
    enough for both, if the log density falls by about 2 in a step. If it rises away from the bound, it is taken for
    linear.
    """
    d = len(point)
    axes = np.diag(steps)
    first, second = np.triu_indices(d, 1)
    pairs = axes[first] + axes[second]
    values = log_density(point + np.concatenate([axes, -axes, pairs, -pairs]))
    (up, down), (both, neither) = values[: 2 * d].reshape(2, d), values[2 * d :].reshape(2, -1)
    bounded, inside = np.minimum(up, down) < _IMPOSSIBLE, np.maximum(up, down)
    less = np.where(inside < _IMPOSSIBLE, 1.0, value - inside)
    rises = less < 0.0
    missing = [rises & (each < _IMPOSSIBLE) for each in (up, down)]
    up, down = (np.where(bounded & ~rises, value - 0.25 * less, each) for each in (up, down))
    up, down = (np.where(each, value + less, side) for each, side in zip(missing, (up, down), strict=True))
    hessian = np.diag((up + down - 2.0 * value) / steps**2)
    mixed = both + neither + 2.0 * value - (up + down)[first] - (up + down)[second]
    mixed *= ~(bounded[first] | bounded[second]) & (np.minimum(both, neither) > _IMPOSSIBLE)
    hessian[first, second] = hessian[second, first] = mixed / (2.0 * steps[first] * steps[second])
    return (up - down) / (2.0 * steps), hessian, bounded


def _moment_proposal(sample: WeightedPoints, previous: Proposal) -> Proposal:
    """Return a proposal with the moments of a sample; if few points are effective, shrunk to the previous proposal."""
    center = sample.weights @ sample.points
    rest = sample.points - center
    trust = min(1.0, sample.ess / (10.0 * len(center)))
    covariance = trust * (rest.T * sample.weights) @ rest + (1.0 - trust) * previous.root @ previous.root.T
    return Proposal(center, _root(np.asarray(covariance)))


def _root(covariance: Floats) -> Floats:
    """Return the Cholesky factor of an inflated covariance."""
    return np.asarray(np.linalg.cholesky(_INFLATION * covariance + 1e-14 * np.eye(len(covariance))))


def _lattice(size: int, dimension: int, rng: np.random.Generator) -> Floats:
    """Return a randomly shifted Kronecker sequence in the open unit cube, shape (size, dimension)."""
    ratio = 2.0
    for _ in range(60):
        ratio = (1.0 + ratio) ** (1.0 / (dimension + 1.0))
    steps = np.arange(1, size + 1)[:, None] * ratio ** -np.arange(1.0, dimension + 1.0)
    return np.asarray(np.clip((steps + rng.random(dimension)) % 1.0, 1e-12, 1.0 - 1e-12))
