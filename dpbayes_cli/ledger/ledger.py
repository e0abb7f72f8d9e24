"""The ledger: reserve, seal, publish; open, amend, verify. Every method is one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from dpbayes_cli import __version__
from dpbayes_cli.canonical import digest
from dpbayes_cli.errors import BudgetError, LedgerError
from dpbayes_cli.ledger.budgets import Budget, texts
from dpbayes_cli.ledger.chain import Entry, broken_links, next_entry
from dpbayes_cli.ledger.charging import Charge, check_fits, find_release, paying_account, release_id_of
from dpbayes_cli.ledger.owner import this_process, user_name
from dpbayes_cli.ledger.state import Account, ReleaseRecord, State, replay
from dpbayes_cli.ledger.storage import Storage, Transaction
from dpbayes_cli.privacy.neighbors import Neighbors


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


class Ledger:
    """An append-only account book of privacy.

    Privacy: a charge is durable before ``reserve`` returns, is never refunded, and counts from then on. The filter
        and the append are one transaction, so that racing processes cannot spend the same remainder.
        The clock is read once, before anything depends on data: every entry that is written through this object has
        that time, and none tells how long a draw took.
    Source: architecture, the ledger; ``Budget`` for the composition.
    """

    def __init__(self, storage: Storage, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._storage = storage
        self._time = clock().strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def location(self) -> str:
        """Where the ledger is."""
        return self._storage.location

    def state(self) -> State:
        """Return the verified state of the ledger; empty where there is none yet.

        Raises:
            LedgerError: it cannot be read, or its chain is broken.
        """
        if not self._storage.exists:
            return State()
        with self._storage.reading() as transaction:
            return _trusted(transaction)

    def entries(self) -> list[Entry]:
        """Return all entries, unverified."""
        with self._storage.reading() as transaction:
            return transaction.entries()

    def findings(self) -> tuple[list[str], State]:
        """Check everything: the chain, the protocol, the totals and the sealed payloads."""
        with self._storage.reading() as transaction:
            entries = transaction.entries()
            state = replay(entries)
            found = broken_links(entries) + state.findings
            releases = [release for account in state.accounts.values() for release in account.releases.values()]
            kept = {r.release_id: r.sealed for r in releases if r.sealed}
            kept |= {_document_key(r.release_id): r.document for r in releases if r.document}
            stored = set(transaction.payload_ids())
            found += [f"release {missing}: the sealed payload is missing" for missing in sorted(kept.keys() - stored)]
            found += [f"release {extra}: a payload that was never sealed" for extra in sorted(stored - kept.keys())]
            for key in sorted(kept.keys() & stored):
                try:
                    _checked(transaction, key, kept[key])
                except LedgerError as error:
                    found.append(error.message)
            return found, state

    def open_account(self, name: str, budget: Budget, neighbors: Neighbors, unit: str | None = None) -> Account:
        """Open an account with a stated total.

        Raises:
            BudgetError: it is already open.
        """
        with self._storage.writing() as transaction:
            state = _trusted(transaction)
            if name in state.accounts:
                raise BudgetError(
                    f"the account {name!r} is already open",
                    hint=f"to change its total: dpbayes budget amend {name} --epsilon TOTAL --reason TEXT",
                )
            self._open(transaction, state, Account(name, budget, neighbors, "", False, unit))
            return state.accounts[name]

    def amend(self, name: str, changes: Mapping[str, Decimal], reason: str) -> Account:
        """Change the totals of an account, never below what is spent.

        Args:
            name: the account.
            changes: new totals by component.
            reason: why, for the history.

        Raises:
            BudgetError: there is no such account or component, or more is spent already.
        """
        with self._storage.writing() as transaction:
            state = _trusted(transaction)
            account = _account(state, name)
            budget = account.budget.amended(changes)
            if budget.excess(account.charged):
                raise BudgetError(
                    f"the account {name!r} has spent more than that",
                    requested=texts(budget.total),
                    remaining=texts(account.remaining),
                )
            fields = {"kind": "amend", "account": name, "budget": budget.serialize(), "reason": reason}
            self._append(transaction, state, fields)
            return account

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
        check_fits(account, charge)
        return Preview(
            release_id, None, account.budget.remaining(account.budget.added(account.charged, charge.guarantee)), opened
        )

    def sealed(self, charge: Charge) -> bytes | None:
        """Return the sealed draw of a release that was answered before; whatever its guarantee says."""
        if not self._storage.exists:
            return None
        with self._storage.reading() as transaction:
            account = _trusted(transaction).accounts.get(charge.account)
            if account is None or charge.fresh:
                return None
            _, known = find_release(account, charge)
            return None if known is None else _sealed(transaction, known)

    def reserve(self, charge: Charge) -> Reservation:
        """Charge a release, or find it charged already: one charge for each id, durable on return.

        Raises:
            BudgetError: it does not fit, or conflicts with an earlier release; nothing is changed.
            LedgerError: the ledger cannot be trusted or written.
        """
        with self._storage.writing() as transaction:
            state = _trusted(transaction)
            account, opened = paying_account(state, charge)
            label, known = find_release(account, charge)
            if known is not None:
                delta = account.budget.total.get("delta", Decimal(0))
                return Reservation(known, _sealed(transaction, known), _document(transaction, known), delta, False)
            check_fits(account, charge)
            if opened:
                self._open(transaction, state, account)
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
            self._append(transaction, state, fields)
            delta = account.budget.total.get("delta", Decimal(0))
            return Reservation(state.accounts[account.name].releases[release_id], None, None, delta, opened)

    def seal(self, release: ReleaseRecord, account: str, payload: bytes) -> bytes:
        """Make a payload final: the first one for its id wins, and every caller gets the winner back.

        Raises:
            LedgerError: the release was never charged.
        """
        with self._storage.writing() as transaction:
            state = _trusted(transaction)
            known = _account(state, account).releases.get(release.release_id)
            if known is None:
                raise LedgerError(f"release {release.release_id} was never charged")
            stored = _sealed(transaction, known)
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
        with self._storage.writing() as transaction:
            state = _trusted(transaction)
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
            transaction.put_payload(_document_key(release.release_id), document)
            return state.accounts[account].releases[release.release_id], state

    def _open(self, transaction: Transaction, state: State, account: Account) -> None:
        fields = {
            "kind": "open",
            "account": account.name,
            "budget": account.budget.serialize(),
            "neighbors": str(account.neighbors),
            "by_default": account.by_default,
        }
        if account.unit is not None:
            fields["unit"] = account.unit
        self._append(transaction, state, fields)

    def _append(self, transaction: Transaction, state: State, fields: Mapping[str, Any]) -> None:
        """Append an entry, and let the state follow it.

        Raises:
            LedgerError: the entry would break the protocol; the transaction is undone.
        """
        entry = next_entry(state.last, {**fields, **self._stamp()})
        state.follow(entry)
        if state.findings:
            raise LedgerError(f"refused to write: {state.findings[0]}")
        transaction.append(entry)

    def _stamp(self) -> dict[str, str]:
        return {
            "time": self._time,
            "user": user_name(),
            "version": __version__,
        }


def _trusted(transaction: Transaction) -> State:
    """Return the state, refusing a ledger whose chain or protocol is broken."""
    entries = transaction.entries()
    state = replay(entries)
    if findings := broken_links(entries) + state.findings:
        raise LedgerError(f"the ledger does not verify: {findings[0]}", hint="dpbayes budget verify lists all findings")
    return state


def _account(state: State, name: str) -> Account:
    if name not in state.accounts:
        raise BudgetError(f"there is no account {name!r}", hint="dpbayes budget show lists the accounts")
    return state.accounts[name]


def _sealed(transaction: Transaction, release: ReleaseRecord) -> bytes | None:
    """Return the sealed draw of a release, refused where it is not the one that was sealed."""
    return None if release.sealed is None else _checked(transaction, release.release_id, release.sealed)


def _document(transaction: Transaction, release: ReleaseRecord) -> bytes | None:
    """Return the document of a published release, refused where it is another."""
    if release.document is None:
        return None
    return _checked(transaction, _document_key(release.release_id), release.document)


def _document_key(release_id: str) -> str:
    return f"{release_id}/document"


def _checked(transaction: Transaction, key: str, expected: str) -> bytes:
    payload = transaction.payload(key)
    if payload is None or digest("payload", payload) != expected:
        raise LedgerError(f"the payload of release {key} is not the one that was sealed")
    return payload
