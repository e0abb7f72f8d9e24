"""``dpbayes check``: what a file holds, what a spec would not read of it, and the remedy that works."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.sources.source import Source
from tests.conftest import Cli

AGE = ("--model", "normal", "--column", "age", "--lower", "0", "--upper", "120")


def check(dpbayes: Cli, *arguments: str) -> str:
    """Return what ``check`` prints, after it was seen to begin with the warning."""
    result = dpbayes("check", *arguments).exits(0)
    assert result.out.startswith("NOT PRIVATE")
    return result.out


PEOPLE = [(20 + k % 60, "yes" if k % 3 else "no", k * 13.25, f"{1940 + k % 60}") for k in range(120)]
RELAPSED = ("--model", "beta-bernoulli", "--column", "relapsed", "--success", "yes", "--failure", "no")
WEIGHT = ("--model", "normal", "--column", "weight", "--lower", "0", "--upper", "2000")
BORN = ("--model", "normal", "--column", "born", "--lower", "1900", "--upper", "2020")


def people(
    d: str = ",", q: str = "", head: str = "age,relapsed,weight,born", yes: str = "yes", no: str = "no",
    weight: str = "{}", born: str = "{}", pad: str = "",
) -> str:  # fmt: skip
    """Return the same people as a file in another layout."""
    lines = [head.replace(",", d)] if head else []
    for age, relapsed, kilograms, year in PEOPLE:
        answer = yes if relapsed == "yes" else no
        number = weight.format(kilograms) if weight != "comma" else str(kilograms).replace(".", ",")
        cells = (str(age), f"{q}{answer}{q}", number, born.format(year))
        lines.append(d.join(f"{pad}{cell}{pad}" for cell in cells))
    return "\n".join(lines) + "\n"


CLEAN = people()
Variant = tuple[bytes | str, tuple[str, ...], list[str]]
VARIANTS: dict[str, Variant] = {
    "semicolons": (people(";"), RELAPSED, ["--delimiter ';'"]),
    "tabs": (people("\t"), RELAPSED, ["--delimiter tab"]),
    "bars": (people("|"), RELAPSED, ["--delimiter '|'"]),
    "windows-1252": (
        people(head="âge,relapsed,weight,born").encode("cp1252"),
        RELAPSED,
        ["iconv -f cp1252 -t utf-8 a.csv > a-utf8.csv"],
    ),
    "utf-16": (CLEAN.encode("utf-16"), WEIGHT, ["iconv -f utf-16 -t utf-8 a.csv > a-utf8.csv"]),
    "byte-order mark": (people(head="relapsed,age,weight,born").encode("utf-8-sig"), WEIGHT, []),
    "single quotes": (people(q="'"), RELAPSED, ["""--quote "'\""""]),
    "double quotes between bars": (people("|", q='"'), RELAPSED, ["--delimiter '|'"]),
    "decimal commas": (people(";", weight="comma"), WEIGHT, ["--delimiter ';'", "--decimal ,"]),
    "quoted decimal commas": (CLEAN.replace(".25", ",25").replace(".5", ",5").replace(".75", ",75").replace(".0", ",0"),
                              WEIGHT, []),
    "thousands": (people(weight='"{:,}"'), WEIGHT, ["--thousands ,"]),
    "spaces between thousands": (people(";", weight="spaces"), WEIGHT, ["--delimiter ';'", "--thousands space"]),
    "duplicate header": (people(head="relapsed,relapsed,weight,born"), RELAPSED, ["--column 2"]),
    "header in capitals": (people(head="AGE,RELAPSED,WEIGHT,BORN"), RELAPSED, ["--column RELAPSED"]),
    "blanks in the header": (people(head="age , relapsed , weight,born"), RELAPSED, []),
    "comment above": ("# exported 2026-01-01\n\nSurvey\n" + CLEAN, RELAPSED, ["tail -n +4 a.csv > a-table.csv"]),
    "Yes and No": (people(yes="Yes", no="No"), RELAPSED, ["--success Yes --failure No"]),
    "classes 1 and 2": (people(yes="2", no="1"), RELAPSED, ["--success 2 --failure 1"]),
    "blanks around cells": (people(pad=" "), RELAPSED, []),
    "ISO dates": (
        people(born="{}-05-31"),
        BORN,
        ["sed -E 's/([0-9]{4})-[0-9]{1,2}-[0-9]{1,2}/\\1/g' a.csv > a-years.csv"],
    ),
    "dotted dates": (
        people(born="31.5.{}"),
        BORN,
        ["sed -E 's:[0-9]{1,2}[./][0-9]{1,2}[./]([0-9]{4}):\\1:g' a.csv > a-years.csv"],
    ),
    "second header": (CLEAN.replace("\n", "\nAge in years,Relapsed?,,Year of birth\n", 1), RELAPSED,
                      ["sed 2d a.csv > a-table.csv"]),
    "appended file": (
        CLEAN.replace("\n50,", "\nage,relapsed,weight,born\n50,", 1),
        RELAPSED,
        ["awk 'NR==1 {head=$0} NR==1 || $0!=head' a.csv > a-table.csv"],
    ),
    "no header": (
        people(head=""),
        (*RELAPSED[:2], "--column", "column2", *RELAPSED[4:]),
        ["--no-header --columns column1,column2,column3,column4"],
    ),
}  # fmt: skip
FAST = ("second header", "decimal commas", "duplicate header", "Yes and No", "utf-16")


