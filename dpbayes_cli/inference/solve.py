"""Infer the posterior given a noisy observation, by a method selected by the structure of the observation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbayes_cli.core.noisy_observation import (
    NoisyCounts,
    NoisyDerivatives,
    NoisyGroups,
    NoisyObservation,
    NoisySequences,
    NoisyTables,
)
from dpbayes_cli.inference.posterior import Effort, Method, Posterior

if TYPE_CHECKING:
    import numpy as np


def infer(
    observation: NoisyObservation, method: Method, n_draws: int, rng: np.random.Generator, effort: Effort | None = None
) -> Posterior:
    """Return the posterior of the parameters given a noisy observation.

    Args:
        observation: the released values, their noise and prior.
        method: ``noise-aware`` accounts for the noise, exactly if that is affordable. ``chain`` accounts for it by
            Markov chains, and reports their distance from the exact posterior if that is known. ``naive`` uses the
            released values as if they were exact.
        n_draws: how many draws to return.
        rng: the generator; generators in equal states give equal results.
        effort: how much computation to spend.
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
    if isinstance(observation, NoisyGroups):
        raise TypeError("groups are inferred by infer_groups")
    if isinstance(observation, NoisyDerivatives):
        from dpbayes_cli.inference.derivatives.infer_derivatives import infer_derivatives

        return infer_derivatives(observation, method, n_draws, rng, effort)
    from dpbayes_cli.inference.sums.infer_sums import infer_sums

    return infer_sums(observation, method, n_draws, rng, effort)
