"""The noisy log importance weight of an annealed chain: its sensitivity, its mean, its noise."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from dpbayes_cli.core.model import Model
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.section import require_type
from dpbayes_cli.mechanisms.gibbs import Gibbs
from dpbayes_cli.mechanisms.samplers.private_gibbs import Point, PrivateGibbs
from dpbayes_cli.privacy.composition import Composition
from dpbayes_cli.privacy.kinds import PureDP
from tests.mechanisms.chains import COMPLETE, all_states, coarse, evidence_of, hmm, mixture, neighbors, records_of
from tests.plans import plan_of


def planned(model: Model, epsilon: str = "1", n: int = 2, **changes: Any) -> Plan:
    return plan_of(Gibbs(), model, COMPLETE, Decimal(epsilon), n_records=n, **changes)


def test_a_log_weight_moves_by_its_sensitivity_at_most_and_a_witness_attains_it() -> None:
    """All neighbors along the extreme public paths: one point a rise, emissions at the ends of their lattices."""
    model = hmm(sequences=1, steps=1, sizes=(2,))
    plan = planned(model, n=2, epsilon="3", kernel="annealed", log_weight_epsilon=Decimal(1))
    chain = require_type(plan.final_step.law, PrivateGibbs)
    weight = chain.weight
    assert weight is not None
    assert plan.guarantee.epsilon == 3
    assert require_type(plan.guarantee, Composition).parts[-1] == PureDP(Decimal(1))
    cover, starts = chain.covers[0], [Decimal(0), *(stage.likelihood_power for stage in chain.stages)]
    end = np.array([[cover.least, cover.most], [cover.least, cover.most]])
    paths = [[end] * 10, [end[:, ::-1]] * 10, [end, end[:, ::-1]] * 5]
    links = chain.structure.draw_state_probabilities(None, np.random.default_rng(0))
    widest = 0.0
    for one, other in neighbors(records_of(model), 2):
        both = [chain.structure.sites(evidence_of(model, records)) for records in (one, other)]
        for path in paths:
            points = [Point(np.array([0]), (emissions,), links) for emissions in path]
            rises = zip(points, itertools.pairwise(starts), strict=True)
            totals = [[chain.log_weight_increment(point, sites, *ends) for sites in both] for point, ends in rises]
            left, right = (sum(column) >> weight.shift for column in zip(*totals, strict=True))
            widest = max(widest, abs(left - right))
    assert widest <= weight.law.scale * (1 + 1e-12)  # at an epsilon of one the scale is the sensitivity
    assert widest >= weight.law.scale - 2
    assert weight.scale == pytest.approx(plan.parameters["likelihood_power"] * float(cover.spread) / 2, rel=1e-3)
    assert plan.parameters["log_weight_scale"] == weight.scale


@pytest.mark.slow
def test_the_mean_weight_is_the_evidence() -> None:
    """Weights without noise, of three records at a likelihood power of one, against the sum over all points.

    Within 6.2 standard errors of 300 bounded weights (false-fail near 1e-9), which are a third of the evidence or less.
    """
    model = mixture()
    records = [(0,), (0,), (1,)]
    plan = planned(model, n=3, epsilon="900", kernel="annealed", sweeps=10, log_weight_epsilon=Decimal(100))
    chain = coarse(plan.final_step.law, 6, 2)
    evidence = evidence_of(model, records)
    sites = chain.structure.sites(evidence)
    assert plan.parameters["likelihood_power"] == 1.0
    exact = 0.0
    shares = np.array([2, 3, 4]) / 6
    beta = [float(x) for x in np.array([1.0, 1.0, 1.0]) / 3]
    for (a, p), (b, q) in itertools.product(zip(shares, beta, strict=True), repeat=2):
        for states in all_states(chain):
            k = int(states.sum())
            mass = math.factorial(k) * math.factorial(3 - k) / math.factorial(4)  # classes of a uniform share
            zeros = np.where(states == 0, a, b)
            likelihood = math.prod(z if x == (0,) else 1 - z for z, x in zip(zeros, records, strict=True))
            exact += p * q * mass * likelihood
    rng = np.random.default_rng(0)
    weights = []
    for _ in range(300):
        links = chain.structure.draw_state_probabilities(None, rng)
        point = Point(chain.structure.draw_states(links, 3, rng), chain.start(), links)
        total, before = 0, Decimal(0)
        for stage in chain.stages:
            total += chain.log_weight_increment(point, sites, before, stage.likelihood_power)
            before = stage.likelihood_power
            states = chain.update_states(point, sites, before)
            emissions = chain.update_emissions(states, sites, before)
            point = Point(states, emissions, chain.structure.draw_state_probabilities(states, rng))
        weights.append(math.exp(total / 2.0**chain.bits))
    assert abs(np.mean(weights) - exact) <= 6.2 * np.std(weights) / math.sqrt(len(weights))
    assert 6.2 * np.std(weights) / math.sqrt(len(weights)) < exact / 3


@pytest.mark.slow
def test_a_weight_is_released_with_the_noise_that_was_planned() -> None:
    plan = planned(hmm(), epsilon="2", sweeps=10, kernel="annealed", log_weight_epsilon=Decimal("0.5"))
    drawn = [Gibbs().release(plan, evidence_of(hmm(), records_of(hmm())[:2])).log_weight for _ in range(60)]
    values = np.array(drawn, dtype=float)
    scale = plan.parameters["log_weight_scale"]
    assert 0.3 * scale < np.abs(values - np.median(values)).mean() < 3 * scale  # off with probability below 1e-9
    assert Gibbs().release(planned(hmm(), sweeps=2), evidence_of(hmm(), records_of(hmm())[:2])).log_weight is None
