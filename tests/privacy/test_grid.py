"""Integer weights and the exact choice among them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpbayes_cli.privacy.grid import EXACT, GRID_SLACK, MIN_WEIGHT, WEIGHT_SCALE, cell_weights, sum_exact
from dpbayes_cli.privacy.lattice import LATTICE_SLACK, SimplexLattice, choose_index, share_table
from tests.exact_laws import probability, weights_of
from tests.statistical import assert_follows


def test_weights_are_floor_of_scaled_masses_plus_a_constant() -> None:
    logs = [0.0, -1.0, -50.0, -90.0, -200.0]
    weights = weights_of(cell_weights(np.array(logs), lambda cell: Decimal(logs[cell])))
    total = sum_exact([EXACT.exp(Decimal(x)) for x in (0, -1, -50, -90)])
    for weight, log in zip(weights, (0, -1, -50, -90), strict=False):
        assert weight == MIN_WEIGHT + int(
            EXACT.divide(EXACT.multiply(EXACT.exp(Decimal(log)), Decimal(WEIGHT_SCALE)), total)
        )
    assert weights[-1] == MIN_WEIGHT  # far away, and still possible


def test_the_stated_slack_covers_what_flooring_can_do() -> None:
    """Two laws whose masses differ by a factor e: their integers' ratio exceeds it by less than the slack."""
    with_floor = EXACT.ln(EXACT.divide(Decimal(MIN_WEIGHT + 2), Decimal(MIN_WEIGHT + 1)))
    assert with_floor < GRID_SLACK / 4
    assert -EXACT.ln(1 - EXACT.divide(Decimal(1), Decimal(MIN_WEIGHT))) * 2 < GRID_SLACK


def test_the_choice_follows_the_weights() -> None:
    logs = [0.0, -0.5, -2.0, -1.0, -0.1]
    weights = cell_weights(np.array(logs), lambda cell: Decimal(logs[cell]))
    masses = np.exp(logs) / np.exp(logs).sum()
    assert_follows(weights.draw(20_000), np.arange(5), masses)


def test_a_choice_among_numbers_of_all_sizes_is_in_their_proportion() -> None:
    """Integers decide between some, coins between others; the smallest are never drawn (below 1e-50 in 4,000 draws)."""
    weights = [Decimal(f"{x}e{y}") for x, y in [(3, 5000), (1, -(10**9)), (5, 5000), (2, 5000), (7, 4900)]]
    drawn = [choose_index(weights) for _ in range(4000)]
    assert_follows(drawn, np.arange(5), np.array([0.3, 0.0, 0.5, 0.2, 0.0]))
    assert not {1, 4} & set(drawn)
    assert choose_index([Decimal("1e-900000000")]) == 0


def test_coins_that_tell_small_weights_from_large_ones_are_fair(monkeypatch: pytest.MonkeyPatch) -> None:
    """With integers of one digit every choice is by coins, down to weights a million times smaller."""
    monkeypatch.setattr("dpbayes_cli.privacy.lattice._HEAD_DIGITS", 1)
    weights = [Decimal(x) for x in ("4", "0.5", "0.03", "20", "100")]
    masses = np.array(list(map(float, weights)))
    assert_follows([choose_index(weights) for _ in range(8_000)], np.arange(5), masses / masses.sum())


def test_lattice_probabilities_are_the_products_within_the_slack() -> None:
    """Against exact rationals, with tables that fall by hundreds of digits."""
    table = share_table(24, 2, 24 - 3 * 2, lambda share: share * -2000)
    steep = share_table(24, 2, 24 - 3 * 2, lambda share: EXACT.ln(share) * 900)
    lattice = SimplexLattice(24, 2, (table, steep, table, steep))
    points = [p for p in itertools.product(range(2, 19), repeat=4) if sum(p) == 24]
    products = {p: math.prod(Fraction(lattice.tables[j][k - 2]) for j, k in enumerate(p)) for p in points}
    total = sum(products.values())
    for point in points[::37]:
        ratio = probability(lattice, point) * total / products[point]
        assert abs(ratio - 1) < Fraction(LATTICE_SLACK) / 100


@pytest.mark.parametrize("draw", [
    lambda size: cell_weights(np.zeros(1000), lambda cell: Decimal(0)).draw(size),
    lambda size: SimplexLattice(64, 1, (share_table(64, 1, 62, lambda share: share),) * 3).draw(size),
])  # fmt: skip
def test_two_releases_draw_different_points(draw: Callable[[int], list[Any]]) -> None:
    """Two releases of 20 points agree by chance with probability below 1e-50."""
    assert draw(20) != draw(20)
