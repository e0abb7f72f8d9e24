"""``dpbayes check``: what a file holds, what a spec would not read of it, and the remedy that works."""

from __future__ import annotations

import gzip
import shlex
from pathlib import Path

import pytest

from tests.conftest import Cli

RECORDS = [(age, "yes" if age % 3 else "no") for age in range(20, 80)] * 20
RATE = ("--model", "beta-bernoulli", "--column", "relapsed", "--success", "yes", "--failure", "no")
AGE = ("--model", "normal", "--column", "age", "--lower", "0", "--upper", "120")


def table(delimiter: str = ",", quote: str = "", yes: str = "yes", no: str = "no", header: str = "age,relapsed") -> str:
    """Return the records as text in a layout."""
    texts = {"yes": f"{quote}{yes}{quote}", "no": f"{quote}{no}{quote}"}
    lines = [header.replace(",", delimiter), *(f"{age}{delimiter}{texts[answer]}" for age, answer in RECORDS)]
    return "\n".join(lines) + "\n"


def check(dpbayes: Cli, *arguments: str) -> str:
    """Return what ``check`` prints, after it was seen to begin with the warning."""
    result = dpbayes("check", *arguments)
    assert result.code == 0, result.err
    assert result.out.startswith("NOT PRIVATE")
    return result.out


def test_check_describes_columns_and_suggests_a_spec(dpbayes: Cli, place: Path) -> None:
    (place / "a.csv").write_text(table(), encoding="utf-8")
    out = check(dpbayes, "a.csv")
    assert "a.csv: 1200 records, 2 columns, UTF-8" in out
    assert "age       whole numbers  20 to 79" in out
    assert "relapsed  2 values       yes (800), no (400)" in out
    document = dpbayes("check", "a.csv", "--json").json
    assert document["columns"][1]["commonest"] == [{"text": "yes", "records": 800}, {"text": "no", "records": 400}]
    assert not list(place.glob("*.sqlite")), "nothing is written"


FLAG_REMEDIES = {
    "semicolons": (table(";"), RATE, "--delimiter ';'"),
    "tabs": (table("\t"), RATE, "--delimiter tab"),
    "single quotes": (table(quote="'"), RATE, """--quote ''"'"''"""),
    "other codes": (table(yes="2", no="1"), RATE, "--success 2 --failure 1"),
    "German words": (table(yes="Ja", no="Nein"), RATE, "--success Ja --failure Nein"),
    "header in capitals": (table(header="AGE,RELAPSED"), RATE, "--column RELAPSED"),
}


@pytest.mark.parametrize("name", FLAG_REMEDIES)
def test_the_flags_that_check_names_lead_to_the_right_rate(name: str, dpbayes: Cli, place: Path) -> None:
    text, request, remedy = FLAG_REMEDIES[name]
    (place / "a.csv").write_text(text, encoding="utf-8")
    assert remedy in check(dpbayes, "a.csv", *request)
    result = dpbayes("release", "a.csv", *request, *shlex.split(remedy), "--eps", "3", "--json")
    assert result.json["posterior"]["theta"]["mean"] == pytest.approx(2 / 3, abs=0.03)


def test_check_names_files_that_must_be_converted(dpbayes: Cli, place: Path) -> None:
    text = table(header="âge,relapsed")
    (place / "w.csv").write_bytes(text.encode("cp1252"))
    (place / "u.csv").write_bytes(text.encode("utf-16"))
    (place / "b.csv").write_bytes(text.encode("utf-8-sig"))
    (place / "c.csv").write_text("# exported 2026-01-01\nSurvey\n" + table(), encoding="utf-8")
    (place / "d.csv").write_text(table().partition("\n")[2], encoding="utf-8")
    assert "iconv -f cp1252 -t utf-8 w.csv" in check(dpbayes, "w.csv")
    assert "iconv -f utf-16 -t utf-8 u.csv" in check(dpbayes, "u.csv")
    assert "byte-order mark" in (marked := check(dpbayes, "b.csv"))
    assert "what to do" not in marked
    assert "tail -n +3 c.csv" in check(dpbayes, "c.csv")
    assert "--no-header --columns column1,column2" in check(dpbayes, "d.csv")


@pytest.mark.parametrize(
    ("cell", "advice"),
    [
        ("1,5", "--decimal ,"),
        ("1,234.5", "--thousands ,"),
        ("1.234,5", "--thousands ."),
        ("'12'", "quotes"),
        ("2026-01-31", "dates are not numbers"),
        ("12 kg", "a unit"),
    ],
)
def test_check_says_why_numbers_are_not_read(cell: str, advice: str, dpbayes: Cli, place: Path) -> None:
    (place / "a.csv").write_text("age;x\n" + f"{cell};1\n" * 9, encoding="utf-8")
    out = check(dpbayes, "a.csv", *AGE, "--delimiter", ";")
    assert "age: the spec reads 0 of 9 cells" in out
    assert advice in out


def test_check_reads_parquet_and_compressed_files(dpbayes: Cli, place: Path) -> None:
    import duckdb

    (place / "a.csv").write_text(table(), encoding="utf-8")
    (place / "a.csv.gz").write_bytes(gzip.compress(table().encode()))
    duckdb.sql("COPY (FROM read_csv('a.csv', all_varchar=true)) TO 'a.parquet'")
    for name in ("a.csv.gz", "a.parquet"):
        assert "yes (800), no (400)" in check(dpbayes, name)


def test_check_refuses_what_is_not_one_file(dpbayes: Cli) -> None:
    assert dpbayes("check", "-").code == 4
    assert dpbayes("check", "missing.csv").code == 4
