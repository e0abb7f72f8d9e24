"""What a chain of entries says: accounts, their releases and how far each has come. Derived, never stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from dpbayes_cli.errors import SpecError
from dpbayes_cli.ledger.budgets import Budget, Lanes
from dpbayes_cli.ledger.chain import GENESIS, Entry, Mark
from dpbayes_cli.ledger.limits import Limit, change_said
from dpbayes_cli.ledger.populations import data_names
from dpbayes_cli.ledger.union_budget import parse_budget
from dpbayes_cli.numeric import parse_decimal
from dpbayes_cli.privacy.composition import parse_guarantee
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.neighbors import Neighbors


@dataclass(frozen=True)
class ReleaseRecord:
    """One release in the ledger.

    Attributes:
        release_id, label: its name, derived from account and label.
        request: the canonical request.
        request_digest, question_digest: what was asked for, and the part of it that has a price.
        source: the identity of the data source: absolute paths, an address, or ``-``.
        guarantee: what was charged.
        owner: the process that reserved it.
        sequence, hash: the entry that charged it.
        time, user, version, purpose: who asked, and why.
        analyst: under whose limit it was charged, or None.
        sealed: the digest of the sealed payload, or None.
        published: the digests of the published files, or None.
        document: the digest of the published document, or None.
    """

    release_id: str
    label: str
    request: dict[str, Any]
    request_digest: str
    question_digest: str
    source: str
    guarantee: Guarantee
    owner: dict[str, str]
    sequence: int
    hash: str
    time: str
    user: str
    version: str
    purpose: str
    analyst: str | None = None
    sealed: str | None = None
    published: dict[str, str] | None = None
    document: str | None = None

    @property
    def stage(self) -> str:
        """``reserved``, ``sealed`` or ``published``."""
        return "published" if self.published is not None else "sealed" if self.sealed is not None else "reserved"


@dataclass
class Account:
    """One account: a population, a neighbour relation, a privacy unit, a budget and what was spent of it.

    ``unit`` is the column that says whose a record is; None: each record is a unit of its own.
    ``charged`` is the exact sum of the prices of all releases in the budget's lanes; a reservation counts from the
    moment it is made, and for good. ``limits`` are those of analysts, by their names; ``notice`` is the share of the
    budget from which on every charge says how much is spent. ``sources`` names the data that were charged for;
    ``separate_population`` is a human's word that they hold other people than those of the other accounts.
    ``changes`` holds, for each thing that may be changed, what was said of it last.
    """

    name: str
    budget: Budget
    neighbors: Neighbors
    opened: str
    by_default: bool
    unit: str | None = None
    releases: dict[str, ReleaseRecord] = field(default_factory=dict)
    charged: Lanes = field(default_factory=dict)
    limits: dict[str, Limit] = field(default_factory=dict)
    notice: Decimal | None = None
    separate_population: bool = False
    sources: set[str] = field(default_factory=set)
    changes: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.charged = self.charged or self.budget.nothing

    @property
    def terms(self) -> object:
        """What it promises, and to whom."""
        return self.budget.serialize(), self.neighbors, self.unit, self.separate_population

    @property
    def remaining(self) -> dict[str, Decimal]:
        """What is left, by component."""
        return self.budget.remaining(self.charged)

    def charged_by(self, analyst: str, budget: Budget) -> Lanes:
        """Return what an analyst was charged, in the lanes of a limit: also where the limit itself was lost."""
        charged = budget.nothing
        for release in self.releases.values():
            if release.analyst == analyst:
                charged = budget.added(charged, release.guarantee)
        return charged

    @property
    def spent(self) -> dict[str, Decimal]:
        """What was spent, by component."""
        return self.budget.spent(self.charged)


@dataclass
class State:
    """The whole ledger, replayed.

    Attributes:
        accounts: by name, in the order of their opening.
        last: the last entry; its hash is the head.
        findings: entries that break the protocol, one sentence each.
        hashes: those of all entries, in order.
        anchor: the path of the anchor, or an empty text.
        adopted: marks of chains that this one has replaced, with a human's word.
        held: why nothing may be charged until a human has looked, or an empty text.
    """

    accounts: dict[str, Account] = field(default_factory=dict)
    last: Entry | None = None
    findings: list[str] = field(default_factory=list)
    hashes: list[str] = field(default_factory=list)
    anchor: str = ""
    adopted: set[Mark] = field(default_factory=set)
    held: str = ""

    @property
    def mark(self) -> Mark:
        """The end of the chain, as an anchor keeps it."""
        return Mark(self.last.sequence, self.last.hash) if self.last else Mark(0, GENESIS)

    def holds(self, mark: Mark) -> bool:
        """Return whether an entry that was seen is in the chain."""
        if mark.sequence == 0:
            return mark.hash == GENESIS
        return mark.sequence <= len(self.hashes) and self.hashes[mark.sequence - 1] == mark.hash

    @property
    def head(self) -> str:
        """The hash of the last entry, or an empty text."""
        return self.last.hash if self.last else ""

    def follow(self, entry: Entry) -> None:
        """Take in the next entry; one that does not follow the protocol is listed, not believed."""
        self.last = entry
        self.hashes.append(entry.hash)
        try:
            _apply(self, entry)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, SpecError) as error:
            self.findings.append(f"entry {entry.sequence} breaks the protocol: {_reason(error)}")


def replay(entries: Iterable[Entry]) -> State:
    """Return what a chain says."""
    state = State()
    for entry in entries:
        state.follow(entry)
    return state


def _reason(error: Exception) -> str:
    return f"no {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__


def _apply(state: State, entry: Entry) -> None:
    """Apply one entry; raises where it does not follow from the state."""
    fields = entry.fields
    if fields["sequence"] != entry.sequence:
        raise ValueError("its sequence number is another")
    kind, name = fields["kind"], fields["account"]
    for key in ("kind", "account", "time", "user", "version"):
        if not isinstance(fields[key], str):
            raise ValueError(f"its {key} is not a text")
    if not isinstance(fields.get("purpose", ""), str) or not isinstance(fields.get("reason", ""), str):
        raise ValueError("its reason is not a text")
    if kind == "open":
        if name in state.accounts:
            raise ValueError("the account is already open")
        unit = fields.get("unit")
        if not isinstance(unit, str | None):
            raise ValueError("its unit is not a text")
        budget, relation = parse_budget(fields["budget"]), Neighbors(fields["neighbors"])
        account = Account(name, budget, relation, fields["time"], fields["by_default"], unit)
        account.separate_population = _is_separate(fields)
        state.accounts[name] = account
        return
    if not name:
        _apply_to_ledger(state, kind, fields)
        return
    account = state.accounts[name]
    if kind == "amend":
        budget = parse_budget(fields["budget"])
        if budget.shape != account.budget.shape:
            raise ValueError("the kind of the budget changes")
        if budget.excess(account.charged):
            raise ValueError("the budget falls below what is spent")
        account.budget = budget
        account.separate_population |= _is_separate(fields)
        account.changes.update([change_said(fields)])
        return
    if kind in {"limit", "notice"}:
        _apply_to_limits(account, kind, fields)
        return
    _apply_to_release(account, kind, fields, entry)


def _is_separate(fields: dict[str, Any]) -> bool:
    """Return whether an entry says that an account's population is one of its own."""
    said = fields.get("separate_population", False)
    if not isinstance(said, bool):
        raise ValueError("its separate population is no truth value")
    return said


