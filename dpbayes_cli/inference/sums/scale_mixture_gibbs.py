"""Gibbs sampler given noisy sums over many records, for any record law with known moments.

Given the parameters, the sum of m records is nearly normal, N(m mu(theta), m Sigma(theta)). Laplace noise is a scale
mixture of normal laws: it is normal given its variance, which is exponentially distributed. A sweep draws

1. (theta, m) given the noise variances, with the sum integrated out: y ~ N(m mu, m Sigma + diag(variances));
2. the noise given theta, m and the variances; it is normal;
3. the noise variances given the noise; their inverses are inverse-Gaussian.

Gaussian noise has a fixed variance, so steps 2 and 3 are skipped. Noise of unknown shape is proposed as Laplace noise
of the same scale. Every proposal then includes a draw of the noise, and its acceptance ratio includes the ratio of the
two noise laws.

Bernstein and Sheldon instead draw theta in step 1 from its conjugate posterior given the sum. The moves of their chain
are then as short as the spread of the data, although the posterior is as wide as the noise: at n = 1,000 and epsilon
0.01 their chain needs thousands of sweeps for one independent draw.

The chains of many observations are one array. Proposals are scaled by the posterior covariance, which is estimated
during warm-up, first from a population of points that moves from the prior to the posterior. After warm-up the
proposals are fixed, and the chains are independent.

Source: Bernstein and Sheldon 2018 Alg. 1-3; Park and Casella 2008 (scale mixture); Del Moral, Doucet and Jasra 2006
(the population); the rest is derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.core.noisy_observation import NoisySums
from dpbayes_cli.core.record_law import RecordLaw
from dpbayes_cli.core.section import require_type
from dpbayes_cli.inference.sums.sequential_monte_carlo import distinct_share, next_power, resample
from dpbayes_cli.inference.sums.small_matrices import cholesky, plus_diagonal, square_and_determinant

_MAX_STAGES = 60
_MIN_MOVES, _MAX_MOVES = 3, 8
"""The smallest and the largest number of moves of a population after resampling. In many dimensions a population is
moved again, with shorter and shorter steps, while less than half of its points are distinct."""
_WARM_UP_WINDOWS = {(False, False): (50, 75), (False, True): (50, 75, 250), (True, False): (50,), (True, True): (25,)}
_SMALL_POPULATION_DIMENSIONS = 4
"""Up to this dimension populations of 64 points suffice; in 8 dimensions one of 50 such populations collapsed."""
_HAMILTONIAN_DIMENSIONS, _SHORT_HAMILTONIAN_DIMENSIONS = 9, 20
"""From this dimension on, proposals are Hamiltonian trajectories; below, random walks and independent proposals are
cheaper. The second one is for the population of a short warm-up, whose chains forget it."""
_LEAPFROG_STEP = 0.5
_DIFFERENCE = 1e-4
_MAX_FORCE = 1e6
_MAX_COORDINATE = 1e15
_POINT_FIELDS = ("points", "residual", "spread", "log_prior", "log_likelihood")
_TAIL_DF = 5.0
"""Degrees of freedom of the t law of independent proposals, whose tails are heavier than the posterior's."""


@dataclass
class GibbsState:
    """The states of the chains.

    Attributes:
        points: the coordinates, and the number of records unless it is known, shape (n_observations, chains, d). Under
            the prior ``mostly-valid``, the number is given as log(1 + n - number), and each value below 0 stands for n;
            under ``perhaps-valid``, each number above n does.
        variances: the variances of the noise, shape (n_observations, chains, components).
        residual, spread: y - m mu and m Sigma at the points, in units of the noise's standard deviation.
        log_prior: the log prior density of the points, shape (n_observations, chains).
        log_likelihood: the log likelihood of the points given the variances.
        log_ratio: the log density of the noise minus its log density under a Laplace law; 0 if the shape of the noise
            is known.
        noise: the noise, in units of its standard deviation, shape as ``variances``; 0 if its shape is known.
    """

    points: Floats
    variances: Floats
    residual: Floats
    spread: Floats
    log_prior: Floats
    log_likelihood: Floats
    log_ratio: Floats
    noise: Floats

    def select(self, chosen: Integers) -> GibbsState:
        """Return the states of the chains with the given indices, shape (n_observations, n_chosen)."""
        observation = np.arange(len(chosen))[:, None]
        return GibbsState(*(getattr(self, field.name)[observation, chosen] for field in fields(self)))


