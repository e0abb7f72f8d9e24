"""The likelihood of held-out records under a hidden Markov model: how well states and emissions fit new events."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpbayes_cli.core.held_out import HeldOutLikelihood, HeldOutScore
from dpbayes_cli.core.model_sections import StatesOverTime

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers


class SequenceLikelihood(HeldOutLikelihood):
    """How likely records are by the state of their sequence at their step.

    Records of a sequence at a step share its state: their likelihood is summed over the states, by the probabilities of
    the release, and averaged over draws of the posterior. Where the release saw no records of a sequence at a step, its
    state is known from the steps around.
    """

    def __init__(self, states: StatesOverTime) -> None:
        import numpy as np

        self._states = states
        sizes = [len(column.levels) for column in states.features]
        self._counts = [np.zeros((*states.shape[:2], size), dtype=np.int64) for size in sizes]
        self._records = self._scored = 0

    def take(self, codes: Integers) -> None:
        """Take in records: sequence, step and features; see ``HeldOutLikelihood``."""
        import numpy as np

        self._records += len(codes)
        placed = (codes[:, :2] >= 0).all(axis=1)
        self._scored += int((placed & (codes[:, 2:] >= 0).any(axis=1)).sum())
        for f, each in enumerate(self._counts):
            chosen = codes[placed & (codes[:, 2 + f] >= 0)]
            np.add.at(each, (chosen[:, 0], chosen[:, 1], chosen[:, 2 + f]), 1)

    def score(self, draws: Floats, states: Floats) -> HeldOutScore:
        """Return the likelihood of the records, with their states and without; see ``HeldOutLikelihood``."""
        import numpy as np

        from dpbayes_cli.inference.sequences.state_paths import held_out_log_likelihood

        flat = np.concatenate([each.reshape(-1, each.shape[-1]) for each in self._counts], axis=1)
        emissions = np.concatenate(self._states.split(draws)[0], axis=2)
        told = held_out_log_likelihood(flat, emissions, states.reshape(1, -1, self._states.states))
        mixed = np.einsum("k,dkv->dv", states.mean(axis=(0, 1)), emissions)[:, None]
        untold = held_out_log_likelihood(flat, mixed, np.ones((1, len(flat), 1)))
        scored = self._scored
        mean_told, mean_untold = (each / scored if scored else math.nan for each in (told, untold))
        return HeldOutScore(self._records, scored, mean_told, mean_untold)
