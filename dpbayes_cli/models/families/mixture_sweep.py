"""The sweep of private Gibbs over the classes of records, which are independent given the class probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes_cli.core.encoded_records import EncodedRecords
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.models.families.latent_variables import LatentStructure, SiteEvidence, StateProbabilities

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_BLOCK = 1 << 16


@dataclass(frozen=True)
class RecordEvidence(SiteEvidence):
    """Evidence at sites of one record each.

    Attributes:
        codes: for each feature the codes of the records' values, shape (n_records,).
        sizes: the number of values of each feature.
    """

    codes: tuple[Any, ...]
    sizes: tuple[int, ...]

    def scores(self, tables: Sequence[Integers], sites: Integers) -> Integers:
        by_feature = (table.T[codes[sites]] for codes, table in zip(self.codes, tables, strict=True))
        return np.asarray(sum(by_feature), dtype=np.int64)

    def counts(self, states: Integers, n_states: int) -> list[Integers]:
        tables = []
        for codes, size in zip(self.codes, self.sizes, strict=True):
            counts = np.bincount(states * size + codes, minlength=n_states * size)
            tables.append(counts.reshape(n_states, size).astype(np.int64))
        return tables


@dataclass(frozen=True)
class MixtureStructure(LatentStructure):
    """Hidden classes of records, which are independent given the class probabilities.

    Attributes:
        concentration: the prior concentration of the class probabilities.
    """

    concentration: float = 1.0

    def n_sites(self, n_records: int) -> int:
        return n_records

    def update_blocks(self, n_records: int) -> tuple[Integers, ...]:
        """Return the records in blocks that bound the memory of an update; all records are independent."""
        return tuple(np.arange(i, min(i + _BLOCK, n_records)) for i in range(0, n_records, _BLOCK))

    def draw_state_probabilities(self, states: Integers | None, rng: np.random.Generator) -> StateProbabilities:
        counts = 0 if states is None else np.bincount(states, minlength=self.n_states)
        return (rng.dirichlet(np.full(self.n_states, self.concentration) + counts),)

    def draw_states(self, probabilities: StateProbabilities, n_records: int, rng: np.random.Generator) -> Integers:
        drawn = np.searchsorted(np.cumsum(probabilities[0]), rng.random(n_records), side="right")
        return np.minimum(drawn, self.n_states - 1).astype(np.int64)

    def log_prior(self, probabilities: StateProbabilities, states: Integers, sites: Integers) -> Floats:
        logs = np.log(np.maximum(probabilities[0], 1e-300))
        return np.broadcast_to(logs, (len(sites), self.n_states))

    def relabeled(self, probabilities: StateProbabilities, order: Integers) -> Sequence[Floats]:
        return (probabilities[0][order],)

    def sites(self, evidence: ExactEvidence) -> SiteEvidence:
        records = require_type(evidence.design, EncodedRecords)
        return RecordEvidence(tuple(records.columns()), tuple(len(column.levels) for column in records.rows.columns))
