"""Class probabilities: against sums over all completions, record by record and draw by draw."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from dpbayes_cli.inference.predictive import classify
from dpbayes_cli.inference.predictive.classify import class_probabilities, elimination_order
from dpbayes_cli.privacy.dag import Network

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers


def network_of(sizes: tuple[int, ...], parents: tuple[tuple[int, ...], ...]) -> Network:
    levels = tuple(tuple(str(k) for k in range(size)) for size in sizes)
    return Network(tuple(f"v{i}" for i in range(len(sizes))), levels, parents)


def random_network(rng: np.random.Generator, n: int) -> Network:
    """Return a random net whose variables are not in topological order."""
    names = rng.permutation(n)
    parents: list[tuple[int, ...]] = [()] * n
    for k, i in enumerate(names):
        earlier = rng.permutation(names[:k])[: int(rng.integers(0, 4))]
        parents[i] = tuple(int(j) for j in earlier)
    return network_of(tuple(int(size) for size in rng.integers(2, 4, n)), tuple(parents))


def random_draws(rng: np.random.Generator, network: Network, n_draws: int, concentration: float = 0.7) -> Floats:
    tables = []
    for i, n_cells in enumerate(network.n_cells):
        prior = np.full(network.sizes[i], concentration)
        tables.append(rng.dirichlet(prior, (n_draws, n_cells // network.sizes[i])).reshape(n_draws, -1))
    return np.concatenate(tables, axis=1)


def brute_force(network: Network, target: int, draws: Floats, record: Integers) -> Floats:
    """Return the probabilities by adding the joint probability of every completion, draw by draw."""
    starts = np.concatenate([[0], np.cumsum(network.n_cells)])
    values = [range(size) if i == target or record[i] < 0 else [int(record[i])] for i, size in enumerate(network.sizes)]
    average = np.zeros(network.sizes[target])
    for theta in draws:
        tables = [theta[starts[i] : starts[i + 1]].reshape(network.shape(i)) for i in range(len(network))]
        weights = np.zeros(network.sizes[target])
        for x in itertools.product(*values):
            weights[x[target]] += math.prod(
                table[tuple(x[j] for j in family)] for table, family in zip(tables, network.families, strict=True)
            )
        average += weights / weights.sum() / len(draws)
    return average


def every_pattern(rng: np.random.Generator, network: Network, repeats: int) -> Integers:
    """Return records with every pattern of missing cells, including the target's cell, which is not read."""
    patterns = np.array(list(itertools.product([False, True], repeat=len(network))) * repeats)
    codes = rng.integers(0, np.array(network.sizes), patterns.shape)
    return np.where(patterns, -1, codes)


