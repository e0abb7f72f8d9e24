"""What a chain of entries says: accounts, what they have spent, and how far each release has come.

A state begins with nothing, or with what a checkpoint says of all entries before it. The second kind holds totals and
the releases since; an older release is read from its own entries when it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Protocol

from dpbayes_cli.base.errors import DpbayesError, LedgerError
from dpbayes_cli.ledger.analyst_limit import AnalystLimit
from dpbayes_cli.ledger.budgets import Budget, Lanes
from dpbayes_cli.ledger.chain import GENESIS, Entry, Mark, broken_links, entry_hash
from dpbayes_cli.ledger.key import LedgerKey
from dpbayes_cli.ledger.records import ReleaseRecord, record_of, request_term
from dpbayes_cli.privacy.neighbors import Neighbors


@dataclass
class Account:
    """One account: a population, a neighbor relation, a privacy unit, a budget and what was spent of it.

    Attributes:
        unit: the column that says whose a record is; None: each record is a unit of its own.
        charged: the exact sum of the prices of all releases in the budget's lanes; a reservation counts from the
            moment it is made, and for good.
        charged_by: the part of it that was charged for each analyst.
        limit_budgets: what each analyst may spend.
        notice: the share of the budget from which on every charge says how much is spent.
        separate_population: a human's word that its data hold other people than those of the other accounts.
        changes: for each thing that may be changed, what was said of it last.
        n_releases: how many were charged.
        unfinished: the IDs of releases that are charged and not published.
        layouts: how the releases read their files, each with the ID of the first release that did.
        exhausted: why the whole total counts as spent until it is amended, or an empty text.
        exhausted_limits: the analysts whose limits count as spent until they are stated anew.
        recent: the releases since the checkpoint that the state began with; all of them if it began with none.
        whole: whether ``recent`` is all of them.
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
    recent: dict[str, ReleaseRecord] = field(default_factory=dict)
    whole: bool = True

    def __post_init__(self) -> None:
        self.charged = self.charged or self.budget.nothing

    @property
    def terms(self) -> object:
        """What it promises, and to whom."""
        return self.budget.serialize(), self.neighbors, self.unit, self.separate_population

    @property
    def releases(self) -> dict[str, ReleaseRecord]:
        """All releases by their IDs.

        Raises:
            DpbayesError: the state began with a checkpoint, and holds the younger ones only.
        """
        if not self.whole:
            raise DpbayesError(f"the state holds only the recent releases of account {self.name!r}")
        return self.recent

    @property
    def remaining(self) -> dict[str, Decimal]:
        """What is left, by component."""
        if self.exhausted:
            return dict.fromkeys(self.budget.total, Decimal(0))
        return self.budget.remaining(self.charged)

    @property
    def spent(self) -> dict[str, Decimal]:
        """What was spent, by component; the whole total, or more, where later entries were lost."""
        spent = self.budget.spent(self.charged)
        if not self.exhausted:
            return spent
        return {name: max(spent[name], total) for name, total in self.budget.total.items()}

    @property
    def limits(self) -> dict[str, AnalystLimit]:
        """The limits of analysts, with what they have spent."""
        return {
            analyst: AnalystLimit(budget, self.charged_to(analyst)) for analyst, budget in self.limit_budgets.items()
        }

    def charged_to(self, analyst: str) -> Lanes:
        """Return what an analyst was charged, with or without a limit."""
        return self.charged_by.get(analyst, self.budget.nothing)

    def copy(self) -> Account:
        """Return an account that changes by itself."""
        return replace(
            self,
            charged_by=dict(self.charged_by),
            limit_budgets=dict(self.limit_budgets),
            unfinished=list(self.unfinished),
            changes=dict(self.changes),
            layouts=dict(self.layouts),
            exhausted_limits=list(self.exhausted_limits),
            recent=dict(self.recent),
        )


class Lookup(Protocol):
    """What finds entries of a ledger by themselves: a transaction."""

    def find(self, term: str, last: int | None = None) -> list[Entry]:
        """Return the entries that have a term, in order; see ``terms_of``."""

    def entry(self, sequence: int) -> Entry | None:
        """Return the entry of a number."""

    def entries(self, after: int = 0) -> list[Entry]:
        """Return the entries after a number, in order."""