@pytest.fixture
def read_exactly(dpbayes: Cli, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ExactEvidence]:
    """Return a function that gives the integers that a release reads; the release ends before it adds noise."""
    evidence: list[ExactEvidence] = []
    original = Source.statistics

    def statistics(*arguments: Any) -> ExactEvidence:
        evidence.append(original(*arguments))
        raise SourceError("the integers are known")

    monkeypatch.setattr(Source, "statistics", statistics)

    def read(file: str, *request: str) -> ExactEvidence:
        done = dpbayes("release", file, *request, "--eps", "1", "--out", f"{file}.out")
        assert "the integers are known" in done.err, done.err
        return evidence.pop()

    return read


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in VARIANTS]
)
def test_the_remedy_that_check_names_leads_to_the_right_answer(
    name: str, dpbayes: Cli, place: Path, read_exactly: Callable[..., ExactEvidence]
) -> None:
    content, request, remedies = VARIANTS[name]
    if name == "spaces between thousands":
        lines = [";".join((str(a), r, f"{w:,}".replace(",", " "), y)) for a, r, w, y in PEOPLE]
        content = "\n".join(["age;relapsed;weight;born", *lines]) + "\n"
    if name == "quoted decimal commas":
        lines = [f'{a},{r},"{w}",{y}'.replace(".", ",") for a, r, w, y in PEOPLE]
        content, remedies = "\n".join(["age,relapsed,weight,born", *lines]) + "\n", ["--decimal ,"]
    (place / "clean.csv").write_text(CLEAN, encoding="utf-8")
    file = place / "a.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    out, data, flags = check(dpbayes, "a.csv", *request), "a.csv", list[str]()
    for remedy in remedies:
        assert remedy in out, out
        if remedy.startswith("--"):
            flags += shlex.split(remedy)
        else:
            subprocess.run(remedy, shell=True, check=True, cwd=place)
            data = remedy.rpartition("> ")[2]
    clean = [("relapsed" if part in {"column2", "RELAPSED"} else part) for part in request]
    assert read_exactly(data, *request, *flags) == read_exactly("clean.csv", *clean)
    settled = check(dpbayes, data, *request, *flags)
    assert "120 of 120 cells can be read" in settled
    assert "cannot be read" not in settled


def test_check_describes_columns_of_text_compressed_and_parquet_files(dpbayes: Cli, place: Path) -> None:
    (place / "a.csv").write_text(CLEAN, encoding="utf-8")
    (place / "a.csv.gz").write_bytes(gzip.compress(CLEAN.encode()))
    duckdb.sql("COPY (FROM read_csv('a.csv', all_varchar=true)) TO 'a.parquet'")
    for name in ("a.csv", "a.csv.gz", "a.parquet"):
        assert "relapsed  2 values       yes (80), no (40)" in check(dpbayes, name)
    out = check(dpbayes, "a.csv")
    assert "a.csv: 120 records, 4 columns, UTF-8" in out
    assert "age       whole numbers  20 to 79" in out
    document = dpbayes("check", "a.csv", "--json").json
    assert document["columns"][1]["commonest"] == [{"text": "yes", "records": 80}, {"text": "no", "records": 40}]
    assert not list(place.glob("*.sqlite")), "nothing is written"


def test_check_says_once_which_flags_state_a_missing_domain(dpbayes: Cli, place: Path) -> None:
    (place / "a.csv").write_text(CLEAN, encoding="utf-8")
    out = " ".join(check(dpbayes, "a.csv", "--model", "gamma-poisson", "--column", "age").split())
    assert "the request is not complete; domain is missing; gamma-poisson needs --upper" in out
    assert "model: gamma-poisson" in out
    for line in (
        check(dpbayes, "a.csv", "--model", "naive-bayes").split("what to do")[1].split("a spec to")[0].split("\n")
    ):
        assert not line or line.startswith("  ")


