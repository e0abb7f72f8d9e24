"""The account of a schedule admits each listed release once, at the listed cost, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dpbayes_cli.base.canonical import canonical_json, digest
from dpbayes_cli.base.errors import BudgetError, LedgerError
from dpbayes_cli.ledger import checkpoint
from dpbayes_cli.ledger.admitted_releases import allowances
from dpbayes_cli.ledger.chain import next_entry
from dpbayes_cli.ledger.charging import Charge
from dpbayes_cli.ledger.limits import amendment_entry, limit_entry
from dpbayes_cli.ledger.records import release_id_of
from dpbayes_cli.ledger.schedule_budget import ScheduleBudget
from dpbayes_cli.ledger.union_budget import parse_budget
from dpbayes_cli.ledger.upkeep import salvage
from dpbayes_cli.privacy.kinds import PureDP
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.ledger.ledgers import SqliteLedger, StoredLedger, charge, damage, publish

REQUESTS = {"rate": {"model": "a"}, "age": {"model": "b"}}
TEXT = json.dumps(
    {
        "releases": [
            {"name": "rate", "times": 3, "request": REQUESTS["rate"]},
            {"name": "age", "dates": ["2026-01-02", "2026-01-03"], "request": REQUESTS["age"]},
        ]
    }
)
BUDGET = ScheduleBudget(
    Decimal(3), Decimal("1e-6"), Decimal("2.5"), TEXT, (PureDP(Decimal("0.1")), PureDP(Decimal("0.2")))
)
LABELS = ["rate-1", "rate-2", "rate-3", "age-2026-01-02", "age-2026-01-03"]


def listed(label: str, **changes: Any) -> Charge:
    """Return the charge of a listed release."""
    name = label.partition("-")[0]
    request = REQUESTS[name]
    stated = {
        "label": label, "request": request, "request_digest": digest("request", canonical_json(request)),
        "question_digest": name, "guarantee": PureDP(Decimal("0.1" if name == "rate" else "0.2")),
        "open_account": False,
    }  # fmt: skip
    return charge("1", **{**stated, **changes})


@pytest.fixture
def stored(tmp_path: Path) -> StoredLedger:
    return SqliteLedger(tmp_path / "ledger.sqlite")


def opened(stored: StoredLedger) -> StoredLedger:
    stored.ledger.open_account("clinic", BUDGET, Neighbors.REPLACE_ONE)
    return stored


@pytest.mark.parametrize("interval", [2, 256])
def test_each_listed_release_is_charged_once(
    stored: StoredLedger, interval: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "_INTERVAL_ENTRIES", interval)
    opened(stored)
    assert len({publish(stored.ledger, listed(label)) for label in [*LABELS, *reversed(LABELS)]}) == len(LABELS)
    account = stored.ledger.account("clinic")
    assert account.n_releases == len(LABELS)
    assert account.spent == account.budget.total == {"epsilon": Decimal(3), "delta": Decimal("1e-6")}
    assert set(account.remaining.values()) == {Decimal(0)}
    assert stored.ledger.findings()[0] == []


REFUSED: dict[str, Callable[[], Charge]] = {
    "a label that is not listed": lambda: listed("rate-4"),
    "a date that is not listed": lambda: listed("age-2026-01-04"),
    "no label": lambda: replace(listed("rate-1"), label=None),
    "a new draw": lambda: replace(listed("rate-1"), label=None, fresh=True),
    "a new draw of a label": lambda: listed("rate-1", fresh=True),
    "another request": lambda: listed("rate-1", request_digest="another"),
    "the request of another entry": lambda: replace(listed("age-2026-01-02"), label="rate-1"),
    "a larger cost": lambda: listed("rate-1", guarantee=PureDP(Decimal("0.11"))),
    "the cost of another entry": lambda: listed("rate-1", guarantee=PureDP(Decimal("0.2"))),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_listed_is_refused(stored: StoredLedger, what: str) -> None:
    """Every process refuses an entry, too, that was appended to the chain without the check."""
    opened(stored)
    asked, before = REFUSED[what](), stored.ledger.state().mark
    for refused in (stored.ledger.preview, stored.ledger.reserve):
        with pytest.raises(BudgetError, match="schedule"):
            refused(asked)
    assert stored.ledger.state().mark == before
    append(stored, reserved(asked, label=f"{asked.label} fresh 1" if asked.fresh else asked.label or "request x"))
    assert any("schedule" in finding for finding in stored.ledger.findings()[0])
    with pytest.raises(LedgerError):
        stored.ledger.state()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "the release is charged twice"),
        ({"release_id": "c" * 16}, "the release ID is not that of its label"),
    ],
)
def test_a_listed_release_under_two_ids_breaks_the_protocol(
    stored: StoredLedger, changes: Mapping[str, str], reason: str
) -> None:
    opened(stored)
    publish(stored.ledger, listed("rate-1"))
    append(stored, {**reserved(listed("rate-1")), **changes})
    assert any(reason in finding for finding in stored.ledger.findings()[0])


def reserved(asked: Charge, label: str | None = None) -> dict[str, Any]:
    """Return the fields of the entry that charges a release."""
    label = label or asked.label or ""
    copied = ("account", "request", "request_digest", "question_digest", "source", "purpose")
    return {
        **{name: getattr(asked, name) for name in copied}, "kind": "reserved",
        "release_id": release_id_of(asked.account, label), "label": label, "guarantee": asked.guarantee.serialize(),
        "owner": {},
    }  # fmt: skip


def append(stored: StoredLedger, fields: Mapping[str, Any]) -> None:
    """Append an entry without any check."""
    entries = stored.ledger.entries()
    with stored.storage.writing() as transaction:
        transaction.append(next_entry(entries[-1], {**fields, **stored.ledger.stamp()}))


def test_no_amendment_changes_a_schedule(stored: StoredLedger) -> None:
    ledger = opened(stored).ledger
    for changes in ({"epsilon": Decimal(4)}, {"epsilon": Decimal(2)}, {"delta": Decimal("1e-5")}):
        with pytest.raises(BudgetError, match="cannot be changed"):
            ledger.change("clinic", lambda known, c=changes: amendment_entry(known, c, ""))  # type: ignore[misc]
    with pytest.raises(BudgetError, match="cannot be changed"):
        ledger.change("clinic", lambda known: limit_entry(known, "ada", {"epsilon": Decimal(1)}, ""))
    other = {**BUDGET.serialize(), "cost": "2.4"}
    append(stored, {"kind": "amend", "account": "clinic", "budget": other, "reason": ""})
    assert any("the kind of budget differs" in finding for finding in stored.ledger.findings()[0])


def test_the_same_schedule_is_opened_once(stored: StoredLedger) -> None:
    ledger = opened(stored).ledger
    assert not ledger.open_account("clinic", BUDGET, Neighbors.REPLACE_ONE)[1]
    other = ScheduleBudget(Decimal(4), BUDGET.delta, BUDGET.cost, TEXT, BUDGET.guarantees)
    with pytest.raises(BudgetError, match="other terms"):
        ledger.open_account("clinic", other, Neighbors.REPLACE_ONE)


def test_the_stored_schedule_is_read_back_and_a_malformed_one_is_refused() -> None:
    assert parse_budget(BUDGET.serialize()) == BUDGET
    assert list(BUDGET.listed) == LABELS
    for changes in (
        {"text": TEXT.replace("3", "4")}, {"digest": "0" * 64}, {"cost": "3.1"},
        {"guarantees": BUDGET.serialize()["guarantees"][:1]}, {"more": "0"}, {"epsilon": "0"},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"\w"):
            parse_budget({**BUDGET.serialize(), **changes})
    entry = {"name": "rate", "times": 1, "request": {}}
    for twice in ([entry, entry], [entry, {"name": "rate", "dates": ["1"], "request": {}}]):
        text = json.dumps({"releases": twice})
        with pytest.raises(ValueError, match="twice"):
            ScheduleBudget(Decimal(3), Decimal("1e-6"), Decimal(1), text, (PureDP(), PureDP()))


def test_earlier_versions_refuse_the_ledger(stored: StoredLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not know this kind of budget."""
    opened(stored)
    monkeypatch.setattr(ScheduleBudget, "kind", "unknown")
    with pytest.raises(LedgerError, match="unknown kind of budget"):
        stored.ledger.state()


