"""Moves of emissions and rates of a hidden Markov model with the counts summed out of the likelihood.

Emissions of a feature in a state are moved by Langevin proposals on the simplex, and by exchanges between pairs of
values; rates of records by steps of their logarithms. All are accepted or rejected by the likelihood of what was
observed (``noisy_poisson``), all rows and all cells at once: given states and all else they are independent.

Source: Roberts and Rosenthal 1998 (Metropolis-adjusted Langevin algorithm); mechanisms, noise-aware inference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import xlogy

from dpbayes_cli.inference.sequences.sequence_state import LEAST_RATE, VALID_SHAPE, SequenceState

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_MOST_RATE = 1e15
_LEAST_SHARE = 1e-300
_LANGEVIN = 1.2
"""The step of the proposal in standard deviations, times the sixth root of the number of values."""
_WALK = 2.4
_REPEATS = 2
_STRIDES = (-4.0, 1.0)
"""The logarithms of the shortest and the longest step of log odds."""


@dataclass(frozen=True, eq=False)
class EmissionMove:
    """Langevin moves of emissions.

    Attributes:
        variance: of each share, were it alone; shape (n_states, n_columns).
        step: of each column.
    """

    variance: Floats
    step: Floats

    @classmethod
    def at(cls, chain: SequenceState, rate: Floats) -> EmissionMove:
        """Fit the moves to where a chain is.

        Args:
            chain: the chain.
            rate: of each of its cells.
        """
        data = chain.data
        share, typical = np.maximum(chain.emission, 1e-12), np.maximum(chain.typical, 1e-12)
        per_share = rate / share[chain.states.ravel()]
        information = chain.members() @ (per_share**2 / (rate + data.spread))
        sizes = np.bincount(data.feature)
        return cls(1.0 / (information + 1.0 / typical**2), np.asarray(_LANGEVIN / sizes ** (1.0 / 6.0))[data.feature])

    def make(self, chain: SequenceState, rng: np.random.Generator) -> Floats:
        """Move the emissions of all features in all states.

        Returns:
            The log marginals of all cells where the chain then is.
        """
        data = chain.data
        sums = np.add.reduceat(self.variance, data.first, axis=1)[:, data.feature]
        cells, density, slope = self._target(chain, chain.emission)
        for _ in range(_REPEATS):
            free = np.sqrt(self.variance) * rng.standard_normal(self.variance.shape)
            drift = self._on_simplex(chain, self.variance * slope, sums) * self.step**2 / 2.0
            proposal = chain.emission + drift + self.step * self._on_simplex(chain, free, sums)
            possible = np.minimum.reduceat(proposal, data.first, axis=1) > _LEAST_SHARE
            inside = np.where(possible[:, data.feature], proposal, chain.emission)
            new_cells, new_density, new_slope = self._target(chain, inside)
            back = self._on_simplex(chain, self.variance * new_slope, sums) * self.step**2 / 2.0
            away = (inside - chain.emission - drift) ** 2 - (chain.emission - inside - back) ** 2
            ratio = new_density - density
            ratio += np.add.reduceat(away / (2.0 * self.variance * self.step**2), data.first, axis=1)
            taken = possible & (-rng.standard_exponential(ratio.shape) < ratio)
            rows = taken[:, data.feature]
            chain.emission = np.where(rows, inside, chain.emission)
            cells = np.where(rows[chain.states.ravel()], new_cells, cells)
            density, slope = np.where(taken, new_density, density), np.where(rows, new_slope, slope)
        return self._exchanged(chain, cells, rng)

    def _exchanged(self, chain: SequenceState, cells: Floats, rng: np.random.Generator) -> Floats:
        """Let pairs of values exchange what they share, on steps of any length in its log odds: rare values need these.

        Returns:
            The log marginals of all cells where the chain then is.
        """
        data = chain.data
        one, other = _pairs(data.first, len(data.feature), rng)
        shares, rest = chain.emission[:, one], chain.emission[:, other]
        both = shares + rest
        step = np.exp(rng.uniform(*_STRIDES, shares.shape)) * rng.standard_normal(shares.shape)
        with np.errstate(over="ignore"):
            part = 1.0 / (1.0 + rest / np.maximum(shares, _LEAST_SHARE) * np.exp(-step))
        proposal = chain.emission.copy()
        proposal[:, one], proposal[:, other] = both * part, both * (1.0 - part)
        possible = (proposal[:, one] > _LEAST_SHARE) & (proposal[:, other] > _LEAST_SHARE)
        base = chain.rate[:, None] * chain.valid[data.feature]
        new = data.log_marginals(np.maximum(base * proposal[chain.states.ravel()], LEAST_RATE))
        change = chain.members() @ (new - cells) + data.emission * np.log(
            np.maximum(proposal, _LEAST_SHARE) / np.maximum(chain.emission, _LEAST_SHARE)
        )  # the density of log odds has the shares as a factor
        ratio = change[:, one] + change[:, other]
        taken = possible & (-rng.standard_exponential(ratio.shape) < ratio)
        rows = np.zeros(chain.emission.shape, dtype=bool)
        rows[:, one], rows[:, other] = taken, taken
        chain.emission = np.where(rows, proposal, chain.emission)
        return np.where(rows[chain.states.ravel()], new, cells)

    def _on_simplex(self, chain: SequenceState, vector: Floats, sums: Floats) -> Floats:
        """Take from vectors, in proportion to the variances, what they would change the sums of shares by."""
        data = chain.data
        return vector - self.variance * np.add.reduceat(vector, data.first, axis=1)[:, data.feature] / sums

    @staticmethod
    def _target(chain: SequenceState, emission: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the log marginals of all cells, the log density by state and feature, and its slopes."""
        data = chain.data
        base = chain.rate[:, None] * chain.valid[data.feature]
        cells, slope = data.with_slopes(np.maximum(base * emission[chain.states.ravel()], LEAST_RATE))
        members = chain.members()
        prior = data.emission - 1.0
        density = np.add.reduceat(members @ cells + xlogy(prior, emission), data.first, axis=1)
        return cells, density, members @ (slope * base) + prior / np.maximum(emission, _LEAST_SHARE)