def test_columns_are_named_by_position_only_if_that_cannot_be_mistaken(dpbayes: Cli, place: Path) -> None:
    (place / "a.csv").write_text("x,3,y\n1,0,0\n1,1,0\n", encoding="utf-8")
    (place / "b.csv").write_text("x,,x\n1,0,0\n1,1,0\n", encoding="utf-8")
    rate = ("--model", "beta-bernoulli", "--eps", "1")
    assert "of 2 cells" in check(dpbayes, "a.csv", *rate, "--column", "3")
    assert "cells can be read" in check(dpbayes, "a.csv", *rate, "--column", "3"), "the name wins"
    dpbayes("release", "a.csv", *rate, "--column", "1").exits(4, "no column '1'")
    assert "have column 2 = 1, yes or true" in dpbayes("release", "b.csv", *rate, "--column", "2").exits(0).out
    assert dpbayes("release", "b.csv", *rate, "--column", "4").code == 4
    assert "--column 1" in dpbayes("release", "b.csv", *rate, "--column", "x").err
    (place / "c.csv").write_text("x,,y\n1,0,0\n1,1,0\n", encoding="utf-8")
    # a person is never a position
    dpbayes("release", "c.csv", *rate, "--column", "1", "--unit", "3", "--ledger", "other.sqlite").exits(4)
    assert "column 2 has no name" in check(dpbayes, "b.csv")


def test_marks_that_cannot_work_are_refused(dpbayes: Cli, place: Path) -> None:
    (place / "a.csv").write_text("x\n1\n", encoding="utf-8")
    for flags in (["--thousands", "."], ["--decimal", ",", "--thousands", ","], ["--decimal", "x"],
                  ["--thousands", "'", "--quote", "'"]):  # fmt: skip
        assert dpbayes("release", "a.csv", *AGE, "--column", "x", "--eps", "1", *flags).code == 3


@pytest.mark.parametrize(("one", "two"), [("1", "2"), ("2", "1"), ("Female", "Male")])
def test_check_leaves_the_choice_of_the_success_to_the_user(one: str, two: str, dpbayes: Cli, place: Path) -> None:
    (place / "a.csv").write_text("sex\n" + f"{one}\n" * 3 + f"{two}\n", encoding="utf-8")
    low, high = sorted((one, two))
    said = check(dpbayes, "a.csv", *RELAPSED[:2], "--column", "sex", "--success", "yes", "--failure", "no")
    choice = f"--success {low} --failure {high} or --success {high} --failure {low}"
    assert f"decide which text you count: {choice}" in " ".join(said.split())
    assert f'value: "{low}"  # or "{high}": decide which one you count\n' in check(dpbayes, "a.csv")
    (place / "b.csv").write_text("x\n0\n0\n1\n", encoding="utf-8")
    assert check(dpbayes, "b.csv").split("domain:")[1].split()[:3] == ["success:", "{value:", '"1",']


def test_values_from_the_data_need_a_public_reason(dpbayes: Cli, place: Path) -> None:
    (place / "a.csv").write_text(people(";", weight="comma"), encoding="utf-8")
    header = dpbayes("spec", "init", "--from", "a.csv")
    assert (header.code, "public_reason" in header.out, re.search(r"\byes\b", header.out)) == (0, False, None)
    assert "columns: age, relapsed, weight, born" in header.out
    (place / "h.yaml").write_text(header.out.replace("age", "relapsed"), encoding="utf-8")
    assert dpbayes("release", "--spec", "h.yaml").code == 3, "a value that is left blank is not a default"
    spec = dpbayes("spec", "init", "--from", "a.csv", "--not-private", "--column", "relapsed").out
    assert 'success: {value: "yes", public_reason: null}\n' in spec
    reasons = ("null", "''", "' '", "the form has two boxes, and no more")
    for reason in reasons:
        (place / "s.yaml").write_text(spec.replace("null", reason), encoding="utf-8")
        for command in (["release"], ["plan", "--records", "120", "--trials", "2"], ["spec", "check", "s.yaml"]):
            arguments = command if "check" in command else [*command, "--spec", "s.yaml"]
            done = dpbayes(*arguments).exits(0 if reason == reasons[-1] else 3)
            assert done.code == 0 or "domain.failure" in done.err
    (place / "s.yaml").write_text(spec.replace("null", "the protocol, section 2"), encoding="utf-8")
    assert dpbayes("release", "--spec", "s.yaml").code == 0
    (bundle,) = place.glob("dpbayes-*")
    stored = json.loads((bundle / "release.json").read_text())["spec"]["public_reasons"]
    assert stored == dict.fromkeys(("domain.success", "domain.failure"), reasons[-1]), "another reason asks nothing new"
    assert dpbayes("verify", bundle).code == 0


