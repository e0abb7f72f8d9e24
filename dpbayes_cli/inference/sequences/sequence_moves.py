"""Moves of the emissions and rates of a hidden Markov model, with the counts summed out of the likelihood.

The emissions of each feature and state are moved by Langevin proposals on the simplex, and by exchanges between pairs
of values. The rates of records are moved by random walks of their logarithms. Each proposal is accepted or rejected by
the likelihood of the noisy counts (``noisy_poisson``). Emissions of different features and states are independent given
the states and rates, so they all move at once. Rates also move at once, because they are independent given the states
and emissions.

Source: Roberts and Rosenthal 1998 (Metropolis-adjusted Langevin algorithm); the rest is derived here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.inference.sequences.sequence_state import MIN_RATE, VALID_SHAPE, SequenceState

_MAX_RATE = 1e15
_MIN_SHARE = 1e-300
_LANGEVIN_SDS = 1.2
"""The step size of a Langevin proposal, in standard deviations, before division by the sixth root of the number of
values."""
_RANDOM_WALK_SDS = 2.4
_LANGEVIN_REPEATS = 2
_LOG_EXCHANGE_STEPS = (-4.0, 1.0)
"""The smallest and the largest logarithm of the step size of an exchange, which moves log odds."""


@dataclass(frozen=True, eq=False)
class EmissionMove:
    """Langevin moves of emissions.

    Attributes:
        variance: the variance of each share if shares did not have to add up to one, shape (n_states, n_columns).
        step: the step size of each column, in standard deviations, shape (n_columns,).
    """

    variance: Floats
    step: Floats

    @classmethod
    def at(cls, chain: SequenceState, rate: Floats) -> EmissionMove:
        """Return the moves scaled to the current state of a chain, given the rate of each of its cells."""
        data = chain.data
        share, typical = np.maximum(chain.emission, 1e-12), np.maximum(chain.typical, 1e-12)
        per_share = rate / share[chain.states.ravel()]
        information = chain.members() @ (per_share**2 / (rate + data.spread))
        sizes = np.bincount(data.feature)
        return cls(
            1.0 / (information + 1.0 / typical**2), np.asarray(_LANGEVIN_SDS / sizes ** (1.0 / 6.0))[data.feature]
        )

    def make(self, chain: SequenceState, rng: np.random.Generator) -> Floats:
        """Move the emissions of all features in all states; return the new log marginals of all cells."""
        data = chain.data
        sums = np.add.reduceat(self.variance, data.first, axis=1)[:, data.feature]

        def project(vector: Floats) -> Floats:
            """Subtract the multiple of the variances that makes the entries of each feature sum to zero."""
            return vector - self.variance * np.add.reduceat(vector, data.first, axis=1)[:, data.feature] / sums

        cells, density, slope = self._target(chain, chain.emission)
        for _ in range(_LANGEVIN_REPEATS):
            free = np.sqrt(self.variance) * rng.standard_normal(self.variance.shape)
            drift = project(self.variance * slope) * self.step**2 / 2.0
            proposal = chain.emission + drift + self.step * project(free)
            possible = np.minimum.reduceat(proposal, data.first, axis=1) > _MIN_SHARE
            inside = np.where(possible[:, data.feature], proposal, chain.emission)
            new_cells, new_density, new_slope = self._target(chain, inside)
            back = project(self.variance * new_slope) * self.step**2 / 2.0
            log_proposal_ratio = (inside - chain.emission - drift) ** 2 - (chain.emission - inside - back) ** 2
            ratio = new_density - density
            ratio += np.add.reduceat(log_proposal_ratio / (2.0 * self.variance * self.step**2), data.first, axis=1)
            accepted = possible & (-rng.standard_exponential(ratio.shape) < ratio)
            rows = accepted[:, data.feature]
            chain.emission = np.where(rows, inside, chain.emission)
            cells = np.where(rows[chain.states.ravel()], new_cells, cells)
            density, slope = np.where(accepted, new_density, density), np.where(rows, new_slope, slope)
        return self._exchange(chain, cells, rng)

    def _exchange(self, chain: SequenceState, cells: Floats, rng: np.random.Generator) -> Floats:
        """Move probability between the values of random pairs; return the new log marginals of all cells.

        The log odds of a pair move by steps of very different sizes, because rare values need large steps.
        """
        data = chain.data
        one, other = _pairs(data.first, len(data.feature), rng)
        shares, rest = chain.emission[:, one], chain.emission[:, other]
        both = shares + rest
        step = np.exp(rng.uniform(*_LOG_EXCHANGE_STEPS, shares.shape)) * rng.standard_normal(shares.shape)
        with np.errstate(over="ignore"):
            part = 1.0 / (1.0 + rest / np.maximum(shares, _MIN_SHARE) * np.exp(-step))
        proposal = chain.emission.copy()
        proposal[:, one], proposal[:, other] = both * part, both * (1.0 - part)
        possible = (proposal[:, one] > _MIN_SHARE) & (proposal[:, other] > _MIN_SHARE)
        base = chain.rate[:, None] * chain.valid[data.feature]
        new = data.log_marginals(np.maximum(base * proposal[chain.states.ravel()], MIN_RATE))
        log_growth = np.log(np.maximum(proposal, _MIN_SHARE) / np.maximum(chain.emission, _MIN_SHARE))
        change = chain.members() @ (new - cells) + data.emission * log_growth  # with the Jacobian of the log odds
        ratio = change[:, one] + change[:, other]
        accepted = possible & (-rng.standard_exponential(ratio.shape) < ratio)
        rows = np.zeros(chain.emission.shape, dtype=bool)
        rows[:, one], rows[:, other] = accepted, accepted
        chain.emission = np.where(rows, proposal, chain.emission)
        return np.where(rows[chain.states.ravel()], new, cells)

    @staticmethod
    def _target(chain: SequenceState, emission: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the log marginals of all cells, the log density of each state and feature, and its slopes."""
        data = chain.data
        base = chain.rate[:, None] * chain.valid[data.feature]
        cells, slope = data.with_slopes(np.maximum(base * emission[chain.states.ravel()], MIN_RATE))
        members = chain.members()
        prior = data.emission - 1.0
        density = np.add.reduceat(members @ cells + xlogy(prior, emission), data.first, axis=1)
        return cells, density, members @ (slope * base) + prior / np.maximum(emission, _MIN_SHARE)


