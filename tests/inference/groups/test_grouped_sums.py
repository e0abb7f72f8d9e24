"""The inference of groups from noisy sums: its parts, enumeration of small groups, calibration, and planted bugs."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.core.columns import NumericColumn, Outside
from dpbayes_cli.core.noisy_observation import GroupedSums, NoisyGroups
from dpbayes_cli.inference.groups import grouped_sums, size_law, sum_likelihood
from dpbayes_cli.inference.groups.grouped_posterior import Pooling
from dpbayes_cli.inference.groups.hyperparameters import WeightedPoints
from dpbayes_cli.inference.groups.noisy_normal import scaled_density
from dpbayes_cli.inference.groups.population import draw_coordinates, normal_weights, prior_weights
from dpbayes_cli.inference.groups.record_moments import RecordMoments
from dpbayes_cli.inference.groups.size_law import log_sizes
from dpbayes_cli.inference.groups.sum_nodes import distribute_evenly, log_size_weights, number_nodes
from dpbayes_cli.models.families.gamma_numbers import PoissonCounts
from dpbayes_cli.models.families.normal_numbers import NormalNumbers
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.noise import NoiseLaw
from tests.conftest import often
from tests.inference.groups.sum_references import (
    dense_grid,
    likelihoods,
    normal_likelihoods,
    outcome_of,
    reference,
)
from tests.inference.groups.sum_studies import COLUMNS, Cell, Study, draw_numbers, infer, inside, noisy_rows, study
from tests.models.number_laws import FAMILIES
from tests.plugins.staircase import Staircase

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

NAMES = sorted(COLUMNS)
FALSE_FAIL = 1e-6


def small_release(upper: int, epsilon: float, outside: Outside = "clamp") -> tuple[NoisyGroups, NumericColumn]:
    """Return a release of the sums of three groups of up to six Poisson counts."""
    rng = np.random.default_rng(upper)
    column = NumericColumn("value", 0.0, float(upper), upper, integers=True, outside=outside)
    noise, rows = DiscreteLaplace(4.0 * upper / epsilon), []
    for size in (2, 6, 4):
        codes, valid = column.codes(rng.poisson(1.5, size).astype(np.float64))
        codes = codes[valid > 0]
        rows.append(((2 * codes - upper).sum(), upper * len(codes)))
    observed = np.array(rows, dtype=np.int64) + noise.simulate(rng, (3, 2))
    return NoisyGroups(outcome_of(FAMILIES["gamma-poisson"], column), observed, noise), column


def sums_of(observation: NoisyGroups) -> GroupedSums:
    assert isinstance(observation.outcome, GroupedSums)
    return observation.outcome


def distances(left: Floats, right: Floats) -> Floats:
    """Return the total variation distance between the laws in each pair of rows."""
    return np.asarray(0.5 * np.abs(left - right).sum(axis=1))


@pytest.mark.parametrize(("center", "spread"), [(0.0, 1.0), (0.3, 0.01), (5.0, 0.5), (-9.9, 2.0)])
def test_functions_that_are_linear_between_nodes_are_integrated_exactly(center: float, spread: float) -> None:
    nodes = np.sort(np.concatenate([[-10.0, 10.0], np.random.default_rng(0).normal(0.0, 2.0, 40)]))[None]
    weights = normal_weights(nodes, np.array([center]), np.array([spread]))[0, :, 0]
    points = np.linspace(-10.0, 10.0, 400_001)
    density = np.exp(-0.5 * ((points - center) / spread) ** 2)
    expected = np.interp(points, nodes[0], np.sin(nodes[0])) @ density / density.sum()
    assert weights.sum() == pytest.approx(1.0)
    assert weights @ np.sin(nodes[0]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_the_stated_prior_is_integrated(name: str) -> None:
    outcome = outcome_of(FAMILIES[name], COLUMNS[name])
    nodes = np.linspace(*RecordMoments(outcome).domain, 400)[None]
    weights = prior_weights(nodes, outcome.law)[0, :, 0]
    draws = outcome.law.draw_prior(40_000, np.random.default_rng(0))[:, 0]
    assert weights.sum() == pytest.approx(1.0)
    assert weights @ nodes[0] == pytest.approx(draws.mean(), abs=6.0 * draws.std() / 200.0)


@pytest.mark.parametrize(
    ("noise", "error"), [(DiscreteLaplace(20.0), 4e-3), (DiscreteGaussian(20.0), 4e-3), (Staircase.examples()[-1], 0.1)]
)
def test_the_density_of_a_normal_variable_plus_noise(noise: NoiseLaw, error: float) -> None:
    residual, z = np.array([[0.0, 15.0, -90.0]]), np.arange(-2000.0, 2001.0)
    for sd in (1.0, 8.0, 100.0):
        noisy = np.exp(noise.log_pmf(np.rint(residual[..., None] - z).astype(np.int64)))
        expected = (noisy * stats.norm.pdf(z, 0.0, sd)).sum(axis=2)
        density, _ = scaled_density(noise, residual, np.full_like(residual, sd))
        np.testing.assert_allclose(density / density[0, 0], expected / expected[0, 0], rtol=2.0 * error)


def test_the_density_of_a_constant_plus_laplace_noise() -> None:
    residual = np.array([[0.0, 3.0, -40.0, 500.0]])
    density, _ = scaled_density(DiscreteLaplace(7.0), residual, np.zeros_like(residual))
    np.testing.assert_allclose(density, 4.0 * 0.5 * np.exp(-np.abs(residual) / 7.0), rtol=1e-6)


@pytest.mark.parametrize("outside", ["clamp", "drop"])
@pytest.mark.parametrize("inside_only", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_moments_are_those_of_valid_records(name: str, outside: Outside, inside_only: bool) -> None:
    column = COLUMNS[name]
    column = NumericColumn("value", column.lower, column.upper, column.steps, column.integers, outside=outside)
    outcome = outcome_of(FAMILIES[name], column)
    moments = RecordMoments(GroupedSums(outcome.law, outcome.steps))
    rng = np.random.default_rng(1)
    for coordinate in np.linspace(*outcome.law.public_range, 3):
        parameter = float(outcome.law.parameters(np.array([[coordinate]]))[0, 0])
        codes, valid = column.codes(draw_numbers(FAMILIES[name], parameter, 20_000, rng))
        u = (2.0 * codes - column.steps)[valid > 0]
        mean, sd = moments.at(np.array(coordinate))
        assert u.mean() == pytest.approx(float(mean), abs=6.0 * u.std() / len(u) ** 0.5 + 1e-9)
        assert u.std() == pytest.approx(float(sd), rel=0.06)


@pytest.mark.slow
def test_nodes_of_sizes_add_up_what_all_integers_add_up() -> None:
    """The law of the sizes may be narrow or wide, the noise too, and the observation may be far from the law."""
    for (mean, shape), scale, seen in itertools.product(
        [(0.05, 1.0), (5.0, 0.5), (20.0, 3.0), (1000.0, 100.0)], [1.5, 4.0, 40.0, 400.0], [-30.0, 0.0, 18.0, 900.0]
    ):
        noise = DiscreteLaplace(scale * 10)
        nodes = number_nodes(noise, 10.0, np.array([10.0 * seen]), np.log([[mean, shape]]))
        everything = np.arange(20_000.0)[None]
        totals = []
        for numbers in (nodes, everything):
            log_weights = log_size_weights(noise, 10.0, np.array([10.0 * seen]), numbers)[0]
            totals.append(np.logaddexp.reduce(log_weights + log_sizes(numbers[0], np.array(mean), np.array(shape))))
        if seen > -8.0 * scale and totals[1] > -20.0:  # else the observation is nearly impossible
            assert totals[0] == pytest.approx(totals[1], abs=0.02), (mean, shape, scale, seen)


def test_equidistributed_nodes_are_quantiles() -> None:
    nodes = np.linspace(-8.0, 8.0, 2001)[None]
    result = distribute_evenly(nodes, stats.norm.pdf(nodes), 21, 0.0)
    np.testing.assert_allclose(result[0, 1:-1], stats.norm.ppf(np.linspace(0.0, 1.0, 21)[1:-1]), atol=1e-3)


@pytest.mark.parametrize(
    ("upper", "epsilon", "outside", "error"),
    [
        (3, 1.0, "clamp", 1e-3),
        pytest.param(1, 1.0, "clamp", 4e-3, marks=pytest.mark.slow),
        pytest.param(3, 0.3, "clamp", 3e-4, marks=pytest.mark.slow),
        pytest.param(3, 3.0, "clamp", 1e-2, marks=pytest.mark.slow),
        pytest.param(3, 1.0, "drop", 2e-3, marks=pytest.mark.slow),
        pytest.param(8, 3.0, "clamp", 4e-3, marks=pytest.mark.slow),
    ],
)
def test_posteriors_of_small_groups_are_those_of_enumeration(
    upper: int, epsilon: float, outside: Outside, error: float
) -> None:
    """The allowed error of the normal approximation is tight; that of the draws of hyperparameters is wider."""
    observation, column = small_release(upper, epsilon, outside)
    outcome, moments = sums_of(observation), RecordMoments(sums_of(observation))
    grid = dense_grid(moments)
    exact = reference(outcome, moments, grid, likelihoods(observation, FAMILIES["gamma-poisson"], column, grid))
    normal = reference(outcome, moments, grid, normal_likelihoods(observation, moments, grid))
    assert distances(exact.masses, normal.masses).max() < error
    assert distances(exact.sizes, normal.sizes).max() < 2.0 * error
    posterior = infer(observation, "partial", 4000, np.random.default_rng(0))
    np.testing.assert_allclose(posterior.means[:, 0], normal.means, atol=0.1 * normal.sds.max())
    values = outcome.law.parameters(grid[:, None])[:, 0]
    below = np.cumsum(normal.masses, axis=1) - normal.masses / 2.0
    for row, cumulative in zip(posterior.quantiles[:, 0], below, strict=True):
        np.testing.assert_allclose(np.interp(row, values, cumulative), [0.05, 0.5, 0.95], atol=0.03)
    np.testing.assert_allclose(posterior.draws[:, :2].mean(axis=0), normal.hyperparameters[:2], rtol=0.15)


@pytest.mark.parametrize("pooling", often(["partial", "none"], 2))
@pytest.mark.parametrize("name", often(NAMES, len(NAMES)))
def test_every_part_of_the_result(name: str, pooling: Pooling) -> None:
    observation = release_of(name, 12)
    posterior, again = (infer(observation, pooling, 50, np.random.default_rng(0)) for _ in range(2))
    assert posterior.means.shape == posterior.sds.shape == posterior.above.shape == (12, 1)
    assert posterior.quantiles.shape == (12, 1, 3)
    assert posterior.sizes.shape == (12, 3)
    assert posterior.hyperparameters == ("mean", "sd", "records")
    assert posterior.draws.shape == (50, 3)
    assert posterior.new_group.shape == (50, 1)
    assert (np.diff(posterior.quantiles, axis=2) > 0).all()
    assert (posterior.sizes[:, 1] <= posterior.sizes[:, 2]).all()
    assert ((posterior.above >= 0.0) & (posterior.above <= 1.0)).all()
    assert 0.0 <= posterior.monte_carlo < 0.2
    assert posterior.warnings == ()
    for left, right in zip(vars(posterior).values(), vars(again).values(), strict=True):
        if isinstance(left, np.ndarray):
            assert np.isfinite(left).all()
            np.testing.assert_array_equal(left, right)
    draws = posterior.draw(4000, np.random.default_rng(1))
    assert draws.shape == (4000, 12, 1)
    np.testing.assert_allclose(draws.mean(axis=0), posterior.means, atol=0.15 * posterior.sds.max())


def release_of(name: str, n_groups: int, epsilon: float = 1.0) -> NoisyGroups:
    """Return a release of groups of about twenty records."""
    rng, outcome = np.random.default_rng(3), outcome_of(FAMILIES[name], COLUMNS[name])
    low, high = outcome.law.public_range
    coordinates = rng.normal((low + high) / 2.0, (high - low) / 8.0, n_groups)
    noise = DiscreteLaplace(4.0 * outcome.steps / epsilon)
    parameters = outcome.law.parameters(coordinates[:, None])[:, 0]
    sizes = rng.negative_binomial(3, 3.0 / 23.0, n_groups)
    return NoisyGroups(outcome, noisy_rows(FAMILIES[name], COLUMNS[name], parameters, sizes, noise, rng), noise)


POISSON = PoissonCounts(1.0, 0.1)
EXTREMES: dict[str, tuple[PoissonCounts, float, list[int], NoiseLaw]] = {
    "one group": (POISSON, 2.0, [30], DiscreteLaplace(40.0)),
    "no records": (POISSON, 2.0, [0] * 5, DiscreteLaplace(40.0)),
    "no events": (POISSON, 1e-9, [40] * 5, DiscreteLaplace(40.0)),
    "all above the bound": (POISSON, 300.0, [40] * 5, DiscreteLaplace(40.0)),
    "large groups": (POISSON, 2.0, [100_000] * 5, DiscreteLaplace(40.0)),
    "groups of all sizes": (POISSON, 2.0, [100_000, 1000, 20, 1, 0], DiscreteLaplace(40.0)),
    "wide noise": (POISSON, 2.0, [20] * 5, DiscreteLaplace(4000.0)),
    "narrow noise": (POISSON, 2.0, [20] * 5, DiscreteLaplace(0.5)),
    "gaussian noise": (POISSON, 2.0, [20] * 5, DiscreteGaussian(40.0)),
    "noise of another shape": (POISSON, 2.0, [20] * 5, Staircase.examples()[-1]),
    "a narrow prior far away": (PoissonCounts(4000.0, 400.0), 2.0, [100] * 5, DiscreteLaplace(40.0)),
    "a vague prior": (PoissonCounts(0.01, 0.01), 2.0, [100] * 5, DiscreteLaplace(40.0)),
}


@pytest.mark.parametrize("case", often(EXTREMES, 3))
@pytest.mark.parametrize("pooling", ["partial", pytest.param("none", marks=pytest.mark.slow)])
def test_extreme_groups_have_finite_posteriors(case: str, pooling: Pooling) -> None:
    family, rate, sizes, noise = EXTREMES[case]
    column = NumericColumn("value", 0.0, 10.0, 10, integers=True)
    rng, numbers = np.random.default_rng(0), np.array(sizes)
    rows = noisy_rows(family, column, np.full(len(sizes), rate), numbers, noise, rng)
    posterior = infer(NoisyGroups(outcome_of(family, column), rows, noise), pooling, 50, rng)
    for value in vars(posterior).values():
        if isinstance(value, np.ndarray):
            assert np.isfinite(value).all()
    assert (posterior.sds > 0.0).all()
    assert noise.scale > 400.0 or inside(posterior.sizes[:, 1:], numbers) >= 0.4


def test_many_records_tell_the_parameter() -> None:
    """Noise and prior are then negligible."""
    family, column = NormalNumbers(0.0, 100.0, 4.0), NumericColumn("value", -10.0, 10.0, 1 << 20)
    rng, parameters = np.random.default_rng(2), np.linspace(-3.0, 3.0, 8)
    noise = DiscreteLaplace(4.0 * column.steps)
    rows = noisy_rows(family, column, parameters, np.full(8, 200_000), noise, rng)
    posterior = infer(NoisyGroups(outcome_of(family, column), rows, noise), "partial", 50, rng)
    np.testing.assert_allclose(posterior.sds, (4.0 / 200_000) ** 0.5, rtol=0.05)
    assert np.abs(posterior.means[:, 0] - parameters).max() < 5.0 * (4.0 / 200_000) ** 0.5


def test_the_evidence_does_not_depend_on_where_nodes_of_sizes_are() -> None:
    """Posteriors given different laws of a record are compared by it, and have nodes of their own."""
    observation = release_of("gamma-poisson", 60)
    outcome = sums_of(observation)
    moments = RecordMoments(outcome)
    values = []
    for laws in ([[2.8, 1.0], [3.5, 1.0]], [[3.5, 0.0], [4.0, -1.0]]):
        nodes = grouped_sums._place_nodes(observation, moments, np.array(laws), moments.spread / 2.0)
        likelihood = sum_likelihood.SumLikelihood(observation, outcome, moments, "partial", *nodes)
        values.append(float(likelihood.log_posterior(np.array([[0.5, -1.0, 3.0, 1.5]]))[0]))
    assert values[0] == pytest.approx(values[1], abs=0.1)


@pytest.mark.parametrize("scale", often([30.0, 8.0], 2))
def test_wide_noise_leaves_the_likelihood_of_the_law_of_sizes(scale: float) -> None:
    """The sum over a few nodes is that over all sizes; functions linear between nodes are off by .8 nats."""
    noise, rng = DiscreteLaplace(scale * 10), np.random.default_rng(3)
    sizes = rng.integers(0, 40, 400)
    observed = (10.0 * sizes + noise.simulate(rng, 400)).astype(np.float64)
    laws = np.array([[3.0, 1.5], [3.1, 1.5], [2.9, 1.5], [3.0, 0.5]])
    nodes = number_nodes(noise, 10.0, observed, laws)
    everything = np.tile(np.arange(600.0), (400, 1))
    errors = []
    for law in np.exp([[3.0, 0.7], [3.0, 1.3], [3.0, 3.0], [3.0, 7.0]]):
        few, all_sizes = (
            np.logaddexp.reduce(log_size_weights(noise, 10.0, observed, each) + log_sizes(each, *law), axis=1).sum()
            for each in (nodes, everything)
        )
        errors.append(few - all_sizes)
    assert np.abs(errors).max() < 0.3, errors


@pytest.mark.slow
def test_a_spread_that_may_be_zero_has_draws_near_zero() -> None:
    """Its density is nearly flat there. Proposals on the log scale alone missed that tail: .3 in place of .12."""
    cell, rng = Cell("gamma-poisson", 0.5, 20.0), np.random.default_rng(5)
    rows = noisy_rows(cell.family, cell.column, np.full(300, 1.2), rng.poisson(20, 300), cell.noise, rng)
    observation = NoisyGroups(outcome_of(cell.family, cell.column), rows, cell.noise)
    spread = infer(observation, "partial", 4000, np.random.default_rng(2)).draws[:, 1]
    assert np.quantile(spread, 0.05) < 0.2 * np.median(spread)


def test_pooling_shrinks_noisy_groups() -> None:
    """Groups with the same parameter have posteriors that are much narrower with pooling than without."""
    rng, column = np.random.default_rng(4), COLUMNS["gamma-poisson"]
    noise = DiscreteLaplace(4.0 * column.steps)
    rows = noisy_rows(FAMILIES["gamma-poisson"], column, np.full(60, 1.5), rng.poisson(30.0, 60), noise, rng)
    observation = NoisyGroups(outcome_of(FAMILIES["gamma-poisson"], column), rows, noise)
    pooled, alone = (infer(observation, pooling, 50, rng) for pooling in ("partial", "none"))
    assert pooled.sds.mean() < 0.6 * alone.sds.mean()
    errors = [np.sqrt(np.mean((each.means - 1.5) ** 2)) for each in (pooled, alone)]
    assert errors[0] < 0.6 * errors[1]


def calibrated(cell: Cell, repeats: int, monkeypatch: pytest.MonkeyPatch) -> Study:
    """Study a cell, with the prior of the law of the sizes that the cell states."""
    log_mean, log_shape = cell.size_prior
    monkeypatch.setattr(size_law, "_LOG_MEAN", log_mean)
    monkeypatch.setattr(size_law, "_LOG_SHAPE", log_shape)
    return study(cell, repeats, seed=17)


def assert_calibrated(result: Study) -> None:
    """Ranks are uniform; the false-fail rate of each of the four tests is 1e-6."""
    for ranks in result.ranks.T:
        assert stats.kstest(ranks, "uniform").pvalue > FALSE_FAIL
    error = max(float(result.covered.std()), 0.05) / len(result.covered) ** 0.5
    assert abs(result.covered.mean() - 0.9) < 5.0 * error
    assert result.sizes_covered.mean() > 0.9 - 5.0 * error  # intervals of integers cover more


@pytest.mark.slow
def test_a_few_posteriors_are_calibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_calibrated(calibrated(Cell("gamma-poisson", 1.0, 20.0, 4), 20, monkeypatch))


POOLINGS: tuple[Pooling, ...] = ("partial", "none")
GRID = [
    Cell(name, epsilon, size, 6, sensitivity, pooling)
    for name, epsilon, size, sensitivity, pooling in itertools.product(
        NAMES, (0.1, 0.5, 1.0, 3.0), (5.0, 20.0, 100.0), (2, 4), POOLINGS
    )
]


@pytest.mark.slow
@pytest.mark.calibration
@pytest.mark.parametrize("cell", GRID[5::11], ids=str)
def test_posteriors_are_calibrated(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_calibrated(calibrated(cell, 100, monkeypatch))


@pytest.mark.calibration_full
@pytest.mark.parametrize("cell", GRID, ids=str)
def test_all_posteriors_are_calibrated(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_calibrated(calibrated(cell, 400, monkeypatch))


def plugged_in(observation: NoisyGroups, n_hyperparameters: int) -> WeightedPoints:
    """Return hyperparameters that are estimated as if the noisy rows were exact."""
    outcome = sums_of(observation)
    moments, sizes = RecordMoments(outcome), np.maximum(observation.observed[:, 1] / outcome.steps, 1.0)
    coordinates = moments.coordinate_of(np.clip(observation.observed[:, 0] / sizes, -outcome.steps, outcome.steps))
    mean, spread = sizes.mean(), sizes.var()
    shape = mean**2 / max(spread - mean, 1e-3)
    point = [coordinates.mean(), np.log(coordinates.std() + 1e-3), np.log(mean), np.log(shape)]
    return WeightedPoints(np.array([point[-n_hyperparameters:]] * 2), np.full(2, 0.5))


def many_groups() -> tuple[NoisyGroups, Floats]:
    """Return a release of 400 groups of about ten records, and their parameters."""
    rng, column, family = np.random.default_rng(7), COLUMNS["gamma-poisson"], FAMILIES["gamma-poisson"]
    outcome, noise = outcome_of(family, column), DiscreteLaplace(4.0 * column.steps)
    coordinates = draw_coordinates(RecordMoments(outcome).domain, np.full(400, 0.3), np.full(400, 0.8), rng)
    parameters = outcome.law.parameters(coordinates[:, None])[:, 0]
    sizes = rng.negative_binomial(2, 2.0 / 12.0, 400)
    return NoisyGroups(outcome, noisy_rows(family, column, parameters, sizes, noise, rng), noise), parameters


def result_of_many_groups() -> tuple[float, float]:
    """Return the share of the groups whose 90 % interval covers the parameter, and the error of the means."""
    observation, parameters = many_groups()
    posterior = infer(observation, "partial", 50, np.random.default_rng(0))
    error = float(np.sqrt(np.mean((posterior.means[:, 0] - parameters) ** 2)))
    return inside(posterior.quantiles[:, 0, [0, 2]], parameters), error


def test_intervals_and_means_of_many_groups() -> None:
    """The share may differ from 0.9 by 3.3 standard errors of 400 independent groups."""
    covered, error = result_of_many_groups()
    assert covered == pytest.approx(0.9, abs=0.05)
    assert error < 1.6  # the standard deviation of the parameters is 1.9


@pytest.mark.slow
def test_hyperparameters_of_exact_sums_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouped_sums, "sample_density", lambda *_: plugged_in(many_groups()[0], 4))
    covered, error = result_of_many_groups()
    assert covered > 0.95
    assert error > 3.0


@pytest.mark.slow
def test_sizes_without_a_law_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sum_likelihood, "log_sizes", lambda n, mean, shape: np.zeros(np.broadcast(n, mean).shape))
    covered, _ = result_of_many_groups()
    assert covered < 0.83


@pytest.mark.benchmark
@pytest.mark.parametrize("n_groups", [200, 10_000])
def test_how_long_it_takes(n_groups: int) -> None:
    observation = release_of("gamma-poisson", n_groups)
    start = time.process_time()
    posterior = infer(observation, "partial", 1000, np.random.default_rng(0))
    print(f"{n_groups} groups: {time.process_time() - start:.2f} s, Monte Carlo error {posterior.monte_carlo:.3f}")


def test_a_size_that_is_known_nearly_exactly_may_lie_between_nodes() -> None:
    """Its weights are finite, and sum to the probability of the noise."""
    numbers, observed = np.array([[128.0, 131.0, 140.0]]), np.array([130.0 * 9])
    weights = log_size_weights(DiscreteLaplace(0.01), 9, observed, numbers)
    assert np.isfinite(weights).any()
    assert weights.max() < 1e-6, "a probability"