def test_the_suggested_spec_of_a_regression_knows_its_target(dpbayes: Cli, place: Path) -> None:
    rows = "".join(f"{i},{20 + i % 50},{'FM'[i % 2]},{('no', 'yes')[i % 3 == 0]}\n" for i in range(120))
    (place / "a.csv").write_text(f"nr,age,sex,ill\n{rows}", encoding="utf-8")
    flags = ("--model", "logistic-regression", "--column", "ill")
    out = check(dpbayes, "a.csv", *flags)
    assert "fill in the spec below" in " ".join(out.split())
    spec = dpbayes("spec", "init", "logistic-regression", "--from", "a.csv", "--not-private", *flags[2:]).out
    assert "# left out, because each cell differs, as in IDs: nr\n" in spec
    (place / "s.yaml").write_text(spec.replace("null", "the protocol"), encoding="utf-8")
    domain = json.loads(dpbayes("spec", "check", "s.yaml", "--json").out)["spec"]["domain"]
    assert (domain["target"]["column"], domain["target"]["values"]) == ("ill", ["no", "yes"])
    assert sorted(domain["features"]) == ["age", "sex"]
    header = dpbayes("spec", "init", "logistic-regression", "--from", "a.csv").out
    assert all(f'"{name}":' in header for name in ("nr", "age", "sex", "ill")), "a header alone names no target"


def test_check_names_texts_that_differ_in_case_alone(dpbayes: Cli, place: Path) -> None:
    (place / "a.csv").write_text("x\n" + "ja\nJa\nNEIN\nnein\n" * 5, encoding="utf-8")
    assert "texts of 'x' differ in upper and lower case alone" in " ".join(check(dpbayes, "a.csv").split())


@pytest.mark.parametrize(
    ("cell", "advice"),
    [
        ("1,5", "--decimal ,"), ("1,234.5", "--thousands ,"), ("1.234,5", "--thousands ."), ("'12'", "quotes"),
        ("2026-01-31", "dates are not numbers"), ("12 kg", "a unit"),
    ],
)  # fmt: skip
def test_check_says_why_numbers_are_not_read(cell: str, advice: str, dpbayes: Cli, place: Path) -> None:
    (place / "a.csv").write_text("age;x\n" + f"{cell};1\n" * 9, encoding="utf-8")
    out = check(dpbayes, "a.csv", *AGE, "--delimiter", ";")
    assert "age: 0 of 9 cells can be read" in out
    assert advice in out


def test_check_counts_missing_values_and_numbers_beyond_the_bounds(dpbayes: Cli, place: Path) -> None:
    text = "id,visits\n" + "".join(f"{i},{('', -9, 3, 40)[i % 4]}\n" for i in range(400))
    (place / "a.csv").write_text(text)
    printed = check(dpbayes, "a.csv", "--model", "gamma-poisson", "--column", "visits", "--upper", "10")
    assert "all are empty: a release drops these records, unless --on-invalid impute:VALUE" in printed
    assert "100 below 0 and 100 above 10 are moved to the nearer bound" in printed
    assert "most numbers are beyond the bounds: these may be in another unit than the numbers" in printed
    alone = check(dpbayes, "a.csv")
    assert 'column: "visits"' in alone, "a column of IDs is not the likeliest one"
    (place / "b.csv").write_text(text + "400,3 kg\n401,many\n")
    assert "-9 to 40; 2 are no numbers" in check(dpbayes, "b.csv")
    assert "another column: dpbayes check a.csv --column NAME" in alone


def test_check_profiles_a_file_of_many_columns(dpbayes: Cli) -> None:
    names = [f"c{k}" for k in range(100)]
    cells = [["yes" if (k + row) % (k + 2) else "no" for k in range(100)] for row in range(30)]
    Path("wide.csv").write_text("\n".join(map(",".join, [names, *cells])) + "\n")
    columns = json.loads(dpbayes("check", "wide.csv", "--json").out)["columns"]
    assert [each["name"] for each in columns] == names
    counts = [{text: sum(line[k] == text for line in cells) for text in ("yes", "no")} for k in range(100)]
    assert [{top["text"]: top["records"] for top in each["commonest"]} for each in columns] == [
        {text: n for text, n in each.items() if n} for each in counts
    ]


def test_check_reads_windows_1252_and_names_the_conversion(dpbayes: Cli) -> None:
    Path("a.csv").write_bytes("age,note\n30,“fine”\n40,5 €\n".encode("cp1252"))
    printed = check(dpbayes, "a.csv")
    assert "5 € (1), “fine” (1)" in printed
    assert "iconv -f cp1252 -t utf-8 a.csv > a-utf8.csv" in printed


