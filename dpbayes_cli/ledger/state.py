"""The state of a ledger after its entries: accounts, what they have spent, and the stage of each release.

A state starts empty or from a checkpoint. After a checkpoint, it holds the sums of all charges, but only the later
releases; an earlier release is read from its entries when it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from dpbayes_cli.base.errors import DpbayesError, LedgerError
from dpbayes_cli.ledger.budgets import Budget, Lanes, PureBudget
from dpbayes_cli.ledger.chain import GENESIS, Entry, Mark, broken_links
from dpbayes_cli.ledger.key import LedgerKey
from dpbayes_cli.ledger.records import ReleaseRecord, record_of, request_term
from dpbayes_cli.ledger.storage import Transaction
from dpbayes_cli.ledger.union_budget import UnionBudget, sums_with_delta
from dpbayes_cli.privacy.neighbors import Neighbors


@dataclass(frozen=True)
class AnalystLimit:
    """The most that one analyst may spend of an account, and the sums of the analyst's charges.

    Privacy: the limit is a privacy filter in addition to the account's: all releases that are charged to the analyst
        together keep the guarantee of the limit. The account's total holds whatever the limits are.
    Source: derived here.
    """

    budget: Budget
    charged: Lanes

    @property
    def spent(self) -> Lanes:
        """The privacy cost so far, by component."""
        return self.budget.spent(self.charged)

    @property
    def remaining(self) -> Lanes:
        """The remaining budget, by component."""
        return self.budget.remaining(self.charged)


@dataclass
class Account:
    """One account: a population, a neighbor relation, a privacy unit, a budget, and the charges to it.

    Attributes:
        unit: the column that holds the privacy unit's ID; None: each record is a unit of its own.
        charged: the exact sums of the privacy costs of all releases, by their names in ``Budget.lanes``; a charge
            counts permanently from the moment it is made.
        charged_by: by analyst, the sums of the charges under the analyst's name.
        limit_budgets: by analyst, the limit.
        notice: releases print a notice once this share of the budget is spent; None: never.
        separate_population: whether a human has declared that no other account's data hold the same people.
        changes: the content of the last change of each kind; see ``describe_change``.
        unfinished: the IDs of releases that are charged but not published.
        layouts: by file layout, the ID of the first release that used it.
        exhausted: why the whole total counts as spent until it is amended, or an empty text.
        exhausted_limits: the analysts whose limits count as spent until they are set again.
        closed: when the account was closed for good, or an empty text.
        recent: the releases that were charged or changed after the state's base; see ``State``.
        whole: whether ``recent`` holds all releases.
    """

    name: str
    budget: Budget
    neighbors: Neighbors
    opened: str
    by_default: bool
    unit: str | None = None
    charged: Lanes = field(default_factory=dict)
    charged_by: dict[str, Lanes] = field(default_factory=dict)
    limit_budgets: dict[str, Budget] = field(default_factory=dict)
    notice: Decimal | None = None
    separate_population: bool = False
    changes: dict[str, str] = field(default_factory=dict)
    n_releases: int = 0
    unfinished: list[str] = field(default_factory=list)
    layouts: dict[str, str] = field(default_factory=dict)
    exhausted: str = ""
    exhausted_limits: list[str] = field(default_factory=list)
    closed: str = ""
    recent: dict[str, ReleaseRecord] = field(default_factory=dict)
    whole: bool = True

    def __post_init__(self) -> None:
        self.charged = self.charged or self.budget.nothing

    @property
    def terms(self) -> object:
        """The budget and whom it protects; only an amendment can change these terms."""
        return self.budget.serialize(), self.neighbors, self.unit, self.separate_population

    @property
    def releases(self) -> dict[str, ReleaseRecord]:
        """All releases by their IDs; raise ``DpbayesError`` if the account holds only recent releases."""
        if not self.whole:
            raise DpbayesError(f"the state holds only the recent releases of account {self.name!r}")
        return self.recent

    @property
    def remaining(self) -> dict[str, Decimal]:
        """The remaining budget, by component."""
        if self.exhausted:
            return dict.fromkeys(self.budget.total, Decimal(0))
        return self.budget.remaining(self.charged)

    @property
    def spent(self) -> dict[str, Decimal]:
        """The spent budget, by component; at least the whole total if entries were lost."""
        spent = self.budget.spent(self.charged)
        if not self.exhausted:
            return spent
        return {name: max(spent[name], total) for name, total in self.budget.total.items()}

    @property
    def limits(self) -> dict[str, AnalystLimit]:
        """By analyst, the limit and the sums of the analyst's charges."""
        return {
            analyst: AnalystLimit(budget, self.charged_to(analyst)) for analyst, budget in self.limit_budgets.items()
        }

    def charged_in(self, budget: Budget) -> Lanes:
        """Return the sums of charges for a budget that may be the account's after an amendment.

        Raises:
            ValueError: the account cannot have a budget of this kind.
        """
        if budget.shape == self.budget.shape:
            return self.charged
        if (
            isinstance(self.budget, PureBudget)
            and isinstance(budget, UnionBudget)
            and not (self.limit_budgets or self.charged_by)
        ):
            return sums_with_delta(self.charged, budget)
        raise ValueError("the kind of budget differs from that of the account")

    def charged_to(self, analyst: str) -> Lanes:
        """Return the sums of an analyst's charges, whether or not the analyst has a limit."""
        return self.charged_by.get(analyst, self.budget.nothing)

    def copy(self) -> Account:
        """Return an independent copy."""
        return replace(self, **_copied_collections(self))


