"""Verification finds flipped, deleted, exchanged and missing rows, whichever row it is."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from dpbayes_cli.base.errors import DpbayesError
from dpbayes_cli.ledger.chain import Entry
from tests.conftest import Cli
from tests.ledger.kept_books import changed, finish, lines, open_book

ROWS = range(1, 9)


@pytest.fixture
def book(ledger_path: Path, tmp_path: Path) -> list[Entry]:
    """A small ledger with an anchor and eight entries."""
    ledger = open_book(ledger_path)
    ledger.anchor(tmp_path / "anchor", "")
    finish(ledger, "a")
    finish(ledger, "b")
    assert len(ledger.entries()) == ROWS[-1]
    return ledger.entries()


def flip_in_the_file(path: Path, text: str, bit: int = 1) -> None:
    """Change one bit in the middle of a text that occurs once in the file."""
    content = bytearray(path.read_bytes())
    assert content.count(text.encode()) == 1
    content[content.index(text.encode()) + len(text) // 2] ^= bit
    path.write_bytes(content)


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("bit", [1, 0x80])
def test_a_flipped_bit_is_found(row: int, bit: int, book: list[Entry], ledger_path: Path, dpbayes: Cli) -> None:
    flip_in_the_file(ledger_path, book[row - 1].body, bit)
    assert dpbayes("budget", "verify").code in {6, 7}
    assert dpbayes("budget", "open", "new", "--eps", "1").code == 6


@pytest.mark.parametrize("row", ROWS)
def test_a_flipped_bit_of_a_hash_is_found(row: int, book: list[Entry], ledger_path: Path, dpbayes: Cli) -> None:
    flip_in_the_file(ledger_path, book[row - 1].hash)
    done = dpbayes("budget", "verify")
    assert done.code == 7
    assert f"entry {row} does not follow" in done.err


@pytest.mark.parametrize("body", ["", "null", "[]", '{"sequence":3}', '"source":null', '"guarantee":[]'])
def test_a_malformed_body_is_a_finding_and_not_a_crash(
    body: str, book: list[Entry], ledger_path: Path, dpbayes: Cli
) -> None:
    if body.startswith('"'):  # one field of a charge is of another type
        key, _, value = body.partition(":")
        body = json.dumps({**book[2].fields, json.loads(key): json.loads(value)})
    changed(ledger_path, f"UPDATE entries SET body = '{body}' WHERE sequence = 3")
    for command in (["show"], ["history"], ["history", "--json"], ["export"], ["open", "new", "--eps", "1"]):
        assert dpbayes("budget", *command).code == 6, command
    assert dpbayes("budget", "verify").code == 7


@pytest.mark.parametrize("row", ROWS)
def test_a_deleted_row_is_found(row: int, book: list[Entry], ledger_path: Path, dpbayes: Cli) -> None:
    changed(ledger_path, f"DELETE FROM entries WHERE sequence = {row}")
    done = dpbayes("budget", "verify")
    assert done.code == 7
    assert (f"entry {row} is missing" if row < ROWS[-1] else "ends at entry 7, but its anchor") in done.err
    assert dpbayes("budget", "open", "new", "--eps", "1").code == 6


@pytest.mark.parametrize("row", ROWS[:-1])
def test_exchanged_rows_are_found(row: int, book: list[Entry], ledger_path: Path, dpbayes: Cli) -> None:
    changed(
        ledger_path,
        f"UPDATE entries SET sequence = -1 WHERE sequence = {row}",
        f"UPDATE entries SET sequence = {row} WHERE sequence = {row + 1}",
        f"UPDATE entries SET sequence = {row + 1} WHERE sequence = -1",
    )
    assert dpbayes("budget", "verify").code == 7
    assert dpbayes("budget", "open", "new", "--eps", "1").code == 6


@pytest.mark.parametrize("row", ROWS)
def test_a_ledger_cut_short_is_found_against_its_anchor(
    row: int, book: list[Entry], ledger_path: Path, tmp_path: Path, dpbayes: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(ledger_path, f"DELETE FROM entries WHERE sequence >= {row}", "DELETE FROM payloads")
    monkeypatch.setenv("DPBAYES_ANCHOR", str(tmp_path / "anchor"))  # the first row is the one that configures it
    done = dpbayes("budget", "verify")
    assert done.code == 7
    assert f"ends at entry {row - 1}, but its anchor" in done.err
    assert dpbayes("budget", "open", "new", "--eps", "1").code == 6
    assert dpbayes("budget", "show").code == 6


@pytest.mark.parametrize("last", range(7))
def test_a_ledger_cut_short_is_found_against_a_receipt(last: int, dpbayes: Cli, coin: Path, ledger_path: Path) -> None:
    for i, name in enumerate(("one", "two")):
        printed = dpbayes("release", coin, "--model", "beta-bernoulli", "--eps", "1", "--samples", "10",
                          "--release-id", name, "--out", name, "--json", "-q")  # fmt: skip
        assert printed.json["receipt"]["sequence"] == 4 + 3 * i
        Path(f"{name}.json").write_text(printed.out)
    assert dpbayes("budget", "verify", "--receipt", "one", "--receipt", "two.json").code == 0
    changed(ledger_path, f"DELETE FROM entries WHERE sequence > {last}")
    for receipt, entry in (("one", 2), ("two/release.json", 5), ("one.json", 4), ("two.json", 7)):
        done = dpbayes("budget", "verify", "--receipt", receipt)
        assert (f"entry {entry} of the receipt" in done.err) == (entry > last)


def test_a_malformed_receipt_is_refused(dpbayes: Cli, book: list[Entry]) -> None:
    for content in (
        "",
        "[]",
        "{}",
        '{"ledger": {"sequence": "1", "hash": "x"}}',
        '{"receipt": {"sequence": 0}}',
        "[" * 9999,
    ):
        Path("receipt").write_text(content)
        assert dpbayes("budget", "verify", "--receipt", "receipt").code == 7
    assert dpbayes("budget", "verify", "--receipt", "missing").code == 8
    Path("receipt").write_text(json.dumps({"receipt": {"sequence": 8, "head": book[-1].hash}}))
    assert dpbayes("budget", "verify", "--receipt", "receipt").code == 0
    Path("receipt").write_text(json.dumps({"receipt": {"sequence": 8, "head": book[-2].hash}}))
    assert dpbayes("budget", "verify", "--receipt", "receipt").code == 7


@pytest.mark.parametrize("seed", range(4))
def test_a_byte_changed_anywhere_is_found_or_changes_nothing(
    seed: int, book: list[Entry], ledger_path: Path, tmp_path: Path
) -> None:
    draw, whole = random.Random(seed), ledger_path.read_bytes()
    n_detected = 0
    for _ in range(120):
        content = bytearray(whole)
        place = draw.randrange(len(content))
        content[place] ^= draw.randrange(1, 256)
        ledger_path.write_bytes(content)
        ledger = open_book(ledger_path, tmp_path / "anchor")
        try:
            findings, _state = ledger.findings()
            if not findings:
                assert ledger.entries() == book
            n_detected += bool(findings)
        except DpbayesError:
            n_detected += 1
    assert n_detected >= 10


def test_the_lines_of_the_anchor_are_entries_of_the_ledger(book: list[Entry], tmp_path: Path) -> None:
    assert lines(tmp_path / "anchor")[-1] == (8, book[-1].hash)
