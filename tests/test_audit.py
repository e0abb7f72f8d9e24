"""An audit passes for every pair of model and mechanism, and finds planted bugs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbayes_cli.audit import attack, repeats
from dpbayes_cli.audit.attack import Audit, audit
from dpbayes_cli.audit.checks import Check
from dpbayes_cli.audit.datasets import DataSets
from dpbayes_cli.audit.events import CONFIDENCE, best_event, bound_loss, clopper_pearson, event_scores
from dpbayes_cli.audit.laws import RENYI_ORDERS, AddedNoise, Choices, privacy_loss
from dpbayes_cli.audit.repeats import ProcessDraws, compare_draws, planned_release
from dpbayes_cli.base.errors import Interrupted, SpecError
from dpbayes_cli.core.losses import LogisticLoss
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.registry import mechanism_names, mechanism_type, model_names, model_type, supports
from dpbayes_cli.core.released import Draws
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.mechanisms.ops import Ops
from dpbayes_cli.mechanisms.samplers import renyi_posterior
from dpbayes_cli.mechanisms.samplers.scalar_sampler import ScalarSampler
from dpbayes_cli.mechanisms.samplers.simplex_sampler import SimplexSampler
from dpbayes_cli.models.beta_bernoulli import BetaBernoulli
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources import statements
from dpbayes_cli.spec.release_spec import ReleaseSpec, build_spec
from tests.conftest import Cli
from tests.plans import example_of
from tests.test_conformance import instances_of

PAIRS = [
    (mechanism, model)
    for mechanism in mechanism_names()
    for model in model_names()
    if supports(mechanism_type(mechanism), model_type(model))
]


def question(mechanism: str, model: str, **more: Any) -> ReleaseSpec:
    """Return a small request, with complete records if the mechanism needs them."""
    asked, kind = mechanism_type(mechanism), model_type(model)
    instance = next(each for each in instances_of(kind) if each.example.drawn)
    example, complete = instance.example, asked.needs_n
    own = complete and example.complete is not None
    document: dict[str, Any] = {"model": model, "mechanism": mechanism, "prior": example.prior}
    document["domain"] = more.pop("domain", example.complete if own else example.domain)
    stated = example_of(asked, kind)
    document["privacy"] = {**stated["privacy"], **more.pop("privacy", {})}
    if not asked.post_processing:
        document["sampling"] = {**stated.get("sampling", {}), "draws": 1}
        if example.support is not None and "support" in asked.options_for(kind).__struct_fields__:
            document["sampling"]["support"] = example.support
    if complete and not own:
        document["on_invalid"] = f"impute:{instance.model_and_policy(Neighbors.REPLACE_ONE, complete=True)[1].impute}"
    return build_spec({**document, **more})


def audited(mechanism: str, model: str, draws: int | None, **more: Any) -> Audit:
    return audit(question(mechanism, model, **more), draws=draws, processes=0)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most half of the time, few data sets, and no other process."""
    monkeypatch.setattr(attack, "SECONDS", 20.0)
    monkeypatch.setattr(attack, "_MAX_DATA_SETS", 12)
    monkeypatch.setattr(attack, "_MAX_DRAWS", 1000)
    monkeypatch.setattr(repeats, "_MAX_ROWS", 1000)
    monkeypatch.setattr(attack, "PROCESSES", 0)


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "model"), PAIRS)
def test_every_pair_passes_an_audit_by_default(mechanism: str, model: str) -> None:
    """False-fail rate 1e-6 a pair, for the laws of draws and the events together."""
    start = time.monotonic()
    result = audit(question(mechanism, model))
    assert result.findings == []
    assert result.checks
    assert result.data_pairs
    assert result.claims or any("more than" in text for text in result.not_attacked), "a machine that is busy"
    assert time.monotonic() - start < 60.0


