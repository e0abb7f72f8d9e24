"""The anchor: a text file on another file system to which the head of the ledger is appended after every change.

One line an entry that was the head: its sequence and its hash. Nothing is ever rewritten, so that the file may carry
the append-only attribute of its file system; a line that a power cut tore stays, and is not read.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dpbayes_cli.base.atomic_file import sync
from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger.chain import Mark

_PATIENCE = 120.0
_PAUSE = 0.02
_TAIL = 4096
"""Bytes that are read from the end; some fifty lines."""
_MARK = re.compile(r"(0|[1-9][0-9]{0,17}) ([0-9a-f]{64})", re.ASCII)
_TORN = re.compile(r"[0-9]{0,18}( [0-9a-f]{0,63})?|\0+[0-9a-f ]{0,83}", re.ASCII)
"""A loss of power may keep the beginning of a line, or, where it crosses into another sector, its end."""


@dataclass(frozen=True)
class Anchor:
    """An anchor that is open, and locked against others who would append."""

    path: Path
    descriptor: int

    @property
    def last(self) -> Mark | None:
        """The last line; None where there is none.

        Raises:
            LedgerError: it cannot be read, or is no anchor.
        """
        return _last(self.path, self.descriptor)

    def append(self, mark: Mark) -> None:
        """Append a line, on disk when this returns; nothing where it is the last one already.

        Raises:
            LedgerError: it cannot be written.
        """
        if self.last == mark:
            return
        line = f"{mark.sequence} {mark.hash}\n".encode("ascii")
        try:
            size = os.fstat(self.descriptor).st_size
            if size and os.pread(self.descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line  # ends what was torn
            written = os.write(self.descriptor, line)
            os.fsync(self.descriptor)
        except OSError as error:
            raise _unwritable(self.path, error.strerror) from None
        if written < len(line):
            raise _unwritable(self.path, "its file system is full")


def read_last(path: Path) -> Mark | None:
    """Return the last line of an anchor without locking it; None where there is none.

    Raises:
        FileNotFoundError: there is no such file.
        LedgerError: it cannot be read, or is no anchor.
    """
    descriptor = _open(path, os.O_RDONLY)
    try:
        return _last(path, descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def lock_anchor(path: Path, taken: set[tuple[int, int]], begin: Mark | None = None) -> Iterator[Anchor | None]:
    """Open an anchor and hold its lock; None where the same file, by whatever name, is held already.

    Args:
        path: the file.
        taken: the identities of the files that are held; this one's is added.
        begin: the first line of a file that does not exist yet; None: it must exist.

    Raises:
        FileNotFoundError: there is no such file.
        LedgerError: it cannot be opened or locked.
    """
    created = begin is not None and not os.path.lexists(path)
    descriptor = _open(path, os.O_RDWR | os.O_APPEND | (os.O_CREAT if begin is not None else 0))
    try:
        status = os.fstat(descriptor)
        identity = (status.st_dev, status.st_ino)
        if identity in taken:
            yield None
            return
        _lock(path, descriptor)
        taken.add(identity)
        anchor = Anchor(path, descriptor)
        if begin is not None and anchor.last is None:
            anchor.append(begin)
        if created:
            _sync(path.parent)
        yield anchor
    finally:
        os.close(descriptor)


def _open(path: Path, flags: int) -> int:
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, 0o600)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(str(path)) from None
    except (OSError, ValueError) as error:
        raise _unwritable(path, getattr(error, "strerror", None) or "it has no valid name") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _unwritable(path, "it is not a regular file")
    return descriptor


def _unwritable(path: Path, reason: str | None) -> LedgerError:
    return LedgerError(
        f"the anchor {str(path)!r} cannot be used: {reason}",
        hint="is its file system mounted, writable and not full? the same command then goes on where this one ended",
    )


def _lock(path: Path, descriptor: int) -> None:
    import fcntl  # not everywhere, and only here

    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise _unwritable(path, "another process holds its lock") from None
            time.sleep(_PAUSE)
        except OSError as error:
            raise _unwritable(path, error.strerror) from None


def _last(path: Path, descriptor: int) -> Mark | None:
    """Return the last whole line, from the end of the file or, where that holds none, from all of it."""
    try:
        size = os.fstat(descriptor).st_size
        for start in sorted({max(0, size - _TAIL), 0}, reverse=True):
            marks = _parsed(path, os.pread(descriptor, size - start, start), whole=start == 0)
            if marks:
                return marks[-1]
    except OSError as error:
        raise _unwritable(path, error.strerror) from None
    return None


def _parsed(path: Path, content: bytes, *, whole: bool) -> list[Mark]:
    """Return the marks in a piece of an anchor; what looks like the beginning of one was torn, and is left out."""
    lines = content.decode("latin-1").split("\n")[0 if whole else 1 :]
    marks = []
    for line in lines:
        text = line.strip("\0")  # what a power cut may leave where a line was to be
        match = _MARK.fullmatch(text)
        if match:
            marks.append(Mark(int(match[1]), match[2]))
        elif not (_TORN.fullmatch(text) or _TORN.fullmatch(line.rstrip("\0"))):
            raise LedgerError(
                f"{str(path)!r} is not an anchor, or it is damaged",
                hint="look at it; if it is beyond repair, move it away and begin a new one: "
                "dpbayes budget adopt --reason TEXT",
            )
    return marks


def _sync(directory: Path) -> None:
    try:
        sync(directory)
    except OSError as error:
        raise _unwritable(directory, error.strerror) from None