@dataclass
class State:
    """A ledger, replayed.

    Attributes:
        accounts: by name, in the order of their opening.
        last: the last entry; its hash is the head.
        findings: entries that break the protocol, one sentence each.
        base: the last entry that was not replayed: that of the checkpoint that the state began with, or 0.
        base_hash: its hash.
        hashes: those of the entries after it, in order.
        checkpoint: the entry of the last checkpoint, or 0.
        anchor: the path of the anchor, or an empty text.
        adopted: marks of chains that this one has replaced, with a human's word.
        held: why nothing may be charged until a human has looked, or an empty text.
        changes: what a salvage changed, one sentence each, until it is adopted.
        key: the fingerprint of the key that signs the entries, or an empty text.
        key_since: the entry that brought this key into force; it signs those that follow.
        keys: the keys at hand, by their fingerprints.
        is_signed: whether the last entry carries the signature of the key in force, and that was checked.
        blind: whether a backup was restored although later entries could not be read, so that accounts may be unknown.
        lookup: where older entries are found; None if there are none.
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
    lookup: Lookup | None = None

    @property
    def mark(self) -> Mark:
        """The end of the chain, as an anchor keeps it."""
        return Mark(self.last.sequence, self.last.hash) if self.last else Mark(0, GENESIS)

    def holds(self, mark: Mark) -> bool:
        """Return whether an entry that was seen is in the chain."""
        if mark.sequence == 0:
            return mark.hash == GENESIS
        if mark.sequence > self.base:
            place = mark.sequence - self.base - 1
            return place < len(self.hashes) and self.hashes[place] == mark.hash
        if self.lookup is None:
            return False
        later = self.lookup.entries(after=mark.sequence)  # their links lead to what was verified, or not
        link_to_base = [entry for entry in later if entry.sequence <= self.base]
        ends = (link_to_base or [Entry(mark.sequence, "", mark.hash)])[-1]
        return not broken_links(link_to_base, mark) and (ends.sequence, ends.hash) == (self.base, self.base_hash)

    def release(self, account: Account, release_id: str) -> ReleaseRecord | None:
        """Return a release of an account, of whatever age."""
        if account.whole or release_id in account.recent:
            return account.recent.get(release_id)
        try:
            found = [entry for entry in self.find(f"release:{release_id}") if entry.sequence <= self.base]
            record = record_of(found)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise _damaged(f"what is kept of release {release_id}") from None
        if record is not None and (record.stage != "published") != (release_id in account.unfinished):
            raise _damaged(f"how far release {release_id} has come")
        return record

    def charged(self, account: Account, question: str = "", last: int | None = None) -> list[ReleaseRecord]:
        """Return the releases of an account, in the order of their charges.

        Args:
            account: whose.
            question: only those that paid for the question of this digest.
            last: only so many, the youngest.
        """
        if account.whole:
            records = [each for each in account.recent.values() if question in ("", each.question_digest)]
            return records if last is None else records[len(records) - min(last, len(records)) :]
        term = request_term(account.name, question) if question else f"charged:{account.name}"
        found = (self.release(account, entry.fields["release_id"]) for entry in self.find(term, last))
        return [record for record in found if record is not None]

    def whole_account(self, account: Account) -> Account:
        """Return an account with all its releases."""
        releases = {release.release_id: release for release in self.charged(account)}
        return replace(account, recent=releases, whole=True)

    def find(self, term: str, last: int | None = None) -> list[Entry]:
        """Return the entries that have a term, in order; see ``terms_of``.

        Raises:
            LedgerError: one that is older than the checkpoint is not what was written.
        """
        found = self._looked_up(term, last)
        for entry in found:
            if entry.sequence <= self.base and not self._is_genuine(entry):
                raise _damaged(f"entry {entry.sequence}")
        return found

    def _is_genuine(self, entry: Entry) -> bool:
        """Return whether an older entry follows from the one before it, and is signed if there is a key at hand."""
        before = self.lookup.entry(entry.sequence - 1) if self.lookup else None
        previous = GENESIS if entry.sequence == 1 else before.hash if before else ""
        if entry_hash(previous, entry.body.encode("utf-8", "surrogatepass")) != entry.hash:
            return False
        fields, key = entry.fields, self.keys.get(self.key)
        return key is None or entry.sequence <= self.key_since or key.signed(previous, fields)

    def _looked_up(self, term: str, last: int | None) -> list[Entry]:
        return self.lookup.find(term, last) if self.lookup else []

    def copy(self, lookup: Lookup | None) -> State:
        """Return a state that goes on by itself, and finds older entries elsewhere."""
        return replace(
            self,
            accounts={name: account.copy() for name, account in self.accounts.items()},
            findings=list(self.findings),
            hashes=list(self.hashes),
            adopted=set(self.adopted),
            changes=list(self.changes),
            lookup=lookup,
        )

    @property
    def head(self) -> str:
        """The hash of the last entry, or an empty text."""
        return self.last.hash if self.last else ""


def _damaged(what: str) -> LedgerError:
    return LedgerError(
        f"the ledger does not verify: {what} was changed", hint="dpbayes budget verify lists all findings"
    )
