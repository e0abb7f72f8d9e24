"""Checkpoints make a transaction cheaper, and change no result."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dpbayes_cli.base.errors import DpbayesError, LedgerError
from dpbayes_cli.ledger import anchored_storage, checkpoint
from dpbayes_cli.ledger.budgets import PureBudget
from dpbayes_cli.ledger.chain import Entry
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.limits import limit_entry, notice_entry
from dpbayes_cli.ledger.replay import replay
from dpbayes_cli.ledger.sqlite import SqliteStorage
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.conftest import Cli, often
from tests.ledger.ledgers import PostgresLedger, SqliteLedger, StoredLedger, amend, charge, publish

NEVER = 10**9


@pytest.fixture
def short_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "_INTERVAL_ENTRIES", 5)


def outcome(action: Callable[[], Any]) -> object:
    """Return the result of an action, as far as a user can see it."""
    try:
        done = action()
    except DpbayesError as error:
        return type(error).__name__, error.message
    if hasattr(done, "release"):
        return done.release.release_id, done.release.stage, done.payload, done.document, done.opened
    return done if isinstance(done, str | None) else None


def operate(draw: random.Random, ledger: Ledger) -> object:
    """Do one random operation on a ledger."""
    account, epsilon = draw.choice(["clinic", "school"]), draw.choice(["0.1", "0.2", "0.3"])
    asked = charge(epsilon, account=account, source=f"/data/{account}.csv", fresh=draw.random() < 0.3)
    if draw.random() < 0.5:
        asked = charge(epsilon, account=account, source=f"/data/{account}.csv", label=f"l{draw.randrange(6)}")
    kind = draw.randrange(7)
    if draw.random() < 0.01:
        return outcome(lambda: ledger.close_account(account, "so")[1])
    if kind == 0:
        return outcome(lambda: ledger.reserve(asked))
    if kind == 1:
        total = (
            {"epsilon": Decimal(draw.choice(["1", "4", "9"]))} if draw.random() < 0.9 else {"delta": Decimal("1e-6")}
        )
        return outcome(lambda: amend(ledger, account, total, "so"))
    if kind == 2 and draw.random() < 0.2:
        limit = {"epsilon": Decimal(draw.choice(["1", "3"]))}
        return outcome(lambda: ledger.change(account, lambda known: limit_entry(known, "ada", limit, "")))
    if kind == 3:
        return outcome(lambda: ledger.change(account, lambda known: notice_entry(known, Decimal("0.5"), "")))
    return outcome(lambda: publish(ledger, asked))


@pytest.mark.faults
@pytest.mark.parametrize("seed", often(range(6), 6))
def test_checkpoints_do_not_change_any_result(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random operations, each by a fresh process, on a ledger with checkpoints and on one without."""
    plain, dense = SqliteLedger(tmp_path / "plain"), SqliteLedger(tmp_path / "dense")
    draw = random.Random(seed)
    for _ in range(60):
        step = draw.random()
        answers = []
        for stored, interval in ((plain, NEVER), (dense, 5)):
            monkeypatch.setattr(checkpoint, "_INTERVAL_ENTRIES", interval)
            answers.append(operate(random.Random(step), stored.ledger))
        assert answers[0] == answers[1]
    entries = {stored: stored.ledger.entries() for stored in (plain, dense)}
    kept = [
        [e.fields["kind"] for e in entries[stored] if e.fields["kind"] != "checkpoint"] for stored in (plain, dense)
    ]
    assert kept[0] == kept[1]
    assert len(entries[dense]) > len(entries[plain]) + 5
    assert dense.ledger.findings()[0] == []
    for name, account in plain.ledger.state().accounts.items():
        again = dense.ledger.state().accounts[name]
        assert (again.spent, again.remaining, again.limits) == (account.spent, account.remaining, account.limits)
        assert [*dense.ledger.account(name).releases] == [*plain.ledger.account(name).releases]


