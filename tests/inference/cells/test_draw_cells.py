"""Posteriors of counts against enumeration: single counts, known totals, and parts of a whole."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.inference.cells.cell_laws import CELL_LAWS
from dpbayes_cli.inference.cells.count_lattices import lattices
from dpbayes_cli.inference.cells.draw_cells import draw_cells
from tests.conftest import often
from tests.inference.cells.cells import FREE, as_pair, noisy_cells, with_total
from tests.statistical import assert_follows

ALL_LAWS = pytest.mark.parametrize("law", CELL_LAWS)


def posterior(observed: float, law: str, scale: float, counts: np.ndarray) -> np.ndarray:
    log_mass = CELL_LAWS[law].log_density(observed - counts, np.array(scale))
    mass = np.exp(log_mass - log_mass.max())
    return np.asarray(mass / mass.sum())


@ALL_LAWS
@pytest.mark.parametrize(("observed", "scale"), [(5.0, 2.0), (-3.0, 2.0), (40.0, 0.4), (30.0, 40.0), (5000.0, 90.0)])
def test_a_count_by_itself_has_the_exact_posterior(law: str, observed: float, scale: float) -> None:
    counts = np.arange(0.0, 12_000.0)
    mass = posterior(observed, law, scale, counts)
    cumulative = np.cumsum(mass)
    mean = float(mass @ counts)
    sd = float(np.sqrt(mass @ (counts - mean) ** 2))
    count = lattices(noisy_cells([observed], law, scale), np.array([0]))
    assert count.moments()[0][0] == pytest.approx(mean, abs=2e-3 * sd)
    assert count.moments()[1][0] == pytest.approx(sd, rel=2e-3)
    for level in (0.05, 0.5, 0.95):
        exact = int(np.searchsorted(cumulative, level))
        assert abs(int(count.quantile(level)[0]) - exact) <= (0 if scale < 16 else 0.01 * sd + 1)


@ALL_LAWS
def test_draws_follow_the_posterior(law: str) -> None:
    """Fails without reason with probability 1e-9, as each chi-square test here."""
    counts = np.arange(0.0, 60.0)
    drawn = draw_cells(noisy_cells([4.0, 9.0], law), FREE, np.array([1, 0]), 50_000, np.random.default_rng(1))
    for column, observed in enumerate((9.0, 4.0)):
        assert_follows(drawn[:, column], counts, posterior(observed, law, 2.0, counts))


def test_counts_may_be_negative_if_the_spec_says_so() -> None:
    counts = np.arange(-60.0, 60.0)
    cells = noisy_cells([-3.0], non_negative=False)
    drawn = draw_cells(cells, FREE, np.array([0]), 50_000, np.random.default_rng(2))
    assert_follows(drawn[:, 0], counts, posterior(-3.0, "discrete-laplace", 2.0, counts))
    assert (draw_cells(noisy_cells([-3.0]), FREE, np.array([0]), 5000, np.random.default_rng(2)) >= 0).all()


@ALL_LAWS
def test_a_known_total_holds_in_every_draw_and_the_law_is_that_of_enumeration(law: str) -> None:
    observed, total = (5.0, -1.0, 4.0), 6
    tables = [each for each in itertools.product(range(total + 1), repeat=3) if sum(each) == total]
    log_density = CELL_LAWS[law].log_density
    weights = np.array([np.exp(log_density(np.subtract(observed, each), np.array(2.0)).sum()) for each in tables])
    drawn = draw_cells(
        noisy_cells(observed, law), with_total(total, 0, 1, 2), np.arange(3), 60_000, np.random.default_rng(3)
    )
    assert (drawn.sum(axis=1) == total).all()
    assert (drawn >= 0).all()
    codes = drawn @ [100, 10, 1]
    expected = np.array(tables) @ [100, 10, 1]
    assert_follows(codes, expected, weights / weights.sum())


@pytest.mark.parametrize(("total", "law"), [(30, "discrete-laplace"), (30, "discrete-gaussian"), (4000, "laplace")])
def test_totals_far_from_the_sum_of_the_noisy_counts_hold(total: int, law: str) -> None:
    """Flat priors pull the counts of many empty cells upward; the total pulls them back."""
    rng = np.random.default_rng(4)
    observed = np.rint(rng.laplace(0.0, 6.0, 300))
    drawn = draw_cells(noisy_cells(observed, law, 6.0), with_total(total, *range(300)), np.arange(300), 500, rng)
    assert (drawn.sum(axis=1) == total).all()
    assert (drawn >= 0).all()


def test_an_impossible_total_is_refused() -> None:
    cells = noisy_cells([500.0, 400.0], "discrete-gaussian", 1.0)
    with pytest.raises(SourceError, match="cannot explain"):
        draw_cells(cells, with_total(90_000, 0, 1), np.arange(2), 100, np.random.default_rng(5))


@ALL_LAWS
@pytest.mark.parametrize(
    ("part", "whole", "scale"),
    often([(60, 2, 4.0), (5, 4, 2.0), (8, 2, 1.0), (50, 400, 40.0), (500, 400, 40.0)], 5, several=True),
)
def test_a_part_never_exceeds_its_whole(law: str, part: float, whole: float, scale: float) -> None:
    counts = np.arange(0.0, 2500.0)
    log_density = CELL_LAWS[law].log_density
    log_joint = np.add.outer(*(log_density(each - counts, np.array(scale)) for each in (part, whole)))
    log_joint[counts[:, None] > counts] = -np.inf
    joint = np.exp(log_joint - log_joint.max())
    joint /= joint.sum()
    drawn = draw_cells(
        noisy_cells([part, whole], law, scale), as_pair(0, 1), np.arange(2), 40_000, np.random.default_rng(6)
    )
    assert (drawn[:, 0] <= drawn[:, 1]).all()
    for column, mass in enumerate((joint.sum(axis=1), joint.sum(axis=0))):
        mean = float(mass @ counts)
        sd = float(np.sqrt(mass @ (counts - mean) ** 2))
        assert drawn[:, column].mean() == pytest.approx(mean, abs=6.5 * sd / 200)  # 1e-10, with 200 = sqrt(40,000)
        assert drawn[:, column].std() == pytest.approx(sd, rel=0.06)
    if scale < 16:
        joint_mean = float(counts @ joint @ counts)
        assert (drawn[:, 0] * drawn[:, 1]).mean() == pytest.approx(joint_mean, rel=0.08)


def test_a_part_of_an_exact_whole() -> None:
    from dataclasses import replace

    cells = noisy_cells([9.0, 10.0], "discrete-laplace", 4.0)
    cells = replace(cells, law=np.array([0, -1]), scale=np.array([4.0, 0.0]))
    drawn = draw_cells(cells, as_pair(0, 1), np.arange(2), 40_000, np.random.default_rng(7))
    assert (drawn[:, 1] == 10).all()
    counts = np.arange(0.0, 11.0)
    assert_follows(drawn[:, 0], counts, posterior(9.0, "discrete-laplace", 4.0, counts))
