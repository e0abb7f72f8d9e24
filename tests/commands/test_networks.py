"""Releases of networks from the shell: every mechanism that supports them, their files, and infer, plan and report."""

from __future__ import annotations

import csv
import json
import math
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from dpbayes_cli.core.registry import mechanism_names, mechanism_type, supports
from dpbayes_cli.models.bayes_net import BayesNet
from tests.commands.networks import VARIABLES, bayes_net, naive_bayes, people, release
from tests.conftest import Cli, files_of, often
from tests.schemas import check_document

N = 600
CELLS = 2 + 2 * (3 + 2 + 4)
APPROXIMATE = {"privacy": {"epsilon": 1, "delta": "1e-6"}}
MECHANISMS: dict[str, dict[str, Any]] = {
    "laplace": {},
    "gaussian": APPROXIMATE,
    "fourier-laplace": {},
    "ops": {"sampling": {"draws": 3}},
    "gibbs": {"sampling": {"draws": 3}},
    "map": {"sampling": {"selection": "exponential"}},
    "map, permute-and-flip": {"sampling": {"selection": "permute-and-flip"}},
    "rdp-diffuse": APPROXIMATE,
    "rdp-concentrated": APPROXIMATE,
    "rdp-direct": {"privacy": {"delta": "1e-6"}, "prior": {"concentration": 8}},
}
DRAWN = ("gibbs", "ops", "map", "rdp")


def named(mechanism: str) -> str:
    return mechanism.split(",", maxsplit=1)[0]


@pytest.fixture
def data(place: Path, dpbayes: Cli) -> Path:
    assert dpbayes("budget", "open", "people", "--epsilon", "60", "--delta", "1e-4").code == 0
    return people(place / "people.csv", N)


def document(bundle: str = "out") -> Any:
    return json.loads(Path(bundle, "release.json").read_text())


