"""The interface of a ledger's storage, and the transactions on its tables, which are the same in every storage."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, LiteralString

from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger.chain import Entry
from dpbayes_cli.ledger.records import terms_of

MAX_PAYLOAD_BYTES = 256 << 20
"""The largest payload that is stored, after compression."""
_MAX_UNPACKED_BYTES = 1 << 30
BEFORE_ALL, _ALL = -(1 << 63), 1 << 62
"""A number below every sequence number in a file, even a damaged one, and a number above every count of entries."""


def _decompressed(stored: object, key: str) -> bytes:
    """Return a payload from its stored form, with a bounded amount of memory even if the stored form is malicious."""
    inflate = zlib.decompressobj()
    with suppress(zlib.error):
        if isinstance(stored, bytes):
            payload = inflate.decompress(stored, _MAX_UNPACKED_BYTES)
            if inflate.eof and not inflate.unused_data:
                return payload
    raise LedgerError(f"the sealed payload of release {key} is damaged")


class Transaction(ABC):
    """A serializable transaction: it sees a fixed state of the ledger, and may append to it.

    Attributes:
        is_indexed: whether the ledger has an index, which finds entries by their terms without reading all entries.
        is_suspect: whether the storage undid an incomplete transaction after a crash, so that everything must be
            verified.
    """

    def __init__(self, *, is_indexed: bool, is_suspect: bool = False) -> None:
        self.is_indexed = is_indexed
        self.is_suspect = is_suspect

    @abstractmethod
    def _execute(self, statement: LiteralString, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Execute a statement with a value for each ``?``, and return its rows."""

    @abstractmethod
    def _execute_for_each(self, statement: LiteralString, rows: Iterable[tuple[object, ...]]) -> None:
        """Execute a statement once for each row of values."""

    @abstractmethod
    def begin_index(self) -> bool:
        """Create an index of the entries, which ``append`` keeps up to date; return False if this is impossible."""

    def _entry(self, row: tuple[Any, ...]) -> Entry:
        return Entry(*row)

    def _entries(self, condition: LiteralString, *values: object) -> list[Entry]:
        rows = self._execute("SELECT sequence, body, hash FROM entries WHERE " + condition, values)  # noqa: S608
        return [self._entry(row) for row in rows]

    def entries(self, after: int = 0) -> list[Entry]:
        """Return the entries after a sequence number, in order; after 0, return all entries."""
        return self._entries("sequence > ? ORDER BY sequence", after or BEFORE_ALL)

    def entry(self, sequence: int) -> Entry | None:
        """Return the entry with a sequence number, or None."""
        return next(iter(self._entries("sequence = ?", sequence)), None)

    def indexed(self) -> list[tuple[str, int]]:
        """Return the whole index, in any order: pairs of a term and the sequence number of an entry."""
        return self._execute("SELECT term, sequence FROM terms")

    def find(self, term: str, last: int | None = None) -> list[Entry]:
        """Return the entries with an index term, in order; see ``terms_of``.

        Args: last: how many of the latest entries to return; None: all.
        """
        limit = _ALL if last is None else last
        if not self.is_indexed:
            matching = [entry for entry in self.entries() if term in terms_of(entry.fields)]
            return matching[max(0, len(matching) - limit) :]
        latest: LiteralString = "SELECT sequence FROM terms WHERE term = ? ORDER BY sequence DESC LIMIT ?"
        return self._entries("sequence IN (" + latest + ") ORDER BY sequence", term, limit)

    def append(self, entry: Entry) -> None:
        """Append one entry."""
        self._execute("INSERT INTO entries VALUES (?, ?, ?)", (entry.sequence, entry.body, entry.hash))
        if self.is_indexed:
            self.add_to_index([entry])

    def add_to_index(self, entries: Iterable[Entry]) -> None:
        """Add entries to the index."""
        rows = [(term, entry.sequence) for entry in entries for term in terms_of(entry.fields)]
        self._execute_for_each("INSERT INTO terms VALUES (?, ?)", rows)

    def put_payload(self, key: str, payload: bytes) -> None:
        """Store a payload, compressed: a sealed draw, a document or the state of a checkpoint."""
        compressed = zlib.compress(payload, 6)
        if len(compressed) > MAX_PAYLOAD_BYTES or len(payload) > _MAX_UNPACKED_BYTES:
            raise LedgerError(f"the payload is larger than {MAX_PAYLOAD_BYTES >> 20} MiB")
        self._execute("INSERT INTO payloads VALUES (?, ?)", (key, compressed))

    def payload(self, key: str) -> bytes | None:
        """Return a payload, or None."""
        rows = self._execute("SELECT payload FROM payloads WHERE release_id = ?", (key,))
        return _decompressed(rows[0][0], key) if rows else None

    def payload_ids(self) -> set[str]:
        """Return the keys of the stored payloads."""
        return {str(key) for (key,) in self._execute("SELECT release_id FROM payloads")}


class Storage(ABC):
    """A place where a ledger lives."""

    @property
    @abstractmethod
    def location(self) -> str:
        """The place of the ledger, as a user names it, without a password."""

    @property
    @abstractmethod
    def exists(self) -> bool:
        """Whether there is a ledger."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[Transaction]:
        """Begin an exclusive transaction, and create the ledger if there is none.

        The transaction is durable when the ``with`` block has ended; it is undone if the block raises.

        Raises:
            LedgerError: the ledger cannot be opened, locked or written.
        """

    @abstractmethod
    def reading(self) -> AbstractContextManager[Transaction]:
        """Begin a read-only transaction.

        Raises:
            LedgerError: the ledger is missing, or cannot be opened.
        """

    @abstractmethod
    def migrate(self) -> tuple[int, Path | None] | None:
        """Migrate an older ledger to this version's schema; a ledger in a file is backed up beside it first.

        Returns:
            The old version, and the path of the backup, if any. None if the ledger did not have to be migrated.

        Raises:
            LedgerError: the ledger is newer, or cannot be migrated; nothing is changed.
        """

    @property
    def directory(self) -> Path | None:
        """The directory of the ledger's file; None if the ledger is on a server."""
        return None

    def settle(self) -> bool:
        """Undo an incomplete transaction after a crash; return whether there was one."""
        return False

    def damage(self) -> list[str]:
        """Return the defects that the storage's integrity check finds, one sentence each."""
        return []

    def require(self) -> None:
        """Raise ``LedgerError`` if there is no ledger."""
        if not self.exists:
            raise self._missing()

    def _missing(self) -> LedgerError:
        return LedgerError(
            f"there is no ledger at {self.location!r}",
            hint="if it is elsewhere: --ledger FILE; if it was deleted: dpbayes budget restore BACKUP --reason TEXT; "
            "if there never was one: dpbayes budget open ACCOUNT --epsilon TOTAL",
        )
