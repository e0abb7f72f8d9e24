"""The study of groups: errors without privacy by enumeration, noise of the stated price, and claims that can fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.experiments.groups import Groups, GroupsCase, exact_estimates, noisy_estimates, simulate_groups
from dpbayes_cli.experiments.results import PointOutcome, Result, Results
from dpbayes_cli.experiments.study import build_study
from tests.experiments.studies import GROUPS, changed, results_of
from tests.statistical import assert_uniform

ALPHA, BETA = 4.0, 16.0
CASE = GroupsCase(true_alpha=ALPHA, true_beta=BETA, mean_size=8.0, shape=1.5, groups=400)


def study_of(document: dict[str, Any]) -> Groups:
    study = build_study(document)
    assert isinstance(study, Groups)
    return study


def expected_error(alpha: float, beta: float) -> float:
    """Return the root mean square error of the mean of a Beta(alpha, beta) posterior, averaged over rates and sizes."""
    square = 0.0
    for n in range(400):
        share = float(stats.nbinom.pmf(n, CASE.shape, CASE.shape / (CASE.shape + CASE.mean_size)))
        s = np.arange(n + 1)
        a, b = ALPHA + s, BETA + n - s
        estimate, mean = (alpha + s) / (alpha + beta + n), a / (a + b)
        error = (estimate - mean) ** 2 + mean * (1.0 - mean) / (a + b + 1.0)
        square += share * float(stats.betabinom.pmf(s, n, ALPHA, BETA) @ error)
    return float(np.sqrt(square))


@pytest.mark.parametrize(("method", "prior"), [("non-private", (1.0, 1.0)), ("non-private-true-prior", (4.0, 16.0))])
def test_errors_without_privacy_are_those_of_enumeration(method: str, prior: tuple[float, float]) -> None:
    """Five standard errors: fails without reason with probability below 1e-6."""
    document = changed(GROUPS, "methods", [method])
    case = {"true_alpha": "4", "true_beta": "16", "mean_size": "8", "shape": "1.5", "groups": "400"}
    study = study_of(changed(changed(document, "cases", {"few": case}), "trials", "100"))
    (outcome,) = (study.run(point) for point in study.grid())
    squares = outcome.trials["rmse"] ** 2
    assert abs(squares.mean() - expected_error(*prior) ** 2) < 5.0 * squares.std() / 10.0
    if method == "non-private-true-prior":
        coverage = outcome.trials["coverage"]
        assert abs(coverage.mean() - 0.9) < 5.0 * coverage.std() / 10.0


def test_a_group_without_records_has_the_prior() -> None:
    estimates = exact_estimates((CASE.alpha, CASE.beta), np.array([[0, 0], [3, 1]]))
    assert estimates.means.tolist() == pytest.approx([0.5, 4.0 / 6.0])
    assert estimates.lower.tolist() == pytest.approx([0.05, stats.beta.ppf(0.05, 4.0, 2.0)])
    assert estimates.upper.tolist() == pytest.approx([0.95, stats.beta.ppf(0.95, 4.0, 2.0)])


def test_almost_no_noise_gives_what_exact_counts_tell() -> None:
    rng = np.random.default_rng(1)
    _, counts = simulate_groups(CASE, CASE.draw_law(rng), rng)
    noisy = noisy_estimates(CASE, "none", "100", counts, rng, rng)
    exact = exact_estimates((CASE.alpha, CASE.beta), counts)
    np.testing.assert_allclose(noisy.means, exact.means, atol=1e-3)
    np.testing.assert_allclose(noisy.lower, exact.lower, atol=0.02)
    np.testing.assert_allclose(noisy.upper, exact.upper, atol=0.02)


def test_pooled_and_independent_rates_are_inferred_from_the_same_release() -> None:
    study = study_of(GROUPS)
    independent, pooled = [point for point in study.grid() if point.epsilon == 1.0]
    assert independent.data_seed().entropy == pooled.data_seed().entropy
    assert independent.noise_seed(epsilon="1").entropy == pooled.noise_seed(epsilon="1").entropy
    assert independent.digest != pooled.digest


def claims_at(rmse: dict[str, float], coverage: float) -> list[bool]:
    study = study_of(GROUPS)
    results = []
    for point in study.grid():
        error = rmse[point["method"]]
        trials = {"rmse": np.array([error, error + 1e-4]), "coverage": np.full(2, coverage), "width": np.ones(2)}
        outcome = PointOutcome.averaged(trials, trials)
        listed = {name: values.tolist() for name, values in trials.items()}
        results.append(Result(point, outcome.measures, listed))
    return [claim.holds for claim in study.claims(Results(results))]


def test_claims_hold_and_fail_with_the_numbers() -> None:
    errors = {"non-private": 0.12, "non-private-true-prior": 0.06, "independent": 0.2, "pooled": 0.08}
    assert claims_at(errors, 0.9) == [True, True, True, True]
    assert claims_at({**errors, "pooled": 0.11}, 0.9) == [True, False, True, True]
    assert claims_at({**errors, "pooled": 0.13}, 0.95) == [False, False, False, False]
    assert claims_at(errors, 0.87) == [True, True, False, False]


def test_methods_that_are_left_out_have_no_claims() -> None:
    study = study_of(changed(GROUPS, "methods", ["non-private", "independent"]))
    (claim,) = study.claims(results_of(study))
    assert "independent" in claim.says


def test_a_law_that_is_not_given_is_drawn_from_the_prior() -> None:
    """Its mean is uniform, its correlation of two records Beta(1, 3); only the coverage of pooled rates is claimed."""
    case, rng = GroupsCase(mean_size=8.0, shape=1.5, groups=400), np.random.default_rng(4)
    a, b = np.array([case.draw_law(rng) for _ in range(400)]).T
    assert_uniform(a / (a + b))
    assert_uniform(((a + b) / (1.0 + a + b)) ** 3)
    study = study_of(changed(GROUPS, "cases", {"drawn": {"mean_size": "8", "shape": "1.5", "groups": "400"}}))
    (claim,) = study.claims(results_of(study))
    assert "pooled" in claim.says
    with pytest.raises(ValueError, match="state both true_alpha and true_beta"):
        GroupsCase(true_alpha=4.0, mean_size=8.0, shape=1.5, groups=400)
