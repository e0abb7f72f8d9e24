"""The sensitivity of parities, held against all pairs of records."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

from dpbayes_cli.privacy import parity_sensitivity
from dpbayes_cli.privacy.dag import min_fill_elimination
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.privacy.parities import Parities
from dpbayes_cli.privacy.parity_sensitivity import maximize_odd_patterns, sensitivity_l1
from tests.privacy.parity_references import NETWORKS, all_records, counted, patterns, random_network

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers

Record = tuple[int, ...] | None
POLICIES = [(Neighbors.REPLACE_ONE, True), (Neighbors.REPLACE_ONE, False), (Neighbors.ADD_REMOVE, False)]


def contribution(parities: Parities, record: Record, *, signed: bool) -> Integers:
    """Return the contribution of one record, or of none, to the released numbers."""
    rows = np.zeros((0, len(parities.sizes)), dtype=np.int64) if record is None else np.array([record])
    return parities.coefficients(counted(parities, rows), signed=signed)


def largest_change(parities: Parities, neighbors: Neighbors, *, complete: bool) -> int:
    """Return the largest change over all pairs of records, null included if it can occur."""
    signed = not (complete and neighbors is Neighbors.REPLACE_ONE)
    valid: list[Record] = list(all_records(parities.sizes))
    added = [contribution(parities, record, signed=signed) for record in valid]
    none = contribution(parities, None, signed=signed)
    if neighbors is Neighbors.ADD_REMOVE:
        return max(int(np.abs(each - none).sum()) for each in added)
    possible = added if complete else [*added, none]
    return max(int(np.abs(a - b).sum()) for a, b in itertools.combinations(possible, 2))


@pytest.mark.parametrize(("neighbors", "complete"), POLICIES)
@pytest.mark.parametrize("name", NETWORKS)
def test_the_sensitivity_is_never_exceeded_and_attained(name: str, neighbors: Neighbors, complete: bool) -> None:
    parities = Parities(*NETWORKS[name])
    sensitivity = sensitivity_l1(parities, neighbors, complete=complete)
    signed = not (complete and neighbors is Neighbors.REPLACE_ONE)
    moved = contribution(parities, sensitivity.record, signed=signed) - contribution(
        parities, sensitivity.neighbor, signed=signed
    )
    assert sensitivity.exact
    assert sensitivity.value == sensitivity.attained == int(np.abs(moved).sum())
    assert sensitivity.value == largest_change(parities, neighbors, complete=complete)


def test_the_sensitivity_has_known_values() -> None:
    """One family of k bits: half of all 2^k patterns; naive Bayes: the class alone moves 1 + F, or F features 2 F."""
    for bits in range(1, 6):
        assert maximize_odd_patterns(Parities((2,) * bits, (tuple(range(bits)),))).value == 2 ** (bits - 1)
    features = 16
    naive = Parities((2,) * (features + 1), ((0,), *((0, i) for i in range(1, features + 1))))
    assert naive.count == 1 + 2 * features
    assert maximize_odd_patterns(naive).value == 2 * features
    assert maximize_odd_patterns(naive).record == (0, *(1,) * features)


def by_enumeration(parities: Parities) -> int:
    """Return the maximum of f over all sets of variables, from patterns by their sets of variables."""
    sets = {frozenset(v for v, _ in each) for each in patterns(parities.sizes, parities.families)}
    largest = 0
    for z in itertools.product((False, True), repeat=len(parities.sizes)):
        total = 0
        for variables in sets:
            every = signed = 1
            for v in variables:
                values = (1 << (parities.sizes[v] - 1).bit_length()) - 1
                every *= values
                signed *= -1 if z[v] else values
            total += (every - signed) // 2
        largest = max(largest, total)
    return largest


@pytest.mark.parametrize("seed", range(12))
def test_elimination_finds_what_enumeration_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parities = random_network(rng, 5 + seed % 6, 3, (2, 2, 3, 5))
    maximum = maximize_odd_patterns(parities)
    assert maximum.exact
    assert maximum.value == by_enumeration(parities)


@pytest.mark.parametrize("seed", range(8))
def test_a_bound_is_not_below_the_maximum(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    parities = random_network(np.random.default_rng(seed), 12, 3, (2, 3))
    exact = maximize_odd_patterns(parities)
    monkeypatch.setattr(parity_sensitivity, "LARGEST_EXACT", 3)
    monkeypatch.setattr(parity_sensitivity, "_LARGEST_BOUND", 4)
    bound = maximize_odd_patterns(parities)
    by_family = sum(int(parity_sensitivity._family_factor(parities, i)[1].max()) for i in range(len(parities.families)))
    assert bound.attained <= exact.value <= bound.value <= by_family <= parities.count
    assert bound.exact == (bound.attained == bound.value)


def test_a_large_network_has_a_bound() -> None:
    rng = np.random.default_rng(5)
    families = [(*map(int, rng.choice(i, min(i, 3), replace=False) if i else []), i) for i in range(200)]
    parities = Parities((2,) * 200, tuple(families))
    bound = maximize_odd_patterns(parities)
    changed = np.array([bound.record])
    assert bound.attained == int(parities.coefficients(counted(parities, changed)).sum())
    assert parities.count / 2 < bound.attained <= bound.value < parities.count
    whole = sensitivity_l1(parities, Neighbors.REPLACE_ONE, complete=False)
    assert (whole.value, whole.attained) == (2 * bound.value, 2 * bound.attained)


def test_variables_of_one_value_have_no_parities() -> None:
    parities = Parities((1, 1), ((0,), (0, 1)))
    assert maximize_odd_patterns(parities).value == 0
    assert sensitivity_l1(parities, Neighbors.REPLACE_ONE, complete=False).value == 1
    assert sensitivity_l1(parities, Neighbors.ADD_REMOVE, complete=False).value == 1


def test_an_elimination_turns_neighbors_into_cliques() -> None:
    """A ring of five needs two chords; each vertex meets two neighbors; isolated vertices meet none."""
    ring = [(i, (i + 1) % 5) for i in range(5)]
    elimination = min_fill_elimination(6, ring, 5)
    assert sorted(elimination.order) == list(range(6))
    assert sorted(map(len, elimination.later)) == [0, 0, 1, 2, 2, 2]
    assert elimination.order[0] == 5
    assert min_fill_elimination(6, ring, 1).order == (5,)
