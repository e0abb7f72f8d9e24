"""Backups, recovery after crashes and damage, and migration: no file is replaced, and no spent budget becomes free."""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
import tracemalloc
import zlib
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from dpbayes_cli.base.errors import BudgetError, LedgerError
from dpbayes_cli.ledger import sqlite as sqlite_module
from dpbayes_cli.ledger import storage
from dpbayes_cli.ledger.budgets import ConcentratedBudget
from dpbayes_cli.ledger.chain import next_entry
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.sqlite import SqliteStorage
from dpbayes_cli.ledger.upkeep import back_up, salvage
from dpbayes_cli.privacy.composition import compose
from dpbayes_cli.privacy.kinds import NoisyShift, PureDP
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.conftest import Cli, often
from tests.ledger.ledgers import amend, change, copy_of, crash, damage, labeled, limit, open_ledger, publish, spent

FIRST_VERSION = Path(__file__).parent / "data" / "ledger-v1.sqlite"


@pytest.fixture
def ledger(ledger_path: Path) -> Ledger:
    ledger = open_ledger(ledger_path)
    for label in "abcd":
        publish(ledger, labeled(label))
    return ledger


def test_a_backup_is_a_consistent_copy_for_its_owner_only(ledger: Ledger, tmp_path: Path) -> None:
    state = back_up(ledger, tmp_path / "backup")
    copy = open_ledger(tmp_path / "backup")
    assert copy.entries() == ledger.entries()
    assert copy.findings()[0] == []
    assert state.mark == ledger.state().mark
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"backup", "ledger.sqlite", "work"}


