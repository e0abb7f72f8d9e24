"""The ledger on PostgreSQL: one writer at a time, durable, append-only, with bounded waits, no secret in messages."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger import postgres as module
from dpbayes_cli.ledger.budgets import PureBudget
from dpbayes_cli.ledger.chain import next_entry
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.place import storage_at
from dpbayes_cli.ledger.postgres import PostgresTransaction
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.conftest import ROOT, Cli
from tests.ledger.ledgers import PostgresLedger, amend, charge, publish
from tests.postgres_server import Server

PASSWORD = "correct horse"


@pytest.fixture
def stored(postgres: Server, database: str) -> PostgresLedger:
    return PostgresLedger(postgres, database)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def sessions(stored: PostgresLedger, where: str = "true") -> list[int]:
    """The backends that serve dpbayes in this database."""
    query = f"SELECT pid FROM pg_stat_activity WHERE application_name = 'dpbayes' AND datname = '{stored.database}'"
    return [pid for (pid,) in stored.server.execute(f"{query} AND {where}")]


def test_a_writer_is_serializable_and_its_commit_durable_whatever_others_set(
    stored: PostgresLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.server.execute(f"ALTER DATABASE {stored.database} SET synchronous_commit = off")
    stored.server.execute(f"ALTER DATABASE {stored.database} SET default_transaction_read_only = on")
    monkeypatch.setenv("PGOPTIONS", "-c synchronous_commit=off -c lock_timeout=0 -c search_path=public")
    with stored.storage.writing() as transaction:
        rows = transaction._connection.execute(  # type: ignore[attr-defined]
            "SELECT name, setting FROM pg_settings WHERE name IN ('synchronous_commit', 'transaction_isolation', "
            "'lock_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout', 'fsync')"
        ).fetchall()
    settings = dict(rows)
    assert settings.pop("synchronous_commit") == settings.pop("fsync") == "on"
    assert settings.pop("transaction_isolation") == "serializable"
    assert all(int(value) > 0 for value in settings.values())
    assert len(settings) == 3


def test_a_server_that_does_not_sync_is_refused(stored: PostgresLedger) -> None:
    with stored.server.setting("fsync", "off"), pytest.raises(LedgerError, match="fsync = off"):
        stored.ledger.reserve(charge())
    assert not stored.storage.exists


def test_a_standby_is_refused(stored: PostgresLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(stored.ledger, charge())
    monkeypatch.setattr(module, "_SESSION", module._SESSION.replace("pg_is_in_recovery()", "NOT pg_is_in_recovery()"))
    for use in (lambda: stored.ledger.reserve(charge()), stored.ledger.state):
        with pytest.raises(LedgerError, match="standby"):
            use()


def test_a_session_without_the_settings_writes_nothing(stored: PostgresLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pooler that hands out single transactions would lose the settings that make a commit durable."""
    publish(stored.ledger, charge())
    prepare = module.PostgresStorage._prepare

    def forgotten(self: Any, connection: Any) -> None:
        prepare(self, connection)
        connection.execute("RESET ALL")

    monkeypatch.setattr(module.PostgresStorage, "_prepare", forgotten)
    with pytest.raises(LedgerError, match="does not hold the tables of a ledger"):
        stored.ledger.reserve(charge("0.5"))


def test_a_writer_sees_what_the_one_before_it_wrote(stored: PostgresLedger) -> None:
    """The snapshot is taken after the lock is held: else the second writer would see an old ledger."""
    stored.ledger.open_account("clinic", PureBudget(Decimal(1)), Neighbors.REPLACE_ONE)
    with ThreadPoolExecutor(1) as pool:
        with stored.storage.writing() as transaction:
            second = pool.submit(amend, stored.ledger, "clinic", {"epsilon": Decimal(3)}, "second")
            until(lambda: sessions(stored, "wait_event_type = 'Lock'"))
            (last,) = transaction.entries()
            fields = {**last.fields, "kind": "amend", "reason": "first"}
            transaction.append(next_entry(last, fields))
        second.result(timeout=60)
    assert [entry.fields.get("reason") for entry in stored.ledger.entries()] == [None, "first", "second"]
    assert stored.ledger.findings()[0] == []


def test_a_ledger_created_by_many_at_once_is_created_once(stored: PostgresLedger) -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda i: publish(stored.ledger, charge("0.25", label=f"n{i}")), range(8)))
    assert len(set(ids)) == 8
    assert stored.ledger.findings()[0] == []
    assert stored.ledger.state().accounts["clinic"].remaining == {"epsilon": Decimal(1)}


