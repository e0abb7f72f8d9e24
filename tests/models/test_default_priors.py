"""Default priors: derived from the public bounds, written into the spec, and weak where data say little."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.noisy_observation import NoisySums
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic_values import evaluate
from dpbayes_cli.inference.sums.one_parameter import grid_density
from dpbayes_cli.models.families.number_families import NumberLaw
from dpbayes_cli.models.gamma_poisson import GammaPoisson
from dpbayes_cli.models.multivariate_normal import MultivariateNormal
from dpbayes_cli.models.normal import Normal
from dpbayes_cli.models.normal_mean import NormalMean
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.spec.release_spec import ReleaseSpec, build_spec
from tests.statistical import assert_uniform

AGES = {"lower": 20, "upper": 100}
TARGET = {"target": {"column": "y", **AGES}, "features": {"a": {"lower": 0, "upper": 10}}}


def spec(model: str, domain: dict[str, Any], **prior: Any) -> ReleaseSpec:
    return build_spec({"model": model, "domain": domain, "prior": prior, "privacy": {"epsilon": "1"}})


@pytest.mark.parametrize(
    ("model", "domain", "prior", "expected"),
    [
        ("normal-mean", {**AGES, "variance": 100}, {}, {"margin": 0.02}),
        ("normal-mean", {**AGES, "variance": 100}, {"mean": 60}, {"mean": 60.0, "variance": 1600.0}),
        ("normal-mean", {**AGES, "variance": 2500}, {"mean": 50}, {"mean": 50.0, "variance": 2500.0}),
        ("normal", AGES, {}, {"spread": 1.0}),
        ("normal", {"lower": -3, "upper": 3}, {"strength": 2},
         {"mean": 0.0, "strength": 2.0, "shape": 2.0, "rate": 2.0}),
        ("gamma-poisson", {"upper": 20}, {}, {"shape": 1.0, "rate": 0.05}),
        ("gamma-poisson", {"upper": 1_000_000}, {}, {"shape": 1.0, "rate": 1e-6}),
        ("gamma-exponential", {"upper": 20}, {}, {"shape": 0.5, "rate": 0.2}),
        ("gamma-exponential", {"upper": 1e12}, {}, {"shape": 0.5, "rate": 1e10}),
        ("multivariate-normal", {"columns": {"a": AGES}}, {}, {"variance_scale": 1.0}),
        ("multivariate-normal", {"columns": {"a": AGES}}, {"freedom": 5}, {"strength": 1.0, "freedom": 5.0}),
        ("linear-regression", TARGET, {}, {"spread": 1.0}),
        ("linear-regression", {**TARGET, "variance": 4}, {},
         {"strength": 1.0, "slope_strength": 0.1, "variance_strength": 0.2}),
    ],
)  # fmt: skip
def test_the_spec_states_the_default_that_fits_the_bounds(
    model: str, domain: dict[str, Any], prior: dict[str, Any], expected: dict[str, float]
) -> None:
    built = spec(model, domain, **prior)
    values = built.stated_in_full["prior"]
    assert {key: value for key, value in values.items() if value not in (None, {})} == pytest.approx(expected)
    again = build_spec(built.stated_in_full)
    assert (again.prior, again.request_digest) == (built.prior, built.request_digest)
    assert again.build_model() == built.build_model()


@pytest.mark.parametrize(
    ("model", "domain", "prior"),
    [
        ("normal-mean", {**AGES, "variance": 4}, {"margin": "0.1", "mean": 3}),
        ("normal", AGES, {"spread": 1, "mean": 3}),
        ("multivariate-normal", {"columns": {"a": AGES}}, {"spread": 1, "mean": {"a": 3}}),
        ("multivariate-normal", {"columns": {"a": AGES}}, {"spread": 1, "variance_scale": 3}),
        ("linear-regression", TARGET, {"spread": 1, "strength": 3}),
        ("linear-regression", {**TARGET, "variance": 4}, {"spread": 1}),
    ],
)
def test_keys_of_two_priors_are_refused(model: str, domain: dict[str, Any], prior: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=r"margin|spread"):
        spec(model, domain, **prior).build_model()


def test_a_prior_on_private_bounds_follows_the_bounds_that_were_found() -> None:
    private = {"low": "0", "high": "128", "epsilon": "0.1"}
    built = build_spec(
        {"model": "normal-mean", "domain": {"variance": 4}, "bounds": {"private": private}, "privacy": {"epsilon": "1"}}
    )
    assert built.stated_in_full["prior"] == {"margin": None, "mean": None, "variance": None}
    for chosen, lower, width in (((32.0, 64.0), 32.0, 32.0), (None, 0.0, 128.0)):
        quantiles = built.build_model(chosen).prior_quantiles(np.array([0.0, 1.0]))
        assert quantiles is not None
        np.testing.assert_allclose(quantiles, [[lower - 0.02 * width, lower + 1.02 * width]])


def test_draws_of_a_mean_have_a_normal_prior() -> None:
    stated = {"model": "normal-mean", "domain": {**AGES, "variance": 100}, "mechanism": "ops",
              "on_invalid": "impute:60", "privacy": {"epsilon": "1"}}  # fmt: skip
    assert build_spec(stated).stated_in_full["prior"] == {"margin": None, "mean": 60.0, "variance": 1600.0}
    with pytest.raises(SpecError, match="normal prior"):
        build_spec({**stated, "prior": {"margin": "0.1"}})


@pytest.mark.slow
def test_the_default_interval_of_a_mean_near_a_bound_covers_it() -> None:
    """The mean is 1 % of the range above the bound: 95 % of intervals cover; under a normal prior, 60 % do.

    Of 50 intervals, fewer than 40 cover by chance with probability 1e-5; under a normal prior, 40 do with 0.002.
    """
    mean = 20.8
    built = spec("normal-mean", {**AGES, "variance": 2.56})
    model = require_type(built.build_model(), NormalMean)
    rng, noise, observations = np.random.default_rng(5), DiscreteLaplace(2.0 * model.column.steps), []
    for _ in range(50):
        values = evaluate(model.statistic(built.policy), model.columns, rng.normal(mean, 1.6, (100, 1)))
        released = [int(v + z) for v, z in zip(values, noise.simulate(rng, 2), strict=True)]
        observations.append(model.observation(built.policy, released, noise, 100))
    law = require_type(observations[0].law, NumberLaw)
    observed = np.array([each.observed for each in observations], float)
    low, high = grid_density(observations[0], law, observed).quantiles(np.array([0.05, 0.95])).T
    assert ((low <= mean) & (mean <= high)).mean() >= 0.8


def test_the_bounded_prior_is_the_one_that_it_is_said_to_be() -> None:
    """Means uniform, sds half-normal or variances exponential given the mean, correlations uniform; false fail 1e-6."""
    normal = require_type(spec("normal", AGES, spread=0.5).build_model(), Normal)._law(False, False)
    columns = {"columns": {"a": AGES, "b": AGES}}
    earlier, vector = (
        require_type(spec("multivariate-normal", columns, **prior).build_model(), MultivariateNormal).law(False)
        for prior in ({"spread": 0.5}, {})
    )
    for law in (normal, earlier, vector):
        drawn = law.parameters(law.draw_prior(4000, np.random.default_rng(1)))
        variance = drawn[:, 1] if law is normal else drawn[:, 2]
        share = (drawn[:, 0] - 20.0) / 80.0
        ratio = np.sqrt(variance) / (80.0 * share * (1.0 - share))
        assert_uniform(share, 1e-6)
        assert_uniform(-np.expm1(-(ratio**2)) if law is vector else 2.0 * ndtr(ratio / 0.5) - 1.0, 1e-6)
        if law is not normal:
            assert_uniform((drawn[:, 3] / np.sqrt(drawn[:, 2] * drawn[:, 4]) + 1.0) / 2.0, 1e-6)


def test_the_density_of_the_bounded_prior_is_that_of_its_draws() -> None:
    """E[p(x') / p(x)] over symmetric steps from draws x to x' is 1, which needs the density p of the draws."""
    rng = np.random.default_rng(2)
    normal = require_type(spec("normal", AGES).build_model(), Normal)._law(False, False)
    vector = require_type(spec("multivariate-normal", {"columns": {"a": AGES, "b": AGES}}).build_model(),
                          MultivariateNormal).law(False)  # fmt: skip
    for law in (normal, vector):
        points = law.draw_prior(20_000, rng)
        steps = points + 0.1 * rng.standard_normal(points.shape)
        ratio = np.exp(law.log_prior(steps) - law.log_prior(points))
        assert abs(ratio.mean() - 1.0) < 6.0 * ratio.std() / len(ratio) ** 0.5


def test_the_search_for_a_posterior_is_not_misled_by_tails_of_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 records of mean 2, with a prior over 59 units of the log rate: a coarse grid sees only tails.

    The second search, which would find the posterior in any case, is turned off.
    """
    monkeypatch.setattr("dpbayes_cli.inference.sums.one_parameter._MAX_FIRST_INTERVAL", 100.0)
    model = require_type(spec("gamma-poisson", {"upper": 20}, shape="0.5", rate="0.1").build_model(), GammaPoisson)
    records = np.random.default_rng(4).poisson(2.0, (10_000, 1)).astype(float)
    policy = spec("gamma-poisson", {"upper": 20}).policy
    values = evaluate(model.statistic(policy), model.columns, records)
    observation = model.observation(policy, values, DiscreteLaplace(40.0), 10_000)
    law = require_type(require_type(observation, NoisySums).law, NumberLaw)
    low, high = grid_density(observation, law, np.array([values], float)).quantiles(np.array([0.001, 0.999]))[0]
    assert 1.9 < low < high < 2.1
