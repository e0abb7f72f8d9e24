"""Priors from the shell: the default is printed, an earlier default is found again, and misfits are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import dpbayes_cli as dpb
from dpbayes_cli.ledger import charging, verified_chain
from dpbayes_cli.privacy.kinds import PureDP
from dpbayes_cli.spec.release_spec import build_spec
from dpbayes_cli.spec.stored_spec import digest_of_request, former_spec, in_full, stored_spec
from dpbayes_cli.workflow.prepare import ReleaseOptions
from tests.conftest import Cli

MEAN = ["--model", "normal-mean", "--lower", "20", "--upper", "100", "--variance", "100", "--eps", "1"]
NAIVE = ["--inference", "naive"]  # where the posterior does not matter
FORMER = ["--prior", "mean=0,variance=1", "--count-prior", "uniform"]
"""The default of version 1: a request that states it has the id that a request without a prior had."""
AGES = {"lower": 20, "upper": 100}


Earlier = Callable[[], AbstractContextManager[object]]


@pytest.fixture
def ages(place: Path) -> Path:
    path = place / "age.csv"
    path.write_text("age\n" + "50\n55\n60\n" * 100)
    return path


@pytest.mark.parametrize(
    ("model", "domain", "more", "request_digest"),
    [
        ("normal", AGES, {}, "e76d870a06c052d6"),
        ("normal-mean", {**AGES, "variance": 100}, {}, "d0cdf4bae1783339"),
        ("gamma-poisson", {"upper": 20}, {}, "06e8f435557a0bea"),
        ("gamma-exponential", {"upper": 20}, {}, "3f86f02069279950"),
        ("multivariate-normal", {"columns": {"a": {"lower": 0, "upper": 9}}}, {}, "b950947c4074997d"),
        ("gamma-poisson", {"upper": 20}, {"mechanism": "ops", "on_invalid": "impute:0",
                                          "sampling": {"support": ["0.1", "10"]}}, "0ffa73e5b5939338"),
        ("normal", None, {"bounds": {"private": {"epsilon": "0.1", "high": "100"}}}, "a67cbf0398fdeb20"),
    ],
)  # fmt: skip
def test_the_former_spec_has_the_id_that_the_request_had(
    model: str, domain: Any, more: dict[str, Any], request_digest: str
) -> None:
    """Digests were computed by 0.3.0."""
    stated = {"model": model, "privacy": {"epsilon": "1"}, **({"domain": domain} if domain else {}), **more}
    former = former_spec(stated, build_spec(stated))
    assert former is not None
    assert former.request_digest[:16] == request_digest != build_spec(stated).request_digest[:16]


@pytest.mark.parametrize("model", ["normal", "beta-geometric"])
def test_a_stored_spec_without_a_prior_of_the_number_of_valid_records_means_the_uniform_one(model: str) -> None:
    """Else bundles of earlier versions would be recomputed, and inferred again, under another prior."""
    stated = {"model": model, "domain": AGES if model == "normal" else {"upper": 20}, "privacy": {"epsilon": "1"}}
    spec = build_spec({**stated, "inference": {"count_prior": "uniform"}})
    stored = {**spec.stated_in_full, "inference": {**spec.stated_in_full["inference"]}}
    assert build_spec(stated).stated_in_full["inference"].pop("count_prior") == "mostly-valid"
    del stored["inference"]["count_prior"]
    assert stored_spec(stored) == spec
    assert in_full(stored, spec) == spec.stated_in_full
    assert digest_of_request(stored, spec) == spec.request_digest


@pytest.fixture
def earlier(monkeypatch: pytest.MonkeyPatch) -> Earlier:
    """Return a context in which the entries of the ledger are those of version 0.3, which had the former default."""

    @contextmanager
    def context() -> Iterator[None]:
        with monkeypatch.context() as patched:
            patched.setattr(verified_chain, "__version__", "0.3.0")
            yield

    return context


def test_what_was_released_under_the_former_default_is_shown_again(dpbayes: Cli, ages: Path, earlier: Earlier) -> None:
    with earlier():
        before = dpbayes("release", ages, *MEAN, *FORMER, "--out", "before", "--json").json
    again = dpbayes("release", ages, *MEAN, "--out", "again", "--json")
    assert (again.json["release_id"], again.json["replayed"]) == (before["release_id"], True)
    assert "prior mean 0, variance 1 (default of an earlier version)" in " ".join(again.err.split())
    assert again.json["remaining"] == {"epsilon": "2"}
    stated = {"model": "normal-mean", "domain": {**AGES, "variance": 100}, "privacy": {"epsilon": 1}}
    assert dpb.release(ages, stated, out="in Python").document.release_id == before["release_id"]
    fresh = dpbayes("release", ages, *MEAN, "--fresh", "--out", "fresh", "--json")
    mean = fresh.json["posterior"]["mean"]["mean"]
    assert 45 < mean < 65, "sd .7 around 55: false-fail rate 1e-9; under the former prior it is 41"
    assert "prior margin 0.02 (default)" in " ".join(fresh.err.split())
    dpbayes("release", ages, *MEAN, "--prior", "mean=60,variance=1600", "--out", "stated").exits(5, "another prior")


@pytest.mark.slow
def test_what_the_former_mechanism_released_is_shown_again(dpbayes: Cli, place: Path, earlier: Earlier) -> None:
    (place / "ill.csv").write_text("ill,dose\n" + "no,0.2\nyes,0.7\n" * 50)
    (place / "ill.yaml").write_text(
        'model: logistic-regression\ndomain:\n  target: {column: ill, values: ["no", "yes"]}\n'
        "  features: {dose: {lower: 0, upper: 1}}\nprivacy: {epsilon: 1, delta: 1e-6}\n"
    )
    request = ("release", "ill.csv", "--spec", "ill.yaml", "--json")
    with earlier():
        before = dpbayes(*request, "--mechanism", "gibbs-posterior", "--out", "before").json
    again = dpbayes(*request, "--out", "again")
    assert (again.json["release_id"], again.json["replayed"]) == (before["release_id"], True)
    assert "mechanism gibbs-posterior (default of an earlier version)" in " ".join(again.err.split())
    migrated = dpbayes("spec", "migrate", "ill.yaml").out
    assert migrated.splitlines()[:2] == ["model: logistic-regression", "mechanism: gibbs-posterior"]
    (place / "migrated.yaml").write_text(migrated)
    shown = dpbayes("release", "ill.csv", "--spec", "migrated.yaml", "--json", "--out", "migrated").json
    assert shown["release_id"] == before["release_id"]
    assert dpbayes(*request, "--release-id", "new", "--out", "new").json["mechanism"] == "noisy-newton"


def test_a_prior_that_was_stated_to_this_version_is_no_default(dpbayes: Cli, ages: Path) -> None:
    assert dpbayes("release", ages, *MEAN, *NAIVE, *FORMER, "--out", "before").code == 0
    dpbayes("release", ages, *MEAN, *NAIVE, "--out", "again").exits(
        5, "another prior, method or number of samples costs nothing"
    )
    fresh = dpbayes("release", ages, *MEAN, *NAIVE, "--fresh", "--out", "fresh")
    assert "prior margin 0.02 (default)" in fresh.err


def test_labels_and_today_come_first(dpbayes: Cli, ages: Path, earlier: Earlier) -> None:
    label = ["--release-id", "monthly"]
    with earlier():
        dpbayes("release", ages, *MEAN, *NAIVE, *FORMER, *label, "--out", "before")
    assert dpbayes("release", ages, *MEAN, *NAIVE, *label, "--out", "again", "--json").json["replayed"]
    today = dpbayes("release", ages, *MEAN, *NAIVE, "--out", "today", "--json").json
    assert not today["replayed"]
    assert dpbayes("release", ages, *MEAN, *NAIVE, "--out", "t2", "--json").json["release_id"] == today["release_id"]


def test_what_was_charged_under_the_former_default_is_finished_for_nothing(
    dpbayes: Cli, ages: Path, monkeypatch: pytest.MonkeyPatch, earlier: Earlier
) -> None:
    from dpbayes_cli.workflow import release as workflow

    with earlier(), monkeypatch.context() as patched:
        patched.setattr(workflow, "sealed_draw", lambda *_: (_ for _ in ()).throw(OSError("killed")))
        assert dpbayes("release", ages, *MEAN, *FORMER, "--out", "out").code != 0
    done = dpbayes("release", ages, *MEAN, "--out", "out", "--json")
    assert (done.code, done.json["remaining"]) == (0, {"epsilon": "2"})
    assert dpbayes("verify", "out").code == 0
    assert "- Prior: mean 0, variance 1 (default of an earlier version)" in Path("out/report.md").read_text()


def test_a_new_draw_at_another_cost_has_todays_default(
    dpbayes: Cli, ages: Path, monkeypatch: pytest.MonkeyPatch, earlier: Earlier
) -> None:
    """An earlier version charged a new draw at another cost, which this version cannot finish, and was killed."""
    charge = ReleaseOptions.charge
    with earlier(), monkeypatch.context() as patched:
        patched.setattr(ReleaseOptions, "charge", lambda *of: replace(charge(*of), guarantee=PureDP(Decimal("0.5"))))
        assert dpbayes("release", ages, *MEAN, *FORMER, "--fresh", "--out", "before").code == 5
    monkeypatch.setattr(charging, "is_running", lambda _owner: False)
    done = dpbayes("release", ages, *MEAN, "--fresh", "--out", "out", "--json")
    assert (done.code, done.json["remaining"]) == (0, {"epsilon": "1.5"})
    assert "prior margin 0.02 (default)" in done.err


def test_priors_and_posteriors_beyond_the_bounds_are_told(dpbayes: Cli, ages: Path) -> None:
    assert "warning" not in dpbayes("release", ages, *MEAN, "--out", "fits").err
    done = dpbayes("release", ages, *MEAN, *FORMER, "--fresh", "--out", "out", "-q")
    assert " ".join(done.err.split()).startswith(
        "warning: under the stated prior, the mean is inside the bounds, 20 to 100,"
    )
    assert "WARNING: the 90 % interval of the mean leaves the public bounds, 20 to 100" in done.out
    assert "the mean leaves the public bounds" in Path("out/report.md").read_text()
    assert "leaves the public bounds" in dpbayes("infer", "out").out
    assert "leaves" not in dpbayes("infer", "out", "--prior", "mean=60").out


def test_standard_deviations_that_the_noise_hides_are_told_before_the_charge(dpbayes: Cli, place: Path) -> None:
    (place / "two.csv").write_text("a,b\n" + "1,2\n3,5\n" * 200)
    bounds = '"lower": 0, "upper": 10'
    (place / "two.yaml").write_text(
        f'{{"model": "multivariate-normal", "domain": {{"columns": {{"a": {{{bounds}}}, "b": {{{bounds}}}}}}}, '
        '"privacy": {"epsilon": 1}}'
    )
    shown = dpbayes("release", "two.csv", "--spec", "two.yaml", "--dry-run")
    assert shown.code == 0
    assert "with 400 records, the noise can hide standard deviations below about 1.8 for a; 1.8 for b" in shown.err
    asked = ("release", "two.csv", "--spec", "two.yaml", "--inference", "naive")
    assert dpbayes(*asked).code == 0
    again = dpbayes(*asked)
    assert "warning:" not in again.err, "the result that is shown again has the warnings"
    assert "with 400 records, the noise can hide" in again.out
    plan = ["plan", "--spec", "two.yaml", "--trials", "2", "--records"]
    planned = " ".join(dpbayes(*plan, "4000").out.split())
    assert "with 4,000 records, the noise can hide standard deviations below about 0.56" in planned
    assert "hide" not in dpbayes(*plan, "100000").out
