"""``budget restore`` never frees spent budget, whatever happened to the ledger."""

from __future__ import annotations

import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from dpbayes_cli.base.errors import BudgetError, LedgerError
from dpbayes_cli.ledger import checkpoint
from dpbayes_cli.ledger.budgets import PureBudget
from dpbayes_cli.ledger.key import LedgerKey
from dpbayes_cli.ledger.limits import amendment_entry
from dpbayes_cli.ledger.restore import restore
from dpbayes_cli.ledger.sqlite_replacement import restore_marker
from dpbayes_cli.ledger.upkeep import back_up, salvage
from dpbayes_cli.privacy.kinds import ZeroConcentrated
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.conftest import Cli, often
from tests.ledger.ledgers import amend, change, charge, copy_of, crash, damage, limit, open_ledger, publish, spent

TENTH = Decimal("0.1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with four releases and an amendment, and a backup from after the second release."""
    path = tmp_path / "ledger.sqlite"
    for number in range(4):
        publish(open_ledger(path), charge("0.1", label=f"n{number}"))
        if number == 1:
            back_up(open_ledger(path), tmp_path / "backup")
            amend(open_ledger(path), "clinic", {"epsilon": Decimal(2)}, "less")
    return path


def test_a_restore_keeps_the_charges_after_the_backup(path: Path, tmp_path: Path) -> None:
    before = open_ledger(path).entries()
    done = restore(open_ledger(path), tmp_path / "backup", "it looked wrong")
    assert (done.carried, done.complete, done.lost) == (7, True, [])
    assert open_ledger(path).entries()[:-1] == before
    assert open_ledger(path).findings()[0] == []
    account = open_ledger(path).state().accounts["clinic"]
    assert (account.spent["epsilon"], account.remaining["epsilon"]) == (4 * TENTH, Decimal("1.6"))
    assert open_ledger(path).reserve(charge("0.1", label="n3")).payload == b"payload of n3"
    (kept,) = path.parent.glob("ledger.sqlite.replaced-*")
    assert open_ledger(kept).entries() == before
    assert [each.name for each in path.parent.glob(".*")] == []


@pytest.mark.parametrize("what", ["gone", "empty", "text", "older", "page"])
def test_a_restore_with_unreadable_entries_counts_everything_as_spent(what: str, path: Path, tmp_path: Path) -> None:
    content = path.read_bytes()
    if what == "gone":
        path.unlink()
    elif what == "older":
        change(path, "DELETE FROM entries WHERE sequence > 3", "DELETE FROM terms WHERE sequence > 3")
    elif what == "page":
        path.write_bytes(content[:4096] + os.urandom(len(content) - 4096))
    else:
        path.write_bytes(b"" if what == "empty" else b"x" * 9000)
    done = restore(open_ledger(path), tmp_path / "backup", "the disk")
    assert (done.carried, done.complete) == (0, False)
    assert open_ledger(path).findings()[0] == []
    account = open_ledger(path).state().accounts["clinic"]
    assert (account.spent, account.remaining) == ({"epsilon": Decimal(3)}, {"epsilon": Decimal(0)})
    with pytest.raises(BudgetError, match="the whole budget of account 'clinic' counts as spent"):
        open_ledger(path).reserve(charge("0.1", label="next"))
    school = {"account": "school", "source": "/data/school.csv"}
    with pytest.raises(BudgetError, match=r"'school' may have been lost\n.*budget open school --epsilon TOTAL$"):
        open_ledger(path).reserve(charge("0.1", **school))
    with pytest.raises(BudgetError, match=r"open school --epsilon TOTAL --delta 0\.000001$"):
        open_ledger(path).reserve(charge(guarantee=ZeroConcentrated(Decimal("0.1")), delta=Decimal("1e-6"), **school))
    amend(open_ledger(path), "clinic", {"epsilon": Decimal(1)}, "added up from the bundles")
    assert open_ledger(path).state().accounts["clinic"].remaining == {"epsilon": Decimal("0.8")}
    open_ledger(path).open_account("school", PureBudget(Decimal(1)), Neighbors.REPLACE_ONE)
    publish(open_ledger(path), charge("0.1", **school))


@pytest.mark.faults
@pytest.mark.parametrize("row", often(range(8, 15), 3))
def test_a_restore_charges_readable_entries_after_damage_again(row: int, path: Path, tmp_path: Path) -> None:
    damage(path, row)
    done = restore(open_ledger(path), tmp_path / "backup", "damaged")
    assert (done.carried, done.complete) == (row - 8, False)
    assert open_ledger(path).findings()[0] == []
    amend(open_ledger(path), "clinic", {"epsilon": Decimal(2)}, "as it was")
    assert spent(path) >= 4 * TENTH


def test_a_restore_after_a_crash_loses_nothing(path: Path, tmp_path: Path) -> None:
    before = spent(path)
    crash(path)
    restore(open_ledger(path), tmp_path / "backup", "it was killed")
    assert not path.with_name("ledger.sqlite-journal").exists()
    assert spent(path) >= before
    assert open_ledger(path).findings()[0] == []


def test_a_restore_keeps_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "_INTERVAL_ENTRIES", 4)
    path = tmp_path / "ledger.sqlite"
    for number in range(8):
        publish(open_ledger(path), charge("0.1", label=f"n{number}"))
        if number == 3:
            back_up(open_ledger(path), tmp_path / "backup")
    before = open_ledger(path).state()
    restore(open_ledger(path), tmp_path / "backup", "so")
    after = open_ledger(path).state()
    assert after.base == before.base > 0
    assert open_ledger(path).findings()[0] == []


