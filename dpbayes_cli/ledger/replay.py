"""The protocol of the ledger: how each kind of entry changes the state, and when an entry is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dpbayes_cli.base.canonical import canonical_json, digest
from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import parse_decimal
from dpbayes_cli.ledger.budgets import Budget
from dpbayes_cli.ledger.chain import Entry, Mark
from dpbayes_cli.ledger.checkpoint import state_payload
from dpbayes_cli.ledger.limits import describe_change
from dpbayes_cli.ledger.records import ReleaseRecord, advance_release, release_id_of
from dpbayes_cli.ledger.schedule_budget import ScheduleBudget
from dpbayes_cli.ledger.state import Account, State
from dpbayes_cli.ledger.union_budget import parse_budget
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.neighbors import Neighbors


def replay(entries: Iterable[Entry], state: State | None = None) -> State:
    """Return the state after entries; ``state``, the state before them (None: empty), is changed in place."""
    state = State() if state is None else state
    for entry in entries:
        apply_entry(state, entry)
    return state


def apply_entry(state: State, entry: Entry) -> None:
    """Apply the next entry; if it breaks the protocol, add a finding, and change neither accounts nor releases."""
    if refusal := try_entry(state, entry):
        state.findings.append(f"entry {entry.sequence} breaks the protocol: {refusal}")
        _end_with(state, entry)


def try_entry(state: State, entry: Entry) -> str:
    """Apply the next entry and return an empty text; if it breaks the protocol, only return why."""
    try:
        _apply(state, entry)
    except KeyError as error:
        return f"there is no {error}"
    except (TypeError, ValueError, AttributeError, RecursionError, SpecError) as error:
        return str(error) or type(error).__name__
    _end_with(state, entry)
    return ""


def _end_with(state: State, entry: Entry) -> None:
    state.last = entry
    state.hashes.append(entry.hash)


def _apply(state: State, entry: Entry) -> None:
    fields = entry.fields
    if fields["sequence"] != entry.sequence:
        raise ValueError("the sequence number differs from the entry's place in the chain")
    kind, name = fields["kind"], fields["account"]
    for key in ("kind", "account", "time", "user", "version"):
        if not isinstance(fields[key], str):
            raise ValueError(f"the {key} is not a text")
    if not isinstance(fields.get("purpose", ""), str) or not isinstance(fields.get("reason", ""), str):
        raise ValueError("the reason is not a text")
    _check_signature(state, fields)
    if not name:
        _apply_to_ledger(state, kind, fields)
    elif kind == "open":
        _open(state, name, fields)
    elif kind in {"amend", "limit", "notice", "close"}:
        _apply_to_account(state.accounts[name], kind, fields)
    else:
        _apply_to_release(state, state.accounts[name], fields, entry)


def _check_signature(state: State, fields: Mapping[str, Any]) -> None:
    """Require a signature by the ledger's key; if the key is not available, the signature is not checked."""
    in_force = state.key_for(fields)
    state.is_signed = False
    if not in_force:
        return
    if "mac" not in fields:
        raise ValueError("the entry is not signed with the ledger's key")
    key = state.keys.get(in_force)
    if key is not None and not key.signed(state.mark.hash, fields):
        raise ValueError("the signature is not valid under the ledger's key: the entry was rewritten")
    state.is_signed = key is not None


def _open(state: State, name: str, fields: Mapping[str, Any]) -> None:
    if name in state.accounts:
        raise ValueError("the account is already open")
    unit = fields.get("unit")
    if not isinstance(unit, str | None):
        raise ValueError("the unit is not a text")
    budget, relation, separate = parse_budget(fields["budget"]), Neighbors(fields["neighbors"]), _is_separate(fields)
    opened = (fields["time"], fields["by_default"], unit)
    state.accounts[name] = Account(name, budget, relation, *opened, separate_population=separate)


def _is_separate(fields: Mapping[str, Any]) -> bool:
    is_separate = fields.get("separate_population", False)
    if not isinstance(is_separate, bool):
        raise ValueError("separate_population is neither true nor false")
    return is_separate


def _apply_to_account(account: Account, kind: str, fields: Mapping[str, Any]) -> None:
    if account.closed:
        raise ValueError("the account is closed")
    if kind == "close":
        account.closed = fields["time"]
    elif kind == "notice":
        share = fields["share"]
        account.notice = None if share is None else parse_decimal(share)
    else:
        budget, lost = parse_budget(fields["budget"]), fields.get("lost", False)
        if kind == "amend":
            charged = account.charged_in(budget)
            if budget.excess(charged) and not lost:
                raise ValueError("the budget falls below what is spent")
            account.budget, account.charged = budget, charged
            account.exhausted = account.exhausted if lost or not budget.amounts else ""
            account.separate_population |= _is_separate(fields)
        else:
            _set_limit(account, fields["analyst"], budget, lost)
    account.changes.update([describe_change(fields)])


