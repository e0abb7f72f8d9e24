"""The likelihood and the posterior of one parameter given a noisy sum.

Likelihoods are compared with enumeration: every total, every value of the sum, every value of the noise. Nothing there
is random but the choice of what was observed. Adaptive grids are compared with one that is dense everywhere.
"""

from __future__ import annotations

import itertools
from decimal import Decimal
from math import comb
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.core.columns import NumericColumn, Outside
from dpbayes_cli.core.noisy_observation import NoisySums, RecordCount
from dpbayes_cli.core.record_law import ScalarLaw
from dpbayes_cli.core.section import require_type
from dpbayes_cli.inference.sums import one_parameter, record_numbers
from dpbayes_cli.inference.sums.one_parameter import grid_density, scalar_posterior
from dpbayes_cli.models.families.beta_numbers import GeometricNumbers
from dpbayes_cli.models.families.gamma_numbers import ExponentialTimes, PoissonCounts
from dpbayes_cli.models.families.number_families import NumberFamily, NumberLaw
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.noise import NoiseLaw
from tests.conftest import often, seldom
from tests.inference.sum_cells import (
    EPSILONS,
    SIZES,
    Cell,
    all_log_likelihoods,
    assert_calibrated,
    dense_posterior,
    exact_ranks,
    models,
    simulate,
)
from tests.models.number_laws import FAMILIES, code_masses
from tests.plugins.staircase import Staircase

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats


Kind = Literal["known", "at-most", "unbounded"]
NAMES = ["beta-geometric", "gamma-exponential", "gamma-poisson", "normal-mean"]
GRID = 61
EXACT = 1e-5
"""Allowed total variation between posteriors on a lattice: no approximation but floating point and cut tails."""
SMOOTH = 1e-3
"""The same where the reference rounds numbers to a coarse grid and the inversion takes them for continuous."""
CLOSE = 2e-3
"""Allowed distance of cumulative probabilities: a fifth of what a chain of 100,000 draws can show."""


def sum_masses(masses: Floats, n_records: int) -> Floats:
    """Return the law of the sum of codes of n records, by repeated convolution or, for many, by an FFT."""
    if n_records <= 12 and masses.shape[1] < 64:
        total = np.ones((len(masses), 1))
        for _ in range(n_records):
            total = np.array([np.convolve(a, b) for a, b in zip(total, masses, strict=True)])
        return total
    size = n_records * (masses.shape[1] - 1) + 1
    padded = 1 << (size - 1).bit_length()
    return np.asarray(np.fft.irfft(np.fft.rfft(masses, padded, axis=1) ** n_records, padded, axis=1)[:, :size])


