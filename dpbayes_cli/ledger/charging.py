"""Decide which release a charge is for, which account pays, and whether the charge fits; nothing is written."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dpbayes_cli.base.errors import BudgetError
from dpbayes_cli.ledger.budget_remedy import budget_remedy
from dpbayes_cli.ledger.budgets import Budget, component_texts
from dpbayes_cli.ledger.charge_text import charge_text
from dpbayes_cli.ledger.data_names import is_same_source
from dpbayes_cli.ledger.limits import check_open, restatement
from dpbayes_cli.ledger.populations import check_population, opening_command
from dpbayes_cli.ledger.process_identity import is_running, this_process
from dpbayes_cli.ledger.records import ReleaseRecord, release_id_of
from dpbayes_cli.ledger.replay import record_layout
from dpbayes_cli.ledger.state import Account, State
from dpbayes_cli.ledger.union_budget import default_budget
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.neighbors import Neighbors

_MAX_LISTED = 20
"""How many of the latest releases a refusal lists."""


@dataclass(frozen=True)
class Charge:
    """What a release request asks of the ledger.

    Attributes:
        label: the name that the user gave the release; None: the request itself identifies the release.
        fresh: whether to pay for a new draw even if the same request was released before.
        same_data: whether the user states that the data are the same although their path has changed.
        open_account: whether a missing account may be opened with the default total.
        request, request_digest: the canonical request and its digest.
        question_digest: the digest of the part of the request that determines the privacy cost.
        source: the data source, as in ``ReleaseRecord``.
        guarantee: the privacy cost to charge.
        unit: the column that holds the privacy unit's ID; None: each record is a unit of its own.
        purpose: the purpose of the release, which the history keeps.
        analyst: the analyst whose limit is charged in addition to the account, or None.
        delta: the delta that the request states, or None.
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
    delta: Decimal | None = None


@dataclass(frozen=True)
class Reservation:
    """A charged release, with its draw and its published document, if the ledger holds them.

    Attributes:
        budget: the budget of the account.
        opened: whether the account was opened for this release.
    """

    release: ReleaseRecord
    payload: bytes | None
    document: bytes | None
    budget: Budget
    opened: bool


@dataclass(frozen=True)
class Preview:
    """The effect that ``Ledger.reserve`` would have.

    Attributes:
        release_id: the ID that the release has or would get.
        known: the record of the release if it was charged before, so that it would cost nothing; else None.
        remaining: the account's remaining budget after the charge, by component.
        budget: the budget of the account.
        opened: whether the account would be opened for this release.
    """

    release_id: str
    known: ReleaseRecord | None
    remaining: dict[str, Decimal]
    budget: Budget
    opened: bool


def default_account(charge: Charge) -> Account:
    """Return the account that a charge opens if there is none: its kind of total is one that the charge needs."""
    budget = default_budget(charge.guarantee, charge.delta)
    return Account(charge.account, budget, charge.neighbors, "", True, charge.unit)


def paying_account(state: State, charge: Charge) -> tuple[Account, bool]:
    """Return the account to charge, and whether it has to be opened first.

    Raises:
        BudgetError: there is no such account, or its neighbors, privacy unit or file layout differ from the charge's.
    """
    account = state.accounts.get(charge.account)
    if account is None:
        opened = default_account(charge)
        if state.blind:
            raise BudgetError(
                f"the ledger was restored from a backup, and an account {charge.account!r} may have been lost",
                hint="open the account again with its total, less all that was released of these data: "
                f"{opening_command(opened, 'TOTAL')}",
            )
        if not charge.open_account:
            raise BudgetError(
                f"there is no account {charge.account!r}",
                hint=opening_command(opened),
            )
        return opened, True
    if account.neighbors is not charge.neighbors:
        raise BudgetError(
            f"the account {account.name!r} uses {account.neighbors} neighbors; this release uses {charge.neighbors}",
            hint="use the account's neighbor relation; for data of other people, name another account with --dataset",
        )
    if account.unit != charge.unit:
        raise BudgetError(
            f"the account {account.name!r} protects {unit_text(account.unit)}; "
            f"this release protects {unit_text(charge.unit)}: their privacy costs do not add up",
            hint="use the account's privacy unit (--unit COLUMN); for data of other people, name another account with "
            "--dataset",
        )
    requested = record_layout(charge.request, charge.unit)
    others = [release_id for layout, release_id in account.layouts.items() if layout != requested]
    if others:
        raise BudgetError(
            f"release {others[0]} of the account {account.name!r} read its files with another layout, and its records "
            "or privacy units may differ: such costs do not add up",
            hint="use the same layout; for data of other people, name another account with --dataset",
        )
    return account, False


