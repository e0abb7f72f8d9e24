"""Integer weights and the exact choice among them."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from dpbayes_cli.privacy.grid import EXACT, FLOOR, SCALE, SLACK, cell_weights, sum_exact
from dpbayes_cli.privacy.lattice import SimplexLattice, multiplied, share_table
from tests.statistical import assert_follows


def weights_of(logs: list[float]) -> list[int]:
    found = cell_weights(np.array(logs), lambda cell: Decimal(logs[cell]))
    return [found.weight(cell) for cell in range(len(logs))]


def test_weights_are_floor_of_scaled_masses_plus_a_constant() -> None:
    weights = weights_of([0.0, -1.0, -50.0, -90.0, -200.0])
    total = sum_exact([EXACT.exp(Decimal(x)) for x in (0, -1, -50, -90)])
    for weight, log in zip(weights, (0, -1, -50, -90), strict=False):
        assert weight == FLOOR + int(EXACT.divide(EXACT.multiply(EXACT.exp(Decimal(log)), Decimal(SCALE)), total))
    assert weights[-1] == FLOOR  # far away, and still possible


def test_every_cell_is_possible_under_every_data_set() -> None:
    assert min(weights_of([0.0, *[-1e9] * 10])) == FLOOR


def test_the_stated_slack_covers_what_flooring_can_do() -> None:
    """Two laws whose masses differ by a factor e: their integers' ratio exceeds it by less than the slack."""
    with_floor = EXACT.ln(EXACT.divide(Decimal(FLOOR + 2), Decimal(FLOOR + 1)))
    assert with_floor < SLACK / 4
    assert -EXACT.ln(1 - EXACT.divide(Decimal(1), Decimal(FLOOR))) * 2 < SLACK


def test_the_choice_follows_the_weights() -> None:
    logs = [0.0, -0.5, -2.0, -1.0, -0.1]
    found = cell_weights(np.array(logs), lambda cell: Decimal(logs[cell]))
    masses = np.exp(logs) / np.exp(logs).sum()
    assert_follows(found.draw(20_000), np.arange(5), masses)
    assert found.total == sum(found.weight(cell) for cell in range(5))


@pytest.mark.parametrize(("left", "right"), [([1], [5]), ([1, 2, 3], [4, 5]), ([10**30, 0, 7], [10**40] * 5)])
def test_polynomials_are_multiplied_exactly(left: list[int], right: list[int]) -> None:
    expected = [0] * (len(left) + len(right) - 1)
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            expected[i + j] += a * b
    assert multiplied(left, right) == expected


def test_lattice_points_add_up_and_stay_above_the_least() -> None:
    table = share_table(30, 3, 30 - 3 * 3, lambda share: share)
    for point in SimplexLattice(30, 3, (table,) * 4).draw(200):
        assert sum(point) == 30
        assert min(point) >= 3