def test_check_reads_the_file_that_a_spec_names(dpbayes: Cli) -> None:
    Path("here").mkdir()
    Path("here/a.csv").write_text("x\n1\n0\n")
    Path("here/spec.yaml").write_text("{model: beta-bernoulli, data: a.csv, privacy: {epsilon: 1}}")
    assert "x: 2 of 2 cells can be read" in check(dpbayes, "--spec", "here/spec.yaml")
    dpbayes("check", "--model", "beta-bernoulli").exits(2, "no file is named")


def test_check_reads_the_records_that_release_reads(dpbayes: Cli) -> None:
    """Mixed line ends, a carriage return in a cell and a stray quote concern their own lines alone."""
    Path("a.csv").write_bytes(b'x,y\n1,a\r\n2,b,c\n3,d"e\n4,f\rg\n"5","h,i"\n6,"j\nk"\n7,l\n')
    printed = " ".join(check(dpbayes, "a.csv").split())
    assert "a.csv: 4 records" in printed
    assert "some lines end with CR LF, others with LF" in printed
    assert "4 of the lines cannot be split into the fields of the header" in printed
    assert "the first is line 3" in printed
    Path("b.csv").write_bytes(b'x,y\n1,a\n2,b,c\n6,"j\nk"\n')
    assert dpbayes("check", "b.csv", "--json").json["wrong_lines"] == 3
    assert dpbayes("check", "b.csv", "--json", "--quoted-newlines").json["wrong_lines"] == 1
    Path("c.csv").write_bytes(b"x\n1\n\n2\n")  # an empty line is a record with an empty cell
    assert "c.csv: 3 records" in check(dpbayes, "c.csv")


def test_a_suggested_network_lists_texts_as_values_and_leaves_the_cuts_of_numbers_open(dpbayes: Cli) -> None:
    Path("a.csv").write_text(people())
    suggested = check(dpbayes, "a.csv", "--model", "naive-bayes").split("a spec to start from")[1]
    spec = yaml.safe_load(
        "\n".join(line[2:] for line in suggested.partition("\nonce")[0].splitlines()[1:] if line.startswith("  "))
    )
    variables = spec["domain"]["variables"]
    assert variables["relapsed"] == {"values": {"value": ["no", "yes"], "public_reason": None}}
    assert variables["weight"] == {"cuts": []}


def test_few_texts_are_counted_exactly_and_a_missing_cell_does_not_hide_an_id(dpbayes: Cli) -> None:
    lines = [f"{3234973379 + 7 * k},{'abcde'[k % 5]},{k % 40}" for k in range(60)]
    Path("a.csv").write_text("\n".join(["respondent,group,visits", ",Response,", *lines]) + "\n")
    printed = check(dpbayes, "a.csv")
    assert re.search(r"^group +6 texts ", printed, re.MULTILINE)
    assert 'column: "group"' in printed


@pytest.mark.parametrize(("rare", "is_named"), [(40, True), (4, False)])
def test_counts_that_vary_more_than_the_model_assumes_are_named(dpbayes: Cli, rare: int, is_named: bool) -> None:
    """Nine people in ten had 2 visits, one had ``rare``: the means are 5.8 and 2.2, the variances 130 and 0.4."""
    Path("a.csv").write_text("visits\n" + f"2\n2\n2\n2\n2\n2\n2\n2\n2\n{rare}\n" * 30)
    printed = check(dpbayes, "a.csv", "--model", "gamma-poisson", "--upper", "100")
    said = "variance of the numbers is 130; gamma-poisson takes it to be 5.8, so its intervals are up to 4.7 times too"
    assert (said in " ".join(printed.split())) == is_named
    assert ("vari" in printed) == is_named
    assert "variance" not in check(dpbayes, "a.csv", "--model", "normal", "--lower", "0", "--upper", "100")


def test_a_frequent_number_beyond_the_bounds_may_stand_for_a_missing_value(dpbayes: Cli, place: Path) -> None:
    (place / "a.csv").write_text("x\n" + "5\n7\n-99\n" * 20 + "11\n", encoding="utf-8")
    stated = ["--model", "normal", "--lower", "0", "--upper", "10"]
    shown = " ".join(dpbayes("check", "a.csv", *stated).out.split())
    assert "20 below 0 and 1 above 10 are moved to the nearer bound 20 of these are -99; if it stands for" in shown
    (place / "b.csv").write_text("x\n" + "".join(f"{n}\n" for n in range(100)), encoding="utf-8")
    assert "stands for" not in dpbayes("check", "b.csv", *stated).out


