"""The augmented sampler for sums of many records: any statistic whose moments are known, Laplace or Gaussian noise.

Given the parameters the sum of m records is nearly normal, N(m mu(theta), m Sigma(theta)), and Laplace noise is a
normal law with an exponentially distributed variance. A sweep draws

1. (theta, m) given the noise variances, the sum being integrated out: y ~ N(m mu, m Sigma + diag(variances));
2. the sum, or what is the same the noise, given all of these: a product of two normal laws;
3. the noise variances given the noise: their inverses are inverse-Gaussian.

Gaussian noise has one variance, and no steps 2 and 3. Noise of no such shape is taken for Laplace noise of its scale,
and the noise is drawn with every proposal, which is accepted by the ratio of the two laws, too.

Bernstein and Sheldon draw theta given the sum in place of step 1, from its conjugate law. Where noise is larger than
the spread of the data such a chain moves by the latter and must cross the former: at n = 1,000 and epsilon 0.01 it
needs thousands of sweeps for one independent draw. Here the sum is not conditioned on. What the records contribute,
records out of bounds included, is in mu and Sigma: no latent regions, and no covariances between them, are needed.

Many observations and many chains are one array. Steps are scaled by the posterior covariance, learned during warm-up
from a population that is led from the prior to the posterior; then the kernel is frozen, and the chains are
independent.

Source: Bernstein and Sheldon 2018 Alg. 1-3; Park and Casella 2008 (scale mixture); Del Moral, Doucet and Jasra 2006
(the population); mechanisms, noise-aware inference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.core.noisy_observation import NoisySums, RecordLaw
from dpbayes_cli.inference.sums.population import distinct, next_power, resampled
from dpbayes_cli.inference.sums.small_matrices import cholesky, plus_diagonal, square_and_determinant

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpbayes_cli.base.numeric import Floats, Integers

    Rows = NDArray[np.bool_]

_STAGES = 60
_MOVES = 3
_MOST_MOVES = 8
"""Of a population of many dimensions half of the points must be distinct, or it spans too little space: until they are
it is moved on, by ever shorter steps."""
_WINDOWS = (50, 75, 250)
_FEW_DIMENSIONS = 4
"""Up to here a population of 64 is enough; of 8 dimensions one in 50 of that size was lost on its way."""
_MANY_DIMENSIONS = 9
"""From here on Hamiltonian trajectories; below, steps and leaps cost less for the same."""
_STEP = 0.5
_DIFFERENCE = 1e-4
_STRONGEST = 1e6
_FARTHEST = 1e15
_OF_POINTS = ("points", "residual", "spread", "log_prior", "log_likelihood")
_TAIL_DF = 5.0
"""Degrees of freedom of the independent proposals: heavier tails than the posterior has."""


@dataclass
class GibbsState:
    """Where the chains are.

    Attributes:
        points: the coordinates, and where the number of records is not known, that number: (observations, chains, d).
        variances: of the noise, shape (observations, chains, components).
        residual, spread: y - m mu and m Sigma at the points, in units of the noise's standard deviation.
        noise: in these units, of the shape of the variances, where the law of noise is no mixture; else zeros.
        log_prior: of the points, shape (observations, chains).
        log_likelihood: of the points given the variances.
        log_ratio: of the law of the noise to the mixture of normal laws, at the noise; zero where they are one.
    """

    points: Floats
    variances: Floats
    residual: Floats
    spread: Floats
    log_prior: Floats
    log_likelihood: Floats
    log_ratio: Floats
    noise: Floats

    def taken(self, chosen: Integers) -> GibbsState:
        """Return the state of some chains, chosen by their indices, shape (observations, n_chosen)."""
        observation = np.arange(len(chosen))[:, None]
        return GibbsState(*(getattr(self, item.name)[observation, chosen] for item in fields(self)))


class ScaleMixtureSampler:
    """Chains for one or many observations that differ in their observations alone.

    Args:
        observation: the law, the noise and the total.
        observed: privatized statistics, shape (n_problems, n_components).
        chains: chains an observation.
        rng: the generator.
    """

    def __init__(self, observation: NoisySums, observed: Floats, chains: int, rng: np.random.Generator) -> None:
        self._law: RecordLaw = observation.law
        self._observed = observed[:, None, :]
        self._rng = rng
        self._noise, decay = observation.noise, observation.noise.decay
        self._laplace, self._corrected = decay is None or decay.exponential, False
        self._noise_variance = 2.0 * observation.noise.scale**2 if decay is None else observation.noise.variance
        self._known = float(observation.total.n) if observation.total.kind == "known" else None
        self._highest = self._highest_total(observation, observed)
        self._factor: Floats
        self._whitening: Floats
        self._centre: Floats
        self._state = self._start(chains)

    def run(self, n_draws: int, thinning: int = 1) -> Floats:
        """Return the next draws: coordinates and number of records, shape (observations, chains, n_draws, p + 1)."""
        observations, chains, _ = self._state.points.shape
        draws = np.empty((observations, chains, n_draws, self._law.dimension + 1))
        for i in range(n_draws):
            for _ in range(thinning):
                self._sweep()
            coordinates, totals = self._parts(self._state.points)
            draws[:, :, i, :-1], draws[:, :, i, -1] = coordinates, totals
        return draws

    def _highest_total(self, observation: NoisySums, observed: Floats) -> Floats:
        """Return an upper end of the number of records, shape (n_problems, 1)."""
        if observation.total.kind == "unbounded":
            reach = observation.noise.radius(40.0) / observation.valid
            return np.maximum(observed[:, -1:] / observation.valid, 0.0) * 2.0 + reach + 0.5
        return np.full((len(observed), 1), observation.total.n + 0.5)

    def _parts(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the coordinates and the number of records."""
        if self._known is not None:
            return points, np.full(points.shape[:-1], self._known)
        return points[..., :-1], points[..., -1]

    def _log_prior(self, points: Floats) -> Floats:
        coordinates, totals = self._parts(points)
        with np.errstate(all="ignore"):
            log_prior = self._law.log_prior(coordinates)
        log_prior = np.where((np.abs(points) < _FARTHEST).all(axis=-1), log_prior, -np.inf)
        if self._known is None:
            log_prior = np.where((totals > -0.5) & (totals < self._highest), log_prior, -np.inf)
        return np.where(np.isnan(log_prior), -np.inf, log_prior)

    def _residual(self, points: Floats) -> tuple[Floats, Floats]:
        """Return y - m mu and m Sigma, in units of the noise's standard deviation."""
        coordinates, totals = self._parts(np.where(np.abs(points) < _FARTHEST, points, 0.0))
        with np.errstate(all="ignore"):
            mean, covariance = self._law.moments(coordinates)
            totals = np.maximum(totals, 0.0)
            residual = (self._observed - totals[..., None] * mean) / math.sqrt(self._noise_variance)
            return residual, covariance * (totals[..., None, None] / self._noise_variance)

    def _log_normal(self, residual: Floats, spread: Floats, variances: Floats) -> Floats:
        """Return log N(y; m mu, m Sigma + diag(variances)), -inf where the moments are not finite."""
        with np.errstate(all="ignore"):
            square, log_determinant = square_and_determinant(
                plus_diagonal(spread, variances / self._noise_variance), residual
            )
            result = -0.5 * (square + log_determinant)
        return np.where(np.isfinite(result), result, -np.inf)

    def _start(self, chains: int) -> GibbsState:
        """Lead a population from the prior to the posterior, and warm the chains up from it."""
        n_problems = len(self._observed)
        size = max(4 * chains, 256 if n_problems == 1 or self._law.dimension > _FEW_DIMENSIONS else 64)
        points = self._draw_prior(n_problems, size)
        state = self._state_at(points, np.full((n_problems, size, self._observed.shape[-1]), self._noise_variance))
        power = np.zeros((n_problems, 1))
        for _ in range(_STAGES):
            step = next_power(power, state.log_likelihood)
            relative = state.log_likelihood - state.log_likelihood.max(axis=1, keepdims=True)
            state = state.taken(resampled(np.exp((step - power) * relative), self._rng))
            power = step
            self._adapt(state.points, shrinking=True)
            for i in range(_MOST_MOVES):
                self._move(state, power, 0.5 ** max(0, i + 1 - _MOVES))
                if i + 1 >= _MOVES and (points.shape[-1] < _MANY_DIMENSIONS or distinct(state.points) >= 0.5):
                    break
            if (power >= 1.0).all():
                break
        self._adapt(state.points, shrinking=True)
        self._state = state.taken(np.tile(np.arange(chains), (n_problems, 1)))
        if self._noise.decay is None:
            self._corrected = True
            self._propose_noise(self._state)
        for length in _WINDOWS if points.shape[-1] >= _MANY_DIMENSIONS else _WINDOWS[:2]:
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
        none = np.zeros(points.shape[:-1])
        log_prior, noise = self._log_prior(points), np.zeros(residual.shape)
        return GibbsState(points, variances, residual, spread, log_prior, log_likelihood, none, noise)

    def _draw_prior(self, n_problems: int, size: int) -> Floats:
        drawn = self._law.draw_prior(n_problems * size, self._rng).reshape(n_problems, size, -1)
        if self._known is not None:
            return drawn
        totals = self._rng.random((n_problems, size)) * self._highest
        return np.concatenate([drawn, totals[..., None]], axis=-1)

    def _adapt(self, points: Floats, *, shrinking: bool = False) -> None:
        """Learn location and spread of the posterior, by observation; from few points with correlations cut in half."""
        self._centre = points.mean(axis=1, keepdims=True)
        away = points - self._centre
        covariance = np.einsum("pci,pcj->pij", away, away) / points.shape[1]
        index = np.arange(covariance.shape[-1])
        diagonal = covariance[:, index, index]
        if shrinking and points.shape[1] < 20 * points.shape[2]:
            covariance = covariance / 2.0
        covariance[:, index, index] = diagonal * (1.0 + 1e-6) + 1e-14 + 1e-12 * self._centre[:, 0, :] ** 2
        self._factor = np.asarray(np.linalg.cholesky(covariance))
        self._whitening = np.asarray(np.linalg.inv(self._factor))

    def _steps(self, points: Floats) -> Floats:
        """Propose steps that are scaled by the posterior's covariance."""
        d = points.shape[-1]
        scale = 2.38 / math.sqrt(d) * np.exp(self._rng.normal(0.0, 0.5, (*points.shape[:-1], 1)))
        return points + scale * (self._rng.normal(size=points.shape) @ np.swapaxes(self._factor, -1, -2))

    def _leaps(self, points: Floats) -> tuple[Floats, Floats]:
        """Propose points anywhere, from a t law; return the log ratio of its densities as well."""
        d = points.shape[-1]
        normal = self._rng.normal(size=points.shape)
        chi = np.sqrt(self._rng.chisquare(_TAIL_DF, (*points.shape[:-1], 1)) / _TAIL_DF)
        standard = normal / chi
        proposal = self._centre + standard @ np.swapaxes(self._factor, -1, -2)
        now = (points - self._centre) @ np.swapaxes(self._whitening, -1, -2)
        squares = [(z**2).sum(axis=-1) for z in (now, standard)]
        here, there = (-0.5 * (_TAIL_DF + d) * np.log1p(q / _TAIL_DF) for q in squares)
        return proposal, here - there

    def _sweep(self) -> None:
        """Move the points, and redraw the noise and its variances."""
        state = self._state
        self._move(state, 1.0)
        if self._laplace:
            state.variances = self._draw_variances(self._moved_noise(state))
            state.log_likelihood = self._log_normal(state.residual, state.spread, state.variances)

    def _move(self, state: GibbsState, power: Floats | float, step: float = 1.0) -> None:
        """Move by one step and one leap, or in many dimensions along a trajectory; the likelihood counts to a power."""
        if state.points.shape[-1] >= _MANY_DIMENSIONS:
            self._accept(state, *self._trajectories(state, power, step), power)
        else:
            self._accept(state, self._steps(state.points), 0.0, power)
            self._accept(state, *self._leaps(state.points), power)

    def _accept(self, state: GibbsState, proposal: Floats, correction: Floats | float, power: Floats | float) -> None:
        """Accept or reject proposals by the Metropolis-Hastings rule, in place."""
        new = self._state_at(proposal, state.variances)
        ratio = new.log_prior - state.log_prior + power * (new.log_likelihood - state.log_likelihood) + correction
        if self._corrected:
            possible = np.isfinite(ratio)
            for name in ("residual", "spread"):
                getattr(new, name)[~possible] = getattr(state, name)[~possible]
            self._propose_noise(new)
            ratio = ratio + new.log_ratio - state.log_ratio
        accept = np.log(self._rng.random(ratio.shape)) < ratio
        for name in _OF_POINTS + (("log_ratio", "noise") if self._corrected else ()):
            getattr(state, name)[accept] = getattr(new, name)[accept]

    def _trajectories(self, state: GibbsState, power: Floats | float, step: float) -> tuple[Floats, Floats]:
        """Propose the ends of Hamiltonian trajectories in standardized coordinates, with the change of kinetic energy.

        The forces are those of a likelihood whose covariance stays what it is in the middle of the posterior, by
        difference quotients: the leapfrog map is reversible and keeps volume with any field of forces that depends on
        the position alone, and the true density decides about its end.
        """
        d = state.points.shape[-1]
        length = step * _STEP / d**0.25 * self._rng.uniform(0.6, 1.2, (*state.points.shape[:-1], 1))
        steps = math.ceil(1.6 * d**0.25 / _STEP)
        _, spread = self._residual(self._centre)
        total = plus_diagonal(np.nan_to_num(spread, posinf=0.0), state.variances / self._noise_variance)
        precision = np.asarray(np.linalg.inv(total))
        momentum = self._rng.normal(size=state.points.shape)
        before = -0.5 * (momentum**2).sum(axis=-1)
        points = state.points
        momentum = momentum + 0.5 * length * self._force(points, precision, power)
        for i in range(steps):
            points = points + length * momentum @ np.swapaxes(self._factor, -1, -2)
            factor = 1.0 if i < steps - 1 else 0.5
            momentum = momentum + factor * length * self._force(points, precision, power)
        kinetic = -0.5 * (momentum**2).sum(axis=-1)
        return points, kinetic - before

    def _force(self, points: Floats, precision: Floats, power: Floats | float) -> Floats:
        """Return the gradient of log prior and likelihood in standardized coordinates."""
        n, chains, d = points.shape
        away = np.concatenate([np.zeros((n, 1, d)), _DIFFERENCE * np.swapaxes(self._factor, -1, -2)], axis=1)
        cloud = points[:, :, None, :] + away[:, None, :, :]
        log_prior = self._log_prior(cloud.reshape(n, chains * (d + 1), d)).reshape(n, chains, d + 1)
        coordinates, totals = self._parts(np.where(np.abs(cloud) < _FARTHEST, cloud, 0.0))
        with np.errstate(all="ignore"):
            mean = totals[..., None] * self._law.mean(coordinates)
            residual = (self._observed[:, :, None, :] - mean) / math.sqrt(self._noise_variance)
            middle = 0.5 * (residual + residual[:, :, :1])
            # r' P r - r0' P r0 = (r - r0)' P (r + r0): differences of nearly equal squares would lose their digits
            change = -((residual - residual[:, :, :1]) @ precision * middle).sum(axis=-1)
            force = (log_prior - log_prior[..., :1] + np.asarray(power)[..., None] * change)[..., 1:] / _DIFFERENCE
        return np.where(np.isfinite(force), np.clip(force, -_STRONGEST, _STRONGEST), 0.0)

    def _propose_noise(self, state: GibbsState) -> None:
        """Draw the noise as if its law were the mixture, and note the ratio of the two laws there."""
        state.noise = self._draw_noise(state)
        z = np.rint(state.noise * math.sqrt(self._noise_variance)).astype(np.int64)
        state.log_ratio = (self._noise.log_pmf(z) + math.sqrt(2.0) * np.abs(state.noise)).sum(axis=-1)

    def _moved_noise(self, state: GibbsState) -> Floats:
        """Return the noise, drawn anew given parameters and variances, or kept where a ratio of laws says so."""
        if not self._corrected:
            return self._draw_noise(state)
        new = GibbsState(**{item.name: getattr(state, item.name) for item in fields(state)})
        self._propose_noise(new)
        accept = np.log(self._rng.random(new.log_ratio.shape)) < new.log_ratio - state.log_ratio
        state.noise[accept], state.log_ratio[accept] = new.noise[accept], new.log_ratio[accept]
        return state.noise

    def _draw_noise(self, state: GibbsState) -> Floats:
        """Draw the noise given parameters and variances, in units of its standard deviation.

        Noise and residual are jointly normal: a draw of both, moved by what the residual turned out to be.
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
        """Draw the variances given noise of variance 2 b^2 = 1: their inverses have mean sqrt 2 / |noise|, shape 2."""
        means = math.sqrt(2.0) / np.maximum(np.abs(noise), 1e-8)
        return self._noise_variance / np.maximum(self._rng.wald(means, 2.0), 1e-12)
