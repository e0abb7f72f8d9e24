"""The anchor: a text file on another file system to which the head of the ledger is appended after every change.

Each line is a former head of the ledger: the sequence and hash of an entry. No line is ever rewritten, so the file may
have the append-only attribute of its file system. A line that a power cut left incomplete stays, and is skipped.
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

_LOCK_TIMEOUT_SECONDS = 120.0
_RETRY_SECONDS = 0.02
_TAIL_BYTES = 4096
"""Read from the end of the file first: about fifty lines."""
_MARK = re.compile(r"(0|[1-9][0-9]{0,17}) ([0-9a-f]{64})", re.ASCII)
_TORN = re.compile(r"[0-9]{0,18}( [0-9a-f]{0,63})?|\0+[0-9a-f ]{0,83}", re.ASCII)
"""A power cut may keep only the beginning of a line or, if the line crosses into another sector, only its end."""


@dataclass(frozen=True)
class Anchor:
    """An open anchor, locked so that no other process appends to it."""

    path: Path
    descriptor: int

    @property
    def last(self) -> Mark | None:
        """The last complete line; None if there is none.

        Raises:
            LedgerError: the file cannot be read, or is not an anchor.
        """
        return _last(self.path, self.descriptor)

    def append(self, mark: Mark) -> None:
        """Append a line, unless it is the last one already; it is on disk when this returns.

        Raises:
            LedgerError: the file cannot be written.
        """
        if self.last == mark:
            return
        line = f"{mark.sequence} {mark.hash}\n".encode("ascii")
        try:
            size = os.fstat(self.descriptor).st_size
            if size and os.pread(self.descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line  # end the incomplete line
            written = os.write(self.descriptor, line)
            os.fsync(self.descriptor)
        except OSError as error:
            raise _unwritable(self.path, error.strerror) from None
        if written < len(line):
            raise _unwritable(self.path, "its file system is full")


def read_last(path: Path) -> Mark | None:
    """Return the last complete line of an anchor without locking it; None if there is none.

    Raises:
        FileNotFoundError: there is no such file.
        LedgerError: the file cannot be read, or is not an anchor.
    """
    descriptor = _open(path, os.O_RDONLY)
    try:
        return _last(path, descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def lock_anchor(path: Path, taken: set[tuple[int, int]], begin: Mark | None = None) -> Iterator[Anchor | None]:
    """Open an anchor and hold its lock; yield None if the same file is locked already, under whatever name.

    Args:
        path: the file.
        taken: the identities (device, inode) of the locked files; this file's is added.
        begin: the first line, with which a missing file is created; None: the file must exist.

    Raises:
        FileNotFoundError: there is no such file.
        LedgerError: the file cannot be opened or locked.
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
        raise _unwritable(path, getattr(error, "strerror", None) or "its name is not valid") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _unwritable(path, "it is not a regular file")
    return descriptor


def _unwritable(path: Path, reason: str | None) -> LedgerError:
    return LedgerError(
        f"the anchor {str(path)!r} cannot be used: {reason}",
        hint="check that its file system is mounted, writable and not full, then give the same command again: it "
        "continues where this one stopped",
    )


def _lock(path: Path, descriptor: int) -> None:
    import fcntl  # only on Unix, and needed only here

    deadline = time.monotonic() + _LOCK_TIMEOUT_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise _unwritable(path, "another process holds its lock") from None
            time.sleep(_RETRY_SECONDS)
        except OSError as error:
            raise _unwritable(path, error.strerror) from None


def _last(path: Path, descriptor: int) -> Mark | None:
    """Return the last complete line, from the end of the file or, if there is none, from the whole file."""
    try:
        size = os.fstat(descriptor).st_size
        for start in sorted({max(0, size - _TAIL_BYTES), 0}, reverse=True):
            marks = _parse_marks(path, os.pread(descriptor, size - start, start), whole=start == 0)
            if marks:
                return marks[-1]
    except OSError as error:
        raise _unwritable(path, error.strerror) from None
    return None


def _parse_marks(path: Path, content: bytes, *, whole: bool) -> list[Mark]:
    """Return the marks in a part of an anchor, without incomplete lines; if not ``whole``, without the first line."""
    lines = content.decode("latin-1").split("\n")[0 if whole else 1 :]
    marks = []
    for line in lines:
        text = line.strip("\0")  # a power cut may leave zeros in the place of a line
        match = _MARK.fullmatch(text)
        if match:
            marks.append(Mark(int(match[1]), match[2]))
        elif not (_TORN.fullmatch(text) or _TORN.fullmatch(line.rstrip("\0"))):
            raise LedgerError(
                f"{str(path)!r} is not an anchor, or it is damaged",
                hint="look at it; if it cannot be repaired, move it away and start a new one: "
                "dpbayes budget adopt --reason TEXT",
            )
    return marks


def _sync(directory: Path) -> None:
    try:
        sync(directory)
    except OSError as error:
        raise _unwritable(directory, error.strerror) from None
