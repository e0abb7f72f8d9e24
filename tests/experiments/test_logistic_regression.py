"""A study of logistic regression: its laws, rows and released chains."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbayes_cli.core.coefficient_law import CoefficientLaw
from dpbayes_cli.core.section import require_type
from dpbayes_cli.experiments.logistic_laws import (
    LogisticLaw,
    Price,
    UnitRows,
    divergence_of_range,
    law_at,
    restricted_range,
)
from dpbayes_cli.experiments.logistic_regression import LogisticRegressions
from dpbayes_cli.experiments.study import build_study
from dpbayes_cli.privacy.conversions import bounded_range_rdp, gaussian_delta
from dpbayes_cli.privacy.noisy_descent import descent_mu, minami_likelihood_power, mu_of_statement
from tests.experiments.studies import LOGISTIC


def study_of(place: Path, **changes: Any) -> LogisticRegressions:
    return require_type(build_study({**LOGISTIC, **changes}, place), LogisticRegressions)


def test_more_trials_begin_with_the_same_records(records: Path) -> None:
    few, many = (
        study.records_of(study.grid()[0]) for study in (study_of(records, trials=trials) for trials in ("2", "4"))
    )
    assert np.array_equal(few.x, many.x[:2])
    assert few.x.shape[1] + few.test_x.shape[1] == 400
    assert not np.array_equal(many.x[0], many.x[1])


N, TAU = 1000, 4.0


def law_of(method: str, price: Price | None, place: Path) -> LogisticLaw:
    """The law of a method with the prior precision 4 of 1,000 records."""
    model = study_of(place).cases["split"].model(N)
    prior = CoefficientLaw.common(model.design.width, TAU)
    return law_at(method, price, replace(model, prior=prior), N)


def mu_of(chain: LogisticLaw) -> float:
    """The price of a chain: see ``descent_mu``."""
    power, smoothness = chain.likelihood_power, chain.likelihood_power * N / 4.0 + TAU
    return descent_mu(
        2.0 * power, require_type(chain.step_size, float), require_type(chain.n_steps, int), TAU, smoothness
    )


@pytest.mark.parametrize("order", ["1", "2", "100"])
@pytest.mark.parametrize("epsilon", ["0.01", "0.3"])
def test_a_law_has_the_divergence_that_was_asked_for(order: str, epsilon: str, records: Path) -> None:
    """Exact draws: order (2 T)^2 / (2 tau) under the power T. A chain: order mu^2 / 2, mu of ``descent_mu``."""
    place, price = records, Price(epsilon, order=order)
    for method in ("rdp-diffuse", "rdp-concentrated"):
        law = law_of(method, price, place)
        power = law.likelihood_power
        assert float(order) * (2.0 * power) ** 2 / (2.0 * law.tau) == pytest.approx(float(epsilon))
        assert law.tau == TAU if method == "rdp-diffuse" else power == 1.0
    chain = law_of("gdp-langevin", price, place)
    cost = float(order) * mu_of(chain) ** 2 / 2.0
    assert cost == pytest.approx(float(epsilon), rel=0.05), "horizons are whole numbers"
    assert cost <= float(epsilon)
    exact = law_of("rdp-diffuse", price, place)
    assert chain.likelihood_power >= exact.likelihood_power * (1.0 - 1e-6), "a chain costs no more than exact draws"


def test_the_two_rules_at_a_delta(records: Path) -> None:
    price = Price("1", delta="0.000001")
    gdp, minami = (law_of(f"{name}-langevin", price, records) for name in ("gdp", "minami"))
    assert minami.likelihood_power == pytest.approx(minami_likelihood_power(1.0, 1e-6, 1.0, TAU))
    exact = mu_of_statement(1.0, 1e-6) * math.sqrt(TAU) / 2.0
    assert exact / minami.likelihood_power == pytest.approx(1.27, abs=0.01), "what the exact curve alone gains"
    assert gdp.likelihood_power >= exact * (1.0 - 1e-6)
    assert gaussian_delta(mu_of(gdp), 1.0) <= 1e-6


def test_restricted_draws_pay_by_the_smaller_curve(records: Path) -> None:
    for order in (1.5, 10.0):
        assert divergence_of_range(0.7, order) == bounded_range_rdp(0.7, order)
    for range_ in (0.7, 20.0):
        assert divergence_of_range(range_, 1.0) == pytest.approx(bounded_range_rdp(range_, 1.0 + 1e-7), rel=1e-5)
    for epsilon, order in ((0.1, 1.0), (20.0, 1.0), (20.0, 100.0)):
        assert divergence_of_range(restricted_range(epsilon, order), order) == pytest.approx(epsilon)
    law = law_of("ops", Price("20", order="100"), records)
    assert law.radius == N / TAU, "c / beta"
    assert 2.0 * law.likelihood_power * require_type(law.radius, float) == pytest.approx(restricted_range(20.0, 100.0))


def test_rows_are_those_of_the_paper(records: Path) -> None:
    design = require_type(study_of(records).cases["split"].model(N).design, UnitRows)
    rows = design.rows(np.array([[0, 0], [1 << 16, 2]]))
    np.testing.assert_allclose(rows, [[-0.5, 0.5, -0.5, -0.5], [0.5, -0.5, -0.5, 0.5]])
    odd = design.rows(np.array([[1 << 15, 1]]))
    np.testing.assert_allclose(odd, np.array([[0.0, -0.5, 0.5, -0.5]]) / math.sqrt(0.75))
    assert design.row_norm == 1.0
    assert study_of(records).cases["split"].model(N).curvature(N, 2).slope == 1.0


def test_a_released_chain_is_near_its_posterior(records: Path) -> None:
    """With next to no step error its negative log-likelihood is that of exact draws within 5 standard errors."""
    study = study_of(records, trials="60", methods=["true-posterior", "gdp-langevin"], epsilon=["100"])
    exact, chain = map(study.run, study.grid()[:2])
    away = chain.trials["nll"] - exact.trials["nll"]
    assert abs(away.mean()) <= 5.0 * away.std() / math.sqrt(60) + 0.01
    assert float(str(exact.measures["error"])) < float(str(exact.measures["commonest"]))
