"""Audits stay below what is claimed for every pair of model and mechanism, and see what is planted."""

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
from dpbayes_cli.audit.events import CONFIDENCE, best_event, bound, clopper_pearson, scores_of
from dpbayes_cli.audit.laws import RENYI_ORDERS, AddedNoise, Choices, lost
from dpbayes_cli.audit.repeats import ProcessDraws, compared, planned_release
from dpbayes_cli.base.errors import Interrupted, SpecError
from dpbayes_cli.core.losses import LogisticLoss
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.registry import mechanism_names, mechanism_type, model_names, model_type, serves
from dpbayes_cli.core.released import Draws
from dpbayes_cli.core.statistic import Statistics
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
from tests.asked import example_of
from tests.conftest import Cli
from tests.test_conformance import instances_of

PAIRS = [
    (mechanism, model)
    for mechanism in mechanism_names()
    for model in model_names()
    if serves(mechanism_type(mechanism), model_type(model))
]


def question(mechanism: str, model: str, **more: Any) -> ReleaseSpec:
    """A small question, whose records are complete where the mechanism needs that."""
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
        document["on_invalid"] = f"impute:{instance.asked(Neighbors.REPLACE_ONE, complete=True)[1].impute}"
    return build_spec({**document, **more})


def audited(mechanism: str, model: str, draws: int | None, **more: Any) -> Audit:
    return audit(question(mechanism, model, **more), draws=draws, processes=0)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the time at most, few data sets, and no other process."""
    monkeypatch.setattr(attack, "SECONDS", 20.0)
    monkeypatch.setattr(attack, "_DATA_SETS", 12)
    monkeypatch.setattr(attack, "_DRAWS", 1000)
    monkeypatch.setattr(repeats, "_MOST_ROWS", 1000)
    monkeypatch.setattr(attack, "PROCESSES", 0)


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "model"), PAIRS)
def test_every_pair_passes_an_audit_by_default(mechanism: str, model: str) -> None:
    """False-fail rate 1e-6 a pair, for the laws of draws and the events together."""
    start = time.monotonic()
    found = audit(question(mechanism, model))
    assert found.findings == []
    assert found.checks
    assert found.data_pairs
    assert found.claims or any("more than" in text for text in found.not_attacked), "a machine that is busy"
    assert time.monotonic() - start < 60.0


FEW = [("laplace", "beta-bernoulli"), ("ops", "dirichlet-categorical"), ("gibbs-posterior", "logistic-regression")]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("mechanism", "model"), FEW)
def test_an_audit_passes_and_sees_something(mechanism: str, model: str) -> None:
    """False-fail rate of the last line below 1e-6: at epsilon 4 an outcome is 50 times as likely as for a neighbor."""
    found = audited(mechanism, model, None, privacy={"epsilon": "4"})
    assert found.findings == []
    assert len(found.checks) >= 4
    assert any(check.name.startswith("draws of ") for check in found.checks)
    if mechanism == "laplace":
        assert found.claims[0].bound.epsilon > 0.0, "Laplace noise loses what it claims"


def test_probabilities_lie_within_their_bounds() -> None:
    """By the binomial tail itself: what is at the bound is as unlikely as is said."""
    from scipy.stats import binom

    alpha = (1.0 - CONFIDENCE) / 6.0
    for successes, n in ((0, 50), (50, 50), (7, 50), (4000, 10_000)):
        low, high = clopper_pearson(successes, n, 3)
        assert low == 0.0 if successes == 0 else binom.sf(successes - 1, n, low) == pytest.approx(alpha, rel=1e-6)
        assert high == 1.0 if successes == n else binom.cdf(successes, n, high) == pytest.approx(alpha, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_an_event_finds_what_laplace_noise_loses_and_never_more(epsilon: float) -> None:
    """Integer noise, 100 times: none proves more (false-fail rate 1e-4); on average most of it is found."""
    rng, found, law = np.random.default_rng(5), [], DiscreteLaplace(1.0 / epsilon)
    for _ in range(100):
        one, other = scores_of(*(shift + law.simulate(rng, (8000, 1)).astype(np.float64) for shift in (0.0, 1.0)))
        event = best_event(one[:4000], other[:4000])
        found.append(bound(event, one[4000:], other[4000:], 0.0, 1).epsilon)
    assert max(found) <= epsilon
    assert np.mean(found) > 0.55 * epsilon


def test_noise_in_floats_is_found_out() -> None:
    """The digits of a rounded sum tell what was added to what (Mironov 2012): why noise is drawn on integers."""
    rng, found = np.random.default_rng(5), 0.0
    for _ in range(20):
        one, other = scores_of(*(rng.laplace(shift, 2.0, (8000, 1)) for shift in (0.0, 1.0)))
        event = best_event(one[:4000], other[:4000])
        found = max(found, bound(event, one[4000:], other[4000:], 0.0, 20).epsilon)
    assert found > 0.5, "what real Laplace noise of scale 2 would lose"


def test_equal_laws_are_not_told_apart() -> None:
    rng = np.random.default_rng(6)
    one, other = scores_of(*(rng.normal(size=(4000, 3)) for _ in range(2)))
    assert bound(best_event(one[:2000], other[:2000]), one[2000:], other[2000:], 0.0, 1).epsilon < 0.02


def samples(law: DiscreteLaplace | DiscreteGaussian, *seeds: int) -> list[Check]:
    """The checks of noise on two components, 2000 times in each of some processes."""
    stream = AddedNoise(DiscreteLaplace(2.0), (5, 7)).stream()
    drawn = [law.simulate(np.random.default_rng(seed), (2000, 2)).astype(float) for seed in seeds]
    return list(compared([stream], [ProcessDraws((rows,), ()) for rows in drawn]))


def test_draws_follow_their_law_and_do_not_come_again() -> None:
    """Fixed seeds; of another seed a false alarm has probability 1e-10."""
    assert all(check.ok for check in samples(DiscreteLaplace(2.0), 1, 2))
    assert not all(check.ok for check in samples(DiscreteLaplace(2.3), 1, 2))
    (law, again) = samples(DiscreteLaplace(2.0), 1, 1)
    assert law.ok
    assert not again.ok


@pytest.mark.parametrize("law", [DiscreteLaplace(1e9), DiscreteGaussian(2.0)])
def test_noise_that_comes_again_shows_in_one_process(law: DiscreteLaplace | DiscreteGaussian) -> None:
    stream = AddedNoise(law, (0, 0)).stream()
    drawn = np.array([stream.again() for _ in range(1000)])
    for rows in (drawn, np.repeat(drawn[:1], 1000, axis=0), np.repeat(drawn[::2], 2, axis=0), drawn[:, [0, 0]]):
        (check,) = compared([stream], [ProcessDraws((rows,), ())])
        assert check.ok == (rows is drawn)


def test_a_loss_is_that_of_both_directions() -> None:
    """Two laws on two outcomes, in closed form, and two draws: what is lost adds up in each direction of its own."""
    p, q = np.array([[0.5, 0.5]]), np.array([[0.9, 0.1]])
    one, other = (Choices("a coin", np.log(masses), None) for masses in (p, q))
    loss = one.loss(other)
    assert [loss.up, loss.down] == pytest.approx([np.log(5.0), np.log(1.8)])
    assert loss.spread == pytest.approx(np.log(9.0))
    at_two = [np.log((p**2 / q).sum()), np.log((q**2 / p).sum())]
    two = RENYI_ORDERS.index(2.0)
    assert loss.renyi[:, two] == pytest.approx(at_two)
    there_and_back = lost([one, other], [other, one])
    assert there_and_back is not None
    assert there_and_back.renyi[:, two] == pytest.approx([sum(at_two)] * 2)
    assert replace(one, times=2).loss(replace(other, times=2)).spread == pytest.approx(2.0 * np.log(9.0))
    assert lost([one], [one, one]) is None


@pytest.mark.parametrize("law", [DiscreteLaplace(3.0), DiscreteGaussian(3.0), DiscreteGaussian(5000.0)])
def test_the_loss_of_noise_is_that_of_its_law(law: DiscreteLaplace | DiscreteGaussian) -> None:
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
    found = {evidence.values for star in stars for _, evidence in star.sets}
    assert found == {(a, b) for a in range(5) for b in range(5 - a)}
    assert all(len([*star.pairs(2), *star.pairs(1)]) == 3 for star in stars)


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, quick: None) -> pytest.MonkeyPatch:
    return monkeypatch


def test_halved_noise_is_seen_from_inside_and_from_outside(planted: pytest.MonkeyPatch) -> None:
    release = DiscreteLaplace.release
    planted.setattr(DiscreteLaplace, "release", lambda self, values: release(DiscreteLaplace(self.scale / 2), values))
    found = audited("laplace", "beta-bernoulli", 4000)
    assert any(text.startswith("draws of discrete-laplace noise") for text in found.findings)
    assert any("is proved, and at epsilon" in text for text in found.findings)
    assert found.claims[0].bound.epsilon > 0.5, "of the 2 that it loses; by the half of the draws that chose no event"


@pytest.mark.slow
def test_one_noise_for_all_components_is_seen(planted: pytest.MonkeyPatch) -> None:
    release = DiscreteLaplace.release

    def shared(self: DiscreteLaplace, values: Sequence[int]) -> list[int]:
        (z,) = release(self, [0])
        return [value + z for value in values]

    planted.setattr(DiscreteLaplace, "release", shared)
    assert any("is proved" in text for text in audited("laplace", "dirichlet-categorical", 2000).findings)


def test_a_count_that_no_witness_moves_is_noised_too(planted: pytest.MonkeyPatch) -> None:
    release = DiscreteLaplace.release
    planted.setattr(DiscreteLaplace, "release", lambda self, values: [*release(self, values[:-1]), values[-1]])
    more = {"domain": {"categories": ["a", "b", "c"]}}
    found = audited("laplace", "dirichlet-categorical", 1000, **more)
    assert any(text.startswith("draws of discrete-laplace noise") for text in found.findings)
    assert any("is proved" in text for text in found.findings)


def test_a_record_that_noise_does_not_hide_is_seen(planted: pytest.MonkeyPatch) -> None:
    """What gets out beside the draws differs between neighbors when their outcomes are dictated."""
    release = Ops.release

    def more(self: Ops, plan: Plan, evidence: Statistics) -> Draws:
        found = release(self, plan, evidence)
        return Draws(tuple((value + 1e-9 * evidence.values[0], *others) for value, *others in found.values))

    planted.setattr(Ops, "release", more)
    found = audited("ops", "dirichlet-categorical", 1000)
    assert any(text.startswith("what is released where all outcomes are dictated") for text in found.findings)


@pytest.mark.parametrize("model", [pytest.param("beta-bernoulli", marks=pytest.mark.slow), "dirichlet-categorical"])
def test_a_doubled_likelihood_power_is_seen_from_inside(planted: pytest.MonkeyPatch, model: str) -> None:
    """Of the law that is drawn from, whatever floats beside it say."""
    doubled: dict[str, tuple[type, str]] = {
        "beta-bernoulli": (ScalarSampler, "exact_log"),
        "dirichlet-categorical": (SimplexSampler, "lattice"),
    }
    kind, name = doubled[model]
    original = getattr(kind, name)
    planted.setattr(kind, name, lambda self, v: original(replace(self, likelihood_power=2 * self.likelihood_power), v))
    found = audited("ops", model, 1000)
    assert any(text.startswith("range of the log ratios") for text in found.findings)
    assert not any("is proved" in text for text in found.findings), "a black box does not show it"


@pytest.mark.slow
def test_a_halved_sensitivity_is_seen(planted: pytest.MonkeyPatch) -> None:
    statistic = BetaBernoulli.statistic
    planted.setattr(BetaBernoulli, "statistic", lambda self, policy: replace(statistic(self, policy), sensitivity_l1=1))
    found = audited("laplace", "beta-bernoulli", 2000)
    assert any(text.startswith("L1 sensitivity") for text in found.findings)
    assert any(text.startswith("largest log ratio") for text in found.findings)


@pytest.mark.slow
def test_a_gradient_that_is_too_long_is_seen(planted: pytest.MonkeyPatch) -> None:
    slope = LogisticLoss.slope
    planted.setattr(LogisticLoss, "slope", lambda self, t, y: 2.5 * slope(self, t, y))
    found = audited("gibbs-posterior", "logistic-regression", 1000, sampling={"n_steps": 3})
    assert any(text.startswith("difference of neighbors' gradients") for text in found.findings)


@pytest.mark.slow
def test_a_curve_at_other_orders_is_seen(planted: pytest.MonkeyPatch) -> None:
    price = renyi_posterior.renyi_bound
    planted.setattr(
        renyi_posterior, "renyi_bound", lambda family, order, r, m: price(family, 1.0 + 0.8 * (order - 1.0), r, m)
    )
    found = audited("rdp-direct", "beta-bernoulli", 1000)
    assert any(text.startswith("Renyi divergence of the exact laws") for text in found.findings)


def test_numbers_that_no_clamp_holds_are_seen(planted: pytest.MonkeyPatch) -> None:
    """Out of bounds by little they move too much, and by far they stop the engine: a message that tells of a record."""
    code = statements._code
    planted.setattr(statements, "_code", lambda *parts: code(*parts).replace("least(", "greatest("))
    found = audited("laplace", "normal", 1000)
    assert any(text.startswith("L1 sensitivity") for text in found.findings)
    assert any(text.startswith("reading of the made-up record") for text in found.findings)


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("epsilon", ["0.01", "1e-8"])
def test_small_divergences_are_not_lost_in_rounding(epsilon: str) -> None:
    """Conjugate laws of large parameters: what floats err by is no finding."""
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
        found = audited("laplace", "beta-bernoulli", 1000, privacy=privacy)
        assert found.findings == []
        assert found.checks[0].measured == ("6" if neighbors == "replace-one" else "3")


def test_the_shell_tells_what_was_found_and_what_it_does_not_prove(dpbayes: Cli, coin: Path, planted: Any) -> None:
    ask = ("--model", "beta-bernoulli", "--eps", "1")
    done = dpbayes("audit", *ask, "--trials", "1000")
    assert done.code == 0
    assert "epsilon claimed" in done.out
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


def test_an_interrupted_audit_says_what_is_true(dpbayes: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> Audit:
        raise Interrupted(2)

    monkeypatch.setattr(attack, "audit", interrupted)
    done = dpbayes("audit", "--model", "beta-bernoulli", "--eps", "1")
    assert done.code == 130
    assert "nothing was read, charged or released" in done.err
    assert "to finish a release" not in done.err


def test_what_has_no_price_is_refused() -> None:
    with pytest.raises(SpecError):
        audit(question("rdp-direct", "beta-bernoulli", privacy={"order": "50"}))
