"""``dpbayes infer --table``: the posterior of noisy counts that other tools published."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.conftest import ROOT, SAMPLE_DATA, Cli
from tests.sources.test_published_table import write_parquet

CONFIGS = ROOT / "configs" / "tables"
TABLE = "clinic,relapses,others,patients\nA,31,70,100\nB,-2,14,15\nC,18,53,77\n"
SPEC = """
keys: [clinic]
counts: [relapses, others]
noise: {law: discrete-laplace, scale: 2}
totals: [{by: [clinic], column: patients}]
infer:
  counts: [relapses]
  rates: [{name: relapse rate, successes: relapses, failures: others}]
"""
Infer = Callable[..., Any]


@pytest.fixture
def infer(dpbayes: Cli, place: Path) -> Infer:
    """Write a table and its spec, and infer."""

    def run(table: str = TABLE, spec: str = SPEC, *flags: str) -> Any:
        (place / "t.csv").write_text(table, encoding="utf-8")
        (place / "t.yaml").write_text(spec, encoding="utf-8")
        return dpbayes("infer", "--table", "t.csv", "--spec", "t.yaml", *flags)

    return run


def by_key(document: Any, quantity: str, key: str) -> dict[str, Any]:
    return {row["keys"][key]: row for row in document["posterior"] if row["quantity"] == quantity}


@pytest.mark.parametrize("example", ["opendp", "tumult", "wikimedia", "census"])
def test_the_examples_fit_on_a_terminal(
    dpbayes: Cli, example: str, monkeypatch: pytest.MonkeyPatch, ledger_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = dpbayes("infer", "--table", SAMPLE_DATA / f"noisy_{example}.csv", "--spec", CONFIGS / f"{example}.yaml")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("quantity")
    assert not ledger_path.exists()


def test_the_total_of_the_census_example_holds(dpbayes: Cli) -> None:
    table, spec = SAMPLE_DATA / "noisy_census.csv", CONFIGS / "census.yaml"
    document = dpbayes("infer", "--table", table, "--spec", spec, "--json").json
    people = by_key(document, "people", "geocode")
    assert sum(row["estimate"] for row in people.values()) == pytest.approx(21426, abs=3)
    hispanic = by_key(document, "hispanic", "geocode")
    assert all(0 <= row["low"] <= row["estimate"] <= row["high"] <= 1 for row in hispanic.values())
    assert (document["n_rows"], document["n_cells"], document["warnings"]) == (24, 24, [])


def test_a_result_on_a_terminal(infer: Infer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = infer().out.splitlines()
    assert len(lines) == 7
    assert lines[1].split()[:2] == ["relapses", "A"]
    assert "28 to 33" in lines[1]


def test_some_rows_of_every_quantity_are_shown(infer: Infer, place: Path) -> None:
    rows = "".join(f"k{i},{i},{2 * i},{3 * i}\n" for i in range(40))
    done = infer(f"clinic,relapses,others,patients\n{rows}", SPEC, "--out", "out")
    lines = done.out.splitlines()
    shown = [line.split("  ")[0] for line in lines[1:-1]]
    assert len(shown) == 24
    assert shown.count("relapses") == shown.count("relapse rate") == 12
    assert lines[-1].startswith("... and 56 more")
    assert "- Noise: law discrete-laplace, scale 2.0." in (place / "out" / "report.md").read_text()


def test_files_hold_all_rows_and_the_report_names_the_spec(infer: Infer, place: Path) -> None:
    done = infer(TABLE, SPEC, "--out", "out", "--json")
    assert done.code == 0, done.err
    rows = done.json["posterior"]
    assert sorted(path.name for path in (place / "out").iterdir()) == ["posterior.parquet", "report.md", "summary.json"]
    stored = duckdb.sql("SELECT clinic, quantity, estimate, low FROM 'out/posterior.parquet'").fetchall()
    assert stored == [(row["keys"]["clinic"], row["quantity"], row["estimate"], row["low"]) for row in rows]
    summary = json.loads((place / "out" / "summary.json").read_text())
    assert "posterior" not in summary
    assert summary["spec"]["noise"] == {"law": "discrete-laplace", "scale": 2.0}
    report = (place / "out" / "report.md").read_text()
    assert "| relapse rate | C |" in report
    assert infer(TABLE, SPEC, "--out", "out").code == 8
    assert infer(TABLE, SPEC, "--out", "again", "--samples-format", "csv").code == 0
    assert (place / "again" / "posterior.csv").read_text().startswith("quantity,kind,category,clinic,estimate")


def test_keys_cannot_break_the_report_or_the_terminal(infer: Infer, place: Path) -> None:
    done = infer(TABLE.replace("A,", '"=A|\n\x1b[31m*x*",'), SPEC, "--out", "out", "--samples-format", "csv")
    assert "\x1b" not in done.out
    assert "| =A\\|  \\[31m\\*x\\* |" in (place / "out" / "report.md").read_text()
    assert "'=A|" in (place / "out" / "posterior.csv").read_text()


def test_the_same_seed_gives_the_same_result(infer: Infer) -> None:
    results = [infer(TABLE, SPEC, "--json", *flags).json["posterior"] for flags in ((), (), ("--seed", "5"))]
    assert results[0] == results[1] != results[2]


def test_other_intervals_and_more_samples(infer: Infer) -> None:
    narrow, wide = (infer(TABLE, SPEC, "--json", "--interval", level).json["posterior"] for level in ("0.5", "0.99"))
    assert all(a["low"] >= b["low"] and a["high"] <= b["high"] for a, b in zip(narrow, wide, strict=True))
    methods = infer(TABLE, SPEC, "--json", "--samples", "500").json["methods"]
    assert methods["relapse rate"] == "500 independent draws"


def test_a_parquet_file_gives_the_same_posterior(infer: Infer, dpbayes: Cli, place: Path) -> None:
    expected = infer(TABLE, SPEC, "--json").json["posterior"]
    write_parquet(place / "t.csv", place / "t.parquet")
    assert dpbayes("infer", "--table", "t.parquet", "--spec", "t.yaml", "--json").json["posterior"] == expected


def test_the_template_is_valid_and_all_that_is_commented_out_too(dpbayes: Cli, place: Path) -> None:
    text = dpbayes("spec", "init", "table").out
    (place / "t.yaml").write_text(text)
    assert dpbayes("spec", "check", "t.yaml").out.startswith("t.yaml: a valid spec of a table")
    (place / "t.csv").write_text("region,yes,no\nnorth,20,31\nsouth,4,-1\n")
    assert dpbayes("infer", "--table", "t.csv", "--spec", "t.yaml").code == 0
    assert dpbayes("spec", "init", "table", "--mechanism", "laplace").code == 2


LONG = "year,region,answer,n\n" + "".join(
    f"{year},{region},{answer},{count}\n"
    for year, region, answer, count in [
        (2024, "north", "yes", 50), (2024, "north", "no", 150), (2025, "north", "yes", 90),
        (2025, "north", "no", 110), (2024, "south", "yes", 30), (2024, "south", "no", 30),
    ]
)  # fmt: skip
LONG_SPEC = """
keys: [year, region, answer]
counts: [n]
noise: {law: gaussian, variance: 4}
infer:
  shares: [{name: share, columns: [n], over: answer, target: proportion}]
  sums: [{name: all, columns: [n]}, {name: of year, columns: [n], by: [year]}]
  differences:
    - name: change
      plus: {columns: [n], where: {year: "2025", answer: "yes"}}
      minus: {columns: [n], where: {year: "2024", answer: "yes"}}
      by: [region]
