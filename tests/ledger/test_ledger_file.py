"""A ledger file has one name, and a crash journal is played back only into its own file."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from dpbayes_cli.base import mounts
from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger import ledger_file
from dpbayes_cli.ledger.sqlite import SqliteStorage
from dpbayes_cli.ledger.sqlite_journal import has_crash_journal, journal_belongs
from dpbayes_cli.ledger.upkeep import back_up
from tests.conftest import Cli
from tests.ledger.ledgers import KILLED, charge, crash, open_ledger, publish


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with three releases."""
    for number in range(3):
        publish(open_ledger(tmp_path / "ledger.sqlite"), charge("0.1", label=f"n{number}"))
    return tmp_path / "ledger.sqlite"


@pytest.mark.slow
def test_a_ledger_with_two_names_is_refused_by_both(path: Path, dpbayes: Cli, coin: Path) -> None:
    second = path.with_name("second.sqlite")
    second.hardlink_to(path)
    for name in (path, second):
        with pytest.raises(LedgerError, match="2 names"):
            open_ledger(name).reserve(charge("0.1", label="next"))
        with pytest.raises(LedgerError, match="2 names"):
            open_ledger(name).state()
        dpbayes("release", coin, "--model", "beta-bernoulli", "--eps", "0.1", "--ledger", name).exits(
            6, "keep one name"
        )
    second.unlink()
    publish(open_ledger(path), charge("0.1", label="next"))


def test_a_link_to_the_ledger_is_the_same_name(path: Path) -> None:
    path.with_name("link").symlink_to(path)
    publish(open_ledger(path.with_name("link")), charge("0.1", label="next"))
    crash(path)
    assert has_crash_journal(path.with_name("link"))
    assert open_ledger(path.with_name("link")).findings()[0] == []


def test_a_file_that_is_mounted_by_itself_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = f"7 1 8:1 /x {str(path).replace(' ', chr(92) + '040')} rw - ext4 /dev/sda1 rw\n"
    monkeypatch.setattr(ledger_file, "read_mount_table", lambda: mounts.read_mount_table() + row)
    with pytest.raises(LedgerError, match="mounted as a single file") as refused:
        open_ledger(path).state()
    assert refused.value.hint == "mount the directory of the ledger instead"


@pytest.mark.skipif(os.getuid() != 0, reason="only root may mount")
def test_a_real_mount_of_one_file_is_refused(path: Path, tmp_path: Path) -> None:
    place = tmp_path / "container.sqlite"
    place.touch()
    script = f"mount --bind {path} {place} && {sys.executable} -m dpbayes_cli budget show --ledger {place}"
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, check=False)
    if "mounted as a single file" not in done.stderr and done.returncode in {1, 32}:
        pytest.skip(f"no mounts here: {done.stderr}")
    assert (done.returncode, "mounted as a single file" in done.stderr) == (6, True)


def test_a_journal_that_does_not_keep_page_1_is_judged_by_the_size_of_the_file(path: Path, tmp_path: Path) -> None:
    back_up(open_ledger(path), tmp_path / "backup")
    for number in range(3, 8):
        publish(open_ledger(path), charge("0.1", label=f"n{number}"))
    crash(path, KILLED.replace('connection.execute("PRAGMA user_version = 1")\n', ""))
    assert journal_belongs(path)
    shutil.copyfile(tmp_path / "backup", path)
    assert not journal_belongs(path)


def test_a_crash_journal_is_rolled_back_and_the_chain_is_verified(path: Path) -> None:
    before = open_ledger(path).entries()
    crash(path)
    assert journal_belongs(path)
    with SqliteStorage(path).writing() as transaction:
        assert transaction.is_suspect
        assert transaction.entries() == before
    assert open_ledger(path).findings()[0] == []


def test_after_a_crash_pages_are_checked_before_the_first_write(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crash(path)
    monkeypatch.setattr(
        "dpbayes_cli.ledger.sqlite_connection.integrity_findings", lambda _: ["the file is damaged: page 3"]
    )
    with pytest.raises(LedgerError, match="after a crash, the file is damaged: page 3"):
        open_ledger(path).reserve(charge("0.1", label="next"))


def test_a_journal_of_another_file_is_not_played_back(path: Path, tmp_path: Path) -> None:
    """A backup is copied over a ledger that has a crash journal."""
    back_up(open_ledger(path), tmp_path / "backup")
    for number in range(3, 6):
        publish(open_ledger(path), charge("0.1", label=f"n{number}"))
    crash(path)
    shutil.copyfile(tmp_path / "backup", path)
    content = path.read_bytes()
    for use in (open_ledger(path).state, lambda: open_ledger(path).reserve(charge("0.1", label="next"))):
        with pytest.raises(LedgerError, match="a journal that does not belong to it"):
            use()
    assert path.read_bytes() == content


def test_a_live_writer_is_waited_for(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("INSERT INTO payloads VALUES ('x', x'00')")
        assert path.with_name("ledger.sqlite-journal").exists()
        assert not has_crash_journal(path)
        assert len(open_ledger(path).entries()) == 10
        other.execute("ROLLBACK")
