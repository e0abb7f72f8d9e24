"""The ledger: open and change accounts; charge, store and publish releases. Every method is one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any

from dpbayes_cli.base.canonical import digest
from dpbayes_cli.base.errors import BudgetError, LedgerError
from dpbayes_cli.ledger import charging, populations
from dpbayes_cli.ledger.budgets import Budget
from dpbayes_cli.ledger.chain import Entry
from dpbayes_cli.ledger.charging import Charge, Preview, Reservation
from dpbayes_cli.ledger.data_names import file_numbers
from dpbayes_cli.ledger.limits import check_open, describe_change, opening_entry
from dpbayes_cli.ledger.payloads import document_key, sealed_payload, stored_document
from dpbayes_cli.ledger.process_identity import this_process
from dpbayes_cli.ledger.records import ReleaseRecord, release_id_of
from dpbayes_cli.ledger.state import Account, State
from dpbayes_cli.ledger.verified_chain import VerifiedChain
from dpbayes_cli.privacy.neighbors import Neighbors


class Ledger(VerifiedChain):
    """An append-only record of all privacy costs.

    Privacy: a charge is durable before ``reserve`` returns, and is never refunded. The check against the budget and the
        charge are one transaction, so that two processes cannot spend the same remaining budget.
    Source: derived here; ``Budget`` for the composition.
    """

    def account(self, name: str) -> Account:
        """Return an account with all its releases; raise ``BudgetError`` if there is no such account."""
        with self.anchored.reading() as (_, state):
            return state.whole_account(_account(state, name))

    def last_release(self, name: str) -> ReleaseRecord | None:
        """Return the latest release of an account; None if nothing was charged to it."""
        with self.anchored.reading() as (_, state):
            return next(iter(state.charged(_account(state, name), last=1)), None)

    def account_entries(self, name: str) -> list[Entry]:
        """Return the entries about one account, in order."""
        with self.anchored.reading() as (transaction, _):
            return transaction.find(f"account:{name}")

    def first_delta(self, name: str) -> str | None:
        """Return the delta with which an account was opened or, failing that, its first one; None if it never had one.

        Unlike the present delta, it never changes.
        """
        if not self.storage.exists:
            return None
        with self.anchored.reading() as (transaction, state):
            account = state.accounts.get(name)
            if account is None or "delta" not in account.budget.total:
                return None
            terms = (entry.fields for entry in transaction.find(f"account:{name}"))
            totals = (each["budget"] for each in terms if each["kind"] in {"open", "amend"})
            return next((total["delta"] for total in totals if "delta" in total), None)

    def open_account(
        self,
        name: str,
        budget: Budget,
        neighbors: Neighbors,
        unit: str | None = None,
        separate: str | None = None,
        sources: Iterable[str] = (),
    ) -> tuple[Account, bool]:
        """Open an account; return it, and False if it was already open with the same terms, else True.

        Args:
            name, budget, neighbors, unit: see ``Account``.
            separate: the user's reason to declare that no other account holds data of the same people; None: the user
                does not declare this.
            sources: the data for which the account will pay, as far as they are known.

        Raises:
            BudgetError: an account of this name is open already, with other terms, or another one has paid for the
                data.
        """
        requested = Account(name, budget, neighbors, "", False, unit, separate_population=separate is not None)
        with self.writing() as (transaction, state):
            known = state.accounts.get(name)
            if known is None:
                for source in sources:
                    populations.check_population(state, requested, source)
                self.append(transaction, state, opening_entry(requested, separate))
            elif known.closed or known.terms != requested.terms:
                check_open(known)
                change = "--separate-population"
                if known.separate_population or separate is None:
                    change = known.budget.options("TOTAL")
                raise BudgetError(
                    f"the account {name!r} is already open with other terms (total, neighbors, unit or population)",
                    hint=f"to change it: dpbayes budget amend {name} {change} --reason TEXT",
                )
            return state.accounts[name], known is None

    def change(self, name: str, entry: Callable[[Account], dict[str, Any]]) -> tuple[Account, bool]:
        """Append an entry that changes an open account, unless it repeats the last change of its kind.

        Args:
            entry: a function that returns the entry for the present account, e.g. by ``limit_entry``, or raises an
                error.

        Returns:
            The account, and whether the entry was appended.

        Raises:
            BudgetError: the account is missing or closed.
            LedgerError: the ledger is missing.
        """
        self.storage.require()
        with self.writing() as (transaction, state):
            account = _account(state, name)
            check_open(account)
            fields = entry(account)
            subject, content = describe_change(fields)
            new = account.changes.get(subject) != content
            if new:
                self.append(transaction, state, fields)
            return account, new

    def close_account(self, name: str, reason: str) -> tuple[Account, bool]:
        """Close an account for good; return it, and whether it was open before."""
        self.storage.require()
        with self.writing() as (transaction, state):
            account = _account(state, name)
            if is_open := not account.closed:
                self.append(transaction, state, {"kind": "close", "account": name, "reason": reason})
            return account, is_open

    def preview(self, charge: Charge) -> Preview:
        """Return what ``reserve`` would do, or raise the ``BudgetError`` that it would raise; change nothing."""
        with ExitStack() as held:
            if not (exists := self.storage.exists):
                self._check_beginning(charge)
                state = self.state()
                exists = state.lookup is not None  # another process has just created the ledger
            if exists:
                _, state = held.enter_context(self.anchored.reading())
            account, opened = charging.paying_account(state, charge)
            label, known = charging.find_release(state, account, charge)
            release_id = release_id_of(account.name, label)
            if known is not None:
                return Preview(release_id, known, account.remaining, account.budget, False)
            charging.check_fits(state, account, charge, label)
            after = account.budget.added(account.charged, charge.guarantee)
            return Preview(release_id, None, account.budget.remaining(after), account.budget, opened)

    def begun(self, charge: Charge) -> ReleaseRecord | None:
        """Return the release of the request that this process has charged or would continue; None if there is none."""
        if not self.storage.exists:
            return None
        with self.anchored.reading() as (_, state):
            account = state.accounts.get(charge.account)
            return None if account is None else charging.begun_release(state, account, charge)

    def has_paid(self, charge: Charge) -> bool:
        """Return whether the account has paid for any of the data before."""
        if not self.storage.exists:
            return False
        with self.anchored.reading() as (_, state):
            return populations.has_paid(state, charge.account, charge.source)

    def charged_before(self, charge: Charge) -> list[ReleaseRecord]:
        """Return the charged releases of the same request that a charge could show or finish, whatever they cost."""
        if not self.storage.exists:
            return []
        with self.anchored.reading() as (_, state):
            account = state.accounts.get(charge.account)
            return [] if account is None else charging.charged_before(state, account, charge)

    def sealed(self, charge: Charge) -> bytes | None:
        """Return the stored draw of a release; None if the release is not charged, or its draw is not stored."""
        if not self.storage.exists:
            return None
        with self.anchored.reading() as (transaction, state):
            account = state.accounts.get(charge.account)
            if account is None or charge.fresh:
                return None
            _, known = charging.find_release(state, account, charge)
            return None if known is None else sealed_payload(transaction, known)

    def reserve(self, charge: Charge) -> Reservation:
        """Charge a release, unless it is charged already; the charge is durable when the method returns.

        Raises:
            BudgetError: the charge does not fit, or conflicts with an earlier release; nothing is changed.
            LedgerError: the ledger is not trusted, or cannot be written.
        """
        self._check_beginning(charge)
        with self.writing() as (transaction, state):
            account, opened = charging.paying_account(state, charge)
            label, known = charging.find_release(state, account, charge)
            if known is not None:
                sealed, document = sealed_payload(transaction, known), stored_document(transaction, known)
                return Reservation(known, sealed, document, account.budget, False)
            charging.check_fits(state, account, charge, label)
            if opened:
                self.append(transaction, state, opening_entry(account))
            release_id = release_id_of(account.name, label)
            copied = ("account", "request", "request_digest", "question_digest", "source", "purpose")
            fields = {name: getattr(charge, name) for name in copied} | {
                "kind": "reserved",
                "release_id": release_id,
                "label": label,
                "guarantee": charge.guarantee.serialize(),
                "owner": this_process(),
            }
            if charge.analyst is not None:
                fields["analyst"] = charge.analyst
            if numbers := file_numbers(charge.source):
                fields["inodes"] = numbers
            self.append(transaction, state, fields)
            return Reservation(state.accounts[account.name].recent[release_id], None, None, account.budget, opened)

    def _check_beginning(self, charge: Charge) -> None:
        """Raise ``BudgetError`` if there is no ledger and the charge must not open an account."""
        if not charge.open_account and not self.storage.exists:
            raise BudgetError(
                f"there is no account {charge.account!r}, because there is no ledger at {self.location!r}",
                hint="if the ledger was deleted: dpbayes budget restore BACKUP --reason TEXT; "
                f"if there never was one: {populations.opening_command(charging.default_account(charge))}",
            )

    def seal(self, release: ReleaseRecord, account: str, payload: bytes) -> bytes:
        """Store the draw of a release and return it; if the ledger holds a draw already, return that draw instead.

        Raises:
            LedgerError: the release was never charged.
        """
        with self.writing(begin=False) as (transaction, state):
            known = state.release(_account(state, account), release.release_id)
            if known is None:
                raise LedgerError(f"release {release.release_id} was never charged")
            stored = sealed_payload(transaction, known)
            if stored is not None:
                return stored
            fields = {"kind": "sealed", "account": account, "release_id": release.release_id}
            self.append(transaction, state, {**fields, "payload": digest("payload", payload)})
            transaction.put_payload(release.release_id, payload)
            return payload

    def publish(
        self, release: ReleaseRecord, account: str, files: Mapping[str, str], document: bytes
    ) -> tuple[ReleaseRecord, State]:
        """Record that a release is on disk, with its document and its files' digests, unless it is recorded already.

        Raises:
            LedgerError: the ledger holds no draw of the release.
        """
        with self.writing(begin=False) as (transaction, state):
            known = state.release(_account(state, account), release.release_id)
            if known is None or known.stage == "reserved":
                raise LedgerError(f"release {release.release_id} was never sealed: the ledger holds no draw of it")
            if known.stage == "published":
                return known, state
            fields = {"kind": "published", "account": account, "release_id": release.release_id}
            self.append(transaction, state, {**fields, "files": dict(files), "document": digest("payload", document)})
            transaction.put_payload(document_key(release.release_id), document)
            return state.accounts[account].recent[release.release_id], state


def _account(state: State, name: str) -> Account:
    if name not in state.accounts:
        raise BudgetError(f"there is no account {name!r}", hint="dpbayes budget show lists the accounts")
    return state.accounts[name]
