"""A chain that is built anew from what can still be read of a damaged one: nothing that was spent comes back.

Entries that verify are taken as they are. A charge that can be read, but not verified, is charged again under a name
of its own, whether it fits or not; of totals and limits that can be read the tightest count.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dpbayes_cli.base.canonical import digest
from dpbayes_cli.base.errors import LedgerError, SpecError
from dpbayes_cli.ledger.budgets import Budget, component_texts
from dpbayes_cli.ledger.chain import Entry, entry_hash, next_entry
from dpbayes_cli.ledger.charging import price_text, release_id_of
from dpbayes_cli.ledger.checkpoint import payload_key
from dpbayes_cli.ledger.payloads import kept_payloads
from dpbayes_cli.ledger.records import ReleaseRecord
from dpbayes_cli.ledger.replay import try_entry
from dpbayes_cli.ledger.state import Account, State
from dpbayes_cli.ledger.union_budget import parse_budget, tighter_budget


@dataclass
class RebuiltChain:
    """A chain that grows by entries that keep the protocol.

    Attributes:
        state: what it says.
        stamp: what its new entries say of when, by whom and by what they were written.
        entries: all of it.
        charged: releases that are charged once more, because what became of them is lost.
        lost: what is not in it, one sentence each.
        tightened: totals and limits that are lower than the entries that verify say, one sentence each.
        opened: accounts whose opening could be read and not verified, one sentence each.
        exhausted: whether an entry that could be read and not verified had said that later ones were lost.
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
        """Take an entry as it is if it follows from those before it; return whether it does."""
        body = entry.body.encode("utf-8", "surrogatepass")
        mark = self.state.mark
        follows = entry.sequence == mark.sequence + 1 and entry_hash(mark.hash, body) == entry.hash
        if not follows or try_entry(self.state, entry):
            return False
        self.entries.append(entry)
        return True

    def add(self, fields: Mapping[str, Any]) -> bool:
        """Append a new entry; return whether it keeps the protocol, without which it is left out.

        Raises:
            LedgerError: it must be signed, and the key is not at hand.
        """
        in_force = self.state.key or (fields["key"] if fields["kind"] == "key" else "")
        key = self.state.keys.get(in_force)
        if in_force and key is None:
            raise LedgerError(
                f"the ledger is signed with the key {self.state.key}, which is not at hand",
                hint="DPBAYES_LEDGER_KEY names the file of the key",
            )
        entry = next_entry(self.state.last, {**fields, **self.stamp}, key)
        if try_entry(self.state, entry):
            return False
        self.entries.append(entry)
        return True

    def missing(self, read: Callable[[str], bytes | None], start: int = 0) -> list[str]:
        """Return the names of the payloads that cannot be read, of the entries after so many."""
        expected = kept_payloads(self.entries[start:])
        checkpoints = {payload_key(entry.sequence) for entry in self.entries}
        lost = [
            key
            for key, wanted in expected.items()
            if key not in checkpoints and ((payload := read(key)) is None or digest("payload", payload) != wanted)
        ]
        self.lost += [f"the payload of release {key} cannot be read: it cannot be shown again" for key in lost]
        return lost

    def charge_unfinished(self) -> None:
        """Charge every unfinished release once more: its draw may have been seen although its end is lost."""
        for account, release in unfinished(self.state):
            self._charge_again(account.name, self.entries[release.sequence - 1].fields)

    def account_for(self, entries: Iterable[Entry]) -> None:
        """Count what entries say that can be read and not verified: accounts, charges, and the tightest totals."""
        stated: list[dict[str, Any]] = []
        for entry in entries:
            self.lost.append(f"entry {entry.sequence} does not verify")
            try:
                fields = dict(entry.fields)
                if fields["kind"] == "open" and self.add(fields):
                    total = _amount(self.state.accounts[fields["account"]].budget)
                    self.opened.append(
                        f"account {fields['account']!r} was opened with {total} by an entry that does not verify"
                    )
                elif fields["kind"] == "restored":
                    self.exhausted |= bool(fields["lost"])
                elif fields["kind"] == "salvaged":
                    self.exhausted |= bool(fields.get("exhausted", False))
                elif fields["kind"] == "reserved":
                    self._charge_again(fields["account"], fields)
                elif fields["kind"] in {"amend", "limit"}:
                    stated.append(fields)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue  # listed already as an entry that does not verify
        for fields in stated:
            try:
                self._tighten(fields)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SpecError):
                continue

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
            self.charged.append(f"{name} at {price_text(known[again].guarantee)}, the price that can be read")
        else:
            self.lost.append(f"the charge of release {name} is not one: it is not counted")

    def _tighten(self, fields: Mapping[str, Any]) -> None:
        """Lower a total or a limit to what a readable entry says; never raise one."""
        account = self.state.accounts[fields["account"]]
        stated, analyst = parse_budget(fields["budget"]), fields.get("analyst")
        now = account.budget if fields["kind"] == "amend" else account.limit_budgets.get(analyst or "")
        lowered = stated if now is None else tighter_budget(now, stated)
        if lowered == now:
            return
        reason = "the tightest that can still be read"
        entry = {"kind": fields["kind"], "account": account.name, "budget": lowered.serialize(), "reason": reason}
        if fields["kind"] == "limit":
            entry["analyst"] = analyst
        if self.add({**entry, "lost": True}):
            what = "total" if fields["kind"] == "amend" else f"limit of analyst {analyst!r}"
            before = f", and not {_amount(now)}" if now else ""
            self.tightened.append(f"the {what} of account {account.name!r} is {_amount(lowered)}{before}")


def unfinished(state: State) -> list[tuple[Account, ReleaseRecord]]:
    """Return the releases that are charged and not published."""
    found = [
        (account, state.release(account, release_id))
        for account in state.accounts.values()
        for release_id in account.unfinished
    ]
    return [(account, release) for account, release in found if release is not None]


def _amount(budget: Budget) -> str:
    return ", ".join(f"{name} {value}" for name, value in component_texts(budget.total).items())
