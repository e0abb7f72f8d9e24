"""Sub-limits of analysts under one total, and notices."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from dpbayes_cli.base.errors import BudgetError, LedgerError, SpecError
from dpbayes_cli.ledger.budgets import PureBudget
from dpbayes_cli.ledger.chain import next_entry
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.limits import amendment_entry, due_notices, limit_entry, notice_entry
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.conftest import Cli
from tests.ledger.ledgers import SqliteLedger, StoredLedger, amend, labeled, limit


@pytest.fixture
def stored(tmp_path: Path) -> StoredLedger:
    return SqliteLedger(tmp_path / "ledger.sqlite")


@pytest.fixture
def ledger(stored: StoredLedger) -> Ledger:
    stored.ledger.open_account("clinic", PureBudget(Decimal(3)), Neighbors.REPLACE_ONE)
    return stored.ledger


def test_an_analyst_spends_no_more_than_the_limit_nor_the_total(ledger: Ledger) -> None:
    limit(ledger, ada="1", bob="2.5")
    ledger.reserve(labeled("a", "0.75", "ada"))
    with pytest.raises(BudgetError, match="limit of analyst 'ada'") as refused:
        ledger.reserve(labeled("b", "0.5", "ada"))
    assert refused.value.missing == {"epsilon": "0.25"}
    ledger.reserve(labeled("c", "0.25", "ada"))
    with pytest.raises(BudgetError, match="budget of account"):  # bob's limit would allow it, the total does not
        ledger.reserve(labeled("d", "2.5", "bob"))
    ledger.reserve(labeled("e", "2", "bob"))
    account = ledger.state().accounts["clinic"]
    assert account.remaining == {"epsilon": Decimal(0)}
    assert {name: limit.remaining["epsilon"] for name, limit in account.limits.items()} == {
        "ada": Decimal(0), "bob": Decimal("0.5"),
    }  # fmt: skip
    assert [release.analyst for release in account.releases.values()] == ["ada", "ada", "bob"]
    assert ledger.findings()[0] == []


def test_an_account_with_limits_requires_an_analyst_with_a_limit(ledger: Ledger) -> None:
    with pytest.raises(BudgetError, match="has no limit"):
        ledger.reserve(labeled("a", "0.5", "ada"))
    ledger.reserve(labeled("a", "0.5", None))
    limit(ledger, ada="1")
    with pytest.raises(BudgetError, match="names no analyst"):
        ledger.reserve(labeled("b", "0.5", None))
    with pytest.raises(BudgetError, match="has no limit"):
        ledger.reserve(labeled("b", "0.5", "eve"))
    assert ledger.reserve(labeled("a", "0.5", None)).release.analyst is None, "what is charged is shown to everyone"


def test_a_limit_changes_but_not_below_what_is_spent(ledger: Ledger) -> None:
    limit(ledger, ada="1")
    ledger.reserve(labeled("a", "0.75", "ada"))
    with pytest.raises(BudgetError, match="spent more"):
        limit(ledger, ada="0.5")
    limit(ledger, ada="0.75")
    with pytest.raises(SpecError):
        ledger.change("clinic", lambda account: limit_entry(account, "ada", {"rho": Decimal(1)}, ""))
    assert ledger.state().accounts["clinic"].limits["ada"].remaining == {"epsilon": Decimal(0)}
    amend(ledger, "clinic", {"epsilon": Decimal(5)}, "more")
    assert ledger.state().accounts["clinic"].limits["ada"].budget == PureBudget(Decimal("0.75"))


def test_an_account_with_limits_gets_no_delta(stored: StoredLedger, ledger: Ledger) -> None:
    """Neither on request nor by an entry in the chain; nor can a limit be of another kind than the account."""
    delta = {"delta": Decimal("1e-6")}
    with pytest.raises(SpecError):
        limit_entry(ledger.account("clinic"), "ada", delta, "")
    fields = amendment_entry(ledger.account("clinic"), delta, "")
    limit(ledger, ada="1")
    with pytest.raises(BudgetError, match="limits of analysts"):
        amend(ledger, "clinic", delta)
    for entry in (fields, {**fields, "kind": "limit", "analyst": "bob"}):
        with stored.storage.writing() as transaction:
            common = {name: transaction.entries()[-1].fields[name] for name in ("time", "user", "version")}
            transaction.append(next_entry(transaction.entries()[-1], {**entry, **common}))
    assert len([each for each in ledger.findings()[0] if "kind of budget differs" in each]) == 2


@pytest.mark.parametrize(
    "change", [{"analyst": "bob"}, {"analyst": None}, {"analyst": "ada", "guarantee": {"kind": "pure", "epsilon": "2"}}]
)
def test_a_charge_past_a_limit_breaks_the_protocol(
    stored: StoredLedger, ledger: Ledger, change: dict[str, object]
) -> None:
    """Every process refuses an entry that was appended to the chain without the filter."""
    limit(ledger, ada="1")
    ledger.reserve(labeled("a", "0.5", "ada"))
    with stored.storage.writing() as transaction:
        entries = transaction.entries()
        last = entries[-1]
        fields = {key: value for key, value in last.fields.items() if key not in {"sequence", "previous"}}
        fields |= {"release_id": "f" * 16, "label": "b", **change}
        transaction.append(next_entry(last, {key: value for key, value in fields.items() if value is not None}))
    findings, _ = ledger.findings()
    assert any("breaks the protocol" in finding for finding in findings)
    with pytest.raises(LedgerError):
        ledger.reserve(labeled("c", "0.1", "ada"))


def test_notices_begin_at_the_share(ledger: Ledger) -> None:
    limit(ledger, ada="1", bob="3")
    ledger.change("clinic", lambda account: notice_entry(account, Decimal("0.5"), ""))
    said = []
    for i, (epsilon, analyst) in enumerate([("0.25", "ada"), ("0.25", "ada"), ("1", "bob"), ("0.5", "ada")]):
        ledger.reserve(labeled(str(i), epsilon, analyst))
        said.append(due_notices(ledger.state().accounts["clinic"], analyst))
    ada = "of the limit of analyst 'ada' is spent"
    account = "of account 'clinic' is spent"
    assert said == [
        [], [f"notice: 50 % {ada}"], [f"notice: 50 % {account}"], [f"notice: 66 % {account}", f"notice: 100 % {ada}"],
    ]  # fmt: skip
    ledger.change("clinic", lambda account: notice_entry(account, None, ""))
    assert due_notices(ledger.state().accounts["clinic"], "ada") == []


def test_limits_and_notices_from_the_shell(dpbayes: Cli, coin: Path) -> None:
    dpbayes("budget", "open", "coin", "--epsilon", "1")
    assert dpbayes("budget", "limit", "coin", "ada", "--epsilon", "0.5", "--reason", "pilot").code == 0
    assert dpbayes("budget", "notify", "coin", "--at", "0.4").code == 0
    ask = ["release", coin, "--model", "beta-bernoulli"]
    assert dpbayes(*ask, "--eps", "0.5").code == 5
    dpbayes(*ask, "--eps", "0.5", "--analyst", "ada", "--out", "out").exits(
        0, "notice: 50 % of account 'coin' is spent", "notice: 100 % of the limit of analyst 'ada' is spent"
    )
    again = dpbayes(*ask, "--eps", "0.5", "--analyst", "ada", "--out", "out")
    assert "notice" not in again.err, "nothing was charged"
    dpbayes(*ask, "--eps", "0.1", "--analyst", "ada").exits(5, "missing: epsilon 0.1")
    shown = dpbayes("budget", "show", "--json").json["accounts"][0]
    assert shown["limits"]["ada"] == {
        "limit": {"epsilon": "0.5"}, "spent": {"epsilon": "0.5"}, "remaining": {"epsilon": "0"},
    }  # fmt: skip
    assert shown["notice"] == "0.4"
    assert "ada may spend epsilon 0.5, remaining epsilon 0" in dpbayes("budget", "show", "-v").err
    assert dpbayes("budget", "verify").code == 0
    for wrong in (["limit", "coin", "ada"], ["notify", "coin"], ["notify", "coin", "--at", "1.5"]):
        assert dpbayes("budget", *wrong).code == 2
    assert dpbayes("budget", "limit", "coin", "a b", "--epsilon", "1").code == 3
    assert dpbayes("budget", "limit", "nope", "ada", "--epsilon", "1").code == 5
