"""The rollback journal of a SQLite file: whether a crash left it, and whether it belongs to the file.

SQLite plays back the journal of a crash into whatever file has the ledger's name, even into a backup that was copied
over the ledger. Page 1 of the file counts the commits, and the journal holds a copy of page 1. The journal belongs to
the file if both counts are equal. It also belongs to the file if the file's count is larger by one: then the incomplete
transaction has written page 1 already.
"""

from __future__ import annotations

import fcntl
import os
import struct
from functools import cache
from pathlib import Path

from dpbayes_cli.ledger.ledger_file import retry_while_locked

_MAGIC = bytes.fromhex("d9d505f920a163d7")
_HEADER = struct.Struct(">8sIIIII")
_COUNTER, _PAGES = slice(24, 28), slice(28, 32)
"""The bytes of page 1 that hold the number of commits and the number of pages."""
_RESERVED = 0x40000001
"""The byte of the file that a running writer keeps locked while its journal exists."""
_FIRST_LOCK, _LOCKS = 0x40000000, 512
_LARGEST_SECTOR, _LARGEST_PAGE = 1 << 16, 1 << 16


def journal_of(path: Path) -> Path:
    """Return the path of a file's journal."""
    real = Path(os.path.realpath(path))
    return real.with_name(f"{real.name}-journal")


def has_crash_journal(path: Path) -> bool:
    """Return whether a journal exists that no running writer uses, so that SQLite would play it back."""
    journal = journal_of(path)
    before = _identity(journal)
    if before is None:
        return False
    query = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, _RESERVED, 1, 0)
    reply = fcntl.fcntl(_descriptor(path), fcntl.F_OFD_GETLK, query)
    return struct.unpack("hhqqi", reply)[0] == fcntl.F_UNLCK and _identity(journal) == before


def journal_belongs(path: Path) -> bool:
    """Return whether the journal beside a file was written for it; raise ``OSError`` if one of them cannot be read."""
    file = _descriptor(path)
    with journal_of(path).open("rb") as journal:
        first = _header(journal.read(_HEADER.size))
        if first is None:
            return True  # not a journal: SQLite removes the file
        kept = _kept_counter(journal.fileno(), os.fstat(journal.fileno()).st_size)
        head = os.pread(file, 100, 0)
        if kept is None:  # not written by a ledger, whose journals begin with page 1: compare the numbers of pages
            return int.from_bytes(head[_PAGES], "big") == first[1]
        counted = int.from_bytes(head[_COUNTER], "big")
        return counted in (kept, (kept + 1) % (1 << 32))


def lock_exclusively(path: Path, patience: float) -> int:
    """Lock a file against all SQLite readers and writers; return the descriptor, which holds the lock until closed.

    Raises:
        BlockingIOError: other processes hold the file for more than ``patience`` seconds.
        OSError: the file cannot be opened or locked.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)  # stays open: closing it would release locks of other threads
    lock = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, _FIRST_LOCK, _LOCKS, 0)
    retry_while_locked(lambda: fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, lock), patience)
    return descriptor


@cache
def _open(path: Path, _identity: tuple[int, int] | None) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _descriptor(path: Path) -> int:
    """Return a descriptor that stays open: closing any descriptor of a file would release all locks of the process."""
    return _open(path, _identity(path))


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a file; None if the file is missing or empty."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if status.st_size else None


def _header(content: bytes) -> tuple[int, int, int, int] | None:
    """Return the numbers of records and of pages, and the sizes of sectors and of pages; None if it is no header."""
    if len(content) < _HEADER.size:
        return None
    magic, records, _, pages, sector, page = _HEADER.unpack(content)
    if magic != _MAGIC or not 32 <= sector <= _LARGEST_SECTOR or not 512 <= page <= _LARGEST_PAGE:
        return None
    return records, pages, sector, page


def _kept_counter(descriptor: int, size: int) -> int | None:
    """Return the number of commits in the journal's copy of page 1; None if the journal has no such copy."""
    start = 0
    while (header := _header(os.pread(descriptor, _HEADER.size, start))) is not None:
        records, _, sector, page = header
        record = 4 + page + 4
        present = max(0, (size - start - sector) // record)
        records = present if records in (0, 0xFFFFFFFF) else min(records, present)
        for number in range(records):
            at = start + sector + number * record
            if os.pread(descriptor, 4, at) == b"\0\0\0\1":
                return int.from_bytes(os.pread(descriptor, 100, at + 4)[_COUNTER], "big")
        start = -(-(start + sector + records * record) // sector) * sector
    return None