FEW = [("laplace", "beta-bernoulli"), ("ops", "dirichlet-categorical"), ("gibbs-posterior", "logistic-regression")]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("mechanism", "model"), FEW)
def test_an_audit_passes_and_compares_something(mechanism: str, model: str) -> None:
    """False-fail rate of the last line below 1e-6: at epsilon 4 an outcome is 50 times as likely as for a neighbor."""
    result = audited(mechanism, model, None, privacy={"epsilon": "4"})
    assert result.findings == []
    assert len(result.checks) >= 4
    assert any(check.name.startswith("draws of ") for check in result.checks)
    if mechanism == "laplace":
        assert result.claims[0].bound.epsilon > 0.0, "Laplace noise loses what it claims"


def test_probabilities_lie_within_their_bounds() -> None:
    """Compared with the binomial tail itself, which has the stated probability at the bound."""
    from scipy.stats import binom

    alpha = (1.0 - CONFIDENCE) / 6.0
    for successes, n in ((0, 50), (50, 50), (7, 50), (4000, 10_000)):
        low, high = clopper_pearson(successes, n, 3)
        assert low == 0.0 if successes == 0 else binom.sf(successes - 1, n, low) == pytest.approx(alpha, rel=1e-6)
        assert high == 1.0 if successes == n else binom.cdf(successes, n, high) == pytest.approx(alpha, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_an_event_bounds_the_loss_of_laplace_noise_from_below(epsilon: float) -> None:
    """With integer noise, 100 times: no bound exceeds the loss (false-fail rate 1e-4); the mean is above half of it."""
    rng, bounds, law = np.random.default_rng(5), [], DiscreteLaplace(1.0 / epsilon)
    for _ in range(100):
        one, other = event_scores(*(shift + law.simulate(rng, (8000, 1)).astype(np.float64) for shift in (0.0, 1.0)))
        event = best_event(one[:4000], other[:4000])
        bounds.append(bound_loss(event, one[4000:], other[4000:], 0.0, 1).epsilon)
    assert max(bounds) <= epsilon
    assert np.mean(bounds) > 0.55 * epsilon


def test_an_event_reveals_noise_that_was_added_in_floats() -> None:
    """The digits of a rounded sum reveal its terms (Mironov 2012): this is why noise is drawn on integers."""
    rng, largest = np.random.default_rng(5), 0.0
    for _ in range(20):
        one, other = event_scores(*(rng.laplace(shift, 2.0, (8000, 1)) for shift in (0.0, 1.0)))
        event = best_event(one[:4000], other[:4000])
        largest = max(largest, bound_loss(event, one[4000:], other[4000:], 0.0, 20).epsilon)
    assert largest > 0.5, "the loss of exact Laplace noise of scale 2"


def test_an_event_does_not_separate_equal_laws() -> None:
    rng = np.random.default_rng(6)
    one, other = event_scores(*(rng.normal(size=(4000, 3)) for _ in range(2)))
    assert bound_loss(best_event(one[:2000], other[:2000]), one[2000:], other[2000:], 0.0, 1).epsilon < 0.02


def samples(law: DiscreteLaplace | DiscreteGaussian, *seeds: int) -> list[Check]:
    """The checks of noise on two components, 2000 times in each of some processes."""
    stream = AddedNoise(DiscreteLaplace(2.0), (5, 7)).stream()
    drawn = [law.simulate(np.random.default_rng(seed), (2000, 2)).astype(float) for seed in seeds]
    return list(compare_draws([stream], [ProcessDraws((rows,), ()) for rows in drawn]))


def test_draws_follow_their_law_and_do_not_repeat() -> None:
    """Fixed seeds; with another seed, a false alarm has probability 1e-10."""
    assert all(check.ok for check in samples(DiscreteLaplace(2.0), 1, 2))
    assert not all(check.ok for check in samples(DiscreteLaplace(2.3), 1, 2))
    (law, again) = samples(DiscreteLaplace(2.0), 1, 1)
    assert law.ok
    assert not again.ok


@pytest.mark.parametrize("law", [DiscreteLaplace(1e9), DiscreteGaussian(2.0)])
def test_repeated_noise_is_found_in_one_process(law: DiscreteLaplace | DiscreteGaussian) -> None:
    stream = AddedNoise(law, (0, 0)).stream()
    drawn = np.array([stream.again() for _ in range(1000)])
    for rows in (drawn, np.repeat(drawn[:1], 1000, axis=0), np.repeat(drawn[::2], 2, axis=0), drawn[:, [0, 0]]):
        (check,) = compare_draws([stream], [ProcessDraws((rows,), ())])
        assert check.ok == (rows is drawn)


def test_a_privacy_loss_has_both_directions() -> None:
    """Two laws on two outcomes, in closed form, and two draws: the losses add up in each direction separately."""
    p, q = np.array([[0.5, 0.5]]), np.array([[0.9, 0.1]])
    one, other = (Choices("a coin", np.log(masses), None) for masses in (p, q))
    loss = one.loss(other)
    assert [loss.up, loss.down] == pytest.approx([np.log(5.0), np.log(1.8)])
    assert loss.spread == pytest.approx(np.log(9.0))
    at_two = [np.log((p**2 / q).sum()), np.log((q**2 / p).sum())]
    two = RENYI_ORDERS.index(2.0)
    assert loss.renyi[:, two] == pytest.approx(at_two)
    there_and_back = privacy_loss([one, other], [other, one])
    assert there_and_back is not None
    assert there_and_back.renyi[:, two] == pytest.approx([sum(at_two)] * 2)
    assert replace(one, times=2).loss(replace(other, times=2)).spread == pytest.approx(2.0 * np.log(9.0))
    assert privacy_loss([one], [one, one]) is None


@pytest.mark.parametrize("law", [DiscreteLaplace(3.0), DiscreteGaussian(3.0), DiscreteGaussian(5000.0)])
def test_the_privacy_loss_of_noise_is_exact(law: DiscreteLaplace | DiscreteGaussian) -> None:
    loss = AddedNoise(law, (0, 0)).loss(AddedNoise(law, (2, -1)))
    if isinstance(law, DiscreteLaplace):
        assert loss.up == loss.down == pytest.approx(1.0)
    else:
        low = [order for order in RENYI_ORDERS if order <= 32]  # larger ones look farther out than masses are known
        assert loss.renyi[0, : len(low)] == pytest.approx(np.array(low) * 5.0 / (2.0 * law.scale**2), rel=1e-6)


def test_all_neighbors_of_a_small_domain_are_enumerated(tmp_path: Path) -> None:
    """Coins of 4 records: 0, 1 and none make 15 data sets, and 3 neighbors of each of 10 triples."""
    sets = DataSets(planned_release(question("laplace", "beta-bernoulli"), 4), 4, tmp_path)
    assert sets.n_kinds == 3
    assert len(sets.bases()) == sets.all_bases == 10
    stars = [sets.star(base) for base in sets.bases()]
    data_sets = {evidence.values for star in stars for _, evidence in star.sets}
    assert data_sets == {(a, b) for a in range(5) for b in range(5 - a)}
    assert all(len([*star.pairs(2), *star.pairs(1)]) == 3 for star in stars)


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, quick: None) -> pytest.MonkeyPatch:
    return monkeypatch