def test_a_backup_of_another_ledger_or_a_bad_one_is_refused(path: Path, tmp_path: Path) -> None:
    content = path.read_bytes()
    publish(open_ledger(tmp_path / "other"), charge("0.2", account="other"))
    (tmp_path / "text").write_text("no ledger")
    damage(copy_of(tmp_path / "backup", "edited"), 2)
    for name, said in (
        ("other", "another ledger"), ("text", "cannot be used"), ("edited", "does not verify"),
        ("missing", "no ledger"), ("ledger.sqlite", "the ledger itself"),
    ):  # fmt: skip
        with pytest.raises(LedgerError, match=said):
            restore(open_ledger(path), tmp_path / name, "wrong")
    assert path.read_bytes() == content
    assert [each.name for each in tmp_path.glob("ledger.sqlite?*")] == []


def test_a_restore_puts_a_salvaged_ledger_in_place(path: Path, tmp_path: Path) -> None:
    damage(path, 9)
    salvage(open_ledger(path), tmp_path / "new")
    done = restore(open_ledger(path), tmp_path / "new", "salvaged")
    assert (done.complete, done.charged) == (True, [])
    with pytest.raises(LedgerError, match="salvaged"):
        open_ledger(path).reserve(charge("0.1", label="next"))
    open_ledger(path).adopt("looked at")
    assert 4 * TENTH <= spent(path) <= 6 * TENTH
    publish(open_ledger(path), charge("0.1", label="next"))


def test_a_restore_adopts_an_anchor_that_has_seen_more_and_counts_everything_as_spent(
    path: Path, tmp_path: Path
) -> None:
    anchor = tmp_path / "anchor"
    open_ledger(path).anchor(anchor, "")
    back_up(open_ledger(path), tmp_path / "anchored")
    publish(open_ledger(path), charge("0.1", label="late"))
    path.unlink()
    done = restore(open_ledger(path), tmp_path / "anchored", "gone")
    assert not done.complete
    assert open_ledger(path).findings()[0] == []
    assert anchor.read_text().splitlines()[-1].split()[1] == open_ledger(path).state().head


@pytest.mark.parametrize("what", ["gone", "page"])
def test_a_restore_loses_nothing_if_the_anchor_ends_with_the_backup(what: str, path: Path, tmp_path: Path) -> None:
    open_ledger(path).anchor(tmp_path / "anchor", "")
    before = back_up(open_ledger(path), tmp_path / "anchored")
    path.unlink() if what == "gone" else path.write_bytes(path.read_bytes()[:4096] + b"x" * 9000)
    done = restore(open_ledger(path), tmp_path / "anchored", "the disk")
    assert (done.complete, done.carried, done.backup) == (True, 0, before.mark)
    assert spent(path) == 4 * TENTH
    publish(open_ledger(path), charge("0.1", label="next"))
    path.unlink()
    assert not restore(open_ledger(path), tmp_path / "anchored", "again").complete


