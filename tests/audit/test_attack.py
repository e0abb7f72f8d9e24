"""An audit passes for every pair of model and mechanism, and finds planted bugs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbayes_cli.audit import attack, repeats
from dpbayes_cli.audit.attack import Audit, audit
from dpbayes_cli.audit.datasets import DataSets
from dpbayes_cli.audit.repeats import planned_release
from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.losses import LogisticLoss
from dpbayes_cli.core.registry import mechanism_names, mechanism_type, model_names, model_type, supports
from dpbayes_cli.core.released import Draws
from dpbayes_cli.mechanisms.ops import Ops
from dpbayes_cli.models.beta_bernoulli import BetaBernoulli
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.release_spec import ReleaseSpec, build_spec
from tests.conftest import seldom
from tests.plans import example_of
from tests.test_conformance import instances_of

PAIRS = [
    (mechanism, model)
    for mechanism in mechanism_names()
    for model in model_names()
    if supports(mechanism_type(mechanism), model_type(model))
]


def request(mechanism: str, model: str, **more: Any) -> ReleaseSpec:
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
    if mechanism == "gibbs-posterior":
        more["sampling"] = {"n_steps": 3}
    return audit(request(mechanism, model, **more), draws=draws, processes=0)


def shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let audits take a fraction of the time, few data sets, and no other process."""
    monkeypatch.setattr(attack, "SECONDS", 6.0)
    monkeypatch.setattr(attack, "_MAX_DATA_SETS", 12)
    monkeypatch.setattr(attack, "_MAX_DRAWS", 1000)
    monkeypatch.setattr(repeats, "_MAX_ROWS", 1000)
    monkeypatch.setattr(attack, "PROCESSES", 0)


quick = pytest.fixture(name="quick")(shorten)


@pytest.mark.parametrize(("mechanism", "model"), seldom(PAIRS, 2))
def test_every_pair_passes_an_audit_by_default(mechanism: str, model: str) -> None:
    """False-fail rate 1e-6 a pair, for the laws of draws and the events together."""
    result = audit(request(mechanism, model))
    assert result.findings == []
    assert result.checks
    assert result.data_pairs
    assert result.claims or any("more than" in text for text in result.not_attacked), "a machine that is busy"


FEW = [("laplace", "beta-bernoulli"), ("ops", "dirichlet-categorical")]


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


@pytest.mark.usefixtures("quick")
def test_an_audit_of_noise_at_a_cost_of_mu_compares_it_with_its_law() -> None:
    result = audit(request("gaussian", "beta-bernoulli", privacy={"rho": None, "mu": "1.5"}), draws=None, processes=0)
    assert result.findings == []
    assert any(check.name.startswith("draws of rounded-gaussian noise") for check in result.checks)


def test_all_neighbors_of_a_small_domain_are_enumerated(tmp_path: Path) -> None:
    """Coins of 4 records: 0, 1 and none make 15 data sets, and 3 neighbors of each of 10 triples."""
    sets = DataSets(planned_release(request("laplace", "beta-bernoulli"), 4), 4, tmp_path)
    assert sets.n_kinds == 3
    assert len(sets.bases()) == sets.all_bases == 10
    stars = [sets.star(base) for base in sets.bases()]
    data_sets = {evidence.values for star in stars for _, evidence in star.sets}
    assert data_sets == {(a, b) for a in range(5) for b in range(5 - a)}
    assert all(len([*star.pairs(2), *star.pairs(1)]) == 3 for star in stars)


def halve_noise(release: Any) -> Any:
    return lambda self, values: release(DiscreteLaplace(self.scale / 2), values)


def share_noise(release: Any) -> Any:
    return lambda self, values: [value + noise for noise in release(self, [0]) for value in values]


def leak_a_count(release: Any) -> Any:
    def more(self: Any, plan: Any, evidence: Any) -> Draws:
        draws = release(self, plan, evidence)
        return Draws(tuple((value + 1e-9 * evidence.values[0], *others) for value, *others in draws.values))

    return more


def halve_sensitivity(statistic: Any) -> Any:
    return lambda self, policy: replace(statistic(self, policy), sensitivity_l1=1)


def lengthen_gradients(slope: Any) -> Any:
    return lambda self, t, y: 2.5 * slope(self, t, y)


def forget_the_upper_clamp(codes: Any) -> Any:
    def unclamped(column: NumericColumn, numbers: Any) -> Any:
        nearest = (np.maximum(numbers, column.lower) - column.lower) / column.step
        return np.array([round(code) for code in nearest], dtype=np.int32).astype(np.int64), codes(column, numbers)[1]

    return unclamped


NOISE, BLACK_BOX = "draws of discrete-laplace noise", "but epsilon is at least"
COIN = ("laplace", "beta-bernoulli", 4000)
BUGS: list[tuple[Any, str, Callable[[Any], Any], tuple[str, str, int], list[str], bool]] = [
    (DiscreteLaplace, "release", halve_noise, COIN, [NOISE, BLACK_BOX], False),
    (DiscreteLaplace, "release", share_noise, ("laplace", "beta-bernoulli", 16_000), [BLACK_BOX], False),
    (Ops, "release", leak_a_count, ("ops", "dirichlet-categorical", 1000),
     ["released values, given the random draws"], True),
    (BetaBernoulli, "statistic", halve_sensitivity, COIN, ["L1 sensitivity", "largest log ratio"], False),
    (LogisticLoss, "slope", lengthen_gradients, ("gibbs-posterior", "logistic-regression", 1000),
     ["difference of neighbors' gradients"], False),
    # slightly out of bounds, numbers change too much; far out, they stop the reading, which reveals a record
    (NumericColumn, "codes", forget_the_upper_clamp, ("laplace", "normal", 1000),
     ["L1 sensitivity", "reading of the made-up record"], True),
]  # fmt: skip


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("owner", "name", "change", "of", "findings"),
    [pytest.param(*bug, id=bug[2].__name__, marks=[] if often else [pytest.mark.slow]) for *bug, often in BUGS],
)
def test_an_audit_finds(
    owner: Any, name: str, change: Callable[[Any], Any], of: tuple[str, str, int], findings: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(owner, name, change(getattr(owner, name)))
    result = audited(*of)
    for finding in findings:
        assert any(finding in text for text in result.findings), result.findings
    if change is halve_noise:
        assert result.claims[0].bound.epsilon > 0.5, "of the 2 that it loses; by the half that chose no event"


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("epsilon", ["0.01", "1e-8"])
def test_rounding_of_small_divergences_is_not_a_finding(epsilon: str) -> None:
    """Conjugate laws with large parameters: the float error is not a finding."""
    more: dict[str, Any] = {"privacy": {"epsilon": epsilon, "order": "2"}, "prior": {"alpha": 6, "beta": 12}}
    assert audited("rdp-concentrated", "beta-bernoulli", 1000, **more).findings == []


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_units_and_both_relations_are_audited() -> None:
    for neighbors, sensitivity in (("replace-one", "6"), ("add-remove", "3")):
        privacy = {"epsilon": "1", "neighbors": neighbors, "unit": {"column": "who", "max_contributions": 3}}
        result = audited("laplace", "beta-bernoulli", 1000, privacy=privacy)
        assert result.findings == []
        assert result.checks[0].measured == sensitivity
    only_column = {"epsilon": "1", "unit": {"column": "x"}}
    assert audited("laplace", "beta-bernoulli", 1000, privacy=only_column).findings == []


def test_a_request_without_privacy_cost_is_refused() -> None:
    with pytest.raises(SpecError):
        audit(request("rdp-direct", "beta-bernoulli", privacy={"order": "50"}))