@pytest.mark.parametrize("logarithms", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_every_pattern_of_missing_cells_is_summed_out(
    seed: int, logarithms: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classify, "_SMALLEST_SAFE_LOG", 0.0 if logarithms else -600.0)
    rng = np.random.default_rng(seed)
    network = random_network(rng, 4 + seed % 2)
    draws, records = random_draws(rng, network, 4), every_pattern(rng, network, 2)
    for target in range(len(network)):
        probabilities = class_probabilities(network, target, draws, records)
        expected = np.array([brute_force(network, target, draws, record) for record in records])
        np.testing.assert_allclose(probabilities, expected, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize(("tables", "work"), [(1, 1 << 18), (1 << 24, 1), (60, 40)])
def test_pieces_of_any_size_give_the_same(tables: int, work: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    network = random_network(rng, 5)
    draws, records = random_draws(rng, network, 7), every_pattern(rng, network, 1)
    expected = class_probabilities(network, 2, draws, records)
    monkeypatch.setattr(classify, "_HELD_CELLS", tables)
    monkeypatch.setattr(classify, "_BATCH_CELLS", work)
    np.testing.assert_allclose(class_probabilities(network, 2, draws, records), expected, rtol=1e-12)


def test_the_posterior_is_averaged_and_not_plugged_in() -> None:
    network = network_of((2, 2), ((), (0,)))
    # x = 0 proves the class 0 under the first draw, and the class 1 nearly so under the second
    draws = np.array([[0.5, 0.5, 0.9, 0.1, 0.1, 0.9], [0.5, 0.5, 0.001, 0.999, 0.099, 0.901]])
    probabilities = class_probabilities(network, 0, draws, np.array([[-1, 0]]))
    assert probabilities[0, 0] == pytest.approx((0.9 + 0.01) / 2, rel=1e-12)
    plugged_in = class_probabilities(network, 0, draws.mean(axis=0, keepdims=True), np.array([[-1, 0]]))
    assert plugged_in[0, 0] == pytest.approx(0.4505 / (0.4505 + 0.0995), rel=1e-12)
    assert abs(plugged_in[0, 0] - probabilities[0, 0]) > 0.3


def test_probabilities_that_underflowed_are_tiny_and_not_undefined() -> None:
    network = network_of((2, 2, 2), ((), (0,), (0,)))
    half = [0.5, 0.5]
    impossible = np.array([[*half, 0.0, 1.0, 1.0, 0.0, *half, *half]])
    probabilities = class_probabilities(network, 0, impossible, np.array([[-1, 0, 0]]))
    np.testing.assert_allclose(probabilities, [[0.0, 1.0]], atol=1e-300)
    for missing in (0, -1):
        both = np.array([[0.3, 0.7, 0.0, 1.0, 0.0, 1.0, *half, *half]])
        probabilities = class_probabilities(network, 0, both, np.array([[-1, 0, missing]]))
        np.testing.assert_allclose(probabilities, [[0.3, 0.7]], rtol=1e-12)
    nothing = np.zeros((1, 10))
    np.testing.assert_array_equal(class_probabilities(network, 0, nothing, np.array([[1, 0, 1]])), [[0.5, 0.5]])


def test_records_that_would_need_too_large_a_table_get_none(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    network = network_of((2, 3, 3, 2), ((), (0,), (0,), (1, 2)))
    draws = random_draws(rng, network, 3)
    records = np.array([[-1, 0, 1, 0], [-1, -1, -1, 0], [-1, -1, -1, -1], [-1, 0, -1, 1]])
    full = class_probabilities(network, 0, draws, records)
    assert np.isfinite(full).all()
    monkeypatch.setattr(classify, "MAX_TABLE_CELLS", 17)  # the two unknown parents of the last and the target: 18 cells
    probabilities = class_probabilities(network, 0, draws, records)
    assert np.isnan(probabilities[1]).all()
    np.testing.assert_array_equal(probabilities[[0, 2, 3]], full[[0, 2, 3]])


def test_the_order_of_elimination_keeps_tables_small() -> None:
    # summing out the middle of a star before its leaves would build a table of all of them
    scopes = [(0, 1), *((1, leaf) for leaf in range(2, 12))]
    order, largest = elimination_order(scopes, [2] * 12, 0)
    assert sorted(order) == list(range(1, 12))
    assert largest == 4
    assert elimination_order([tuple(range(17))], [2] * 17, 0)[1] == 1 << 17


def test_a_large_net_needs_only_what_is_near_the_target() -> None:
    rng = np.random.default_rng(11)
    n, target = 400, 150
    parents: list[tuple[int, ...]] = [()] * n
    for i in range(1, n):
        parents[i] = tuple(int(j) for j in rng.choice(i, min(i, int(rng.integers(0, 3))), replace=False))
    for i in rng.choice(np.arange(target + 1, n), 25, replace=False):
        parents[i] = tuple({*parents[i][:1], target})
    network = network_of((2,) * n, tuple(parents))
    draws = random_draws(rng, network, 5)
    records = rng.integers(0, 2, (40, n))
    probabilities = class_probabilities(network, target, draws, records)
    assert np.isfinite(probabilities).all()
    apart = records.copy()
    near = {target, *parents[target]} | {j for f in network.families if target in f for j in f}
    apart[:, [j for j in range(n) if j not in near]] = -1
    np.testing.assert_allclose(class_probabilities(network, target, draws, apart), probabilities, rtol=1e-12)


def test_no_record_and_variables_with_one_value_work() -> None:
    network = network_of((1, 2), ((), (0,)))
    draws = random_draws(np.random.default_rng(0), network, 2)
    assert class_probabilities(network, 0, draws, np.zeros((0, 2), dtype=np.int64)).shape == (0, 1)
    np.testing.assert_array_equal(class_probabilities(network, 0, draws, np.array([[-1, 1]])), [[1.0]])


def test_wrong_shapes_and_codes_are_refused_without_showing_a_cell() -> None:
    network = network_of((2, 3), ((), (0,)))
    draws = random_draws(np.random.default_rng(0), network, 2)
    records = np.array([[-1, 3]])
    with pytest.raises(ValueError, match="'v1' must be -1 or from 0 to 2"):
        class_probabilities(network, 0, draws, records)
    assert np.isfinite(class_probabilities(network, 1, draws, np.array([[0, 77]]))).all()
    with pytest.raises(ValueError, match="expected at least one draw of 8 cells"):
        class_probabilities(network, 0, draws[:, 1:], records)
    with pytest.raises(ValueError, match="expected at least one draw of 8 cells"):
        class_probabilities(network, 0, draws[:0], records)
    with pytest.raises(ValueError, match=r"expected \(n_records, 2\)"):
        class_probabilities(network, 0, draws, records[:, :1])
    with pytest.raises(ValueError, match="target is 2, expected 0 to 1"):
        class_probabilities(network, 2, draws, records)