def test_a_backup_never_replaces_anything(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("notes", "link", "work", "ledger.sqlite"):
        with pytest.raises(LedgerError, match="exists already"):
            back_up(ledger, tmp_path / name)
    assert (tmp_path / "notes").read_text() == "mine"
    with pytest.raises(LedgerError, match="cannot write"):
        back_up(ledger, tmp_path / "missing" / "backup")
    assert {path.name for path in tmp_path.iterdir()} == {"link", "ledger.sqlite", "notes", "work"}


def test_a_backup_that_does_not_verify_is_not_kept(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_to = SqliteStorage.copy_to

    def damaged(self: SqliteStorage, target: Path) -> None:
        copy_to(self, target)
        change(target, "DELETE FROM entries WHERE sequence = 9")

    def shorter(self: SqliteStorage, target: Path) -> None:
        copy_to(self, target)
        change(target, "DELETE FROM entries WHERE sequence > 10", "DELETE FROM payloads WHERE release_id LIKE '%doc%'")

    for broken in (damaged, shorter):
        monkeypatch.setattr(SqliteStorage, "copy_to", broken)
        with pytest.raises(LedgerError, match="does not verify"):
            back_up(ledger, tmp_path / "backup")
        assert {path.name for path in tmp_path.iterdir()} == {"ledger.sqlite", "work"}


def test_an_untrusted_ledger_is_not_backed_up(ledger: Ledger, ledger_path: Path, tmp_path: Path) -> None:
    old = copy_of(ledger_path, "old")
    ledger.anchor(tmp_path / "anchor", "")
    shutil.copy(old, ledger_path)
    with pytest.raises(LedgerError, match="its anchor"):
        back_up(open_ledger(ledger_path, tmp_path / "anchor"), tmp_path / "backup")
    change(ledger_path, "DELETE FROM entries WHERE sequence = 9")
    with pytest.raises(LedgerError, match="does not verify"):
        back_up(ledger, tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


def test_a_backup_while_others_write(ledger: Ledger, ledger_path: Path, tmp_path: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom tests.ledger.ledgers import labeled, open_ledger\n"
        "for i in range(20): open_ledger(Path(sys.argv[1])).reserve(labeled(f'w{i}', '0.01'))"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-W", "ignore", "-c", script, str(ledger_path)], cwd=root) as writer:
        heads = []
        for number in range(8):
            heads.append(back_up(ledger, tmp_path / f"backup{number}").mark)
        assert writer.wait() == 0
    final = ledger.state()
    assert all(final.holds(mark) for mark in heads)


def test_restoring_a_backup_needs_a_human_where_there_is_an_anchor(
    dpbayes: Cli, ledger_path: Path, tmp_path: Path
) -> None:
    assert dpbayes("budget", "open", "d", "--eps", "1").code == 0
    assert "on the file system of the ledger" in dpbayes("budget", "anchor", tmp_path / "anchor").err
    assert dpbayes("budget", "backup", tmp_path / "backup", "--json").json["head"]["sequence"] == 2
    assert dpbayes("budget", "amend", "d", "--eps", "2", "--reason", "more").code == 0
    assert dpbayes("budget", "backup", tmp_path / "backup").code == 6
    shutil.copy(tmp_path / "backup", ledger_path)
    for command in (["show"], ["open", "e", "--eps", "1"], ["backup", "again"]):
        assert dpbayes("budget", *command).code == 6
    assert "DO NOT TRUST THIS LEDGER" in dpbayes("budget", "history").err
    assert "DO NOT TRUST THIS LEDGER" in dpbayes("budget", "export").err
    assert dpbayes("budget", "adopt").code == 2
    assert dpbayes("budget", "adopt", "--reason", "a\x1b[2J").code == 2
    adopted = dpbayes("budget", "adopt", "--reason", "disk died", "--json").json
    assert (adopted["adopted"], adopted["seen"][0]["sequence"], adopted["head"]["sequence"]) == (True, 3, 3)
    assert not dpbayes("budget", "adopt", "--reason", "disk died", "--json").json["adopted"]
    shown = dpbayes("budget", "show", "-v")
    assert f"anchored at {tmp_path / 'anchor'}" in shown.err
    assert "disk died" in dpbayes("budget", "history", "d").out
    assert dpbayes("budget", "show", "--json").json["anchors"] == [str(tmp_path / "anchor")]
    assert dpbayes("budget", "verify").code == 0
    assert dpbayes("budget", "anchor", "--none").code == 2
    assert dpbayes("budget", "anchor").code == 2
    assert dpbayes("budget", "anchor", "--none", "--reason", "retired", "--json").json["anchor"] is None
    assert "no anchor is configured" in dpbayes("budget", "show", "-v").err


def test_adopting_names_the_releases_that_may_have_been_drawn_already(
    dpbayes: Cli, ledger: Ledger, ledger_path: Path, tmp_path: Path
) -> None:
    ledger.anchor(tmp_path / "anchor", "")
    release = ledger.reserve(labeled("next")).release
    old = copy_of(ledger_path, "old")
    ledger.seal(release, "clinic", b"seen by somebody")
    shutil.copy(old, ledger_path)
    dpbayes("budget", "adopt", "--reason", "restored").exits(
        0, f"release {release.release_id} of account clinic is charged, but this ledger holds no draw of it"
    )


def test_recover_rolls_back_an_incomplete_transaction(ledger: Ledger, ledger_path: Path, dpbayes: Cli) -> None:
    before = ledger.entries()
    ledger.reserve(labeled("unfinished"))
    crash(ledger_path)
    recovered = dpbayes("budget", "recover", "--json").json
    assert recovered["rolled_back"]
    assert [(each["stage"], each["account"]) for each in recovered["unfinished"]] == [("reserved", "clinic")]
    assert ledger.entries()[:-1] == before
    assert not ledger_path.with_name("ledger.sqlite-journal").exists()
    again = dpbayes("budget", "recover")
    assert f"unfinished: release {recovered['unfinished'][0]['release_id']} (unfinished) of account clinic" in again.out
    assert "rolled back" not in again.err
    assert spent(ledger_path) == Decimal("0.5")


def test_a_damaged_ledger_says_what_to_do(ledger: Ledger, ledger_path: Path, dpbayes: Cli) -> None:
    change(ledger_path, "UPDATE entries SET body = '{}' WHERE sequence = 12")
    dpbayes("budget", "recover").exits(7, "recover --to FILE")
    ledger_path.write_bytes(b"garbage" * 1000)
    dpbayes("budget", "recover").exits(6, "recover --to FILE")
    assert dpbayes("budget", "recover", "--to", "new").code == 6
    ledger_path.unlink()
    assert dpbayes("budget", "recover").code == 6
    assert not ledger_path.exists()


@pytest.mark.faults
@pytest.mark.parametrize("row", often(range(2, 14), 4))
def test_a_salvage_never_frees_budget_wherever_the_damage_is(
    row: int, ledger: Ledger, ledger_path: Path, tmp_path: Path
) -> None:
    before = spent(ledger_path)
    damage(ledger_path, row)
    damaged = ledger_path.read_bytes()
    saved = salvage(ledger, tmp_path / "new")
    new = open_ledger(tmp_path / "new")
    assert ledger_path.read_bytes() == damaged
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600
    assert saved.kept == row - 1
    assert spent(tmp_path / "new") >= before
    assert new.entries()[: row - 1] == ledger.entries()[: row - 1]
    assert [text for text in new.findings()[0] if "salvaged" not in text] == []
    with pytest.raises(LedgerError, match=f"lacks what followed entry {row - 1}"):
        new.reserve(labeled("next"))
    new.adopt("looked at, and lowered")
    assert new.findings()[0] == []
    shown = [new.reserve(labeled(label)).payload for label in "abcd"]
    for label, payload in zip("abcd", shown, strict=True):
        assert payload in {None, b"payload of " + label.encode()}  # a draw that is lost is paid for again
    assert spent(tmp_path / "new") >= before + Decimal("0.1") * sum(payload is None for payload in shown)


@pytest.mark.faults
@pytest.mark.parametrize("row", often(range(2, 13), 4))
def test_a_salvage_charges_again_even_if_the_charge_no_longer_fits(row: int, ledger_path: Path, tmp_path: Path) -> None:
    """With raised totals, analysts' limits and charges under them: every epsilon counts, whether it fits or not."""
    ledger = open_ledger(ledger_path)
    publish(ledger, labeled("a", "0.4"))
    amend(ledger, "clinic", {"epsilon": Decimal(3)})
    limit(ledger, ada="1.5", bob="1")
    ledger.reserve(labeled("b", "1.5", "ada"))
    limit(ledger, bob="0.5")
    publish(ledger, labeled("c", "0.5", "bob"))
    assert len(ledger.entries()) == 12
    damage(ledger_path, row)
    saved = salvage(ledger, tmp_path / "new")
    assert not any("not counted" in text for text in saved.lost)
    assert spent(tmp_path / "new") >= Decimal("2.4")
    new = open_ledger(tmp_path / "new")
    new.adopt("looked at")
    assert new.findings()[0] == []
    with pytest.raises(BudgetError):
        new.reserve(labeled("next", "0.7"))


@pytest.mark.parametrize("forged", ['"3000", "1"', '"30", "0"'])
def test_a_salvage_charges_the_epsilon_of_a_changed_entry(forged: str, ledger_path: Path, tmp_path: Path) -> None:
    """A person who adopts the ledger sees the epsilon, so changed noise must not make the charge smaller."""
    ledger = open_ledger(ledger_path)
    ledger.open_account("clinic", ConcentratedBudget(Decimal(2)), Neighbors.REPLACE_ONE)
    cost = PureDP(Decimal(1), ((NoisyShift(Decimal(30), 1, 30),),))
    publish(ledger, replace(labeled("a"), guarantee=compose([cost])))
    assert ledger.state().accounts["clinic"].spent["rho"] < Decimal("0.02")
    compact = forged.replace(" ", "")
    change(ledger_path, f"""UPDATE entries SET body = replace(body, '"30","1"', '{compact}')""")
    saved = salvage(ledger, tmp_path / "new")
    assert "at epsilon 1, the only privacy cost that can still be read" in saved.charged[0]
    assert open_ledger(tmp_path / "new").state(compare=False).accounts["clinic"].spent["rho"] == Decimal("0.5")


def test_a_salvage_keeps_the_tightest_total_and_limit(ledger_path: Path, tmp_path: Path, dpbayes: Cli) -> None:
    ledger = open_ledger(ledger_path)
    publish(ledger, labeled("a", "0.5"))
    amend(ledger, "clinic", {"epsilon": Decimal("0.75")}, "less")
    limit(ledger, ada="0.6")
    limit(ledger, ada="0.2")
    damage(ledger_path, 4)
    saved = salvage(ledger, tmp_path / "new")
    assert [text for text in saved.tightened if "'clinic' is epsilon 0.75" in text]
    new = open_ledger(tmp_path / "new")
    adopted = dpbayes("budget", "adopt", "--reason", "looked at", "--ledger", tmp_path / "new")
    assert "changed: the total of account 'clinic' is epsilon 0.75, and not epsilon 3" in adopted.err
    account = new.state().accounts["clinic"]
    assert account.budget.total == {"epsilon": Decimal("0.75")}
    assert account.limit_budgets["ada"].total == {"epsilon": Decimal("0.2")}
    assert account.remaining == {"epsilon": Decimal(0)}, "half is charged again, since its end is lost"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET sequence = sequence + 100000 WHERE sequence > 4",
        "UPDATE entries SET sequence = -sequence WHERE sequence > 4",
        "UPDATE entries SET sequence = sequence + 4096 WHERE sequence = 13",
        "UPDATE entries SET sequence = 0 WHERE sequence = 13",
        "DELETE FROM entries WHERE sequence BETWEEN 5 AND 8",
    ],
)
def test_a_salvage_charges_misnumbered_entries_again_and_needs_adoption(
    statement: str, ledger: Ledger, ledger_path: Path, tmp_path: Path
) -> None:
    change(ledger_path, statement)
    readable = sum(entry.fields["kind"] == "reserved" for entry in ledger.entries())
    saved = salvage(ledger, tmp_path / "new")
    assert saved.lost
    assert saved.state.held
    assert spent(tmp_path / "new") >= readable * Decimal("0.1")
    with pytest.raises(LedgerError, match="lacks what followed"):
        open_ledger(tmp_path / "new").reserve(labeled("next"))


def test_a_salvage_counts_a_missing_payload_as_damage(ledger: Ledger, ledger_path: Path, tmp_path: Path) -> None:
    change(ledger_path, "DELETE FROM payloads WHERE release_id IN (SELECT min(release_id) FROM payloads)")
    saved = salvage(ledger, tmp_path / "new")
    assert "does not verify" in saved.state.held


def test_a_lost_limit_does_not_give_an_analyst_more(ledger_path: Path, tmp_path: Path) -> None:
    ledger = open_ledger(ledger_path)
    publish(ledger, labeled("a", "0.1"))
    limit(ledger, ada="0.5")
    publish(ledger, labeled("b", "0.4", "ada"))
    damage(ledger_path, 5)
    salvage(ledger, tmp_path / "new")
    new = open_ledger(tmp_path / "new")
    new.adopt("looked at")
    with pytest.raises(BudgetError, match="has already spent more than the new limit"):
        limit(new, ada="0.3")
    limit(new, ada="0.5")
    assert new.state().accounts["clinic"].limits["ada"].remaining == {"epsilon": Decimal("0.1")}
    with pytest.raises(BudgetError, match="limit of analyst"):
        new.reserve(labeled("c", "0.2", "ada"))


def test_a_release_lost_twice_is_charged_twice(ledger_path: Path, tmp_path: Path) -> None:
    ledger, path = open_ledger(ledger_path), ledger_path
    for round_, total in enumerate(("0.3", "1.1")):
        publish(ledger, labeled("a", "0.3" if round_ == 0 else "0.8"))
        row = next(e.sequence for e in ledger.entries() if '"label":"a"' in e.body and '"kind":"reserved"' in e.body)
        damage(path, row)
        path = tmp_path / f"new-{round_}"
        assert not any("not counted" in text for text in salvage(ledger, path).lost)
        ledger = open_ledger(path)
        ledger.adopt("looked at")
        assert spent(path) >= Decimal(total)


def test_a_ledger_that_is_removed_during_a_release_is_not_recreated(ledger: Ledger, ledger_path: Path) -> None:
    release = ledger.reserve(labeled("i")).release
    ledger_path.unlink()
    for step in (lambda: ledger.seal(release, "clinic", b""), lambda: ledger.publish(release, "clinic", {}, b"")):
        with pytest.raises(LedgerError, match="is gone"):
            step()
    assert not ledger_path.exists()


def test_a_payload_decompresses_in_bounded_memory(
    ledger: Ledger, ledger_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "_MAX_UNPACKED_BYTES", 1 << 20)
    bomb = zlib.compress(bytes(1 << 26))
    with closing(sqlite3.connect(ledger_path)) as connection, connection:
        connection.execute("UPDATE payloads SET payload = ?", (bomb,))
    tracemalloc.start()
    with pytest.raises(LedgerError, match="damaged"):
        ledger.reserve(labeled("a"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


def test_an_undamaged_ledger_is_not_salvaged(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="a salvaged copy would be a second budget"):
        salvage(ledger, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.faults
@pytest.mark.parametrize("seed", often(range(6), 3))
def test_a_salvage_of_overwritten_pages_never_frees_budget(
    seed: int, ledger: Ledger, ledger_path: Path, tmp_path: Path
) -> None:
    """Whatever page is lost, the salvaged ledger begins with the verified entries, or the salvage is refused."""
    draw, before = random.Random(seed), ledger.entries()
    content = bytearray(ledger_path.read_bytes())
    pages = len(content) // 4096
    page = draw.randrange(1, pages)
    content[page * 4096 : (page + 1) * 4096] = draw.randbytes(4096)
    ledger_path.write_bytes(content)
    try:
        saved = salvage(ledger, tmp_path / "new")
    except LedgerError:
        assert not (tmp_path / "new").exists()
        return
    new = open_ledger(tmp_path / "new")
    assert new.entries()[: saved.kept] == before[: saved.kept]
    assert (saved.kept == len(before)) or new.state(compare=False).held


@pytest.fixture
def first(ledger_path: Path) -> Ledger:
    """A ledger that the first version wrote, at the ledger's path."""
    shutil.copy(FIRST_VERSION, ledger_path)
    ledger_path.chmod(0o600)
    return open_ledger(ledger_path)


def test_a_ledger_of_the_first_version_opens_and_can_be_charged(first: Ledger, dpbayes: Cli) -> None:
    assert first.findings()[0] == []
    assert first.state().head == "0f86d6522e5a857bad23670f1f4e9206f6b18705a5cde6dc6fb32b299819851d"
    account = first.state().accounts["clinic"]
    assert (account.spent["epsilon"], account.budget.total["epsilon"]) == (Decimal("0.3"), Decimal(2))
    assert sorted(release.stage for release in account.releases.values()) == ["published", "reserved", "sealed"]
    assert first.reserve(labeled("sealed")).payload == b"payload of sealed"
    assert first.reserve(labeled("published")).document == b"document of published"
    publish(first, labeled("reserved"))
    publish(first, labeled("new"))
    assert dpbayes("budget", "migrate").out == "nothing to migrate: the ledger is of this version\n"
    assert dpbayes("budget", "migrate", "--json").json["backup"] is None


NEXT = ("ALTER TABLE entries ADD COLUMN note TEXT", "CREATE INDEX hashes ON entries (hash)")


def pretend_newer(monkeypatch: pytest.MonkeyPatch, statements: tuple[str, ...] = NEXT) -> None:
    monkeypatch.setattr(sqlite_module, "SCHEMA_VERSION", 2)
    monkeypatch.setattr(sqlite_module, "MIGRATIONS", {1: statements})


def test_an_older_ledger_is_migrated_on_request_after_a_backup(
    first: Ledger, ledger_path: Path, dpbayes: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = first.entries()
    pretend_newer(monkeypatch)
    dpbayes("budget", "show").exits(6, "dpbayes budget migrate")
    done = dpbayes("budget", "migrate", "--json").json
    assert (done["from"], done["backup"]) == (1, f"{ledger_path}.v1")
    assert dpbayes("budget", "verify").code == 0
    assert first.entries() == entries
    monkeypatch.undo()
    backup = open_ledger(Path(done["backup"]))
    assert backup.entries() == entries
    assert backup.findings()[0] == []
    assert Path(done["backup"]).stat().st_mode & 0o777 == 0o600
    with pytest.raises(LedgerError, match="schema version 2"):
        first.state()  # the older program refuses the newer ledger
    with pytest.raises(LedgerError, match="schema version 2"):
        SqliteStorage(ledger_path).migrate()


@pytest.mark.parametrize(
    "statements",
    [(*NEXT, "CREATE INDEX hashes ON entries (hash)"), ("UPDATE entries SET hash = 'x' WHERE sequence = 3",)],
)
def test_a_migration_that_fails_changes_nothing(
    statements: tuple[str, ...], first: Ledger, ledger_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = first.entries()
    pretend_newer(monkeypatch, statements)
    for number in (1, 2):
        with pytest.raises(LedgerError):
            SqliteStorage(ledger_path).migrate()
        assert len(list(ledger_path.parent.glob("ledger.sqlite.v1*"))) == number  # each time a backup, none replaced
    monkeypatch.undo()
    assert first.entries() == entries
    assert first.findings()[0] == []


def test_other_versions_are_refused(first: Ledger, ledger_path: Path) -> None:
    fields = {**first.entries()[0].fields, "kind": "notarized", "account": ""}
    entry = next_entry(first.entries()[-1], fields)
    with first.storage.writing() as transaction:
        transaction.append(entry)
    with pytest.raises(LedgerError, match="this version of dpbayes does not know the kind of entry 'notarized'"):
        first.state()
    change(ledger_path, "PRAGMA user_version = 0")
    with pytest.raises(LedgerError, match="schema version 0"):
        SqliteStorage(ledger_path).migrate()
    with pytest.raises(LedgerError, match="schema version 0"):
        first.reserve(labeled("x"))