def brute_force(observation: NoisySums, family: NumberFamily, column: NumericColumn, grid: Floats) -> Floats:
    """Return p(observed | theta) by enumeration of the number of records and of their sum."""
    masses = code_masses(family, column, family.parameter(grid))
    y, total = observation.observed[0], observation.total
    if total.kind == "known" and not observation.valid:
        sums = sum_masses(masses, total.n)
        noise = np.exp(observation.noise.log_pmf(y - np.arange(sums.shape[1])))
        return np.asarray(sums @ noise)
    reach = observation.noise.radius(40.0) // observation.valid
    highest = max(observation.observed[1] // observation.valid, 0) + reach + 1 if total.kind == "unbounded" else total.n
    outside = np.maximum(1.0 - masses.sum(axis=1), 0.0)
    if total.kind == "unbounded":  # the total is that of the numbers inside
        masses, outside = masses / masses.sum(axis=1, keepdims=True), np.zeros_like(outside)
    likelihood, sums = np.zeros(len(grid)), np.ones((len(grid), 1))
    for m in range(highest + 1):
        weight = np.exp(observation.noise.log_pmf(np.array(observation.observed[1] - m * observation.valid)))
        records = [total.n] if total.kind == "known" else range(m, highest + 1) if total.kind == "at-most" else [m]
        weight = weight * sum(comb(n, m) * outside ** (n - m) for n in records)
        codes = np.arange(m * column.steps + 1)
        noise = np.exp(observation.noise.log_pmf(y - (2 * codes - m * column.steps)))
        likelihood += weight * (sums @ noise)
        sums = np.array([np.convolve(a, b) for a, b in zip(sums, masses, strict=True)])
    return likelihood


def noisy_sum(
    family: NumberFamily, column: NumericColumn, centered: bool, kind: Kind, n: int, noise: NoiseLaw, seed: int
) -> tuple[int, ...]:
    """Draw a release from the prior predictive distribution."""
    rng = np.random.default_rng(seed)
    parameter = family.parameter(family.draw_prior(1, rng))
    m = int(rng.integers(0, n, endpoint=True)) if kind == "at-most" else n
    masses = code_masses(family, column, parameter)[0]
    codes = rng.choice(column.steps + 2, size=m, p=[*masses, max(1.0 - masses.sum(), 0.0)])
    codes = codes[codes <= column.steps]
    exact = [int((2 * codes - column.steps).sum()), len(codes) * column.steps] if centered else [int(codes.sum())]
    return tuple(int(e + z) for e, z in zip(exact, noise.simulate(rng, len(exact)), strict=True))


def total_variation(
    family: NumberFamily, column: NumericColumn, kind: Kind, n: int, noise: NoiseLaw, seed: int
) -> float:
    """Return the distance between the posterior by inversion and that by enumeration, for one drawn observation."""
    centered = kind != "known" or column.outside == "drop"
    observed = noisy_sum(family, column, centered, kind, n, noise, seed)
    law = NumberLaw(family, column, centered, kind == "unbounded" and column.outside == "drop")
    total = RecordCount(kind, 0 if kind == "unbounded" else n)
    observation = NoisySums(law, observed, noise, total, column.steps if centered else 0)
    low, high = np.quantile(family.draw_prior(4000, np.random.default_rng(0)), [0.0005, 0.9995]).tolist()
    grid = np.linspace(low, high, GRID)
    likelihood = brute_force(observation, family, column, grid)
    log_likelihood = all_log_likelihoods(observation, law, np.array([observed], dtype=np.float64), grid[:, None])[:, 0]
    prior = np.exp(family.log_prior(grid) - family.log_prior(grid).max())
    posteriors = [prior * likelihood, prior * np.exp(log_likelihood - log_likelihood.max())]
    left, right = (p / p.sum() for p in posteriors)
    return 0.5 * float(np.abs(left - right).sum())


def noises(steps: int, kind: Kind) -> list[NoiseLaw]:
    """Return the noise of epsilon .1, 1 and 5, and Gaussian noise of the same scales; 2 and 5 if n is unknown."""
    epsilons = (2.0, 5.0) if kind == "unbounded" else (0.1, 1.0, 5.0)
    scales = [(1 if kind == "known" else 2) * steps / epsilon for epsilon in epsilons]
    return [law(scale) for law in (DiscreteLaplace, DiscreteGaussian) for scale in scales]


LATTICE = [
    (name, upper, n, kind)
    for name in ("gamma-poisson", "beta-geometric")
    for upper in (1, 3, 4, 7)
    for n in (1, 3, 8)
    for kind in ("known", "at-most", "unbounded")
]


@pytest.mark.parametrize(
    ("name", "upper", "n", "kind"),
    [case if case[1:] == (3, 1, "known") else pytest.param(*case, marks=pytest.mark.slow) for case in LATTICE],
)
def test_posteriors_of_integers_are_those_of_enumeration(name: str, upper: int, n: int, kind: Kind) -> None:
    column = NumericColumn("value", 0.0, float(upper), upper, integers=True)
    for noise, seed in itertools.product(noises(upper, kind), range(1 if kind == "unbounded" else 2)):
        distance = total_variation(FAMILIES[name], column, kind, n, noise, seed)
        assert distance < EXACT, f"{noise}, observation {seed}: total variation {distance:.2g}"


DROPPED = [(name, n, kind) for name in FAMILIES for n in (1, 4, 8) for kind in ("known", "at-most", "unbounded")]

QUICK = [
    ("gamma-poisson", 4, "unbounded"),
    ("gamma-exponential", 4, "known"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n", "kind"),
    [case if case in QUICK else pytest.param(*case, marks=pytest.mark.slow) for case in DROPPED],
)
def test_posteriors_with_dropped_numbers_are_those_of_enumeration(name: str, n: int, kind: Kind) -> None:
    """The reference rounds numbers to 64 steps; the error is of second order in the step relative to the noise."""
    lattice = FAMILIES[name].lattice
    lower, upper, steps = (0.0, 3.0, 3) if lattice else (-0.5 if name == "normal-mean" else 0.0, 1.0, 64)
    column = NumericColumn("value", lower, upper, steps, lattice, "drop")
    for epsilon, gaussian in itertools.product((1.0, 4.0), (False, True)):
        scale = 2 * steps / epsilon
        noise: NoiseLaw = DiscreteGaussian(scale) if gaussian else DiscreteLaplace(scale)
        for seed in range(2):
            distance = total_variation(FAMILIES[name], column, kind, n, noise, seed)
            assert distance < (EXACT if lattice else 2.0 * SMOOTH), f"{noise}, observation {seed}: {distance:.2g}"


@pytest.mark.parametrize("kind", often(["unbounded", "known", "at-most"], 3))
def test_posteriors_under_noise_of_no_known_shape_are_those_of_enumeration(kind: Kind) -> None:
    outside: Outside = "drop" if kind == "unbounded" else "clamp"
    column = NumericColumn("value", 0.0, 3.0, 3, True, outside)
    for law in (Staircase.of(6, Decimal(1)), Staircase.of(6, Decimal(3))):
        assert total_variation(FAMILIES["gamma-poisson"], column, kind, 4, law, 0) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0])
