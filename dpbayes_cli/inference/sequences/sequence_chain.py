"""A Markov chain on the parameters and states of a hidden Markov model, given noisy counts of its records.

A sweep draws

1. the states of all sequences, with the counts summed out of the likelihood (``noisy_poisson``);
2. emissions and rates, with the counts summed out (``sequence_moves``);
3. the counts given states, rates and noisy counts, exactly and independently;
4. emissions, transitions and initial probabilities, which are Dirichlet given counts and states;
5. the rates r_st ~ Gamma(shape a, mean m) at which records of sequence s occur at step t, and the shares v_f of records
   that are valid for feature f; then a and m. Rates do not depend on the hidden state.

Without step 2 the chain would also be valid, but slow. Its moves would be as short as the posterior given the counts is
wide. If the noise is larger than the counts, the posterior given the noisy counts is much wider: 800 sweeps then yield
5 effective draws. With step 2, emissions are nearly independent from sweep to sweep, and the other steps are needed
only in some of the sweeps.

The law of the rates is an informative prior of the totals. Under a flat prior, few records with much noise would look
like many records. If the counts are exact, or the noise is ignored, steps 2, 3 and 5 are skipped.

Source: Foulds et al. 2016 sec. 4.2, 5 (statistics are privatized once, and chains on them cost no privacy); van Dyk and
Park 2008 (after a step with variables summed out, these variables are redrawn); the rest is derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.inference.dirichlet_rows import dirichlet_moments, draw_log_gammas
from dpbayes_cli.inference.sequences.noisy_poisson import draw_counts
from dpbayes_cli.inference.sequences.sequence_moves import (
    EmissionLikelihood,
    EmissionMove,
    RateMove,
    exchange_emissions,
)
from dpbayes_cli.inference.sequences.sequence_state import MIN_RATE, VALID_SHAPE, SequenceData, SequenceState
from dpbayes_cli.inference.sequences.state_paths import draw_paths, draw_states_singly, transition_counts

Sampler = Literal["blocked", "collapsed"]

TYPICAL_TOTAL = 100.0
"""The prior of the mean m of the rates is inverse gamma with shape 1 and this scale (median 144, 90 % quantile 950)."""
_AVERAGED_SWEEPS = 20.0
"""``typical`` is a moving average of the emissions over about this many sweeps."""
STATES_EVERY, COUNTS_EVERY = 4, 16
"""States and rates, and counts, are redrawn once in this many sweeps; drawing counts takes the most time."""


class SequenceChain(SequenceState):
    """A chain and its current state; ``sampler`` says whether states are drawn together or one after the other."""

    def __init__(self, data: SequenceData, rng: np.random.Generator, sampler: Sampler = "blocked") -> None:
        super().__init__(data)
        self._rng, self._sampler = rng, sampler
        self._sweeps = 0
        self._moves: tuple[EmissionMove, RateMove] | None = None
        self._likelihood: EmissionLikelihood | None = None
        self.states_every, self.counts_every = STATES_EVERY, COUNTS_EVERY
        self.has_counts = not data.noise

    def start(self) -> None:
        """Set the emissions of each state to the shares of values in a random part of a sequence, and draw the rest.

        Sequences with many records are more likely to be chosen. Counts are summed over several steps, because much of
        the noise then cancels.
        """
        n_sequences, n_steps, n_states = self.data.shape
        length = max(1, n_steps // 8)
        cells = self.data.observed.reshape(n_sequences, n_steps, -1)
        n_records = np.maximum(cells.sum(axis=(1, 2)), 1.0)
        for k in range(n_states):
            s = self._rng.choice(n_sequences, p=n_records / n_records.sum())
            t = self._rng.integers(n_steps - length + 1)
            weight = np.maximum(cells[s, t : t + length].sum(axis=0), 0.0) + self.data.emission
            self.emission[k] = weight / np.add.reduceat(weight, self.data.first)[self.data.feature]
        self.transition[:] = (np.eye(n_states) * 4.0 + 1.0) / (n_states + 4.0)
        self.initial[:] = 1.0 / n_states
        self.draw_states()
        self.draw_parameters()

    def restart_from(self, other: SequenceChain) -> None:
        """Copy the current state of another chain, including counts and rates if both chains have the same data."""
        self.emission, self.transition, self.initial = other.emission, other.transition, other.initial
        self.states = other.states
        if other.data is self.data:
            self.counts, self.rate, self.valid = other.counts.copy(), other.rate, other.valid
            self.mean_rate, self.rate_shape = other.mean_rate, other.rate_shape
        self.log_likelihood = other.log_likelihood
        self.typical, self._likelihood = self.emission, None
        self.scale_moves()

    def scale_moves(self) -> None:
        """Set the step sizes of moves from the current state; never call this while draws are recorded."""
        if self.data.noise:
            last = None if self._moves is None else self._moves[0]
            self._moves = EmissionMove.at(self, last), RateMove.at(self)

    def sweep(self) -> None:
        """Redraw everything, but rates, states and counts only in some sweeps; see ``STATES_EVERY``."""
        if self._moves is None:
            self.draw_states()
            self.draw_parameters()
            return
        emissions, rates = self._moves
        self.has_counts = False
        if self._likelihood is None or self._sweeps % self.states_every == 0:
            self.draw_states()
            rates.make(self, self._rng)
            if self._sweeps % self.counts_every == 0:
                self.has_counts = True
                self.draw_counts()
                self.draw_parameters()
                self.draw_rates()
            self.draw_law_of_rates()
            self._likelihood = EmissionLikelihood.of(self)
            exchange_emissions(self, self._likelihood, self._rng)
        emissions.make(self, self._likelihood, self._rng)
        self.draw_transitions()
        self._sweeps += 1
        self.typical = self.typical + (self.emission - self.typical) / _AVERAGED_SWEEPS

    def likelihood(self) -> Floats:
        """Return the log likelihood of each state, with counts summed out, shape (n_sequences, n_steps, n_states)."""
        data = self.data
        if not data.noise:
            return np.asarray((self.counts @ np.log(self.emission).T).reshape(data.shape))
        log_likelihood = np.zeros((len(data.observed), data.shape[2]))
        for _, columns, table in data.noise:
            rate = self.rate[:, None] * self.valid[data.feature[columns]]
            for k, emission in enumerate(self.emission[:, columns]):
                rates = np.maximum(rate * emission, MIN_RATE)
                log_likelihood[:, k] += table.at(rates.reshape(-1, 1)).reshape(rates.shape).sum(axis=1)
        return np.asarray(log_likelihood.reshape(data.shape))

    def draw_states(self) -> None:
        """Redraw the states of all sequences."""
        likelihood = self.likelihood()
        if self._sampler == "collapsed" and np.isfinite(self.log_likelihood):
            observation = self.data.observation
            self.states = draw_states_singly(
                self.states, likelihood, observation.transition, observation.initial, self._rng
            )
            self.log_likelihood = float(np.take_along_axis(likelihood, self.states[:, :, None], axis=2).sum())
            return
        self.states, self.log_likelihood = draw_paths(likelihood, self.transition, self.initial, self._rng)

    def draw_counts(self) -> None:
        """Redraw the counts, given everything else."""
        data, rates = self.data, self.rates()
        for law, columns, _ in data.noise:
            law_rates = rates[:, columns]
            drawn = draw_counts(law, data.observed[:, columns].ravel(), law_rates.ravel(), self._rng)
            self.counts[:, columns] = drawn.reshape(law_rates.shape)

    def conditional_variance(self) -> Floats:
        """Return the variance of each emission given counts and states, shape (n_states, n_columns)."""
        weight = self.members() @ self.counts + self.data.emission
        return dirichlet_moments(weight, np.add.reduceat(weight, self.data.first, axis=1)[:, self.data.feature])[1]

    def draw_parameters(self) -> None:
        """Redraw emissions, transitions and initial probabilities, given counts and states."""
        counts = self.members() @ self.counts + self.data.emission
        self.emission = _shares(draw_log_gammas(counts, self._rng), self.data.first, self.data.feature)
        self.draw_transitions()

    def draw_transitions(self) -> None:
        """Redraw transitions and initial probabilities, given the states."""
        observation, n_states = self.data.observation, self.data.shape[2]
        first = np.bincount(self.states[:, 0], minlength=n_states) + observation.initial
        follows = transition_counts(self.states, n_states) + observation.transition
        start, one = np.zeros(1, dtype=np.int64), np.zeros(n_states, dtype=np.int64)
        self.transition = _shares(draw_log_gammas(follows, self._rng), start, one)
        self.initial = _shares(draw_log_gammas(first[None], self._rng), start, one)[0]

    def draw_rates(self) -> None:
        """Redraw rates and the shares of valid records, given the counts."""
        data, rng, a = self.data, self._rng, self.rate_shape
        shape = a + self.counts.sum(axis=1)
        self.rate = np.maximum(rng.standard_gamma(shape) / (a / self.mean_rate + self.valid.sum()), MIN_RATE)
        if not data.observation.complete:
            n_valid = np.add.reduceat(self.counts.sum(axis=0), data.first)
            self.valid = rng.standard_gamma(VALID_SHAPE + n_valid) / (VALID_SHAPE + float(self.rate.sum()))

    def draw_law_of_rates(self) -> None:
        """Redraw shape and mean of the gamma distribution of the rates."""
        n, a, total = len(self.rate), self.rate_shape, float(self.rate.sum())
        self.mean_rate = (TYPICAL_TOTAL + a * total) / float(self._rng.standard_gamma(1.0 + n * a))
        logs = float(np.log(self.rate).sum())

        def log_density(log_shape: float) -> float:
            """Return the log density of log a, up to a constant; the prior of a is Exponential(1)."""
            b = math.exp(log_shape)
            rates = n * (b * math.log(b / self.mean_rate) - math.lgamma(b)) + b * (logs - total / self.mean_rate)
            return rates - b + log_shape

        self.rate_shape = math.exp(_slice(log_density, math.log(a), 1.0, self._rng))


def _shares(log_weight: Floats, first: Integers, group: Integers) -> Floats:
    weight = np.exp(log_weight - np.maximum.reduceat(log_weight, first, axis=1)[:, group])
    shares = weight / np.add.reduceat(weight, first, axis=1)[:, group]
    return np.asarray(np.maximum(shares, 1e-300))


def _slice(log_density: Callable[[float], float], x: float, width: float, rng: np.random.Generator) -> float:
    """Return the next point of a slice sampler with stepping out and shrinking (Neal 2003)."""
    level = log_density(x) - float(rng.standard_exponential())
    low = x - width * float(rng.random())
    high = low + width
    while log_density(low) > level:
        low -= width
    while log_density(high) > level:
        high += width
    while True:
        y = low + (high - low) * float(rng.random())
        if log_density(y) > level:
            return y
        low, high = (y, high) if y < x else (low, y)
