"""Draws that stand for exact ones from posteriors of logistic regression: Metropolis chains from Laplace's law.

Exact draws do not exist for these posteriors; this is the idealized form of methods that need them, for simulations
only. Chains run on z = L'(w - mode), LL' the Hessian at the mode, where the posterior is nearly standard normal, from
draws of that law. A step proposes a fresh draw of it, and the next one goes down the gradient with noise, which is at
home in heavier tails; each is accepted or rejected, so that the posterior is invariant.

Source: Tierney 1994 (mixtures of kernels); Roberts and Tweedie 1996 (Metropolis-adjusted Langevin).
    Geumlek et al. 2017 have 1,000 steps of slice sampling in its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_SCALE = 1.3
"""Times d^(-1/6): the standard deviation of a proposal. Of a normal law three of four are accepted then."""
_NEWTON = 100
_OUTSIDE = 1e300
"""The potential outside the ball: a chain that starts there may go anywhere, and once inside never leaves."""
_PIECE = 1 << 12
"""Records at once: their predictors stay in the caches."""


@dataclass(frozen=True)
class LogisticPosterior:
    """exp(-rho sum of losses - (tau / 2) |w|^2) within a ball, for one or several sets of records.

    Attributes:
        x, y: rows and classes, shapes (n_sets, n, width) and (n_sets, n).
        rho, tau: temperature and prior precision.
        radius: of the ball, or None.
    """

    x: Floats
    y: Floats
    rho: float
    tau: float
    radius: float | None = None


@dataclass(frozen=True)
class Drawn:
    """The last states of chains, and what tells how they went.

    Attributes:
        draws: shape (n_sets, width, n_chains).
        acceptance: the share of accepted proposals.
        r_hat: of the worst coordinate of z, all sets taken together, over the second half of the steps.
    """

    draws: Floats
    acceptance: float
    r_hat: float


def draw_posterior(posterior: LogisticPosterior, n_chains: int, steps: int, rng: np.random.Generator) -> Drawn:
    """Run chains for a number of steps and return their last states.

    Args:
        posterior: the law, for several sets of records at once.
        n_chains: how many chains a set.
        steps: how many proposals, at least four.
        rng: the generator.
    """
    sets, _, width = posterior.x.shape
    mode = mode_of(posterior)
    root = np.linalg.cholesky(_hessian(posterior, mode[:, :, None]))
    back = np.linalg.inv(root).transpose(0, 2, 1)  # w = mode + back z
    target = _Target(posterior, mode, back)
    scale = _SCALE * width ** (-1.0 / 6.0)
    z = rng.standard_normal((sets, width, n_chains))
    energy, slope = target(z)
    accepted, watched = 0.0, _Watched(z.shape)
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
            watched.add(z)
    return Drawn(mode[:, :, None] + back @ z, accepted / steps, watched.r_hat())


class _Target:
    """The potential of z, less its value at the mode, and its gradient.

    Linear predictors are taken in single precision: of a potential that is off by some 1e-4 then.
    """

    def __init__(self, posterior: LogisticPosterior, mode: Floats, back: Floats) -> None:
        self._posterior, self._mode, self._back = posterior, mode[:, :, None], back
        x, y = posterior.x, posterior.y
        self._x = x.astype(np.float32)
        self._across = x.transpose(0, 2, 1) @ y[:, :, None]
        self._at_mode = self._losses(self._mode)[0]

    def __call__(self, z: Floats) -> tuple[Floats, Floats]:
        """Return the potential, shape (n_sets, n_chains), and the gradient, as z."""
        at, back = self._posterior, self._back
        w = self._mode + back @ z
        losses, slopes = self._losses(w)
        energy = at.rho * (losses - self._at_mode)
        energy += 0.5 * at.tau * (np.square(w).sum(axis=1) - np.square(self._mode).sum(axis=1))
        gradient = at.rho * slopes + at.tau * w
        if at.radius is not None:
            energy = np.where(np.square(w).sum(axis=1) > at.radius**2, _OUTSIDE, energy)
        return energy, back.transpose(0, 2, 1) @ gradient

    def _losses(self, w: Floats) -> tuple[Floats, Floats]:
        """Return the sums of losses and of their gradients."""
        total = -(self._across * w).sum(axis=1)
        slopes = np.zeros(w.shape) - self._across
        narrow = w.astype(np.float32)
        for start in range(0, self._x.shape[1], _PIECE):
            x = self._x[:, start : start + _PIECE]
            t = x @ narrow
            small = np.exp(-np.abs(t))
            total += (np.maximum(t, 0.0) + np.log1p(small)).sum(axis=1, dtype=np.float64)
            share = np.where(t >= 0.0, np.float32(1.0), small) / (np.float32(1.0) + small)
            slopes += x.transpose(0, 2, 1) @ share
        return total, slopes


class _Watched:
    """Sums over the states of chains, from which R-hat follows."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._n, self._sum, self._squares = 0, np.zeros(shape), np.zeros(shape)

    def add(self, z: Floats) -> None:
        """Take a state in."""
        self._n += 1
        self._sum += z
        self._squares += z * z

    def r_hat(self) -> float:
        """Return R-hat of the worst coordinate: of the variances within and between chains, summed over the sets."""
        n = self._n
        means = self._sum / n
        within = ((self._squares - n * means**2) / (n - 1)).mean(axis=2).sum(axis=0)
        between = means.var(axis=2, ddof=1).sum(axis=0)
        return float(np.sqrt((within * (n - 1) / n + between) / within).max())


def mode_of(posterior: LogisticPosterior) -> Floats:
    """Return the most probable coefficients, shape (n_sets, width): Newton's method with halved steps."""
    w = np.zeros((len(posterior.x), posterior.x.shape[2], 1))
    energy, slope = _potential(posterior, w)
    for _ in range(_NEWTON):
        step = np.linalg.solve(_hessian(posterior, w), slope)
        decrement = (slope * step).sum(axis=1)
        if float(decrement.max()) < 1e-16:
            break
        size = np.ones((len(w), 1, 1))
        for _ in range(40):
            tried = w - size * step
            new_energy, new_slope = _potential(posterior, tried)
            worse = new_energy > energy - 1e-4 * size[:, :, 0] * decrement + 1e-9 * np.abs(energy)
            if not worse.any():
                break
            size = np.where(worse[:, :, None], size / 2.0, size)
        w, energy, slope = tried, new_energy, new_slope
    return np.asarray(w[:, :, 0])


def _potential(posterior: LogisticPosterior, w: Floats) -> tuple[Floats, Floats]:
    """Return the potential, shape (n_sets, 1), and its gradient, shape (n_sets, width, 1)."""
    from scipy.special import expit

    x, y = posterior.x, posterior.y[:, :, None]
    t = x @ w
    energy = posterior.rho * (np.logaddexp(0.0, t) - y * t).sum(axis=1)
    gradient = posterior.rho * (x.transpose(0, 2, 1) @ (expit(t) - y)) + posterior.tau * w
    return energy + 0.5 * posterior.tau * np.square(w).sum(axis=1), gradient


def _hessian(posterior: LogisticPosterior, w: Floats) -> Floats:
    """Return the Hessian of the potential, shape (n_sets, width, width)."""
    from scipy.special import expit

    share = expit(posterior.x @ w)
    weighted = posterior.x * (share * (1.0 - share))
    unit = np.eye(posterior.x.shape[2])
    return np.asarray(posterior.rho * (posterior.x.transpose(0, 2, 1) @ weighted) + posterior.tau * unit)