def test_an_audit_finds_halved_noise_in_laws_and_in_releases(planted: pytest.MonkeyPatch) -> None:
    release = DiscreteLaplace.release
    planted.setattr(DiscreteLaplace, "release", lambda self, values: release(DiscreteLaplace(self.scale / 2), values))
    result = audited("laplace", "beta-bernoulli", 4000)
    assert any(text.startswith("draws of discrete-laplace noise") for text in result.findings)
    assert any("but epsilon is at least" in text for text in result.findings)
    assert result.claims[0].bound.epsilon > 0.5, "of the 2 that it loses; by the half of the draws that chose no event"


@pytest.mark.slow
def test_an_audit_finds_one_noise_for_all_components(planted: pytest.MonkeyPatch) -> None:
    release = DiscreteLaplace.release

    def shared(self: DiscreteLaplace, values: Sequence[int]) -> list[int]:
        (z,) = release(self, [0])
        return [value + z for value in values]

    planted.setattr(DiscreteLaplace, "release", shared)
    assert any("but epsilon is at least" in text for text in audited("laplace", "dirichlet-categorical", 2000).findings)


def test_an_audit_finds_a_count_without_noise(planted: pytest.MonkeyPatch) -> None:
    release = DiscreteLaplace.release
    planted.setattr(DiscreteLaplace, "release", lambda self, values: [*release(self, values[:-1]), values[-1]])
    more = {"domain": {"categories": ["a", "b", "c"]}}
    result = audited("laplace", "dirichlet-categorical", 1000, **more)
    assert any(text.startswith("draws of discrete-laplace noise") for text in result.findings)
    assert any("but epsilon is at least" in text for text in result.findings)