def test_the_first_transaction_replays_from_the_checkpoint_and_later_ones_only_new_entries(
    stored: StoredLedger, monkeypatch: pytest.MonkeyPatch, short_interval: None
) -> None:
    for number in range(10):
        publish(stored.ledger, charge("0.1", label=f"n{number}"))
    replayed: list[int] = []
    real = replay

    def counting(entries: list[Entry], state: Any) -> Any:
        replayed.append(len(entries))
        return real(entries, state)

    monkeypatch.setattr(anchored_storage, "replay", counting)
    ledger = stored.ledger
    ledger.preview(charge("0.1", label="next"))
    publish(ledger, charge("0.1", label="next"))
    assert replayed[0] <= 5
    assert max(replayed[1:]) <= 1, "under the lock only what others have appended is verified"


def test_a_changed_checkpoint_is_refused_and_a_wrong_one_is_found(stored: StoredLedger, short_interval: None) -> None:
    for number in range(4):
        publish(stored.ledger, charge("0.1", label=f"n{number}"))
    key = f"checkpoint {stored.ledger.state().base}"
    stored.tamper(f"UPDATE payloads SET payload = x'789c030000000001' WHERE release_id = '{key}'")
    with pytest.raises(LedgerError):
        stored.ledger.reserve(charge("0.1", label="next"))
    stored.tamper(f"DELETE FROM payloads WHERE release_id = '{key}'")
    with pytest.raises(LedgerError, match=r"checkpoint in entry .* was changed"):
        stored.ledger.state()
    assert stored.ledger.findings()[0]


def test_a_checkpoint_of_another_state_breaks_the_protocol(ledger: Ledger, stored: StoredLedger) -> None:
    publish(ledger, charge("0.1"))
    with (
        ledger.writing() as (transaction, state),
        pytest.raises(LedgerError, match="is not that of the state after the earlier entries"),
    ):
        ledger.append(transaction, state, {"kind": "checkpoint", "account": "", "state": "0" * 64})


def test_verify_finds_an_edit_before_a_checkpoint(
    tmp_path: Path, short_interval: None, dpbayes: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = SqliteLedger(tmp_path / "ledger.sqlite")
    for number in range(8):
        publish(stored.ledger, charge("0.1", label=f"n{number}"))
    spent = stored.ledger.state().accounts["clinic"].spent
    stored.tamper("""UPDATE entries SET body = replace(body, '"epsilon":"0.1"', '"epsilon":"0"') WHERE sequence = 2""")
    assert stored.ledger.state().accounts["clinic"].spent == spent, "totals come from the checkpoint"
    assert dpbayes("budget", "verify", "--ledger", stored.place).code == 7
    stored.tamper("DELETE FROM terms WHERE term LIKE 'release:%'")
    assert "the index of the entries was changed" in stored.ledger.findings()[0]


def test_a_ledger_without_an_index_gets_one_with_its_first_checkpoint(tmp_path: Path, short_interval: None) -> None:
    stored = SqliteLedger(tmp_path / "ledger.sqlite")
    ledger = stored.ledger
    ledger.open_account("clinic", PureBudget(Decimal(3)), Neighbors.REPLACE_ONE)
    stored.tamper("DROP TABLE terms")
    for number in range(4):
        publish(stored.ledger, charge("0.1", label=f"n{number}"))
    assert stored.ledger.findings()[0] == []
    assert stored.ledger.state().base > 0
    with SqliteStorage(tmp_path / "ledger.sqlite").reading() as transaction:
        assert transaction.is_indexed


def test_a_server_gets_its_index_by_a_migration(request: pytest.FixtureRequest, short_interval: None) -> None:
    stored = PostgresLedger(request.getfixturevalue("postgres"), request.getfixturevalue("database"))
    publish(stored.ledger, charge("0.1"))
    stored.server.execute("DROP TABLE dpbayes.terms", stored.database)
    for number in range(4):
        publish(stored.ledger, charge("0.1", label=f"n{number}"))
    assert stored.ledger.state().base == 0, "as before, without checkpoints"
    assert stored.storage.migrate() == (1, None)
    assert stored.storage.migrate() is None
    publish(stored.ledger, charge("0.1", label="next"))
    assert stored.ledger.state().base > 0
    assert stored.ledger.findings()[0] == []
