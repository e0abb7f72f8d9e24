"""The ledger's protocol: one charge and one payload for each ID, no refund, no trust without verification."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from dpbayes_cli.base.errors import BudgetError, LedgerError, SpecError
from dpbayes_cli.ledger import charging
from dpbayes_cli.ledger.budgets import PureBudget
from dpbayes_cli.ledger.chain import next_entry
from dpbayes_cli.ledger.charging import Charge
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.process_identity import is_running, this_process
from dpbayes_cli.ledger.records import release_id_of
from dpbayes_cli.privacy.kinds import PureDP
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.ledger.ledgers import StoredLedger, amend, charge, publish


def test_a_release_goes_from_reserved_to_sealed_to_published(ledger: Ledger) -> None:
    reservation = ledger.reserve(charge())
    assert reservation.opened
    assert reservation.payload is None
    assert reservation.release.stage == "reserved"
    assert ledger.seal(reservation.release, "clinic", b"payload") == b"payload"
    record, state = ledger.publish(reservation.release, "clinic", {"release.json": "d"}, b"document")
    assert record.stage == "published"
    assert state.accounts["clinic"].remaining == {"epsilon": Decimal(2)}
    assert ledger.findings()[0] == []
    again = ledger.reserve(charge())
    assert (again.release.release_id, again.payload, again.opened) == (record.release_id, b"payload", False)
    assert ledger.state().accounts["clinic"].remaining == {"epsilon": Decimal(2)}


def test_the_first_payload_wins_and_the_loser_gets_it_back(ledger: Ledger) -> None:
    release = ledger.reserve(charge()).release
    assert ledger.seal(release, "clinic", b"winner") == b"winner"
    assert ledger.seal(release, "clinic", b"loser") == b"winner"
    ledger.publish(release, "clinic", {"a": "1"}, b"first")
    record, _ = ledger.publish(release, "clinic", {"a": "2"}, b"second")
    assert record.published == {"a": "1"}


def test_a_stage_cannot_be_skipped(ledger: Ledger) -> None:
    release = ledger.reserve(charge()).release
    with pytest.raises(LedgerError, match="never sealed"):
        ledger.publish(release, "clinic", {}, b"")
    with pytest.raises(LedgerError, match="never charged"):
        ledger.seal(replace(release, release_id="0" * 16), "clinic", b"x")


def test_a_refused_charge_changes_nothing_and_tells_how_much_is_missing(ledger: Ledger, stored: StoredLedger) -> None:
    ledger.reserve(charge("2"))
    before = stored.contents()
    with pytest.raises(BudgetError) as refused:
        ledger.reserve(charge("1.5"))
    assert stored.contents() == before
    assert refused.value.requested == {"epsilon": "1.5"}
    assert refused.value.remaining == {"epsilon": "1"}
    assert refused.value.missing == {"epsilon": "0.5"}
    assert [release_id for release_id, _ in refused.value.spent_by] == [release_id_of("clinic", "request request-2")]


def test_an_unfinished_reservation_stays_charged(ledger: Ledger) -> None:
    ledger.reserve(charge("2.5"))
    with pytest.raises(BudgetError):
        ledger.reserve(charge("1"))


def test_a_label_belongs_to_one_request(ledger: Ledger) -> None:
    ledger.reserve(charge("1", label="2026-01-01"))
    with pytest.raises(BudgetError, match="another request"):
        ledger.reserve(charge("0.5", label="2026-01-01"))
    other = publish(ledger, charge("1", label="2026-01-02"))
    assert ledger.reserve(charge("1", label="2026-01-02", source="/elsewhere.csv")).release.release_id == other
    assert ledger.state().accounts["clinic"].spent == {"epsilon": Decimal(2)}


def test_the_same_request_on_another_source_needs_a_flag(ledger: Ledger) -> None:
    publish(ledger, charge("1"))
    moved = charge("1", source="/new/clinic.csv")
    with pytest.raises(BudgetError, match="another source") as refused:
        ledger.reserve(moved)
    assert all(word in refused.value.hint for word in ("--same-data", "--fresh", "--release-id"))
    assert ledger.reserve(replace(moved, same_data=True)).release.source == "/data/clinic.csv"
    ledger.reserve(replace(moved, fresh=True))
    ledger.reserve(replace(moved, label="moved"))
    assert ledger.state().accounts["clinic"].spent == {"epsilon": Decimal(3)}


def test_a_request_that_is_free_is_not_charged_again(ledger: Ledger) -> None:
    ledger.reserve(charge("1"))
    other_prior = charge("1", request_digest="with-another-prior")
    with pytest.raises(BudgetError, match="paid for this request"):
        ledger.reserve(other_prior)
    ledger.reserve(replace(other_prior, fresh=True))
    assert ledger.state().accounts["clinic"].spent == {"epsilon": Decimal(2)}


@pytest.mark.parametrize(
    "change", [{"request": {"model": "n"}, "request_digest": "another"}, {"guarantee": PureDP(Decimal("0.25"))}]
)
def test_an_abandoned_draw_of_another_request_or_cost_is_not_finished(
    change: dict[str, Any], ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Python, two requests can share a name; and the cost of a request can depend on the number of records."""
    monkeypatch.setattr(charging, "is_running", lambda _: False)
    asked = charge("0.5", label="monthly", fresh=True)
    first = ledger.reserve(asked).release
    assert ledger.reserve(replace(asked, **change)).release.release_id != first.release_id
    assert ledger.reserve(asked).release.release_id == first.release_id


