"""Linear regression: against the conjugate posterior, by calibration, and from the shell on Abalone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.noisy_observation import NoisyObservation, NoisySums
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic_values import evaluate
from dpbayes_cli.inference.batch import draw_many
from dpbayes_cli.inference.solve import infer
from dpbayes_cli.inference.sums.latent_sums import LatentSumsSampler
from dpbayes_cli.models.families.linear_domain import LinearRegressionDomain
from dpbayes_cli.models.families.regression_density import Moments
from dpbayes_cli.models.families.regression_moments import RegressionMoments
from dpbayes_cli.models.families.regression_simulation import draw_records, draw_regressions
from dpbayes_cli.models.linear_regression import LinearRegression, LinearRegressionPrior
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.conftest import SAMPLE_DATA, Cli
from tests.inference.sum_cells import noise_of, policy_of, simulate
from tests.statistical import assert_not_uniform, assert_uniform

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

FALSE_FAIL = 1e-6


def model(features: int = 1, variance: float | None = None) -> LinearRegression:
    """Prior sd of a number about 1.3 with bounds of +-10: practically no number is out of bounds."""
    bounds = tuple((name, -10.0, 10.0) for name in "yabc"[: features + 1])
    mean, deviation = (0.5, -0.3, 0.2, 0.0), (1.5, 1.2, 1.4, 1.3)
    return LinearRegression(bounds, mean[: features + 1], deviation[: features + 1], 4.0, 2.0, 9.0, variance)


def built(domain: dict[str, Any], prior: dict[str, Any] | None = None) -> LinearRegression:
    parts = msgspec.convert(domain, LinearRegressionDomain), msgspec.convert(prior or {}, LinearRegressionPrior)
    return LinearRegression.build(*parts)


def conjugate(model: LinearRegression, x: Floats, y: Floats) -> tuple[Floats, Floats, float, float]:
    """The textbook posterior in the units of the file: mean and unit covariance of the coefficients, shape and scale.

    The prior of (level at the features' prior means, slopes) is normal and diagonal, times the variance.
    """
    center, spread = np.array(model.prior_mean), np.array(model.deviation)
    design = np.column_stack([np.ones(len(x)), x - center[1:]])
    prior = np.diag([model.strength, *(model.slope_strength * spread[1:] ** 2)])
    start = np.array([center[0], *np.zeros(len(spread) - 1)])
    precision = prior + design.T @ design
    covariance = np.linalg.inv(precision)
    mean = covariance @ (prior @ start + design.T @ y)
    k = model.variance_strength
    scale = k * spread[0] ** 2 + y @ y + start @ prior @ start - mean @ precision @ mean
    back = np.eye(len(spread))
    back[0, 1:] = -center[1:]
    return back @ mean, back @ covariance @ back.T, 2.0 + k + len(y), float(scale)


def records(features: int, n: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Features with laws far from normal: without noise only their second moments matter."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.exponential(1.0, n) - 1.0, rng.random(n) * 3.0, rng.choice([-1.0, 1.0], n)])[:, :features]
    return x, 0.7 + x @ np.array([0.8, -0.8, 0.4])[:features] + rng.normal(0.0, 1.1, n)


def exact_observation(model: LinearRegression, x: Floats, y: Floats, epsilon: str) -> NoisySums:
    """The statistic of given records, as if the noise had been zero."""
    policy = policy_of(model, True)
    values = evaluate(model.statistic(policy), model.columns, np.column_stack([y, x]))
    return model.observation(policy, values, noise_of(model, policy, epsilon), len(x))


@pytest.mark.parametrize("features", [1, 3])
def test_plug_in_posterior_of_exact_sums_is_conjugate(features: int) -> None:
    """Means and sds of 32,768 draws within 6 standard errors (false-fail below 1e-7), and the grid's rounding."""
    subject, (x, y) = model(features), records(features, 400)
    posterior = infer(exact_observation(subject, x, y, "1"), "naive", 1, np.random.default_rng(1))
    mean, unit, shape, scale = conjugate(subject, x, y)
    sds = np.sqrt(np.diag(unit) * scale / (shape - 2.0))
    law = stats.invgamma(shape / 2.0, scale=scale / 2.0)
    for k, marginal in enumerate(posterior.marginals):
        expected, sd = (mean[k], sds[k]) if k <= features else (law.mean(), law.std())
        assert marginal.mean == pytest.approx(expected, abs=6.5 * sd / 181.0)
        assert marginal.sd == pytest.approx(sd, rel=0.03)


@pytest.mark.parametrize(
    ("features", "variance"),
    [(1, 1.3), pytest.param(1, None, marks=pytest.mark.slow), pytest.param(2, None, marks=pytest.mark.slow)],
)
def test_posterior_without_noise_is_conjugate(features: int, variance: float | None) -> None:
    """2,000 records at epsilon 1,000; the sums' law is normal up to 1/sqrt n. Within a fifth of an sd; a fixed seed."""
    subject, (x, y) = model(features, variance), records(features, 2000)
    posterior = infer(exact_observation(subject, x, y, "1000"), "noise-aware", 1, np.random.default_rng(1))
    mean, unit, shape, scale = conjugate(subject, x, y)
    sds = np.sqrt(np.diag(unit) * (scale / (shape - 2.0) if variance is None else variance))
    for k in range(features + 1):
        assert posterior.marginals[k].mean == pytest.approx(mean[k], abs=0.2 * sds[k])
        assert posterior.marginals[k].sd == pytest.approx(sds[k], rel=0.15)
        assert posterior.marginals[k].sd_data == pytest.approx(sds[k], rel=0.1)
    if variance is None:
        law = stats.invgamma(shape / 2.0, scale=scale / 2.0)
        assert posterior.marginals[-1].mean == pytest.approx(law.mean(), abs=0.2 * law.std())
        assert posterior.marginals[-1].sd == pytest.approx(law.std(), rel=0.15)
    assert posterior.warnings == ()


@pytest.mark.parametrize("variance", [None, 0.9])
@pytest.mark.parametrize("stated", [False, True])
@pytest.mark.parametrize("texts", [(), (1, 1)])
def test_the_gradient_of_the_density_is_that_of_differences(
    texts: tuple[int, ...], stated: bool, variance: float | None
) -> None:
    """Log prior + g' sums by each coordinate and by the number of records, for features that are anywhere."""
    rng = np.random.default_rng(2)
    law = require_type(model(3, variance).law(True), RegressionMoments)
    law = replace(law, texts=texts) if stated else RegressionMoments(law.columns, True, 0.7, None, law.variance, texts)
    point, m, step = 0.7 * rng.standard_normal((1, law.dimension)), np.array([37.3]), 1e-6
    _, sums, pull_back = law.evaluate(point, m)
    weights = rng.standard_normal(sums.shape) / law.unit
    of_point, of_total = pull_back(weights)

    def value(x: Floats, total: Floats) -> float:
        log_prior, at, _ = law.evaluate(x, total)
        return float(log_prior[0] + weights[0] @ at[0])

    for k, unit in enumerate(step * np.eye(law.dimension)):
        difference = (value(point + unit, m) - value(point - unit, m)) / (2.0 * step)
        assert of_point[0, k] == pytest.approx(difference, rel=1e-5, abs=1e-5)
    difference = (value(point, m + step) - value(point, m - step)) / (2.0 * step)
    assert of_total[0] == pytest.approx(difference, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("d", [2, 4])
def test_all_correlation_matrices_are_equally_likely(d: int) -> None:
    """A correlation of d features is then beta on [-1, 1]; means and squares by importance within 5 standard errors.

    Coordinates are drawn near their prior and weighted by the density. False-fail 1e-6.
    """
    columns = built({"target": {"column": "y", **BOUNDS}, "features": dict.fromkeys("abcd"[:d], BOUNDS)}).scaled_columns
    law, rng, n = RegressionMoments(columns, False), np.random.default_rng(6), 40_000
    points = np.zeros((n, law.dimension))
    drawn = np.r_[law.slices.pivots, law.slices.rows]
    points[:, drawn] = 1.7 * rng.standard_t(9.0, (n, len(drawn)))
    moments = Moments(law, points, np.full(n, 100.0))
    log_weight = moments.log_prior - stats.t.logpdf(points[:, drawn] / 1.7, 9.0).sum(axis=1)
    weight = np.exp(log_weight - log_weight.max())
    last = moments.root[:, d - 1, :d]
    correlation = last[:, 0] / np.sqrt((last**2).sum(axis=1))
    for power, expected in ((1, 0.0), (2, 1.0 / (d + 1.0)), (4, 3.0 / ((d + 1.0) * (d + 3.0)))):
        excess = weight * (correlation**power - expected)
        assert abs(excess.sum()) < 5.0 * np.sqrt((excess**2).sum())


def test_coefficients_given_the_moments_are_conjugate() -> None:
    """Levels, slopes against the normal equations at 3 points, 40,000 draws each; false-fail 1e-6 together."""
    subject, rng = model(2, 1.3), np.random.default_rng(3)
    law = require_type(subject.law(False), RegressionMoments)
    points, n = 0.5 * rng.standard_normal((3, law.dimension)), 50.0
    half, middle = law.half_and_middle
    for point in points:
        at = np.tile(point, (40_000, 1))
        drawn = law.draw_parameters(at, np.full(len(at), n), rng)
        moments = Moments(law, point[None], np.array([n]))
        covariance = moments.root[0] @ moments.root[0].T
        # records with these moments, target first
        order, free = [2, 0, 1], np.linalg.qr(np.column_stack([np.ones(50), rng.standard_normal((50, 3))]))[0][:, 1:]
        scaled = moments.mean[0] + np.sqrt(50.0) * free @ np.linalg.cholesky(covariance).T
        numbers = middle + half * scaled[:, order]
        mean, unit, _, _ = conjugate(subject, numbers[:, 1:], numbers[:, 0])
        sds = np.sqrt(np.diag(unit) * 1.3)
        for k in range(3):
            ranks = stats.norm.cdf(drawn[:, k], mean[k], sds[k])
            assert_uniform(ranks, FALSE_FAIL / 9.0)


@pytest.mark.parametrize("n", [1, 2, 200])
def test_records_of_the_default_prior_can_be_simulated(n: int) -> None:
    domain = {"target": {"column": "y", **BOUNDS}, "features": {"a": BOUNDS, "b": BOUNDS}}
    law = require_type(built(domain).law(False), RegressionMoments)
    parameters, numbers = draw_records(law, n, np.random.default_rng(4))
    assert np.isfinite(parameters).all()
    assert numbers.shape == (n, 3)
    assert ((numbers[:, 1:] >= 0.0) & (numbers[:, 1:] <= 10.0)).all()


def test_plug_in_posterior_of_singular_moments_is_finite() -> None:
    """Noisy moments of any sign, copied features, no records: the prior keeps slopes finite, the variance positive."""
    subject, rng = model(3), np.random.default_rng(4)
    x, y = records(3, 300)
    observation = exact_observation(subject, np.column_stack([x[:, 0], x[:, 0], x[:, 0]]), y, "1")
    law = require_type(observation.law, RegressionMoments)
    unit = float(1 << 28)
    cases = [
        np.array(observation.observed, dtype=float),
        *(rng.normal(0.0, 300.0 * unit, (50, len(observation.observed)))),
    ]
    cases += [np.zeros(len(observation.observed)), np.full(len(observation.observed), 1e6 * unit)]
    for observed in cases:
        for n in (0.0, 300.0, 1e9):
            drawn = law.draw_plug_in(observed, n, 500, rng)
            assert np.isfinite(drawn).all()
            assert (drawn[:, -1] > 0.0).all()


def test_texts_become_indicators_of_all_values_but_the_first() -> None:
    """The plug-in posterior of exact moments is centered at least squares; predictions and records agree."""
    domain = {
        "target": {"column": "y", "lower": -10, "upper": 10},
        "features": {"x": {"lower": 0, "upper": 4}, "r": {"values": ["n", "s", "w"]}, "b": {"values": ["no", "yes"]}},
    }
    subject, rng, n = built(domain), np.random.default_rng(3), 4000
    assert subject.parameters[1:-1] == ("beta[x]", "beta[b=yes]", "beta[r=s]", "beta[r=w]")
    x, b, r = rng.uniform(0.0, 4.0, n), rng.integers(0, 2, n), rng.integers(0, 3, n)
    design = np.column_stack([np.ones(n), x, b, r == 1, r == 2])
    y = design @ np.array([1.0, -0.5, 2.0, 1.5, -1.0]) + rng.normal(0.0, 0.5, n)
    policy = policy_of(subject, False)
    values = evaluate(subject.statistic(policy), subject.columns, np.column_stack([y, x, b, r]))
    observation = subject.observation(policy, values, noise_of(subject, policy, "1"), n)
    draws = draw_many([observation], "naive", 500, rng)[0]
    fitted = np.linalg.lstsq(design, y, rcond=None)[0]
    assert draws[:, :-1].mean(axis=0) == pytest.approx(fitted, abs=0.01)
    codes = np.array([[0, 8192, 1, 2], [0, 0, 0, 0]])
    predicted = subject.predictor(0, np.append(fitted, 0.25)[None]).predict(codes)
    assert predicted.values == pytest.approx([fitted @ [1, 2, 1, 0, 1], fitted[0]])
    _, simulated = subject.simulated(policy, 50, rng)
    assert simulated[-1] == 50 * subject.columns[0].steps ** 2  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("features", "records", "told"),
    [
        ("ab", 1000, ["too wide"]),
        ("ab", 20_000, []),
        ("abcde", 1000, ["too wide", "correlations"]),
        ("abcde", 20_000, ["correlations"]),
        ("abcdefghijklmnop", 1000, ["correlations"]),
        (range(30), 1000, ["too narrow: 86 %", "correlations"]),
        (range(30), 500_000, []),
    ],
)
def test_a_warning_tells_how_wide_intervals_are_beside_noise(
    features: Iterable[object], records: int, told: list[str]
) -> None:
    subject = built({"target": {"column": "y", **BOUNDS}, "features": dict.fromkeys(map(str, features), BOUNDS)})
    noise = noise_of(subject, policy_of(subject, True), "0.018", gaussian=True)
    warnings = " ".join(subject.known_miscalibration(noise, records))
    assert [part for part in ("too wide", "too narrow: 86 %", "correlations") if part in warnings] == told


def features_of(kind: str, n: int, d: int, rng: np.random.Generator) -> Floats:
    """Correlated features in [-1, 1] of a law that inference does not assume."""
    z = 0.5 * rng.standard_normal((n, 1)) + 0.75**0.5 * rng.standard_normal((n, d))
    if kind == "binary":
        return np.where(z > stats.norm.ppf(np.linspace(0.3, 0.8, d)), 1.0, -1.0)
    return np.asarray(np.clip(z / 3.5 if kind == "normal" else np.exp(0.8 * z) / 6.0 - 1.0, -1.0, 1.0))


@pytest.mark.slow
@pytest.mark.calibration
@pytest.mark.parametrize(
    ("kind", "d", "n", "gaussian", "trials"),
    [*((kind, 5, 5000, True, 80) for kind in ("normal", "binary", "skewed")), ("normal", 5, 20_000, False, 40),
     ("skewed", 10, 5000, True, 40)],
)  # fmt: skip
def test_intervals_of_slopes_cover_the_truth(kind: str, d: int, n: int, gaussian: bool, trials: int) -> None:
    """Coefficients from the default prior, targets inside their bounds; epsilon 1, or the rho of (1, 1e-6).

    If 90 % of all slopes are covered, the share differs from it by more than 4 standard errors, which are computed from
    independent data sets, in one of 10,000 studies. Beside large noise more are covered, and a warning says so.
    """
    ends, rng = {"lower": -1, "upper": 1}, np.random.default_rng(5)
    subject = built({"target": {"column": "y", **ends}, "features": {f"x{i:02}": ends for i in range(d)}})
    policy = policy_of(subject, True)
    noise = noise_of(subject, policy, "0.018" if gaussian else "1", gaussian)
    law = require_type(subject.law(False), RegressionMoments)
    observations: list[NoisyObservation] = []
    truths: list[Floats] = []
    while len(truths) < trials:
        x = features_of(kind, n, d, rng)
        for level, slopes, variance in zip(*draw_regressions(law, x, 20, rng), strict=True):
            y = level + x @ slopes + np.sqrt(variance) * rng.standard_normal(n)
            if (np.abs(y) > 1.0).mean() < 1e-3:
                values = evaluate(subject.statistic(policy), subject.columns, np.column_stack([y, x]))
                released = np.array(values) + noise.simulate(rng, len(values))
                observations.append(subject.observation(policy, released.tolist(), noise, n))
                truths.append(slopes)
                break
    draws = draw_many(observations, "noise-aware", 800, rng)[..., 1:-1]
    low, high = np.quantile(draws, [0.05, 0.95], axis=1)
    covered = ((low <= truths) & (truths <= high)).mean(axis=1)
    print(f"\n{kind} {d} {n}: {covered.mean():.3f} +- {covered.std() / trials**0.5:.3f}")
    error, is_told = 4.0 * max(covered.std(), 0.13) / trials**0.5, subject.known_miscalibration(noise, n)
    assert 0.9 - error < covered.mean() < (0.99 if is_told else 0.9 + error)


@pytest.mark.parametrize("gaussian", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_mean_is_as_uncertain_as_its_noise(gaussian: bool) -> None:
    """The target's sum has a uniform prior, so its posterior is that of its noise: sd within a tenth; a fixed seed."""
    subject, (x, y) = model(1), records(1, 20_000)
    policy = policy_of(subject, True)
    noise = noise_of(subject, policy, "0.5" if gaussian else "1", gaussian)
    values = evaluate(subject.statistic(policy), subject.columns, np.column_stack([y, x]))
    law = RegressionMoments(subject.scaled_columns, False)
    observation = replace(require_type(subject.observation(policy, values, noise, len(x)), NoisySums), law=law)
    observed = np.array([observation.observed], dtype=float)
    points = LatentSumsSampler(observation, law, observed, 32, np.random.default_rng(1)).run(100)[0]
    _, sums, _ = law.evaluate(points[..., :-1].reshape(-1, law.dimension), points[..., -1].ravel())
    assert sums[:, 0].std() == pytest.approx(noise.variance**0.5, rel=0.1)
    assert abs(sums[:, 0].mean() - observed[0, 0]) < 0.15 * noise.variance**0.5


def test_noise_that_hides_everything_leaves_the_prior_of_the_number_of_records() -> None:
    """Half of the draws have all records; otherwise log(1 + missing) is uniform. About 2,000 effective draws: .06
    (share) and .04 (mean) are more than five standard errors; a fixed seed.
    """
    subject, n = built({"target": {"column": "y", **BOUNDS}, "features": {"a": BOUNDS}}), 1000
    policy = RecordPolicy(Neighbors.REPLACE_ONE)
    noise = noise_of(subject, policy, "1e-11", True)
    observation = subject.observation(policy, [0] * len(subject.statistic(policy).names), noise, n)
    law, observed = require_type(observation.law, RegressionMoments), np.array([observation.observed], dtype=float)
    totals = LatentSumsSampler(observation, law, observed, 32, np.random.default_rng(2)).run(150)[0, :, :, -1]
    missing = np.log1p(n - totals[totals < n]) / np.log1p(n)
    assert (totals == n).mean() == pytest.approx(0.5, abs=0.06)
    assert missing.mean() == pytest.approx(0.5, abs=0.04)
    assert missing.max() > 0.98


def test_plug_in_posterior_is_not_calibrated() -> None:
    cell, rng, ranks = simulate(model(), True, 100, "1", 150), np.random.default_rng(1), []
    for observed, truth in zip(cell.observed, cell.parameters, strict=True):
        drawn = cell.observation.law.draw_plug_in(observed, 100.0, 199, rng)[:, 1]
        ranks.append((float((drawn < truth[1]).sum()) + rng.random()) / 200.0)
    assert_not_uniform(np.abs(2.0 * np.array(ranks) - 1.0), FALSE_FAIL)


BOUNDS = {"lower": 0, "upper": 10}


@pytest.mark.parametrize(
    ("domain", "prior", "where"),
    [
        ({"target": {"column": "a", **BOUNDS}, "features": {"a": BOUNDS}}, {}, "domain.features"),
        ({"target": {"column": "y", **BOUNDS}, "features": {"intercept": BOUNDS}}, {}, "domain.features"),
        ({"target": {"column": "y", **BOUNDS}, "features": {"a": BOUNDS}}, {"mean": {"b": 1}}, "prior.mean"),
        ({"target": {"column": "y", **BOUNDS}, "features": {"a": BOUNDS}}, {"deviation": {"b": 1}}, "prior.deviation"),
        ({"target": {"column": "y", **BOUNDS}, "features": {"a": BOUNDS}}, {"deviation": {"a": 1e-5}}, "prior.dev"),
    ],
)
def test_invalid_regression_specs_are_refused(domain: dict[str, Any], prior: dict[str, Any], where: str) -> None:
    with pytest.raises(SpecError) as refused:
        built(domain, prior)
    assert (refused.value.where or "").startswith(where)


def test_feature_order_does_not_change_the_request() -> None:
    features = {"b": {"lower": 0, "upper": 2}, "a": BOUNDS}
    domain = {"target": {"column": "m", **BOUNDS}, "features": features}
    turned = {**domain, "features": dict(reversed(features.items()))}
    assert built(domain) == built(turned)
    assert built(domain).column_names == ("m", "a", "b")
    assert built(domain).parameters == ("beta[intercept]", "beta[a]", "beta[b]", "variance")
    assert built({**domain, "variance": 2.0}).parameters == ("beta[intercept]", "beta[a]", "beta[b]")


@pytest.mark.slow
def test_abalone_rings_are_regressed_on_length(dpbayes: Cli, place: Path) -> None:
    """Least squares within eight posterior sds of a coefficient: a false-fail rate far below 1e-6."""
    Path("spec.yaml").write_text(
        f"model: linear-regression\ndata: {SAMPLE_DATA / 'abalone.csv.gz'}\nprivacy: {{epsilon: 1}}\n"
        "domain:\n  target: {column: rings, lower: -5, upper: 30}\n  features: {length: {lower: 0, upper: 1}}\n"
    )
    printed = dpbayes("release", "--spec", "spec.yaml", "--out", "out", "--json").json["posterior"]
    assert list(printed) == ["beta[intercept]", "beta[length]", "variance"]
    for name, truth in (("beta[intercept]", 2.10), ("beta[length]", 14.95), ("variance", 7.17)):
        assert abs(printed[name]["mean"] - truth) < 8.0 * printed[name]["sd"]
    document = json.loads(Path("out/release.json").read_text())
    assert document["inference"]["warnings"] == []
    (target,) = document["posterior_predictive"]
    assert target == "rings"
    again = dpbayes("infer", "out", "--prior", "slope_strength=5", "--inference", "naive", "--json")
    assert list(again.json["posterior"]) == list(printed)
    assert dpbayes("report", "out").code == 0