def _pairs(first: Integers, n_columns: int, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """Return disjoint pairs of columns, at random, both of one feature."""
    one, other = [], []
    for start, end in zip(first, [*first[1:], n_columns], strict=True):
        order = start + rng.permutation(end - start)
        half = len(order) // 2
        one.append(order[:half])
        other.append(order[half : 2 * half])
    return np.concatenate(one), np.concatenate(other)


@dataclass(frozen=True, eq=False)
class RateMove:
    """Steps of the logarithms of rates, one a sequence and step, and of the shares of valid records.

    Attributes:
        rate: the scale of the steps of each rate, shape (n_sequences n_steps,).
        valid: that of each feature's share of valid records.
    """

    rate: Floats
    valid: Floats

    @classmethod
    def at(cls, chain: SequenceState, rate: Floats) -> RateMove:
        """Fit the steps to where a chain is."""
        data = chain.data
        information = rate**2 / (rate + data.spread)
        by_feature = np.add.reduceat(information.sum(axis=0), data.first)
        return cls(
            _WALK / np.sqrt(chain.rate_shape + information.sum(axis=1)), _WALK / np.sqrt(VALID_SHAPE + by_feature)
        )

    def make(self, chain: SequenceState, cells: Floats, rng: np.random.Generator) -> None:
        """Step the rates, and where records may be invalid the shares of valid ones.

        Args:
            chain: the chain.
            cells: the log marginals of all cells where it is.
            rng: the generator.
        """
        data = chain.data
        base = chain.emission[chain.states.ravel()]

        def at(rate: Floats, valid: Floats) -> Floats:
            return data.log_marginals(np.maximum(rate[:, None] * valid[data.feature] * base, LEAST_RATE))

        step = self.rate * rng.standard_normal(len(self.rate))
        proposal = np.clip(chain.rate * np.exp(step), LEAST_RATE, _MOST_RATE)
        new = at(proposal, chain.valid)
        prior = chain.rate_shape * (step - (proposal - chain.rate) / chain.mean_rate)
        ratio = (new - cells).sum(axis=1) + prior
        taken = -rng.standard_exponential(len(ratio)) < ratio
        chain.rate = np.where(taken, proposal, chain.rate)
        cells = np.where(taken[:, None], new, cells)
        if not data.observation.complete:
            step = self.valid * rng.standard_normal(len(self.valid))
            share = chain.valid * np.exp(step)
            ratio = np.add.reduceat((at(chain.rate, share) - cells).sum(axis=0), data.first)
            ratio += VALID_SHAPE * (step - (share - chain.valid))
            chain.valid = np.where(-rng.standard_exponential(len(ratio)) < ratio, share, chain.valid)