"""


def test_a_table_with_a_row_for_each_category(infer: Infer) -> None:
    document = infer(LONG, LONG_SPEC, "--json").json
    shares = {
        (row["keys"]["year"], row["keys"]["region"], row["category"]): row["estimate"]
        for row in document["posterior"]
        if row["quantity"] == "share"
    }
    assert shares["2025", "north", "yes"] == pytest.approx(0.45, abs=0.01)
    assert shares["2024", "south", "yes"] + shares["2024", "south", "no"] == pytest.approx(1.0)
    (change,) = by_key(document, "change", "region").values()
    assert (change["keys"], change["low"] < 40 < change["high"]) == ({"region": "north"}, True)
    assert document["warnings"] == ["change: groups left out because rows that they need are missing: 1"]
    years = by_key(document, "of year", "year")
    assert years["2024"]["estimate"] == pytest.approx(260, abs=1)
    (total,) = [row for row in document["posterior"] if row["quantity"] == "all"]
    assert (total["keys"], total["sd"]) == ({}, pytest.approx(24**0.5, rel=0.08))


def test_rows_without_keys_are_named_by_their_lines(infer: Infer) -> None:
    spec = "counts: [relapses]\nnoise: {law: discrete-laplace, scale: 2}\ninfer: {counts: [relapses]}\n"
    assert [*by_key(infer(TABLE, spec, "--json").json, "relapses", "row")] == ["line 2", "line 3", "line 4"]


def test_exact_counts_and_rates_of_them(infer: Infer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    spec = """
keys: [clinic]
counts: [relapses, others, patients]
noise: {law: laplace, scale: 2}
noise_of: {patients: {law: none}}
infer:
  counts: [patients]
  rates: [{name: r, successes: relapses, of: patients}, {name: all, successes: relapses, failures: others, by: []}]