def test_no_other_release_is_said_to_fit(stored: StoredLedger) -> None:
    account = opened(stored).ledger.account("clinic")
    assert {value for each in allowances(account).values() for value in each.values()} == {"0"}


def test_a_salvaged_charge_ends_the_schedule(stored: StoredLedger, tmp_path: Path) -> None:
    """A charge whose later entries are lost may have been published: its label must not be drawn again."""
    opened(stored)
    publish(stored.ledger, listed("rate-1"))
    stored.ledger.reserve(listed("rate-2"))
    damage(Path(stored.place), len(stored.ledger.entries()))
    target = tmp_path / "salvaged.sqlite"
    assert salvage(stored.ledger, target).charged
    salvaged = SqliteLedger(target).ledger
    salvaged.adopt("it was checked")
    for label in ("rate-2", "rate-3"):
        with pytest.raises(BudgetError, match="a charge was salvaged"):
            salvaged.reserve(listed(label))
    with pytest.raises(BudgetError, match="cannot be changed"):
        salvaged.change("clinic", lambda known: amendment_entry(known, {}, "", separate_population=True))
    same = {"kind": "amend", "account": "clinic", "budget": BUDGET.serialize(), "reason": ""}
    salvaged.change("clinic", lambda _: same)
    with pytest.raises(BudgetError, match="a charge was salvaged"):
        salvaged.reserve(listed("rate-2"))
    assert salvaged.reserve(listed("rate-1")).payload is not None
    assert salvaged.findings()[0] == []
