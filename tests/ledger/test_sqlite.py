"""Where the ledger lives: what is no ledger is never taken for a new one."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path

import pytest

from dpbayes_cli.errors import LedgerError
from dpbayes_cli.ledger.budgets import PureBudget
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.sqlite import SqliteStorage, default_path
from dpbayes_cli.privacy.neighbors import Neighbors


def opened(path: Path) -> Ledger:
    ledger = Ledger(SqliteStorage(path))
    ledger.open_account("d", PureBudget(Decimal(1)), Neighbors.REPLACE_ONE)
    return ledger


def test_a_truncated_ledger_is_not_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    opened(path)
    path.write_bytes(b"")
    for use in (lambda: opened(path), lambda: Ledger(SqliteStorage(path)).state()):
        with pytest.raises(LedgerError, match="truncated"):
            use()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path, Path("/dev/null"), tmp_path / ("x" * 5000)):
        with pytest.raises(LedgerError):
            Ledger(SqliteStorage(place)).state()


def test_a_ledger_appears_whole_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / ".ledger.sqlite.999999999-0.partial").touch()
    path = tmp_path / "ledger.sqlite"
    opened(path)
    assert {item.name for item in tmp_path.iterdir()} == {"ledger.sqlite", "work"}
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_name_that_sqlite_would_keep_in_memory_is_a_file(place: Path) -> None:
    opened(Path(":memory:"))
    assert (place / ":memory:").is_file()
    assert list(Ledger(SqliteStorage(Path(":memory:"))).state().accounts) == ["d"]


def test_a_relative_state_directory_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPBAYES_LEDGER")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert default_path().is_absolute()


def test_without_a_home_the_ledger_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPBAYES_LEDGER")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)

    def nowhere(cls: type[Path]) -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", classmethod(nowhere))
    with pytest.raises(LedgerError, match="no home"):
        default_path()
