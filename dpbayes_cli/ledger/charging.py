"""Which release a charge means, which account pays, and whether it fits; nothing is written here."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dpbayes_cli.base.canonical import digest
from dpbayes_cli.base.errors import BudgetError
from dpbayes_cli.base.numeric import decimal_text
from dpbayes_cli.ledger.budgets import Budget, PureBudget, component_texts
from dpbayes_cli.ledger.data_names import is_same_source
from dpbayes_cli.ledger.limits import check_limit
from dpbayes_cli.ledger.populations import check_population
from dpbayes_cli.ledger.process_identity import is_running
from dpbayes_cli.ledger.records import ReleaseRecord
from dpbayes_cli.ledger.replay import record_layout
from dpbayes_cli.ledger.state import Account, State
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.neighbors import Neighbors

DEFAULT_EPSILON = Decimal(3)
"""The total of an account that a first release opens by itself."""
_LISTED = 20
"""Releases that a refusal lists, the youngest."""


@dataclass(frozen=True)
class Charge:
    """What a release asks of the ledger.

    Attributes:
        account: the account that pays.
        label: the label that the user gave, or None: the request names the release.
        fresh: whether a new draw is wanted although the request was answered before.
        same_data: whether the user says that another path holds the same data.
        open_account: whether an unknown account may be opened with the default total.
        request, request_digest, question_digest: what is asked.
        source: the identity of the data source.
        guarantee: the price.
        neighbors: the relation that the guarantee is about.
        unit: the column that says whose a record is, or None: each record is a unit of its own.
        purpose: why, for the history.
        analyst: under whose limit it is charged, or None.
    """

    account: str
    label: str | None
    fresh: bool
    same_data: bool
    open_account: bool
    request: dict[str, Any]
    request_digest: str
    question_digest: str
    source: str
    guarantee: Guarantee
    neighbors: Neighbors
    unit: str | None = None
    purpose: str = ""
    analyst: str | None = None


@dataclass(frozen=True)
class Reservation:
    """A release that is charged.

    Attributes:
        release: its record.
        payload: the sealed draw where there is one already.
        document: the release document where it was published already.
        delta: the delta that the account promises, 0 where it promises none.
        opened: whether the account was opened for it.
    """

    release: ReleaseRecord
    payload: bytes | None
    document: bytes | None
    delta: Decimal
    opened: bool


@dataclass(frozen=True)
class Preview:
    """What reserving would do.

    Attributes:
        release_id: the id that the release has or would get.
        known: its record where it is charged already, so that nothing more would be charged; else None.
        remaining: what the account would have left, by component.
        opened: whether the account would be opened for it.
    """

    release_id: str
    known: ReleaseRecord | None
    remaining: dict[str, Decimal]
    opened: bool


def release_id_of(account: str, label: str) -> str:
    """Return the id of a release: a digest of account and label, never of the data."""
    return digest("release", account.encode("utf-8"), label.encode("utf-8"))[:16]


def paying_account(state: State, charge: Charge) -> tuple[Account, bool]:
    """Return the account that pays, and whether it has to be opened first."""
    account = state.accounts.get(charge.account)
    if account is None:
        if not charge.open_account:
            raise BudgetError(
                f"there is no account {charge.account!r}",
                hint=f"dpbayes budget open {charge.account} --epsilon {decimal_text(DEFAULT_EPSILON)}",
            )
        if state.blind:
            raise BudgetError(
                f"the ledger was restored from a backup, and whether it had an account {charge.account!r} is not known",
                hint="add up what was released of these data, and open it with a total that is right: "
                f"dpbayes budget open {charge.account} --epsilon TOTAL",
            )
        return Account(charge.account, PureBudget(DEFAULT_EPSILON), charge.neighbors, "", True, charge.unit), True
    if account.neighbors is not charge.neighbors:
        raise BudgetError(
            f"the account {account.name!r} is kept under {account.neighbors} neighbors; "
            f"this release is priced under {charge.neighbors}",
            hint="one account has one relation: state the account's; or for data of other people another --dataset",
        )
    if account.unit != charge.unit:
        raise BudgetError(
            f"the account {account.name!r} protects {unit_text(account.unit)}; "
            f"this release protects {unit_text(charge.unit)}, and the two do not add up",
            hint="one account has one privacy unit: state the account's (--unit COLUMN); or for data of other people "
            "another --dataset",
        )
    others = [
        first for layout, first in account.layouts.items() if layout != record_layout(charge.request, charge.unit)
    ]
    if others:
        raise BudgetError(
            f"release {others[0]} of the account {account.name!r} read its files by another layout, by "
            "which a record, or whose it is, is something else; the two do not add up",
            hint="one account has one layout: state the same; or for data of other people another --dataset",
        )
    return account, False


def unit_text(unit: str | None) -> str:
    """Return whom an account protects."""
    return "single records" if unit is None else f"all records of one value of the column {unit!r}"


def find_release(state: State, account: Account, charge: Charge) -> tuple[str, ReleaseRecord | None]:
    """Return the label of the release, and its record where it is charged already.

    Raises:
        BudgetError: the label holds another request, or the data come from another place.
    """
    label = charge.label if charge.label is not None else f"request {charge.request_digest}"
    if charge.fresh:
        return _fresh_label(state, account, label, charge)
    known = state.release(account, release_id_of(account.name, label))
    if known is None:
        return label, None
    if known.request_digest != charge.request_digest:
        raise BudgetError(
            f"the release id {label!r} belongs to another request",
            hint="give this release another --release-id",
        )
    if is_same_source(known.source, charge.source):
        return label, known
    if known.stage == "reserved":
        raise BudgetError(
            f"release {known.release_id} was begun on another source and is not finished; nothing was charged",
            hint="give its original command to finish it; or pay for a new draw: "
            + ("--fresh" if charge.label is None else "another --release-id"),
        )
    if charge.label is None and not charge.same_data:
        raise BudgetError(
            f"release {known.release_id} answered this request from another source; nothing was charged",
            hint="say what is meant: --same-data (show that release again), "
            "--fresh (charge a new one), or --release-id NAME (charge one under a name of its own)",
        )
    return label, known


def check_fits(state: State, account: Account, charge: Charge) -> None:
    """Run the filter.

    Raises:
        BudgetError: the charge does not fit, would pay again for what is free, or from another account than the data's.
    """
    check_population(state, account, charge.source)
    if charge.label is None and not charge.fresh:
        for known in state.charged(account, charge.question_digest):
            if known.label.startswith("request "):
                if known.stage == "reserved":
                    raise BudgetError(
                        f"release {known.release_id} has paid for this question already and is not finished; "
                        "nothing was charged",
                        hint="give its original command again to finish it; or --fresh to pay for a new draw",
                    )
                raise BudgetError(
                    f"release {known.release_id} has paid for this question already; "
                    "another prior, method or number of samples is free; nothing was charged",
                    hint="dpbayes infer BUNDLE --prior ... --samples N; or --fresh to pay for a new draw",
                )
    check_limit(account, charge.analyst, charge.guarantee, lambda: state.charged(account, last=_LISTED))
    if account.exhausted:
        raise BudgetError(
            f"the whole budget of account {account.name!r} counts as spent: {account.exhausted}; nothing was charged",
            hint="add up what was released, and state the total that is right: "
            f"dpbayes budget amend {account.name} {_total_option(account)} TOTAL --reason TEXT",
        )
    missing = account.budget.shortfall(account.charged, charge.guarantee)
    if not missing:
        return
    raise BudgetError(
        f"the budget of account {account.name!r} does not allow this release; nothing was charged",
        requested=component_texts(account.budget.requested(account.charged, charge.guarantee)),
        remaining=component_texts(account.remaining),
        missing=component_texts(missing),
        spent_by=[
            (release.release_id, f"{price_text(release.guarantee)} on {release.time}")
            for release in state.charged(account, last=_LISTED)
        ],
        hint=_way_out(account, charge.guarantee, missing),
    )


def price_text(guarantee: Guarantee) -> str:
    """Return a guarantee in few words."""
    if guarantee.epsilon.is_finite():
        delta = f", delta {decimal_text(guarantee.delta)}" if guarantee.delta else ""
        return f"epsilon {decimal_text(guarantee.epsilon)}{delta}"
    if guarantee.mu.is_finite():
        return f"mu {decimal_text(guarantee.mu)}"
    if guarantee.rho.is_finite():
        return f"rho {decimal_text(guarantee.rho)}"
    below = f" below order {decimal_text(guarantee.order_max)}" if guarantee.order_max.is_finite() else ""
    return f"a Renyi curve{below}"


def _way_out(account: Account, guarantee: Guarantee, missing: Mapping[str, Decimal]) -> str:
    """Return what the custodian can do about a charge that does not fit."""
    if all(amount.is_finite() for amount in missing.values()):
        raised = f"dpbayes budget amend {account.name} {_total_option(account)} TOTAL --reason TEXT"
        return f"ask for less, or raise the total: {raised}"
    if account.budget.kind == PureBudget.kind:
        opening = f"dpbayes budget open {account.name} --epsilon {decimal_text(DEFAULT_EPSILON)} --delta 1e-6"
        if guarantee.mu.is_finite():
            opening += " --gaussian"
        if account.opened:
            return f"the account keeps pure epsilon, which {price_text(guarantee)} does not have: use laplace or ops"
        return f"{price_text(guarantee)} has no pure epsilon, and an account opened by default keeps that: {opening}"
    if guarantee.order_max.is_finite():
        needed = min(budget_orders(account.budget), default=guarantee.order_max)
        factor = (needed - 1) / (guarantee.order_max - 1)
        return (
            f"the guarantee is infinite at and above order {guarantee.order_max:.6g}, and this account needs one at "
            f"order {needed:f}: a prior whose parameters are more than {factor:.4g} times as large would have it"
        )
    return f"{price_text(guarantee)} has no price in this account"


def _total_option(account: Account) -> str:
    return {"rdp": "--rdp", "zcdp": "--rho", "gdp": "--mu"}.get(account.budget.kind, "--epsilon")


def budget_orders(budget: Budget) -> list[Decimal]:
    """Return the Renyi orders that a budget knows."""
    inner = (lane.removeprefix("rdp(").removesuffix(")") for lane in budget.lanes if lane.startswith("rdp("))
    return [Decimal(order) for order in inner]


def _fresh_label(state: State, account: Account, base: str, charge: Charge) -> tuple[str, ReleaseRecord | None]:
    """Return the label of a new draw; an unfinished one whose process has died is finished first."""

    def taken(number: int) -> bool:
        return state.release(account, release_id_of(account.name, f"{base} fresh {number}")) is not None

    for release_id in account.unfinished:
        known = state.release(account, release_id)
        if known is None or not re.fullmatch(re.escape(base) + " fresh [1-9][0-9]*", known.label):
            continue
        same = is_same_source(known.source, charge.source) and known.guarantee == charge.guarantee
        if same and not is_running(known.owner):
            return known.label, known
    above = 1
    while taken(above):
        above *= 2
    number = bisect_left(range(above), True, lo=above // 2, key=lambda n: not taken(n)) if above > 1 else 1
    return f"{base} fresh {number}", None
