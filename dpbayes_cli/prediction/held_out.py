"""The likelihood of held-out records under a hidden Markov model: how well states and emissions fit new events."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.bundle.read import Bundle, analysis_of
from dpbayes_cli.models.hmm import Hmm
from dpbayes_cli.prediction.records import read_columns

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers

MOST_DRAWS = 1000
"""Averages over so many draws of the posterior."""


@dataclass(frozen=True)
class HeldOut:
    """How likely held-out records are.

    Attributes:
        records: how many there were.
        scored: how many belong to a sequence and a step, and have a valid feature.
        log_likelihood: the mean over scored records, in nats; NaN where there are none.
        without_states: the same where every record has the features that all have on average: what states are worth.
    """

    records: int
    scored: int
    log_likelihood: float
    without_states: float


def held_out(bundle: Bundle, data: str, layout: dict[str, Any]) -> HeldOut:
    """Return how likely the records of a file are.

    Records of a sequence at a step share its state: their likelihood is summed over the states, by the probabilities of
    the release, and averaged over draws of the posterior. Where the release saw no records of a sequence at a step, its
    state is known from the steps around.

    Args:
        bundle: the release of a hidden Markov model.
        data: the file, a pattern, or ``-``.
        layout: what is stated about the file's layout, in place of what the spec of the release says.

    Raises:
        SpecError: the release holds no states.
        SourceError: the data cannot be read.
    """
    import numpy as np

    from dpbayes_cli.inference.sequences.state_paths import held_out_log_likelihood

    model, analysis = bundle.model, analysis_of(bundle)
    if not isinstance(model, Hmm) or analysis.states is None:
        raise SpecError("the bundle holds no states of sequences", where="model")
    counts = [np.zeros((*model.shape, size), dtype=np.int64) for size in model.sizes]
    scored = 0

    def take(codes: Integers) -> None:
        nonlocal scored
        placed = (codes[:, :2] >= 0).all(axis=1)
        scored += int((placed & (codes[:, 2:] >= 0).any(axis=1)).sum())
        for f, each in enumerate(counts):
            chosen = codes[placed & (codes[:, 2 + f] >= 0)]
            np.add.at(each, (chosen[:, 0], chosen[:, 1], chosen[:, 2 + f]), 1)

    records = read_columns(bundle, model.columns, model.column_names, data, layout, take=take)
    flat = np.concatenate([each.reshape(-1, each.shape[-1]) for each in counts], axis=1)
    emissions = np.concatenate(model.split(analysis.samples[:MOST_DRAWS])[0], axis=2)
    told = held_out_log_likelihood(flat, emissions, analysis.states.reshape(1, -1, model.states))
    mixed = np.einsum("k,dkv->dv", analysis.states.mean(axis=(0, 1)), emissions)[:, None]
    untold = held_out_log_likelihood(flat, mixed, np.ones((1, len(flat), 1)))
    return HeldOut(records, scored, told / scored if scored else math.nan, untold / scored if scored else math.nan)