@pytest.mark.parametrize(
    ("outside", "kind"), [("drop", "known"), ("drop", "at-most"), ("drop", "unbounded"), ("clamp", "at-most")]
)
@pytest.mark.parametrize("name", ["gamma-exponential", "beta-geometric"])
def test_a_sum_over_some_numbers_of_records_is_that_over_all(
    name: str, outside: Outside, kind: Kind, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    family, n = FAMILIES[name], 400
    column = NumericColumn("value", 0.0, 3.0, 3, True, outside)
    if not family.lattice:
        column = NumericColumn("value", 0.0, 0.8, 1 << 20, outside=outside)
    noise = DiscreteLaplace(2 * column.steps / epsilon)
    law = NumberLaw(family, column, True, kind == "unbounded" and outside == "drop")
    observed = np.array([noisy_sum(family, column, True, kind, n, noise, seed) for seed in range(3)], dtype=float)
    observation = NoisySums(law, (0, 0), noise, RecordCount(kind, 0 if kind == "unbounded" else n), column.steps)
    low, high = np.quantile(family.draw_prior(4000, np.random.default_rng(0)), [0.0005, 0.9995]).tolist()
    grid = np.linspace(low, high, GRID)
    posteriors = []
    for every in (128, 1 << 30):
        monkeypatch.setattr(record_numbers, "_MAX_ENUMERATED", every)
        log_density = all_log_likelihoods(observation, law, observed, grid[:, None]) + family.log_prior(grid)[:, None]
        weights = np.exp(log_density - log_density.max(axis=0))
        posteriors.append(weights / weights.sum(axis=0))
    assert 0.5 * np.abs(posteriors[0] - posteriors[1]).sum(axis=0).max() < SMOOTH


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.02, 1.0])
def test_the_prior_of_mostly_valid_records_is_that_of_enumeration(epsilon: float) -> None:
    """With probability 1/2 all n records are valid; else p(number) is proportional to 1 / (1 + n - number)."""
    family, n, column = FAMILIES["gamma-poisson"], 300, NumericColumn("value", 0.0, 3.0, 3, True)
    law, noise = NumberLaw(family, column, True), DiscreteLaplace(6 / epsilon)
    numbers, grid = np.arange(n + 1.0), np.linspace(0.2, 0.9, 15)[:, None]
    observed = np.array([[round(away * 6 / epsilon), 3 * n - round(away * 6 / epsilon)] for away in (-2, 0, 2)], float)
    total = RecordCount("at-most", n, "mostly-valid")
    computed = all_log_likelihoods(NoisySums(law, (0, 0), noise, total, 3), law, observed, grid)
    prior = 1.0 / (1.0 + n - numbers)
    prior[-1] += prior.sum()
    terms = np.empty((len(numbers), len(grid), len(observed)))
    for m in numbers:
        known = NoisySums(law, (0, 0), noise, RecordCount("known", int(m)), 3)
        weight = np.log(prior[int(m)]) + noise.log_pmf((observed[:, 1] - 3 * m).astype(np.int64))
        terms[int(m)] = all_log_likelihoods(known, law, observed, grid) + weight
    shares = [np.exp(each - each.max(axis=0)) for each in (computed, np.logaddexp.reduce(terms))]
    left, right = (each / each.sum(axis=0) for each in shares)
    assert 0.5 * np.abs(left - right).sum(axis=0).max() < SMOOTH


CONTINUOUS = [
    pytest.param(name, n, steps, law(steps / epsilon), marks=() if (n, epsilon) == (3, 1.0) else pytest.mark.slow)
    for name in ("gamma-exponential", "normal-mean")
    for steps, sizes in ((2048, (1, 2, 3, 5, 8)), (256, (30, 200)))
    for n in sizes
    for epsilon in (0.1, 1.0, 5.0)
    for law in (DiscreteLaplace, DiscreteGaussian)
]


@pytest.mark.parametrize(("name", "n", "steps", "noise"), CONTINUOUS)
def test_posteriors_of_real_numbers_are_those_of_numerical_convolution(
    name: str, n: int, steps: int, noise: NoiseLaw
) -> None:
    """The reference rounds numbers to few steps; its error is of second order in the step."""
    column = NumericColumn("value", 0.0 if name == "gamma-exponential" else -1.5, 2.5, steps)
    for seed in range(3 if n < 30 else 1):
        distance = total_variation(FAMILIES[name], column, "known", n, noise, seed)
        assert distance < (2.0 * SMOOTH if n == 1 else SMOOTH), f"{noise}, observation {seed}: {distance:.2g}"