def _pairs(first: Integers, n_columns: int, rng: np.random.Generator) -> tuple[Integers, Integers]:
    one, other = [], []
    for start, end in zip(first, [*first[1:], n_columns], strict=True):
        order = start + rng.permutation(end - start)
        half = len(order) // 2
        one.append(order[:half])
        other.append(order[half : 2 * half])
    return np.concatenate(one), np.concatenate(other)


@dataclass(frozen=True, eq=False)
class RateMove:
    """Random walks of the logarithms of the rates, and of the shares of valid records.

    Attributes:
        rate: the step size of the logarithm of each rate, shape (n_sequences * n_steps,).
        valid: the step size of the logarithm of each share, shape (n_features,).
    """

    rate: Floats
    valid: Floats

    @classmethod
    def at(cls, chain: SequenceState, rate: Floats) -> RateMove:
        """Return the moves scaled to the current state of a chain; see ``EmissionMove.at``."""
        data = chain.data
        information = rate**2 / (rate + data.spread)
        by_feature = np.add.reduceat(information.sum(axis=0), data.first)
        return cls(
            _RANDOM_WALK_SDS / np.sqrt(chain.rate_shape + information.sum(axis=1)),
            _RANDOM_WALK_SDS / np.sqrt(VALID_SHAPE + by_feature),
        )

    def make(self, chain: SequenceState, cells: Floats, rng: np.random.Generator) -> None:
        """Move the rates and, unless records are complete, the shares of valid records; ``cells`` are log marginals."""
        data = chain.data
        base = chain.emission[chain.states.ravel()]

        def at(rate: Floats, valid: Floats) -> Floats:
            return data.log_marginals(np.maximum(rate[:, None] * valid[data.feature] * base, MIN_RATE))

        step = self.rate * rng.standard_normal(len(self.rate))
        proposal = np.clip(chain.rate * np.exp(step), MIN_RATE, _MAX_RATE)
        new = at(proposal, chain.valid)
        prior = chain.rate_shape * (step - (proposal - chain.rate) / chain.mean_rate)
        ratio = (new - cells).sum(axis=1) + prior
        accepted = -rng.standard_exponential(len(ratio)) < ratio
        chain.rate = np.where(accepted, proposal, chain.rate)
        cells = np.where(accepted[:, None], new, cells)
        if not data.observation.complete:
            step = self.valid * rng.standard_normal(len(self.valid))
            share = chain.valid * np.exp(step)
            ratio = np.add.reduceat((at(chain.rate, share) - cells).sum(axis=0), data.first)
            ratio += VALID_SHAPE * (step - (share - chain.valid))
            chain.valid = np.where(-rng.standard_exponential(len(ratio)) < ratio, share, chain.valid)
