"""A command that was killed after its commit and is repeated reports that it is done, and writes nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger.upkeep import back_up, existing_backup, salvage
from tests.conftest import Cli
from tests.ledger.ledgers import change, damage, labeled, open_ledger, publish

UNION = ["--eps", "3", "--delta", "1e-6", "--unit", "who"]


def test_a_repeated_account_command_appends_no_second_entry(dpbayes: Cli, tmp_path: Path) -> None:
    said = [
        ["open", "a", *UNION],
        ["open", "b", "--eps", "1", "--separate-population", "--reason", "men"],
        ["amend", "a", "--eps", "5", "--reason", "more"],
        ["amend", "b", "--separate-population", "--reason", "men"],
        ["limit", "a", "ada", "--eps", "1", "--reason", "hers"],
        ["limit", "a", "bob", "--eps", "1"],
        ["notify", "a", "--at", "0.8"],
        ["anchor", str(tmp_path / "anchor")],
    ]
    for number, command in enumerate(said):
        if number == 3:
            dpbayes("budget", "open", "a", *UNION)  # refused, because step 2 has amended the total
        first = dpbayes("budget", *command, "--json")
        again = dpbayes("budget", *command, "--json")
        assert (first.json["already_done"], again.json["already_done"]) == (False, True), command
        assert {**first.json, "already_done": True} == again.json
        assert "already done" in again.err
        assert dpbayes("budget", *command).code == 0
        assert len(dpbayes("budget", "history", "--json").json) == number + 1
    shown = dpbayes("budget", "show", "--json").json
    assert "already_done" not in shown["accounts"][0]
    assert dpbayes("budget", "adopt", "--reason", "looked", "--json").json["already_done"]


def test_a_command_that_differs_is_not_a_repetition(dpbayes: Cli) -> None:
    dpbayes("budget", "open", "a", *UNION)
    for other in (["--eps", "4", *UNION[2:]], UNION[:4], [*UNION, "--neighbors", "add-remove"], [*UNION, "--basic"],
                  [*UNION, "--separate-population", "--reason", "men"]):  # fmt: skip
        refused = dpbayes("budget", "open", "a", *other).exits(5, "already open")
    assert "--separate-population" in refused.err
    steps = [("5", "more"), ("5", "and more"), ("4", "less"), ("5", "more"), ("4", "less")]
    for number, (total, reason) in enumerate(steps):
        assert dpbayes("budget", "amend", "a", "--eps", total, "--reason", reason).code == 0
        assert len(dpbayes("budget", "history", "--json").json) == number + 2
    for number, (analyst, total) in enumerate([("ada", "1"), ("bob", "1"), ("ada", "2"), ("ada", "1")]):
        assert dpbayes("budget", "limit", "a", analyst, "--eps", total).code == 0
        assert len(dpbayes("budget", "history", "--json").json) == number + 2 + len(steps)


def test_a_repeated_backup_recognizes_its_own_complete_file(dpbayes: Cli, ledger_path: Path, tmp_path: Path) -> None:
    ledger, kept = open_ledger(ledger_path), tmp_path / "kept"
    publish(ledger, labeled("a"))
    first = dpbayes("budget", "backup", kept, "--json").json
    whole = kept.read_bytes()
    again = dpbayes("budget", "backup", kept, "--json")
    assert (again.json, "already done" in again.err) == ({**first, "already_done": True}, True)
    publish(ledger, labeled("b"))
    dpbayes("budget", "backup", kept).exits(6, "a backup up to entry 4, and the ledger has 7 entries")
    assert kept.read_bytes() == whole


@pytest.mark.parametrize("kind", ["ledger", "link", "hardlink", "edited", "payload", "other", "foreign", "empty"])
def test_a_backup_does_not_accept_a_file_that_is_not_a_backup(kind: str, ledger_path: Path, tmp_path: Path) -> None:
    ledger, kept = open_ledger(ledger_path), tmp_path / "kept"
    publish(ledger, labeled("a"))
    if kind == "ledger":
        kept = ledger_path
    elif kind == "link":
        back_up(ledger, tmp_path / "real")
        kept.symlink_to(tmp_path / "real")
    elif kind == "hardlink":
        kept.hardlink_to(ledger_path)
    elif kind in {"edited", "payload"}:
        back_up(ledger, kept)
        change(kept, "DELETE FROM entries WHERE sequence = 2" if kind == "edited" else "DELETE FROM payloads")
    elif kind == "other":
        publish(open_ledger(kept), labeled("b"))
    elif kind == "foreign":
        change(kept, "PRAGMA user_version = 1", "CREATE TABLE mine (x)")
    else:
        kept.touch()
    before = kept.read_bytes()
    assert existing_backup(ledger, kept) is None
    assert kept.read_bytes() == before


def test_a_repeated_salvage_recognizes_its_own_file(
    dpbayes: Cli, ledger_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, new = open_ledger(ledger_path), tmp_path / "new"
    for label in "abc":
        publish(ledger, labeled(label))
    damage(ledger_path, 9)
    change(ledger_path, "DELETE FROM payloads WHERE release_id = (SELECT min(release_id) FROM payloads)")
    salvage(ledger, new)  # at another time than the commands below
    whole = new.read_bytes()
    again = dpbayes("budget", "recover", "--to", new, "--json")
    assert (again.json["already_done"], "already done" in again.err) == (True, True)
    assert again.json["head"]["hash"] == open_ledger(new).state(compare=False).head
    assert len(again.json["lost"]) == len(set(again.json["lost"]))
    assert new.read_bytes() == whole
    for statement in ("DELETE FROM entries WHERE sequence = (SELECT max(sequence) FROM entries)",
                      "DELETE FROM payloads WHERE release_id = (SELECT max(release_id) FROM payloads)",
                      "INSERT INTO payloads VALUES ('0', x'00')"):  # fmt: skip
        shutil.copy(new, tmp_path / "bad")
        change(tmp_path / "bad", statement)
        with pytest.raises(LedgerError, match="exists already"):
            salvage(ledger, tmp_path / "bad")