def test_an_audit_finds_a_record_in_the_released_values(planted: pytest.MonkeyPatch) -> None:
    """The released values differ between neighbors although the outcomes of the draws are dictated."""
    release = Ops.release

    def more(self: Ops, plan: Plan, evidence: ExactEvidence) -> Draws:
        draws = release(self, plan, evidence)
        return Draws(tuple((value + 1e-9 * evidence.values[0], *others) for value, *others in draws.values))

    planted.setattr(Ops, "release", more)
    result = audited("ops", "dirichlet-categorical", 1000)
    assert any(text.startswith("released values under dictated outcomes") for text in result.findings)


@pytest.mark.parametrize("model", [pytest.param("beta-bernoulli", marks=pytest.mark.slow), "dirichlet-categorical"])
def test_an_audit_finds_a_doubled_likelihood_power_in_the_laws(planted: pytest.MonkeyPatch, model: str) -> None:
    """The bug is in the exact law of the draws, not in its float copy."""
    doubled: dict[str, tuple[type, str]] = {
        "beta-bernoulli": (ScalarSampler, "exact_log"),
        "dirichlet-categorical": (SimplexSampler, "lattice"),
    }
    kind, name = doubled[model]
    original = getattr(kind, name)
    planted.setattr(kind, name, lambda self, v: original(replace(self, likelihood_power=2 * self.likelihood_power), v))
    result = audited("ops", model, 1000)
    assert any(text.startswith("range of the log ratios") for text in result.findings)
    assert not any("but epsilon is at least" in text for text in result.findings), "a black box does not show it"


@pytest.mark.slow
def test_an_audit_finds_a_halved_sensitivity(planted: pytest.MonkeyPatch) -> None:
    statistic = BetaBernoulli.statistic
    planted.setattr(BetaBernoulli, "statistic", lambda self, policy: replace(statistic(self, policy), sensitivity_l1=1))
    result = audited("laplace", "beta-bernoulli", 2000)
    assert any(text.startswith("L1 sensitivity") for text in result.findings)
    assert any(text.startswith("largest log ratio") for text in result.findings)


@pytest.mark.slow
def test_an_audit_finds_a_gradient_that_is_too_long(planted: pytest.MonkeyPatch) -> None:
    slope = LogisticLoss.slope
    planted.setattr(LogisticLoss, "slope", lambda self, t, y: 2.5 * slope(self, t, y))
    result = audited("gibbs-posterior", "logistic-regression", 1000, sampling={"n_steps": 3})
    assert any(text.startswith("difference of neighbors' gradients") for text in result.findings)


@pytest.mark.slow
def test_an_audit_finds_a_renyi_curve_at_other_orders(planted: pytest.MonkeyPatch) -> None:
    price = renyi_posterior.renyi_bound
    planted.setattr(
        renyi_posterior, "renyi_bound", lambda family, order, r, m: price(family, 1.0 + 0.8 * (order - 1.0), r, m)
    )
    result = audited("rdp-direct", "beta-bernoulli", 1000)
    assert any(text.startswith("Renyi divergence of the exact laws") for text in result.findings)


