"""The rollback journal beside a SQLite file: whether a crash left it, and whether it belongs to the file.

SQLite plays a leftover journal back into whatever file has its name: after a backup was copied into the ledger's place,
into the backup. Page 1 of a file counts its commits. A journal belongs to a file whose count is the one that the
journal keeps, or the next one, which the transaction that was cut off may have written already.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from functools import cache
from pathlib import Path

_MAGIC = bytes.fromhex("d9d505f920a163d7")
_HEADER = struct.Struct(">8sIIIII")
_COUNTER, _PAGES = slice(24, 28), slice(28, 32)
"""Where page 1 keeps the number of commits, and that of pages."""
_RESERVED = 0x40000001
"""The byte of the file that a writer holds locked for as long as its journal is alive."""
_FIRST_LOCK, _LOCKS = 0x40000000, 512
_PAUSE = 0.05
_LARGEST_SECTOR, _LARGEST_PAGE = 1 << 16, 1 << 16


def journal_of(path: Path) -> Path:
    """Return where SQLite keeps the journal of a file."""
    real = Path(os.path.realpath(path))
    return real.with_name(f"{real.name}-journal")


def has_crash_journal(path: Path) -> bool:
    """Return whether there is a journal that SQLite would play back, and no writer that is alive has it.

    Raises:
        OSError: the file cannot be opened.
    """
    journal = journal_of(path)
    before = _identity(journal)
    if before is None:
        return False
    asked = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, _RESERVED, 1, 0)
    answer = fcntl.fcntl(_descriptor(path), fcntl.F_OFD_GETLK, asked)
    return struct.unpack("hhqqi", answer)[0] == fcntl.F_UNLCK and _identity(journal) == before


def journal_belongs(path: Path) -> bool:
    """Return whether the journal of a file is of a transaction on the file as it is now.

    Raises:
        OSError: one of them cannot be opened or read.
    """
    file = _descriptor(path)
    with journal_of(path).open("rb") as journal:
        first = _header(journal.read(_HEADER.size))
        if first is None:
            return True  # SQLite removes what is no journal
        kept = _kept_counter(journal.fileno(), os.fstat(journal.fileno()).st_size)
        head = os.pread(file, 100, 0)
        if kept is None:  # no ledger's, whose transactions begin with page 1; which thus tells the size before
            return int.from_bytes(head[_PAGES], "big") == first[1]
        counted = int.from_bytes(head[_COUNTER], "big")
        return counted in (kept, (kept + 1) % (1 << 32))


def lock_exclusively(path: Path, patience: float) -> int:
    """Lock a file against every reader and writer of SQLite; return the descriptor that holds the lock until closed.

    Args:
        path: the file.
        patience: seconds to wait for those who are at work with it.

    Raises:
        BlockingIOError: they are at work for longer.
        OSError: it cannot be opened or locked.
    """
    deadline = time.monotonic() + patience
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    lock = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, _FIRST_LOCK, _LOCKS, 0)
    while True:
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, lock)
            return descriptor
        except BlockingIOError:  # not closed: that would give up the locks of other threads
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)


@cache
def _open(path: Path, _identity: tuple[int, int] | None) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _descriptor(path: Path) -> int:
    """Return a descriptor of a database that is never closed: closing one gives up the locks of this whole process."""
    return _open(path, _identity(path))


def _identity(path: Path) -> tuple[int, int] | None:
    """Return which file this is, if it is not empty."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if status.st_size else None


def _header(content: bytes) -> tuple[int, int, int, int] | None:
    """Return number of records, pages of the file before, sector size and page size; None of what is no header."""
    if len(content) < _HEADER.size:
        return None
    magic, records, _, pages, sector, page = _HEADER.unpack(content)
    if magic != _MAGIC or not 32 <= sector <= _LARGEST_SECTOR or not 512 <= page <= _LARGEST_PAGE:
        return None
    return records, pages, sector, page


def _kept_counter(descriptor: int, size: int) -> int | None:
    """Return the number of commits on page 1 as a journal keeps it; None if it does not keep page 1."""
    start = 0
    while (header := _header(os.pread(descriptor, _HEADER.size, start))) is not None:
        records, _, sector, page = header
        record = 4 + page + 4
        there = max(0, (size - start - sector) // record)
        records = there if records in (0, 0xFFFFFFFF) else min(records, there)
        for number in range(records):
            at = start + sector + number * record
            if os.pread(descriptor, 4, at) == b"\0\0\0\1":
                return int.from_bytes(os.pread(descriptor, 100, at + 4)[_COUNTER], "big")
        start = -(-(start + sector + records * record) // sector) * sector
    return None