"""
    done = infer(TABLE.replace(",", "\t"), f"delimiter: tab\n{spec}")
    assert done.out.splitlines()[2].split() == ["patients", "B", "15", "0", "15", "to", "15"]
    document = infer(TABLE, spec, "--json").json
    assert by_key(document, "r", "clinic")["A"]["estimate"] == pytest.approx(32 / 102, abs=0.01)
    (overall,) = [row for row in document["posterior"] if row["quantity"] == "all"]
    assert (overall["keys"], overall["estimate"]) == ({}, pytest.approx(0.27, abs=0.02))


def test_negative_counts_add_up(infer: Infer) -> None:
    spec = """
keys: [clinic]
counts: [relapses]
non_negative: false
noise: {law: gaussian, variance: 4}
totals: [{total: 45}]
infer: {counts: [relapses], sums: [{name: all, columns: [relapses]}]}
"""
    document = infer(TABLE, spec, "--json").json
    assert document["posterior"][-1]["estimate"] == 45.0
    # the normal posterior given the sum: each noisy count less a third of the excess, 47 - 45
    estimates = [row["estimate"] for row in by_key(document, "relapses", "clinic").values()]
    assert estimates == pytest.approx([31 - 2 / 3, -2 - 2 / 3, 18 - 2 / 3], abs=0.15)


@pytest.mark.slow
def test_partial_pooling_shrinks_groups_toward_each_other(infer: Infer) -> None:
    table = "g,s,f\n" + "".join(f"{k},{s},{f}\n" for k, (s, f) in enumerate([(3, 20), (6, 15), (0, 9), (11, 30)] * 5))
    rate = "{name: r, successes: s, failures: f, pooling: WAY}"
    spec = f"keys: [g]\ncounts: [s, f]\nnoise: {{law: gaussian, scale: 2}}\ninfer: {{rates: [{rate}]}}\n"
    results = {}
    for way in ("none", "partial"):
        document = infer(table, spec.replace("WAY", way), "--json").json
        results[way] = by_key({"posterior": [r for r in document["posterior"] if r["keys"]]}, "r", "g")
        shared = [row["quantity"] for row in document["posterior"] if row["kind"] == "hyperparameter"]
        assert shared == ([] if way == "none" else ["r: mean", "r: sd", "r: records"])
    alone, pooled = results["none"], results["partial"]
    assert sum(row["sd"] for row in pooled.values()) < 0.8 * sum(row["sd"] for row in alone.values())
    assert pooled["2"]["estimate"] > 0.1
    wide = infer(table, spec.replace("WAY", "partial"), "--json", "--interval", "0.99").json
    assert wide["posterior"][-1]["low"] < pooled["19"]["low"]


@pytest.mark.slow
def test_groups_with_different_noise_are_pooled(infer: Infer) -> None:
    rows = [(k, s, f, 1 + 7 * (k % 2)) for k, (s, f) in enumerate([(3, 20), (6, 15), (0, 9), (11, 30)] * 5)]
    table = "g,s,f,v\n" + "".join(f"{k},{s},{f},{v}\n" for k, s, f, v in rows)
    rate = "rates: [{name: r, successes: s, failures: f, pooling: partial}]"
    noise = "noise: {law: discrete-gaussian, variance_column: v}\nnoise_of: {f: {law: gaussian, scale: 1.5}}"
    spec = f"keys: [g]\ncounts: [s, f]\n{noise}\ninfer: {{{rate}}}\n"
    document = infer(table, spec, "--json").json
    assert next(row["estimate"] for row in document["posterior"] if row["quantity"] == "r: mean") < 0.4
    shares = "shares: [{name: r, columns: [s, f, v], pooling: partial}]"
    three = spec.replace(rate, shares).replace("counts: [s, f]", "counts: [s, f, v]")
    assert "with three or more categories" in infer(table, three).err
    same = three.replace("variance_column: v", "scale: 2").replace(
        "gaussian, scale: 1.5", "discrete-gaussian, scale: 2"
    )
    assert len(infer(table, same, "--json").json["posterior"]) == 7 + 60
    two = spec.replace(rate, shares.replace(", v]", "]"))
    posterior = infer(table, two, "--json").json["posterior"]
    assert [row["quantity"] for row in posterior[:4]] == ["r: mean s", "r: sd s", "r: records", "r"]
    assert posterior[3]["estimate"] + posterior[4]["estimate"] == pytest.approx(1.0)
    assert posterior[3]["low"] + posterior[4]["high"] == pytest.approx(1.0)
    assert "its noise must be one of" in infer(table, same.replace("discrete-gaussian", "laplace")).err


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("scale: 2", "variance: 2, scale: 2", 3, "stated: scale, variance"),
        ("scale: 2", "rho: 1", 3, "discrete-laplace does not take rho"),
        ("scale: 2", "scale: 2, sensitivity: 3", 3, "sensitivity needs epsilon"),
        ("scale: 2", "scale: -1", 3, "noise.scale"),
        ("law: discrete-laplace, scale: 2", "law: none, suppressed_below: 4", 3, "suppressed_below needs a law"),
        ("discrete-laplace", "discrete-laplac", 3, "did you mean 'discrete-laplace'"),
        ("counts: [relapses]\n", "counts: [relapse]\n", 3, "'relapse' is not listed under counts"),
        ("keys: [clinic]", "keys: []", 3, "'clinic' is not listed under keys"),
        ("failures: others", "fails: others", 3, "unknown key"),
        ("failures: others", "failures: others, of: others", 3, "must state either failures"),
        ("failures: others", "of: others", 3, "a rate with `of` cannot use columns of a known total"),
        ("failures: others", "failures: others, pooling: partial", 3, "cannot have known totals"),
        ("failures: others", "failures: others, pooling: partial, target: proportion", 3, "leave out target"),
        ("column: patients", "column: patients, total: 3", 3, "state either total: N"),
        ("column: patients", "column: people", 4, "the table has no column 'people'"),
        ("column: patients", "total: 15", 0, "in clinic A is 86 away from the sum of its noisy counts"),
        ("column: patients", "total: 15000", 4, "cannot explain how far the noisy counts are from the known total"),
        ("totals: [", "totals: [{columns: [relapses], total: 60}, ", 3, "share some cells"),
        ("totals: [", "totals: [{total: 193}, ", 4, "contradicts the totals within it"),
        ("keys", "non_negative: false\nkeys", 3, "rates and shares need counts that are not negative"),
        ("scale: 2", "scale: 2, suppressed_below: -5", 3, "a known total needs all its rows"),
        ("scale: 2", "scale_column: clinic", 4, "line 2: column 'clinic' holds 'A'; expected a number"),
        ("scale: 2", "variance_column: others", 0, ""),
        ("keys", "delimiter: tab\nkeys", 4, "the table has no column 'clinic'"),
        ("keys", "delimiter: ''\nkeys", 3, "expected one character, or tab"),
        ("keys", "model: normal\nkeys", 3, "the spec of a release, not of a table"),
        ("name: relapse rate", "name: relapses", 3, "two quantities have the name"),
        ("by: [clinic], ", "by: [clinic], where: {clinic: D}, ", 3, "no row of the table has these keys"),
    ],
)
def test_wrong_specs_are_refused(infer: Infer, old: str, new: str, code: int, message: str) -> None:
    assert old in SPEC
    done = infer(TABLE, SPEC.replace(old, new, 1))
    assert (done.code, message in done.err) == (code, True), done.err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("18", "many", "line 4: column 'relapses' holds 'many'; expected a whole number"),
        ("18", "", "line 4: column 'relapses' is empty; expected a whole number"),
        ("18", "18.5", "line 4: column 'relapses' holds '18.5'; expected a whole number"),
        ("C,", "B,", "line 4 has the same keys as line 3"),
        ("18,", "", "line 4 has 3 fields; the header has 4"),
        (TABLE, "clinic,relapses,others,patients\n", "the table has no rows"),
        ("relapses", "others", "the table has no column 'relapses'"),
    ],
)
def test_wrong_tables_are_refused(infer: Infer, old: str, new: str, message: str) -> None:
    done = infer(TABLE.replace(old, new, 1))
    assert (done.code, message in done.err) == (4, True), done.err


def test_an_implausible_scale_is_warned_about(infer: Infer) -> None:
    done = infer(TABLE.replace("-2", "-40"), SPEC.replace("totals: [{by: [clinic], column: patients}]", ""))
    assert "too far below 0 for noise of the stated law: 1" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a BUNDLE, or a table"),
        (["--table", "t.csv"], "--table needs --spec FILE"),
        (["b", "--spec", "t.yaml"], "name a BUNDLE, or a table"),
        (["--table", "t.csv", "--spec", "t.yaml", "--more"], "leave --more out"),
        (["--table", "t.csv", "--spec", "t.yaml", "--prior", "alpha=1"], "only --samples"),
        (["--table", "t.csv", "--spec", "t.yaml", "--samples", "3"], "--samples takes a whole number"),
        (["--table", "t.csv", "--spec", "t.yaml", "--samples-format", "netcdf"], "parquet or csv"),
    ],
)
def test_wrong_command_lines_are_refused(dpbayes: Cli, arguments: list[str], message: str) -> None:
    done = dpbayes("infer", *arguments)
    assert (done.code, message in done.err) == (2, True), done.err


def test_nested_totals_hold_together(infer: Infer) -> None:
    spec = SPEC.replace("totals: [", "totals: [{total: 192}, {columns: [relapses], by: [clinic], total: 10}, ")
    document = infer(TABLE, spec, "--json").json
    assert {row["estimate"] for row in by_key(document, "relapses", "clinic").values()} == {10.0}


def test_suppressed_cells_that_are_listed(infer: Infer) -> None:
    table = "g,n\n" + "".join(f"{k},{'' if k % 3 else 10 + k}\n" for k in range(30))
    spec = (
        "keys: [g]\ncounts: [n]\nsuppressed_cells: empty\n"
        "noise: {law: discrete-gaussian, scale: 2, suppressed_below: 10}\ninfer: {counts: [n]}\n"
    )
    document = infer(table, spec, "--json").json
    cells = by_key(document, "n", "g")
    assert cells["1"]["high"] < 12
    assert cells["27"]["estimate"] == pytest.approx(37, abs=1)
    assert document["methods"]["prior of n"].startswith("P(c) proportional to")
    assert infer(table, spec.replace("suppressed_cells: empty\n", "")).code == 4
    assert "is below the stated suppressed_below" in infer(table.replace("0,10", "0,9"), spec).err
