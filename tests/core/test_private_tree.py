"""Private trees: the sensitivity of the scores, and the exact law of the drawn trees on all small data sets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache

import numpy as np
import pytest

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import Integers
from dpbayes_cli.core.columns import Column, RecordPolicy
from dpbayes_cli.core.private_tree import PrivateTree
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.core.statistic_values import count_cells
from dpbayes_cli.privacy.grid import MIN_WEIGHT, CellWeights
from dpbayes_cli.privacy.neighbors import Neighbors

EPSILON = Decimal(2)
COLUMNS = tuple(Column(name, ("0", "1")) for name in "abc")
LAW = PrivateTree.of_columns(COLUMNS, "b", EPSILON)
STATISTIC = LAW.first_statistic(COLUMNS, RecordPolicy(Neighbors.REPLACE_ONE))
CELLS = np.array(list(itertools.product(range(2), repeat=3)))

DataSet = tuple[int, ...]  # the number of records in each cell


def data_sets(n_cells: int, n_records: int) -> Iterator[DataSet]:
    for cells in itertools.combinations_with_replacement(range(n_cells), n_records):
        yield tuple(np.bincount(cells, minlength=n_cells).tolist())


def neighbors_of(data: DataSet) -> Iterator[DataSet]:
    for i, j in itertools.permutations(range(len(data)), 2):
        if data[i]:
            yield tuple(count - (k == i) + (k == j) for k, count in enumerate(data))


def score(table: Integers) -> int:
    return LAW.scores({(0, 1): table}, int(table.sum()))[0, 1]


def law_for(*sizes: int) -> PrivateTree:
    return PrivateTree.of_columns(
        [Column(f"v{i}", tuple(map(str, range(k)))) for i, k in enumerate(sizes)], "v0", EPSILON
    )


@pytest.mark.parametrize(("shape", "most"), [((2, 2), 6), ((2, 3), 5), ((3, 3), 4)])
def test_the_sensitivity_of_a_score_holds_on_all_small_tables(shape: tuple[int, int], most: int) -> None:
    for n in range(2, most + 1):
        scores = {data: score(np.array(data).reshape(shape)) for data in data_sets(math.prod(shape), n)}
        largest = max(abs(scores[one] - scores[other]) for one in scores for other in neighbors_of(one))
        assert largest <= law_for(*shape, 2).sensitivity(n)
        if 2 in shape:  # then the bound is attained
            assert largest == law_for(*shape, 2).sensitivity(n) == 4 * (n - 1)


def test_a_score_of_large_tables_moves_by_nearly_six_times_the_number_of_records() -> None:
    """Four times is too little: the witnesses of the docstring, whose columns are independent before the change."""
    for k in (2, 3, 10, 1000):
        before = np.array([[1, k - 1, 0], [k - 1, (k - 1) ** 2, 0], [0, 0, 0]])
        after = before.copy()
        after[0, 0], after[2, 2] = 0, 1
        n = k * k
        moved = score(after) - score(before)
        assert (score(before), moved) == (0, 6 * (n - 1) - 4 * (k - 1))
        assert moved <= law_for(3, 3, 2).sensitivity(n)
        assert (moved > 4 * n) == (k > 2)


@lru_cache
def output_law(values: tuple[int, ...], n: int) -> tuple[tuple[float, ...], tuple[float, ...], int]:
    """Return the law of the first edge, that of both edges in order, and the number of trees; ``draw`` is dictated."""
    first: list[float] = []
    both: list[float] = []
    trees = set()
    for path in itertools.product(range(3), range(2)):
        turns, masses = iter(path), []

        def dictated(weights: CellWeights, size: int) -> list[int]:
            whole = [MIN_WEIGHT] * weights.n_cells
            for i, extra in enumerate(weights.extra):
                whole[weights.first + i] += extra
            index = next(turns)  # noqa: B023 - used at once
            masses.append(whole[index] / sum(whole))  # noqa: B023
            return [index] * size

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(CellWeights, "draw", dictated)
            trees.add(LAW.draw(ExactEvidence(values, n)))
        first += [masses[0]] * (path[1] == 0)
        both.append(math.prod(masses))
    return tuple(first), tuple(both), len(trees)


def test_the_exact_law_of_the_tree_is_never_above_its_cost() -> None:
    """On all data sets of up to four records of three binary columns, and all their neighbors."""
    part, guarantee = float(EPSILON) / LAW.rounds, LAW.guarantee
    widest = []
    for n in range(1, 5):
        sets = {data: i for i, data in enumerate(data_sets(8, n))}
        counts = [count_cells(STATISTIC, LAW.names, np.repeat(CELLS, data, axis=0)) for data in sets]
        firsts, boths, trees = zip(*(output_law(values, n) for values in counts), strict=True)
        assert set(trees) == {3}
        pairs = np.array([(sets[one], sets[other]) for one in sets for other in neighbors_of(one)]).T
        first, other_first = np.array(firsts)[pairs]
        p, q = np.array(boths)[pairs]
        assert np.allclose(p.sum(axis=1), 1.0)
        assert np.abs(np.log(p / q)).max() <= float(EPSILON) + 1e-12
        for order in (2.0, 16.0):
            renyi = np.log((p**order * q ** (1.0 - order)).sum(axis=1)).max() / (order - 1.0)
            assert renyi <= min(float(guarantee.rdp(Decimal(order))), order * float(guarantee.rho)) + 1e-12
        widest.append(float(np.ptp(np.log(first / other_first), axis=1).max()))
    assert max(widest) <= part + 1e-12  # the bounded range of one round
    assert widest[0] < 1e-12
    assert widest[-1] > 0.7 * part  # a sensitivity that is too small would show


def test_only_trees_that_point_away_from_the_root_are_accepted() -> None:
    star, other = LAW.star(), (("a", ("b",)), ("b", ()), ("c", ("a",)))
    assert star == (("a", ("b",)), ("b", ()), ("c", ("b",)))
    assert [LAW.checked(tree) for tree in (star, other)] == [star, other]
    assert LAW.directed([(0, 1), (0, 2)]) == other
    cycle = (("a", ("c",)), ("b", ()), ("c", ("a",)))
    rerooted = (("a", ()), ("b", ("a",)), ("c", ("a",)))
    double = (("a", ("b", "c")), ("b", ()), ("c", ("b",)))
    for wrong in (cycle, rerooted, double, star[:2], star[::-1], (0.0, 1.0)):
        with pytest.raises(SpecError):
            LAW.checked(wrong)


def test_the_likeliest_tree_is_the_maximum_spanning_tree() -> None:
    law = PrivateTree.of_columns([Column(n, ("0", "1")) for n in "abcd"], "d", Decimal(1000))
    scores = dict(zip(law.edges, (9_000, 100, 8_000, 7_000, 200, 300), strict=True))  # ab ac ad bc bd cd
    tree = law.simulate(scores, 10, np.random.default_rng(1))
    assert tree == (("a", ("d",)), ("b", ("a",)), ("c", ("b",)), ("d", ()))


def test_what_is_refused_for_its_size_does_not_depend_on_the_tree() -> None:
    """The star has 1,000 cells, another tree a million: the request is refused before a tree is drawn."""
    assert law_for(3, 3, 2).most_parameters == 9 + 6 + 3
    for sizes, says in (((2, 700, 700), "a tree may have"), ((2, 1100, 1100), "all pairs"), ((2, 2), "only one tree")):
        with pytest.raises(ValueError, match=says):
            law_for(*sizes)
