"""Private bounds as a custodian requests them: one charge for both steps, one draw, one bundle."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from dpbayes_cli.base.errors import DpbayesError
from dpbayes_cli.bundle.document import parse_document
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from tests.conftest import ROOT, SAMPLE_DATA, Cli
from tests.schemas import check_document, check_spec
from tests.test_leaks import everything_written, payloads

CLINIC = SAMPLE_DATA / "clinic.csv"
CONFIG = ROOT / "configs" / "releases" / "clinic-age-private-bounds.yaml"
MONTHS = ["--column", "months", "--model", "gamma-poisson", "--bounds-high", "60"]
AGE = ["--column", "age", "--model", "normal-mean", "--variance", "225", "--bounds-low", "0", "--bounds-high", "200"]
COST = ["--bounds-epsilon", "0.5", "--eps", "1"]


def test_both_steps_are_charged_once_and_replayed(dpbayes: Cli, place: Path) -> None:
    data = place / "clinic.csv"
    data.write_bytes(CLINIC.read_bytes())
    first = dpbayes("release", data, *MONTHS, *COST, "--out", "out", "--json").json
    assert first["guarantee"]["epsilon"] == 1.5
    assert [part["epsilon"] for part in first["guarantee"]["parts"]] == [0.5, 1.0]
    assert first["remaining"] == {"epsilon": "1.5"}
    assert dpbayes("budget", "show", "--json").json["accounts"][0]["spent"] == {"epsilon": "1.5"}
    data.write_bytes(b"")  # a replay does not open the data
    again = dpbayes("release", data, *MONTHS, *COST, "--out", "copy", "--json").json
    assert (again["replayed"], again["bounds"], again["remaining"]) == (True, first["bounds"], {"epsilon": "1.5"})
    assert Path("copy", "release.json").read_bytes() == Path("out", "release.json").read_bytes()
    assert dpbayes("budget", "verify").code == 0
    data.write_bytes(CLINIC.read_bytes())
    other = dpbayes("release", data, *MONTHS, *COST, "--bounds-cells", "30", "--dry-run", "--json").json
    assert other["release_id"] != first["release_id"]  # bounds are priced: another grid is another request
    assert not other["already_charged"]


@pytest.mark.usefixtures("without_figures")
@pytest.mark.parametrize(
    ("arguments", "account", "kind"),
    [
        pytest.param([*MONTHS, "--eps", "1"], (), "pure", marks=pytest.mark.slow),
        pytest.param(
            [*AGE, "--eps", "1", "--neighbors", "add-remove"],
            ("--epsilon", "3", "--neighbors", "add-remove"),
            "pure",
            marks=pytest.mark.slow,
        ),
        ([*AGE, "--mechanism", "gaussian", "--rho", "0.1"], ("--rho", "1"), "zcdp"),
    ],
)
def test_the_bundle_states_the_bounds_and_their_cost(
    arguments: list[str], account: tuple[str, ...], kind: str, dpbayes: Cli
) -> None:
    if account:
        dpbayes("budget", "open", "clinic", *account)
    printed = dpbayes("release", CLINIC, *arguments, "--bounds-epsilon", "0.5", "--out", "out", "--json").json
    content = Path("out/release.json").read_bytes()
    document = json.loads(content)
    check_document(document)
    assert parse_document(content).pretty() == content
    bounds, guarantee = document["bounds"], document["guarantee"]
    assert bounds == printed["bounds"]
    assert bounds["lower"] < bounds["upper"]
    assert (guarantee["kind"], [part["kind"] for part in guarantee["parts"]]) == (
        "composition",
        ["bounded-range", kind],
    )
    if kind == "zcdp":
        assert printed["remaining"] == {"rho": "0.884375"}  # 1 - 0.1 - 0.5^2 / 16: two draws of range 0.25
        assert guarantee["rho"] == pytest.approx(0.115625)
    page = dpbayes("report", "out", "--format", "html", "--out", "out.html")
    assert page.code == 0, page.err
    statement = f"{bounds['lower']:.10g} to {bounds['upper']:.10g}, found privately at a cost of epsilon 0.5"
    for text in (Path("out/report.md").read_text(), Path("out.html").read_text(), dpbayes("report", "out").out):
        assert statement in text
        assert "treats the bounds as fixed in advance" in text
    prior = "mean=40" if "age" in arguments else "shape=2"
    assert dpbayes("infer", "out", "--samples", "100", "--prior", prior).code == 0


def test_the_posterior_is_that_of_the_drawn_bounds(dpbayes: Cli) -> None:
    """At a large epsilon the mean age is that of the data; with other bounds it would be far off."""
    dpbayes("budget", "open", "clinic", "--epsilon", "1000")
    cost = ["--bounds-epsilon", "100", "--eps", "5", "--prior", "mean=50,variance=100", "--on-invalid", "impute:50"]
    released = dpbayes("release", CLINIC, *AGE, *cost, "--json").json
    rows = CLINIC.read_text().splitlines()[1:]
    ages = [int(row.split(",")[0]) if row.split(",")[0].isdecimal() else 50 for row in rows]
    bounds = released["bounds"]
    share = [sum(age <= bounds[end] for age in ages) / len(ages) for end in ("lower", "upper")]
    assert share == pytest.approx([0.01, 0.99], abs=0.03)
    posterior = released["posterior"]["mean"]
    assert posterior["mean"] == pytest.approx(sum(ages) / len(ages), abs=5 * posterior["sd"])


def test_a_bundle_with_other_bounds_is_refused(dpbayes: Cli) -> None:
    dpbayes("release", CLINIC, *MONTHS, *COST, "--out", "out")
    document = json.loads(Path("out/release.json").read_text())
    without = {key: value for key, value in document.items() if key != "bounds"}
    for change in ({"lower": 0.0, "upper": 0.5}, {"lower": 5.0, "upper": 1.0}, {"lower": 1.0, "upper": 12.0}, None):
        Path("out/release.json").write_text(json.dumps(without if change is None else {**without, "bounds": change}))
        assert dpbayes("infer", "out").code == 7
    del document["spec"]["bounds"]
    document["spec"]["domain"]["upper"] = 60
    Path("out/release.json").write_text(json.dumps(document))
    assert dpbayes("infer", "out").code == 7


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "cells"), [([*MONTHS, "--neighbors", "add-remove"], ""), (AGE, "x\n,,,,\n")])
def test_an_empty_data_set_gets_a_release(arguments: list[str], cells: str, dpbayes: Cli, place: Path) -> None:
    (place / "empty.csv").write_text(f"age,arm,months,relapse,note\n{cells}")
    released = dpbayes("release", "empty.csv", *arguments, *COST, "--json").json
    assert released["bounds"]["lower"] < released["bounds"]["upper"]


def test_a_stream_is_read_once(dpbayes: Cli) -> None:
    done = dpbayes("release", "-", "--dataset", "clinic", *MONTHS, *COST, "--json", stdin=CLINIC.read_bytes())
    assert done.json["bounds"]["upper"] > 0


def test_the_histogram_is_not_written_anywhere(dpbayes: Cli, tmp_path: Path, place: Path, ledger_path: Path) -> None:
    """Nothing of the evidence is written: only the two bounds and the noisy statistics are sealed."""
    data = place / "data.csv"
    data.write_text("v\n" + "7.7318293\n" * 300)
    model = ("--model", "gamma-exponential", "--bounds-high", "1000")
    done = dpbayes("release", data, *model, *COST, "-vv", "--out", "o")
    assert done.code == 0, done.err
    sealed = payloads(ledger_path)
    draw, _ = json.JSONDecoder().raw_decode(sealed.decode())
    keys = {"schema_version", "created", "record_unit", "n_records", "statistics", "noise", "draws", "bounds"}
    assert set(draw) == keys
    assert len(draw["statistics"]) == 2
    assert set(draw["bounds"]) == {"lower", "upper"}
    assert b"7.7318" not in done.out.encode() + done.err.encode() + everything_written(tmp_path, data) + sealed


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--model", "gamma-poisson", "--column", "months", "--eps", "1"], 3, "--bounds-epsilon"),
        ([*MONTHS, *COST, "--upper", "30"], 3, "leave out either"),
        ([*MONTHS, "--eps", "1"], 3, "--bounds-epsilon 0.1"),
        ([*MONTHS, *COST, "--bounds-high", "1.5"], 3, "whole"),
        ([*MONTHS, *COST, "--on-invalid", "impute:61"], 3, "not in the domain"),
        ([*MONTHS, *COST, "--bounds-lower-quantile", "0.1"], 3, "leave it out"),
        ([*MONTHS, *COST, "--mechanism", "ops", "--on-invalid", "impute:1", "--support", "1,9"], 3, "laplace"),
        ([*MONTHS, *COST, "--mechanism", "rdp-diffuse", "--on-invalid", "impute:1"], 3, "laplace"),
        ([*MONTHS, "--bounds-epsilon", "2.5", "--eps", "1"], 5, "requested: epsilon 3.5"),
        (["--model", "beta-bernoulli", "--column", "relapse", "--eps", "1", *COST], 3, "cannot be found"),
        (["--spec", "several.yaml"], 3, "cannot be found privately"),
    ],
)  # fmt: skip
def test_requests_without_private_bounds_are_refused_uncharged(
    arguments: list[str], code: int, says: str, dpbayes: Cli, ledger_path: Path
) -> None:
    several = "model: multivariate-normal\nprivacy: {epsilon: 1}\nbounds: {private: {epsilon: 1, low: 0, high: 9}}\n"
    Path("several.yaml").write_text(several + "domain: {columns: {age: {lower: 0, upper: 9}}}\n")
    refused = dpbayes("release", CLINIC, *arguments, "--out", "out")
    assert (refused.code, says in refused.err) == (code, True), refused.err
    assert not Path("out").exists()
    assert dpbayes("budget", "show", "--json").json["accounts"] == [] if ledger_path.exists() else True


def test_a_plan_prints_both_costs(dpbayes: Cli) -> None:
    arguments = [*MONTHS[2:], *COST, "--on-invalid", "impute:1", "--records", "500", "--trials", "5"]
    planned = dpbayes("plan", *arguments, "--json").json
    assert [planned["steps"][name]["epsilon"] for name in ("bounds", "statistics")] == [0.5, 1.0]
    assert planned["guarantee"]["epsilon"] == 1.5
    assert planned["expected"]["posterior_sd"] > 0
    shown = dpbayes("plan", *arguments, "-v").out
    assert re.search(r"bounds +bounded-range, epsilon 0.5", shown)
    assert re.search(r"statistics +pure, epsilon 1", shown)
    compared = dpbayes("plan", *arguments[:-1], "0", "--compare", "--json").json
    assert {each["mechanism"] for each in compared if "refused" in each} >= {"ops", "rdp-diffuse"}
    priced = dpbayes("release", CLINIC, *MONTHS, *COST, "--dry-run").out
    assert "would cost epsilon 1.5" in priced
    assert "private bounds cost epsilon 0.5" in priced


def test_the_schema_of_specs_takes_bounds_once() -> None:
    spec = yaml.safe_load(CONFIG.read_text())
    check_spec(spec)
    changes: list[dict[str, Any]] = [{"domain": {"upper": 3}}, {"bounds": {}}, {"bounds": {"private": {"high": 3}}}]
    for wrong in changes:
        with pytest.raises(jsonschema.ValidationError):
            check_spec({**spec, **wrong})


def test_noise_that_does_not_fit_drawn_bounds_uses_the_whole_range(
    dpbayes: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal after the bounds were drawn would reveal something about them, and the next run would draw again."""
    original = DiscreteLaplace.calibrate
    seen: list[int] = []

    def calibrate(sensitivity_l1: int, epsilon: Decimal) -> DiscreteLaplace:
        seen.append(sensitivity_l1)
        if len(seen) > 2:  # the whole range and the narrowest are planned before the charge
            raise DpbayesError("no calibration")
        return original(sensitivity_l1, epsilon)

    monkeypatch.setattr(DiscreteLaplace, "calibrate", calibrate)
    released = dpbayes("release", CLINIC, "--dataset", "clinic", *MONTHS, *COST, "--out", "o", "--json").json
    document = json.loads(Path("o/release.json").read_text())
    assert released["bounds"]["upper"] > 0
    assert len(seen) > 2
    assert document["noise"]["scale"] == pytest.approx(original(max(seen), Decimal(1)).scale)
