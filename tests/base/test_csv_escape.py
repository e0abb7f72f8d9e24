"""Names and labels that a spreadsheet, a browser or a terminal would run."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from dpbayes_cli.base.cell_grammar import check_levels
from dpbayes_cli.base.csv_escape import csv_text
from dpbayes_cli.commands.output import printable, printable_lines
from tests.conftest import Cli, often

FORMULAS = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\tx", "\uff1d1+1", "=1"]
PLAIN = ["", "-", "+", "=", "-1.5", "+2", "-1e-300", "-inf", "nan", "a=b", "1-2", "<b>", "x'", "'"]


def test_csv_text_escapes_formulas_and_changes_nothing_else() -> None:
    texts = [*FORMULAS, *PLAIN, "'=1", "''", "'quoted'"]
    rows = [*csv.reader(io.StringIO(csv_text([text, 1.5] for text in texts), newline=""))]
    cells = dict(zip(texts, [row[0] for row in rows], strict=True))
    assert {row[1] for row in rows} == {"1.5"}
    assert all(cells[text] == f"'{text}" for text in FORMULAS)
    assert all(cells[text] == text for text in PLAIN)
    read_back = [cell[1:] if len(cell) > 1 and cell.startswith("'") else cell for cell in cells.values()]
    assert read_back == texts


NETWORK = {
    "model": "bayes-net",
    "privacy": {"epsilon": "1"},
    "domain": {
        "variables": {
            "=x": {"values": ["=1+1", "@b"], "impute": "@b"},
            "+y": {"values": ["-a+1", "<script>alert(1)</script>"], "impute": "-a+1", "parents": ["=x"]},
        }
    },
    "inference": {"samples": "50", "format": "csv"},
}


@pytest.mark.usefixtures("without_figures")
def test_no_file_of_a_bundle_runs_anything(dpbayes: Cli, place: Path) -> None:
    (place / "net.csv").write_text("=x,+y\n=1+1,-a+1\n@b,<script>alert(1)</script>\n")
    (place / "net.yaml").write_text(json.dumps(NETWORK))
    done = dpbayes("release", "net.csv", "--spec", "net.yaml", "--out", "out")
    assert done.code == 0, done.err
    assert dpbayes("predict", "out", "net.csv", "--target", "+y", "--out", "predicted.csv").code == 0
    n_escaped = 0
    for path in (*Path("out").glob("*.csv"), Path("predicted.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.reader(file):
                n_escaped += sum(cell.startswith("'") for cell in row)
                assert not any(cell[:1] in {"=", "@"} for cell in row)
                assert all(cell == "-" or cell[:1] not in {"+", "-"} or float(cell) is not None for cell in row)
    assert n_escaped >= 8
    assert dpbayes("report", "out", "--format", "html", "--out", "page.html").code == 0
    for shown in (Path("page.html").read_text(), Path("out/report.md").read_text().replace("\\<", "&lt;")):
        assert "<script" not in shown
    again = dpbayes("release", "net.csv", "--spec", "net.yaml", "--out", "out", "--json").json
    assert again["replayed"]


CONTROL_CHARACTERS = ["a\x1b[31mb", "a\x9b31mb", "a\u202eb", "a\u2066b", "a\x7fb", "a\u2028b", "a\nb"]


@pytest.mark.parametrize("text", often(CONTROL_CHARACTERS, 3))
def test_control_characters_in_levels_and_names_are_refused(text: str, dpbayes: Cli, coin: Path) -> None:
    with pytest.raises(ValueError, match="control character"):
        check_levels([text, "z"])
    assert text not in printable(text)
    for options in (["--column", text], ["--success", text], ["--categories", f"{text},b"], ["--dataset", text]):
        done = dpbayes("release", coin, "--model", "beta-bernoulli", "--eps", "1", *options)
        assert done.code in {2, 3}
        assert text not in done.err


def test_control_characters_in_paths_are_printed_as_escapes(dpbayes: Cli, coin: Path, place: Path) -> None:
    evil = "\x1b[31m\u202eout"
    done = dpbayes("release", coin, "--model", "beta-bernoulli", "--eps", "1", "--out", evil)
    assert done.code == 0
    assert (place / evil).is_dir()
    for arguments in (
        ["release", f"{evil}.csv", "--model", "beta-bernoulli"], ["report", evil, "--out", evil],
        ["release", f"--{evil}"], ["release", coin, evil, "--model", "beta-bernoulli"], [evil],
    ):  # fmt: skip
        done = dpbayes(*arguments)
        assert done.code in {2, 3, 4, 8}
        assert "\\u202eout" in done.err
        assert "\x1b" not in done.out + done.err
        assert "\u202e" not in done.out + done.err


def test_printable_lines_keeps_line_feeds_and_tabs() -> None:
    assert printable_lines("a\tb\nc\n") == "a\tb\nc\n"
    assert printable_lines("a\tb\n\x1bc\n") == "a\tb\n\\x1bc\n"


def test_account_and_release_names_like_formulas_are_refused(dpbayes: Cli, coin: Path) -> None:
    request = ["release", coin, "--model", "beta-bernoulli", "--eps", "1"]
    for mark in ("=", "+", "-", "@", "\t", "'"):
        assert dpbayes(*request, f"--dataset={mark}x").code == 3
        assert dpbayes(*request, f"--release-id={mark}x").code == 2
        assert dpbayes("budget", "open", "--eps", "1", "--", f"{mark}x").code == 3