def unit_text(unit: str | None) -> str:
    """Return, as text, what an account protects: single records, or all records of one privacy unit."""
    return "single records" if unit is None else f"all records of one value of the column {unit!r}"


def find_release(state: State, account: Account, charge: Charge) -> tuple[str, ReleaseRecord | None]:
    """Return the label of a charge's release, and its record; None in place of the record if it is not charged yet.

    Raises:
        BudgetError: the label belongs to another request, or the release read another data source.
    """
    label = charge.label if charge.label is not None else f"request {charge.request_digest}"
    if charge.fresh:
        return _fresh_label(state, account, label, charge)
    known = state.release(account, release_id_of(account.name, label))
    if known is None:
        return label, None
    if known.request_digest != charge.request_digest:
        raise BudgetError(
            f"the release id {label!r} belongs to another request", hint="give this release another --release-id"
        )
    if is_same_source(known.source, charge.source):
        return label, known
    if known.stage == "reserved":
        raise BudgetError(
            f"release {known.release_id} was started on another source and is unfinished; nothing was charged",
            hint="give its original command again to finish it; to pay for a new draw: "
            + ("--fresh" if charge.label is None else "another --release-id"),
        )
    if charge.label is None and not charge.same_data:
        raise BudgetError(
            f"release {known.release_id} was made for this request from another source; nothing was charged",
            hint="choose: --same-data (if the data are the same: show that release again), "
            "--fresh (charge a new release), or --release-id NAME (charge a new release under this name)",
        )
    return label, known


def begun_release(state: State, account: Account, charge: Charge) -> ReleaseRecord | None:
    """Return the release of the request that this process has charged or would continue; None if there is none."""
    for known in state.charged(account, last=_MAX_LISTED):
        if known.owner == this_process() and known.request_digest == charge.request_digest:
            return known
    return find_release(state, account, charge)[1]


def charged_before(state: State, account: Account, charge: Charge) -> list[ReleaseRecord]:
    """Return the charged releases of the same request that a charge could show or finish, whatever they cost."""
    label = charge.label if charge.label is not None else f"request {charge.request_digest}"
    if charge.fresh:
        return list(_abandoned_draws(state, account, label, charge))
    known = state.release(account, release_id_of(account.name, label))
    return [known] if known is not None and known.request_digest == charge.request_digest else []


