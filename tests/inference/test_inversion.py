"""Exact likelihoods of sums against enumeration: every total, every value of the sum, every value of the noise.

Nothing here is random but the choice of what was observed, so that nothing fails by chance. What is compared is the
normalized posterior on a grid under the prior, in total variation.
"""

from __future__ import annotations

import itertools
from math import comb
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest

from dpbayes_cli.core.columns import NumericColumn, Outside
from dpbayes_cli.core.noisy_observation import NoisySums, RecordCount
from dpbayes_cli.inference.sums import record_numbers
from dpbayes_cli.models.families.number_families import NumberFamily, NumberLaw
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.noise import NoiseLaw
from tests.inference.sum_cells import all_log_likelihoods
from tests.models.number_laws import FAMILIES, code_masses

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

Kind = Literal["known", "at-most", "unbounded"]
GRID = 61
CLOSE = 1e-5
"""Allowed total variation between posteriors on a lattice: no approximation but floating point and cut tails."""
SMOOTH = 1e-3
"""The same where the reference rounds numbers to a coarse grid and the inversion takes them for continuous."""


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


def noises(steps: int, centered: bool) -> list[NoiseLaw]:
    """Return the noise of epsilon .1, 1 and 5, and Gaussian noise of the same scales."""
    scales = [(2 if centered else 1) * steps / epsilon for epsilon in (0.1, 1.0, 5.0)]
    return [law(scale) for law in (DiscreteLaplace, DiscreteGaussian) for scale in scales]


LATTICE = [
    (name, upper, n, kind)
    for name in ("gamma-poisson", "beta-geometric")
    for upper in (1, 3, 4, 7)
    for n in (1, 3, 8)
    for kind in ("known", "at-most")
]


@pytest.mark.parametrize(
    ("name", "upper", "n", "kind"),
    [case if case[1:3] in {(4, 1), (3, 3)} else pytest.param(*case, marks=pytest.mark.slow) for case in LATTICE],
)
def test_posteriors_of_integers_are_those_of_enumeration(name: str, upper: int, n: int, kind: Kind) -> None:
    column = NumericColumn("value", 0.0, float(upper), upper, integers=True)
    for noise, seed in itertools.product(noises(upper, kind != "known"), range(2)):
        distance = total_variation(FAMILIES[name], column, kind, n, noise, seed)
        assert distance < CLOSE, f"{noise}, observation {seed}: total variation {distance:.2g}"


DROPPED = [(name, n, kind) for name in FAMILIES for n in (1, 4, 8) for kind in ("known", "at-most", "unbounded")]
QUICK = [
    ("gamma-poisson", 4, "unbounded"),
    ("gamma-exponential", 4, "known"),
]


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
            assert distance < (CLOSE if lattice else 2.0 * SMOOTH), f"{noise}, observation {seed}: {distance:.2g}"


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


UNBOUNDED = [(name, upper, n) for name in ("gamma-poisson", "beta-geometric") for upper in (1, 3, 4) for n in (1, 8)]


@pytest.mark.parametrize(
    ("name", "upper", "n"),
    [case if case[1:] == (3, 1) else pytest.param(*case, marks=pytest.mark.slow) for case in UNBOUNDED],
)
def test_posteriors_with_an_unknown_record_count_are_those_of_enumeration(name: str, upper: int, n: int) -> None:
    column = NumericColumn("value", 0.0, float(upper), upper, integers=True)
    for epsilon, gaussian in itertools.product((2.0, 5.0), (False, True)):
        scale = 2 * upper / epsilon
        noise: NoiseLaw = DiscreteGaussian(scale) if gaussian else DiscreteLaplace(scale)
        distance = total_variation(FAMILIES[name], column, "unbounded", n, noise, 0)
        assert distance < CLOSE, f"{noise}: total variation {distance:.2g}"


FEW = [
    (name, n, epsilon, law)
    for name in ("gamma-exponential", "normal-mean")
    for n in (1, 2, 3, 5, 8)
    for epsilon in (0.1, 1.0, 5.0)
    for law in (DiscreteLaplace, DiscreteGaussian)
]


@pytest.mark.parametrize(
    ("name", "n", "epsilon", "law"),
    [case if case[1] in {1, 3} else pytest.param(*case, marks=pytest.mark.slow) for case in FEW],
)
def test_posteriors_of_few_numbers_are_those_of_numerical_convolution(
    name: str, n: int, epsilon: float, law: type[DiscreteLaplace | DiscreteGaussian]
) -> None:
    """The reference rounds to 2,048 steps, releases to a million; the error is of second order in the step."""
    lower = 0.0 if name == "gamma-exponential" else -1.5
    column = NumericColumn("value", lower, 2.5, 2048)
    noise = law(2048 / epsilon)
    for seed in range(3):
        distance = total_variation(FAMILIES[name], column, "known", n, noise, seed)
        assert distance < (2.0 * SMOOTH if n == 1 else SMOOTH), f"{noise}, observation {seed}: {distance:.2g}"


@pytest.mark.slow
@pytest.mark.parametrize("n", [30, 200])
@pytest.mark.parametrize("name", ["gamma-exponential", "normal-mean"])
def test_posteriors_of_many_numbers_are_those_of_a_long_fourier_transform(name: str, n: int) -> None:
    lower = 0.0 if name == "gamma-exponential" else -1.5
    column = NumericColumn("value", lower, 2.5, 256)
    for noise in noises(256, False):
        distance = total_variation(FAMILIES[name], column, "known", n, noise, 0)
        assert distance < SMOOTH, f"{noise}: total variation {distance:.2g}"


def test_a_sum_shifted_by_half_a_step_is_caught() -> None:
    """The tolerance is tight: an observation that is off by one exceeds it by far."""
    family, column, noise = FAMILIES["gamma-poisson"], NumericColumn("value", 0.0, 3.0, 3, True), DiscreteLaplace(3.0)
    grid = np.linspace(-2.0, 2.0, GRID)
    law = NumberLaw(family, column, False)
    posteriors = []
    for y in (4, 5):
        observation = NoisySums(law, (y,), noise, RecordCount("known", 3))
        weights = brute_force(observation, family, column, grid) * np.exp(family.log_prior(grid))
        posteriors.append(weights / weights.sum())
    assert 0.5 * np.abs(posteriors[0] - posteriors[1]).sum() > 100 * CLOSE