def test_an_observation_that_nothing_explains_leaves_the_prior_and_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = simulate(models()["beta-geometric"], True, 10, "1", 1)
    law = require_type(cell.observation.law, ScalarLaw)
    monkeypatch.setattr(one_parameter, "log_likelihoods", lambda *arguments: np.full(len(arguments[4][0]), np.nan))
    posterior = scalar_posterior(cell.observation, law, 2000, np.random.default_rng(1))
    assert "this posterior is the prior" in posterior.warnings[0]
    prior = law.parameters(law.draw_prior(2000, np.random.default_rng(2)))[:, 0]
    assert stats.ks_2samp(posterior.draws[:, 0], prior).pvalue > 1e-6


def distances(cell: Cell) -> Floats:
    """Return the largest difference of cumulative probabilities, for each observation."""
    law = require_type(cell.observation.law, ScalarLaw)
    points, cumulative = dense_posterior(cell)
    density = grid_density(cell.observation, law, cell.observed)
    probabilities = np.array([density.cdf(np.full(len(cell.observed), p)) for p in points[:: len(points) // 400]]).T
    return np.asarray(np.abs(probabilities - cumulative[:, :: len(points) // 400]).max(axis=1))


@pytest.mark.parametrize(
    ("name", "n", "epsilon"),
    [
        pytest.param(
            name, n, epsilon, marks=() if (n, epsilon) == (100, "0.1") and name in NAMES[::2] else pytest.mark.slow
        )
        for name in NAMES
        for n in SIZES
        for epsilon in EPSILONS
    ],
)
def test_posteriors_are_those_of_a_dense_grid(name: str, n: int, epsilon: str) -> None:
    """One observation has a grid of its own; twenty share one finer grid."""
    for trials in (1, 20):
        cell = simulate(models()[name], True, n, epsilon, trials)
        assert distances(cell).max() < CLOSE, f"{trials} observations"


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.012, *(pytest.param(each, marks=pytest.mark.slow) for each in (0.3, 0.5))])
@pytest.mark.parametrize(
    "family", [PoissonCounts(0.01, 0.01), ExponentialTimes(0.001, 0.001), GeometricNumbers(0.01, 0.01)], ids=str
)
def test_narrow_posteriors_under_very_wide_priors_are_found(family: NumberFamily, share: float) -> None:
    """The log of the rate is within 700 a priori, and within 0.1 a posteriori, or in two such places.

    The tolerance is that of rates at which the sum is almost surely 0: its computed variance has few digits.
    """
    law = NumberLaw(family, NumericColumn("x", 0.0, 20.0, 20, integers=family.lattice), centered=False)
    sums = np.array([[share * 20_000.0]])
    observation = NoisySums(law, (int(sums[0, 0]),), DiscreteLaplace(20.0), RecordCount("known", 1000))
    low, high = law.prior_range
    wide = np.linspace(low, high, 3_501)[:, None]
    with np.errstate(all="ignore"):
        first = all_log_likelihoods(observation, law, sums, wide)[:, 0] + law.log_prior(wide)
        middle = wide[np.nanargmax(first), 0]
        points = np.union1d(wide, np.clip(middle + np.linspace(-3.0, 3.0, 2_001), low, high))
        log_density = all_log_likelihoods(observation, law, sums, points[:, None])[:, 0] + law.log_prior(
            points[:, None]
        )
    log_density = np.nan_to_num(log_density, nan=-1e300, neginf=-1e300)
    density = np.exp(log_density - log_density.max())
    cumulative = np.concatenate([[0.0], np.cumsum(np.diff(points) * (density[1:] + density[:-1]) / 2.0)])
    computed = grid_density(observation, law, sums).cdf(points[None])[0]
    assert np.abs(computed - cumulative / cumulative[-1]).max() < 0.02


@pytest.mark.parametrize("outside", ["clamp", pytest.param("drop", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("n", "epsilon"), often([(10, "1"), (1000, "0.01")], 2, several=True))
@pytest.mark.parametrize("name", often(NAMES, 2))
def test_posteriors_are_calibrated(name: str, n: int, epsilon: str, outside: Outside) -> None:
    """300 trials with n records; those beyond the bounds are clamped or dropped."""
    assert_calibrated(exact_ranks(simulate(models(outside)[name], True, n, epsilon)))


@pytest.mark.calibration
@pytest.mark.parametrize(
    ("name", "epsilon", "n", "complete"), seldom(itertools.product(NAMES, EPSILONS, SIZES, (True, False)))
)
def test_posteriors_are_calibrated_in_a_long_run(name: str, epsilon: str, n: int, complete: bool) -> None:
    """3,000 trials; 200 if the number of records is not known, which is slow."""
    assert_calibrated(exact_ranks(simulate(models()[name], complete, n, epsilon, 3000 if complete else 200)))
