"""Rebuild a chain from the readable entries of a damaged one, so that no spent budget becomes available again.

Entries that verify are kept as they are. A readable charge that does not verify is charged again under a new release
ID, even if this exceeds the budget. If it states an epsilon and its shifts or shares, it is charged at its epsilon
alone. If a readable entry that does not verify states a smaller total or limit, the account gets the smaller one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from dpbayes_cli.base.canonical import digest
from dpbayes_cli.base.errors import LedgerError, SpecError, amounts_text
from dpbayes_cli.ledger.budgets import Budget, component_texts
from dpbayes_cli.ledger.chain import Entry, next_entry
from dpbayes_cli.ledger.charge_text import charge_text
from dpbayes_cli.ledger.checkpoint import payload_key
from dpbayes_cli.ledger.payloads import kept_payloads
from dpbayes_cli.ledger.records import ReleaseRecord, release_id_of
from dpbayes_cli.ledger.replay import try_entry
from dpbayes_cli.ledger.state import Account, State
from dpbayes_cli.ledger.union_budget import parse_budget

_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


@dataclass
class RebuiltChain:
    """A chain under construction, which refuses entries that break the protocol.

    Attributes:
        stamp: the time, user and version that new entries get.
        state: the state of the ledger after these entries.
        charged: the releases that are charged again, because their later entries are lost.
        lost: the entries, charges and payloads that are missing from the chain, one sentence each.
        tightened: the totals and limits that were lowered, one sentence each.
        opened: the accounts that were opened by a readable entry that does not verify, one sentence each.
        exhausted: whether an unverified entry states that entries were lost, so that all budgets count as spent.
    """

    stamp: Mapping[str, str]
    state: State = field(default_factory=State)
    entries: list[Entry] = field(default_factory=list)
    charged: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    tightened: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    exhausted: bool = False

    def take(self, entry: Entry) -> bool:
        """Append an entry of the damaged chain if it continues this chain; return whether it was appended."""
        mark = self.state.mark
        if entry.sequence != mark.sequence + 1 or not entry.follows(mark.hash) or try_entry(self.state, entry):
            return False
        self.entries.append(entry)
        return True

    def add(self, fields: Mapping[str, Any]) -> bool:
        """Append a new entry if it keeps the protocol; return whether it was appended.

        Raises:
            LedgerError: the entry must be signed, and the key is not available.
        """
        in_force = self.state.key_for(fields)
        key = self.state.keys.get(in_force)
        if in_force and key is None:
            raise LedgerError(
                f"the ledger is signed with the key {self.state.key}, which was not given",
                hint="set DPBAYES_LEDGER_KEY to the file of the key",
            )
        entry = next_entry(self.state.last, {**fields, **self.stamp}, key)
        if try_entry(self.state, entry):
            return False
        self.entries.append(entry)
        return True

    def missing(self, read: Callable[[str], bytes | None], start: int = 0) -> list[str]:
        """Return the keys of unreadable payloads, except those of the first ``start`` entries; list them as lost."""
        expected = kept_payloads(self.entries[start:])
        checkpoints = {payload_key(entry.sequence) for entry in self.entries}
        lost = [
            key
            for key, stated in expected.items()
            if key not in checkpoints and ((payload := read(key)) is None or digest("payload", payload) != stated)
        ]
        self.lost += [
            f"the payload of release {key} cannot be read: this release cannot be shown again" for key in lost
        ]
        return lost

    def charge_unfinished(self) -> None:
        """Charge every unfinished release again, because it may have been published after the last saved entry."""
        for account, release in unfinished_releases(self.state):
            self._charge_again(account.name, self.entries[release.sequence - 1].fields)

    def account_for(self, entries: Iterable[Entry]) -> None:
        """Add the accounts, the charges and the smallest totals that readable but unverified entries state."""
        totals: list[dict[str, Any]] = []
        closings: list[dict[str, Any]] = []
        for entry in entries:
            self.lost.append(f"entry {entry.sequence} does not verify")
            with suppress(*_MALFORMED):  # listed already as an entry that does not verify
                fields = dict(entry.fields)
                kind = fields["kind"]
                if kind == "open" and self.add(fields):
                    account = fields["account"]
                    total = _amount(self.state.accounts[account].budget)
                    self.opened.append(f"account {account!r} was opened with {total} by an entry that does not verify")
                elif kind == "restored":
                    self.exhausted |= bool(fields["lost"])
                elif kind == "salvaged":
                    self.exhausted |= bool(fields.get("exhausted", False))
                elif kind == "reserved":
                    guarantee = _at_former_cost(fields["guarantee"])
                    self._charge_again(fields["account"], {**fields, "guarantee": guarantee})
                elif kind in {"amend", "limit"}:
                    totals.append(fields)
                elif kind == "close":
                    closings.append(fields)
        for fields in totals:
            with suppress(*_MALFORMED, SpecError):
                self._tighten(fields)
        for fields in closings:
            with suppress(*_MALFORMED):
                if self.add(
                    {"kind": "close", "account": fields["account"], "reason": "a closing entry can still be read"}
                ):
                    self.tightened.append(f"account {fields['account']!r} is closed")

    def _charge_again(self, account: str, fields: Mapping[str, Any]) -> None:
        name = f"{release_id_of(account, fields['label'])} of account {account}"
        if account not in self.state.accounts:
            self.lost.append(f"the charge of release {name} is not counted: its account is lost")
            return
        labels = (f"lost {'' if i == 1 else f'{i} '}{fields['label']}" for i in itertools.count(1))
        known = self.state.accounts[account].releases
        label = next(label for label in labels if release_id_of(account, label) not in known)
        again = release_id_of(account, label)
        if self.add({**fields, "label": label, "release_id": again, "lost": True}):
            self.charged.append(
                f"{name} at {charge_text(known[again].guarantee)}, the only privacy cost that can still be read"
            )
        else:
            self.lost.append(f"the charge of release {name} is malformed: it is not counted")

    def _tighten(self, fields: Mapping[str, Any]) -> None:
        """Lower a total or a limit to the value in an unverified entry; never raise it."""
        account = self.state.accounts[fields["account"]]
        stated, analyst = parse_budget(fields["budget"]), fields.get("analyst")
        current = account.budget if fields["kind"] == "amend" else account.limit_budgets.get(analyst or "")
        lowered = stated if current is None else current.tightened(stated)
        if lowered == current:
            return
        reason = "the smallest value that can still be read"
        entry = {"kind": fields["kind"], "account": account.name, "budget": lowered.serialize(), "reason": reason}
        if self.add({**entry, **({"analyst": analyst} if fields["kind"] == "limit" else {}), "lost": True}):
            subject = "total" if fields["kind"] == "amend" else f"limit of analyst {analyst!r}"
            before = f", and not {_amount(current)}" if current else ""
            self.tightened.append(f"the {subject} of account {account.name!r} is {_amount(lowered)}{before}")


def unfinished_releases(state: State) -> list[tuple[Account, ReleaseRecord]]:
    """Return the releases that are charged but not published, each with its account."""
    return [
        (account, release)
        for account in state.accounts.values()
        for release_id in account.unfinished
        if (release := state.release(account, release_id)) is not None
    ]


def _at_former_cost(guarantee: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored form of a guarantee without shifts and shares, which costs what its stated epsilon costs.

    A human who adopts the ledger sees this epsilon; changed shifts or shares might cost less than it suggests.
    """
    kept = {key: value for key, value in guarantee.items() if key not in {"shifts", "shares"}}
    if isinstance(kept.get("parts"), list):  # of a composition
        kept["parts"] = [_at_former_cost(part) for part in kept["parts"]]
    return kept


def _amount(budget: Budget) -> str:
    return amounts_text(component_texts(budget.total))