def test_without_the_lock_only_one_of_two_writers_commits(
    stored: PostgresLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The isolation level and the primary key protect the ledger without the lock, too."""
    stored.ledger.open_account("clinic", PureBudget(Decimal(1)), Neighbors.REPLACE_ONE)

    def unlocked(self: Any, connection: Any) -> None:
        connection.execute("BEGIN ISOLATION LEVEL SERIALIZABLE READ WRITE")
        self._check_schema(connection)

    monkeypatch.setattr(module.PostgresStorage, "_begin", unlocked)
    barrier = threading.Barrier(2)
    plain = PostgresTransaction.append

    def together(self: Any, entry: Any) -> None:
        barrier.wait(30)
        plain(self, entry)

    monkeypatch.setattr(PostgresTransaction, "append", together)
    outcomes: list[str] = []

    def spend(label: str) -> None:
        try:
            stored.ledger.reserve(charge("1", label=label))
            outcomes.append("charged")
        except LedgerError as error:
            outcomes.append(error.message.partition(": ")[2].rpartition("; ")[2])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(spend, ["a", "b"]))
    assert sorted(outcomes) == ["charged", "nothing was written"]
    assert stored.ledger.state().accounts["clinic"].remaining == {"epsilon": Decimal(0)}


def test_a_lock_that_is_never_released_ends_in_an_error(
    stored: PostgresLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOCK_TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(module, "_LOCK_ATTEMPT_SECONDS", 0.1)
    with stored.storage.writing():
        with pytest.raises(LedgerError, match="another process holds the lock"):
            stored.ledger.reserve(charge())
        assert stored.ledger.state().accounts == {}  # a reader does not wait
    stored.ledger.reserve(charge())


def test_a_server_that_stops_answering_ends_in_an_error(
    stored: PostgresLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.ledger.reserve(charge())
    monkeypatch.setattr(module, "_SESSION_TIMEOUT_SECONDS", 1.0)
    stopped: list[int] = []

    def ask() -> None:
        with stored.storage.writing() as transaction:
            stopped.extend(sessions(stored))
            os.kill(stopped[0], signal.SIGSTOP)
            transaction.entries()

    try:
        with pytest.raises(LedgerError, match="connection was lost"):
            ask()
    finally:
        os.kill(stopped[0], signal.SIGCONT)
    monkeypatch.undo()
    assert len(stored.ledger.entries()) == 2


def test_a_writer_that_stalls_is_ended_so_that_others_can_write(
    stored: PostgresLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.ledger.reserve(charge())
    monkeypatch.setattr(module, "_IDLE_TIMEOUT_SECONDS", 0.2)

    def stall() -> None:
        with stored.storage.writing() as transaction:
            transaction.put_payload("lost", b"x")
            until(lambda: not sessions(stored))
            stored.ledger.reserve(charge("0.5"))
            transaction.put_payload("lost too", b"x")

    with pytest.raises(LedgerError, match="nothing was written"):
        stall()
    assert len(stored.ledger.entries()) == 3
    assert stored.ledger.findings()[0] == []


def test_a_signal_interrupts_waiting_for_another_writer(stored: PostgresLedger, coin: Path) -> None:
    stored.ledger.reserve(charge())
    command = [sys.executable, "-m", "dpbayes_cli", "release", str(coin), "--model", "beta-bernoulli", "--eps", "1",
               "--ledger", stored.place]  # fmt: skip
    with stored.storage.writing():
        waiting = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        until(lambda: sessions(stored, "wait_event_type = 'Lock'"))
        waiting.send_signal(signal.SIGTERM)
        _, messages = waiting.communicate(timeout=30)
    assert waiting.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in messages
    assert list(stored.ledger.state().accounts) == ["clinic"]


@pytest.fixture
def killing(monkeypatch: pytest.MonkeyPatch, postgres: Server) -> list[int]:
    """Count the statements; end the backend before the one whose number is the first list item."""
    import psycopg

    steps, plain = [0, 0], psycopg.Connection.execute

    def counted(self: Any, *arguments: Any, **named: Any) -> Any:
        if self.info.get_parameters().get("application_name") == "dpbayes":
            steps[1] += 1
            if steps[0] == steps[1]:
                pid = self.info.backend_pid
                postgres.execute(f"SELECT pg_terminate_backend({pid}, 10000)")
        return plain(self, *arguments, **named)

    monkeypatch.setattr(psycopg.Connection, "execute", counted)
    return steps


@pytest.mark.faults
@pytest.mark.parametrize("stride", [12, pytest.param(1, marks=pytest.mark.slow)])
def test_a_release_whose_server_process_is_killed_at_any_statement_is_finished_by_the_same_calls(
    stride: int, stored: PostgresLedger, killing: list[int]
) -> None:
    publish(Ledger(storage_at(f"{stored.place}?schema=whole")), charge())
    total = killing[1]
    assert total >= 25
    for fatal in range(stride, total + 1, stride):
        ledger = Ledger(storage_at(f"{stored.place}?schema=step_{fatal}"))
        killing[:] = [fatal, 0]
        with pytest.raises(LedgerError) as lost:
            publish(ledger, charge())
        assert any(text in lost.value.message for text in ("ended the session", "was lost", "did not confirm"))
        killing[0] = 0
        if ledger.state().last is not None:
            assert ledger.findings()[0] == []
        publish(ledger, charge())
        assert ledger.findings()[0] == []
        (account,) = ledger.state().accounts.values()
        assert account.spent == {"epsilon": Decimal(1)}
        assert [release.stage for release in account.releases.values()] == ["published"]


@pytest.mark.parametrize("end", ["pg_terminate_backend", "pg_cancel_backend"])
def test_an_unconfirmed_commit_is_reported_and_found_by_the_same_call(end: str, stored: PostgresLedger) -> None:
    """A standby that never answers delays a commit that is already on this disk."""
    stored.ledger.open_account("clinic", PureBudget(Decimal(1)), Neighbors.REPLACE_ONE)
    with stored.server.setting("synchronous_standby_names", "nobody"), ThreadPoolExecutor(1) as pool:
        charged = pool.submit(stored.ledger.reserve, charge())
        until(lambda: sessions(stored, "wait_event = 'SyncRep'"))
        (backend,) = sessions(stored)
        stored.server.execute(f"SELECT {end}({backend})")
        with pytest.raises(LedgerError, match="the change may or may not have been written") as unknown:
            charged.result(timeout=60)
    assert "run the same command again" in unknown.value.hint
    assert [entry.fields["kind"] for entry in stored.ledger.entries()] == ["open", "reserved"]
    publish(stored.ledger, charge())
    assert stored.ledger.state().accounts["clinic"].spent == {"epsilon": Decimal(1)}


def test_the_tables_are_append_only_even_for_the_superuser(stored: PostgresLedger) -> None:
    import psycopg

    publish(stored.ledger, charge())
    before = stored.contents()
    for table, column in (("entries", "body"), ("payloads", "payload"), ("meta", "value"), ("terms", "term")):
        for statement in ("UPDATE {0} SET {1} = {1}", "DELETE FROM {0}", "TRUNCATE {0}"):
            for role in ("origin", "replica"):
                with stored.server.connect(stored.database) as connection:
                    connection.execute(f"SET session_replication_role = {role}")
                    with pytest.raises(psycopg.errors.RestrictViolation, match="append-only"):
                        connection.execute(statement.format(f"dpbayes.{table}", column))
    assert stored.contents() == before


@pytest.fixture
def role(stored: PostgresLedger) -> Iterator[str]:
    """A role without any privilege."""
    stored.server.execute("CREATE ROLE clerk LOGIN")
    yield "clerk"
    stored.server.execute("DROP OWNED BY clerk", stored.database)
    stored.server.execute("DROP ROLE clerk")


def test_the_privileges_in_the_readme_are_enough_for_a_release(stored: PostgresLedger, role: str) -> None:
    import psycopg

    page = (ROOT / "docs/how-to/two-hosts.md").read_text(encoding="utf-8")
    (rights,) = re.findall(r"^```sql\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    publish(stored.ledger, charge())
    clerk = Ledger(storage_at(stored.server.url(stored.database, role)))
    for right in rights.replace("analyst", role).splitlines():
        with pytest.raises(LedgerError, match="lacks a privilege"):
            publish(clerk, charge("0.5"))
        stored.server.execute(right, stored.database)
    publish(clerk, charge("0.5"))
    assert clerk.findings()[0] == []
    for statement in ("DELETE FROM dpbayes.entries", "UPDATE dpbayes.entries SET hash = ''", "TRUNCATE dpbayes.meta"):
        with (
            stored.server.connect(stored.database, role) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            connection.execute(statement)


def test_a_role_that_may_not_create_a_ledger_uses_the_schema_it_is_given(stored: PostgresLedger, role: str) -> None:
    clerk = Ledger(storage_at(stored.server.url(stored.database, role)))
    with pytest.raises(LedgerError, match="lacks a privilege"):
        publish(clerk, charge())
    stored.server.execute("CREATE SCHEMA dpbayes AUTHORIZATION clerk", stored.database)
    publish(clerk, charge())
    assert clerk.findings()[0] == []


def test_what_is_no_ledger_is_left_alone(stored: PostgresLedger) -> None:
    stored.server.execute("CREATE SCHEMA dpbayes", stored.database)
    stored.server.execute("CREATE TABLE dpbayes.entries (mine text)", stored.database)
    for use in (lambda: stored.ledger.reserve(charge()), stored.ledger.state):
        with pytest.raises(LedgerError, match="not a dpbayes ledger"):
            use()
    stored.server.execute("CREATE TABLE dpbayes.payloads (mine text)", stored.database)
    stored.server.execute("CREATE TABLE dpbayes.meta (mine text)", stored.database)
    with pytest.raises(LedgerError, match="does not hold the tables of a ledger"):
        stored.ledger.reserve(charge())
    assert stored.contents() == [[], [], []]


def test_another_or_a_newer_ledger_is_refused(stored: PostgresLedger) -> None:
    publish(stored.ledger, charge())
    for statement, message in (
        ("UPDATE meta SET value = '2' WHERE name = 'schema_version'", "schema version 2"),
        ("DELETE FROM meta", "not a dpbayes ledger"),
    ):
        stored.tamper(statement)
        for use in (lambda: stored.ledger.reserve(charge("0.1")), stored.ledger.state):
            with pytest.raises(LedgerError, match=message):
                use()


def test_a_database_holds_several_ledgers_each_in_its_schema(stored: PostgresLedger, dpbayes: Cli) -> None:
    for name in ("one", "two"):
        assert dpbayes("budget", "open", name, "--eps", "1", "--ledger", f"{stored.place}?schema={name}").code == 0
    shown = dpbayes("budget", "show", "--ledger", f"{stored.place}?schema=two&sslmode=prefer", "--json").json
    assert [account["account"] for account in shown["accounts"]] == ["two"]
    assert shown["ledger"] == f"{stored.place}?schema=two"
    assert not stored.storage.exists


@pytest.mark.slow
def test_a_large_payload_comes_back(stored: PostgresLedger) -> None:
    payload = os.urandom(20 << 20)
    release = stored.ledger.reserve(charge()).release
    stored.ledger.seal(release, "clinic", payload)
    assert stored.ledger.reserve(charge()).payload == payload


@pytest.fixture
def guarded(stored: PostgresLedger) -> Iterator[str]:
    """The address for a role that has a password."""
    stored.server.execute(f"CREATE ROLE guarded LOGIN SUPERUSER PASSWORD '{PASSWORD}'")
    yield stored.server.url(stored.database, "guarded")
    stored.server.execute("REASSIGN OWNED BY guarded TO postgres", stored.database)
    stored.server.execute("DROP ROLE guarded")


def test_the_password_comes_from_the_environment_or_a_file_and_is_never_shown(
    guarded: str, coin: Path, place: Path, dpbayes: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPBAYES_LEDGER", guarded)
    request = ("release", coin, "--model", "beta-bernoulli", "--eps", "1", "-vv", "--out", "out")
    for wrong in ("", "incorrect horse"):
        monkeypatch.setenv("PGPASSWORD", wrong)
        refused = dpbayes(*request).exits(LedgerError.exit_code, "check the password")
        assert not any(word in refused.err for word in ("authentication", "FATAL", "SCRAM", "horse"))
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    outputs = [dpbayes(*request), dpbayes("budget", "show", "-v"), dpbayes("budget", "export")]
    assert [output.code for output in outputs] == [0, 0, 0]
    assert guarded in outputs[1].err
    monkeypatch.delenv("PGPASSWORD")
    secret = place / "pgpass"
    secret.write_text(f"*:*:*:guarded:{PASSWORD}\n")
    secret.chmod(0o600)
    outputs.append(dpbayes("budget", "verify", "--ledger", f"{guarded}?passfile={secret}", "-vv"))
    monkeypatch.setenv("PGPASSFILE", str(secret))
    outputs.append(dpbayes("budget", "verify", "-vv"))
    assert [output.code for output in outputs[3:]] == [0, 0]
    assert not any(PASSWORD in output.out + output.err for output in outputs)
    written = b"".join(path.read_bytes() for path in (place / "out").iterdir())
    assert b"postgresql://" not in written
    assert PASSWORD.encode() not in written


@pytest.mark.usefixtures("postgres")
def test_an_unreachable_server_is_reported_without_the_drivers_text(dpbayes: Cli, place: Path) -> None:
    result = dpbayes(
        "budget", "show", "--ledger", f"postgresql://ada@{str(place).replace('/', '%2F')}/clinic", "-vv"
    ).exits(LedgerError.exit_code, "cannot be reached")
    assert not any(word in result.err for word in ("connection failed", "No such file", "psycopg.Operational"))
