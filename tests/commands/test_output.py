"""What commands print fits 80 columns, and IDs, times and hashes are never broken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpbayes_cli.commands import output
from dpbayes_cli.commands.output import fill_lines, shows_both_streams, table_lines
from tests.conftest import SAMPLE_DATA, Cli


def test_warnings_are_repeated_only_if_the_streams_go_to_different_places(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (place / "all").open("w") as one, (place / "all").open("a") as same, (place / "other").open("w") as other:
        monkeypatch.setattr("sys.stdout", one)
        monkeypatch.setattr("sys.stderr", same)
        together = shows_both_streams()
        monkeypatch.setattr("sys.stderr", other)
        apart = not shows_both_streams()
    assert together
    assert apart


def test_every_line_fits_80_columns(dpbayes: Cli, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("DPBAYES_LEDGER", "l.sqlite")
    (place / "clinic.csv").write_bytes((SAMPLE_DATA / "clinic.csv").read_bytes())
    request = ["--model", "beta-bernoulli", "--column", "relapse", "--success", "yes", "--failure", "no"]
    printed = ""
    for command in (
        ["budget", "open", "a-population-of-people-with-a-long-name", "--eps", "3", "--delta", "1e-6", "--gaussian"],
        ["release", "clinic.csv", *request, "--eps", "1", "--out", "out", "--purpose", "the " * 30],
        ["release", "clinic.csv", *request, "--eps", "1", "--out", "out"],
        ["release", "clinic.csv", *request, "--eps", "9"],
        ["release", "clinic.csv", *request, "--eps", "0.5", "--dry-run"],
        ["infer", "out", "--interval", "0.5"],
        ["verify", "out"],
        ["check", "clinic.csv"],
        ["budget", "show"],
        ["budget", "show", "-v"],
        ["budget", "history"],
        ["budget", "history", "clinic", "-v"],
        ["budget", "verify"],
        ["plan", *request[:2], "--eps", "1", "--records", "100", "--trials", "3", "--on-invalid", "impute:0"],
        ["models"],
        ["mechanisms"],
        ["explain", "normal"],
        ["release", "--help"],
        ["release", "clinic.csv", "--model", "beta-bernouli"],
    ):
        done = dpbayes(*command)
        lines = f"{done.out}\n{done.err}".splitlines()
        too_long = [line for line in lines if len(line) > 80 and str(place) not in line]  # paths are not broken
        assert not too_long, (command, too_long)
        printed += done.out + done.err
    release_id = re.search("^release +([0-9a-f]{16})$", printed, re.MULTILINE)
    assert release_id is not None
    assert printed.count(release_id[1]) >= 8
    assert len(re.findall(r"(?m)(?:^|\s)[0-9a-f]{64}$", printed)) >= 4
    assert len(re.findall(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", printed)) >= 8


def test_budget_show_is_one_line_an_account(dpbayes: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    totals = {"a": "--eps 3", "a-much-longer-name": "--eps 3 --delta 1e-6", "c": "--eps 1 --delta 1e-6 --gaussian"}
    for name, total in totals.items():
        dpbayes("budget", "open", name, *total.split())
    shown = dpbayes("budget", "show")
    head, *rows = shown.out.splitlines()
    assert [word in head for word in ("remaining", "of", "spent")] == [True] * 3
    assert [row.split()[0] for row in rows] == [*totals]
    assert max(map(len, [head, *rows])) <= 80
    assert shown.err == ""
    assert "a: a next release that costs at most" in dpbayes("budget", "show", "-v").err


def test_tables_leave_out_optional_columns_then_break_cells_then_become_paragraphs() -> None:
    columns, row = ["id", "empty", "what", "n"], ["f" * 16, "", "some words", "1,000"]
    assert table_lines(columns, [row, ["", "", "", "2"]], 80) == [
        "id                what            n",
        "ffffffffffffffff  some words  1,000",
        "                                  2",
    ]
    assert table_lines(columns, [row], 30, ["what"]) == ["id                    n", "ffffffffffffffff  1,000"]
    assert table_lines(columns, [row], 31)[1:] == ["ffffffffffffffff  some    1,000", "                  words"]
    assert table_lines(columns, [row], 20)[-3:] == ["ffffffffffffffff", "    some words", "    1,000"]


def test_words_are_never_broken_and_numbers_stay_with_their_percent_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    assert fill_lines("the interval ends at 34.5 % of x") == "the interval ends at\n34.5 % of x"
    assert fill_lines(f"the head {64 * 'f'}", 2) == f"the head\n  {64 * 'f'}"
    assert fill_lines("- a list of several long items") == "- a list of several long\n  items"


def test_invisible_marks_are_shown_in_messages_and_tables_and_kept_in_documents() -> None:
    assert output.printable("Ulm\u200b\x1b") == "Ulm\\u200b\\x1b"
    assert output.printable_lines("Ulm\u200b\n\x1b") == "Ulm\u200b\n\\x1b"
