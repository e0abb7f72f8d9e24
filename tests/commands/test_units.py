"""Privacy units from the shell: priced, accounted, reported, refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Cli

N = 80
ASK = ["--model", "beta-bernoulli", "--column", "x", "--unit", "who"]
BOUNDS = [["--max-contributions", bound] for bound in ("0", "two", "100001")]
"""Contribution bounds that are refused."""


@pytest.fixture
def visits(place: Path) -> Path:
    """80 people with one to ten visits each."""
    rows = [f"P{i},{j % 2},{20 + i}" for i in range(N) for j in range(1 + i % 10)]
    path = place / "visits.csv"
    path.write_text("\n".join(["who,x,age", *rows]) + "\n", encoding="ascii")
    return path


def released(dpbayes: Cli, visits: Path, *more: str, ask: list[str] = ASK) -> Any:
    dpbayes("release", visits, *ask, *more, "--out", "out", "-q").exits(0)
    return json.loads(Path("out/release.json").read_text())


def test_noise_grows_with_the_contributions(dpbayes: Cli, visits: Path) -> None:
    document = released(dpbayes, visits, "--max-contributions", "4", "--eps", "0.5")
    assert [item["noise_scale"] for item in document["statistics"]] == [16.0, 16.0], "4 records, 2 counts, epsilon 0.5"
    assert document["n_records"] is None, "the number of records is private where units may have several"
    assert document["privacy_unit"] == "all records with one value of the column 'who', of which at most 4 are counted"
    report = Path("out/report.md").read_text()
    whole = "".join(path.read_text() for path in Path("out").glob("*.[jmc]*"))
    assert not re.search(r"\bP[0-9]+\b", whole), "no unit is named"
    assert "differ in some or all records of one privacy unit" in report
    assert "Each person has at most one record" not in report
    assert dpbayes("infer", "out", "--samples", "10", "-q").code == 0
    assert dpbayes("report", "out").code == 0


def test_the_unit_is_named_in_the_result_and_kept_in_a_suggested_spec(dpbayes: Cli, visits: Path) -> None:
    ask = [*ASK, "--max-contributions", "4"]
    done = dpbayes("release", visits, *ask, "--eps", "0.5", "--out", "out")
    assert "unit      all records with one value of the column 'who'" in done.out
    assert "\nunit " not in dpbayes("release", visits, *ASK[:-2], "--eps", "1", "--dataset", "rows", "--out", "o2").out
    incomplete = ["--model", "normal", "--column", "age", *ask[-4:], "--neighbors", "add-remove"]
    suggested = yaml.safe_load(dpbayes("check", visits, *incomplete, "--json").json["spec"])
    assert suggested["privacy"]["neighbors"] == "add-remove"
    assert suggested["privacy"]["unit"] == {"column": "who", "max_contributions": "4"}


def test_the_number_of_records_is_private_where_invalid_values_are_imputed_too(dpbayes: Cli, visits: Path) -> None:
    document = released(dpbayes, visits, "--max-contributions", "2", "--eps", "1", "--on-invalid", "impute:0")
    assert [item["name"] for item in document["statistics"]] == ["successes", "failures"]
    assert document["n_records"] is None


def test_number_of_records_is_public_with_one_record_per_unit(dpbayes: Cli, visits: Path) -> None:
    document = released(dpbayes, visits, "--eps", "1")
    assert document["n_records"] == N
    assert "80 privacy units" in Path("out/report.md").read_text()
    assert dpbayes("release", visits, *ASK, "--eps", "0.9", "--records", "440", "--out", "no").code == 4
    drawn = ["--mechanism", "ops", "--on-invalid", "impute:0", "--eps", "0.5", "--records", str(N), "--out", "drawn"]
    assert dpbayes("release", visits, *ASK, *drawn, "-q").code == 0
    Path("out").rename("before")
    document = released(dpbayes, visits, "--max-contributions", "3", "--eps", "1", "--records", str(N))
    assert document["n_records"] == N
    dpbayes("release", visits, *ASK, "--max-contributions", "2", "--eps", "0.25", "--records", "81").exits(4)
    assert dpbayes("budget", "show", "--json").json["accounts"][0]["spent"] == {"epsilon": "2.5"}


def test_account_is_for_one_privacy_unit(dpbayes: Cli, visits: Path) -> None:
    released(dpbayes, visits, "--eps", "0.5")
    assert dpbayes("budget", "show", "--json").json["accounts"][0]["unit"] == "who"
    for more in (["--column", "x"], ["--column", "x", "--unit", "age"]):
        dpbayes("release", visits, "--model", "beta-bernoulli", "--eps", "0.5", *more).exits(
            5, "all records of one value of the column 'who'"
        )
    apart = ["--separate-population", "--reason", "a test"]
    opened = dpbayes("budget", "open", "other", "--epsilon", "1", "--unit", "who", *apart, "--json")
    assert opened.json["unit"] == "who"
    assert dpbayes("release", visits, *ASK, "--eps", "1", "--dataset", "other", "-q", "--out", "o2").code == 0
    dpbayes("budget", "open", "third", "--epsilon", "1", *apart)
    dpbayes("release", visits, *ASK, "--eps", "1", "--dataset", "third").exits(5, "protects single records")
    assert dpbayes("budget", "verify").code == 0


@pytest.mark.slow
def test_private_bounds_account_for_contributions(dpbayes: Cli, visits: Path) -> None:
    ask = ["--model", "normal", "--column", "age", "--unit", "who", "--max-contributions", "5"]
    bounds = ["--bounds-epsilon", "0.5", "--bounds-low", "0", "--bounds-high", "200"]
    document = released(dpbayes, visits, *bounds, "--eps", "1", ask=ask)
    assert document["guarantee"]["epsilon"] == 1.5


def test_requests_without_a_unit_guarantee_are_refused(dpbayes: Cli, visits: Path) -> None:
    drawn = [["--mechanism", name, "--on-invalid", "impute:0"] for name in ("ops", "gibbs", "rdp-diffuse", "map")]
    for more in [*([*each, "--max-contributions", "2"] for each in drawn), *BOUNDS]:
        dpbayes("release", visits, *ASK, "--eps", "1", *more).exits(3, "max_contributions")
    spec = {
        "model": "logistic-regression",
        "mechanism": "gibbs-posterior",
        "privacy": {"mu": 1, "unit": {"column": "who", "max_contributions": 2}},
        "domain": {"target": {"column": "x", "values": ["0", "1"]},
                   "features": {"age": {"lower": 0, "upper": 200}}},
        "prior": {"precision": 10},
    }  # fmt: skip
    Path("spec.yaml").write_text(yaml.safe_dump(spec))
    dpbayes("release", visits, "--spec", "spec.yaml").exits(3, "max_contributions")
    unchecked = ["release", "-", *ASK, "--eps", "1", "--max-contributions", "2", "--dataset", "d", "--records", "5"]
    dpbayes(*unchecked, stdin=visits.read_bytes()).exits(4, "cannot be checked")
    assert dpbayes("budget", "show", "--json").json["accounts"] == []


def test_several_files_are_one_data_set(dpbayes: Cli, visits: Path) -> None:
    head, *rows = visits.read_text().splitlines()
    for i in range(2):
        Path(f"part{i}.csv").write_text("\n".join([head, *rows[i::2]]) + "\n")
    Path("s.yaml").write_text(yaml.safe_dump({
        "model": "beta-bernoulli", "column": "x", "data": ["part0.csv", "part1.csv"], "dataset": "all",
        "privacy": {"epsilon": 1, "unit": {"column": "who"}},
    }))  # fmt: skip
    assert dpbayes("release", "--spec", "s.yaml", "--out", "out", "-q").code == 0
    assert json.loads(Path("out/release.json").read_text())["n_records"] == N
    ask = [*ASK, "--eps", "1", "--dataset", "all", "--out", "out", "--json"]
    assert dpbayes("release", "part1.csv", "part0.csv", *ask).json["replayed"]


def test_new_records_are_all_predicted_in_their_order(dpbayes: Cli, visits: Path) -> None:
    """Units do not matter for predictions, so no records are sampled."""
    spec = {
        "model": "linear-regression",
        "domain": {"target": {"column": "age", "lower": 0, "upper": 120},
                   "features": {"x": {"lower": 0, "upper": 1}}, "variance": 100},
        "privacy": {"epsilon": 1, "unit": {"column": "who", "max_contributions": 2}},
        "inference": {"method": "naive"},
    }  # fmt: skip
    Path("s.yaml").write_text(yaml.safe_dump(spec))
    dpbayes("release", visits, "--spec", "s.yaml", "--out", "out", "-q").exits(0)
    Path("new.csv").write_text("x\n0\n1\n0.5\n0\n1\n0\n")
    lines = dpbayes("predict", "out", "new.csv").out.splitlines()
    assert len(lines) == 1 + 6
    assert lines[1].split(",")[1:] == lines[4].split(",")[1:]
