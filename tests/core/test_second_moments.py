"""Second moments of numbers and indicators: sensitivities by brute force, attained by witnesses; one pass of data."""

from __future__ import annotations

import itertools
import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest

from dpbayes_cli.core.columns import AnyColumn, Column, NumericColumn, RecordPolicy
from dpbayes_cli.core.second_moments import second_moments
from dpbayes_cli.core.statistic_values import evaluate
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.tally import SumTally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpbayes_cli.base.numeric import Floats, Integers

STEPS = 4


def columns_of(numbers: int, levels: tuple[int, ...]) -> tuple[AnyColumn, ...]:
    texts = (Column(f"t{i}", tuple("abcd"[:size])) for i, size in enumerate(levels))
    return (*(NumericColumn(f"n{i}", -1.0, 1.0, STEPS) for i in range(numbers)), *texts)


def record_of(columns: tuple[AnyColumn, ...], cells: tuple[str, ...]) -> Floats:
    pairs = zip(columns, cells, strict=True)
    return np.array(
        [column.levels.index(cell) if isinstance(column, Column) else float(cell) for column, cell in pairs]
    )


@pytest.mark.parametrize(
    "policy", [(Neighbors.REPLACE_ONE, "0"), (Neighbors.REPLACE_ONE, None), (Neighbors.ADD_REMOVE, None)]
)
@pytest.mark.parametrize(
    ("numbers", "levels"),
    [(1, ()), (2, ()), (3, ()), (1, (2,)), (1, (3,)), (2, (2,)), (1, (2, 3)), (1, (3, 3)), (1, (2, 2, 2))],
)
def test_sensitivities_are_those_of_all_pairs_of_records(
    numbers: int, levels: tuple[int, ...], policy: tuple[Neighbors, str | None]
) -> None:
    """The records on a grid hold the worst pairs: numbers at bounds and in the middle, and all levels."""
    columns, relation = columns_of(numbers, levels), RecordPolicy(*policy)
    statistic = second_moments(columns, relation)
    grid = [(-1.0, -0.5, 0.0, 0.5, 1.0)] * numbers + [tuple(map(float, range(size))) for size in levels]

    def value(record: Floats | None) -> Floats:
        if record is None:
            return np.zeros(len(statistic.names))
        return np.array(evaluate(statistic, columns, record[None]), dtype=np.float64)

    values = np.array([value(np.array(record)) for record in itertools.product(*grid)])
    others = [] if relation.neighbors is Neighbors.ADD_REMOVE else [values]
    others += [] if relation.complete else [value(None)[None]]
    changes = np.concatenate([(values[:, None] - each[None]).reshape(-1, values.shape[1]) for each in others])
    assert np.abs(changes).sum(axis=1).max() == statistic.sensitivity_l1
    assert (changes**2).sum(axis=1).max() == statistic.sensitivity_l2_squared
    assert np.abs(changes).max() <= statistic.largest_change
    for witness, size in ((statistic.witness, 1), (statistic.witness_l2 or statistic.witness, 2)):
        first, second = (
            value(None if cells is None else record_of(columns, cells)) for cells in (witness.record, witness.neighbor)
        )
        attained = (np.abs(first - second) ** size).sum()
        assert attained == (statistic.sensitivity_l1, statistic.sensitivity_l2_squared)[size - 1]


class Block:
    """A block of codes, as a reader returns it."""

    def __init__(self, codes: Integers) -> None:
        self._codes = codes

    def codes(self, column: int) -> Integers:
        return self._codes[:, column]


def test_memory_does_not_grow_with_the_records_and_blocks_add_up() -> None:
    columns, policy = columns_of(2, (3,)), RecordPolicy(Neighbors.REPLACE_ONE)
    statistic, rng = second_moments(columns, policy), np.random.default_rng(0)
    codes = np.column_stack([rng.integers(0, STEPS + 1, (2000, 2)), rng.integers(0, 3, 2000)])

    def blocks(n: int) -> Iterator[Block]:
        return (Block(codes.copy()) for _ in range(n))

    peaks, values = [], []
    for n in (2, 40):
        tally = SumTally(columns, statistic, policy)
        tracemalloc.start()
        tally.read(blocks(n))  # type: ignore[arg-type]
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        values.append(tally.statistics().values)
    records = np.column_stack([codes[:, :2] / 2.0 - 1.0, codes[:, 2]])
    assert values == [tuple(n * each for each in evaluate(statistic, columns, records)) for n in (2, 40)]
    assert peaks[1] < 1.2 * peaks[0]
