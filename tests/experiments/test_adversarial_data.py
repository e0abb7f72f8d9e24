"""The data of an adversary: the loss on a data set by closed forms, and the charge as its maximum over data sets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

from dpbayes_cli.core.section import require_type
from dpbayes_cli.experiments.adversarial_data import AdversarialData, AdversaryCase, local_loss
from dpbayes_cli.experiments.study import build_study
from dpbayes_cli.mechanisms.samplers.scalar_sampler import ScalarSampler
from tests.experiments.studies import results_of

CASE = AdversaryCase(support=(0.2, 0.8))


def law_of(n: int) -> ScalarSampler:
    return require_type(CASE.step(n).law, ScalarSampler)


@pytest.mark.parametrize("successes", [0, 3, 10])
def test_the_loss_on_a_data_set_is_that_of_the_truncated_beta_law(successes: int) -> None:
    """At the ends of the support, where the log ratio is extreme; cells end half a cell before them."""
    n, (low, high) = 10, CASE.support

    def log_mass(s: int) -> float:
        a, b = 1.0 + s, 1.0 + n - s
        inside = special.betainc(a, b, high) - special.betainc(a, b, low)
        return float(special.betaln(a, b) + np.log(inside))

    losses = []
    for other in (successes - 1, successes + 1):
        if 0 <= other <= n:
            ends = (successes - other) * special.logit(np.array([low, high]))
            losses.append(np.abs(ends - log_mass(successes) + log_mass(other)).max())
    assert local_loss(law_of(n), successes)[0] == pytest.approx(max(losses), abs=0.005)


def test_the_adversary_makes_the_posterior_lean_to_one_end() -> None:
    study = AdversarialData(study="adversarial-data", name="x", n=60, cases={"coin": CASE})
    outcome = study.run(study.grid()[0])
    losses = outcome.trials["local_epsilon"]
    assert outcome.trials["successes"].tolist() == list(range(1, 61))
    assert losses[0] == pytest.approx(0.5 * float(str(outcome.measures["worst_case"])), rel=0.01), "symmetric: half"
    assert np.all(np.diff(losses) > 0.0)
    assert 0.95 < float(str(outcome.measures["share"])) <= 1.0


def test_a_path_that_stays_short_of_the_worst_case_is_told() -> None:
    study: Any = build_study(
        {"study": "adversarial-data", "name": "x", "n": "3", "cases": {"c": {"support": ["0.2", "0.8"]}}}
    )
    assert not next(iter(study.claims(results_of(study)))).holds
