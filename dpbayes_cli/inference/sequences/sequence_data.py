"""What was observed of sequences, laid out as chains read it."""

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
    """What was observed, as chains read it: one row a sequence and step, one column a feature and value.

    Attributes:
        observation: the observation.
        shape: the numbers of sequences, steps and states.
        observed: shape (n_sequences n_steps, n_columns).
        feature: of each column, shape (n_columns,).
        first: the first column of each feature.
        emission: the concentration of each column.
        noise: each law of noise with its columns and what it makes of them; none where counts are taken as they are.
        spread: of each column, what its noise adds to a count's variance, for the scale of steps.
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
        """Lay an observation out; naive: noisy counts are taken for the truth, negative ones for none."""
        n_sequences, n_steps, _ = observation.observed[0].shape
        observed = np.concatenate([each.reshape(n_sequences * n_steps, -1) for each in observation.observed], axis=1)
        sizes = [len(each) for each in observation.emission]
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
        """Return log p(observed | rate) of every cell, for positive rates, shape (n_sequences n_steps, n_columns)."""
        value = np.empty(rate.shape)
        for _, columns, table in self.noise:
            some = rate[:, columns]
            value[:, columns] = table.at(some.reshape(-1, 1)).reshape(some.shape)
        return value

    def with_slopes(self, rate: Floats) -> tuple[Floats, Floats]:
        """Return log p(observed | rate) of every cell and its derivative by the rate; see ``log_marginals``."""
        value, slope = np.empty(rate.shape), np.empty(rate.shape)
        for _, columns, table in self.noise:
            some = rate[:, columns]
            found, by_rate = table.with_slope(some.reshape(-1, 1))
            value[:, columns], slope[:, columns] = found.reshape(some.shape), by_rate.reshape(some.shape)
        return value, slope
