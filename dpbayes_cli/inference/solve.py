"""Choose the inference for an observation by its structure, never by the name of a model or a mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbayes_cli.core.noisy_observation import NoisyCounts, NoisyObservation, NoisySequences, NoisyTables
from dpbayes_cli.inference.posterior import Effort, Method, Posterior

if TYPE_CHECKING:
    import numpy as np


def infer(
    observation: NoisyObservation, method: Method, n_draws: int, rng: np.random.Generator, effort: Effort | None = None
) -> Posterior:
    """Return the posterior of an observation's parameters.

    Args:
        observation: what was released, and what it depends on.
        method: ``noise-aware`` conditions on what was released, exactly where that is affordable; ``chain`` does so by
            Markov chains everywhere, and says how far they are from the exact answer where there is one; ``naive``
            takes what was released for the truth.
        n_draws: how many draws to return.
        rng: the generator; equal generators give equal results.
        effort: what summaries and chains must reach.
    """
    effort = effort or Effort()
    if isinstance(observation, NoisyCounts):
        from dpbayes_cli.inference.counts.infer_counts import infer_counts

        return infer_counts(observation, method, n_draws, rng, effort)
    if isinstance(observation, NoisyTables):
        from dpbayes_cli.inference.tables.infer_tables import infer_tables

        return infer_tables(observation, method, n_draws, rng, effort)
    if isinstance(observation, NoisySequences):
        from dpbayes_cli.inference.sequences.infer_sequences import infer_sequences

        return infer_sequences(observation, method, n_draws, rng, effort)
    from dpbayes_cli.inference.sums.infer_sums import infer_sums

    return infer_sums(observation, method, n_draws, rng, effort)
