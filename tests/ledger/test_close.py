"""An account that is closed cannot be charged, changed or opened again; its releases stay."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from dpbayes_cli.base.canonical import digest
from dpbayes_cli.base.errors import BudgetError
from dpbayes_cli.ledger import checkpoint
from dpbayes_cli.ledger.budgets import PureBudget
from dpbayes_cli.ledger.chain import next_entry
from dpbayes_cli.ledger.limits import notice_entry
from dpbayes_cli.ledger.upkeep import salvage
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.conftest import Cli
from tests.ledger.ledgers import SqliteLedger, StoredLedger, amend, damage, labeled, open_ledger, publish

RATE = ["--model", "beta-bernoulli", "--eps", "1"]


@pytest.fixture
def stored(tmp_path: Path) -> StoredLedger:
    return SqliteLedger(tmp_path / "ledger.sqlite")


def closed(stored: StoredLedger) -> None:
    """Open an account, charge a release that is published and one that is not, and close it."""
    stored.ledger.open_account("clinic", PureBudget(Decimal(3)), Neighbors.REPLACE_ONE)
    publish(stored.ledger, labeled("a"))
    stored.ledger.reserve(labeled("b"))
    stored.ledger.close_account("clinic", "the study ended")


@pytest.mark.parametrize("interval", [2, 256])
def test_a_closed_account_only_finishes_what_was_charged(
    stored: StoredLedger, interval: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "_INTERVAL_ENTRIES", interval)
    closed(stored)
    ledger = stored.ledger
    for refused in (
        lambda: ledger.reserve(labeled("c")),
        lambda: ledger.preview(labeled("c")),
        lambda: amend(ledger, "clinic", {"epsilon": Decimal(9)}),
        lambda: ledger.change("clinic", lambda known: notice_entry(known, Decimal("0.5"), "")),
        lambda: ledger.open_account("clinic", PureBudget(Decimal(3)), Neighbors.REPLACE_ONE),
        lambda: ledger.open_account("clinic", PureBudget(Decimal(4)), Neighbors.REPLACE_ONE),
    ):
        with pytest.raises(BudgetError, match="was closed on 2026-01-02"):
            refused()
    assert ledger.reserve(labeled("a")).document == b"document of a"
    assert publish(ledger, labeled("b"))
    assert not ledger.close_account("clinic", "again")[1]
    assert ledger.state().accounts["clinic"].closed
    assert stored.ledger.findings()[0] == []


def test_a_charge_after_the_closing_breaks_the_protocol(stored: StoredLedger) -> None:
    """Every process refuses an entry that was appended to the chain without the check."""
    closed(stored)
    entries = stored.ledger.entries()
    charged = next(entry.fields for entry in entries if entry.fields["kind"] == "reserved")
    with stored.storage.writing() as transaction:
        transaction.append(next_entry(entries[-1], {**charged, "release_id": "c" * 16, "label": "c"}))
    assert any("the account is closed" in finding for finding in stored.ledger.findings()[0])


def test_earlier_versions_refuse_a_checkpoint_with_a_closed_account(stored: StoredLedger) -> None:
    """Versions before 0.4 read the key ``accounts``, ignore ``closed``, and would charge the account."""
    stored.ledger.open_account("school", PureBudget(Decimal(3)), Neighbors.REPLACE_ONE)
    assert json.loads(checkpoint.state_payload(stored.ledger.state())).keys() > {"accounts"}
    closed(stored)
    assert "accounts" not in json.loads(checkpoint.state_payload(stored.ledger.state()))


def test_a_checkpoint_of_an_earlier_version_opens_no_closed_account(stored: StoredLedger) -> None:
    """The checkpoint follows the closing, but does not say that the account is closed."""
    closed(stored)
    with stored.ledger.writing() as (transaction, state):
        state.accounts["clinic"].closed = ""
        payload = checkpoint.state_payload(state)
        fields = {"kind": "checkpoint", "account": "", "state": digest("payload", payload)}
        stored.ledger.append(transaction, state, fields)
        transaction.put_payload(checkpoint.payload_key(state.mark.sequence), payload)
    assert stored.ledger.state().base > 0
    with pytest.raises(BudgetError, match="was closed on 2026-01-02"):
        stored.ledger.reserve(labeled("c"))


@pytest.mark.parametrize("row", [2, 6])
def test_a_salvage_keeps_the_account_closed(row: int, stored: StoredLedger, ledger_path: Path, tmp_path: Path) -> None:
    """Either the closing itself, which is the last entry, or an earlier entry is damaged."""
    closed(stored)
    damage(ledger_path, row)
    saved = salvage(open_ledger(ledger_path), tmp_path / "saved.sqlite")
    assert saved.state.accounts["clinic"].closed
    assert "account 'clinic' is closed" in saved.tightened


def test_closing_from_the_shell(dpbayes: Cli, coin: Path) -> None:
    assert dpbayes("budget", "close", "coin", "--reason", "x").code == 6
    first = dpbayes("release", coin, *RATE, "--out", "out", "--json").json
    assert dpbayes("budget", "close", "coin").code == 2, "a reason is needed"
    done = dpbayes("budget", "close", "coin", "--reason", "the study ended")
    assert (done.code, "closed on 20" in done.out) == (0, True)
    again = dpbayes("budget", "close", "coin", "--reason", "the study ended", "--json")
    assert (again.json["already_done"], again.json["closed"][:2]) == (True, "20")
    dpbayes("release", coin, *RATE[:-1], "2").exits(5, "was closed on")
    assert dpbayes("release", coin, *RATE, "--out", "out", "--json").json["posterior"] == first["posterior"]
    assert dpbayes("verify", "out").code == 0
    assert dpbayes("budget", "verify").code == 0
    assert "closed" in dpbayes("budget", "show").out
    assert dpbayes("budget", "show", "--json").json["accounts"][0]["allows_next"]["laplace"] == {"epsilon": "0"}
    assert "the study ended" in dpbayes("budget", "history").out
