"""Find the missing cells of records that are relevant to the target's probabilities, and group records by them.

A missing cell is relevant if it is an ancestor of the target or of an observed cell, and if it is connected to the
target by tables after the observed cells are removed. Other missing cells do not change p(target | observed cells).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dpbayes_cli.base.numeric import Booleans, Integers
from dpbayes_cli.privacy.dag import Network


@dataclass(frozen=True)
class RecordGroup:
    """Records with the same hidden variables: the target and the relevant missing cells.

    Attributes:
        tables: the tables that contain a hidden variable.
        scopes: for each of these tables its hidden variables, in the order of its axes.
        records: the indices of the records, shape (n_records,).
        rows: for each record and table the flat index of the first table cell that agrees with the observed cells of
            the record; -1 if the table is irrelevant. Shape (n_records, n_tables).
    """

    tables: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]
    records: Integers
    rows: Integers


def group_records(network: Network, target: int, codes: Integers) -> Iterator[RecordGroup]:
    """Yield groups of records with the same hidden variables.

    The target is always a hidden variable. Missing cells that share a relevant table with a hidden variable become
    hidden variables, too, until there are no more. ``codes`` has shape (n_variables, n_records), with -1 for missing
    values.
    """
    missing = codes < 0
    missing[target] = True
    relevant = ~missing  # the table of a variable is relevant if the variable or a descendant is observed or the target
    relevant[target] = True
    for i in reversed(network.order):
        for parent in network.parents[i]:
            relevant[parent] |= relevant[i]
    tables_with: list[list[int]] = [[] for _ in network.names]
    for i, family in enumerate(network.families):
        for j in family:
            tables_with[j].append(i)
    open_sets = [(frozenset([target]), np.arange(codes.shape[1]))]
    closed: dict[frozenset[int], list[Integers]] = {}
    while open_sets:
        hidden, records = open_sets.pop()
        tables = sorted({i for v in hidden for i in tables_with[v]})
        adjacent = sorted({j for i in tables for j in network.families[i]} - hidden)
        index_of = {j: k for k, j in enumerate(adjacent)}
        joins = np.zeros((len(adjacent), len(records)), dtype=bool)
        for i in tables:
            for j in network.families[i]:
                if j not in hidden:
                    joins[index_of[j]] |= relevant[i, records] & missing[j, records]
        for pattern, members in _columns_by_pattern(joins):
            if pattern.any():
                grown = hidden.union(j for j, joined in zip(adjacent, pattern, strict=True) if joined)
                open_sets.append((grown, records[members]))
            else:
                closed.setdefault(hidden, []).append(records[members])
    for hidden, parts in closed.items():
        yield from _closed_groups(network, hidden, tables_with, codes, relevant, np.concatenate(parts))


def _closed_groups(
    network: Network,
    hidden: frozenset[int],
    tables_with: Sequence[Sequence[int]],
    codes: Integers,
    relevant: Booleans,
    records: Integers,
) -> Iterator[RecordGroup]:
    """Split records with the same hidden variables into groups that use the same tables.

    If a table has one hidden variable, a group may contain records for which the table is irrelevant; their row of this
    table is -1. All records of a naive Bayes net therefore stay together. A table with several hidden variables makes
    elimination more expensive, so the records for which it is irrelevant form a group of their own.
    """
    touched = sorted({i for v in hidden for i in tables_with[v]})
    scopes = {i: tuple(j for j in network.families[i] if j in hidden) for i in touched}
    several = [i for i in touched if len(scopes[i]) > 1]
    for pattern, members in _columns_by_pattern(relevant[several][:, records]):
        unused = {i for i, is_relevant in zip(several, pattern, strict=True) if not is_relevant}
        tables, within = [i for i in touched if i not in unused], records[members]
        rows = np.zeros((len(within), len(tables)), dtype=np.int64)
        for k, i in enumerate(tables):
            for j in network.families[i]:
                rows[:, k] *= network.sizes[j]
                if j not in hidden:
                    rows[:, k] += codes[j, within]
            rows[~relevant[i, within], k] = -1
        yield RecordGroup(tuple(tables), tuple(scopes[i] for i in tables), within, rows)


def _columns_by_pattern(marks: Booleans) -> Iterator[tuple[Booleans, Integers]]:
    """Yield each distinct column of a Boolean array, shape (n_marks, n_records), and the indices at which it occurs."""
    if not marks.shape[1]:
        return
    if not marks.any(axis=1).any() or not marks.shape[0]:
        yield marks[:, 0], np.arange(marks.shape[1])
        return
    patterns, inverse = np.unique(np.packbits(marks, axis=0).T, axis=0, return_inverse=True)
    by_pattern = np.argsort(inverse.reshape(-1), kind="stable")
    for columns in np.split(by_pattern, np.cumsum(np.bincount(inverse.reshape(-1)))[: len(patterns) - 1]):
        yield marks[:, columns[0]], columns
