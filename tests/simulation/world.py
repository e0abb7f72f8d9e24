"""A custodian's days: releases that race, are killed and replayed, second names, containers, backups; and what must hold.

What must hold, of every opening that succeeds:

- what a command reported as published is in the ledger, with the bytes of its bundle, and the bundle is on disk;
- a release is charged once, and what is spent never becomes less;
- a draw that was sealed is never another;
- nothing is wrong with the file, the chain or the payloads;
- no command ends with an internal error, and without a second name every command that is given again succeeds.

A restored backup takes the ledger back to what was in it, and no further.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

import dpbayes_cli.bundle.place as bundle_place
from dpbayes_cli.bundle.read import file_digest
from dpbayes_cli.bundle.write import write_new
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.sqlite import SqliteStorage
from dpbayes_cli.ledger.state import ReleaseRecord, State
from dpbayes_cli.ledger.upkeep import back_up
from tests.ledger.kept_books import charge
from tests.simulation.calls import Blindness, Calls
from tests.simulation.disk import Disk
from tests.simulation.host import Host, Process
from tests.simulation.sqlite_files import Files

PRICE = Decimal("0.1")
TROUBLES = frozenset({"kills", "outages", "namespaces", "names", "restores"})
"""What a custodian may meet: processes that are killed, losses of power, containers that share a directory, two names of
one ledger, backups that are put back."""
Restore = Callable[[Ledger, Path], None] | None
LABELS = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Draft:
    """As much of a release document as putting a bundle in its place needs."""

    text: bytes
    created: str = "2026-01-02T03:04:05Z"

    def files(self) -> dict[str, bytes]:
        return {"release.json": self.text, "report.md": b"# " + self.text}


@dataclass
class Known:
    """What every opening must find: what is spent, the draws, and the files of what is published, by release."""

    spent: Decimal = Decimal(0)
    sealed: dict[str, bytes] = field(default_factory=dict)
    published: dict[str, dict[str, str]] = field(default_factory=dict)

    def of(self, state: State) -> Known:
        """Return what of this is in a state, as in that of a backup."""
        records = _releases(state)
        return Known(
            _spent(state),
            {key: draw for key, draw in self.sealed.items() if key in records and records[key].sealed},
            {key: files for key, files in self.published.items() if key in records and records[key].published},
        )


class World:
    """One seed."""

    def __init__(self, seed: int, root: Path, troubles: frozenset[str], blind: Blindness, restore: Restore) -> None:
        self.rng = Random(seed)
        self.host, self.disk = Host(self.rng), Disk(root)
        self.calls = Calls(self.host, self.disk, blind)
        self.files = Files(self.host, self.disk)
        self.troubles, self.restore = troubles, restore
        for name in ("host", "container", "out"):
            (root / name).mkdir()
        self.disk.sync_all()
        self.root, self.first, self.second = root, root / "host" / "ledger.sqlite", ""
        self.known = Known()
        self.bundles: dict[str, Draft] = {}
        self.asked: set[str] = set()
        self.started, self.restored = 0, False
        self.backups: list[tuple[Path, State]] = []
        self.wrong: list[str] = []
        self.reported: list[tuple[str, str, bytes, dict[str, str], State]] = []

    def live(self) -> None:
        """Live through a few days, and look at everything then."""
        choose, chance = self.rng.choice, self.rng.random
        trouble = {each for each in sorted(self.troubles) if len(self.troubles) == 1 or chance() < 0.5}
        second = choose(("link", "mount")) if "names" in trouble else ""
        hazard = choose((0.3, 0.6)) if trouble - {"outages"} else 0.0
        same = chance() < 0.5
        for _ in range(self.rng.randint(2, 6)):
            self._second_name(second)
            label = choose(LABELS)
            commands = [self._release(label if same else choose(LABELS)) for _ in range(choose((1, 1, 2, 3)))]
            commands += [self._backup()] if chance() < (0.5 if "restores" in trouble else 0.1) else []
            views = [choose(self._views()) for _ in commands]
            processes = [self._process(*command, view) for command, view in zip(commands, views, strict=True)]
            for process in processes:
                process.namespace = self.rng.randrange(1 + ("namespaces" in trouble))
                process.fatal = self.rng.randint(1, 60) if chance() < hazard else 0
            self._run(processes, self.rng.randint(1, 100) if "outages" in trouble and chance() < 0.4 else 0)
            if "restores" in trouble and self.backups and chance() < 0.4:
                self._restore()
            if chance() < 0.3:
                self._look(choose(self._views()))
            if self.wrong:
                return
        views = self._views()
        self.rng.shuffle(views)
        for view in views:
            self._look(view)
        if not self.second:
            for label in LABELS:
                if label in self.asked:
                    self._one(*self._release(label), str(self.first), {0, 8} if self.restored else {0})
            self._look(str(self.first))

    # What happens

    def _run(self, processes: list[Process], outage: int = 0) -> None:
        """Run processes, take in what they reported, and judge how they ended."""
        mounted = self.second and self.second in self.calls.mounts
        lost = self.host.run(processes, outage)
        if lost:
            if mounted:
                Path(self.second).unlink()
            self.disk.lose_power(self.rng)
            if mounted:
                self._mount()
        for label, key, draw, files, state in self.reported:
            text = Draft(draw)
            if self.bundles.setdefault(label, text) != text:
                self.wrong.append(f"release {label} was reported with another draw")
            if self.known.sealed.setdefault(key, draw) != draw:
                self.wrong.append(f"the draw of release {label} changed after it was sealed")
            self.known.published[key] = files
            self.known.spent = max(self.known.spent, _spent(state))
        self.reported.clear()
        for process in processes:
            if process.code == 1:
                self.wrong.append(f"{process.name}: {process.trace}")
            elif process.code not in {None, 0, 8} and not (process.code == 6 and self.second):
                self.wrong.append(f"{process.name} ends with {process.code}")

    def _one(self, name: str, work: Callable[[Path], None], view: str, expected: set[int]) -> None:
        process = self._process(name, work, view)
        self._run([process])
        if process.code not in expected:
            self.wrong.append(f"{name} ends with {process.code}")

    def _process(self, name: str, work: Callable[[Path], None], view: str) -> Process:
        self.started += 1
        return Process(f"{self.started}: {name}", view, lambda: work(Path(view)))

    def _views(self) -> list[str]:
        return [str(self.first), *([self.second] if self.second else [])]

    def _second_name(self, kind: str) -> None:
        """Give the ledger a second name, or take it away."""
        if self.second:
            if self.rng.random() < 0.2:
                self._drop_second_name()
        elif kind and self.first.exists() and self.rng.random() < 0.6:
            if kind == "mount":
                self.second = str(self.root / "container" / "ledger.sqlite")
                self._mount()
            else:
                self.second = str(self.first.with_name("second.sqlite"))
                Path(self.second).hardlink_to(self.first)
                self.disk.sync(self.first.parent)
            self._say(f"the ledger gets a second name: {kind}")

    def _mount(self) -> None:
        """Show the ledger's file in a container; a mount is not on the disk, and is made again after a loss of power."""
        Path(self.second).unlink(missing_ok=True)
        Path(self.second).hardlink_to(self.first)
        self.calls.mounts = {self.second: Path(self.second)}

    def _drop_second_name(self) -> None:
        if self.second:
            Path(self.second).unlink(missing_ok=True)
            self.disk.sync(Path(self.second).parent)
            self.second = ""
            self.calls.mounts = {}
            self._say("the second name is removed")

    def _say(self, text: str) -> None:
        self.host.events.append(f"-- {text}")

    # What is run

    def _ledger(self, path: Path) -> Ledger:
        return Ledger(SqliteStorage(path), lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))

    def _release(self, label: str) -> tuple[str, Callable[[Path], None]]:
        draw = self.rng.randbytes(self.rng.choice((50, 3000, 9000)))

        def work(path: Path) -> None:
            ledger, asked, target = self._ledger(path), charge(label, str(PRICE)), self.root / "out" / label
            known = ledger.preview(asked).known
            bundle_place.check_place(target, sealed=known is not None and known.stage != "reserved")
            reserved = ledger.reserve(asked)
            sealed = reserved.payload or ledger.seal(reserved.release, "clinic", draw)
            draft, published = Draft(sealed), reserved.release.published
            digests = bundle_place.place_bundle(cast(Any, draft), None, target, published, lambda _: None)
            record, state = ledger.publish(reserved.release, "clinic", digests, reserved.document or draft.text)
            self.reported.append((label, record.release_id, sealed, digests, state))

        self.asked.add(label)
        return f"release {label}", work

    def _backup(self) -> tuple[str, Callable[[Path], None]]:
        target = self.root / "out" / f"backup {self.started}"

        def work(path: Path) -> None:
            if path.exists():
                self.backups.append((target, back_up(self._ledger(path), target)))

        return target.name, work

    def _restore(self) -> None:
        """Put a backup in the ledger's place, while nothing else runs; it may be killed."""
        self._drop_second_name()
        backup, state = self.rng.choice(self.backups)
        self._say(f"{backup.name} is restored")
        known = self.known.of(state)
        if self.restore is None:  # as was documented once
            shutil.copyfile(backup, self.first)
            self.disk.sync_all()
            self.known, self.restored = known, True
            return
        restore = self.restore
        process = self._process("restore", lambda path: restore(self._ledger(path), backup), str(self.first))
        process.fatal = self.rng.randint(1, 60) if self.rng.random() < 0.3 else 0
        self._run([process])
        if process.code in {0, None}:
            self.known, self.restored = known, True

    def _look(self, view: str) -> None:
        """Open the ledger as the next command would, and compare it with what is known."""
        found: list[str] = []

        def work(path: Path) -> None:
            if not path.exists():
                found.extend(["the ledger is gone"] if self.known.spent else [])
                return
            ledger = self._ledger(path)
            findings, state = ledger.findings()
            with ledger.storage.reading() as transaction:
                draws = {key: transaction.payload(key) for key in self.known.sealed}
            found.extend(findings + self._missing(state, draws))
            self.known.spent = _spent(state)

        self._one(f"look by {Path(view).name}", work, view, {0, 6} if self.second else {0})
        self.wrong += [f"seen by the name {view}: {each}" for each in found]
        for label, draft in self.bundles.items():
            for name, content in draft.files().items():
                path = self.root / "out" / label / name
                if not path.is_file() or path.read_bytes() != content:
                    self.wrong.append(f"the bundle of release {label} is published, but {name} is missing or another")

    def _missing(self, state: State, draws: dict[str, bytes | None]) -> list[str]:
        records, spent = _releases(state), _spent(state)
        wrong = []
        if spent < self.known.spent:
            wrong.append(f"spent was {self.known.spent} and is {spent}")
        if spent != PRICE * len(records):
            wrong.append(f"{len(records)} releases are charged {spent}")
        for key, files in self.known.published.items():
            if key not in records or records[key].published != files:
                wrong.append(f"release {key} was reported as published, and is not")
        for key, draw in self.known.sealed.items():
            if draws[key] != draw:
                wrong.append(f"the draw of release {key} changed after it was sealed")
        return wrong


def _releases(state: State) -> dict[str, ReleaseRecord]:
    return {key: record for account in state.accounts.values() for key, record in account.releases.items()}


def _spent(state: State) -> Decimal:
    return sum((account.spent["epsilon"] for account in state.accounts.values()), Decimal(0))


def _render(draft: Any, _: Any, directory: Path) -> dict[str, str]:
    """Write a bundle of two files, in place of samples and a report that take longer than all else."""
    for name, content in draft.files().items():
        write_new(directory / name, content)
    return {path.name: str(file_digest(path)) for path in sorted(directory.iterdir())}


def run(
    seed: int,
    root: Path,
    blind: Blindness | None = None,
    restore: Restore = None,
    troubles: frozenset[str] = TROUBLES,
) -> tuple[list[str], list[str]]:
    """Live through one seed in an empty directory; return what is wrong, and all that happened."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    world = World(seed, root, troubles, blind or Blindness(), restore)
    with pytest.MonkeyPatch.context() as patch:
        world.calls.install(patch)
        patch.setattr(bundle_place, "render", _render)
        try:
            world.live()
        finally:
            world.files.unregister()
    return world.wrong, world.host.events
