"""Noisy counts of sequences, as arrays for the chains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.core.noisy_observation import NoisySequences
from dpbayes_cli.inference.dirichlet_rows import starts_of
from dpbayes_cli.inference.sequences.noisy_poisson import MarginalTable
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers


@dataclass(frozen=True, eq=False)
class SequenceData:
    """Noisy counts, with one row for each sequence and step, and one column for each feature and value.

    Attributes:
        observation: the observation.
        shape: the numbers of sequences, steps and states.
        observed: noisy counts, shape (n_sequences * n_steps, n_columns).
        feature: the feature of each column, shape (n_columns,).
        first: the first column of each feature.
        emission: the prior concentration of each column.
        noise: each law of noise, its columns and their likelihood; empty if the counts are used as exact.
        spread: the variance of the noise of each column, which scales the steps of chains.
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
        """Return the arrays of an observation; ``naive`` uses noisy counts as if exact, negative ones as zero."""
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

    def log_marginals(self, rate: Floats) -> Floats:
        """Return log p(observed | rate) of every cell for positive rates, shape (n_sequences * n_steps, n_columns)."""
        value = np.empty(rate.shape)
        for _, columns, table in self.noise:
            rates = rate[:, columns]
            value[:, columns] = table.at(rates.reshape(-1, 1)).reshape(rates.shape)
        return value

    def with_slopes(self, rate: Floats) -> tuple[Floats, Floats]:
        """Return log p(observed | rate) of every cell and its derivative by the rate; see ``log_marginals``."""
        value, slope = np.empty(rate.shape), np.empty(rate.shape)
        for _, columns, table in self.noise:
            rates = rate[:, columns]
            log_p, by_rate = table.with_slope(rates.reshape(-1, 1))
            value[:, columns], slope[:, columns] = log_p.reshape(rates.shape), by_rate.reshape(rates.shape)
        return value, slope
