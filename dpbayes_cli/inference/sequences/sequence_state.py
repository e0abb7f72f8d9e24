"""The state of a chain on a hidden Markov model: states, emissions, transitions, rates and latent counts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.inference.sequences.sequence_data import SequenceData

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

MIN_RATE = 1e-12
VALID_SHAPE = 4.0
"""The prior of the shares of valid records is Gamma(4, 4); if records are complete, the shares are 1."""


class SequenceState:
    """Everything that a sweep redraws.

    Args:
        data: the noisy counts.

    Attributes:
        emission: shape (n_states, n_columns).
        typical: the mean of the emissions of recent sweeps.
        transition, initial: transition probabilities and those of the first state.
        counts: the latent counts, shape (n_sequences * n_steps, n_columns).
        rate: the rate of records, shape (n_sequences * n_steps,).
        valid: the share of valid records for each feature.
        mean_rate, rate_shape: the mean and shape of the gamma distribution of the rates.
        states: shape (n_sequences, n_steps).
        log_likelihood: the log likelihood of the noisy counts, given all but states and counts.
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
        """Return the rate of each cell in its state, shape (n_sequences * n_steps, n_columns)."""
        rates = self.rate[:, None] * self.valid[self.data.feature] * self.emission[self.states.ravel()]
        return np.asarray(np.maximum(rates, MIN_RATE))

    def members(self) -> Floats:
        """Return 1 if a sequence at a step is in a state, else 0, shape (n_states, n_sequences * n_steps)."""
        return np.asarray(np.eye(self.data.shape[2])[:, self.states.ravel()])