def test_an_account_keeps_its_neighbors_unit_and_layout(ledger: Ledger) -> None:
    def asked(label: str, layout: dict[str, Any], unit: str | None, account: str) -> Charge:
        changes = {"request": {"source": layout, "label": label}, "request_digest": label, "question_digest": label}
        return charge("0.1", account=account, unit=unit, label=label, source=f"/data/{account}.csv", **changes)

    ledger.reserve(asked("a", {}, None, "single"))
    with pytest.raises(BudgetError, match="uses replace-one neighbors"):
        ledger.reserve(charge("0.5", account="single", neighbors=Neighbors.ADD_REMOVE))
    with pytest.raises(BudgetError, match="this release protects all records of one value of the column 'who'"):
        ledger.reserve(asked("u", {}, "who", "single"))
    ledger.reserve(asked("b", {"header": False, "columns": ["x"], "delimiter": ";"}, None, "single"))
    with pytest.raises(BudgetError, match="another layout"):
        ledger.reserve(asked("c", {"quoted_newlines": True}, None, "single"))
    ledger.reserve(asked("g", {"quoted_newlines": True}, None, "parsed"))
    with pytest.raises(BudgetError, match="another layout"):
        ledger.reserve(asked("h", {"quoted_newlines": True, "quote": "'"}, None, "parsed"))
    ledger.reserve(asked("d", {}, "who", "units"))
    others: list[dict[str, Any]] = [{"header": False, "columns": ["x", "who"]}, {"delimiter": ";"}, {"quote": "'"}]
    for i, layout in enumerate(others):
        with pytest.raises(BudgetError, match="another layout"):
            ledger.reserve(asked(f"e{i}", layout, "who", "units"))
    ledger.reserve(asked("f", {"format": "parquet"}, "who", "units"))