def _set_limit(account: Account, analyst: object, budget: Budget, lost: bool) -> None:
    if not isinstance(analyst, str) or not analyst:
        raise ValueError("the analyst is not a text")
    if budget.shape != account.budget.shape:
        raise ValueError("the kind of budget differs from that of the account")
    if budget.excess(account.charged_to(analyst)) and not lost:
        raise ValueError("the limit falls below what is spent")
    account.limit_budgets[analyst] = budget
    if not lost and analyst in account.exhausted_limits:
        account.exhausted_limits.remove(analyst)


def _apply_to_ledger(state: State, kind: str, fields: Mapping[str, Any]) -> None:
    """Apply an entry about the whole ledger; digests of checkpoints depend on the texts of the reasons below."""
    if kind == "anchor":
        if not isinstance(fields["path"], str):
            raise ValueError("the path is not a text")
        state.anchor = fields["path"]
    elif kind in {"adopt", "restored"}:
        state.adopted |= {Mark(seen["sequence"], seen["hash"]) for seen in fields["seen"]}
        if kind == "adopt":
            state.held, state.changes = "", []
        elif fields["lost"]:
            _exhaust(state, "entries after the backup that was restored could not be read")
    elif kind == "salvaged":
        state.held, state.changes = fields["held"], list(fields.get("changes", []))
        if fields.get("exhausted", False):
            _exhaust(state, "entries that could not be verified say so")
    elif kind == "key":
        if not isinstance(fields["key"], str) or not fields["key"]:
            raise ValueError("the key is not a text")
        state.key_since = state.key_since if state.key == fields["key"] else fields["sequence"]
        state.key = fields["key"]
    elif kind == "checkpoint":
        if fields["state"] != digest("payload", state_payload(state)):
            raise ValueError("the digest is not that of the state after the earlier entries")
        state.checkpoint = state.mark.sequence + 1
    else:
        raise ValueError(f"this version of dpbayes does not know the kind of entry {kind!r}")


def _exhaust(state: State, why: str) -> None:
    """Count every total and every limit as spent until it is set again."""
    state.blind = True
    for account in state.accounts.values():
        account.exhausted, account.exhausted_limits, account.changes = why, sorted(account.limit_budgets), {}


def _apply_to_release(state: State, account: Account, fields: Mapping[str, Any], entry: Entry) -> None:
    release_id = fields["release_id"]
    release = advance_release(state.release(account, release_id), fields, entry)
    layout = record_layout(release.request, account.unit)
    if fields["kind"] == "reserved":
        guarantee, analyst = release.guarantee, release.analyst
        if fields.get("lost", False) and account.budget.kind == ScheduleBudget.kind:
            account.exhausted = "a charge was salvaged, and the release that it belongs to must not be drawn twice"
        if not fields.get("lost", False):  # a salvaged charge counts even if it does not fit: it may have been seen
            _check_listed(account, release)
            _check_fits(account, analyst, guarantee)
        account.charged = account.budget.added(account.charged, guarantee)
        if analyst is not None:
            account.charged_by[analyst] = account.budget.added(account.charged_to(analyst), guarantee)
        account.n_releases += 1
        account.unfinished.append(release_id)
        account.layouts.setdefault(layout, release_id)
    if fields["kind"] == "published":
        account.unfinished.remove(release_id)
    account.recent[release_id] = release


def record_layout(request: Mapping[str, Any], unit: str | None) -> str:
    """Return the part of a request's file layout that determines records and privacy units, as canonical JSON."""
    layout = request.get("source")
    if not isinstance(layout, Mapping):
        return "{}"
    parsed = ("delimiter", "quote") if layout.get("quoted_newlines") or unit is not None else ()
    names = ("quoted_newlines", *parsed, *(("header", "columns") if unit is not None else ()))
    return canonical_json({name: layout[name] for name in names if name in layout}).decode("ascii")


def _check_listed(account: Account, release: ReleaseRecord) -> None:
    if refusal := account.budget.refusal(release.label, release.request_digest, release.guarantee):
        raise ValueError(refusal)
    if account.budget.kind == ScheduleBudget.kind and release.release_id != release_id_of(account.name, release.label):
        raise ValueError("the release ID is not that of its label")


def _check_fits(account: Account, analyst: str | None, guarantee: Guarantee) -> None:
    if account.closed:
        raise ValueError("the account is closed")
    if account.exhausted or account.budget.shortfall(account.charged, guarantee):
        raise ValueError("the charge does not fit the budget")
    if (analyst is None) != (not account.limit_budgets):
        raise ValueError("the charge names an analyst without a limit, or no analyst although there are limits")
    if analyst in account.exhausted_limits:
        raise ValueError("the analyst's limit counts as spent")
    if analyst is not None and account.limit_budgets[analyst].shortfall(account.charged_to(analyst), guarantee):
        raise ValueError("the charge does not fit the analyst's limit")