def tables(bundle: str = "out") -> list[dict[str, str]]:
    with Path(bundle, "tables.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def spent(dpbayes: Cli) -> Any:
    return dpbayes("budget", "show", "people", "--json").json["accounts"][0]["spent"]


def test_every_mechanism_that_serves_networks_is_tried_here() -> None:
    supporting_mechanisms = {name for name in mechanism_names() if supports(mechanism_type(name), BayesNet)}
    assert supporting_mechanisms == {named(mechanism) for mechanism in MECHANISMS}


TRIED = {("naive-bayes", mechanism) for mechanism in ("laplace", "fourier-laplace", "gibbs")}
"""The pairs of the fast tests; the slow tests take all."""


@pytest.mark.parametrize(
    ("model", "mechanism"),
    [
        pytest.param(model, mechanism, marks=[] if (model, mechanism) in TRIED else pytest.mark.slow)
        for model in ("naive-bayes", "bayes-net")
        for mechanism in MECHANISMS
    ],
)
def test_every_mechanism_releases_networks(dpbayes: Cli, data: Path, mechanism: str, model: str) -> None:
    spec = (naive_bayes if model == "naive-bayes" else bayes_net)(mechanism=named(mechanism), **MECHANISMS[mechanism])
    if mechanism == "map, permute-and-flip":  # which visits every point of a cover: too many of four shares
        assert "may visit every point of the grid" in release(dpbayes, data, spec).err
        del spec["domain"]["variables"]["age"]
    printed = release(dpbayes, data, spec)
    released = document()
    check_document(released)
    assert list(printed.json["posterior"]) == list(released["posterior"])
    drawn = named(mechanism).startswith(DRAWN)
    assert ("tables.csv" in files_of("out")) != drawn
    assert bool(released["draws"]) == drawn
    assert released["n_records"] == N
    for row in released["draws"]:
        assert math.fsum(row[:2]) == pytest.approx(1.0, abs=1e-9)
    before, charged = files_of("out"), spent(dpbayes)
    again = release(dpbayes, data, spec).json
    assert again["replayed"]
    assert again["posterior"] == printed.json["posterior"]
    assert (files_of("out"), spent(dpbayes)) == (before, charged)
    assert release(dpbayes, data, spec, out="elsewhere").code == 0
    assert files_of("elsewhere") == before
    inferred = dpbayes("infer", "out", "--json").exits(3 if drawn else 0)
    if not drawn:
        assert inferred.json["posterior"] == released["posterior"]
    assert dpbayes("report", "out").code == 0
    predicted = dpbayes("predict", "out", data)
    assert len(predicted.out.splitlines()) == 1 + N


@pytest.mark.parametrize("mechanism", often(["gaussian", "fourier-laplace", "laplace"], 3))
def test_tables_csv_has_a_row_for_each_cell(dpbayes: Cli, data: Path, mechanism: str) -> None:
    """Truths lie within 8 posterior sds and a prior's pull: false-fail far below 1e-9."""
    assert release(dpbayes, data, naive_bayes(mechanism=mechanism, **MECHANISMS[mechanism])).code == 0
    rows, posterior = tables(), document()["posterior"]
    assert list(rows[0]) == ["variable", "value", "given", "count", "mean", "sd", "q05", "q50", "q95"]
    assert len(rows) == CELLS
    for row, (name, summary) in zip(rows, posterior.items(), strict=True):
        assert name == f"theta[{row['variable']}={row['value']}{'|' if row['given'] else ''}{row['given']}]"
        assert {key: float(row[key]) for key in ("mean", "sd", "q05", "q50", "q95")} == {
            key: summary[key] for key in ("mean", "sd", "q05", "q50", "q95")
        }
    totals: dict[tuple[str, str], float] = defaultdict(float)
    for row in rows:
        totals[row["variable"], row["given"]] += float(row["mean"])
    assert list(totals.values()) == pytest.approx([1.0] * len(totals))
    truth = {("class", "yes"): 0.4, ("kind", "u"): 0.6, ("flag", "1"): 0.8, ("age", ">=60"): 0.16}
    for row in rows:
        if (row["variable"], row["value"]) in truth and row["given"] in {"", "class=yes"}:
            off = abs(float(row["mean"]) - truth[row["variable"], row["value"]])
            assert off < 8 * float(row["sd"]) + 0.05


ODD = "<b>&x"
ODD_LEVELS = ["a,b", 'say "hi"', "x|y", "naïve ☃"]


def test_odd_names_are_written_as_they_are_and_escaped_in_reports(dpbayes: Cli, place: Path) -> None:
    quoted = ['"a,b"', '"say ""hi"""', "x|y", "naïve ☃"]
    rows = [f"{quoted[i % 4]},{'yes' if i % 3 else 'no'}" for i in range(300)]
    (place / "odd.csv").write_text(f"{ODD},class\n" + "\n".join(rows) + "\n", encoding="utf-8")
    variables = {"class": {"values": ["no", "yes"], "impute": "no"}, ODD: {"values": ODD_LEVELS, "impute": "x|y"}}
    spec = naive_bayes(domain={"target": "class", "variables": variables})
    assert release(dpbayes, place / "odd.csv", spec).code == 0
    assert [row["value"] for row in tables() if row["given"] == "class=no"] == ODD_LEVELS
    html = dpbayes("report", "out", "--format", "html").out
    assert "<b>" not in html
    assert "&lt;b&gt;&amp;x" in html
    text = dpbayes("report", "out").out
    parameters = [line for line in text.splitlines() if line.startswith(("| theta", "| parameter"))]
    n_bars = {line.replace("\\|", "").count("|") for line in parameters}
    assert n_bars == {6, 8}, "the tables of the width and of the posterior"
    assert "<b>" not in text.replace("\\<b\\>", "")
    assert "☃" in text
    for svg in html.split("<svg")[1:]:
        picture = "<svg" + svg.split("</svg>")[0] + "</svg>"
        ET.fromstring(picture)
    header, *lines = csv.reader(dpbayes("predict", "out", "odd.csv", "--target", ODD).out.splitlines())
    assert header == ["record", ODD, *(f"p[{ODD}={level}]" for level in ODD_LEVELS)]
    assert {line[1] for line in lines} <= set(ODD_LEVELS)
    assert dpbayes("evaluate", "out", "odd.csv", "--target", ODD).code == 0


def test_adjacent_tables_of_one_weight_are_noised_and_inferred_alike(dpbayes: Cli, data: Path) -> None:
    """Each table has its own noise law, also beside tables of equal scales; posterior sds show which one was used."""
    weights = {"class": 5, "kind": 5, "flag": 0.1, "age": 5}
    variables = {name: {**part, "weight": weights[name]} for name, part in VARIABLES.items()}
    assert release(dpbayes, data, naive_bayes(domain={"target": "class", "variables": variables})).code == 0
    posterior = document()["posterior"]
    sds = {name: posterior[f"theta[{name}|class=yes]"]["sd"] for name in ("kind=v", "flag=1", "age=40 to <60")}
    assert sds["kind=v"] < 0.1
    assert sds["age=40 to <60"] < 0.1
    assert sds["flag=1"] > 0.1  # noise of scale 302 on 240 records


def test_weights_divide_the_noise(dpbayes: Cli, data: Path) -> None:
    variables = {**VARIABLES, "age": {**VARIABLES["age"], "weight": 6}}
    release(dpbayes, data, naive_bayes(domain={"target": "class", "variables": variables}))
    scales = {item["name"].split("[")[1].split("=")[0]: item["noise_scale"] for item in document()["statistics"]}
    assert scales["kind"] == scales["flag"] == scales["class"] == pytest.approx(6 * scales["age"])
    assert 2 * sum(1 / scale for scale in scales.values()) == pytest.approx(1.0)
    check_document(document())
    refused = release(
        dpbayes, data, naive_bayes(domain={"target": "class", "variables": variables}, mechanism="fourier-laplace"),
        out="refused",
    )  # fmt: skip
    assert (refused.code, "weights" in refused.err) == (3, True)


def test_invalid_cells_are_imputed_as_their_variable_states(dpbayes: Cli, place: Path) -> None:
    """At epsilon 1000 noise is zero except with probability 2 exp(-1000 / 8), whatever the seed."""
    data = place / "broken.csv"
    data.write_text("class,kind,flag,age\n" + "yes,w,1,70\n" * 30 + ",?,2,old\n" * 20)
    dpbayes("budget", "open", "broken", "--epsilon", "1000")
    dpbayes("budget", "open", "dropped", "--epsilon", "1000", "--separate-population", "--reason", "a test")
    whole = {"privacy": {"epsilon": 1000}, "inference": {"samples": 10, "method": "naive"}}
    assert release(dpbayes, data, naive_bayes(**whole)).code == 0
    counts = {item["name"]: item["value"] for item in document()["statistics"] if item["value"]}
    assert counts == {
        "count[class=no]": 20, "count[class=yes]": 30,
        "count[kind=u|class=no]": 20, "count[kind=w|class=yes]": 30,
        "count[flag=0|class=no]": 20, "count[flag=1|class=yes]": 30,
        "count[age=20 to <40|class=no]": 20, "count[age=>=60|class=yes]": 30,
    }  # fmt: skip
    dropped = {name: {k: v for k, v in part.items() if k != "impute"} for name, part in VARIABLES.items()}
    domain = {"target": "class", "variables": {**dropped, "class": VARIABLES["class"]}}
    assert release(dpbayes, data, naive_bayes(**whole, domain=domain, dataset="dropped"), out="dropped").code == 0
    counts = {item["name"]: item["value"] for item in document("dropped")["statistics"] if item["value"]}
    assert counts == {
        "count[class=no]": 20, "count[class=yes]": 30, "count[kind=w|class=yes]": 30, "count[flag=1|class=yes]": 30,
        "count[age=>=60|class=yes]": 30,
    }  # fmt: skip


@pytest.mark.parametrize("mechanism", ["laplace", "fourier-laplace"])
def test_the_number_of_records_may_be_private(dpbayes: Cli, place: Path, mechanism: str) -> None:
    """The mean of the class within 8 sds: false-fail below 1e-9."""
    data = people(place / "people.csv", N)
    spec = bayes_net(mechanism=mechanism, privacy={"epsilon": 1, "neighbors": "add-remove"})
    assert release(dpbayes, data, spec).code == 0
    assert document()["n_records"] is None
    assert dpbayes("infer", "out", "--json").json["posterior"] == document()["posterior"]
    posterior = document()["posterior"]["theta[class=yes]"]
    assert abs(posterior["mean"] - 0.4) < 8 * posterior["sd"]
