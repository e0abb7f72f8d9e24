"""The likelihood of held-out records under a hidden Markov model: how well states and emissions fit new events."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpbayes_cli.bundle.files import analysis_of, spec_of
from dpbayes_cli.errors import SpecError
from dpbayes_cli.models.hmm import Hmm
from dpbayes_cli.prediction.records import read_columns

if TYPE_CHECKING:
    from dpbayes_cli.bundle.document import ReleaseDocument
    from dpbayes_cli.numeric import Floats, Integers

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


def held_out(document: ReleaseDocument, data: str, layout: dict[str, Any]) -> HeldOut:
    """Return how likely the records of a file are.

    Records of a sequence at a step share its state: their likelihood is summed over the states, by the probabilities of
    the release, and averaged over draws of the posterior. Where the release saw no records of a sequence at a step, its
    state is known from the steps around.

    Args:
        document: the release of a hidden Markov model.
        data: the file, a pattern, or ``-``.
        layout: what is stated about the file's layout, in place of what the spec of the release says.

    Raises:
        SpecError: the release holds no states.
        SourceError: the data cannot be read.
    """
    import numpy as np

    model = spec_of(document).build_model()
    analysis = analysis_of(document)
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

    records = read_columns(document, model.columns, model.column_names, data, layout, take=take)
    emissions, _, _ = model.split(analysis.samples[:MOST_DRAWS])
    told = log_likelihood(counts, emissions, analysis.states)
    often = analysis.states.mean(axis=(0, 1))
    mixed = [np.einsum("k,dkv->dv", often, each)[:, None] for each in emissions]
    untold = log_likelihood(counts, mixed, np.ones((*model.shape, 1)))
    return HeldOut(records, scored, told / scored if scored else math.nan, untold / scored if scored else math.nan)


def log_likelihood(counts: list[Integers], emissions: list[Floats], states: Floats) -> float:
    """Return the log likelihood of counts, summed over sequences and steps, averaged over draws.

    Args:
        counts: for each feature, shape (n_sequences, n_steps, n_values).
        emissions: for each feature draws of its emissions, shape (n_draws, n_states, n_values).
        states: probabilities of the states, shape (n_sequences, n_steps, n_states).
    """
    import numpy as np
    from scipy.special import logsumexp

    flat = np.concatenate([each.reshape(-1, each.shape[-1]) for each in counts], axis=1)
    share = np.maximum(np.concatenate(emissions, axis=2), 1e-300)
    n_draws, n_states, width = share.shape
    seen = flat.any(axis=1)
    by_draw = (flat[seen] @ np.log(share).reshape(-1, width).T).reshape(-1, n_draws, n_states)
    with np.errstate(divide="ignore"):
        weighted = by_draw + np.log(states.reshape(-1, 1, n_states)[seen])
    return float((logsumexp(weighted, axis=(1, 2)) - math.log(n_draws)).sum())