def check_fits(state: State, account: Account, charge: Charge, label: str) -> None:
    """Refuse a charge that must not be made; ``label`` is the label that its release would get.

    Raises:
        BudgetError: the charge does not fit the account or the analyst's limit, its request was paid for already, or
            only another account has paid for its data.
    """
    if refusal := account.budget.refusal(label, charge.request_digest, charge.guarantee):
        raise BudgetError(f"{refusal}; nothing was charged", hint="dpbayes schedule show FILE lists what is in it")
    check_open(account)
    check_population(state, account, charge.source)
    unlabeled = charge.label is None and not charge.fresh
    for known in state.charged(account, charge.question_digest) if unlabeled else []:
        if known.label.startswith("request "):
            if known.stage == "reserved":
                raise BudgetError(
                    f"release {known.release_id} has paid for this request already and is unfinished; "
                    "nothing was charged",
                    hint="give its original command again to finish it; --fresh pays for a new draw",
                )
            raise BudgetError(
                f"release {known.release_id} has paid for this request already: "
                "another prior, method or number of samples costs nothing; nothing was charged",
                hint="dpbayes infer BUNDLE --prior ... --samples N; --fresh pays for a new draw",
            )
    _check_limit(state, account, charge)
    if account.exhausted:
        raise BudgetError(
            f"the whole budget of account {account.name!r} counts as spent: {account.exhausted}; nothing was charged",
            hint=restatement(account),
        )
    if missing := account.budget.shortfall(account.charged, charge.guarantee):
        raise BudgetError(
            f"the budget of account {account.name!r} does not allow this release; nothing was charged",
            requested=component_texts(account.budget.requested(account.charged, charge.guarantee)),
            remaining=component_texts(account.remaining),
            missing=component_texts(missing),
            spent_by=[
                (release.release_id, f"{charge_text(release.guarantee)} on {release.time}")
                for release in state.charged(account, last=_MAX_LISTED)
            ],
            hint=budget_remedy(account, charge.guarantee, missing),
        )


def _check_limit(state: State, account: Account, charge: Charge) -> None:
    name, analyst = account.name, charge.analyst
    if analyst is None:
        if account.limits:
            raise BudgetError(
                f"the account {name!r} has a limit for each analyst, and this release names no analyst",
                hint="name the analyst: --analyst NAME",
            )
        return
    if analyst not in account.limits:
        raise BudgetError(
            f"the analyst {analyst!r} has no limit in the account {name!r}",
            hint=f"dpbayes budget limit {name} {analyst} --{account.budget.amounts[0]} LIMIT --reason TEXT",
        )
    if analyst in account.exhausted_limits:
        raise BudgetError(
            f"the limit of analyst {analyst!r} in account {name!r} counts as spent: later entries were lost; "
            "nothing was charged",
            hint=f"set it again: dpbayes budget limit {name} {analyst} {account.budget.options('LIMIT')} --reason TEXT",
        )
    limit = account.limits[analyst]
    if missing := limit.budget.shortfall(limit.charged, charge.guarantee):
        raise BudgetError(
            f"the limit of analyst {analyst!r} in account {name!r} does not allow this release; nothing was charged",
            requested=component_texts(limit.budget.requested(limit.charged, charge.guarantee)),
            remaining=component_texts(limit.remaining),
            missing=component_texts(missing),
            spent_by=[
                (release.release_id, f"asked on {release.time}")
                for release in state.charged(account, last=_MAX_LISTED)
                if release.analyst == analyst
            ],
            hint=f"ask for less, or raise the limit: dpbayes budget limit {name} {analyst} "
            f"{limit.budget.options('LIMIT', missing)} --reason TEXT",
        )


def _abandoned_draws(state: State, account: Account, base: str, charge: Charge) -> Iterator[ReleaseRecord]:
    """Yield the unfinished new draws for the same request and source, if the process that began them has died."""
    for release_id in account.unfinished:
        known = state.release(account, release_id)
        if known is None or not re.fullmatch(re.escape(base) + " fresh [1-9][0-9]*", known.label):
            continue
        is_same_request = known.request_digest == charge.request_digest
        if is_same_request and is_same_source(known.source, charge.source) and not is_running(known.owner):
            yield known


def _fresh_label(state: State, account: Account, base: str, charge: Charge) -> tuple[str, ReleaseRecord | None]:
    """Return the label and record of an abandoned draw at the same cost, or the label of a new draw and None."""

    def is_taken(number: int) -> bool:
        return state.release(account, release_id_of(account.name, f"{base} fresh {number}")) is not None

    for known in _abandoned_draws(state, account, base, charge):
        if known.guarantee in (charge.guarantee, charge.guarantee.former):
            return known.label, known
    bound = 1
    while is_taken(bound):
        bound *= 2
    number = bisect_left(range(bound), True, lo=bound // 2, key=lambda n: not is_taken(n)) if bound > 1 else 1
    return f"{base} fresh {number}", None