def _apply_to_limits(account: Account, kind: str, fields: dict[str, Any]) -> None:
    """Apply an entry about an analyst's limit, or about notices."""
    account.changes.update([change_said(fields)])
    if kind == "notice":
        share = fields["share"]
        account.notice = None if share is None else parse_decimal(share)
        return
    analyst, budget = fields["analyst"], parse_budget(fields["budget"])
    if not isinstance(analyst, str) or not analyst:
        raise ValueError("its analyst is not a text")
    if budget.shape != account.budget.shape:
        raise ValueError("the kind of the limit is not that of the budget")
    known = account.limits.get(analyst)
    charged = account.charged_by(analyst, budget) if known is None else known.charged
    if budget.excess(charged):
        raise ValueError("the limit falls below what is spent")
    account.limits[analyst] = Limit(budget, charged)


def _apply_to_ledger(state: State, kind: str, fields: dict[str, Any]) -> None:
    """Apply an entry about the whole ledger."""
    if kind == "anchor":
        if not isinstance(fields["path"], str):
            raise ValueError("its path is not a text")
        state.anchor = fields["path"]
    elif kind == "adopt":
        marks = {Mark(seen["sequence"], seen["hash"]) for seen in fields["seen"]}
        state.adopted |= marks
        state.held = ""
    elif kind == "salvaged":
        state.held = fields["held"]
    else:
        raise ValueError(f"{kind!r} is a kind of entry that this version of dpbayes does not know")


def _apply_to_release(account: Account, kind: str, fields: dict[str, Any], entry: Entry) -> None:
    """Apply an entry about one release."""
    release_id = fields["release_id"]
    known = account.releases.get(release_id)
    if kind == "reserved":
        if known is not None:
            raise ValueError("the release is charged twice")
        guarantee, analyst = parse_guarantee(fields["guarantee"]), fields.get("analyst")
        if not fields.get("lost", False):
            _check_fits(account, analyst, guarantee)
        if analyst in account.limits:
            limit = account.limits[analyst]
            account.limits[analyst] = Limit(limit.budget, limit.budget.added(limit.charged, guarantee))
        keys = ("label", "request", "request_digest", "question_digest", "source", "owner", "time", "user", "version")
        account.releases[release_id] = ReleaseRecord(
            release_id=release_id,
            guarantee=guarantee,
            sequence=entry.sequence,
            hash=entry.hash,
            purpose=fields["purpose"],
            analyst=analyst,
            **{key: fields[key] for key in keys},
        )
        account.charged = account.budget.added(account.charged, guarantee)
        account.sources |= data_names(fields["source"])
        return
    if known is None:
        raise ValueError("the release was never charged")
    if kind == "sealed" and known.stage == "reserved":
        account.releases[release_id] = replace(known, sealed=fields["payload"])
    elif kind == "published" and known.stage == "sealed":
        account.releases[release_id] = replace(known, published=dict(fields["files"]), document=fields["document"])
    else:
        raise ValueError(f"a release that is {known.stage} cannot become {kind}")


def _check_fits(account: Account, analyst: str | None, guarantee: Guarantee) -> None:
    """Raise where a charge is more than was left; one that was salvaged counts all the same, for it is spent."""
    if account.budget.shortfall(account.charged, guarantee):
        raise ValueError("the charge does not fit the budget")
    if (analyst is None) != (not account.limits):
        raise ValueError("the charge names an analyst without a limit, or none where there are limits")
    if analyst is not None:
        limit = account.limits[analyst]
        if limit.budget.shortfall(limit.charged, guarantee):
            raise ValueError("the charge does not fit the analyst's limit")
