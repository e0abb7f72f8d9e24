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
from tests.ledger.books import Books, SqliteBooks, amend, charge, walk

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
    if kind == 0:
        return outcome(lambda: ledger.reserve(asked))
    if kind == 1:
        total = {"epsilon": Decimal(draw.choice(["1", "4", "9"]))}
        return outcome(lambda: amend(ledger, account, total, "so"))
    if kind == 2 and draw.random() < 0.2:
        limit = {"epsilon": Decimal(draw.choice(["1", "3"]))}
        return outcome(lambda: ledger.change(account, lambda known: limit_entry(known, "ada", limit, "")))
    if kind == 3:
        return outcome(lambda: ledger.change(account, lambda known: notice_entry(known, Decimal("0.5"), "")))
    return outcome(lambda: walk(ledger, asked))


@pytest.mark.parametrize("seed", often(range(6), 3))
def test_checkpoints_do_not_change_any_result(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random operations, each by a fresh process, on a ledger with checkpoints and on one without."""
    plain, dense = SqliteBooks(tmp_path / "plain"), SqliteBooks(tmp_path / "dense")
    draw = random.Random(seed)
    for _ in range(60):
        step = draw.random()
        answers = []
        for books, interval in ((plain, NEVER), (dense, 5)):
            monkeypatch.setattr(checkpoint, "_INTERVAL_ENTRIES", interval)
            answers.append(operate(random.Random(step), books.ledger))
        assert answers[0] == answers[1]
    entries = {books: books.ledger.entries() for books in (plain, dense)}
    kept = [[e.fields["kind"] for e in entries[books] if e.fields["kind"] != "checkpoint"] for books in (plain, dense)]
    assert kept[0] == kept[1]
    assert len(entries[dense]) > len(entries[plain]) + 5
    assert dense.ledger.findings()[0] == []
    for name, account in plain.ledger.state().accounts.items():
        again = dense.ledger.state().accounts[name]
        assert (again.spent, again.remaining, again.limits) == (account.spent, account.remaining, account.limits)
        assert [*dense.ledger.account(name).releases] == [*plain.ledger.account(name).releases]


def test_the_first_transaction_replays_from_the_checkpoint_and_later_ones_only_new_entries(
    books: Books, monkeypatch: pytest.MonkeyPatch, short_interval: None
) -> None:
    for number in range(10):
        walk(books.ledger, charge("0.1", label=f"n{number}"))
    replayed: list[int] = []
    real = replay

    def counting(entries: list[Entry], state: Any) -> Any:
        replayed.append(len(entries))
        return real(entries, state)

    monkeypatch.setattr(anchored_storage, "replay", counting)
    ledger = books.ledger
    ledger.preview(charge("0.1", label="next"))
    walk(ledger, charge("0.1", label="next"))
    assert replayed[0] <= 5
    assert max(replayed[1:]) <= 1, "under the lock only what others have appended is verified"


def test_a_changed_checkpoint_is_refused_and_a_wrong_one_is_found(books: Books, short_interval: None) -> None:
    for number in range(4):
        walk(books.ledger, charge("0.1", label=f"n{number}"))
    key = f"checkpoint {books.ledger.state().base}"
    books.tamper(f"UPDATE payloads SET payload = x'789c030000000001' WHERE release_id = '{key}'")
    with pytest.raises(LedgerError):
        books.ledger.reserve(charge("0.1", label="next"))
    books.tamper(f"DELETE FROM payloads WHERE release_id = '{key}'")
    with pytest.raises(LedgerError, match=r"checkpoint in entry .* was changed"):
        books.ledger.state()
    assert books.ledger.findings()[0]


def test_a_checkpoint_of_another_state_breaks_the_protocol(ledger: Ledger, books: Books) -> None:
    walk(ledger, charge("0.1"))
    with (
        ledger.writing() as (transaction, state),
        pytest.raises(LedgerError, match="is not the state after the entries"),
    ):
        ledger.append(transaction, state, {"kind": "checkpoint", "account": "", "state": "0" * 64})


def test_verify_finds_an_edit_before_a_checkpoint(
    tmp_path: Path, short_interval: None, dpbayes: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    books = SqliteBooks(tmp_path / "ledger.sqlite")
    for number in range(8):
        walk(books.ledger, charge("0.1", label=f"n{number}"))
    spent = books.ledger.state().accounts["clinic"].spent
    books.tamper("""UPDATE entries SET body = replace(body, '"epsilon":"0.1"', '"epsilon":"0"') WHERE sequence = 2""")
    assert books.ledger.state().accounts["clinic"].spent == spent, "totals come from the checkpoint"
    assert dpbayes("budget", "verify", "--ledger", books.place).code == 7
    books.tamper("DELETE FROM terms WHERE term LIKE 'release:%'")
    assert "the index of the entries was changed" in books.ledger.findings()[0]


def test_a_ledger_without_an_index_gets_one_with_its_first_checkpoint(tmp_path: Path, short_interval: None) -> None:
    books = SqliteBooks(tmp_path / "ledger.sqlite")
    ledger = books.ledger
    ledger.open_account("clinic", PureBudget(Decimal(3)), Neighbors.REPLACE_ONE)
    books.tamper("DROP TABLE terms")
    for number in range(4):
        walk(books.ledger, charge("0.1", label=f"n{number}"))
    assert books.ledger.findings()[0] == []
    assert books.ledger.state().base > 0
    with SqliteStorage(tmp_path / "ledger.sqlite").reading() as transaction:
        assert transaction.is_indexed


def test_a_server_gets_its_index_by_a_migration(request: pytest.FixtureRequest, short_interval: None) -> None:
    from tests.ledger.books import PostgresBooks

    books = PostgresBooks(request.getfixturevalue("postgres"), request.getfixturevalue("database"))
    walk(books.ledger, charge("0.1"))
    books.server.execute("DROP TABLE dpbayes.terms", books.database)
    for number in range(4):
        walk(books.ledger, charge("0.1", label=f"n{number}"))
    assert books.ledger.state().base == 0, "as before, without checkpoints"
    assert books.storage.migrate() == (1, None)
    assert books.storage.migrate() is None
    walk(books.ledger, charge("0.1", label="next"))
    assert books.ledger.state().base > 0
    assert books.ledger.findings()[0] == []
