"""Moves of the emissions and rates of a hidden Markov model, with the counts summed out of the likelihood.

The emissions of each feature and state are moved by Langevin proposals on the simplex, and by exchanges between pairs
of values. The rates of records are moved by random walks of their logarithms. Each proposal is accepted or rejected by
the likelihood of the noisy counts (``noisy_poisson``). Emissions of different features and states are independent given
the states and rates, so they all move at once. Rates also move at once, because they are independent given the states
and emissions.

Given the states and rates, the log likelihood is a sum of functions of one emission probability each. They are
interpolated once for all emission moves until states or rates change, so that these moves need no sums over cells.

Source: Roberts and Rosenthal 1998 (Metropolis-adjusted Langevin algorithm); the rest is derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.inference.sequences.sequence_state import MIN_RATE, VALID_SHAPE, SequenceState

_MAX_RATE = 1e15
_MIN_SHARE, _MIN_TYPICAL = 1e-300, 1e-12
_RANDOM_WALK_SDS = 2.4
_VARIANCE_FACTOR = 1.15
"""The posterior variance of emissions is larger than for known rates."""
_MIN_PART, _LOW_ACCEPTANCE, _HIGH_ACCEPTANCE = 0.25, 0.5, 0.8
_LOG_EXCHANGE_STEPS = (-4.0, 1.0)
"""The smallest and the largest logarithm of the step size of an exchange, which moves log odds."""
_MAX_MISS_NATS = 0.01
_REACH_SDS = 8.0
"""Polynomials extend this many standard deviations to both sides."""
_NODES = np.cos(np.pi * (np.arange(5) + 0.5) / 5)
_CHECKED = math.cos(math.pi / len(_NODES))
_DEGREE = 2 * len(_NODES) - 1
_POWERS = np.arange(1.0, _DEGREE + 1)[:, None, None]
_POWERS_AT_NODES = _NODES[:, None] ** np.arange(_DEGREE + 1)
_SLOPES_AT_NODES = np.arange(_DEGREE + 1) * _NODES[:, None] ** np.maximum(np.arange(_DEGREE + 1) - 1, 0)
_INTERPOLATION = np.linalg.inv(np.concatenate([_POWERS_AT_NODES, _SLOPES_AT_NODES]))
"""Turns the values and then the slopes at the nodes into the coefficients of a polynomial."""

Marginals = tuple[Floats, Floats]
"""The log marginals of all cells and their derivatives in the rate, shape (n_sequences * n_steps, n_columns)."""


@dataclass(frozen=True, eq=False)
class EmissionLikelihood:
    """The log likelihood of each emission probability, given the states and rates of a chain.

    Near the typical emissions it is a polynomial in the root of the probability, with the values and slopes of the
    likelihood at ``_NODES``. Elsewhere, and if a polynomial misses the likelihood between its outer nodes, it is
    computed from all cells.

    Attributes:
        chain: the chain, whose states and rates must not have changed.
        middle, reach: the range of each polynomial, in roots, shape (n_states, n_columns); a reach of 0 means that
            the polynomial is not used.
        coefficients: of powers of the position in the range, shape (_DEGREE + 1, n_states, n_columns).
    """

    chain: SequenceState
    middle: Floats
    reach: Floats
    coefficients: Floats

    @classmethod
    def of(cls, chain: SequenceState) -> EmissionLikelihood:
        """Return the likelihood, interpolated near the typical emissions."""
        typical = np.maximum(chain.typical, _MIN_TYPICAL)
        away = _REACH_SDS / np.sqrt(_information(chain, typical) + 1.0 / typical**2)
        low, high = np.sqrt(np.maximum(typical - away, 0.0)), np.sqrt(np.minimum(typical + away, 1.0))
        middle, reach = (low + high) / 2.0, (high - low) / 2.0
        roots = middle + reach * _NODES[:, None, None]
        values, slopes = zip(*(_sum_cells(chain, root**2) for root in roots), strict=True)
        known = np.concatenate([values, np.array(slopes) * 2.0 * roots * reach])
        likelihood = cls(chain, middle, reach, np.tensordot(_INTERPOLATION, known, 1))
        for place in (-_CHECKED, _CHECKED):
            emission = (middle + place * reach) ** 2
            missed = np.abs(likelihood.at(emission)[0] - _sum_cells(chain, emission)[0]) > _MAX_MISS_NATS
            reach[missed] = 0.0
        return likelihood

    def at(self, emission: Floats) -> tuple[Floats, Floats]:
        """Return the log likelihood of each emission probability and its derivative."""
        root = np.sqrt(emission)
        inside = np.abs(root - self.middle) < self.reach
        reach = np.where(inside, self.reach, 1.0)
        x = (root - self.middle) / reach
        powers = np.ones((_DEGREE + 1, *x.shape))
        np.multiply.accumulate(np.broadcast_to(np.where(inside, x, 0.0), (_DEGREE, *x.shape)), out=powers[1:])
        value = (self.coefficients * powers).sum(axis=0)
        slope = (self.coefficients[1:] * _POWERS * powers[:-1]).sum(axis=0) / (2.0 * root * reach)
        if inside.all():
            return value, slope
        all_cells = _sum_cells(self.chain, emission)
        return np.where(inside, value, all_cells[0]), np.where(inside, slope, all_cells[1])


def _information(chain: SequenceState, emission: Floats) -> Floats:
    """Return the information about each emission probability, given states and rates; the noise counts as normal."""
    per_share = chain.rate[:, None] * chain.valid[chain.data.feature]
    rate = per_share * emission[chain.states.ravel()]
    return np.asarray(chain.members() @ (per_share**2 / (rate + chain.data.spread)))


def _sum_cells(chain: SequenceState, emission: Floats) -> tuple[Floats, Floats]:
    """Return the log likelihood of each emission probability and its derivative, shape (n_states, n_columns)."""
    value, slope = _marginals(chain, emission)
    members = chain.members()
    return members @ value, members * chain.rate @ slope * chain.valid[chain.data.feature]


def _marginals(chain: SequenceState, emission: Floats) -> Marginals:
    rate = chain.rate[:, None] * chain.valid[chain.data.feature] * emission[chain.states.ravel()]
    return chain.data.with_slopes(np.maximum(rate, MIN_RATE))


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
    def at(cls, chain: SequenceState, last: EmissionMove | None = None) -> EmissionMove:
        """Return the moves scaled to the current state of a chain.

        Args:
            chain: the chain.
            last: the moves before, whose acceptance rates say how large ``part`` can be.
        """
        part = np.ones((len(chain.emission), len(chain.data.first)))
        if last is not None and last.tried:
            accepted = last.accepted / last.tried
            part = last.part * np.where(
                accepted < _LOW_ACCEPTANCE, 0.5, np.where(accepted > _HIGH_ACCEPTANCE, 1.5, 1.0)
            )
        information = _information(chain, np.maximum(chain.emission, _MIN_TYPICAL))
        variance = _VARIANCE_FACTOR / (information + 1.0 / np.maximum(chain.typical, _MIN_TYPICAL) ** 2)
        return cls(variance, np.clip(part, _MIN_PART, 1.0), np.zeros(part.shape))

    def make(self, chain: SequenceState, likelihood: EmissionLikelihood, rng: np.random.Generator) -> None:
        """Move the emissions of all features in all states."""
        data, part = chain.data, self.part[:, chain.data.feature]
        sums = np.add.reduceat(self.variance, data.first, axis=1)[:, data.feature]

        def project(vector: Floats) -> Floats:
            """Subtract the multiple of the variances that makes the entries of each feature sum to zero."""
            return vector - self.variance * np.add.reduceat(vector, data.first, axis=1)[:, data.feature] / sums

        def target(emission: Floats) -> tuple[Floats, Floats]:
            """Return the log density of each state and feature, and its slopes in the emissions."""
            (value, slope), prior = likelihood.at(emission), data.emission - 1.0
            density = np.add.reduceat(value + xlogy(prior, emission), data.first, axis=1)
            return density, slope + prior / np.maximum(emission, _MIN_SHARE)

        variance = self.variance * part * (2.0 - part)
        density, slope = target(chain.emission)
        drift = project(self.variance * slope) * part
        proposal = chain.emission + drift + project(np.sqrt(variance) * rng.standard_normal(variance.shape))
        possible = np.minimum.reduceat(proposal, data.first, axis=1) > _MIN_SHARE
        inside = np.where(possible[:, data.feature], proposal, chain.emission)
        new_density, new_slope = target(inside)
        back = project(self.variance * new_slope) * part
        log_proposal_ratio = (inside - chain.emission - drift) ** 2 - (chain.emission - inside - back) ** 2
        ratio = new_density - density + np.add.reduceat(log_proposal_ratio / (2.0 * variance), data.first, axis=1)
        accepted = possible & (-rng.standard_exponential(ratio.shape) < ratio)
        self.accepted, self.tried = self.accepted + accepted, self.tried + 1
        chain.emission = np.where(accepted[:, data.feature], inside, chain.emission)


def exchange_emissions(chain: SequenceState, likelihood: EmissionLikelihood, rng: np.random.Generator) -> None:
    """Move probability between the values of random pairs.

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
    log_growth = np.log(np.maximum(proposal, _MIN_SHARE) / np.maximum(chain.emission, _MIN_SHARE))
    change = likelihood.at(proposal)[0] - likelihood.at(chain.emission)[0]
    change += data.emission * log_growth  # with the Jacobian of the log odds
    accepted = possible & (-rng.standard_exponential(shares.shape) < change[:, one] + change[:, other])
    chain.emission = chain.emission.copy()
    chain.emission[:, one] = np.where(accepted, proposal[:, one], shares)
    chain.emission[:, other] = np.where(accepted, proposal[:, other], rest)


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
    def at(cls, chain: SequenceState) -> RateMove:
        """Return the moves scaled to the current state of a chain."""
        data, rate = chain.data, chain.rates()
        information = rate**2 / (rate + data.spread)
        by_feature = np.add.reduceat(information.sum(axis=0), data.first)
        return cls(
            1.0 / (chain.rate_shape + information.sum(axis=1)), _RANDOM_WALK_SDS / np.sqrt(VALID_SHAPE + by_feature)
        )

    def make(self, chain: SequenceState, rng: np.random.Generator) -> None:
        """Move the rates and, unless records are complete, the shares of valid records.

        Rates also make a random walk: Langevin moves may be stuck where the normal approximation is bad.
        """
        data, base = chain.data, chain.emission[chain.states.ravel()]

        def at(rate: Floats, valid: Floats) -> Marginals:
            return data.with_slopes(np.maximum(rate[:, None] * valid[data.feature] * base, MIN_RATE))

        def drift(rate: Floats, marginals: Marginals) -> Floats:
            slope = (marginals[1] * base) @ chain.valid[data.feature]
            return np.asarray(self.rate * rate * (slope + chain.rate_shape * (1.0 / rate - 1.0 / chain.mean_rate)))

        current = at(chain.rate, chain.valid)
        for walk in (False, True):
            variance = _RANDOM_WALK_SDS**2 * self.rate if walk else self.rate
            forth = 0.0 if walk else drift(chain.rate, current)
            step = forth + np.sqrt(variance) * rng.standard_normal(len(variance))
            proposal = np.clip(chain.rate * np.exp(np.clip(step, -50.0, 50.0)), MIN_RATE, _MAX_RATE)
            new = at(proposal, chain.valid)
            ratio = (new[0] - current[0]).sum(axis=1)
            ratio += chain.rate_shape * (step - (proposal - chain.rate) / chain.mean_rate)
            if not walk:
                ratio += ((step - forth) ** 2 - (step + drift(proposal, new)) ** 2) / (2.0 * variance)
            accepted = -rng.standard_exponential(len(ratio)) < ratio
            chain.rate = np.where(accepted, proposal, chain.rate)
            current = np.where(accepted[:, None], new[0], current[0]), current[1]  # a walk needs no slopes
        if not data.observation.complete:
            step = self.valid * rng.standard_normal(len(self.valid))
            share = chain.valid * np.exp(step)
            ratio = np.add.reduceat((at(chain.rate, share)[0] - current[0]).sum(axis=0), data.first)
            ratio += VALID_SHAPE * (step - (share - chain.valid))
            accepted = -rng.standard_exponential(len(ratio)) < ratio
            chain.valid = np.where(accepted, share, chain.valid)