def test_check_reads_the_header_as_a_release_with_the_same_flags(dpbayes: Cli, place: Path) -> None:
    header = ";".join(f'"{name}"' for name in ("age", "relapsed", "weight", "born"))
    text = people(";", q="'", weight="comma", head="", born='"{}"')
    (place / "a.csv").write_text(f"{header}\n{text}", encoding="utf-8")
    flags = [*RELAPSED, "--delimiter", ";"]
    out = check(dpbayes, "a.csv", *flags)
    assert """--quote "'" --column 2""" in out, "the header has no name without quotes"
    assert "two texts of the column" not in out, "the texts are right once the quotes are read"
    assert "--decimal" not in out, "no number is asked for"
    refused = check(dpbayes, "a.csv", *flags, "--quote", "'")
    reason = "the header has no column 'relapsed'"
    assert f"a release with these flags refuses the file: {reason}" in " ".join(refused.split())
    assert "120 of 120 cells could be read" in refused
    assert reason in dpbayes("release", "a.csv", *flags, "--quote", "'", "--eps", "1").exits(4).err
    settled = check(dpbayes, "a.csv", *flags, "--quote", "'", "--column", "2")
    assert "120 of 120 cells can be read" in settled
    assert "quoted by" not in settled


def test_check_counts_cells_that_are_not_utf8_as_a_release_does(dpbayes: Cli, place: Path) -> None:
    (place / "a.csv").write_bytes(("x\n" + "süd\nnord\nsüd\n" * 100).encode("cp1252"))
    request = ("a.csv", "--model", "beta-bernoulli", "--column", "x", "--success", "nord", "--failure", "süd")
    assert "x: 100 of 300 cells can be read" in check(dpbayes, *request)
    result = " ".join(dpbayes("release", *request, "--eps", "3").exits(0).out.split())
    assert "Valid cells hold 'nord' or 'süd'. dpbayes check FILE shows the cells that cannot be read" in result
    assert "If the file is not UTF-8, cells with letters such as ä cannot be read." in result


def test_the_only_column_that_suits_a_model_is_checked(dpbayes: Cli, place: Path) -> None:
    """Without the advice about its texts, a release would take all people of class 2 for invalid, and be paid for."""
    (place / "a.csv").write_text("days,status,age\n" + "10,1,40\n25,1,51\n31,2,63\n" * 20)
    shown = " ".join(check(dpbayes, "a.csv", "--model", "beta-bernoulli").split())
    assert "--success 1 --failure 2 or --success 2 --failure 1" in shown
    assert "name the column that the model reads: --column status" in shown
    (place / "b.csv").write_text("status,group\n" + "1,1\n2,1\n1,2\n" * 20)
    assert "--column NAME, and check that column too" in check(dpbayes, "b.csv", "--model", "beta-bernoulli")


@pytest.mark.parametrize(("name", "times", "is_told"), [
    ("patient_id", 3, True), ("individual", 3, True), ("patient_id", 1, False), ("paid", 3, False),
    ("members", 40, False),
])  # fmt: skip
def test_the_flags_for_an_id_that_repeats_are_named(
    dpbayes: Cli, place: Path, name: str, times: int, is_told: bool
) -> None:
    (place / "v.csv").write_text(f"{name},x\n" + "".join(f"{100 + k // times},{k % 2}\n" for k in range(120)))
    flags = ["--unit", name, "--max-contributions", str(times)]
    assert (" ".join(flags) in check(dpbayes, "v.csv")) == is_told
    request = ["v.csv", "--model", "beta-bernoulli", "--column", "x"]
    assert (" ".join(flags) in check(dpbayes, *request, "--eps", "1")) == is_told
    assert not any(
        "--unit" in each for each in dpbayes("check", *request, "--eps", "1", *flags, "--json").json["advice"]
    )


def test_the_column_of_a_release_by_groups_has_the_advice_that_it_has_alone(place: Path, dpbayes: Cli) -> None:
    (place / "births.csv").write_text("habit,birth\n" + "smoker,early\nnonsmoker,full term\n,full term\n" * 9)
    (place / "habits.txt").write_text("smoker\nnonsmoker\n")
    by = ("--column", "birth", "--by", "habit", "--groups", "habits.txt")
    told = " ".join(dpbayes("check", "births.csv", "--model", "beta-bernoulli", *by).exits(0).out.split())
    assert "--success early --failure 'full term' or --success 'full term' --failure early" in told
    assert "habit: 18 of 27 cells can be read cannot be read: (empty) (9) all are empty: these records count in" in told


