"""A ledger in a SQLite file: a path that holds something else is never taken for a new ledger."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger.sqlite_connection import connect
from tests.ledger.ledgers import SqliteLedger, charge, open_ledger


def test_a_truncated_ledger_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    open_ledger(path).reserve(charge())
    path.write_bytes(b"")
    for use in (lambda: open_ledger(path).reserve(charge()), lambda: open_ledger(path).state()):
        with pytest.raises(LedgerError, match="truncated"):
            use()


def test_a_path_that_is_not_a_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path, Path("/dev/null"), tmp_path / ("x" * 5000)):
        with pytest.raises(LedgerError):
            open_ledger(place).state()


def test_a_ledger_is_created_for_its_owner_only_and_leaves_no_other_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "ledger.sqlite"
    open_ledger(path).reserve(charge())
    assert [item.name for item in path.parent.iterdir()] == ["ledger.sqlite"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_name_that_sqlite_would_open_in_memory_is_a_file(place: Path) -> None:
    open_ledger(Path(":memory:")).reserve(charge())
    assert (place / ":memory:").is_file()
    assert list(open_ledger(Path(":memory:")).state().accounts) == ["clinic"]


def test_the_settings_that_make_a_commit_durable(tmp_path: Path) -> None:
    opened = connect(tmp_path / "ledger.sqlite")
    assert opened.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert opened.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
    opened.close()


def test_what_is_no_ledger_is_left_alone(tmp_path: Path) -> None:
    stored = SqliteLedger(tmp_path / "ledger.sqlite")
    stored.path.write_bytes(b"important notes, not a database\n" * 100)
    before = stored.contents()
    with pytest.raises(LedgerError):
        stored.ledger.reserve(charge())
    assert stored.contents() == before
    stored.path.unlink()
    stored.tamper("CREATE TABLE mine (x)")
    with pytest.raises(LedgerError, match="not a dpbayes ledger"):
        stored.ledger.reserve(charge())
