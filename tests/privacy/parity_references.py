"""Networks whose records can be listed, and parities counted one record at a time."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.privacy.parities import Parities

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers

Family = tuple[int, ...]

NETWORKS: dict[str, tuple[tuple[int, ...], tuple[Family, ...]]] = {
    "independent": ((2, 2, 3), ((0,), (1,), (2,))),
    "chain": ((2, 2, 2, 2), ((0,), (0, 1), (1, 2), (2, 3))),
    "naive bayes": ((2, 2, 2, 2), ((0,), (0, 1), (0, 2), (0, 3))),
    "naive bayes of many values": ((3, 2, 5), ((0,), (0, 1), (0, 2))),
    "v-structure": ((3, 4, 2), ((0,), (1,), (1, 0, 2))),
    "one family": ((2, 2, 2, 2), ((0,), (0, 1), (1, 0, 2), (2, 0, 1, 3))),
    "overlapping triples": ((2, 4, 2, 2), ((0,), (0, 1), (1, 0, 2), (2, 1, 3))),
    "three and five values": ((3, 5, 2), ((0,), (0, 1), (2, 1))),
    "children first": ((2, 3, 2, 2), ((3, 1, 0), (3, 1), (1, 3, 2), (3,))),
}


def patterns(sizes: tuple[int, ...], families: tuple[Family, ...]) -> set[frozenset[tuple[int, int]]]:
    """Return all patterns but 0, each as its variables with the bits it has there."""
    all_patterns = set()
    for family in families:
        for bits in itertools.product(*(range(1 << (sizes[v] - 1).bit_length()) for v in family)):
            all_patterns.add(frozenset((v, each) for v, each in zip(family, bits, strict=True) if each))
    return all_patterns - {frozenset()}


def odd(pattern: frozenset[tuple[int, int]], record: list[int] | tuple[int, ...]) -> int:
    """Return 1 if the pattern is odd in the record, otherwise 0."""
    return sum((bits & record[v]).bit_count() for v, bits in pattern) % 2


def all_records(sizes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return every record."""
    return list(itertools.product(*map(range, sizes)))


def records_of(parities: Parities, count: int) -> Integers:
    """Return random records, one per row."""
    rng = np.random.default_rng(7)
    return np.stack([rng.integers(0, size, count) for size in parities.sizes], axis=1)


def counted(parities: Parities, records: Integers) -> list[Integers]:
    """Return the table of every family."""
    tables = []
    for i, family in enumerate(parities.families):
        shape = parities.shape(i)
        cells = np.ravel_multi_index(tuple(records[:, list(family)].T), shape)
        tables.append(np.bincount(cells, minlength=math.prod(shape)).reshape(shape).astype(np.int64))
    return tables


def random_network(rng: np.random.Generator, count: int, most: int, sizes: tuple[int, ...] = (2,)) -> Parities:
    """Return a network with this many variables, each with some of the earlier ones as parents."""
    families = []
    for i in range(count):
        parents = rng.permutation(i)[: int(rng.integers(0, most + 1))]
        families.append((*map(int, parents), i))
    return Parities(tuple(int(rng.choice(sizes)) for _ in range(count)), tuple(families))
