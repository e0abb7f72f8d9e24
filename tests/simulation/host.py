"""Processes that take turns: one at a time, and a seed decides who goes on, who is killed, and when the power goes.

A process is a thread. Before every call by which processes can notice each other it takes a turn, which may be handed
to another. A process that is dead is unwound at once: whatever it still calls has no effect.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from dpbayes_cli.base.errors import DpbayesError

NOBODY = 10_000_000
"""More than the number of any real process."""
MANY = 30_000
"""Events after which processes are taken to wait for each other for ever; a seed has about a thousand."""


class Killed(BaseException):
    """Unwinds a process that was killed."""


def _closed() -> Any:
    """Return a gate that one ``release`` lets one ``acquire`` through."""
    gate = threading.Lock()
    gate.acquire()
    return gate


@dataclass(eq=False)
class Process:
    """A command that runs.

    Attributes:
        name: how the history calls it.
        view: the name by which it knows the ledger.
        work: what it does.
        namespace: in which its number is known.
        pid: its number there.
        fatal: the turn at which it is killed, 0: at none.
        dead: whether it was killed.
        code: its exit status; None while it runs, and where it was killed.
        trace: what an internal error says.
        turns: how many it has taken.
        waits: whether it cannot go on before another process does.
        go: the gate behind which it waits for its turn.
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
    """A machine with processes on it."""

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
        """The process whose thread this is; None outside of the simulation."""
        return getattr(self._here, "process", None)

    @property
    def is_alive(self) -> bool:
        """Whether the process whose thread this is may still have an effect."""
        return self.process is None or not self.process.dead

    def runs(self, pid: int, namespace: int) -> bool:
        """Return whether a number is that of a live process, as seen from a namespace."""
        return any(each.pid == pid and each.namespace == namespace and not each.dead for each in self._waiting)

    def run(self, processes: list[Process], outage: int = 0) -> bool:
        """Run processes to their end, with a loss of power at a turn; return whether it came."""
        self.turns, self.outage = 0, outage
        self._waiting = list(processes)
        for process in processes:
            number = self._numbers.get(process.namespace, NOBODY + 5 * process.namespace) + 1
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
        """Let others go before a call; return whether its process is still alive, without which it has no effect.

        Args:
            call: what the history calls it.
            changes: whether it changes anything that stays; where it does not, to be killed before it is nothing new.
            yielding: whether the process cannot go on before another one does.
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
        elif len(self.events) > MANY:
            raise AssertionError("no process gets on")
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
