"""Combined estimates of synthetic tables: closed forms, quadrature, and coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from dpbayes_cli.api.combined import combine
from dpbayes_cli.inference.estimands.combined_tables import Rule


def test_the_usual_approximation_is_the_formula_of_the_papers() -> None:
    q, v = [0.30, 0.34, 0.29, 0.37], [0.0004, 0.0004, 0.0005, 0.0005]
    b, mean_v = float(np.var(q, ddof=1)), 0.00045
    total = 1.25 * b - mean_v
    half = float(stats.t.ppf(0.95, 3 * (1 - mean_v / (1.25 * b)) ** 2)) * total**0.5
    combined = combine(q, v, interval=0.9, rule="rubin-t")
    assert (combined.low, combined.high) == pytest.approx((0.325 - half, 0.325 + half))
    tight = combine([1.0, 1.0, 1.0], [4.0, 4.0, 4.0], rule="rubin-t")  # the variance is not positive
    assert float(tight.high) == pytest.approx(1.0 + float(stats.t.ppf(0.975, 2)) * 2.0)


@pytest.mark.parametrize(("between", "within"), [(1.0, 0.4), (1.0, 1.5)])
def test_the_interval_integrates_over_the_variance(between: float, within: float) -> None:
    """The posterior of B, a scaled inverse chi-squared law truncated at v, by quadrature."""
    m = 6
    q = np.array([-1.0, -1.0, 0.0, 0.0, 1.0, 1.0]) * (between / 0.8) ** 0.5
    law = stats.invgamma((m - 1) / 2, scale=(m - 1) / 2 * between)

    def tail(x: float) -> float:
        value, _ = integrate.quad(
            lambda u: stats.norm.cdf(x / ((1 + 1 / m) * law.isf(u) - within) ** 0.5), 0.0, law.sf(within), limit=200
        )
        return float(value / law.sf(within)) - 0.95

    combined = combine(q, np.full(m, within), interval=0.9)
    assert abs(tail(float(combined.high))) < 2e-4
    assert float(combined.low) == pytest.approx(-float(combined.high), abs=1e-9)


def test_a_mixture_has_the_quantiles_of_its_normal_laws() -> None:
    q, v = np.array([[0.0, 5.0], [3.0, 5.0]]), np.array([[1.0, 4.0], [0.25, 4.0]])
    combined = combine(q, v, interval=0.8, rule="mixture")
    for end, probability in ((combined.low, 0.1), (combined.high, 0.9)):
        assert np.mean(stats.norm.cdf(end[0], q[:, 0], v[:, 0] ** 0.5)) == pytest.approx(probability)
    assert float(combined.high[1]) == pytest.approx(5.0 + 2.0 * float(stats.norm.ppf(0.9)))


@pytest.mark.parametrize(("posterior", "rule"), [(1.0, "rubin"), (10.0, "rubin-t")])
def test_intervals_contain_the_truth_as_often_as_they_say(posterior: float, rule: Rule) -> None:
    """2,000 trials of ten tables: coverage within 2.5 points of 95 %, or up to 98.5 % for similar variances.

    Five standard errors are 2.5 points, so that it fails without reason with probability below 1e-6.
    """
    rng, m, trials = np.random.default_rng(5), 10, 2000
    estimate = rng.normal(0.0, posterior**0.5, trials)
    q = rng.normal(estimate, (posterior + 1.0) ** 0.5, (m, trials))
    combined = combine(q, np.ones((m, trials)), rule=rule)
    coverage = ((combined.low <= 0.0) & (combined.high >= 0.0)).mean()
    assert 0.925 < coverage < (0.985 if posterior == 1.0 else 0.975)


def test_what_cannot_be_combined_is_refused() -> None:
    for q, v in (([1.0], [1.0]), ([1.0, 2.0], [1.0]), ([1.0, np.nan], [1.0, 1.0]), ([1.0, 2.0], [1.0, -1.0])):
        with pytest.raises(ValueError, match="estimates"):
            combine(q, v)
    with pytest.raises(ValueError, match="interval"):
        combine([1.0, 2.0], [1.0, 1.0], interval=95)
    with pytest.raises(ValueError, match="rule"):
        combine([1.0, 2.0], [1.0, 1.0], rule="t")  # type: ignore[arg-type]
