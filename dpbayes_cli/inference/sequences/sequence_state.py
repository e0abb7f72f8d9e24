"""The noisy counts of a hidden Markov model as arrays, and the state of a Markov chain on its parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.core.noisy_observation import NoisySequences
from dpbayes_cli.inference.dirichlet_rows import starts_of
from dpbayes_cli.inference.sequences.noisy_poisson import MarginalTable
from dpbayes_cli.privacy.noise import NoiseLaw

MIN_RATE = 1e-12
VALID_SHAPE = 4.0
"""The prior of the shares of valid records is Gamma(4, 4); if records are complete, the shares are 1."""


@dataclass(frozen=True, eq=False)
class SequenceData:
    """Noisy counts, with one row for each step of a sequence, and one column for each value of a feature.

    Attributes:
        observation: the observation.
        shape: the numbers of sequences, steps and states.
        observed: noisy counts, shape (n_sequences * n_steps, n_columns).
        feature: the feature of each column, shape (n_columns,).
        first: the first column of each feature.
        emission: the prior concentration of each column.
        noise: each noise law with its columns and the table of their likelihood; empty if the counts are used as if
            exact.
        spread: the squared noise scale of each column, from which step sizes of moves are computed.
    """

    observation: NoisySequences
    shape: tuple[int, int, int]
    observed: Integers
    feature: Integers
    first: Integers
    emission: Floats
    noise: tuple[tuple[NoiseLaw, Integers, MarginalTable], ...]
    spread: Floats

    @classmethod
    def of(cls, observation: NoisySequences, *, naive: bool = False) -> SequenceData:
        """Return the arrays of an observation; ``naive`` treats noisy counts as exact, and negative ones as 0."""
        n_sequences, n_steps, _ = observation.observed[0].shape
        observed = np.concatenate([table.reshape(n_sequences * n_steps, -1) for table in observation.observed], axis=1)
        sizes = [len(concentrations) for concentrations in observation.emission]
        feature = np.repeat(np.arange(len(sizes)), sizes)
        laws = list(dict.fromkeys(observation.noises))
        groups = []
        for law in laws:
            if law is not None and not naive:
                columns = np.flatnonzero([observation.noises[f] == law for f in feature])
                groups.append((law, columns, MarginalTable.of(law, observed[:, columns].ravel())))
        return cls(
            observation,
            (n_sequences, n_steps, len(observation.initial)),
            observed,
            feature,
            starts_of(np.array(sizes)),
            np.concatenate(observation.emission),
            tuple(groups),
            np.array([0.0 if law is None else law.scale**2 for law in observation.noises])[feature],
        )

    def with_slopes(self, rate: Floats) -> tuple[Floats, Floats]:
        """Return log p(observed | rate) of every cell for positive rates, and its derivative in the rate.

        All arrays have shape (n_sequences * n_steps, n_columns).
        """
        if len(self.noise) == 1:
            value, slope = self.noise[0][2].with_slope(rate.reshape(-1, 1))
            return value.reshape(rate.shape), slope.reshape(rate.shape)
        value, slope = np.empty(rate.shape), np.empty(rate.shape)
        for _, columns, table in self.noise:
            rates = rate[:, columns]
            log_p, by_rate = table.with_slope(rates.reshape(-1, 1))
            value[:, columns], slope[:, columns] = log_p.reshape(rates.shape), by_rate.reshape(rates.shape)
        return value, slope


class SequenceState:
    """Everything that a sweep redraws.

    Attributes:
        emission: the emission probabilities, shape (n_states, n_columns).
        typical: a moving average of the emissions over recent sweeps.
        transition, initial: transition probabilities, and the probabilities of the first state.
        counts: the latent counts, shape (n_sequences * n_steps, n_columns).
        rate: the rate of records, shape (n_sequences * n_steps,).
        valid: the share of valid records for each feature.
        mean_rate, rate_shape: the mean and shape of the gamma distribution of the rates.
        states: the hidden states, shape (n_sequences, n_steps).
        log_likelihood: the log likelihood of the noisy counts with the latent counts summed out, and with the states
            summed out, too, if they are drawn together.
    """

    def __init__(self, data: SequenceData) -> None:
        self.data = data
        n_sequences, n_steps, n_states = data.shape
        self.emission: Floats = np.empty((n_states, len(data.feature)))
        self.typical: Floats = self.emission
        self.transition: Floats = np.empty((n_states, n_states))
        self.initial: Floats = np.empty(n_states)
        self.counts: Floats = np.maximum(data.observed, 0.0)
        totals = np.add.reduceat(data.observed, data.first, axis=1)
        self.rate: Floats = np.maximum(totals.mean(axis=1), 0.5)
        self.valid: Floats = np.ones(len(data.first))
        self.mean_rate, self.rate_shape = float(self.rate.mean()), 1.0
        self.states: Integers = np.empty((n_sequences, n_steps), dtype=np.int64)
        self.log_likelihood = -math.inf

    def rates(self) -> Floats:
        """Return the rate of each cell given its state, shape (n_sequences * n_steps, n_columns)."""
        rates = self.rate[:, None] * self.valid[self.data.feature] * self.emission[self.states.ravel()]
        return np.asarray(np.maximum(rates, MIN_RATE))

    def members(self) -> Floats:
        """Return 1 if a sequence is in a state at a step, else 0; shape (n_states, n_sequences * n_steps)."""
        return np.asarray(np.eye(self.data.shape[2])[:, self.states.ravel()])
