"""Choose the inference for a problem by its structure, never by the name of a model or a mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbayes_cli.core.problems import NoisyCounts, NoisySequences, NoisyTables, Problem
from dpbayes_cli.inference.posterior import Effort, Method, Posterior

if TYPE_CHECKING:
    import numpy as np


def infer(
    problem: Problem, method: Method, n_draws: int, rng: np.random.Generator, effort: Effort | None = None
) -> Posterior:
    """Return the posterior of a problem's parameters.

    Args:
        problem: what was released, and what it depends on.
        method: ``noise-aware`` conditions on what was released, exactly where that is affordable; ``chain`` does so by
            Markov chains everywhere, and says how far they are from the exact answer where there is one; ``naive``
            takes what was released for the truth.
        n_draws: how many draws to return.
        rng: the generator; equal generators give equal results.
        effort: what summaries and chains must reach.
    """
    effort = effort or Effort()
    if isinstance(problem, NoisyCounts):
        from dpbayes_cli.inference.counts.infer_counts import infer_counts

        return infer_counts(problem, method, n_draws, rng, effort)
    if isinstance(problem, NoisyTables):
        from dpbayes_cli.inference.tables.infer_tables import infer_tables

        return infer_tables(problem, method, n_draws, rng, effort)
    if isinstance(problem, NoisySequences):
        from dpbayes_cli.inference.sequences.infer_sequences import infer_sequences

        return infer_sequences(problem, method, n_draws, rng, effort)
    from dpbayes_cli.inference.sums.infer_sums import infer_sums

    return infer_sums(problem, method, n_draws, rng, effort)