def test_fresh_pays_again_but_finishes_its_own_dead_reservation_first(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ledger.reserve(charge("0.5", fresh=True)).release
    second = ledger.reserve(charge("0.5", fresh=True)).release
    assert first.release_id != second.release_id  # this process is running, so it has not abandoned its reservation
    monkeypatch.setattr(charging, "is_running", lambda owner: False)
    assert ledger.reserve(charge("0.5", fresh=True)).release.release_id == first.release_id
    for release in (first, second):
        ledger.seal(release, "clinic", b"x")
        ledger.publish(release, "clinic", {}, b"")
    third = ledger.reserve(charge("0.5", fresh=True)).release
    assert third.release_id not in {first.release_id, second.release_id}
    assert ledger.state().accounts["clinic"].spent == {"epsilon": Decimal("1.5")}


def test_a_process_that_ended_is_known_to_have_ended() -> None:
    assert is_running(this_process())
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # a zombie
    assert not is_running({**this_process(), "pid": str(child.pid), "start": "1"})
    child.wait()
    assert not is_running({**this_process(), "pid": str(child.pid)})
    assert not is_running({**this_process(), "start": "12345"})
    assert not is_running({**this_process(), "boot": "an earlier one"})
    assert is_running({**this_process(), "host": "elsewhere", "pid": "1"})


def test_an_unknown_account_is_opened_only_if_that_is_allowed(ledger: Ledger) -> None:
    with pytest.raises(BudgetError, match="no account 'clinic'") as refused:
        ledger.reserve(charge(open_account=False))
    assert "dpbayes budget open clinic --epsilon 3" in refused.value.hint
    assert ledger.reserve(charge()).opened
    account = ledger.state().accounts["clinic"]
    assert account.by_default
    assert account.budget == PureBudget(Decimal(3))


def test_opening_amending_and_their_limits(ledger: Ledger) -> None:
    ledger.open_account("clinic", PureBudget(Decimal(1)), Neighbors.REPLACE_ONE)
    with pytest.raises(BudgetError, match="already open"):
        ledger.open_account("clinic", PureBudget(Decimal(2)), Neighbors.REPLACE_ONE)
    ledger.reserve(charge("0.75"))
    with pytest.raises(BudgetError, match="has already spent more"):
        amend(ledger, "clinic", {"epsilon": Decimal("0.5")}, "less")
    account = amend(ledger, "clinic", {"epsilon": Decimal("0.75")}, "to the last drop")
    assert account.remaining == {"epsilon": Decimal(0)}
    assert amend(ledger, "clinic", {"epsilon": Decimal(5)}, "more").remaining == {"epsilon": Decimal("4.25")}
    with pytest.raises(SpecError, match="rho cannot be changed"):
        amend(ledger, "clinic", {"rho": Decimal("0.1")}, "why")
    with pytest.raises(BudgetError, match="no account"):
        amend(ledger, "other", {"epsilon": Decimal(5)}, "why")


def test_a_preview_changes_nothing_and_agrees_with_the_charge(ledger: Ledger, stored: StoredLedger) -> None:
    assert ledger.preview(charge("1")).opened
    assert not stored.storage.exists
    assert ledger.state().accounts == {}
    with pytest.raises(LedgerError, match="no ledger"):
        ledger.entries()
    ledger.reserve(charge("1"))
    before = stored.contents()
    assert ledger.preview(charge("1")).known is not None
    assert ledger.preview(charge("0.5")).remaining == {"epsilon": Decimal("1.5")}
    with pytest.raises(BudgetError):
        ledger.preview(charge("2.5"))
    assert stored.contents() == before


def test_a_preview_reads_a_ledger_that_another_process_has_just_created(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.reserve(charge("1"))
    answers = iter([False])  # of the question whether there is a ledger
    monkeypatch.setattr(type(ledger.storage), "exists", property(lambda _: next(answers, True)))
    assert ledger.preview(charge("0.5", label="next")).remaining == {"epsilon": Decimal("1.5")}


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM entries",
        "DELETE FROM payloads WHERE release_id = (SELECT min(release_id) FROM payloads)",
        "UPDATE payloads SET payload = x'00' WHERE release_id = (SELECT min(release_id) FROM payloads)",
        "INSERT INTO payloads VALUES ('0000000000000000', x'789c030000000001')",
        """UPDATE entries SET body = replace(body, '"epsilon":"1"', '"epsilon":"0"') WHERE sequence = 2""",
        "UPDATE entries SET hash = substr(hash, 2) || substr(hash, 1, 1) WHERE sequence = 3",
        "DELETE FROM entries WHERE sequence = 2",
        "UPDATE entries SET sequence = sequence + 100 WHERE sequence >= 3",
        "INSERT INTO entries SELECT sequence + 50, body, hash FROM entries WHERE sequence = 2",
        """UPDATE entries SET body = '{"kind": ' WHERE sequence = 4""",
        "UPDATE entries SET body = '[]' WHERE sequence = 4",
    ],
)
def test_tampering_is_found_and_stops_every_release(statement: str, used: Ledger, stored: StoredLedger) -> None:
    stored.tamper(statement)
    assert used.findings()[0]
    if "payloads" in statement or statement == "DELETE FROM entries":
        return  # only ``budget verify`` reads the payloads of other releases
    for use in (lambda: stored.ledger.reserve(charge("0.1")), stored.ledger.state):
        with pytest.raises(LedgerError, match="does not verify"):
            use()


def test_an_exchanged_payload_is_never_shown(used: Ledger, stored: StoredLedger) -> None:
    known = used.reserve(charge("1"))
    assert (known.payload, known.document) == (b"payload of request request-1", b"document of request request-1")
    for key in (known.release.release_id, f"{known.release.release_id}/document"):
        stored.tamper("CREATE TABLE kept AS SELECT * FROM payloads")
        stored.tamper(f"UPDATE payloads SET payload = x'789c030000000001' WHERE release_id = '{key}'")
        with pytest.raises(LedgerError, match="not the one that was sealed"):
            used.reserve(charge("1"))
        assert used.reserve(charge("0.5")).payload == b"payload of request request-0.5"
        stored.tamper("DELETE FROM payloads")
        stored.tamper("INSERT INTO payloads SELECT * FROM kept")
        stored.tamper("DROP TABLE kept")


def test_a_rewritten_chain_that_breaks_the_protocol_is_found(used: Ledger, stored: StoredLedger) -> None:
    """Even with all hashes recomputed, a charge above the budget or a skipped stage is found."""
    entries = used.entries()
    last = entries[-1]
    forged = next_entry(
        last, {**entries[1].fields, "release_id": "f" * 16, "guarantee": {"kind": "pure", "epsilon": "9"}}
    )
    with stored.storage.writing() as transaction:
        transaction.append(forged)
    assert any("does not fit the budget" in finding for finding in used.findings()[0])


def test_history_records_who_when_and_why(ledger: Ledger) -> None:
    ledger.reserve(charge(purpose="quarterly report"))
    fields = ledger.entries()[-1].fields
    assert fields["time"] == "2026-01-02T03:04:05Z"
    assert fields["purpose"] == "quarterly report"
    assert fields["user"]
    assert fields["version"]
    assert fields["owner"]["pid"] == str(os.getpid())


def test_release_ids_depend_only_on_account_and_label() -> None:
    assert release_id_of("clinic", "2026-01-01") == "77ea50ee3bbce062"
    assert release_id_of("a", "bc") != release_id_of("ab", "c")
