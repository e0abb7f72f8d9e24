"""Private Gibbs sampling: updates and whole sweeps by enumeration, the laws of draws, plans, refusals."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.encoded_records import CodedColumns
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.mechanisms.gibbs import Gibbs
from dpbayes_cli.mechanisms.samplers.barker_kernel import BarkerKernel, barker_weights, local_spread
from dpbayes_cli.mechanisms.samplers.private_gibbs import Point, PrivateGibbs
from dpbayes_cli.models.beta_bernoulli import BetaBernoulli
from dpbayes_cli.models.beta_geometric import BetaGeometric
from dpbayes_cli.models.dirichlet_categorical import DirichletCategorical
from dpbayes_cli.models.families.capabilities import OneParameterFamily
from dpbayes_cli.models.families.latent_variables import LatentVariables
from dpbayes_cli.models.gamma_poisson import GammaPoisson
from dpbayes_cli.models.hmm import Hmm
from dpbayes_cli.privacy.composition import Composition
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.conftest import often
from tests.mechanisms.chains import (
    COMPLETE,
    all_states,
    coarse,
    costs,
    emission_log_law,
    emissions_of,
    evidence_of,
    hmm,
    mixture,
    neighbors,
    records_of,
    rows_of,
    site_log_laws,
    state_log_law,
)
from tests.plans import plan_of
from tests.statistical import assert_follows

COIN = BetaBernoulli("1", "0", 2.0, 3.0)
IMPUTED = RecordPolicy(Neighbors.REPLACE_ONE, "0")
T = Decimal("0.7")
SUBJECTS = [
    pytest.param(hmm(), 2, id="hmm"),
    pytest.param(hmm(sequences=1, steps=3, sizes=(2, 2)), 1, id="two features"),
    pytest.param(mixture(), 2, id="mixture"),
    pytest.param(mixture(sizes=(3,)), 2, id="three values"),
]


def planned(model: Model, policy: RecordPolicy = COMPLETE, epsilon: str = "1", n: int = 2, **changes: Any) -> Plan:
    return plan_of(Gibbs(), model, policy, Decimal(epsilon), n_records=n, **changes)


def chain_of(model: LatentVariables, n: int, **changes: Any) -> PrivateGibbs:
    return coarse(planned(model, n=n, **changes).final_step.law)


def points_of(chain: PrivateGibbs, size: int) -> list[Point]:
    """Public points: emissions at the ends of their lattices, and random ones."""
    rng = np.random.default_rng(3)
    k, points = chain.structure.n_states, []
    for i in range(size):
        emissions = []
        for cover in chain.covers:
            rows = sorted(rows_of(cover))
            picked = [rows[0], rows[-1]] if i == 0 else [rows[j] for j in rng.integers(len(rows), size=k)]
            emissions.append(np.array(picked))
        links = chain.structure.draw_state_probabilities(None, rng)
        states = rng.integers(k, size=chain.structure.n_sites(chain.n_records))
        points.append(Point(states, tuple(emissions), links))
    return points


@pytest.mark.parametrize(("model", "n"), SUBJECTS)
def test_no_update_exceeds_its_cost_and_a_witness_attains_it(model: LatentVariables, n: int) -> None:
    """All neighbors, all outcomes: ranges of log ratios stay within the cost of an update, and nearly reach it.

    Of states the ranges at all sites are added, for they are independent within a group, and groups are charged
    together; and no log ratio of all states exceeds what pure epsilon is charged.
    """
    chain = chain_of(model, n)
    of_states, of_emissions = costs(chain, T)
    points = points_of(chain, 4)
    widest = [0.0, 0.0]
    laws: dict[Any, Any] = {}

    def law(records: Any) -> Any:
        key = records if isinstance(model.chain_input(COMPLETE), CodedColumns) else tuple(sorted(records))
        if key not in laws:
            sites = chain.structure.sites(evidence_of(model, records))
            laws[key] = (
                [(state_log_law(chain, point, sites, T), site_log_laws(chain, point, sites, T)) for point in points],
                [emission_log_law(chain, states, sites, T) for states in all_states(chain)[:4]],
            )
        return laws[key]

    for one, other in neighbors(records_of(model), n):
        for (a, a_sites), (b, b_sites) in zip(law(one)[0], law(other)[0], strict=True):
            assert np.abs(a - b).max() <= of_states + 1e-12
            widest[0] = max(widest[0], float(np.ptp(a_sites - b_sites, axis=1).sum()))
        for a, b in zip(law(one)[1], law(other)[1], strict=True):
            widest[1] = max(widest[1], float(np.ptp(a - b)))
    assert widest[0] <= of_states + 1e-12
    assert widest[1] <= of_emissions + 1e-12
    assert widest[0] >= of_states * (1 - 1e-6)
    assert widest[1] >= of_emissions * (1 - 1e-6)


def kernel(model: LatentVariables, chain: PrivateGibbs, records: Any, links: Any) -> Any:
    """The log law of a sweep from every point to every point, with fixed public links."""
    sites = chain.structure.sites(evidence_of(model, records))
    states, emissions = all_states(chain), emissions_of(chain)
    after = np.array([emission_log_law(chain, z, sites, T) for z in states])
    rows = []
    for z, e in itertools.product(states, emissions):
        rows.append((state_log_law(chain, Point(z, e, links), sites, T)[:, None] + after).ravel())
    return np.array(rows)


@pytest.mark.parametrize(
    ("model", "n"),
    [
        pytest.param(hmm(sequences=1), 1, id="hmm"),
        pytest.param(mixture(), 1, id="mixture"),
        pytest.param(hmm(sequences=1), 2, id="hmm of two records", marks=pytest.mark.slow),
        pytest.param(mixture(sizes=(3,)), 1, id="three values", marks=pytest.mark.slow),
    ],
)
def test_no_chain_of_two_sweeps_exceeds_its_cost(model: LatentVariables, n: int) -> None:
    """Every path of two sweeps from every start, every pair of neighbors."""
    chain = coarse(planned(model, n=n).final_step.law, 6, 2)
    cost = sum(costs(chain, T))
    links = chain.structure.draw_state_probabilities(None, np.random.default_rng(0))
    data = sorted({each for pair in neighbors(records_of(model), n) for each in pair})
    laws = {records: kernel(model, chain, records, links) for records in data}
    for one, other in neighbors(records_of(model), n):
        ratio = laws[one] - laws[other]
        first, second = ratio, ratio.max(axis=1)
        assert ratio.max() <= cost + 1e-12
        assert (first + second[None, :]).max() <= 2 * cost + 1e-12


@pytest.mark.parametrize("model", [hmm(sequences=1, steps=3), mixture()], ids=["hmm", "mixture"])
def test_a_sweep_leaves_the_tempered_posterior_as_it_is(model: LatentVariables) -> None:
    """Prior times likelihood to the power T, over states and emissions: two blocks and the tables keep it."""
    records = (records_of(model) * 2)[1:4]
    chain = coarse(planned(model, n=3).final_step.law, 6, 2)
    links = chain.structure.draw_state_probabilities(None, np.random.default_rng(1))
    sites = chain.structure.sites(evidence_of(model, records))
    logs = []
    for states, emissions in itertools.product(all_states(chain), emissions_of(chain)):
        total = 0.0
        if len(links) == 2:
            transition, first = links
            total = math.log(first[states[0]]) + sum(math.log(transition[a, b]) for a, b in itertools.pairwise(states))
        else:
            total = sum(math.log(links[0][z]) for z in states)
        for counts, shares in zip(sites.counts(states, 2), emissions, strict=True):
            total += float(T) * float((counts * np.log(shares / 6)).sum())
        logs.append(total)
    target = np.exp(np.array(logs) - max(logs))
    target /= target.sum()
    moved = target @ np.exp(kernel(model, chain, tuple(records), links))
    np.testing.assert_allclose(moved, target, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("model", [hmm(), mixture(sizes=(2, 3))], ids=["hmm", "mixture"])
def test_updates_are_drawn_from_their_laws(model: LatentVariables) -> None:
    """States of four sites, and emissions given states, against the enumerated laws (chi-square, false-fail 1e-9)."""
    many = isinstance(model, Hmm)  # a mixture has as many sites as records
    records, power = records_of(model)[:4], T
    if many:
        records, power = records[:1] * 40 + records[2:] * 10, Decimal("0.1")
    chain = coarse(planned(model, n=len(records)).final_step.law)
    sites = chain.structure.sites(evidence_of(model, records))
    (_, point) = points_of(chain, 2)
    k = chain.structure.n_states
    drawn = [chain.update_states(point, sites, power) for _ in range(800)]
    index = np.array(drawn) @ k ** np.arange(3, -1, -1)
    assert_follows(index, np.arange(k**4), np.exp(state_log_law(chain, point, sites, power)))
    rows = [list(row) for row in rows_of(chain.covers[0])]
    pairs = [chain.update_emissions(point.states, sites, power)[0].tolist() for _ in range(400)]
    law = np.exp(emission_log_law(chain, point.states, sites, power)).reshape(len(rows) ** 2, -1).sum(axis=1)
    assert_follows([rows.index(one) * len(rows) + rows.index(other) for one, other in pairs], np.arange(len(law)), law)


@pytest.mark.slow
def test_a_chain_recovers_the_hidden_states_at_a_large_epsilon() -> None:
    """Two states far apart: at a likelihood power of one the chain tells them apart, and numbers them by frequency."""
    model = hmm(sequences=3, steps=8, sizes=(2, 2))
    rng = np.random.default_rng(5)
    truth = np.array([[0] * 5 + [1] * 3] * 3)
    records = [
        (s, t, int(rng.random() < (0.1, 0.9)[truth[s, t]]), int(rng.random() < (0.9, 0.1)[truth[s, t]]))
        for s in range(3)
        for t in range(8)
        for _ in range(40)
    ]
    plan = planned(model, epsilon="1000", n=len(records), sweeps=40, draws=10)
    assert plan.parameters["likelihood_power"] == 1.0
    assert plan.guarantee.epsilon < 1000
    drawn = Gibbs().release(plan, evidence_of(model, records))
    assert len(drawn.values) == len(drawn.states) == 10
    for states in drawn.states:
        assert (np.array(states).reshape(3, 8) == truth).mean() >= 0.95
    means = np.array(drawn.values).mean(axis=0)
    np.testing.assert_allclose(means[:4], [0.9, 0.1, 0.1, 0.9], atol=0.05)


@pytest.mark.parametrize("kernel_name", ["gibbs", "annealed"])
@pytest.mark.parametrize("epsilon", ["0.5", "30", "1000"])
@pytest.mark.parametrize("model", [hmm(sizes=(2, 3, 3)), mixture(sizes=(2, 3))], ids=["hmm", "mixture"])
def test_the_budget_is_spent_and_never_exceeded(model: LatentVariables, epsilon: str, kernel_name: Any) -> None:
    """The costs of all updates that run add up to the charge at most, and nearly reach it."""
    plan = planned(model, epsilon=epsilon, n=500, kernel=kernel_name, sweeps=50)
    chain = require_type(plan.final_step.law, PrivateGibbs)
    need = sum(stage.sweeps * sum(costs(chain, stage.likelihood_power)) for stage in chain.stages)
    assert sum(stage.sweeps for stage in chain.stages) == plan.parameters["sweeps"] == 50
    assert need <= float(plan.guarantee.epsilon) <= float(epsilon)
    assert need >= float(plan.guarantee.epsilon) * (1 - 1e-5)
    parts = require_type(plan.guarantee, Composition).parts
    assert sum(getattr(part, "parts") for part in parts) == plan.parameters["updates"]  # noqa: B009
    assert plan.guarantee.rho < plan.guarantee.epsilon**2 / 8


def test_annealing_costs_about_half_and_more_of_the_last_sweeps_nothing() -> None:
    plain, annealed = (
        planned(hmm(), n=100, kernel=name).parameters["likelihood_power"] for name in ("gibbs", "annealed")
    )
    assert annealed / plain == pytest.approx(1 / 0.55, rel=1e-6)
    one, ten = planned(hmm(), sweeps=20), planned(hmm(), sweeps=20, draws=10)
    assert one.guarantee == ten.guarantee
    assert len(Gibbs().release(ten, evidence_of(hmm(), records_of(hmm())[:2])).values) == 10


def test_a_plan_shows_the_scale_of_laplace_noise() -> None:
    parameters = planned(hmm(sizes=(2, 2)), epsilon="0.5", n=100).parameters
    assert parameters["laplace_scale"] == pytest.approx(8.0)  # 2 F / epsilon
    assert "laplace_scale" not in planned(mixture(), n=100).parameters
    assert planned(COIN, IMPUTED, n=10, sweeps=5).parameters["laplace_scale"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("model", "changes", "words"),
    [
        (COIN, {"kernel": "metropolis"}, "probability 0"),
        (hmm(), {"kernel": "metropolis"}, "probability 0"),
        (hmm(), {"sweeps": 5, "draws": 6}, "sweeps"),
        (hmm(), {"sweeps": 50, "draws": 6, "kernel": "annealed"}, "full power"),
        (hmm(), {"epsilon": "1e-7"}, "rounding"),
        (hmm(), {"log_weight_epsilon": Decimal("0.1")}, "annealed"),
        (hmm(), {"log_weight_epsilon": Decimal(1), "kernel": "annealed"}, "leaves nothing"),
        (DirichletCategorical(("0", "1"), (1.0, 1.0)), {"sweeps": 2, "draws": 3}, "at least as many sweeps"),
    ],
)
def test_invalid_chains_are_refused(model: Model, changes: dict[str, Any], words: str) -> None:
    policy = COMPLETE if isinstance(model, LatentVariables) else IMPUTED
    with pytest.raises(SpecError, match=words):
        planned(model, policy, **changes)


def test_a_sweep_of_a_conjugate_model_is_a_draw_at_its_share() -> None:
    plan = planned(DirichletCategorical(("0", "1"), (1.0, 1.0)), IMPUTED, epsilon="2", n=100, sweeps=20)
    whole = planned(DirichletCategorical(("0", "1"), (1.0, 1.0)), IMPUTED, epsilon="0.1", n=100)
    assert plan.parameters["likelihood_power"] == pytest.approx(whole.parameters["likelihood_power"])
    assert plan.guarantee.epsilon == 2
    assert getattr(plan.guarantee, "parts") == 20  # noqa: B009
    assert len(Gibbs().release(plan, ExactEvidence((40, 60), 100)).values) == 1


WALKS: list[tuple[OneParameterFamily, tuple[float, float]]] = [
    (COIN, (0.1, 0.9)),
    (GammaPoisson(2, 2.0, 1.0), (0.5, 4.0)),
    (BetaGeometric(2, 2.0, 3.0), (0.1, 0.8)),
]


@pytest.mark.parametrize("power_applies_to", often(["likelihood", "joint"], 2))
@pytest.mark.parametrize(("model", "support"), WALKS, ids=["coin", "poisson", "geometric"])
def test_no_step_of_a_walk_exceeds_its_cost(
    model: OneParameterFamily, support: tuple[float, float], power_applies_to: Any
) -> None:
    """All neighbors of n <= 3, all pairs of cells in reach, both outcomes; the range is attained."""
    plan = planned(model, IMPUTED, n=3, kernel="barker", support=support, power_applies_to=power_applies_to)
    walk = require_type(plan.final_step.law, BarkerKernel)
    posterior = replace(walk.posterior, n_cells=12, likelihood_power=T)
    reach = 3
    cost = float(T * local_spread(posterior, reach))
    _, _, steps = model.grid
    widest = 0.0
    for n in (1, 3):
        small = replace(posterior, n_records=n)
        scores = {total: [small.exact_log([total])(cell) for cell in range(12)] for total in range(n * steps + 1)}
        for one, other in itertools.permutations(scores, 2):
            if abs(one - other) > steps:
                continue
            for i, j in itertools.permutations(range(12), 2):
                if abs(i - j) > reach:
                    continue
                laws = []
                for total in (one, other):
                    weights = list(map(Fraction, barker_weights(scores[total][i], scores[total][j])))
                    laws.append([weight / sum(weights) for weight in weights])
                ratios = [math.log(a / b) for a, b in zip(*laws, strict=True)]
                widest = max(widest, max(ratios) - min(ratios))
    assert cost * (1 - 1e-9) <= widest <= cost * (1 + 1e-12)


@pytest.mark.slow
def test_a_walk_stays_within_its_reach_and_follows_its_law() -> None:
    """Three steps on eight cells against the power of Barker's matrix, which keeps the tempered posterior."""
    plan = planned(COIN, IMPUTED, epsilon="20", n=6, kernel="barker", sweeps=3)
    walk = require_type(plan.final_step.law, BarkerKernel)
    walk = replace(walk, posterior=replace(walk.posterior, n_cells=8), reach=2)
    (stage,) = walk.stages
    score = replace(walk.posterior, likelihood_power=stage.likelihood_power).exact_log([4])
    logs = np.array([float(score(cell)) for cell in range(8)])
    matrix = np.zeros((8, 8))
    for i, j in itertools.product(range(8), repeat=2):
        if 0 < abs(i - j) <= 2:
            matrix[i, j] = 0.25 / (1.0 + math.exp(logs[i] - logs[j]))
    matrix += np.diag(1.0 - matrix.sum(axis=1))
    target = np.exp(logs - logs.max())
    np.testing.assert_allclose((target @ matrix) / target, 1.0)
    values = [walk.run(ExactEvidence((4,), 6), 1).values[0][0] for _ in range(2000)]
    cells = np.floor((np.array(values) - 0.1) / 0.8 * 8).astype(int)
    assert_follows(cells, np.arange(8), np.linalg.matrix_power(matrix, 3)[4])


def test_local_steps_are_cheaper_than_the_whole_range() -> None:
    plan = planned(COIN, IMPUTED, n=1000, kernel="barker")
    assert plan.parameters["range"] < 2 * math.log(9) / 5
    assert plan.parameters["updates"] == 200
    annealed = planned(COIN, IMPUTED, n=1000, kernel="annealed")
    drawn = Gibbs().release(annealed, ExactEvidence((400,), 1000))
    assert 0.1 < drawn.values[0][0] < 0.9
