"""The sweep of private Gibbs over the states of sequences: first all even time steps, then all odd ones."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.models.families.latent_variables import LatentStructure, SiteEvidence, StateProbabilities

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers


@dataclass(frozen=True)
class SequenceEvidence(SiteEvidence):
    """Evidence at the time steps of sequences: the number of records with each value.

    Attributes:
        values: for each feature the counts, shape (n_sites, n_values).
    """

    values: tuple[Any, ...]

    def scores(self, tables: Sequence[Integers], sites: Integers) -> Integers:
        by_feature = (counts[sites] @ table.T for counts, table in zip(self.values, tables, strict=True))
        return np.asarray(sum(by_feature), dtype=np.int64)

    def counts(self, states: Integers, n_states: int) -> list[Integers]:
        tables = []
        for counts in self.values:
            table = np.zeros((n_states, counts.shape[1]), dtype=np.int64)
            np.add.at(table, states, counts)
            tables.append(table)
        return tables


@dataclass(frozen=True)
class HiddenMarkovStructure(LatentStructure):
    """Hidden states z_st of sequences s at time steps t: z_s1 ~ first, z_st ~ transition[z_s,t-1].

    Attributes:
        shape: the numbers of sequences and of time steps.
        first: the prior concentration for the first state.
        transition: the prior concentration for each successor of a state.
        stay: the number that is added to the concentration for staying in a state.
    """

    shape: tuple[int, int] = (1, 1)
    first: float = 1.0
    transition: float = 1.0
    stay: float = 0.0
    releases_states: ClassVar[bool] = True

    def n_sites(self, n_records: int) -> int:
        return self.shape[0] * self.shape[1]

    def update_blocks(self, n_records: int) -> tuple[Integers, ...]:
        """Return the even and the odd time steps of all sequences."""
        steps = np.arange(self.n_sites(n_records)) % self.shape[1]
        groups = (np.flatnonzero(steps % 2 == parity) for parity in (0, 1))
        return tuple(group for group in groups if len(group))

    @property
    def successors(self) -> Floats:
        """The prior concentrations for each state's successor, shape (n_states, n_states)."""
        return np.full((self.n_states, self.n_states), self.transition) + self.stay * np.eye(self.n_states)

    def draw_state_probabilities(self, states: Integers | None, rng: np.random.Generator) -> StateProbabilities:
        rows, first = self.successors, np.full(self.n_states, self.first)
        if states is not None:
            z = states.reshape(self.shape)
            np.add.at(rows, (z[:, :-1].ravel(), z[:, 1:].ravel()), 1.0)
            np.add.at(first, z[:, 0], 1.0)
        return np.array([rng.dirichlet(row) for row in rows]), rng.dirichlet(first)

    def draw_states(self, probabilities: StateProbabilities, n_records: int, rng: np.random.Generator) -> Integers:
        transition, first = probabilities
        states = np.empty(self.shape, dtype=np.int64)
        for t in range(self.shape[1]):
            rows = np.broadcast_to(first, (self.shape[0], self.n_states)) if t == 0 else transition[states[:, t - 1]]
            drawn = (rng.random(self.shape[0])[:, None] > rows.cumsum(axis=1)).sum(axis=1)
            states[:, t] = np.minimum(drawn, self.n_states - 1)
        return states.ravel()

    def log_prior(self, probabilities: StateProbabilities, states: Integers, sites: Integers) -> Floats:
        """Return the log probability of each state given the states of the steps before and after."""
        transition, first = (np.log(np.maximum(array, 1e-300)) for array in probabilities)
        steps = sites % self.shape[1]
        starts, ends = steps == 0, steps == self.shape[1] - 1
        before = np.where(starts[:, None], first, transition[states[np.maximum(sites - 1, 0)]])
        after = transition.T[states[np.minimum(sites + 1, len(states) - 1)]]
        return np.asarray(before + np.where(ends[:, None], 0.0, after))

    def relabeled(self, probabilities: StateProbabilities, order: Integers) -> Sequence[Floats]:
        transition, first = probabilities
        return transition[order][:, order].ravel(), first[order]

    def sites(self, evidence: ExactEvidence) -> SiteEvidence:
        sizes = [self.n_sites(0) * len(concentration) for concentration in self.emissions]
        ends = list(itertools.accumulate(sizes))[:-1]
        parts = np.split(np.array(evidence.values, dtype=np.int64), ends)
        return SequenceEvidence(tuple(part.reshape(self.n_sites(0), -1) for part in parts))