def test_counts_near_zero_are_not_sent_to_a_normal_law(place: Path, dpbayes: Cli) -> None:
    (place / "visits.csv").write_text("visits,age\n" + "0,30\n0,40\n0,41\n0,50\n0,60\n0,62\n1,70\n6,81\n" * 5)
    profiles = dpbayes("check", "visits.csv", "--json").exits(0).json["columns"]
    assert [each["model"] for each in profiles] == ["gamma-poisson", "normal"]
    first = " ".join(dpbayes("check", "visits.csv").exits(0).out.replace("\\", "").split())
    assert "--column visits --lower LOWER --upper UPPER --out-of-bounds recorded" in first, "as with --column"
    column = ("check", "visits.csv", "--column", "visits")
    counted = dpbayes(*column, "--model", "gamma-poisson", "--upper", "10").exits(0).out
    assert "times too narrow" in counted
    assert "--model normal --lower LOWER --upper UPPER --out-of-bounds recorded" in " ".join(counted.split())
    normal = " ".join(dpbayes(*column, "--model", "normal", "--lower", "0", "--upper", "10").exits(0).out.split())
    assert "a normal law does not fit them" in normal
    as_recorded = ("--model", "normal", "--lower", "0", "--upper", "10", "--out-of-bounds", "recorded")
    assert "normal law" not in dpbayes(*column, *as_recorded).exits(0).out


def test_the_release_that_check_prints_is_right(place: Path, dpbayes: Cli) -> None:
    (place / "my-births.csv").write_text(
        "nr;birth;weight\n" + "1;full term;3.5\n2;too early;2.1\n3;full term;3.1\n" * 40
    )
    shown = dpbayes("check", "my-births.csv", "--column", "birth").exits(0).out
    _, line = shown.split("or without a spec:\n")
    line = line.partition("\nother questions")[0].replace("\\\n", "")
    released = dpbayes(*shlex.split(line)[1:], "--json").exits(0).json
    assert 0.4 < released["posterior"]["theta"]["mean"] < 0.9, "false-fail rate below 1e-9"
    shown = " ".join(dpbayes("check", "my-births.csv", "--column", "weight").exits(0).out.replace("\\", "").split())
    assert "--column weight --delimiter ';' --lower LOWER --upper UPPER" in shown


def test_check_leads_from_a_column_to_its_regression_and_from_a_spec_to_its_plan(place: Path, dpbayes: Cli) -> None:
    (place / "my births.csv").write_text("birth,weight,sex\n" + "full,3.5,f\nearly,2.1,m\nfull,3.1,f\n" * 40)
    shown = dpbayes("check", "my births.csv", "--column", "birth").exits(0).out
    (command,) = re.findall(r"how birth depends on other columns:\s+(dpbayes check .*)", shown)
    suggested = dpbayes(*shlex.split(command)[1:], "--json").exits(0).json["spec"]
    confirmed = suggested.replace("public_reason: null", "public_reason: a test")
    (place / "my spec.yaml").write_text(confirmed)
    shown = dpbayes("check", "--spec", "my spec.yaml").exits(0).out
    (command,) = re.findall("dpbayes plan .*", shown)
    assert "--records 120" in command
    assert "beta[weight]" in dpbayes(*shlex.split(command)[1:], "--trials", "2").exits(0).out
    assert "dpbayes plan" not in dpbayes("check", "my births.csv", "--column", "sex").exits(0).out
    (place / "my spec.yaml").write_text(confirmed.replace("weight", "height"))
    assert "dpbayes plan" not in dpbayes("check", "--spec", "my spec.yaml").exits(0).out, "a release would be refused"


def test_check_says_which_numbers_are_better_texts_or_have_wide_bounds(place: Path, dpbayes: Cli) -> None:
    (place / "a.csv").write_text(
        "y,any,gain,age\n"
        + "no,0,0,30.5\nyes,1,0,41\nno,1,7.5,52\nno,0,0,63\nno,1,0,3\nyes,0,2,9\nno,0,0,8\nno,0,0,7\n" * 9
    )
    features = "any: {lower: 0, upper: 1}, gain: {lower: 0, upper: 9}, age: {lower: 0, upper: 100}"
    head = "model: logistic-regression\ndata: a.csv\nprivacy: {epsilon: 1, delta: 1e-6}\ndomain:\n"
    spec = f"{head}  features: {{{features}}}\n  target: {{column: y, values: [no, yes]}}\n"
    (place / "s.yaml").write_text(spec)
    checked = dpbayes("check", "--spec", "s.yaml", "--json").exits(0).json["checked"]
    advice = {each["name"]: " ".join(each["advice"]) for each in checked}
    assert advice["any"] == 'it holds two values: {values: ["0", "1"]} suits it better than bounds'
    assert (advice["gain"], advice["age"], advice["y"]) == ("", "", "")
    (place / "s.yaml").write_text(spec.replace("100", "200"))
    checked = dpbayes("check", "--spec", "s.yaml", "--json").exits(0).json["checked"]
    assert "if public knowledge allows closer ones" in " ".join(checked[0]["advice"])
    assert checked[0]["name"] == "age"
    suggested = dpbayes("check", "a.csv", "--model", "logistic-regression", "--column", "y", "--json").json["spec"]
    assert '"any": {values: {value: ["0", "1"], public_reason: null}}' in suggested
    assert "lower: {value: 3, public_reason: null}" in suggested