@pytest.mark.parametrize("what", ["a torn line", "not named by the backup", "a later entry that does not verify"])
def test_an_anchor_that_proves_nothing_does_not_free_a_budget(what: str, path: Path, tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    if what != "not named by the backup":
        open_ledger(path).anchor(anchor, "")
    head = back_up(open_ledger(path), tmp_path / "anchored").mark
    if what == "a later entry that does not verify":
        publish(open_ledger(path), charge("0.5", label="late"))
        damage(path, head.sequence + 1)
    else:
        path.unlink()
    torn = f"{head.sequence + 1} ab" if what == "a torn line" else ""
    anchor.write_text(f"{head.sequence} {head.hash}\n{torn}")
    assert not restore(open_ledger(path, anchor), tmp_path / "anchored", "the disk").complete
    assert open_ledger(path).state().accounts["clinic"].remaining == {"epsilon": Decimal(0)}


def test_a_restored_salvage_does_not_count_later_entries(path: Path, tmp_path: Path) -> None:
    damage(path, 14)
    salvage(open_ledger(path), tmp_path / "new")
    restore(open_ledger(path), tmp_path / "new", "salvaged")
    open_ledger(path).adopt("looked at")
    back_up(open_ledger(path), tmp_path / "later")
    publish(open_ledger(path), charge("0.5", label="late"))
    before = spent(path)
    restore(open_ledger(path), tmp_path / "new", "once more")
    assert spent(path) >= before
    path.unlink()
    assert not restore(open_ledger(path), tmp_path / "later", "gone").complete


@pytest.mark.parametrize("what", ["missing", "empty"])
def test_a_restore_over_an_older_copy_is_not_complete_without_the_anchor(what: str, path: Path, tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    open_ledger(path).anchor(anchor, "")
    back_up(open_ledger(path), tmp_path / "anchored")
    older = path.read_bytes()
    publish(open_ledger(path), charge("0.5", label="late"))
    path.write_bytes(older)
    anchor.unlink() if what == "missing" else anchor.write_bytes(b"")
    assert not restore(open_ledger(path), tmp_path / "anchored", "older").complete


def test_a_backup_copied_beside_a_journal_is_not_taken_for_the_ledger(path: Path, tmp_path: Path) -> None:
    for number in range(4, 9):
        publish(open_ledger(path), charge("0.1", label=f"n{number}"))
    crash(path)
    path.write_bytes((tmp_path / "backup").read_bytes())
    done = restore(open_ledger(path), tmp_path / "backup", "properly")
    assert not done.complete
    assert spent(path) == 3


def test_an_exhausted_total_must_be_amended_in_full(path: Path, tmp_path: Path) -> None:
    limit(open_ledger(path), ada="1")
    back_up(open_ledger(path), tmp_path / "limited")
    publish(open_ledger(path), charge("1", label="hers", analyst="ada"))
    path.unlink()
    restore(open_ledger(path), tmp_path / "limited", "gone")
    with pytest.raises(BudgetError, match="its total must be set again"):
        open_ledger(path).change("clinic", lambda account: amendment_entry(account, {}, "", separate_population=True))
    amend(open_ledger(path), "clinic", {"epsilon": Decimal(2)}, "added up")
    with pytest.raises(BudgetError, match="the limit of analyst 'ada' in account 'clinic' counts as spent"):
        open_ledger(path).reserve(charge("0.1", label="more", analyst="ada"))
    limit(open_ledger(path), ada="0.5")
    publish(open_ledger(path), charge("0.1", label="more", analyst="ada"))
    assert open_ledger(path).findings()[0] == []


def test_a_salvage_keeps_a_recorded_loss(path: Path, tmp_path: Path) -> None:
    path.unlink()
    restore(open_ledger(path), tmp_path / "backup", "gone")
    damage(path, 6)
    salvage(open_ledger(path), tmp_path / "new")
    restore(open_ledger(path), tmp_path / "new", "salvaged")
    open_ledger(path).adopt("looked at")
    assert open_ledger(path).state().accounts["clinic"].remaining == {"epsilon": Decimal(0)}


def test_a_restore_records_a_lost_payload_and_keeps_the_rest(path: Path, tmp_path: Path) -> None:
    change(path, "UPDATE payloads SET payload = x'00' WHERE release_id NOT LIKE '%/%'")
    done = restore(open_ledger(path), tmp_path / "backup", "a payload")
    assert (done.complete, len(done.lost)) == (True, 2)
    assert open_ledger(path).findings()[0] == []
    assert open_ledger(path).reserve(charge("0.1", label="n0")).payload == b"payload of n0"
    with pytest.raises(LedgerError, match="is not the one that was sealed"):
        open_ledger(path).reserve(charge("0.1", label="n3"))
    back_up(open_ledger(path), tmp_path / "next")


def test_a_restore_is_not_done_where_the_ledger_was_damaged_since(path: Path, tmp_path: Path) -> None:
    assert restore(open_ledger(path), tmp_path / "backup", "so").carried == 7
    change(path, "DELETE FROM payloads WHERE release_id LIKE '%/document'")
    done = restore(open_ledger(path), tmp_path / "backup", "so")
    assert not done.already_done
    assert open_ledger(path).findings()[0] == []


def test_a_signed_ledger_is_restored_from_a_backup_before_its_key(path: Path, tmp_path: Path) -> None:
    key = LedgerKey(b"k" * 32)
    assert open_ledger(path).begin_key(key, "now")
    path.unlink()
    restore(open_ledger(path, key=key), tmp_path / "backup", "gone")
    assert open_ledger(path, key=key).findings()[0] == []


def test_an_interrupted_restore_of_a_missing_ledger_is_reported(path: Path, tmp_path: Path, dpbayes: Cli) -> None:
    path.unlink()
    restore_marker(path).write_text("ledger.sqlite.replaced-1")
    for command in (["show"], ["history"], ["verify"]):
        dpbayes("budget", *command, "--ledger", path).exits(6, "was interrupted")
    dpbayes("budget", "restore", tmp_path / "backup", "--reason", "gone", "--ledger", path).exits(
        0, "if an account was closed after the backup"
    )
    assert dpbayes("budget", "show", "--ledger", path).code == 0


@pytest.mark.usefixtures("path")
def test_a_restore_creates_the_directory_that_was_lost_with_the_disk(tmp_path: Path, dpbayes: Cli) -> None:
    place = tmp_path / "new" / "disk" / "ledger.sqlite"
    restored = dpbayes("budget", "restore", tmp_path / "backup", "--reason", "the disk died", "--ledger", place)
    assert (restored.code, place.exists()) == (0, True)
    assert place.parent.stat().st_mode & 0o077 == 0


def test_a_repeated_restore_from_the_shell_changes_nothing(path: Path, tmp_path: Path, dpbayes: Cli) -> None:
    ask = ("budget", "restore", tmp_path / "backup", "--reason", "so", "--ledger", path)
    first = dpbayes(*ask, "--json").json
    assert (first["complete"], first["already_done"], first["taken_over"]) == (True, False, 7)
    content = path.read_bytes()
    assert dpbayes(*ask, "--json").json["already_done"] is True
    assert path.read_bytes() == content
    assert dpbayes("budget", "restore", tmp_path / "backup", "--ledger", path).code == 2
    assert dpbayes("budget", "restore", tmp_path / "none", "--reason", "so", "--ledger", path).code == 6


def refusal(path: Path) -> str:
    """Return why a ledger is refused, or that a charge is missing from it; else an empty text."""
    try:
        total = spent(path)
    except LedgerError as error:
        return f"{error.message} {error.hint}"
    return "" if total == 4 * TENTH else f"spent is {total}"


KILL_AT = """
import os, signal, sys
from pathlib import Path
from dpbayes_cli.ledger.key import LedgerKey
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.limits import amendment_entry
from dpbayes_cli.ledger.restore import restore
from dpbayes_cli.ledger.sqlite import SqliteStorage
left = int(sys.argv[3])
def count(event, args):
    global left
    if event in {"open", "os.rename", "os.remove", "os.truncate", "os.link", "sqlite3.connect", "fcntl.flock"}:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(count)
restore(Ledger(SqliteStorage(Path(sys.argv[1]))), Path(sys.argv[2]), "so")
"""


@pytest.mark.slow
@pytest.mark.faults
def test_a_restore_that_is_killed_anywhere_is_finished_by_the_same_command(path: Path, tmp_path: Path) -> None:
    whole, backup = path.read_bytes(), tmp_path / "backup"
    kills = refused = 0
    for step in range(1, 400):
        for each in tmp_path.glob("ledger.sqlite?*"):
            each.unlink()
        path.write_bytes(whole)
        done = subprocess.run([sys.executable, "-c", KILL_AT, path, backup, str(step)], check=False)
        if done.returncode == 0:
            break
        kills += 1
        seen = refusal(path)
        assert seen == "" or "restore" in seen
        refused += "was interrupted" in seen
        restore(open_ledger(path), backup, "so")
        assert spent(path) == 4 * TENTH
        assert open_ledger(path).findings()[0] == []
    assert kills > 20
    assert refused > 2, "some were cut off between the first change and the last"