class ScaleMixtureSampler:
    """Chains for many observations that differ only in their observed values, shape (n_observations, n_components)."""

    def __init__(
        self, observation: NoisySums, observed: Floats, chains: int, rng: np.random.Generator, *, short: bool = False
    ) -> None:
        self._law = require_type(observation.law, RecordLaw)
        self._short_warm_up, self._largest_count = short, math.inf
        self._hamiltonian_dimensions = _SHORT_HAMILTONIAN_DIMENSIONS if short else _HAMILTONIAN_DIMENSIONS
        self._observed, self._rng = observed[:, None, :], rng
        self._noise, decay = observation.noise, observation.noise.decay
        self._laplace, self._corrected = decay is None or decay.exponential, False
        self._noise_variance = 2.0 * observation.noise.scale**2 if decay is None else observation.noise.variance
        self._known_count = float(observation.total.n) if observation.total.kind == "known" else None
        self._most_missing = math.log1p(observation.total.n) if observation.total.is_mostly_n else 0.0
        self._least, most = -(self._most_missing or 0.5), self._most_missing or observation.total.n + 0.5
        if observation.total.prior == "perhaps-valid":
            self._largest_count = n = float(observation.total.n)
            most += min(math.sqrt(self._noise_variance) / observation.valid, n)
        self._most = np.full((len(observed), 1), most)  # the range of the last coordinate is from _least to _most
        if observation.total.kind == "unbounded":
            reach = observation.noise.radius(40.0) / observation.valid
            self._most = np.maximum(observed[:, -1:] / observation.valid, 0.0) * 2.0 + reach + 0.5
        self._factor: Floats
        self._whitening: Floats
        self._center: Floats
        self._state = self._start(chains)

    def run(self, n_draws: int, thinning: int = 1) -> Floats:
        """Return the next draws: coordinates and number of records, shape (n_observations, chains, n_draws, p + 1)."""
        n_observations, chains, _ = self._state.points.shape
        draws = np.empty((n_observations, chains, n_draws, self._law.dimension + 1))
        for i in range(n_draws):
            for _ in range(thinning):
                self._sweep()
            draws[:, :, i, :-1], draws[:, :, i, -1] = self._split_points(self._state.points)
        return draws

    def _split_points(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the coordinates and the number of records."""
        if self._known_count is not None:
            return points, np.full(points.shape[:-1], self._known_count)
        totals = points[..., -1]
        if self._most_missing:
            totals = np.expm1(self._most_missing) - np.expm1(np.clip(totals, 0.0, self._most_missing))
        return points[..., :-1], np.minimum(totals, self._largest_count)

    def _log_prior(self, points: Floats) -> Floats:
        with np.errstate(all="ignore"):
            log_prior = self._law.log_prior(self._split_points(points)[0])
        log_prior = np.where((np.abs(points) < _MAX_COORDINATE).all(axis=-1), log_prior, -np.inf)
        if self._known_count is None:
            log_prior = np.where((points[..., -1] > self._least) & (points[..., -1] < self._most), log_prior, -np.inf)
        return np.where(np.isnan(log_prior), -np.inf, log_prior)

    def _residual(self, points: Floats) -> tuple[Floats, Floats]:
        """Return y - m mu and m Sigma, in units of the noise's standard deviation."""
        coordinates, totals = self._split_points(np.where(np.abs(points) < _MAX_COORDINATE, points, 0.0))
        with np.errstate(all="ignore"):
            mean, covariance = self._law.moments(coordinates)
            totals = np.maximum(totals, 0.0)
            residual = (self._observed - totals[..., None] * mean) / math.sqrt(self._noise_variance)
            return residual, covariance * (totals[..., None, None] / self._noise_variance)

    def _log_normal(self, residual: Floats, spread: Floats, variances: Floats) -> Floats:
        """Return log N(y; m mu, m Sigma + diag(variances)), -inf if the moments are not finite."""
        with np.errstate(all="ignore"):
            square, log_determinant = square_and_determinant(
                plus_diagonal(spread, variances / self._noise_variance), residual
            )
            result = -0.5 * (square + log_determinant)
        return np.where(np.isfinite(result), result, -np.inf)

    def _start(self, chains: int) -> GibbsState:
        """Move a population from the prior to the posterior, and warm up chains that start at its points."""
        n_observations = len(self._observed)
        large = n_observations == 1 or self._law.dimension > _SMALL_POPULATION_DIMENSIONS
        size = max(4 * chains, (128 if self._short_warm_up else 256) if large else 64)
        points = self._draw_prior(n_observations, size)
        state = self._state_at(points, np.full((n_observations, size, self._observed.shape[-1]), self._noise_variance))
        power = np.zeros((n_observations, 1))
        for _ in range(_MAX_STAGES):
            increased = next_power(power, state.log_likelihood)
            relative = state.log_likelihood - state.log_likelihood.max(axis=1, keepdims=True)
            state = state.select(resample(np.exp((increased - power) * relative), self._rng))
            power = increased
            self._adapt(state.points, shrink=True)
            for i in range(_MAX_MOVES):
                self._move(state, power, 0.5 ** max(0, i + 1 - _MIN_MOVES))
                if i + 1 >= _MIN_MOVES and (
                    points.shape[-1] < self._hamiltonian_dimensions or distinct_share(state.points) >= 0.5
                ):
                    break
            if (power >= 1.0).all():
                break
        self._hamiltonian_dimensions = _HAMILTONIAN_DIMENSIONS
        self._adapt(state.points, shrink=True)
        self._state = state.select(np.tile(np.arange(chains), (n_observations, 1)))
        if self._noise.decay is None:
            self._corrected = True
            self._propose_noise(self._state)
        for length in _WARM_UP_WINDOWS[self._short_warm_up, points.shape[-1] >= _HAMILTONIAN_DIMENSIONS]:
            kept = []
            for i in range(length):
                self._sweep()
                if i >= length // 4:
                    kept.append(self._state.points.copy())
            self._adapt(np.concatenate(kept, axis=1))
        return self._state

    def _state_at(self, points: Floats, variances: Floats) -> GibbsState:
        residual, spread = self._residual(points)
        log_likelihood = self._log_normal(residual, spread, variances)
        log_prior, log_ratio, noise = self._log_prior(points), np.zeros(points.shape[:-1]), np.zeros(residual.shape)
        return GibbsState(points, variances, residual, spread, log_prior, log_likelihood, log_ratio, noise)

    def _draw_prior(self, n_observations: int, size: int) -> Floats:
        drawn = self._law.draw_prior(n_observations * size, self._rng).reshape(n_observations, size, -1)
        if self._known_count is not None:
            return drawn
        last = self._least + self._rng.random((n_observations, size)) * (self._most - self._least)
        return np.concatenate([drawn, last[..., None]], axis=-1)

    def _adapt(self, points: Floats, *, shrink: bool = False) -> None:
        """Scale proposals by the mean and the covariance of points; ``shrink`` halves correlations of few points."""
        self._center = points.mean(axis=1, keepdims=True)
        offset = points - self._center
        covariance = np.einsum("pci,pcj->pij", offset, offset) / points.shape[1]
        index = np.arange(covariance.shape[-1])
        diagonal = covariance[:, index, index]
        if shrink and points.shape[1] < 20 * points.shape[2]:
            covariance = covariance / 2.0
        covariance[:, index, index] = diagonal * (1.0 + 1e-6) + 1e-14 + 1e-12 * self._center[:, 0, :] ** 2
        self._factor = np.asarray(np.linalg.cholesky(covariance))
        self._whitening = np.asarray(np.linalg.inv(self._factor))

    def _propose_random_walk(self, points: Floats) -> Floats:
        """Propose random-walk steps, scaled by the estimated posterior covariance."""
        scale = 2.38 / math.sqrt(points.shape[-1]) * np.exp(self._rng.normal(0.0, 0.5, (*points.shape[:-1], 1)))
        return points + scale * (self._rng.normal(size=points.shape) @ np.swapaxes(self._factor, -1, -2))

    def _propose_independently(self, points: Floats) -> tuple[Floats, Floats]:
        """Propose points from a t law; also return its log density at the current minus that at the new points."""
        d = points.shape[-1]
        normal = self._rng.normal(size=points.shape)
        chi = np.sqrt(self._rng.chisquare(_TAIL_DF, (*points.shape[:-1], 1)) / _TAIL_DF)
        standard = normal / chi
        proposal = self._center + standard @ np.swapaxes(self._factor, -1, -2)
        current = (points - self._center) @ np.swapaxes(self._whitening, -1, -2)
        squares = [(z**2).sum(axis=-1) for z in (current, standard)]
        here, there = (-0.5 * (_TAIL_DF + d) * np.log1p(q / _TAIL_DF) for q in squares)
        return proposal, here - there

    def _sweep(self) -> None:
        state = self._state
        self._move(state, 1.0)
        if self._laplace:
            state.variances = self._draw_variances(self._redraw_noise(state))
            state.log_likelihood = self._log_normal(state.residual, state.spread, state.variances)

    def _move(self, state: GibbsState, power: Floats | float, step: float = 1.0) -> None:
        """Move by a random walk and an independent proposal, or in many dimensions by Hamiltonian trajectories.

        The likelihood is raised to ``power``.
        """
        if state.points.shape[-1] >= self._hamiltonian_dimensions:
            self._accept(state, *self._propose_trajectories(state, power, step), power)
        else:
            self._accept(state, self._propose_random_walk(state.points), 0.0, power)
            self._accept(state, *self._propose_independently(state.points), power)

    def _accept(self, state: GibbsState, proposal: Floats, correction: Floats | float, power: Floats | float) -> None:
        new = self._state_at(proposal, state.variances)
        ratio = new.log_prior - state.log_prior + power * (new.log_likelihood - state.log_likelihood) + correction
        if self._corrected:
            possible = np.isfinite(ratio)
            for name in ("residual", "spread"):
                getattr(new, name)[~possible] = getattr(state, name)[~possible]
            self._propose_noise(new)
            ratio = ratio + new.log_ratio - state.log_ratio
        accept = np.log(self._rng.random(ratio.shape)) < ratio
        for name in _POINT_FIELDS + (("log_ratio", "noise") if self._corrected else ()):
            getattr(state, name)[accept] = getattr(new, name)[accept]

    def _propose_trajectories(self, state: GibbsState, power: Floats | float, step: float) -> tuple[Floats, Floats]:
        """Propose the ends of Hamiltonian trajectories; also return the kinetic term of the log acceptance ratio.

        Trajectories are computed in standardized coordinates. The force is approximate: the covariance of the
        likelihood is that at the center of the posterior, and gradients are difference quotients. Still the chain has
        the exact posterior; see ``latent_sums``.
        """
        d = state.points.shape[-1]
        length = step * _LEAPFROG_STEP / d**0.25 * self._rng.uniform(0.6, 1.2, (*state.points.shape[:-1], 1))
        n_steps = math.ceil(1.6 * d**0.25 / _LEAPFROG_STEP)
        _, spread = self._residual(self._center)
        total = plus_diagonal(np.nan_to_num(spread, posinf=0.0), state.variances / self._noise_variance)
        precision = np.asarray(np.linalg.inv(total))
        momentum = self._rng.normal(size=state.points.shape)
        at_start = -0.5 * (momentum**2).sum(axis=-1)
        points = state.points
        momentum = momentum + 0.5 * length * self._force(points, precision, power)
        for i in range(n_steps):
            points = points + length * momentum @ np.swapaxes(self._factor, -1, -2)
            factor = 1.0 if i < n_steps - 1 else 0.5
            momentum = momentum + factor * length * self._force(points, precision, power)
        return points, -0.5 * (momentum**2).sum(axis=-1) - at_start

    def _force(self, points: Floats, precision: Floats, power: Floats | float) -> Floats:
        """Return the approximate gradient of the log posterior in standardized coordinates."""
        n, chains, d = points.shape
        offset = np.concatenate([np.zeros((n, 1, d)), _DIFFERENCE * np.swapaxes(self._factor, -1, -2)], axis=1)
        cloud = points[:, :, None, :] + offset[:, None, :, :]
        log_prior = self._log_prior(cloud.reshape(n, chains * (d + 1), d)).reshape(n, chains, d + 1)
        coordinates, totals = self._split_points(np.where(np.abs(cloud) < _MAX_COORDINATE, cloud, 0.0))
        with np.errstate(all="ignore"):
            mean = totals[..., None] * self._law.mean(coordinates)
            residual = (self._observed[:, :, None, :] - mean) / math.sqrt(self._noise_variance)
            middle = 0.5 * (residual + residual[:, :, :1])
            # r' P r - r0' P r0 = (r - r0)' P (r + r0) avoids the cancellation of nearly equal squares
            change = -((residual - residual[:, :, :1]) @ precision * middle).sum(axis=-1)
            force = (log_prior - log_prior[..., :1] + np.asarray(power)[..., None] * change)[..., 1:] / _DIFFERENCE
        return np.where(np.isfinite(force), np.clip(force, -_MAX_FORCE, _MAX_FORCE), 0.0)

    def _propose_noise(self, state: GibbsState) -> None:
        """Draw the noise in place as if it were Laplace noise, and set the log ratio of the two noise laws."""
        state.noise = self._draw_noise(state)
        z = np.rint(state.noise * math.sqrt(self._noise_variance)).astype(np.int64)
        state.log_ratio = (self._noise.log_pmf(z) + math.sqrt(2.0) * np.abs(state.noise)).sum(axis=-1)

    def _redraw_noise(self, state: GibbsState) -> Floats:
        """Redraw and return the noise given parameters and variances; a rejected proposal leaves it as it was."""
        if not self._corrected:
            return self._draw_noise(state)
        new = replace(state)
        self._propose_noise(new)
        accept = np.log(self._rng.random(new.log_ratio.shape)) < new.log_ratio - state.log_ratio
        state.noise[accept], state.log_ratio[accept] = new.noise[accept], new.log_ratio[accept]
        return state.noise

    def _draw_noise(self, state: GibbsState) -> Floats:
        """Draw the noise given parameters and variances, in units of its standard deviation.

        Noise and residual are jointly normal: both are drawn, and the noise is then corrected for the actual residual.
        """
        scaled = state.variances / self._noise_variance
        free = np.sqrt(scaled) * self._rng.normal(size=scaled.shape)
        spread = plus_diagonal(state.spread, 1e-9 * scaled)
        scale = np.sqrt(np.diagonal(spread, axis1=-2, axis2=-1))
        factor, _ = cholesky(spread / (scale[..., :, None] * scale[..., None, :]))
        other = scale * (factor @ self._rng.normal(size=(*scaled.shape, 1)))[..., 0]
        total = plus_diagonal(state.spread, scaled)
        return free + scaled * np.linalg.solve(total, (state.residual - free - other)[..., None])[..., 0]

    def _draw_variances(self, noise: Floats) -> Floats:
        """Draw the variances given the noise.

        In units of the noise's variance, their inverses are inverse-Gaussian with mean sqrt 2 / |noise| and shape 2.
        """
        means = math.sqrt(2.0) / np.maximum(np.abs(noise), 1e-8)
        return self._noise_variance / np.maximum(self._rng.wald(means, 2.0), 1e-12)
