"""The anchor: a text file, best on another file system, that gets a line with the ledger's head after every change.

The head is the sequence number and hash of the last entry. No line is ever rewritten, so the file may have the
append-only attribute of its file system. A line that a power cut left incomplete stays in the file, and readers skip
it.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dpbayes_cli.base.atomic_file import sync
from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger.chain import Mark
from dpbayes_cli.ledger.ledger_file import retry_while_locked

_LOCK_TIMEOUT_SECONDS = 120.0
_TAIL_BYTES = 4096
"""The number of bytes at the end of the file that are read first: about fifty lines."""
_MARK = re.compile(r"(0|[1-9][0-9]{0,17}) ([0-9a-f]{64})", re.ASCII)
_TORN = re.compile(r"[0-9]{0,18}( [0-9a-f]{0,63})?|\0+[0-9a-f ]{0,83}", re.ASCII)
"""A line that a power cut left incomplete: only its beginning or, if it spans two sectors, only its end."""


@dataclass(frozen=True)
class Anchor:
    """An open anchor; only a process that has locked the file appends to it."""

    path: Path
    descriptor: int

    @property
    def last(self) -> Mark | None:
        """The mark in the last complete line; None if no line is complete."""
        try:
            size = os.fstat(self.descriptor).st_size
            for start in sorted({max(0, size - _TAIL_BYTES), 0}, reverse=True):
                marks = self._parse(os.pread(self.descriptor, size - start, start), whole=start == 0)
                if marks:
                    return marks[-1]
        except OSError as error:
            raise _unusable(self.path, error.strerror) from None
        return None

    def ends_with(self, mark: Mark) -> bool:
        """Return whether the file ends with the whole line of a mark."""
        line = _line(mark)
        try:
            start = os.fstat(self.descriptor).st_size - len(line)
            return start >= 0 and os.pread(self.descriptor, len(line), start) == line
        except OSError as error:
            raise _unusable(self.path, error.strerror) from None

    def _parse(self, content: bytes, *, whole: bool) -> list[Mark]:
        """Return the marks in a part of the file, which may begin within a line unless it is the ``whole`` file."""
        marks = []
        for line in content.decode("latin-1").split("\n")[0 if whole else 1 :]:
            text = line.strip("\0")  # a power cut may leave zeros in the place of a line
            if match := _MARK.fullmatch(text):
                marks.append(Mark(int(match[1]), match[2]))
            elif not (_TORN.fullmatch(text) or _TORN.fullmatch(line.rstrip("\0"))):
                raise LedgerError(
                    f"{str(self.path)!r} is not an anchor, or it is damaged",
                    hint="look at it; if it cannot be repaired, move it away and start a new one: "
                    "dpbayes budget adopt --reason TEXT",
                )
        return marks

    def append(self, mark: Mark) -> None:
        """Append a line with a mark, unless the last line holds this mark already; wait until the line is on disk.

        Raises:
            LedgerError: the file cannot be written.
        """
        if self.last == mark:
            return
        line = _line(mark)
        try:
            size = os.fstat(self.descriptor).st_size
            if size and os.pread(self.descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line  # end the incomplete line
            written = os.write(self.descriptor, line)
            os.fsync(self.descriptor)
        except OSError as error:
            raise _unusable(self.path, error.strerror) from None
        if written < len(line):
            raise _unusable(self.path, "its file system is full")


def read_last(path: Path) -> Mark | None:
    """Return the mark in the last complete line of an anchor, without locking the file; None if no line is complete.

    Raises:
        FileNotFoundError: there is no such file.
        LedgerError: the file cannot be read, or is not an anchor.
    """
    descriptor = _open(path, os.O_RDONLY)
    try:
        return Anchor(path, descriptor).last
    finally:
        os.close(descriptor)


@contextmanager
def lock_anchor(path: Path, taken: set[tuple[int, int]], begin: Mark | None = None) -> Iterator[Anchor | None]:
    """Open and lock an anchor; yield None if this transaction has locked the file already.

    Args:
        taken: the device and inode of each file that this transaction has locked; this file is added.
        begin: the first line of the file if it has to be created; None: the file must exist.

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
        try:
            retry_while_locked(lambda: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB), _LOCK_TIMEOUT_SECONDS)
        except BlockingIOError:
            raise _unusable(path, "another process holds its lock") from None
        except OSError as error:
            raise _unusable(path, error.strerror) from None
        taken.add(identity)
        anchor = Anchor(path, descriptor)
        if begin is not None and anchor.last is None:
            anchor.append(begin)
        if created:
            try:
                sync(path.parent)
            except OSError as error:
                raise _unusable(path.parent, error.strerror) from None
        yield anchor
    finally:
        os.close(descriptor)


def _line(mark: Mark) -> bytes:
    return f"{mark.sequence} {mark.hash}\n".encode("ascii")


def _open(path: Path, flags: int) -> int:
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, 0o600)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(str(path)) from None
    except (OSError, ValueError) as error:
        raise _unusable(path, getattr(error, "strerror", None) or "its path is not valid") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _unusable(path, "it is not a regular file")
    return descriptor


def _unusable(path: Path, reason: str | None) -> LedgerError:
    return LedgerError(
        f"the anchor {str(path)!r} cannot be used: {reason}",
        hint="check that its file system is mounted, writable and not full, then give the same command again: it "
        "continues where this one stopped",
    )
