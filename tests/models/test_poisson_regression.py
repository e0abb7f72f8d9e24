"""Poisson regression: predictions, priors, and the whole way from a file to rate ratios and a prior of others."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.predicted import PredictiveLaws
from dpbayes_cli.models.families.regression_domain import StatedPrior
from dpbayes_cli.models.poisson_regression import PoissonDomain, PoissonRegression
from tests.conftest import Cli

DOMAIN = {"target": {"column": "visits", "upper": 5}, "features": {"age": {"lower": 0, "upper": 100}}}


def built(**prior: object) -> PoissonRegression:
    domain = msgspec.convert(DOMAIN, PoissonDomain)
    return PoissonRegression.build(domain, msgspec.convert(prior, StatedPrior))


def test_the_default_prior_of_the_intercept_depends_on_the_bound() -> None:
    law = built().prior
    assert law.means == (np.log(5 / 4), 0.0)
    assert (law.name, law.scales, law.per_sd, law.centered) == ("normal", (2.7, 0.45), (False, True), (False, True))
    law = built(law="laplace", precision=1.0, scale={"age": 0.3}, mean={"intercept": 1.0}).prior
    assert (law.name, law.means, law.scales) == ("laplace", (1.0, 0.0), (2.0, 0.3))


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ({"mean": {"height": 1.0}}, "no coefficient 'height'"),
        ({"correlations": [[1.0, 0.0]]}, "correlation matrix of 2"),
        ({"correlations": [[1.0, 1.0], [1.0, 1.0]]}, "positive definite"),
        ({"law": "laplace", "correlations": [[1.0, 0.0], [0.0, 1.0]]}, "law: normal"),
    ],
)
def test_a_prior_that_is_none_is_refused(prior: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        built(**prior)


def test_predictions_are_those_of_simulated_clamped_counts() -> None:
    """Means of 40,000 counts err by 0.04, which is 5 standard errors; an invalid feature gives no prediction."""
    model, rng = built(), np.random.default_rng(1)
    draws = rng.normal([0.5, 1.0], 0.3, (200, 2))
    codes = np.array([[0, 0], [1 << 16, 0], [-1, 0]])
    predicted = model.predictor(1, draws).predict(codes)
    assert isinstance(predicted, PredictiveLaws)
    assert np.isnan(predicted.values[2])
    assert np.isnan(predicted.quantiles[2]).all()
    for i, x in enumerate((-1.0, 1.0)):
        counts = np.minimum(rng.poisson(np.exp(draws @ [1.0, x]), (200, 200)), 5)
        assert predicted.values[i] == pytest.approx(counts.mean(), abs=0.04)
        assert predicted.sd[i] == pytest.approx(counts.std(), abs=0.04)
        assert (counts <= predicted.quantiles[i, 1]).mean() > 0.94
        assert (counts < predicted.quantiles[i, 1]).mean() < 0.96


@pytest.mark.slow
def test_a_file_becomes_rate_ratios_and_the_prior_of_another_release(dpbayes: Cli) -> None:
    """True ratios lie in their 99.9 % intervals; mean plus or minus 4 sd is wider, so a false failure is below 1e-3."""
    rng = np.random.default_rng(2)
    spec = {"model": "poisson-regression", "domain": DOMAIN, "privacy": {"epsilon": 3, "delta": 1e-6}}
    for name in ("one", "two"):
        age = rng.integers(0, 101, 4000)
        visits = rng.poisson(np.exp(0.2 + 0.01 * (age - 50)))
        Path(f"{name}.csv").write_text("age,visits\n" + "".join(f"{a},{v}\n" for a, v in zip(age, visits, strict=True)))
        Path(f"{name}.yaml").write_text(json.dumps({**spec, "dataset": name, "data": f"{name}.csv"}))
        assert dpbayes("release", "--spec", f"{name}.yaml", "--out", name).code == 0
        effects = json.loads(Path(name, "release.json").read_text())["effects"]
        ratio = effects["age + 10"]
        assert abs(ratio["mean"] - np.exp(0.1)) < 4.0 * ratio["sd"]
        assert effects["average change with age + 10"]["q05"] is not None
        assert dpbayes("verify", name).code == 0
    refused = dpbayes("infer", "one", "--prior", "from=two")
    assert refused.code == 3
    assert "different people" in refused.err
    alone = dpbayes("infer", "one", "--json").json["posterior"]["beta[age]"]["sd"]
    both = dpbayes("infer", "one", "--prior", "from=two,other_people=true", "--json").json
    assert both["posterior"]["beta[age]"]["sd"] < 0.9 * alone
    assert both["prior"]["origin"]
    dpbayes("budget", "amend", "one", "--mu", "2", "--reason", "a second release").exits(0)
    dpbayes("release", "--spec", "one.yaml", "--release-id", "again", "--out", "again", "--epsilon", "1").exits(0)
    same = dpbayes("infer", "one", "--prior", "from=again,other_people=true").exits(3)
    assert "of the account 'one', so they are of the same people" in " ".join(same.err.split())
    assert dpbayes("infer", "one", "--prior", "law=student-t,freedom=3,scale.age=0.2").code == 0
