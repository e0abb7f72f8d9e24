"""Count the valid records and cells of a file. NOT PRIVATE: for the custodian only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from dpbayes_cli.core.columns import NumericColumn, RecordPolicy
from dpbayes_cli.core.model import BoundedStatistics, DataCheck, Model
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ProductOf, Statistic, TableCounts, Witness
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.location import Location
from dpbayes_cli.sources.packed_codes import CodeReader
from dpbayes_cli.spec.release_spec import ReleaseSpec
from dpbayes_cli.workflow.release_data import ReleaseData, source_of

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers


def count_valid(spec: ReleaseSpec, location: Location) -> dict[str, int]:
    """Return the counts that the model's data check asks for, by name. NOT PRIVATE: for the custodian only.

    Raises:
        SourceError: the data cannot be read.
    """
    model = spec.build_model()
    return _COUNTS[model.data_check](spec, location, model)


def _count_statistic(spec: ReleaseSpec, location: Location, model: Model) -> dict[str, int]:
    """Count records with the model's statistic; all records that it does not count are invalid."""
    dropping = RecordPolicy(Neighbors.ADD_REMOVE)  # every level is counted, nothing is imputed
    statistic = require_type(model, BoundedStatistics).statistic(dropping)
    with closing(ReleaseData(spec, location, model)) as data:
        evidence = data.open_source().statistics(statistic, dropping)
    counted = dict(zip(statistic.names, evidence.values, strict=True))
    weights = [e.weight for e in statistic.expressions if isinstance(e, ProductOf) and not e.roles]
    if weights:
        counted = {"valid": counted["valid"] // weights[0]}
    invalid = evidence.n_records - sum(counted.values())
    return {**counted, "invalid": invalid, "records": evidence.n_records}


def _count_levels(spec: ReleaseSpec, location: Location, model: Model) -> dict[str, int]:
    """Count, for each variable, the records of each level and the records with an invalid cell."""
    columns = [replace(column, impute=None) for column in model.columns if not isinstance(column, NumericColumn)]
    tables = tuple(TableCounts((column.role,), (len(column.levels),)) for column in columns)
    counting = Statistic((), tables, 0, Witness(None, None), 0)
    with closing(source_of(spec.source, location, spec.privacy.unit)) as source:
        source.check(columns, model.column_names)
        evidence = source.statistics(counting, RecordPolicy(Neighbors.ADD_REMOVE))
    counted, first = {}, 0
    for column in columns:
        counts = evidence.values[first : first + len(column.levels)]
        counted.update({f"{column.role}={level}": n for level, n in zip(column.levels, counts, strict=True)})
        counted[f"{column.role} invalid"] = evidence.n_records - sum(counts)
        first += len(column.levels)
    return {**counted, "records": evidence.n_records}


def _count_cells(spec: ReleaseSpec, location: Location, model: Model) -> dict[str, int]:
    """Count the invalid cells of each column, and the valid records."""
    columns = [replace(column, impute=None) for column in model.columns]
    counted = dict.fromkeys((f"{column.role} invalid" for column in columns), 0)
    valid = [0]

    def take(codes: Integers) -> None:
        for name, missing in zip(counted, (codes < 0).sum(axis=0).tolist(), strict=True):
            counted[name] += missing
        valid[0] += int((codes >= 0).all(axis=1).sum())

    reader = CodeReader(columns, RecordPolicy(Neighbors.ADD_REMOVE), take)
    with closing(source_of(spec.source, location, spec.privacy.unit)) as source:
        source.check(columns, model.column_names)
        source.read(reader)
    return {**counted, "valid": valid[0], "records": reader.records}


_COUNTS: Mapping[DataCheck, Callable[[ReleaseSpec, Location, Model], dict[str, int]]] = MappingProxyType(
    {"statistic": _count_statistic, "levels": _count_levels, "cells": _count_cells}
)
