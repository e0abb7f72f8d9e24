"""System calls as a simulated process sees them; every other thread has the real ones."""

from __future__ import annotations

import builtins
import ctypes
import errno
import fcntl
import io
import os
import pwd
import re
import secrets
import socket
import sqlite3
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.simulation.disk import Disk
from tests.simulation.host import Host, Killed
from tests.simulation.sqlite_files import Connection

TABLE = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
_CHANGES = ("link", "unlink", "remove", "rename", "replace", "rmdir", "symlink", "ftruncate", "truncate", "fchmod",
            "chmod", "utime", "write", "pwrite")  # fmt: skip


@dataclass
class Blindness:
    """Planted bugs that blind the code by the system calls that it uses.

    Attributes:
        links: whether second names of a file are hidden.
        locks: whether ``flock`` locks nothing.
        syncs: a part of the paths of directories that are not synced.
        synchronous: the value of SQLite's ``synchronous`` instead of the code's.
    """

    links: bool = False
    locks: bool = False
    syncs: str = ""
    synchronous: str = ""


@dataclass
class Calls:
    """Replaces system calls while it is installed.

    Attributes:
        host: the machine with the processes.
        disk: the simulated disk.
        blind: the planted bugs.
        mounts: the paths at which the ledger's file is mounted as a single file, by view.
    """

    host: Host
    disk: Disk
    blind: Blindness = field(default_factory=Blindness)
    mounts: dict[str, Path] = field(default_factory=dict)

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for name in _CHANGES:
            self._replace(patch, os, name, self._turning)
        self._replace(patch, os, "listdir", lambda real: lambda *a: sorted(real(*a)))
        self._replace(patch, os, "scandir", self._listing)
        for name in ("open", "mkdir"):
            self._replace(patch, os, name, self._making)
        for name in ("fsync", "fdatasync"):
            self._replace(patch, os, name, self._syncing)
        for name in ("stat", "lstat", "fstat"):
            self._replace(patch, os, name, self._telling)
        self._replace(patch, os, "getpid", lambda _: lambda: self._process.pid)
        self._replace(patch, os, "kill", lambda _: self._kill)
        for name in ("flock", "lockf"):
            self._replace(patch, fcntl, name, self._locking)
        self._replace(patch, socket, "gethostname", lambda _: lambda: "host")
        self._replace(patch, pwd, "getpwuid", lambda _: lambda _: SimpleNamespace(pw_name="custodian"))
        self._replace(patch, secrets, "token_hex", lambda _: lambda n: self.host.rng.randbytes(n).hex())
        self._replace(patch, time, "sleep", lambda _: lambda _: self._turn("sleep", changes=False, yielding=True))
        self._replace(patch, sqlite3, "connect", lambda _: self._connect)
        self._replace(patch, ctypes, "CDLL", lambda real: lambda *a, **k: _Library(self, real(*a, **k)))
        self._replace(patch, io, "open", self._opening)
        self._replace(patch, builtins, "open", self._opening)

    @property
    def _process(self) -> Any:
        return self.host.process

    def _replace(
        self, patch: pytest.MonkeyPatch, owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> None:
        """Replace a function for the threads of simulated processes."""
        real = getattr(owner, name)
        simulated = make(real)

        def call(*arguments: Any, **named: Any) -> Any:
            return (real if self.host.process is None else simulated)(*arguments, **named)

        patch.setattr(owner, name, call)

    def _turn(self, call: str, *, changes: bool = True, yielding: bool = False) -> None:
        if not self.host.turn(call, changes=changes, yielding=yielding):
            raise Killed

    @staticmethod
    def _listing(real: Callable[..., Any]) -> Callable[..., Any]:
        """List a directory in an order that is the same on every file system."""

        def call(*arguments: Any) -> Any:
            with real(*arguments) as entries:
                return nullcontext(sorted(entries, key=lambda entry: str(entry.name)))

        return call

    def _turning(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self._turn(f"{real.__name__} {' '.join(map(_text, arguments[:2]))}"[:200])
            return real(*arguments, **named)

        return call

    def _making(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *arguments: Any, dir_fd: int | None = None) -> Any:
            if real.__name__ == "open" and not arguments[0] & (os.O_CREAT | os.O_TRUNC):
                return real(path, *arguments, dir_fd=dir_fd)
            self._turn(f"{real.__name__} {path}")
            new = real.__name__ == "mkdir" or not os.path.lexists(path)
            descriptor = real(path, *arguments, dir_fd=dir_fd)
            if new:
                self.disk.created(path)
            return descriptor

        return call

    def _opening(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
            if str(file) == "/proc/self/mountinfo":
                return io.StringIO(self._table())
            if str(file) == "/proc/sys/kernel/random/boot_id":
                return io.StringIO("one boot\n")
            writes = not isinstance(file, int) and not set(mode).isdisjoint("wxa+")
            if writes:
                self._turn(f"open for {mode} {file}")
            new = writes and not os.path.lexists(file)
            opened = real(file, mode, *arguments, **named)
            if new:
                self.disk.created(file)
            return opened

        return call

    def _table(self) -> str:
        mounted = None if self.blind.links else self.mounts.get(self._process.view)
        return TABLE + (f"2 1 8:1 /ledger.sqlite {mounted} rw - ext4 /dev/sda1 rw\n" if mounted else "")

    def _syncing(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(descriptor: Any) -> None:
            number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
            path = _text(number)
            self._turn(f"{real.__name__} {path}")
            if not (self.blind.syncs and self.blind.syncs in path and Path(path).is_dir()):
                self.disk.sync(number)

        return call

    def _telling(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Tell whether a process of this namespace runs, and how many names a file has in the view of a process."""

        def call(path: Any, *arguments: Any, **named: Any) -> Any:
            number = re.fullmatch(r"/proc/(\d+)(/.*)?", str(path))
            if number and not self.host.runs(int(number[1]), self._process.namespace):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            status = real("/proc/self" if number else path, *arguments, **named)
            hidden = sum(each.st_ino == status.st_ino for each in map(_status, self.mounts.values()) if each)
            if status.st_nlink > 1 and (hidden or self.blind.links):
                names = 1 if self.blind.links else status.st_nlink - hidden
                return os.stat_result((*status[:3], names, *status[4:]))
            return status

        return call

    def _kill(self, pid: int, _: int) -> None:
        if not self.host.runs(pid, self._process.namespace):
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))

    def _locking(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(descriptor: Any, operation: int, *arguments: Any) -> None:
            self._turn(f"{real.__name__} {operation} of {_text(descriptor)}")
            while not self.blind.locks:
                try:
                    real(descriptor, operation | fcntl.LOCK_NB, *arguments)
                    return
                except BlockingIOError:
                    if operation & fcntl.LOCK_NB:
                        raise
                self._turn("wait for a lock", changes=False, yielding=True)

        return call

    def _connect(self, path: str | Path, **_: Any) -> Connection:
        self._turn(f"connect {path}", changes=False)
        return Connection(self.host, path, synchronous=self.blind.synchronous)


class _Library:
    """A library of C whose renaming takes turns."""

    def __init__(self, calls: Calls, library: Any) -> None:
        self._calls, self._library = calls, library

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._library, name)

        def call(*arguments: Any) -> Any:
            self._calls._turn(f"{name} {' '.join(map(_text, arguments))}")
            return function(*arguments)

        return call


def _text(argument: Any) -> str:
    """Return an argument as the history prints it: a descriptor by its path, which is the same in every run."""
    if isinstance(argument, int) and argument > 2:
        with suppress(OSError):
            return str(Path(f"/proc/self/fd/{argument}").readlink())
    return argument.decode() if isinstance(argument, bytes) and len(argument) < 200 else str(argument)[:200]


_real_stat = os.stat


def _status(path: Path) -> os.stat_result | None:
    try:
        return _real_stat(path)
    except OSError:
        return None
