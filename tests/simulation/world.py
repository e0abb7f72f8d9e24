"""A simulated custodian: racing and killed releases, second names, containers and backups; and the invariants.

The invariants, whenever the ledger can be opened:

- a release that a command reported as published is in the ledger, and its bundle is on disk with the same bytes;
- a release is charged once, and the spent budget never decreases;
- a sealed draw never changes, and no bundle shows a draw that is not sealed;
- the file, the chain and the payloads have no findings;
- no command ends with an internal error, and the ledger is refused only while it has a second name.

They hold after a restore, too. They do not hold after a backup is copied over the ledger, as was once documented.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

import dpbayes_cli.bundle.place as bundle_place
from dpbayes_cli.base.canonical import canonical_json, digest
from dpbayes_cli.bundle.write import write_new
from dpbayes_cli.ledger.charging import Charge
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.schedule_budget import ScheduleBudget
from dpbayes_cli.ledger.sqlite import SqliteStorage
from dpbayes_cli.ledger.state import State
from dpbayes_cli.ledger.upkeep import back_up
from dpbayes_cli.privacy.kinds import PureDP
from tests.ledger.ledgers import labeled
from tests.simulation.calls import Blindness, Calls
from tests.simulation.disk import Disk
from tests.simulation.host import Host, Process
from tests.simulation.invariants import (
    COST,
    TOTAL,
    Draft,
    Known,
    Sighting,
    damaged_bundles,
    spent_in,
    unsealed_bundles,
)
from tests.simulation.sqlite_files import Files

TROUBLES = frozenset({"kills", "outages", "anchors", "directories", "namespaces", "names", "restores"})
"""Killed processes, power cuts, an anchor, a ledger in a new directory, containers that share a directory, two names
of one ledger, and restored backups."""
LABELS = ("a-1", "a-2", "b-1", "b-2")
REQUESTS = {name: {"model": name} for name in ("a", "b")}
SCHEDULE = ScheduleBudget(
    TOTAL,
    Decimal("1e-6"),
    TOTAL,
    json.dumps({"releases": [{"name": name, "times": 2, "request": REQUESTS[name]} for name in ("a", "b")]}),
    (PureDP(COST), PureDP(COST)),
)
UNKNOWN, REFUSED, TAKEN = 5, 6, 8
"""The exit codes for an unknown account, a refused ledger, and an output path that exists already."""

Restore = Callable[[Ledger, Path], None]
Command = tuple[str, Callable[[Path], object]]


class World:
    """The history of one seed."""

    def __init__(
        self,
        seed: int,
        root: Path,
        troubles: frozenset[str],
        blind: Blindness,
        restore: Restore | None,
        *,
        scheduled: bool,
    ):
        self.rng = Random(seed)
        self.host, self.disk = Host(self.rng), Disk(root)
        self.calls, self.files = Calls(self.host, self.disk, blind), Files(self.host, self.disk)
        self.troubles = {each for each in sorted(troubles) if troubles != TROUBLES or self.rng.random() < 0.5}
        self.restore = restore
        for name in ("host", "container", "out", "elsewhere"):
            (root / name).mkdir()
        self.disk.sync_all()
        directory = root / "host" / "new" if "directories" in self.troubles else root / "host"
        self.root, self.first, self.second = root, directory / "ledger.sqlite", ""
        self.known, self.bundles = Known(scheduled), dict[str, Draft]()
        self.backups: list[tuple[Path, State]] = []
        self.seen: list[Sighting] = []
        self.asked: set[str] = set()
        self.started, self.restored = 0, False
        self.wrong: list[str] = []

    def live(self) -> None:
        """Simulate a few days, then check everything."""
        choose, chance = self.rng.choice, self.rng.random
        second = choose(("link", "mount")) if "names" in self.troubles else ""
        hazard = choose((0.3, 0.6, 0.8)) if self.troubles - {"outages"} else 0.0
        same = chance() < 0.5
        if "anchors" in self.troubles and "restores" not in self.troubles:
            self._one(("anchor", lambda path: self._ledger(path).anchor(self.root / "elsewhere" / "anchor", "")), {0})
        for _ in range(self.rng.randint(2, 7)):
            self._change_names(second)
            labels = [choose(LABELS)] * 3 if same else [choose(LABELS) for _ in range(3)]
            commands = [self._release(label) for label in labels[: choose((1, 1, 1, 2, 3))]]
            commands += [self._backup()] if chance() < (0.5 if "restores" in self.troubles else 0.1) else []
            chosen = self._backup_to_restore() if "restores" in self.troubles else None
            commands += [self._restore(self.restore, chosen[0])] if chosen and self.restore else []
            processes = [self._process(command, choose(self._views())) for command in commands]
            for process in processes:
                process.namespace = self.rng.randrange(1 + ("namespaces" in self.troubles))
                process.fatal = self.rng.randint(1, 60) if chance() < hazard else 0
            dark = self.troubles & {"outages", "directories", "anchors"} and chance() < 0.4
            outage = self.rng.randint(1, 100) if dark else 0
            self._run(processes, outage, restoring=bool(chosen and self.restore))
            if chosen and self.restore and processes[-1].code is None:  # it was interrupted: a human repeats it
                self._one(self._restore(self.restore, chosen[0]), {0})
            if chance() < 0.3:
                self._look(choose(self._views()))
            if self.wrong:
                return
        for view in self.rng.sample(self._views(), len(self._views())):
            self._look(view)
        self._drop_second_name()
        for label in sorted(self.asked):
            self._one(self._release(label), {0, TAKEN} if self.restored else {0})
        self._look(str(self.first))

    def _run(self, processes: list[Process], outage: int = 0, *, restoring: bool = False) -> None:
        """Run processes, record what they saw, and check their exit codes.

        Args:
            processes: the processes, which run concurrently.
            outage: the change before which the power is cut; 0: never.
            restoring: whether the last process restores a backup.
        """
        if self.host.run(processes, outage):
            self.disk.lose_power(self.rng)
            if self.calls.mounts:
                self._mount()
        for seen in self.seen:
            if seen.files is not None:
                self.bundles.setdefault(seen.label, Draft(seen.draw))
            self.wrong += self.known.add(seen)
        self.seen.clear()
        allowed = {None, 0, TAKEN, *((REFUSED, UNKNOWN) if self.second or restoring else ())}
        failed = [process for process in processes if process.code not in allowed]
        self.wrong += [f"{process.name} ends with {process.code} {process.trace}" for process in failed]

    def _forget(self, state: State) -> None:
        self.known, self.restored = self.known.within(state), True

    def _one(self, command: Command, expected: set[int], view: str = "") -> None:
        """Run one command without disturbance."""
        process = self._process(command, view or str(self.first))
        self._run([process])
        if process.code not in expected:
            self.wrong.append(f"{process.name} ends with {process.code}")

    def _look(self, view: str) -> None:
        """Open the ledger as the next command would, and check the invariants."""
        violations: list[str] = []

        def work(path: Path) -> None:
            ledger = self._ledger(path)
            if not ledger.storage.exists:
                violations.extend(["the ledger is gone"] if self.known.spent else [])
                return
            findings, state = ledger.findings()
            with ledger.storage.reading() as transaction:
                violations.extend(findings + self.known.compare(transaction, state))
                if not self.restored:
                    violations.extend(unsealed_bundles(transaction, self.root / "out"))

        self._one(("look", work), {0, REFUSED} if self.second else {0}, view)
        self.wrong += [f"by the name {view}: {violation}" for violation in violations]
        self.wrong += damaged_bundles(self.bundles, self.root / "out")

    def _process(self, command: Command, view: str) -> Process:
        name, work = command
        self.started += 1
        return Process(f"{self.started}: {name}", view, lambda: work(Path(view)))

    def _ledger(self, path: Path) -> Ledger:
        return Ledger(SqliteStorage(path), lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))

    # What is run

    def _release(self, label: str) -> Command:
        self.asked.add(label)
        draw = self.rng.randbytes(self.rng.choice((50, 3000, 9000)))

        def work(path: Path) -> None:
            ledger, asked, target = self._ledger(path), self._charge(label), self.root / "out" / label
            if self.known.scheduled:
                ledger.open_account(asked.account, SCHEDULE, asked.neighbors)
            known = ledger.preview(asked).known
            bundle_place.check_place(target, sealed=known is not None and known.stage != "reserved")
            since = len(self.host.events)
            reserved = ledger.reserve(asked)
            record, since = reserved.release, since if reserved.payload else len(self.host.events)
            sealed = reserved.payload or ledger.seal(record, "clinic", draw)
            self.seen.append(Sighting(since, label, record.release_id, sealed))
            draft = Draft(sealed)
            made = cast(Any, draft), cast(Any, lambda: None)
            files = bundle_place.place_bundle(*made, target, record.published, lambda _: None)
            since = len(self.host.events)
            _, state = ledger.publish(record, "clinic", files, reserved.document or draft.text)
            self.seen.append(Sighting(since, label, record.release_id, sealed, files, spent_in(state)))

        return f"release {label}", work

    def _charge(self, label: str) -> Charge:
        asked = labeled(label, str(COST))
        if not self.known.scheduled:
            return asked
        request = REQUESTS[label[0]]
        request_digest = digest("request", canonical_json(request))
        return replace(asked, request=request, request_digest=request_digest, open_account=False)

    def _backup(self) -> Command:
        target = self.root / "out" / f"backup {self.started}"

        def work(path: Path) -> None:
            if path.exists():
                self.backups.append((target, back_up(self._ledger(path), target)))

        return target.name, work

    def _backup_to_restore(self) -> tuple[Path, State] | None:
        """Choose a backup to restore, more often after a crash; without ``restore``, copy it over the ledger."""
        crashed = self.first.with_name(f"{self.first.name}-journal").exists()
        backups = [backup for backup in self.backups if backup[1].last]
        if not backups or self.rng.random() > (0.8 if crashed else 0.1):
            return None
        self._drop_second_name()
        backup, state = self.rng.choice(backups)
        if self.restore is None:  # as was once documented; no other process runs meanwhile
            self._say(f"{backup.name} is copied over the ledger")
            shutil.copyfile(backup, self.first)
            self.disk.sync_all()
            self._forget(state)
        return backup, state

    def _restore(self, restore: Restore, backup: Path) -> Command:
        def work(path: Path) -> None:
            restore(self._ledger(path), backup)

        return f"restore of {backup.name}", work

    # What the ledger is called

    def _views(self) -> list[str]:
        return [str(self.first), *([self.second] if self.second else [])]

    def _change_names(self, kind: str) -> None:
        """Give the ledger a second name, or remove it."""
        if self.second:
            if self.rng.random() < 0.2:
                self._drop_second_name()
        elif kind and self.first.exists() and self.rng.random() < 0.6:
            self._say(f"the ledger gets a second name: {kind}")
            if kind == "mount":
                self.second = str(self.root / "container" / "ledger.sqlite")
                self._mount()
            else:
                self.second = str(self.first.with_name("second.sqlite"))
                Path(self.second).hardlink_to(self.first)
                self.disk.sync(self.first.parent)

    def _mount(self) -> None:
        """Show the ledger's file in a container; repeated after a power cut, because a mount is not on disk."""
        Path(self.second).unlink(missing_ok=True)
        Path(self.second).hardlink_to(self.first)
        self.calls.mounts = {self.second: Path(self.second)}

    def _drop_second_name(self) -> None:
        if self.second:
            self._say("the second name is removed")
            Path(self.second).unlink(missing_ok=True)
            if Path(self.second).parent.exists():  # a power cut may have removed it
                self.disk.sync(Path(self.second).parent)
            self.second = ""
            self.calls.mounts = {}

    def _say(self, text: str) -> None:
        self.host.events.append(f"-- {text}")


def _render(draft: Any, _: Any, directory: Path) -> dict[str, str]:
    """Write a bundle of two files, in place of samples and a report, which would take most of the time."""
    for name, content in draft.files().items():
        write_new(directory / name, content)
    return {name: digest("file", content) for name, content in draft.files().items()}


def run(
    seed: int,
    root: Path,
    troubles: frozenset[str] = TROUBLES,
    blind: Blindness | None = None,
    restore: Restore | None = None,
    *,
    scheduled: bool = False,
) -> tuple[list[str], list[str]]:
    """Simulate one seed in an empty directory, with these troubles; if these are all, with a random part of them.

    Args:
        scheduled: whether the releases are those of a schedule, which each command opens if it is not open.

    Returns:
        The violations, and the history.
    """
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    world = World(seed, root, troubles, blind or Blindness(), restore, scheduled=scheduled)
    with pytest.MonkeyPatch.context() as patch:
        world.calls.install(patch)
        patch.setattr(bundle_place, "render", _render)
        try:
            world.live()
        finally:
            world.files.unregister()
    return world.wrong, world.host.events
