"""What a calibration study measures, against known answers; and a planted bug that it must see."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.core.plan import Sampler
from dpbayes_cli.core.section import require_type
from dpbayes_cli.experiments.calibration import Calibration, Method, OpsSection
from dpbayes_cli.experiments.calibration_measures import ks_band, squared_mmds
from dpbayes_cli.experiments.results import PointOutcome
from dpbayes_cli.mechanisms.samplers.simulated_draws import simulate_conjugate, simulate_sampler
from dpbayes_cli.privacy.conjugate import DirichletFamily
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.real_conjugate import GammaRateFamily, GammaShapeFamily, NormalFamily
from tests.experiments.studies import CALIBRATION
from tests.statistical import assert_means, assert_not_uniform, assert_uniform

FALSE_FAIL = 1e-6
TRIALS = 300


def study_of(case: str, n: int, epsilon: str, method: Method, trials: int = TRIALS, **changes: Any) -> Calibration:
    """A study of one point."""
    cases = {case: Calibration.build(CALIBRATION).cases[case]}
    factors = {"n": (n,), "epsilon": (epsilon,), "methods": (method,), "trials": trials, "draws": 49, "mmd": False}
    return msgspec.structs.replace(Calibration.build(CALIBRATION), **{"cases": cases, **factors, **changes})


def outcome_of(study: Calibration) -> PointOutcome:
    (point,) = study.grid()
    return study.run(point)


def number(outcome: PointOutcome, measure: str) -> float:
    return require_type(outcome.measures[measure], float)


@pytest.mark.parametrize("case", ["coin", "dice"])
def test_ranks_in_the_non_private_posterior_are_uniform(case: str) -> None:
    outcome = outcome_of(study_of(case, 100, "0.01", "non-private"))
    assert_uniform(outcome.trials["rank"], FALSE_FAIL)
    assert number(outcome, "ks_p_value") >= FALSE_FAIL
    assert abs(number(outcome, "coverage") - 0.9) < stats.norm.isf(FALSE_FAIL / 2) * (0.09 / TRIALS) ** 0.5


def test_a_planted_bug_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases carry six times the noise that their law, and so the inference, speaks of."""
    at, honest = study_of("coin", 300, "0.1", "noise-aware"), DiscreteLaplace.simulate
    assert_uniform(outcome_of(at).trials["rank"], FALSE_FAIL)
    monkeypatch.setattr(
        DiscreteLaplace, "simulate", lambda law, rng, size: honest(DiscreteLaplace(6.0 * law.scale), rng, size)
    )
    assert_not_uniform(outcome_of(at).trials["rank"], FALSE_FAIL)


@pytest.mark.parametrize(("parameters", "spread"), [(1, 0.01), (1, 1.0), (1, 4.0), (3, 0.2), (3, 3.0)])
def test_the_distance_by_series_is_that_by_pairs(parameters: int, spread: float) -> None:
    rng = np.random.default_rng(9)
    x, y = rng.normal(1.0, spread, (3, 30, parameters)), rng.normal(1.5, spread, (3, 30, parameters))

    def kernel(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.exp(-0.5 * ((a - b) ** 2).sum()))

    for trial, squared in enumerate(squared_mmds(x, y)):
        a, b = x[trial], y[trial]
        terms = [
            kernel(a[i], a[j]) + kernel(b[i], b[j]) - kernel(a[i], b[j]) - kernel(a[j], b[i])
            for i in range(30)
            for j in range(30)
            if i != j
        ]
        assert squared == pytest.approx(np.mean(terms), abs=1e-13)


def test_the_band_holds_its_share() -> None:
    assert ks_band(300) == pytest.approx(1.358 / 300**0.5, rel=0.02)
    assert float(stats.kstwo.sf(ks_band(50), 50)) == pytest.approx(0.05)


@pytest.mark.parametrize("epsilon", ["0.1", "50"])
@pytest.mark.parametrize("case", ["coin", "dice"])
def test_simulated_draws_are_those_of_the_exact_sampler(case: str, epsilon: str) -> None:
    """Two samples of one law: Kolmogorov-Smirnov, false fail 1e-6 a component."""
    study = study_of(case, 40, epsilon, "ops")
    section = study.cases[case]
    (step,) = study.plan(section, section.model_on(section.domain), "ops", epsilon, 40).steps
    sampler, values = require_type(step.law, Sampler), ((27,) if case == "coin" else (25, 3, 12))
    exact = np.array(sampler.draw(values, 400))
    floats = simulate_sampler(sampler, values, 4000, np.random.default_rng(3))
    spread = np.random.default_rng(4)  # lattice points are tied; spreading both over their cell keeps one law
    for k in range(floats.shape[1]):
        a, b = (part[:, k] + spread.random(len(part)) / 1024.0 for part in (exact, floats))
        assert stats.ks_2samp(a, b).pvalue >= FALSE_FAIL
    if case == "dice":
        assert floats.sum(axis=1) == pytest.approx(1.0)
        assert floats.min() >= 0.1


def test_a_lattice_far_from_the_mode_is_drawn_too() -> None:
    """All the mass would lie below the least share: the law crowds at the edge, and nothing underflows."""
    study = study_of("dice", 10**6, "1000", "ops", ops=OpsSection(draws=2))
    section = study.cases["dice"]
    (step,) = study.plan(section, section.model_on(section.domain), "ops", "1000", 10**6).steps
    drawn = simulate_sampler(require_type(step.law, Sampler), (10, 999_980, 10), 50, np.random.default_rng(5))
    assert np.isfinite(drawn).all()
    assert drawn[:, 0] == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize(
    ("family", "sums"),
    [
        (DirichletFamily((2.0, 3.0, 4.0), 9), (2, 3, 4)), (GammaShapeFamily(2.0, 3.0, 5.0, 7), (11,)),
        (GammaRateFamily(2.0, 3.0, 5.0, 7), (11,)), (NormalFamily(1.0, 2.0, 3.0, -4.0, 4.0, 7), (5,)),
    ],
    ids=lambda item: type(item).__name__,
)  # fmt: skip
@pytest.mark.parametrize(("r", "m"), [(1.0, 1.0), (0.5, 2.0)])
def test_simulated_conjugate_draws_have_the_moments_of_the_family(
    family: object, sums: tuple[int, ...], r: float, m: float
) -> None:
    from fractions import Fraction

    drawn = simulate_conjugate(family, tuple(map(Fraction, sums)), 4000, np.random.default_rng(6), r, m)  # type: ignore[arg-type]
    mean, sd = family.moments(tuple(map(Fraction, sums)), r, m)  # type: ignore[attr-defined]
    first = drawn[:, 0]
    assert_means(np.column_stack([first, (first - mean) ** 2]), [mean, sd**2])
