"""``budget verify`` finds changed, missing and exchanged entries; a ledger cut short needs a receipt or an anchor."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from dpbayes_cli.base.errors import DpbayesError
from dpbayes_cli.ledger.chain import Entry
from dpbayes_cli.ledger.ledger import Ledger
from tests.conftest import Cli, often
from tests.ledger.ledgers import StoredLedger, change, labeled, marks, open_ledger, publish

ROWS = range(1, 9)


@pytest.fixture
def entries(ledger_path: Path, tmp_path: Path) -> list[Entry]:
    """The eight entries of a small ledger with an anchor."""
    ledger = open_ledger(ledger_path)
    ledger.anchor(tmp_path / "anchor", "")
    publish(ledger, labeled("a"))
    publish(ledger, labeled("b"))
    entries = ledger.entries()
    assert len(entries) == ROWS[-1]
    assert marks(tmp_path / "anchor")[-1] == (8, entries[-1].hash)
    return entries


@pytest.mark.faults
@pytest.mark.parametrize("row", often(ROWS, 3))
@pytest.mark.parametrize("part", ["body", "hash"])
def test_a_flipped_bit_is_found(row: int, part: str, entries: list[Entry], ledger_path: Path, dpbayes: Cli) -> None:
    text: str = getattr(entries[row - 1], part)
    whole = ledger_path.read_bytes()
    assert whole.count(text.encode()) == 1
    place = whole.index(text.encode()) + len(text) // 2
    for bit in (1, 0x80):
        ledger_path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        assert dpbayes("budget", "verify").code in {6, 7}
        assert dpbayes("budget", "open", "new", "--eps", "1").code == 6


@pytest.mark.parametrize("body", ["", "null", "[]", '{"sequence":3}', '"source":null', '"guarantee":[]'])
def test_a_malformed_body_is_a_finding_and_not_a_crash(
    body: str, entries: list[Entry], ledger_path: Path, dpbayes: Cli
) -> None:
    if body.startswith('"'):  # replace one field of a charge by a value of another type
        key, _, value = body.partition(":")
        body = json.dumps({**entries[2].fields, json.loads(key): json.loads(value)})
    change(ledger_path, f"UPDATE entries SET body = '{body}' WHERE sequence = 3")
    for command in (["show"], ["history"], ["history", "--json"], ["export"], ["open", "new", "--eps", "1"]):
        assert dpbayes("budget", *command).code == 6, command
    assert dpbayes("budget", "verify").code == 7


@pytest.mark.parametrize("row", often(ROWS, 3))
def test_a_ledger_cut_short_is_found_against_its_anchor(
    row: int, entries: list[Entry], ledger_path: Path, tmp_path: Path, dpbayes: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(ledger_path, f"DELETE FROM entries WHERE sequence >= {row}", "DELETE FROM payloads")
    monkeypatch.setenv("DPBAYES_ANCHOR", str(tmp_path / "anchor"))  # the first row is the one that configures it
    dpbayes("budget", "verify").exits(
        7, f"ends at entry {row - 1}, but its anchor" if row > 1 else "it has no entries, but its anchor"
    )
    assert dpbayes("budget", "open", "new", "--eps", "1").code == 6
    assert dpbayes("budget", "show").code == 6


def test_a_ledger_cut_short_is_found_against_a_receipt(dpbayes: Cli, coin: Path, ledger_path: Path) -> None:
    for i, name in enumerate(("one", "two")):
        printed = dpbayes("release", coin, "--model", "beta-bernoulli", "--eps", "1", "--samples", "10",
                          "--release-id", name, "--out", name, "--json", "-q")  # fmt: skip
        assert printed.json["receipt"]["sequence"] == 4 + 3 * i
        Path(f"{name}.json").write_text(printed.out)
    assert dpbayes("budget", "verify", "--receipt", "one", "--receipt", "two.json").code == 0
    for last in reversed(range(7)):
        change(ledger_path, f"DELETE FROM entries WHERE sequence > {last}")
        for receipt, entry in (("one", 2), ("two/release.json", 5), ("one.json", 4), ("two.json", 7)):
            done = dpbayes("budget", "verify", "--receipt", receipt)
            assert (f"entry {entry} of the receipt" in done.err) == (entry > last)


def test_a_ledger_cut_short_is_not_found_without_a_receipt(used: Ledger, stored: StoredLedger, dpbayes: Cli) -> None:
    stored.tamper(*(f"DELETE FROM {table} WHERE sequence > 4" for table in ("entries", "terms")))
    release_ids = {entry.fields["release_id"] for entry in used.entries() if entry.fields["kind"] == "reserved"}
    known = "', '".join(release_ids)
    stored.tamper(f"DELETE FROM payloads WHERE substr(release_id, 1, 16) NOT IN ('{known}')")
    dpbayes("budget", "verify", "--ledger", stored.place).exits(0, "only a receipt or an anchor would show")


def test_a_malformed_receipt_is_refused(dpbayes: Cli, entries: list[Entry]) -> None:
    receipt = Path("receipt")
    for content in ("", "[]", "{}", '{"ledger": {"sequence": "1", "hash": "x"}}', '{"receipt": {"sequence": 0}}',
                    "[" * 9999):  # fmt: skip
        receipt.write_text(content)
        assert dpbayes("budget", "verify", "--receipt", receipt).code == 7
    assert dpbayes("budget", "verify", "--receipt", "missing").code == 8
    for entry, code in ((entries[-1], 0), (entries[-2], 7)):
        receipt.write_text(json.dumps({"receipt": {"sequence": 8, "head": entry.hash}}))
        assert dpbayes("budget", "verify", "--receipt", receipt).code == code


@pytest.mark.faults
@pytest.mark.parametrize("seed", often(range(4), 4))
def test_a_byte_changed_anywhere_is_found_or_changes_nothing(
    seed: int, entries: list[Entry], ledger_path: Path, tmp_path: Path
) -> None:
    draw, whole = random.Random(seed), ledger_path.read_bytes()
    n_detected = 0
    for _ in range(120):
        content = bytearray(whole)
        content[draw.randrange(len(content))] ^= draw.randrange(1, 256)
        ledger_path.write_bytes(content)
        ledger = open_ledger(ledger_path, tmp_path / "anchor")
        try:
            findings, _state = ledger.findings()
            if not findings:
                assert ledger.entries() == entries
            n_detected += bool(findings)
        except DpbayesError:
            n_detected += 1
    assert n_detected >= 10
