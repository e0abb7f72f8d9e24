"""Processes that run one at a time: a seed decides which runs, which is killed, and when the power is cut.

A process is a thread. Before every call by which processes can notice each other it takes a turn, and another process
may run first. A dead process is unwound at once: its further calls have no effect.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from dpbayes_cli.base.errors import DpbayesError

FIRST_PID = 10_000_000
"""Above the ID of any real process."""
MAX_EVENTS = 30_000
"""After this many events, processes are assumed to wait for each other forever; a seed has about a thousand."""


class Killed(BaseException):
    """Unwinds a process that was killed."""


def _closed() -> Any:
    """Return a gate that one ``release`` lets one ``acquire`` through."""
    gate = threading.Lock()
    gate.acquire()
    return gate


@dataclass(eq=False)
class Process:
    """A running command.

    Attributes:
        name: its name in the history.
        view: the path by which it opens the ledger.
        work: the function that it runs.
        namespace: its PID namespace.
        pid: its ID in the namespace.
        fatal: the turn at which it is killed; 0: never.
        dead: whether it was killed.
        code: its exit status; None while it runs, or if it was killed.
        trace: the traceback of an internal error.
        turns: the number of turns that it has taken.
        waits: whether it waits for another process.
        go: the gate at which it waits for its turn.
    """

    name: str
    view: str
    work: Callable[[], object]
    namespace: int = 0
    pid: int = 0
    fatal: int = 0
    dead: bool = False
    code: int | None = None
    trace: str = ""
    turns: int = 0
    waits: bool = False
    go: Any = field(default_factory=_closed)


class Host:
    """A machine that runs processes."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.events: list[str] = []
        self.outage = 0
        self.turns = 0
        self._here = threading.local()
        self._waiting: list[Process] = []
        self._done = _closed()
        self._numbers: dict[int, int] = {}

    @property
    def process(self) -> Process | None:
        """The process of this thread; None outside the simulation."""
        return getattr(self._here, "process", None)

    @property
    def is_alive(self) -> bool:
        """Whether the process of this thread may still have an effect."""
        return self.process is None or not self.process.dead

    def runs(self, pid: int, namespace: int) -> bool:
        """Return whether a process ID is that of a live process in a namespace."""
        return any(each.pid == pid and each.namespace == namespace and not each.dead for each in self._waiting)

    def run(self, processes: list[Process], outage: int = 0) -> bool:
        """Run processes to their end, with a power cut at a turn; return whether the cut happened."""
        self.turns, self.outage = 0, outage
        self._waiting = list(processes)
        for process in processes:
            number = self._numbers.get(process.namespace, FIRST_PID + 5 * process.namespace) + 1
            self._numbers[process.namespace] = process.pid = number
        threads = [threading.Thread(target=self._live, args=(each,), daemon=True) for each in processes]
        for thread in threads:
            thread.start()
        self._waiting[0].go.release()
        self._done.acquire()
        for thread in threads:
            thread.join()
        return bool(outage) and self.turns >= outage

    def turn(self, call: str, *, changes: bool = True, yielding: bool = False) -> bool:
        """Let other processes run before a call; return whether the calling process is still alive.

        Args:
            call: the call's name in the history.
            changes: whether the call changes persistent state; if not, a kill before it tests nothing new.
            yielding: whether the process must wait for another one.
        """
        process = self.process
        if process is None:
            return True
        if process.dead:
            return False
        self.turns += changes
        process.turns += changes
        self.events.append(f"{process.name}: {call}")
        if changes and self.turns == self.outage:
            self.events.append("-- the power goes")
            for each in self._waiting:
                each.dead = True
        elif changes and process.turns == process.fatal:
            self.events.append(f"-- {process.name} is killed")
            process.dead = True
        elif len(self.events) > MAX_EVENTS:
            raise AssertionError("no process makes progress")
        elif yielding or self.rng.random() < 0.2:
            process.waits = yielding
            free = [each for each in self._waiting if not each.waits] if yielding else []
            following = self.rng.choice(free or self._waiting)
            if following is not process:
                following.go.release()
                process.go.acquire()
            process.waits = False
        return not process.dead

    def _live(self, process: Process) -> None:
        process.go.acquire()
        self._here.process = process
        try:
            if not process.dead:
                process.work()
            process.code = 0
        except Killed:
            pass
        except DpbayesError as error:
            process.code = error.exit_code
            self.events.append(f"-- {process.name} says: {error.message}")
        except BaseException:  # noqa: BLE001 - what a user would see as an internal error
            process.code, process.trace = 1, traceback.format_exc()
        if process.dead:
            process.code = None
        else:
            self.events.append(f"-- {process.name} ends with {process.code}")
        self._waiting.remove(process)
        (self.rng.choice(self._waiting).go if self._waiting else self._done).release()
