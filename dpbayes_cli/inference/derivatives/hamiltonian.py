"""Hamiltonian Monte Carlo of several chains at once, with a fixed metric."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpbayes_cli.base.eigen import eigh
from dpbayes_cli.base.numeric import Floats

Density = Callable[[Floats], tuple[Floats, Floats]]
"""A function of points, shape (n, size), that returns log densities, shape (n,), and their gradients."""
_TARGET = 0.8
"""The share of accepted moves at which the step size aims."""
_PATH = 2.4
"""The length of a path in units of the standard deviation. A quarter of a period is pi / 2; paths are longer, because
some directions are wider than the metric says."""
_MAX_LEAPS = 48
_SHORT, _SHORT_SHARE = 0.25, 0.15
"""In a share of the moves, steps are shorter by this factor, so that chains leave regions of strong curvature."""
_START_SD = 0.2
"""Chains start near the center, because far from it the law may be far from normal."""
_HALVINGS = 30
"""A chain starts nearer to the center, halving the distance so often at most, until its log density is no more below
that of the center than is usual for draws. Elsewhere all its moves could be rejected, and the step size of all chains
would follow."""
_LEAST_VARIANCE = 1e-6
_SHRINKAGE = 5.0
"""The present metric weighs as much as this many states for each dimension."""


class HamiltonianChains:
    """Chains of a law whose covariance is roughly that of given factors.

    The step size is adapted during the warm-up, which is run at the start, and is fixed from then on.

    Attributes:
        least_accepted: the smallest share of accepted moves of a chain at the end of the warm-up.
    """

    def __init__(
        self,
        density: Density,
        center: Floats,
        factor: Floats,
        chains: int,
        rng: np.random.Generator,
        *,
        warm_up: int = 40,
    ) -> None:
        """Start chains near ``center``; the covariance of the law is roughly factor @ factor.T.

        Args:
            warm_up: the number of moves before each adaptation of the metric, and before the step size is fixed.
        """
        self._density, self._center, self._factor, self._rng = density, center, factor, rng
        self._z = _START_SD * rng.standard_normal((chains, len(center)))
        self._value, self._gradient = self._at(self._z)
        least = self._at(np.zeros(self._z.shape))[0] - 0.5 * len(center)
        for _ in range(_HALVINGS):
            far = ~(self._value >= least)
            self._z[far] *= 0.5
            self._value, self._gradient = self._at(self._z)
        self._step = 0.7 * len(center) ** -0.25
        for _ in range(2):
            self._adapt_metric(self._adapt_step(warm_up))
        self._adapt_step(warm_up)
        accepted = np.zeros(chains)
        for _ in range(warm_up):
            before = self._value
            self._move(1.0)
            accepted += self._value != before
        self.least_accepted = float(accepted.min()) / warm_up

    def _adapt_step(self, n_moves: int) -> Floats:
        """Move toward a step size with the target acceptance; return the states in the second half of the moves."""
        states, log_steps = [], []
        for i in range(n_moves):
            accepted = self._move(1.0)
            self._step *= float(np.exp((accepted - _TARGET) / np.sqrt(1.0 + i / 4.0)))
            if i >= n_moves // 2:
                states.append(self._z)
                log_steps.append(np.log(self._step))
        self._step = float(np.exp(np.mean(log_steps)))
        return np.concatenate(states)

    def _adapt_metric(self, states: Floats) -> None:
        """Set the metric to the covariance of the states, shrunk toward the present metric.

        Small variances are shrunk by their logarithms: one direction that is much narrower than the metric says would
        make the steps of all small.
        """
        size = states.shape[1]
        share = len(states) / (len(states) + _SHRINKAGE * size)
        variances, directions = eigh(np.cov(states.T))
        variances = np.maximum(variances, _LEAST_VARIANCE)
        root = directions * np.sqrt(np.where(variances > 1.0, share * variances + 1.0 - share, variances**share))
        center = states.mean(axis=0)
        self._center = self._center + self._factor @ center
        self._factor = self._factor @ root
        self._z = np.linalg.solve(root, (self._z - center).T).T
        self._value, self._gradient = self._at(self._z)

    def run(self, length: int, thinning: int, path: float = _PATH) -> Floats:
        """Return the next draws of all chains, shape (chains, length, size).

        Args:
            path: the length of a path in units of the standard deviation. Shorter ones take less time, and leave draws
                more alike.
        """
        draws = np.empty((len(self._z), length, len(self._center)))
        for i in range(length):
            for _ in range(thinning):
                short = self._rng.random() < _SHORT_SHARE
                self._move(float(self._rng.uniform(0.8, 1.2)) * (_SHORT if short else 1.0), path)
            draws[:, i] = self._center + self._z @ self._factor.T
        return draws

    def _at(self, z: Floats) -> tuple[Floats, Floats]:
        value, gradient = self._density(self._center + z @ self._factor.T)
        return value, gradient @ self._factor

    def _move(self, jitter: float, path: float = _PATH) -> float:
        step = self._step * jitter
        leaps = int(np.clip(np.ceil(path / step), 1, _MAX_LEAPS))
        z, gradient, value = self._z.copy(), self._gradient, self._value
        momentum = self._rng.standard_normal(z.shape)
        energy = value - 0.5 * (momentum**2).sum(axis=1)
        with np.errstate(all="ignore"):  # a path that leaves the range of floats is rejected
            momentum = momentum + 0.5 * step * gradient
            for leap in range(leaps):
                z = z + step * momentum
                value, gradient = self._at(z)
                momentum = momentum + (0.5 if leap == leaps - 1 else 1.0) * step * gradient
            change = value - 0.5 * (momentum**2).sum(axis=1) - energy
        change = np.where(np.isfinite(change) & np.isfinite(gradient).all(axis=1), np.minimum(change, 0.0), -np.inf)
        accept = np.log(self._rng.random(len(z))) < change
        self._z = np.where(accept[:, None], z, self._z)
        self._gradient = np.where(accept[:, None], gradient, self._gradient)
        self._value = np.where(accept, value, self._value)
        return float(np.exp(change).mean())


def factor_at(density: Density, mode: Floats) -> Floats:
    """Return a matrix F such that F @ F.T is the inverse of the curvature of the log density at its mode.

    Where the curvature has the other sign, because the mode was not quite found, its absolute value is used.
    """
    size = len(mode)
    steps = 1e-4 * np.eye(size)
    slopes = (density(mode + steps)[1] - density(mode - steps)[1]) / 2e-4
    curvatures, vectors = eigh(-0.5 * (slopes + slopes.T))
    smallest = max(1e-2, 1e-8 * float(curvatures.max()))
    return np.asarray(vectors / np.sqrt(np.maximum(np.abs(curvatures), smallest)))
