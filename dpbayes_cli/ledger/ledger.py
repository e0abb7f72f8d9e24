"""The ledger: reserve, seal, publish; open, amend, verify. Every method is one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
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
from dpbayes_cli.ledger.checkpoint import is_due, payload_key, state_payload
from dpbayes_cli.ledger.guarded import Dispute, Guarded, marks_of, unsettled
from dpbayes_cli.ledger.key import LedgerKey
from dpbayes_cli.ledger.limits import change_said, opening
from dpbayes_cli.ledger.owner import this_process, user_name
from dpbayes_cli.ledger.payloads import (
    document_key,
    index_findings,
    payload_findings,
    sealed_payload,
    stored_document,
)
from dpbayes_cli.ledger.populations import file_numbers
from dpbayes_cli.ledger.records import ReleaseRecord
from dpbayes_cli.ledger.replay import follow, replay
from dpbayes_cli.ledger.state import Account, State
from dpbayes_cli.ledger.storage import Storage, Transaction
from dpbayes_cli.ledger.verified_states import key_findings
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
        key: LedgerKey | None = None,
    ) -> None:
        self._storage = storage
        self.key = key
        self.guarded = Guarded(storage, stated_anchor, [key] if key else [])
        self.time = clock().strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def location(self) -> str:
        """Where the ledger is."""
        return self._storage.location

    @property
    def storage(self) -> Storage:
        """What the ledger is kept in."""
        return self._storage

    @property
    def keys(self) -> dict[str, LedgerKey]:
        """The key that is at hand, by its fingerprint."""
        return {self.key.fingerprint: self.key} if self.key else {}

    def state(self, *, compare: bool = True) -> State:
        """Return the verified state of the ledger; empty where there is none yet.

        Args:
            compare: whether the anchors are asked; without, a human can look at what they speak against.

        Raises:
            LedgerError: it cannot be read, its chain is broken, or an anchor speaks against it.
        """
        if not self._storage.exists:
            if compare:
                self.guarded.refuse_disputed(State())
            return State()
        with self.guarded.reading(compare=compare) as (_, state):
            return state

    def entries(self) -> list[Entry]:
        """Return all entries, unverified."""
        with self._storage.reading() as transaction:
            return transaction.entries()

    def findings(self, *, compare: bool = True) -> tuple[list[str], State]:
        """Check everything: the file, the chain, the protocol, the totals, the sealed payloads and the anchors."""
        with self._storage.reading() as transaction:
            entries = transaction.entries()
            state = replay(entries, State(keys=self.keys))
            found = broken_links(entries) + state.findings
            found += payload_findings(transaction, entries) + index_findings(transaction, entries)
        if compare:
            found += key_findings(state) + self.disputes(state)
        return self._storage.damage() + found, state

    def disputes(self, state: State) -> list[str]:
        """Return what the anchors say against a state, one sentence each."""
        try:
            disputes = self.guarded.disputes(state)
        except LedgerError as error:
            return [error.message]
        if disputes and self._storage.exists:
            with self._storage.reading() as transaction:  # which may be younger than what the anchor has seen
                disputes = unsettled(replay(transaction.entries()), disputes)
        return [dispute.text for dispute in disputes]

    def anchors(self, state: State) -> list[Path]:
        """Return where the head of the ledger is marked."""
        return self.guarded.paths(state)

    def anchor(self, path: Path | None, reason: str) -> tuple[State, bool]:
        """Mark the head in a file from now on, or in none; the entry that says so is the first to be marked.

        Returns:
            The state, and whether anything was written: not if the anchor was there already.

        Raises:
            LedgerError: the file cannot be written, or has seen another ledger.
        """
        name = str(path.absolute()) if path else ""
        with self._writing(new=Path(name) if name else None) as (transaction, state):
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
        with self.guarded.adopting() as (transaction, state, disputes):
            if disputes:
                fields = {
                    "kind": "adopt",
                    "account": "",
                    "reason": reason,
                    **marks_of(disputes),
                    "lost": [dispute.path for dispute in disputes if dispute.path and not dispute.mark],
                    "found": {"sequence": state.mark.sequence, "hash": state.mark.hash},
                }
                self._append(transaction, state, fields)
            if disputes and move is not None:
                fields = {"kind": "anchor", "account": "", "path": str(move.absolute()), "reason": reason}
                self._append(transaction, state, fields)
        return state, disputes

    def begin_key(self, key: LedgerKey, reason: str) -> bool:
        """Sign every entry from now on; the first signature covers all that is there.

        Args:
            key: the key from now on. A ledger that is signed already must be opened with its own.
            reason: why, for the history.

        Returns:
            Whether this changed anything: not if the ledger is signed with this key.

        Raises:
            LedgerError: the ledger is signed with a key that is not at hand.
        """
        with self.guarded.writing(need_key=False) as (transaction, state):
            if state.key == key.fingerprint:
                return False
            if state.key and state.key not in state.keys:
                raise LedgerError(
                    f"the ledger is signed with the key {state.key}, which is not at hand",
                    hint="to change it, let DPBAYES_LEDGER_KEY name the file of the old key",
                )
            state.keys = {**state.keys, key.fingerprint: key}
            rounds = 2 if state.key else 1  # signed with the old key, then with the new one
            for _ in range(rounds):
                fields = {"kind": "key", "account": "", "key": key.fingerprint, "reason": reason}
                self._append(transaction, state, fields)
            return True

    def account(self, name: str) -> Account:
        """Return an account with all its releases.

        Raises:
            BudgetError: there is no such account.
        """
        with self.guarded.reading() as (_, state):
            return state.whole_account(_account(state, name))

    def account_entries(self, name: str) -> list[Entry]:
        """Return the entries about one account, in order."""
        with self.guarded.reading() as (transaction, _):
            return transaction.find(f"account:{name}")

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
        with self._writing() as (transaction, state):
            known = state.accounts.get(name)
            if known is None:
                self._append(transaction, state, opening(asked, separate))
            elif known.terms != asked.terms:
                change = "--epsilon TOTAL" if known.separate_population or separate is None else "--separate-population"
                raise BudgetError(
                    f"the account {name!r} is already open",
                    hint=f"to change it: dpbayes budget amend {name} {change} --reason TEXT",
                )
            return state.whole_account(state.accounts[name]), known is None

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
        with self._writing() as (transaction, state):
            account = _account(state, name)
            fields = entry(account)
            what, said = change_said(fields)
            new = account.changes.get(what) != said
            if new:
                self._append(transaction, state, fields)
            return state.whole_account(account), new

    def preview(self, charge: Charge) -> Preview:
        """Say without changing anything what ``reserve`` would do.

        Raises:
            BudgetError: as ``reserve``.
        """
        with ExitStack() as held:
            if self._storage.exists:
                _, state = held.enter_context(self.guarded.reading())
            else:
                state = self.state()
            account, opened = paying_account(state, charge)
            label, known = find_release(state, account, charge)
            release_id = release_id_of(account.name, label)
            if known is not None:
                return Preview(release_id, known, account.remaining, False)
            check_fits(state, account, charge)
            after = account.budget.added(account.charged, charge.guarantee)
            return Preview(release_id, None, account.budget.remaining(after), opened)

    def sealed(self, charge: Charge) -> bytes | None:
        """Return the sealed draw of a release that was answered before; whatever its guarantee says."""
        if not self._storage.exists:
            return None
        with self.guarded.reading() as (transaction, state):
            account = state.accounts.get(charge.account)
            if account is None or charge.fresh:
                return None
            _, known = find_release(state, account, charge)
            return None if known is None else sealed_payload(transaction, known)

    def reserve(self, charge: Charge) -> Reservation:
        """Charge a release, or find it charged already: one charge for each id, durable on return.

        Raises:
            BudgetError: it does not fit, or conflicts with an earlier release; nothing is changed.
            LedgerError: the ledger cannot be trusted or written.
        """
        with self._writing() as (transaction, state):
            account, opened = paying_account(state, charge)
            label, known = find_release(state, account, charge)
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
            if numbers := file_numbers(charge.source):
                fields["inodes"] = numbers
            self._append(transaction, state, fields)
            delta = account.budget.total.get("delta", Decimal(0))
            return Reservation(state.accounts[account.name].recent[release_id], None, None, delta, opened)

    def seal(self, release: ReleaseRecord, account: str, payload: bytes) -> bytes:
        """Make a payload final: the first one for its id wins, and every caller gets the winner back.

        Raises:
            LedgerError: the release was never charged.
        """
        with self._writing(begin=False) as (transaction, state):
            known = state.release(_account(state, account), release.release_id)
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
        with self._writing(begin=False) as (transaction, state):
            known = state.release(_account(state, account), release.release_id)
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
            return state.accounts[account].recent[release.release_id], state

    def _append(self, transaction: Transaction, state: State, fields: Mapping[str, Any]) -> None:
        """Append an entry, and let the state follow it.

        Raises:
            LedgerError: the entry would break the protocol; the transaction is undone.
        """
        in_force = state.key or (fields["key"] if fields["kind"] == "key" else "")
        entry = next_entry(state.last, {**fields, **self.stamp()}, state.keys.get(in_force))
        follow(state, entry)
        if state.findings:
            raise LedgerError(f"refused to write: {state.findings[0]}")
        transaction.append(entry)

    @contextmanager
    def _writing(self, new: Path | None = None, *, begin: bool = True) -> Iterator[tuple[Transaction, State]]:
        """Begin a transaction that changes the ledger, and add a checkpoint if one is due."""
        with self.guarded.writing(new, begin=begin) as (transaction, state):
            if state.last is None and self.key is not None:
                fields = {"kind": "key", "account": "", "key": self.key.fingerprint, "reason": "a key was stated"}
                self._append(transaction, state, fields)
            before = state.mark
            yield transaction, state
            if state.mark != before and is_due(state) and (transaction.is_indexed or transaction.begin_index()):
                payload = state_payload(state)
                fields = {"kind": "checkpoint", "account": "", "state": digest("payload", payload)}
                self._append(transaction, state, fields)
                transaction.put_payload(payload_key(state.mark.sequence), payload)

    def stamp(self) -> dict[str, str]:
        """Return what every entry says of when, by whom and by what it was written."""
        return {
            "time": self.time,
            "user": user_name(),
            "version": __version__,
        }


def _account(state: State, name: str) -> Account:
    if name not in state.accounts:
        raise BudgetError(f"there is no account {name!r}", hint="dpbayes budget show lists the accounts")
    return state.accounts[name]
