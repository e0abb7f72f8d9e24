"""The invariants of a ledger, from what earlier commands have reported."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

from dpbayes_cli.ledger.records import ReleaseRecord, release_id_of
from dpbayes_cli.ledger.state import State
from dpbayes_cli.ledger.storage import Transaction

COST, TOTAL = Decimal("0.1"), Decimal(3)
"""The cost of a release, and the total of a schedule, which is spent when its account is opened."""


@dataclass(frozen=True)
class Draft:
    """The part of a release document that placing a bundle needs."""

    text: bytes
    created: str = "2026-01-02T03:04:05Z"
    inference: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(samples_file="none"), compare=False)

    def files(self) -> dict[str, bytes]:
        return {"release.json": self.text, "report.md": b"# " + self.text}


@dataclass(frozen=True)
class Sighting:
    """What a command saw of a release.

    Attributes:
        since: the number of events when the call that reported it began.
        label: the user's label of the release.
        key: its ID.
        draw: the sealed draw.
        files: the digests of its bundle; None if it is not published yet.
        spent: the sum that all accounts had spent.
    """

    since: int
    label: str
    key: str
    draw: bytes
    files: dict[str, str] | None = None
    spent: Decimal = Decimal(0)


@dataclass
class Known:
    """The required content of the ledger: the spent sum and, by release, draws and digests of published files.

    Attributes:
        scheduled: whether the releases are those of a schedule.
    """

    scheduled: bool = False
    spent: Decimal = Decimal(0)
    draws: dict[str, bytes] = field(default_factory=dict)
    published: dict[str, dict[str, str]] = field(default_factory=dict)

    def within(self, state: State) -> Known:
        """Return the part of this that a state holds, e.g. the state of a backup."""
        records = releases_of(state)
        return Known(
            self.scheduled,
            spent_in(state),
            {key: draw for key, draw in self.draws.items() if key in records and records[key].sealed},
            {key: files for key, files in self.published.items() if key in records and records[key].published},
        )

    def add(self, seen: Sighting) -> list[str]:
        """Add a sighting; return its contradictions to earlier ones."""
        self.spent = max(self.spent, seen.spent)
        wrong = self.draws.setdefault(seen.key, seen.draw) != seen.draw
        if seen.files is not None:
            wrong |= self.published.setdefault(seen.key, seen.files) != seen.files
        return [f"release {seen.label} was reported with other bytes than before"] if wrong else []

    def compare(self, transaction: Transaction, state: State) -> list[str]:
        """Return the violations of a ledger."""
        records, spent = releases_of(state), spent_in(state)
        wrong = []
        if spent < self.spent:
            wrong.append(f"spent was {self.spent} and is {spent}")
        self.spent = spent
        if spent != (TOTAL * len(state.accounts) if self.scheduled else COST * len(records)):
            wrong.append(f"{len(records)} releases are charged {spent}")
        for key, files in self.published.items():
            if key not in records or records[key].published != files:
                wrong.append(f"release {key} was reported as published, and is not")
        for key, draw in self.draws.items():
            if transaction.payload(key) != draw:
                wrong.append(f"the draw of release {key} changed after it was sealed")
        return wrong


def damaged_bundles(bundles: dict[str, Draft], place: Path) -> list[str]:
    """Return which files of published bundles are not there as they were."""
    return [
        f"release {label} is published, but {name} is missing or another"
        for label, draft in bundles.items()
        for name, content in draft.files().items()
        for path in [place / label / name]
        if not path.is_file() or path.read_bytes() != content
    ]


def unsealed_bundles(transaction: Transaction, place: Path) -> list[str]:
    """Return which bundles show another draw than the sealed one, or one that is not sealed."""
    shown = {path.parent.name: path.read_bytes() for path in sorted(place.glob("[!.]*/release.json"))}
    return [
        f"the bundle of release {label} shows a draw that is not sealed"
        for label, draw in shown.items()
        if transaction.payload(release_id_of("clinic", label)) != draw
    ]


def releases_of(state: State) -> dict[str, ReleaseRecord]:
    return {key: record for account in state.accounts.values() for key, record in account.releases.items()}


def spent_in(state: State) -> Decimal:
    return sum((account.spent["epsilon"] for account in state.accounts.values()), Decimal(0))