@dataclass
class State:
    """The state of a ledger after its entries were replayed.

    Attributes:
        accounts: the accounts by name, in the order in which they were opened.
        last: the last entry; its hash is the head.
        findings: the violations of the protocol, one sentence each.
        base: the sequence of the checkpoint that the state started from, or 0; entries up to it were not replayed.
        base_hash: the hash of the entry of this checkpoint.
        hashes: the hashes of the entries after the base, in order.
        checkpoint: the sequence of the last checkpoint, or 0.
        anchor: the path of the anchor, or an empty text.
        adopted: the last marks of other chains that a human has given up in favor of this chain.
        held: why nothing may be charged until a human has adopted the ledger, or an empty text.
        changes: what a salvage has changed, one sentence each; empty once the ledger is adopted.
        key: the fingerprint of the key that signs the entries, or an empty text.
        key_since: the sequence of the entry that introduced this key; the key signs all later entries.
        keys: the available keys, by fingerprint.
        is_signed: whether the last entry was checked and has a valid signature by the ledger's key.
        blind: whether later entries could not be read when a backup was restored, so that accounts may be missing.
        lookup: the transaction that finds the entries up to the base; None if the state can find no entries.
    """

    accounts: dict[str, Account] = field(default_factory=dict)
    last: Entry | None = None
    findings: list[str] = field(default_factory=list)
    base: int = 0
    base_hash: str = GENESIS
    hashes: list[str] = field(default_factory=list)
    checkpoint: int = 0
    anchor: str = ""
    adopted: set[Mark] = field(default_factory=set)
    held: str = ""
    changes: list[str] = field(default_factory=list)
    key: str = ""
    key_since: int = 0
    keys: Mapping[str, LedgerKey] = field(default_factory=dict)
    is_signed: bool = False
    blind: bool = False
    lookup: Transaction | None = None

    @property
    def mark(self) -> Mark:
        """The sequence number and hash of the last entry."""
        return self.last.mark if self.last else Mark(0, GENESIS)

    def holds(self, mark: Mark) -> bool:
        """Return whether the chain holds an entry with this sequence and hash."""
        if mark.sequence == 0:
            return mark.hash == GENESIS
        if mark.sequence > self.base:
            index = mark.sequence - self.base - 1
            return index < len(self.hashes) and self.hashes[index] == mark.hash
        if self.lookup is None:
            return False
        later = self.lookup.entries(after=mark.sequence)  # their hashes must link the mark to the verified base
        up_to_base = [entry for entry in later if entry.sequence <= self.base]
        last = up_to_base[-1].mark if up_to_base else mark
        return not broken_links(up_to_base, mark) and last == Mark(self.base, self.base_hash)

    def key_for(self, fields: Mapping[str, Any]) -> str:
        """Return the fingerprint of the key that must sign the next entry, or an empty text."""
        named: str = fields.get("key", "") if fields["kind"] == "key" else ""
        return self.key or named

    def release(self, account: Account, release_id: str) -> ReleaseRecord | None:
        """Return a release of an account, even one before the base; None if it was never charged.

        Raises:
            LedgerError: the entries of the release are damaged.
        """
        if account.whole or release_id in account.recent:
            return account.recent.get(release_id)
        try:
            record = record_of(entry for entry in self.find(f"release:{release_id}") if entry.sequence <= self.base)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise unverified_error(f"the record of release {release_id} was changed") from None
        if record is not None and (record.stage != "published") != (release_id in account.unfinished):
            raise unverified_error(f"the stage of release {release_id} was changed")
        return record

    def charged(self, account: Account, question_digest: str = "", last: int | None = None) -> list[ReleaseRecord]:
        """Return the releases of an account, in the order of their charges.

        Args:
            question_digest: that of the releases to return; an empty text: return all releases.
            last: how many of the latest releases to return; None: all.
        """
        if account.whole:
            records = [record for record in account.recent.values() if question_digest in ("", record.question_digest)]
            return records if last is None else records[len(records) - min(last, len(records)) :]
        term = request_term(account.name, question_digest) if question_digest else f"charged:{account.name}"
        releases = (self.release(account, entry.fields["release_id"]) for entry in self.find(term, last))
        return [record for record in releases if record is not None]

    def whole_account(self, account: Account) -> Account:
        """Return an account with all its releases."""
        releases = {release.release_id: release for release in self.charged(account)}
        return replace(account, recent=releases, whole=True)

    def find(self, term: str, last: int | None = None) -> list[Entry]:
        """Return the entries with an index term, in order; see ``Transaction.find``.

        Raises:
            LedgerError: an entry before the checkpoint was changed.
        """
        entries = self.lookup.find(term, last) if self.lookup else []
        for entry in entries:
            if entry.sequence <= self.base and not self._is_genuine(entry):
                raise unverified_error(f"entry {entry.sequence} was changed")
        return entries

    def _is_genuine(self, entry: Entry) -> bool:
        """Return whether an entry follows from the previous one and, if the key is available, has a valid signature."""
        before = self.lookup.entry(entry.sequence - 1) if self.lookup else None
        previous = GENESIS if entry.sequence == 1 else before.hash if before else ""
        key = self.keys.get(self.key)
        return entry.follows(previous) and (
            key is None or entry.sequence <= self.key_since or key.signed(previous, entry.fields)
        )

    def copy(self, lookup: Transaction | None) -> State:
        """Return an independent copy, which finds older entries in the transaction ``lookup``."""
        copied = _copied_collections(self)
        copied["accounts"] = {name: account.copy() for name, account in self.accounts.items()}
        return replace(self, **copied, lookup=lookup)

    @property
    def head(self) -> str:
        """The hash of the last entry, or an empty text."""
        return self.last.hash if self.last else ""


def _copied_collections(subject: Account | State) -> dict[str, Any]:
    """Return shallow copies of the dictionaries, lists and sets among the attributes."""
    return {name: value.copy() for name, value in vars(subject).items() if isinstance(value, dict | list | set)}


def unverified_error(finding: str) -> LedgerError:
    """Return the error for a ledger that does not verify."""
    return LedgerError(f"the ledger does not verify: {finding}", hint="dpbayes budget verify lists all findings")
