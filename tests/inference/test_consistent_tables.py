"""The nearest consistent tables: consistent, non-negative, with the given total, and none nearer."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dpbayes_cli.inference.tables import consistent_tables
from dpbayes_cli.inference.tables.consistent_tables import ConsistentTables, nearest_consistent
from dpbayes_cli.privacy.parities import Parities
from tests.conftest import often
from tests.privacy.parity_references import NETWORKS, counted, random_network, records_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpbayes_cli.base.numeric import Floats

LIMITS = {
    "full": {},
    "junction-tree": {"MAX_JOINT_CELLS": 0},
    "local": {"MAX_JOINT_CELLS": 0, "MAX_TREE_CELLS": 0},
}
N_RECORDS = 400


@pytest.fixture(params=LIMITS)
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Force the program to use the joint table, cliques or families."""
    for name, value in LIMITS[request.param].items():
        monkeypatch.setattr(consistent_tables, name, value)
    return str(request.param)


def noisy_tables(parities: Parities, scale: float) -> tuple[Floats, ...]:
    """Return tables rebuilt from noisy parities of skewed records."""
    records = records_of(parities, N_RECORDS)
    records[: N_RECORDS // 2] = 0
    exact = parities.coefficients(counted(parities, records))
    return parities.tables(exact + np.random.default_rng(3).laplace(0.0, scale, exact.size), float(N_RECORDS))


def solve(parities: Parities, noisy: Sequence[Floats], total: float = N_RECORDS) -> ConsistentTables:
    return nearest_consistent(parities.sizes, parities.families, noisy, total)


def distance(tables: Sequence[Floats], noisy: Sequence[Floats]) -> float:
    return sum(float(np.abs(a - b).sum()) for a, b in zip(tables, noisy, strict=True))


def assert_consistent(parities: Parities, tables: Sequence[Floats], total: float) -> None:
    for i, table in enumerate(tables):
        assert table.shape == parities.shape(i)
        assert table.min() >= 0.0
        assert table.sum() == pytest.approx(total, rel=1e-12)
    for (first, a), (second, b) in itertools.combinations(zip(parities.families, tables, strict=True), 2):
        shared = sorted(set(first) & set(second))
        difference = np.abs(margin(first, a, shared) - margin(second, b, shared)).max()
        assert difference <= 1e-9 * total


def margin(family: tuple[int, ...], table: Floats, shared: list[int]) -> Floats:
    summed = table.sum(axis=tuple(axis for axis, v in enumerate(family) if v not in shared))
    left = [v for v in family if v in shared]
    return np.asarray(summed).transpose([left.index(v) for v in shared])


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("scale", often([15.0, 0.0, 1e6], 3))
def test_tables_are_consistent_and_none_are_nearer(name: str, scale: float, how: str) -> None:
    """The optimum is that of the textbook program: minimize |Mx - y| over the joint table x, with both signs.

    Without noise the distance is 0, so that exact tables are unchanged.
    """
    parities = Parities(*NETWORKS[name])
    noisy = noisy_tables(parities, scale)
    solution = solve(parities, noisy)
    assert solution.how == how
    assert_consistent(parities, solution.tables, N_RECORDS)
    achieved, best = distance(solution.tables, noisy), least_distance(parities, noisy)
    if how == "local":  # fewer constraints; none are missing where the families have a junction tree
        assert achieved <= best * (1 + 1e-9) + 1e-6
    else:
        assert achieved == pytest.approx(best, rel=1e-7, abs=1e-6)


def least_distance(parities: Parities, noisy: Sequence[Floats]) -> float:
    from scipy.optimize import linprog

    cells = list(itertools.product(*map(range, parities.sizes)))
    rows = []
    for i, family in enumerate(parities.families):
        for cell in np.ndindex(parities.shape(i)):
            rows.append([float(all(x[v] == c for v, c in zip(family, cell, strict=True))) for x in cells])
    matrix = np.array(rows)
    target = np.concatenate([table.reshape(-1) for table in noisy])
    identity = np.eye(len(rows))
    equal = np.vstack(
        [np.hstack([matrix, -identity, identity]), np.r_[np.ones(len(cells)), np.zeros(2 * len(rows))][None]]
    )
    cost = np.r_[np.zeros(len(cells)), np.ones(2 * len(rows))]
    solved = linprog(cost, A_eq=equal, b_eq=np.r_[target, N_RECORDS], method="highs")
    assert solved.fun is not None
    return float(solved.fun)


def test_families_that_agree_pairwise_need_no_common_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three variables, of which every two always differ: locally consistent, but not the margins of any table.

    In every record two of the three are equal, so that it is in a wrong cell of a table and missing in a right one.
    """
    parities = Parities((2, 2, 2), ((0, 1), (1, 2), (0, 2)))
    different = np.array([[0.0, 50.0], [50.0, 0.0]])
    whole = solve(parities, [different] * 3, 100.0)
    assert whole.how == "full"
    assert distance(whole.tables, [different] * 3) == pytest.approx(200.0)
    assert_consistent(parities, whole.tables, 100.0)
    for name, value in LIMITS["local"].items():
        monkeypatch.setattr(consistent_tables, name, value)
    local = solve(parities, [different] * 3, 100.0)
    assert local.how == "local"
    assert distance(local.tables, [different] * 3) == pytest.approx(0.0, abs=1e-6)


def test_cliques_have_every_family_and_the_running_intersection() -> None:
    for seed in range(10):
        parities = random_network(np.random.default_rng(seed), 12, 3)
        tree = consistent_tables.junction_tree(parities.sizes, parities.families)
        assert tree is not None
        for family, home in zip(parities.families, tree.homes, strict=True):
            assert set(family) <= set(tree.blocks[home])
        assert [link.block for link in tree.links] == list(range(1, len(tree.blocks)))
        for link in tree.links:
            before = {v for block in tree.blocks[: link.block] for v in block}
            assert link.earlier < link.block
            assert before & set(tree.blocks[link.block]) == set(link.shared) <= set(tree.blocks[link.earlier])


def test_empty_margins_are_spread() -> None:
    """A child block without mass in a margin cell gets its parent's mass evenly, and all margins agree."""
    blocks = ((0, 1), (1, 2))
    plan = consistent_tables.Blocks("junction-tree", blocks, (consistent_tables.Link(0, 1, (1,)),), (0, 1))
    parent, child = np.array([[0.5, 0.1], [0.3, 0.1]]), np.array([[0.2, 0.8], [0.0, 0.0]])
    solution = consistent_tables._make_margins_agree(plan, [parent, child])
    np.testing.assert_allclose(solution[1], [[0.16, 0.64], [0.1, 0.1]])


@pytest.mark.slow
def test_a_wide_network_is_solved_family_by_family() -> None:
    rng = np.random.default_rng(2)
    families = [(*map(int, rng.choice(i, min(i, 3), replace=False) if i else []), i) for i in range(200)]
    parities = Parities((2,) * 200, tuple(families))
    solution = solve(parities, noisy_tables(parities, 50.0))
    assert solution.how == "local"
    assert_consistent(parities, solution.tables, N_RECORDS)


def test_a_naive_bayes_of_many_features_has_a_junction_tree() -> None:
    parities = Parities((3, *(2, 5) * 20), ((0,), *((0, i) for i in range(1, 41))))
    solution = solve(parities, noisy_tables(parities, 20.0))
    assert solution.how == "junction-tree"
    assert_consistent(parities, solution.tables, N_RECORDS)


@pytest.mark.parametrize("cell", [-1e12, -1.0, 0.0, 1e15])
def test_absurd_noisy_tables_have_a_consistent_solution(cell: float, how: str) -> None:
    parities = Parities(*NETWORKS["v-structure"])
    noisy = [np.full(parities.shape(i), cell) for i in range(len(parities.families))]
    solution = solve(parities, noisy, 1.0)
    assert solution.how == how
    assert_consistent(parities, solution.tables, 1.0)


@pytest.mark.parametrize("total", [0.0, -3.0])
def test_no_records_give_empty_tables(total: float) -> None:
    parities = Parities(*NETWORKS["chain"])
    solution = solve(parities, noisy_tables(parities, 5.0), total)
    assert not any(table.any() for table in solution.tables)


@pytest.mark.parametrize("network", ["three and five values", "chain"])
def test_a_solver_that_fails_leaves_independent_variables(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: Any, **kwargs: Any) -> Any:
        return SimpleNamespace(status=4, x=None)

    monkeypatch.setattr("scipy.optimize.linprog", failing)
    parities = Parities(*NETWORKS[network])
    solution = solve(parities, noisy_tables(parities, 30.0))
    assert solution.how == "independent"
    assert_consistent(parities, solution.tables, N_RECORDS)


def test_a_second_solver_is_tried_before_independent_variables(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy.optimize import linprog

    def failing(*args: Any, **kwargs: Any) -> Any:
        return SimpleNamespace(status=4, x=None) if kwargs["method"] == "highs-ipm" else linprog(*args, **kwargs)

    monkeypatch.setattr("scipy.optimize.linprog", failing)
    parities = Parities(*NETWORKS["chain"])
    solution = solve(parities, noisy_tables(parities, 30.0))
    assert solution.how == how
    assert_consistent(parities, solution.tables, N_RECORDS)


def test_a_solution_that_disagrees_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    parities = Parities(*NETWORKS["chain"])
    noisy = noisy_tables(parities, 30.0)
    for name, value in LIMITS["local"].items():
        monkeypatch.setattr(consistent_tables, name, value)
    monkeypatch.setattr(consistent_tables, "_solve", lambda *_: [np.abs(table) + 1.0 for table in noisy])
    solution = solve(parities, noisy)
    assert solution.how == "independent"
    assert_consistent(parities, solution.tables, N_RECORDS)
