"""The likelihood of held-out records under a hidden Markov model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.core.held_out import HeldOutLikelihood, HeldOutScore
from dpbayes_cli.core.model_sections import StatesOverTime
from dpbayes_cli.inference.sequences.state_paths import held_out_log_likelihood

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers


class SequenceLikelihood(HeldOutLikelihood):
    """Scores held-out records by their likelihood given the states that were inferred from a release.

    Records of a sequence at a time step share its state. Their likelihood is summed over the states, weighted by the
    released state probabilities, and averaged over posterior draws. If the release saw no records of a sequence at a
    step, neighboring steps determine the state probabilities.
    """

    def __init__(self, states: StatesOverTime) -> None:
        self._states = states
        sizes = [len(column.levels) for column in states.features]
        self._counts = [np.zeros((*states.shape[:2], size), dtype=np.int64) for size in sizes]
        self._records = self._scored = 0

    def take(self, codes: Integers) -> None:
        self._records += len(codes)
        placed = (codes[:, :2] >= 0).all(axis=1)
        self._scored += int((placed & (codes[:, 2:] >= 0).any(axis=1)).sum())
        for f, counts in enumerate(self._counts):
            valid = codes[placed & (codes[:, 2 + f] >= 0)]
            np.add.at(counts, (valid[:, 0], valid[:, 1], valid[:, 2 + f]), 1)

    def score(self, draws: Floats, states: Floats) -> HeldOutScore:
        flat = np.concatenate([counts.reshape(-1, counts.shape[-1]) for counts in self._counts], axis=1)
        emissions = np.concatenate(self._states.split(draws)[0], axis=2)
        with_states = held_out_log_likelihood(flat, emissions, states.reshape(1, -1, self._states.states))
        mixed = np.einsum("k,dkv->dv", states.mean(axis=(0, 1)), emissions)[:, None]
        without_states = held_out_log_likelihood(flat, mixed, np.ones((1, len(flat), 1)))
        scored = self._scored
        means = (total / scored if scored else math.nan for total in (with_states, without_states))
        return HeldOutScore(self._records, scored, *means)
