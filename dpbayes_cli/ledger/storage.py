"""The small interface behind which a ledger is stored."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger.chain import Entry
from dpbayes_cli.ledger.records import terms_of
from dpbayes_cli.ledger.replacement import Replacement

LARGEST_PAYLOAD = 256 << 20
"""Bytes of a payload as it is stored."""
_LARGEST_UNPACKED = 1 << 30


def compress_payload(payload: bytes) -> bytes:
    """Return a payload as it is stored.

    Raises:
        LedgerError: it is too large.
    """
    compressed = zlib.compress(payload, 6)
    if len(compressed) > LARGEST_PAYLOAD or len(payload) > _LARGEST_UNPACKED:
        raise LedgerError(f"the payload is larger than {LARGEST_PAYLOAD >> 20} MiB")
    return compressed


def decompress_payload(stored: object, release_id: str) -> bytes:
    """Return a payload from what is stored, within fixed memory whatever that is.

    Raises:
        LedgerError: it is none.
    """
    inflate = zlib.decompressobj()
    try:
        if isinstance(stored, bytes):
            payload = inflate.decompress(stored, _LARGEST_UNPACKED)
            if inflate.eof and not inflate.unused_data:
                return payload
    except zlib.error:
        pass
    raise LedgerError(f"the sealed payload of release {release_id} is damaged")


class Transaction(ABC):
    """One serializable transaction: sees a fixed ledger, and appends to it or leaves it alone."""

    @property
    def is_suspect(self) -> bool:
        """Whether the storage had to undo a transaction that a crash cut off, so that nothing is taken on trust."""
        return False

    @abstractmethod
    def entries(self, after: int = 0) -> list[Entry]:
        """Return the entries after a number in the order of their sequence."""

    @abstractmethod
    def entry(self, sequence: int) -> Entry | None:
        """Return the entry of a number, or None."""

    @property
    @abstractmethod
    def is_indexed(self) -> bool:
        """Whether entries are found by their terms without a walk through all of them."""

    @abstractmethod
    def begin_index(self) -> bool:
        """Index the entries that are there, and from now on every new one; return whether the storage allows it."""

    @abstractmethod
    def indexed(self) -> list[tuple[str, int]]:
        """Return the whole index, in order: terms and the numbers of entries that have them."""

    def find(self, term: str, last: int | None = None) -> list[Entry]:
        """Return the entries that have a term, in the order of their sequence; see ``terms_of``.

        Args:
            term: what to look for.
            last: only so many, the youngest.
        """
        found = [entry for entry in self.entries() if term in terms_of(entry.fields)]
        return found if last is None else found[len(found) - min(last, len(found)) :]

    @abstractmethod
    def append(self, entry: Entry) -> None:
        """Append one entry."""

    @abstractmethod
    def put_payload(self, key: str, payload: bytes) -> None:
        """Store a payload, compressed: a sealed draw, a document, the state of a checkpoint."""

    @abstractmethod
    def payload(self, key: str) -> bytes | None:
        """Return a payload, or None."""

    @abstractmethod
    def payload_ids(self) -> list[str]:
        """Return the names of the stored payloads."""


class Storage(ABC):
    """A place where a ledger lives."""

    @property
    @abstractmethod
    def location(self) -> str:
        """The place, as a user would name it."""

    @property
    @abstractmethod
    def exists(self) -> bool:
        """Whether there is a ledger."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[Transaction]:
        """Begin a transaction that excludes all others; durable when the block ends, undone where it raises.

        Creates the ledger where there is none.

        Raises:
            LedgerError: it cannot be opened, locked or written.
        """

    @abstractmethod
    def reading(self) -> AbstractContextManager[Transaction]:
        """Begin a transaction that changes nothing.

        Raises:
            LedgerError: it cannot be opened.
        """

    @property
    def directory(self) -> Path | None:
        """The directory that its file is in; None where it is no file of this host."""
        return None

    def settle(self) -> bool:
        """Undo what a crash left half done; return whether there was anything.

        Raises:
            LedgerError: it cannot be opened, locked or written.
        """
        return False

    def damage(self) -> list[str]:
        """Return what the storage itself finds wrong with what it keeps, one sentence each."""
        return []

    def copy_to(self, target: Path) -> None:
        """Write a consistent copy into an empty file.

        Raises:
            LedgerError: it is kept by a server, or cannot be read.
        """
        raise self._kept_by_a_server()

    def salvage(self) -> tuple[list[Entry], list[str]]:
        """Return every entry that can still be read, verified or not, and what cannot be, one sentence each.

        Raises:
            LedgerError: it is kept by a server, or nothing can be read.
        """
        raise self._kept_by_a_server()

    def salvage_payload(self, release_id: str) -> bytes | None:
        """Return a sealed payload that can still be read, or None."""
        raise self._kept_by_a_server()

    def replacing(self, suffix: str, is_done: Callable[[], bool]) -> AbstractContextManager[Replacement | None]:
        """Hold the ledger against all others while a file is made that takes its place.

        Args:
            suffix: what is added to the names of the files that were there, which are kept.
            is_done: asked where an earlier replacement was cut off: whether all but its end had been done.

        Raises:
            LedgerError: it is kept by a server, or a file cannot be written.
        """
        raise self._kept_by_a_server()

    def migrate(self) -> tuple[int, Path | None] | None:
        """Bring an older ledger to this version's schema, after a backup beside a file.

        Returns:
            The version that it had, and the backup of a file; None if it is of this version already.

        Raises:
            LedgerError: it is newer, kept by a server, or cannot be migrated; nothing is changed.
        """
        raise self._kept_by_a_server()

    def _kept_by_a_server(self) -> LedgerError:
        return LedgerError(
            f"the ledger {self.location!r} is kept by a database server, which has tools of its own for this",
            hint="with PostgreSQL: pg_dump and pg_restore; then dpbayes budget verify",
        )
