"""Which missing cells of a record count for the probabilities of its target, and which records share them.

A missing cell counts only if it is an ancestor of the target or of an observed cell, and only if it is connected with
the target when what is observed is taken away. The rest leaves p(target | observed cells) as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpbayes_cli.base.numeric import Integers
    from dpbayes_cli.privacy.dag import Network

    Booleans = NDArray[np.bool_]


@dataclass(frozen=True)
class Group:
    """Records that are treated alike.

    Attributes:
        tables: the tables that hold any of the unknown variables that count, the target among them.
        scopes: for each of these tables which of these variables it holds, in the order of its axes.
        records: the records' places, shape (n,).
        rows: for each of them the first cell, in C order, of what its observed cells select of each of these tables;
            -1 where the table does not count. Shape (n, n_tables).
    """

    tables: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]
    records: Integers
    rows: Integers


def groups_of(network: Network, target: int, codes: Integers) -> Iterator[Group]:
    """Yield the records by what is unknown of them and counts.

    From the target on, what is unknown grows by the missing cells that share a table with it, until it is closed.

    Args:
        network: the variables and their parents.
        target: the variable that no record shows.
        codes: shape (n_variables, n_records).
    """
    import numpy as np

    missing = codes < 0
    missing[target] = True
    counts = ~missing  # whether a variable's table says anything: it, or a descendant, is observed or the target
    counts[target] = True
    for i in reversed(network.order):
        for parent in network.parents[i]:
            counts[parent] |= counts[i]
    holding: list[list[int]] = [[] for _ in network.names]
    for i, family in enumerate(network.families):
        for j in family:
            holding[j].append(i)
    open_sets = [(frozenset([target]), np.arange(codes.shape[1]))]
    closed: dict[frozenset[int], list[Integers]] = {}
    while open_sets:
        hidden, records = open_sets.pop()
        tables = sorted({i for v in hidden for i in holding[v]})
        beside = sorted({j for i in tables for j in network.families[i]} - hidden)
        place = {j: k for k, j in enumerate(beside)}
        joins = np.zeros((len(beside), len(records)), dtype=bool)
        for i in tables:
            for j in network.families[i]:
                if j not in hidden:
                    joins[place[j]] |= counts[i, records] & missing[j, records]
        for pattern, members in _alike(joins):
            if pattern.any():
                grown = hidden.union(j for j, joined in zip(beside, pattern, strict=True) if joined)
                open_sets.append((grown, records[members]))
            else:
                closed.setdefault(hidden, []).append(records[members])
    for hidden, parts in closed.items():
        yield from _closed_groups(network, hidden, holding, codes, counts, np.concatenate(parts))


def _closed_groups(
    network: Network,
    hidden: frozenset[int],
    holding: Sequence[Sequence[int]],
    codes: Integers,
    counts: Booleans,
    records: Integers,
) -> Iterator[Group]:
    """Yield the groups of records of which the same variables are unknown and count.

    A table that does not count for a record and holds one hidden variable is kept, with a row of zeros: so the records
    of a naive Bayes net stay together whatever they miss. One that holds several would enlarge the elimination.
    """
    import numpy as np

    touched = sorted({i for v in hidden for i in holding[v]})
    scopes = {i: tuple(j for j in network.families[i] if j in hidden) for i in touched}
    several = [i for i in touched if len(scopes[i]) > 1]
    for pattern, members in _alike(counts[several][:, records]):
        unused = {i for i, counted in zip(several, pattern, strict=True) if not counted}
        tables, within = [i for i in touched if i not in unused], records[members]
        rows = np.zeros((len(within), len(tables)), dtype=np.int64)
        for k, i in enumerate(tables):
            for j in network.families[i]:
                rows[:, k] *= network.sizes[j]
                if j not in hidden:
                    rows[:, k] += codes[j, within]
            rows[~counts[i, within], k] = -1
        yield Group(tuple(tables), tuple(scopes[i] for i in tables), within, rows)


def _alike(marks: Booleans) -> Iterator[tuple[Booleans, Integers]]:
    """Yield the columns that occur, and the places where each does.

    Args:
        marks: shape (n_marks, n_records).
    """
    import numpy as np

    if not marks.shape[1]:
        return
    if not marks.any(axis=1).any() or not marks.shape[0]:
        yield marks[:, 0], np.arange(marks.shape[1])
        return
    found, inverse = np.unique(np.packbits(marks, axis=0).T, axis=0, return_inverse=True)
    by_pattern = np.argsort(inverse.reshape(-1), kind="stable")
    for places in np.split(by_pattern, np.cumsum(np.bincount(inverse.reshape(-1)))[: len(found) - 1]):
        yield marks[:, places[0]], places
