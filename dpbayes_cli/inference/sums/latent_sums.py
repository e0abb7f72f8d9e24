"""Hamiltonian chains over the latent sums of all records, given the noisy ones.

The sums have a prior, and the noise is independent. The posterior of the sums is as wide as the noise or as the prior,
whichever is narrower, however many records there are; the parameters are then drawn exactly, given the sums.

The inverse mass matrix resembles the covariance of the posterior: first it is the inverse of the Hessian at the mode,
then that of the mean Hessian at the chains, and last the draws of a warm-up correct it. After the warm-up the proposals
are fixed, and the chains are independent. At the kinks of Laplace noise forces are smoothed. The chains still have the
exact posterior: the leapfrog map is reversible and preserves volume for any force that depends only on the position,
and the acceptance ratio has the exact density.

Source: Neal 2011, MCMC using Hamiltonian dynamics; the rest is derived here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from dpbayes_cli.base.eigen import eigh
from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.noisy_observation import NoisySums
from dpbayes_cli.core.record_law import LatentSums

_SMOOTHED_SCALES = 0.75
"""The forces of Laplace noise are smoothed over this many noise scales around a kink, divided by the cube root of the
number of sums. The errors of all energies together then have the same size for any number of sums, and small steps are
accepted."""
_SMOOTHED_SCALES_OF_HESSIANS = 1.0
"""A Hessian near kinks that are smoothed over so many noise scales is about the mean Hessian of the posterior."""
_HESSIAN_STEP = 1e-4
_LEAST_CURVATURE = 0.05
"""Curvatures below this are raised to it; the coordinates have priors of about unit width."""
_HESSIANS = 8
"""The mean is over the Hessians of so many chains. With it, 10 and 30 features need a third of the evaluations."""
_WARM_UP, _SHORT_WARM_UP = (40, 60, 40), (15, 20, 10)
_TARGET_ACCEPTANCE = 0.75
_TRAJECTORY = 2.8
"""The longest trajectory in standardized coordinates; half of it and all of it lie on both sides of a quarter turn."""
_SHORT_STEPS = 0.1
"""So many trajectories have a fifth of the step: without them, a chain may reject for ever in a narrow place."""
_MAX_STEPS = 64
_HESSIAN_BATCH = 128
_MAX_SEARCH = 500
_MAX_COORDINATE = 1e6
_MAX_LOG_TOTAL = 60.0


class LatentSumsSampler:
    """Chains for many observations that differ only in their observed values, shape (n_observations, n_components)."""

    def __init__(
        self,
        observation: NoisySums,
        law: LatentSums,
        observed: Floats,
        chains: int,
        rng: np.random.Generator,
        *,
        short: bool = False,
    ):
        self._observation, self._law, self._rng, self._noise = observation, law, rng, observation.noise
        self._observed, self._by_point = observed[:, None, :], np.repeat(observed, chains, axis=0)
        self._total, self._shape = observation.total, (len(observed), chains)
        decay = observation.noise.decay
        self._exact = decay is not None and decay.exact
        self._exponential = decay is None or decay.exponential
        self._scale = observation.noise.scale if self._exponential else math.sqrt(observation.noise.variance)
        self._width = _SMOOTHED_SCALES / observed.shape[1] ** (1.0 / 3.0)
        modes = np.array([self._search(each) for each in self._observed])[:, None]
        self._set_root(self._mean_hessian(modes))
        self._points = modes + 0.1 * self._normal() @ self._root.mT
        self._points = np.where(np.isfinite(self._evaluate(self._points)[0])[..., None], self._points, modes)
        self._log_density, self._gradient = self._evaluate(self._points)
        first, second, last = _SHORT_WARM_UP if short else _WARM_UP
        self._warm_up(first)
        self._set_root(self._mean_hessian(self._points[:, :_HESSIANS]))
        self._rescale(self._warm_up(second))
        self._warm_up(last)

    def run(self, n_draws: int, thinning: int = 1) -> Floats:
        """Return the next draws: coordinates and number of records, shape (n_observations, chains, n_draws, p + 1)."""
        draws = np.empty((*self._shape, n_draws, self._law.dimension + 1))
        for i in range(n_draws):
            for _ in range(thinning):
                self._sweep()
            points, totals, _, _ = self._split(self._points.reshape(-1, self._size))
            draws[:, :, i, :-1], draws[:, :, i, -1] = points.reshape(*self._shape, -1), totals.reshape(self._shape)
        return draws

    @property
    def _size(self) -> int:
        return self._law.dimension + (self._total.kind != "known")

    def _normal(self) -> Floats:
        return self._rng.standard_normal((*self._shape, self._size))

    def _split(self, points: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the coordinates, the number of records m, its log prior density as a coordinate, and derivatives.

        Points have the shape (n, p). The last coordinate x is log m if m is unbounded, and the logit of m / n if m is
        uniform. If probably all records are valid, it is the logit of a uniform number; m = n if this is below 1/2, and
        above it log(1 + n - m) rises in proportion to it, up to log(1 + n).

        Returns:
            The last result holds the derivatives of m and of the log density by x, shape (2, n).
        """
        n, kind = float(self._total.n), self._total.kind
        if kind == "known":
            return points, np.full(len(points), n), np.zeros(len(points)), np.zeros((2, len(points)))
        x = np.clip(points[:, -1], -_MAX_LOG_TOTAL, _MAX_LOG_TOTAL)
        if kind == "unbounded":
            return points[:, :-1], np.exp(x), x, np.stack([np.exp(x), np.ones_like(x)])
        share = expit(x)
        density = share * expit(-x)
        totals, slopes = n * share, n * density
        if self._total.is_mostly_n:
            steepness = 2.0 * math.log1p(n)
            missing = np.expm1(steepness * np.maximum(share - 0.5, 0.0))
            totals = np.maximum(n - missing, 1.0)
            slopes = np.where((x > 0.0) & (totals > 1.0), -(1.0 + missing) * steepness * density, 0.0)
        return points[:, :-1], totals, np.log(density), np.stack([slopes, 1.0 - 2.0 * share])

    def _start(self, observed: Floats) -> Floats:
        """Return the point at which the search for the mode begins."""
        start, n = np.zeros(self._size), float(self._total.n)
        if self._total.kind != "known":
            number = max(observed[0, -1] / self._observation.valid, 1.0)
            if self._total.kind == "unbounded":
                start[-1] = math.log(number)
            elif self._total.is_mostly_n:
                start[-1] = logit(0.5 + 0.45 * math.log1p(max(n - number, 0.0)) / math.log1p(n))
            else:
                start[-1] = logit(min(max(number / n, 0.01), 0.99))
        return start

    def _evaluate(self, points: Floats) -> tuple[Floats, Floats]:
        """Return log densities and their gradients at points, shape (n_observations, chains, p)."""
        log_density, gradient = self._density(points.reshape(-1, self._size), self._by_point, smooth=False)
        return log_density.reshape(self._shape), gradient.reshape(points.shape)

    def _density(self, points: Floats, observed: Floats, *, smooth: bool) -> tuple[Floats, Floats]:
        """Return log densities at points, shape (n, p), and their smoothed gradients; ``smooth`` smooths both."""
        inside = np.asarray((np.abs(points) < _MAX_COORDINATE).all(axis=1))
        coordinates, totals, log_total, (of_x, slope) = self._split(np.where(inside[:, None], points, 0.0))
        with np.errstate(all="ignore"):
            log_prior, sums, pull_back = self._law.evaluate(coordinates, totals)
            away = (observed - sums) / self._scale
            width = _SMOOTHED_SCALES_OF_HESSIANS if smooth else self._width
            gradient = np.tanh(away / width) if self._exponential else away
            if not self._exponential and (self._exact or smooth):
                log_noise = -0.5 * away**2
            elif smooth:
                wide = np.abs(away) / width
                log_noise = -width * (wide + np.log1p(np.exp(-2.0 * wide)))
            elif self._exact:
                log_noise = -np.abs(away)
            else:
                log_noise = self._noise.log_pmf(np.rint(away * self._scale).astype(np.int64))
            of_points, of_totals = pull_back(gradient / self._scale)
            log_density = np.where(inside, log_prior + log_noise.sum(axis=1) + log_total, -np.inf)
            if self._size > of_points.shape[1]:
                of_points = np.column_stack([of_points, of_totals * of_x + slope])
        log_density[np.isnan(log_density)] = -np.inf
        return log_density, np.where(np.isfinite(of_points), of_points, 0.0)

    def _mean_hessian(self, points: Floats) -> Floats:
        """Return the mean Hessian of minus the log density over points, shape (n_observations, n, p)."""
        n_observations, n, p = points.shape
        flat, rows, result = points.reshape(-1, p), np.arange(points.size), np.zeros((n_observations, p, p))
        for start in range(0, len(rows), _HESSIAN_BATCH):
            part = rows[start : start + _HESSIAN_BATCH]
            steps, which = _HESSIAN_STEP * np.eye(p)[part % p], part // (n * p)
            observed = self._observed[which, 0]
            ends = [self._density(flat[part // p] + sign * steps, observed, smooth=True)[1] for sign in (-1.0, 1.0)]
            np.add.at(result, (which, part % p), (ends[0] - ends[1]) / (2.0 * _HESSIAN_STEP * n))
        return result

    def _set_root(self, hessians: Floats) -> None:
        """Take the inverses of Hessians, shape (n_observations, p, p), as the inverse mass matrices."""
        roots = []
        for hessian in hessians:
            values, vectors = eigh((hessian + hessian.T) / 2.0)
            roots.append(vectors / np.sqrt(np.maximum(np.abs(values), _LEAST_CURVATURE)))
        self._root = np.array(roots)
        self._inverse_mass = self._root @ self._root.mT
        self._log_step = np.full((len(roots), 1), math.log(1.2 / self._size**0.25))

    def _search(self, observed: Floats) -> Floats:
        def objective(point: Floats) -> tuple[float, Floats]:
            log_density, gradient = self._density(point[None], observed, smooth=True)
            return (-float(log_density[0]), -gradient[0]) if np.isfinite(log_density[0]) else (1e300, 0.0 * point)

        options: Any = {"maxiter": _MAX_SEARCH, "maxcor": 20}
        minimum = minimize(objective, self._start(observed), jac=True, method="L-BFGS-B", options=options)
        return np.asarray(minimum.x)

    def _warm_up(self, length: int) -> Floats:
        """Adapt the step sizes; return the points without the first third, shape (n_observations, n, p)."""
        points = []
        for _ in range(length):
            self._sweep(adapt=True)
            points.append(self._points)
        return np.concatenate(points[length // 3 :], axis=1)

    def _rescale(self, points: Floats) -> None:
        """Correct the inverse mass matrix by points, shape (n_observations, n, p)."""
        offset = np.linalg.solve(self._root, (points - points.mean(axis=1, keepdims=True)).mT)
        n, index = points.shape[1], np.arange(self._size)
        covariance = min(1.0, n / (20.0 * self._size)) * offset @ offset.mT / n
        covariance[:, index, index] = (offset**2).mean(axis=2)
        self._root = self._root @ np.linalg.cholesky(covariance)
        self._inverse_mass = self._root @ self._root.mT

    def _sweep(self, *, adapt: bool = False) -> None:
        """Move all chains by one trajectory; ``adapt`` also adapts the step size of each observation."""
        rng = self._rng
        factor = np.where(rng.random((*self._shape, 1)) < _SHORT_STEPS, 0.2, 1.0) * rng.uniform(
            0.7, 1.2, (*self._shape, 1)
        )
        step = np.exp(self._log_step)[:, :, None] * factor
        n_steps = min(max(math.ceil(_TRAJECTORY / float(np.exp(self._log_step).min())), 1), _MAX_STEPS)
        n_steps = int(rng.integers((n_steps + 1) // 2, n_steps, endpoint=True))
        points, gradient, velocity = self._points, self._gradient, self._normal() @ self._root.mT
        start, impulse = velocity, 0.5 * step * gradient
        change = impulse @ self._inverse_mass
        for i in range(n_steps):
            velocity = velocity + change
            points = points + step * velocity
            log_density, gradient = self._evaluate(points)
            push = (0.5 if i == n_steps - 1 else 1.0) * step * gradient
            impulse = impulse + push
            change = push @ self._inverse_mass
        with np.errstate(over="ignore", invalid="ignore"):
            gain = 0.5 * (impulse * (start + velocity + change)).sum(axis=2)  # of kinetic energy
            log_ratio = log_density - self._log_density - gain
        log_ratio = np.where(np.isnan(log_ratio), -np.inf, log_ratio)
        accept = np.log(rng.random(self._shape)) < log_ratio
        self._points = np.where(accept[..., None], points, self._points)
        self._gradient = np.where(accept[..., None], gradient, self._gradient)
        self._log_density = np.where(accept, log_density, self._log_density)
        if adapt:
            rate = np.exp(np.minimum(log_ratio, 0.0)).mean(axis=1, keepdims=True)
            self._log_step = np.minimum(self._log_step + 0.3 * (rate - _TARGET_ACCEPTANCE), 0.0)