def test_check_says_what_clamping_changes(place: Path, dpbayes: Cli) -> None:
    (place / "a.csv").write_text("x\n" + "1\n2\n3\n20\n1\n2\n3\n40\n")
    shown = " ".join(check(dpbayes, "a.csv", "--model", "normal", "--lower", "0", "--upper", "10").split())
    assert "mean 4 and standard deviation 3.78, but as recorded mean 9 and standard deviation 14.04" in shown
    assert "as recorded mean" not in check(dpbayes, "a.csv", "--model", "normal", "--lower", "0", "--upper", "39.9")


def test_huge_numbers_do_not_end_a_check(place: Path, dpbayes: Cli) -> None:
    (place / "a.csv").write_text("x\n" + "1\n2\n1e200\n-1e308\n3\n1.5e308\n")
    shown = " ".join(check(dpbayes, "a.csv", "--model", "normal", "--lower", "0", "--upper", "10").split())
    assert "1 below 0 and 2 above 10 are moved to the nearer bound" in shown
    assert "as recorded" not in shown
    assert "x whole numbers -1e+308 to 1.5e+308" in " ".join(check(dpbayes, "a.csv", "--column", "x").split())


def test_check_says_that_texts_beside_yes_and_no_are_dropped(place: Path, dpbayes: Cli) -> None:
    (place / "votes.csv").write_text("vote\n" + "Y\nN\nU\nY\nN\nA\n" * 9)
    shown = " ".join(dpbayes("check", "votes.csv", "--model", "beta-bernoulli").exits(0).out.split())
    assert "are neither of the two: their records are dropped, and the result is about the others" in shown
    assert "--model dirichlet-categorical --categories A,N,U,Y" in shown


def test_check_names_the_law_of_any_numbers_although_decimals_are_commas(place: Path, dpbayes: Cli) -> None:
    (place / "pay.csv").write_text("pay;region\n" + "1,5;a\n2,5;b\n1,1;a\n2,2;b\n1,7;a\n90,5;b\n" * 9)
    for more in ((), ("--model", "normal"), ("--by", "region")):
        shown = " ".join(dpbayes("check", "pay.csv", "--column", "pay", *more).exits(0).out.replace("\\", "").split())
        assert "--lower LOWER --upper UPPER --out-of-bounds recorded" in shown


def test_check_keeps_the_groups_and_warns_at_once_of_counts_that_vary_much(place: Path, dpbayes: Cli) -> None:
    (place / "visits.csv").write_text("ward,visits\n" + "a,0\nb,0\na,0\nb,0\na,1\nb,9\n" * 9)
    shown = " ".join(dpbayes("check", "visits.csv", "--column", "visits", "--by", "ward").exits(0).out.split())
    assert 'by: column: "ward" file: ""' in shown
    assert "--out-of-bounds recorded --by ward --groups FILE --eps 1" in shown.replace("\\ ", "")
    assert "times too narrow" in shown
    alone = " ".join(dpbayes("check", "visits.csv", "--column", "visits").exits(0).out.replace("\\", "").split())
    assert "--model normal --column visits --lower LOWER --upper UPPER --out-of-bounds recorded --eps 1" in alone
    assert "one result for each text of ward: --by ward --groups FILE" in alone
    assert "each text of ward" not in shown
    written = dpbayes("spec", "init", "--from", "visits.csv", "--not-private", "--column", "visits").exits(0).out
    assert 'out_of_bounds: "recorded"' in written


def test_a_feature_of_texts_and_a_few_numbers_is_suggested_as_texts(dpbayes: Cli, place: Path) -> None:
    """With bounds, most of its cells would be invalid."""
    (place / "a.csv").write_text("ill,asked\n" + "yes,none\nno,some\nno,2\n" * 20)
    shown = dpbayes("check", "a.csv", "--model", "logistic-regression", "--column", "ill").exits(0).out
    assert 'value: ["2", "none", "some"]' in shown
