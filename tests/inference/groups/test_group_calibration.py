"""Simulation-based calibration of groups: hyperparameters from their prior, groups, records, noise, posterior.

If the posterior is right, the ranks of the mean and of the spread over groups, of the mean number of records and of one
group's probability are uniform, and the reported 90 % intervals contain 90 % of the groups' probabilities on average.
Each test of uniformity fails without reason with probability 1e-6, and each mean of coverages with less. Two posteriors
that are not calibrated must fail: one with hyperparameters fitted to the noisy counts as if they were exact, and one
with a flat prior of the number of records.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from dpbayes_cli.inference.groups import grouped_counts
from dpbayes_cli.inference.groups.binary import BinaryGroups, BinaryPrior, infer_binary
from dpbayes_cli.inference.groups.component_noise import ComponentNoise, component_noise
from dpbayes_cli.inference.groups.group_blocks import group_blocks
from dpbayes_cli.inference.groups.hyperparameters import WeightedPoints, sample_density
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from tests.inference.groups.count_studies import Cell, Study, study
from tests.statistical import assert_uniform, uniformity_p_value

FALSE_FAIL = 1e-6
GRID = [Cell(*each) for each in itertools.product((5.0, 20.0, 100.0), (0.1, 0.5, 1.0, 3.0), (2, 1), (False, True))]
TENTH = GRID[3::11]
"""Every size and epsilon, both relations of neighbors, with and without dropped records."""
KNOWN = 5.0
"""Means of coverages may differ from what they must be by so many standard errors."""


def summary(cell: Cell, result: Study) -> str:
    """Return the line of a cell in a table: p-values, levels of the reported quantiles, coverage."""
    p_values = " ".join(f"{uniformity_p_value(each):8.2g}" for each in result.ranks.T)
    levels, error = result.below.mean(axis=0), result.covered.std() / len(result.covered) ** 0.5
    return (
        f"{cell.size:g} eps {cell.epsilon:g} sensitivity {cell.sensitivity} drops {cell.drops:d} | {p_values} | "
        f"{levels[0]:.3f} {levels[1]:.3f} {levels[2]:.3f} | {result.covered.mean():.3f} +- {error:.3f} | "
        f"sizes {result.sizes_covered.mean():.3f}"
    )


def assert_calibrated(cell: Cell, result: Study) -> None:
    """Fail if ranks are not uniform, or coverage differs from .9 by .02, as far as the number of studies tells."""
    print(summary(cell, result))
    for ranks in result.ranks.T:
        assert_uniform(ranks, FALSE_FAIL)
    error = max(float(result.covered.std()), 0.03) / len(result.covered) ** 0.5
    assert abs(result.covered.mean() - 0.9) < max(0.02, KNOWN * error), summary(cell, result)
    assert result.sizes_covered.mean() > 0.85, summary(cell, result)


@pytest.mark.slow
def test_groups_are_calibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell(20.0, 1.0, 2).with_its_prior(monkeypatch)
    assert_calibrated(cell, study(cell, 20, 1))


@pytest.mark.slow
@pytest.mark.calibration
@pytest.mark.parametrize("cell", TENTH, ids=str)
def test_groups_are_calibrated_in_a_tenth_of_the_study(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_calibrated(cell, study(cell.with_its_prior(monkeypatch), 50, GRID.index(cell)))


@pytest.mark.calibration_full
@pytest.mark.parametrize("cell", GRID, ids=str)
def test_groups_are_calibrated_in_the_full_study(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_calibrated(cell, study(cell.with_its_prior(monkeypatch), 500, 100 + GRID.index(cell)))


@pytest.mark.slow
@pytest.mark.calibration
@pytest.mark.parametrize("n_categories", [3, 6])
def test_categories_are_calibrated(n_categories: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell(20.0, 1.0, 2).with_its_prior(monkeypatch)
    result = study(cell, 40, 4, 60, n_categories)
    assert_uniform(result.ranks[:, 0], FALSE_FAIL)
    assert_uniform(result.ranks[:, 3], FALSE_FAIL)
    assert 0.86 < result.covered.mean() < 0.94


Noises = tuple[ComponentNoise, ComponentNoise]


def plug_in(
    observed: np.ndarray, noises: Noises, prior: BinaryPrior, rng: np.random.Generator, _: None
) -> BinaryGroups:
    """Infer groups given the mean of hyperparameters that were inferred as if the counts were exact."""
    exact = (component_noise(DiscreteLaplace(0.02), 1),) * 2
    fitted = infer_binary(np.maximum(observed, 0), exact, prior, rng).hyperparameters
    mean = WeightedPoints(fitted.weights[None, :] @ fitted.points, np.ones(1))
    return BinaryGroups(group_blocks(observed, noises), prior, mean)


def flat_sizes(
    observed: np.ndarray, noises: Noises, prior: BinaryPrior, rng: np.random.Generator, _: None
) -> BinaryGroups:
    """Infer groups with nearly the same prior probability of all numbers of records."""
    blocks = group_blocks(observed, noises)

    def extended(points: np.ndarray) -> np.ndarray:
        return np.column_stack([points, np.full(len(points), np.log(1e6)), np.zeros(len(points))])

    def log_density(points: np.ndarray) -> np.ndarray:
        law = prior.law(extended(points))
        return np.asarray(prior.log_density(extended(points)) + blocks.log_likelihood(law))

    fitted = sample_density(log_density, np.array([[-1.0, -3.0]]), 64, 50, rng)
    return BinaryGroups(blocks, prior, WeightedPoints(extended(fitted.points), fitted.weights))


@pytest.mark.slow
@pytest.mark.calibration
@pytest.mark.parametrize(
    ("mistaken", "cell", "n_studies"),
    [(plug_in, Cell(5.0, 3.0, 2), 400), (flat_sizes, Cell(5.0, 0.5, 2), 60)],
    ids=["plug-in", "flat sizes"],
)
def test_wrong_hyperparameters_are_noticed(
    mistaken: object, cell: Cell, n_studies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The study of the groups' probabilities alone notices them, without the ranks of the hyperparameters.

    Plugged-in hyperparameters cover .82 of the groups. Coverage varies by .19 between studies, so the mean of 400
    studies is below its bound of .853 in more than 999 of 1,000 cases.
    """
    cell.with_its_prior(monkeypatch)
    monkeypatch.setattr(grouped_counts, "infer_binary", mistaken)
    result = study(cell, n_studies, 5)
    only_groups = replace(result, ranks=result.ranks[:, 3:])
    with pytest.raises(AssertionError):
        assert_calibrated(cell, only_groups)
