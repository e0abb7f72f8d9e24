"""Groups whose keys are found in the data: what is published, what no file holds, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpbayes_cli as dpb
from dpbayes_cli.bundle.files import found_keys
from tests.conftest import Cli, files_of

ASKED = (
    *("--model", "beta-bernoulli", "--success", "yes", "--failure", "no", "--column", "back"),
    *("--by", "city", "--groups", "private", "--eps", "2"),
)
LARGE, SMALL = [f"large town {i}" for i in range(12)], [f"village {i}" for i in range(12)]
ODD = ["a" * 129, "bell\u0007", "tab\tinside", "line\u2028", " ", "", "\ufeff"]


@pytest.fixture
def visits(place: Path) -> None:
    """Write a table: large towns with 60 rows, villages with one row, and rows whose key is no key."""
    rng = np.random.default_rng(3)
    rows = [f"{key},{'yes' if rng.random() < 0.4 else 'no'}" for key in LARGE for _ in range(60)]
    rows += [f"{key},yes" for key in SMALL] + [f"{key},no" for key in ODD for _ in range(60)]
    rows += [f"{key},no" for key in (" 07 ", "7", "+7.0") for _ in range(20)] + ["only invalid,?"] * 60
    rng.shuffle(rows)
    (place / "visits.csv").write_text("\n".join(["city,back", *rows]) + "\n")


@pytest.mark.usefixtures("without_figures")
def test_keys_are_published_if_they_have_enough_records(
    dpbayes: Cli, visits: None, place: Path, ledger_path: Path
) -> None:
    """A town with 60 rows is missing, or a village with one row is published, with a probability below 1e-5."""
    assert visits is None
    dpbayes("release", "visits.csv", *ASKED, "--out", "out").exits(3, "privacy.delta", "--delta 1e-6")
    asked = (*ASKED, "--delta", "1e-6", "--pooling", "none")
    shown = dpbayes("release", "visits.csv", *asked, "--out", "out")
    shown.exits(0, "total of epsilon 3, delta 0.00001", "charged epsilon 2, delta 0.000001")
    document = json.loads((place / "out" / "release.json").read_text())
    keys, threshold = document["groups"]["keys"], document["parameters"]["key_threshold"]
    assert keys == sorted([*LARGE, "7"])
    counts = np.array(document["groups"]["values"]).reshape(len(keys), 2)
    assert (counts.sum(axis=1) >= threshold).all()
    assert f"a group with fewer than about {threshold} records is likely missing" in shown.out
    assert "Of 13 groups, " in shown.out
    report = dpbayes("report", "out", "--format", "html").out
    assert "keys that are found in the data, the column" in report
    ledger = [path.read_bytes() for path in ledger_path.parent.glob("ledger*")]
    for content in (*files_of("out").values(), *ledger, report.encode()):
        assert not any(key.encode() in content for key in (*SMALL, *ODD[:4], "only invalid"))
    dpbayes("verify", "out").exits(0)
    assert dpbayes("release", "visits.csv", *asked, "--out", "out", "--json").json["replayed"] is True
    pooled = dpbayes("infer", "out", "--pooling", "partial", "--json").json
    assert pooled["posterior"]["records"]["mean"] > 0
    tampered = json.loads(json.dumps(document))
    tampered["groups"]["values"][0] -= int(counts[0].sum()) - threshold + 1
    (place / "out" / "release.json").write_text(json.dumps(tampered, indent=2) + "\n")
    dpbayes("verify", "out").exits(7, "a key is published although its noisy number of records is below the threshold")
    tampered = {**document, "groups": {**document["groups"], "keys": keys[::-1]}}
    (place / "out" / "release.json").write_text(json.dumps(tampered, indent=2) + "\n")
    dpbayes("verify", "out").exits(7, "the keys are not sorted")


def test_a_release_may_publish_no_key(dpbayes: Cli, visits: None, place: Path) -> None:
    """One of the towns is published with a probability below 1e-9."""
    assert visits is None
    asked = (*ASKED[:-1], "0.05", "--delta", "1e-9")
    shown = dpbayes("release", "visits.csv", *asked, "--out", "out")
    shown.exits(0)
    assert "no key has enough records to be published" in shown.out
    assert (place / "out" / "statistics.csv").read_text() == "city,yes,no\n"
    dpbayes("verify", "out").exits(0)
    assert "no key has enough records" in dpbayes("report", "out", "--format", "html").out
    dpbayes("infer", "out", "--pooling", "none").exits(0)


@pytest.mark.parametrize(
    ("model", "privacy"),
    [
        ({"model": "normal-mean", "domain": {"lower": 0, "upper": 10, "variance": 4}}, {"epsilon": 3, "delta": 1e-5}),
        ({"model": "gamma-poisson", "domain": {"upper": 9}}, {"rho": 0.05, "delta": 1e-5, "neighbors": "add-remove"}),
    ],
)
@pytest.mark.slow
def test_sums_are_published_by_their_number_of_records(
    dpbayes: Cli, place: Path, model: dict[str, Any], privacy: dict[str, Any]
) -> None:
    """Groups of 200 rows are missing, or one of three rows is published, with a probability below 1e-6."""
    rng = np.random.default_rng(8)
    rows = [f"{key},{rng.poisson(3)}" for key in "abcdef" for _ in range(200)] + ["zz,3"] * 3
    (place / "rows.csv").write_text("\n".join(["ward,days", *rows]) + "\n")
    mechanism = "gaussian" if "rho" in privacy else "laplace"
    asked = {**model, "mechanism": mechanism, "column": "days", "privacy": privacy}
    plan = dpb.plan(asked, by={"column": "ward", "values": "private"})
    released = dpb.release("rows.csv", plan, out="out")
    assert list(found_keys(released.document) or ()) == [*"abcdef"]
    dpbayes("verify", "out").exits(0)
    assert dpbayes("report", "out", "--format", "html").code == 0


def test_plan_and_check_tell_which_groups_would_be_missing(dpbayes: Cli, visits: None) -> None:
    assert visits is None
    asked = (*ASKED, "--delta", "1e-6")
    shown = " ".join(dpbayes("plan", *asked, "--records", "1000").out.split())
    assert "a group with fewer than about 17 records is likely missing" in shown
    assert "if it also has delta 0.00001, it pays for 1" in shown
    checked = " ".join(dpbayes("check", "visits.csv", *asked).out.split())
    assert "keys have at least 17 valid records; a release publishes about these" in checked
    dpbayes("audit", *asked).exits(3, "an audit attacks groups with listed keys only")


def test_half_of_delta_pays_for_noise_whose_epsilon_needs_a_delta() -> None:
    model = {"model": "beta-bernoulli", "mechanism": "gaussian", "by": {"column": "city", "values": "private"}}
    pair = dpb.plan(model, privacy={"epsilon": "1", "delta": "1e-6"})
    assert float(pair.guarantee().delta) == 5e-7
    assert float(pair.guarantee().epsilon_at("1e-6")) <= 1.0
    stated = dpb.plan(model, privacy={"rho": "0.1"}, delta="1e-6").guarantee()
    assert (float(stated.rho), float(stated.delta)) == (0.1, 1e-6)


def test_every_mechanism_in_a_comparison_reads_the_delta_of_the_keys(dpbayes: Cli) -> None:
    asked = ["--model", "beta-bernoulli", "--by", "city", "--groups", "private", "--eps", "1", "--delta", "1e-6"]
    plans = dpbayes("plan", "--compare", "--records", "1000", "--json", *asked).json
    assert {plan["mechanism"]: plan["guarantee"]["delta"] > 0 for plan in plans} == {"laplace": True, "gaussian": True}