def test_an_audit_finds_numbers_without_a_clamp(planted: pytest.MonkeyPatch) -> None:
    """Slightly out of bounds they change too much; far out they stop the engine, which reveals a record."""
    code = statements._code
    planted.setattr(statements, "_code", lambda *parts: code(*parts).replace("least(", "greatest("))
    result = audited("laplace", "normal", 1000)
    assert any(text.startswith("L1 sensitivity") for text in result.findings)
    assert any(text.startswith("reading of the made-up record") for text in result.findings)


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("epsilon", ["0.01", "1e-8"])
def test_rounding_of_small_divergences_is_not_a_finding(epsilon: str) -> None:
    """Conjugate laws with large parameters: the float error is not a finding."""
    more: dict[str, Any] = {"privacy": {"epsilon": epsilon, "order": "2"}, "prior": {"alpha": 6, "beta": 12}}
    assert audited("rdp-concentrated", "beta-bernoulli", 1000, **more).findings == []


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_a_unit_may_be_the_only_column() -> None:
    assert audited("laplace", "beta-bernoulli", 1000, privacy={"epsilon": "1", "unit": {"column": "x"}}).findings == []


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_units_and_both_relations_are_audited() -> None:
    for neighbors in ("replace-one", "add-remove"):
        privacy = {"epsilon": "1", "neighbors": neighbors, "unit": {"column": "who", "max_contributions": 3}}
        result = audited("laplace", "beta-bernoulli", 1000, privacy=privacy)
        assert result.findings == []
        assert result.checks[0].measured == ("6" if neighbors == "replace-one" else "3")


def test_the_audit_command_reports_its_result_and_what_it_does_not_prove(
    dpbayes: Cli, coin: Path, planted: Any
) -> None:
    ask = ("--model", "beta-bernoulli", "--eps", "1")
    done = dpbayes("audit", *ask, "--trials", "1000")
    assert done.code == 0
    assert "claimed epsilon" in done.out
    assert "Passing does not prove the guarantee" in done.err
    assert dpbayes("audit", *ask, "--records", "1").code == 2
    assert dpbayes("release", coin, *ask, "--out", "out").code == 0
    of_bundle = dpbayes("audit", "--bundle", "out", "--trials", "1000", "--json").json
    assert of_bundle["ok"]
    assert of_bundle["attacked"]["pairs_of_data_sets"] > 5
    assert any("fresh processes" in text for text in of_bundle["not_attacked"])
    assert (of_bundle["model"], of_bundle["guarantee"]) == ("beta-bernoulli", {"kind": "pure", "epsilon": "1"})
    assert dpbayes("audit", "--bundle", "out", "--eps", "2").code == 2
    report = Path("out/report.md")
    report.write_text(report.read_text() + "x")
    assert dpbayes("audit", "--bundle", "out").code == 7
    release = DiscreteLaplace.release
    planted.setattr(DiscreteLaplace, "release", lambda self, values: release(DiscreteLaplace(self.scale / 4), values))
    failed = dpbayes("audit", *ask, "--trials", "2000", "--json")
    assert failed.code == 7
    assert not json.loads(failed.out)["ok"]
    assert "the audit disproves the guarantee" in failed.err


def test_an_interrupted_audit_reports_that_nothing_was_charged(dpbayes: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> Audit:
        raise Interrupted(2)

    monkeypatch.setattr(attack, "audit", interrupted)
    done = dpbayes("audit", "--model", "beta-bernoulli", "--eps", "1")
    assert done.code == 130
    assert "nothing was read, charged or released" in done.err
    assert "to finish it" not in done.err


def test_what_has_no_price_is_refused() -> None:
    with pytest.raises(SpecError):
        audit(question("rdp-direct", "beta-bernoulli", privacy={"order": "50"}))
