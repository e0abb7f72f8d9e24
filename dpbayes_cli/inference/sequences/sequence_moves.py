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

from dpbayes_cli.base.numeric import Booleans, Floats, Integers
from dpbayes_cli.inference.sequences.sequence_state import MIN_RATE, VALID_SHAPE, SequenceState

_MAX_RATE = 1e15
_MIN_SHARE = 1e-300
_RANDOM_WALK_SDS = 2.4
_VARIANCE_FACTOR = 1.15
"""The posterior variance of emissions is larger than for known rates."""
_MIN_PART, _LOW_ACCEPTANCE, _HIGH_ACCEPTANCE = 0.25, 0.5, 0.8
_LOG_EXCHANGE_STEPS = (-4.0, 1.0)
"""The smallest and the largest logarithm of the step size of an exchange, which moves log odds."""


Marginals = tuple[Floats, Floats]
"""The log marginals of all cells and their derivatives in the rate, shape (n_sequences * n_steps, n_columns)."""


@dataclass(eq=False)
class EmissionMove:
    """Langevin moves of emissions.

    A proposal goes the part d of the way to the mode of a normal law, and adds noise of (2 d - d^2) times its variance.
    So this law is kept, and for d = 1 proposals do not depend on the current emissions.

    Attributes:
        variance: the variance of each share if shares did not have to add up to one, shape (n_states, n_columns).
        part: d for each state and feature, shape (n_states, n_features).
        accepted: the numbers of accepted proposals, shape (n_states, n_features).
        tried: the number of proposals for each state and feature.
    """

    variance: Floats
    part: Floats
    accepted: Floats
    tried: int = 0

    @classmethod
    def at(cls, chain: SequenceState, rate: Floats, last: EmissionMove | None = None) -> EmissionMove:
        """Return the moves scaled to the current state of a chain.

        Args:
            chain: the chain.
            rate: the rate of each of its cells.
            last: the moves before, whose acceptance rates say how large ``part`` can be.
        """
        data = chain.data
        share, typical = np.maximum(chain.emission, 1e-12), np.maximum(chain.typical, 1e-12)
        per_share = rate / share[chain.states.ravel()]
        information = chain.members() @ (per_share**2 / (rate + data.spread))
        part = np.ones((len(share), len(data.first)))
        if last is not None and last.tried:
            accepted = last.accepted / last.tried
            part = last.part * np.where(
                accepted < _LOW_ACCEPTANCE, 0.5, np.where(accepted > _HIGH_ACCEPTANCE, 1.5, 1.0)
            )
        variance = _VARIANCE_FACTOR / (information + 1.0 / typical**2)
        return cls(variance, np.clip(part, _MIN_PART, 1.0), np.zeros(part.shape))

    def make(self, chain: SequenceState, current: Marginals, rng: np.random.Generator) -> Marginals:
        """Move the emissions of all features in all states; take and return the marginals of all cells."""
        data, part = chain.data, self.part[:, chain.data.feature]
        sums = np.add.reduceat(self.variance, data.first, axis=1)[:, data.feature]

        def project(vector: Floats) -> Floats:
            """Subtract the multiple of the variances that makes the entries of each feature sum to zero."""
            return vector - self.variance * np.add.reduceat(vector, data.first, axis=1)[:, data.feature] / sums

        variance = self.variance * part * (2.0 - part)
        density, slope = self._target(chain, chain.emission, current)
        drift = project(self.variance * slope) * part
        proposal = chain.emission + drift + project(np.sqrt(variance) * rng.standard_normal(variance.shape))
        possible = np.minimum.reduceat(proposal, data.first, axis=1) > _MIN_SHARE
        inside = np.where(possible[:, data.feature], proposal, chain.emission)
        new = _marginals(chain, inside)
        new_density, new_slope = self._target(chain, inside, new)
        back = project(self.variance * new_slope) * part
        log_proposal_ratio = (inside - chain.emission - drift) ** 2 - (chain.emission - inside - back) ** 2
        ratio = new_density - density + np.add.reduceat(log_proposal_ratio / (2.0 * variance), data.first, axis=1)
        accepted = possible & (-rng.standard_exponential(ratio.shape) < ratio)
        self.accepted, self.tried = self.accepted + accepted, self.tried + 1
        return _moved(chain, inside, accepted[:, data.feature], current, new)

    def exchange(self, chain: SequenceState, current: Marginals, rng: np.random.Generator) -> Marginals:
        """Move probability between the values of random pairs; take and return the marginals of all cells.

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
        new = _marginals(chain, proposal)
        log_growth = np.log(np.maximum(proposal, _MIN_SHARE) / np.maximum(chain.emission, _MIN_SHARE))
        change = (
            chain.members() @ (new[0] - current[0]) + data.emission * log_growth
        )  # with the Jacobian of the log odds
        ratio = change[:, one] + change[:, other]
        accepted = possible & (-rng.standard_exponential(ratio.shape) < ratio)
        rows = np.zeros(chain.emission.shape, dtype=bool)
        rows[:, one], rows[:, other] = accepted, accepted
        return _moved(chain, proposal, rows, current, new)

    @staticmethod
    def _target(chain: SequenceState, emission: Floats, cells: Marginals) -> tuple[Floats, Floats]:
        """Return the log density of each state and feature, and its slopes in the emissions."""
        data, members, (value, slope) = chain.data, chain.members(), cells
        prior = data.emission - 1.0
        density = np.add.reduceat(members @ value + xlogy(prior, emission), data.first, axis=1)
        by_emission = members * chain.rate @ slope * chain.valid[data.feature]
        return density, by_emission + prior / np.maximum(emission, _MIN_SHARE)


def _marginals(chain: SequenceState, emission: Floats) -> Marginals:
    rate = chain.rate[:, None] * chain.valid[chain.data.feature] * emission[chain.states.ravel()]
    return chain.data.with_slopes(np.maximum(rate, MIN_RATE))


def _moved(chain: SequenceState, emission: Floats, moved: Booleans, current: Marginals, new: Marginals) -> Marginals:
    """Set the emissions that are moved, shape (n_states, n_columns), and return the marginals of all cells."""
    chain.emission = np.where(moved, emission, chain.emission)
    rows = moved[chain.states.ravel()]
    return np.where(rows, new[0], current[0]), np.where(rows, new[1], current[1])


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
    """Langevin moves and random walks of the logarithms of the rates, and random walks of the shares of valid records.

    Attributes:
        rate: the variance of the logarithm of each rate, shape (n_sequences * n_steps,).
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
            1.0 / (chain.rate_shape + information.sum(axis=1)), _RANDOM_WALK_SDS / np.sqrt(VALID_SHAPE + by_feature)
        )

    def make(self, chain: SequenceState, current: Marginals, rng: np.random.Generator, *, walk: bool) -> Marginals:
        """Move the rates and, unless records are complete, the shares of valid records; see ``EmissionMove.make``.

        With ``walk``, rates make a random walk: Langevin moves may be stuck where the normal approximation is bad.
        """
        data = chain.data
        base = chain.emission[chain.states.ravel()]

        def at(rate: Floats, valid: Floats) -> Marginals:
            return data.with_slopes(np.maximum(rate[:, None] * valid[data.feature] * base, MIN_RATE))

        def drift(rate: Floats, marginals: Marginals) -> Floats:
            slope = (marginals[1] * base) @ chain.valid[data.feature] + chain.rate_shape * (
                1.0 / rate - 1.0 / chain.mean_rate
            )
            return np.asarray(0.0 * rate if walk else self.rate * rate * slope)

        variance = _RANDOM_WALK_SDS**2 * self.rate if walk else self.rate
        forth = drift(chain.rate, current)
        step = forth + np.sqrt(variance) * rng.standard_normal(len(variance))
        proposal = np.clip(chain.rate * np.exp(np.clip(step, -50.0, 50.0)), MIN_RATE, _MAX_RATE)
        new = at(proposal, chain.valid)
        ratio = (new[0] - current[0]).sum(axis=1)
        ratio += chain.rate_shape * (step - (proposal - chain.rate) / chain.mean_rate)
        ratio += ((step - forth) ** 2 - (step + drift(proposal, new)) ** 2) / (2.0 * variance)
        accepted = -rng.standard_exponential(len(ratio)) < ratio
        chain.rate = np.where(accepted, proposal, chain.rate)
        rows = accepted[:, None]
        current = np.where(rows, new[0], current[0]), np.where(rows, new[1], current[1])
        if not data.observation.complete:
            step = self.valid * rng.standard_normal(len(self.valid))
            share = chain.valid * np.exp(step)
            new = at(chain.rate, share)
            ratio = np.add.reduceat((new[0] - current[0]).sum(axis=0), data.first)
            ratio += VALID_SHAPE * (step - (share - chain.valid))
            accepted = -rng.standard_exponential(len(ratio)) < ratio
            chain.valid = np.where(accepted, share, chain.valid)
            columns = accepted[data.feature]
            current = np.where(columns, new[0], current[0]), np.where(columns, new[1], current[1])
        return current
