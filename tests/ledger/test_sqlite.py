"""A ledger in a SQLite file: a path that holds something else is never taken for a new ledger."""

from __future__ import annotations

import os
import stat
from decimal import Decimal
from pathlib import Path

import pytest

from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger.budgets import PureBudget
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.sqlite import SqliteStorage
from dpbayes_cli.ledger.sqlite_connection import connect
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.ledger.ledgers import SqliteLedger, charge


def opened(path: Path) -> Ledger:
    ledger = Ledger(SqliteStorage(path))
    ledger.open_account("d", PureBudget(Decimal(1)), Neighbors.REPLACE_ONE)
    return ledger


def test_a_truncated_ledger_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    opened(path)
    path.write_bytes(b"")
    for use in (lambda: opened(path), lambda: Ledger(SqliteStorage(path)).state()):
        with pytest.raises(LedgerError, match="truncated"):
            use()


def test_a_path_that_is_not_a_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path, Path("/dev/null"), tmp_path / ("x" * 5000)):
        with pytest.raises(LedgerError):
            Ledger(SqliteStorage(place)).state()


def test_a_ledger_is_created_whole_and_leaves_no_other_file(tmp_path: Path) -> None:
    (tmp_path / ".ledger.sqlite.held-0123456789abcdef.partial").mkdir()
    path = tmp_path / "ledger.sqlite"
    opened(path)
    assert {item.name for item in tmp_path.iterdir()} == {"ledger.sqlite", "work"}
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_name_that_sqlite_would_open_in_memory_is_a_file(place: Path) -> None:
    opened(Path(":memory:"))
    assert (place / ":memory:").is_file()
    assert list(Ledger(SqliteStorage(Path(":memory:"))).state().accounts) == ["d"]


@pytest.fixture
def stored(tmp_path: Path) -> SqliteLedger:
    return SqliteLedger(tmp_path / "stored" / "ledger.sqlite")


def test_the_ledger_file_is_accessible_to_its_owner_only(stored: SqliteLedger) -> None:
    stored.ledger.reserve(charge())
    assert stat.S_IMODE(stored.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(stored.path.parent.stat().st_mode) == 0o700


def test_the_settings_that_make_a_commit_durable(tmp_path: Path) -> None:
    opened = connect(tmp_path / "ledger.sqlite")
    assert opened.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert opened.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
    opened.close()


def test_what_is_no_ledger_is_left_alone(stored: SqliteLedger) -> None:
    stored.path.parent.mkdir()
    stored.path.write_bytes(b"important notes, not a database\n" * 100)
    before = stored.contents()
    with pytest.raises(LedgerError):
        stored.ledger.reserve(charge())
    assert stored.contents() == before
    stored.path.unlink()
    stored.tamper("CREATE TABLE mine (x)")
    with pytest.raises(LedgerError, match="not a dpbayes ledger"):
        stored.ledger.reserve(charge())


def test_a_newer_ledger_is_refused(stored: SqliteLedger) -> None:
    stored.ledger.reserve(charge())
    stored.tamper("PRAGMA user_version = 2")
    with pytest.raises(LedgerError, match="schema version 2"):
        stored.ledger.reserve(charge("0.1"))
