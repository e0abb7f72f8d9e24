"""The ledger: reserve, seal, publish; open, amend, verify. Every method is one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from dpbayes_cli import __version__
from dpbayes_cli.canonical import digest
from dpbayes_cli.errors import BudgetError, LedgerError
from dpbayes_cli.ledger.budgets import Budget
from dpbayes_cli.ledger.chain import Entry, broken_links, next_entry
from dpbayes_cli.ledger.charging import (
    Charge,
    Preview,
    Reservation,
    check_fits,
    find_release,
    paying_account,
    release_id_of,
)
from dpbayes_cli.ledger.guarded import Dispute, Guarded, unsettled
from dpbayes_cli.ledger.limits import change_said, opening
from dpbayes_cli.ledger.owner import this_process, user_name
from dpbayes_cli.ledger.payloads import document_key, payload_findings, sealed_payload, stored_document
from dpbayes_cli.ledger.state import Account, ReleaseRecord, State, replay
from dpbayes_cli.ledger.storage import Storage, Transaction
from dpbayes_cli.privacy.neighbors import Neighbors


class Ledger:
    """An append-only account book of privacy.

    Privacy: a charge is durable before ``reserve`` returns, is never refunded, and counts from then on. The filter
        and the append are one transaction, so that racing processes cannot spend the same remainder.
        The clock is read once, before anything depends on data: every entry that is written through this object has
        that time, and none tells how long a draw took.
    Source: architecture, the ledger; ``Budget`` for the composition.
    """

    def __init__(
        self,
        storage: Storage,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        *,
        stated_anchor: Path | None = None,
    ) -> None:
        self._storage = storage
        self._guarded = Guarded(storage, stated_anchor)
        self._time = clock().strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def location(self) -> str:
        """Where the ledger is."""
        return self._storage.location

    @property
    def storage(self) -> Storage:
        """What the ledger is kept in."""
        return self._storage

    def state(self, *, compare: bool = True) -> State:
        """Return the verified state of the ledger; empty where there is none yet.

        Args:
            compare: whether the anchors are asked; without, a human can look at what they speak against.

        Raises:
            LedgerError: it cannot be read, its chain is broken, or an anchor speaks against it.
        """
        if not self._storage.exists:
            if compare:
                self._guarded.refuse_disputed(State())
            return State()
        with self._guarded.reading(compare=compare) as (_, state):
            return state

    def entries(self) -> list[Entry]:
        """Return all entries, unverified."""
        with self._storage.reading() as transaction:
            return transaction.entries()

    def findings(self, *, compare: bool = True) -> tuple[list[str], State]:
        """Check everything: the file, the chain, the protocol, the totals, the sealed payloads and the anchors."""
        with self._storage.reading() as transaction:
            entries = transaction.entries()
            state = replay(entries)
            found = broken_links(entries) + state.findings
            found += payload_findings(transaction, state)
        return self._storage.damage() + found + (self.disputes(state) if compare else []), state

    def disputes(self, state: State) -> list[str]:
        """Return what the anchors say against a state, one sentence each."""
        try:
            disputes = self._guarded.disputes(state)
        except LedgerError as error:
            return [error.message]
        if disputes and self._storage.exists:
            with self._storage.reading() as transaction:  # which may be younger than what the anchor has seen
                disputes = unsettled(replay(transaction.entries()), disputes)
        return [dispute.text for dispute in disputes]

    def anchors(self, state: State) -> list[Path]:
        """Return where the head of the ledger is marked."""
        return self._guarded.paths(state)

    def anchor(self, path: Path | None, reason: str) -> tuple[State, bool]:
        """Mark the head in a file from now on, or in none; the entry that says so is the first to be marked.

        Returns:
            The state, and whether anything was written: not if the anchor was there already.

        Raises:
            LedgerError: the file cannot be written, or has seen another ledger.
        """
        name = str(path.absolute()) if path else ""
        with self._guarded.writing(new=Path(name) if name else None) as (transaction, state):
            new = state.anchor != name
            if new:
                fields = {"kind": "anchor", "account": "", "path": name, "reason": reason}
                self._append(transaction, state, fields)
        return state, new

    def adopt(self, reason: str, move: Path | None = None) -> tuple[State, list[Dispute]]:
        """Record that a human has looked at a ledger that its anchors speak against, and goes on with it.

        Args:
            reason: why, for the history.
            move: where the anchor is from now on; None: where it was.

        Returns:
            The state, and what was said against it; where that is nothing, nothing is recorded.
        """
        with self._guarded.adopting() as (transaction, state, disputes):
            if disputes:
                marks = [(dispute.path, dispute.mark) for dispute in disputes]
                seen = [{"path": path, "sequence": mark.sequence, "hash": mark.hash} for path, mark in marks if mark]
                fields = {
                    "kind": "adopt",
                    "account": "",
                    "reason": reason,
                    "seen": seen,
                    "lost": [path for path, mark in marks if path and not mark],
                    "found": {"sequence": state.mark.sequence, "hash": state.mark.hash},
                }
                self._append(transaction, state, fields)
            if disputes and move is not None:
                fields = {"kind": "anchor", "account": "", "path": str(move.absolute()), "reason": reason}
                self._append(transaction, state, fields)
        return state, disputes

    def open_account(
        self, name: str, budget: Budget, neighbors: Neighbors, unit: str | None = None, separate: str | None = None
    ) -> tuple[Account, bool]:
        """Open an account with a stated total.

        Args:
            name, budget, neighbors, unit: see ``Account``.
            separate: why its population is one of its own, which other accounts have not paid for; None: not said.

        Returns:
            The account, and whether it was opened now: not if it is open already, and the same.

        Raises:
            BudgetError: it is already open, and another.
        """
        asked = Account(name, budget, neighbors, "", False, unit, separate_population=separate is not None)
        with self._guarded.writing() as (transaction, state):
            known = state.accounts.get(name)
            if known is None:
                self._append(transaction, state, opening(asked, separate))
            elif known.terms != asked.terms:
                change = "--epsilon TOTAL" if known.separate_population or separate is None else "--separate-population"
                raise BudgetError(
                    f"the account {name!r} is already open",
                    hint=f"to change it: dpbayes budget amend {name} {change} --reason TEXT",
                )
            return state.accounts[name], known is None

    def change(self, name: str, entry: Callable[[Account], dict[str, Any]]) -> tuple[Account, bool]:
        """Append an entry about an account that is open; see ``amendment``, ``limitation`` and ``notification``.

        Args:
            name: the account.
            entry: returns the entry from the account as it is, or refuses.

        Returns:
            The account, and whether the entry was appended: not if the last one about the same thing says the same.

        Raises:
            BudgetError: there is no such account, or the entry is refused.
        """
        with self._guarded.writing() as (transaction, state):
            account = _account(state, name)
            fields = entry(account)
            what, said = change_said(fields)
            new = account.changes.get(what) != said
            if new:
                self._append(transaction, state, fields)
            return account, new

    def preview(self, charge: Charge) -> Preview:
        """Say without changing anything what ``reserve`` would do.

        Raises:
            BudgetError: as ``reserve``.
        """
        state = self.state()
        account, opened = paying_account(state, charge)
        label, known = find_release(account, charge)
        release_id = release_id_of(account.name, label)
        if known is not None:
            return Preview(release_id, known, account.remaining, False)
        check_fits(state, account, charge)
        return Preview(
            release_id, None, account.budget.remaining(account.budget.added(account.charged, charge.guarantee)), opened
        )

    def sealed(self, charge: Charge) -> bytes | None:
        """Return the sealed draw of a release that was answered before; whatever its guarantee says."""
        if not self._storage.exists:
            return None
        with self._guarded.reading() as (transaction, state):
            account = state.accounts.get(charge.account)
            if account is None or charge.fresh:
                return None
            _, known = find_release(account, charge)
            return None if known is None else sealed_payload(transaction, known)

    def reserve(self, charge: Charge) -> Reservation:
        """Charge a release, or find it charged already: one charge for each id, durable on return.

        Raises:
            BudgetError: it does not fit, or conflicts with an earlier release; nothing is changed.
            LedgerError: the ledger cannot be trusted or written.
        """
        with self._guarded.writing() as (transaction, state):
            account, opened = paying_account(state, charge)
            label, known = find_release(account, charge)
            if known is not None:
                delta = account.budget.total.get("delta", Decimal(0))
                sealed, document = sealed_payload(transaction, known), stored_document(transaction, known)
                return Reservation(known, sealed, document, delta, False)
            check_fits(state, account, charge)
            if opened:
                self._append(transaction, state, opening(account))
            release_id = release_id_of(account.name, label)
            fields = {
                "kind": "reserved",
                "account": account.name,
                "release_id": release_id,
                "label": label,
                "request": charge.request,
                "request_digest": charge.request_digest,
                "question_digest": charge.question_digest,
                "source": charge.source,
                "guarantee": charge.guarantee.serialize(),
                "owner": this_process(),
                "purpose": charge.purpose,
            }
            if charge.analyst is not None:
                fields["analyst"] = charge.analyst
            self._append(transaction, state, fields)
            delta = account.budget.total.get("delta", Decimal(0))
            return Reservation(state.accounts[account.name].releases[release_id], None, None, delta, opened)

    def seal(self, release: ReleaseRecord, account: str, payload: bytes) -> bytes:
        """Make a payload final: the first one for its id wins, and every caller gets the winner back.

        Raises:
            LedgerError: the release was never charged.
        """
        with self._guarded.writing(begin=False) as (transaction, state):
            known = _account(state, account).releases.get(release.release_id)
            if known is None:
                raise LedgerError(f"release {release.release_id} was never charged")
            stored = sealed_payload(transaction, known)
            if stored is not None:
                return stored
            fields = {
                "kind": "sealed",
                "account": account,
                "release_id": release.release_id,
                "payload": digest("payload", payload),
            }
            self._append(transaction, state, fields)
            transaction.put_payload(release.release_id, payload)
            return payload

    def publish(
        self, release: ReleaseRecord, account: str, files: Mapping[str, str], document: bytes
    ) -> tuple[ReleaseRecord, State]:
        """Record that a release is on disk: its document and the digests of its files; the first record stays.

        Raises:
            LedgerError: the release was never sealed.
        """
        with self._guarded.writing(begin=False) as (transaction, state):
            known = _account(state, account).releases.get(release.release_id)
            if known is None or known.stage == "reserved":
                raise LedgerError(f"release {release.release_id} was never sealed")
            if known.stage == "published":
                return known, state
            fields = {
                "kind": "published",
                "account": account,
                "release_id": release.release_id,
                "files": dict(files),
                "document": digest("payload", document),
            }
            self._append(transaction, state, fields)
            transaction.put_payload(document_key(release.release_id), document)
            return state.accounts[account].releases[release.release_id], state

    def _append(self, transaction: Transaction, state: State, fields: Mapping[str, Any]) -> None:
        """Append an entry, and let the state follow it.

        Raises:
            LedgerError: the entry would break the protocol; the transaction is undone.
        """
        entry = next_entry(state.last, {**fields, **self.stamp()})
        state.follow(entry)
        if state.findings:
            raise LedgerError(f"refused to write: {state.findings[0]}")
        transaction.append(entry)

    def stamp(self) -> dict[str, str]:
        """Return what every entry says of when, by whom and by what it was written."""
        return {
            "time": self._time,
            "user": user_name(),
            "version": __version__,
        }


def _account(state: State, name: str) -> Account:
    if name not in state.accounts:
        raise BudgetError(f"there is no account {name!r}", hint="dpbayes budget show lists the accounts")
    return state.accounts[name]
