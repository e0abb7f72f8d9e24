"""The small interface behind which a ledger is stored."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path

from dpbayes_cli.errors import LedgerError
from dpbayes_cli.ledger.chain import Entry

LARGEST_PAYLOAD = 256 << 20
"""Bytes of a payload as it is stored."""
_LARGEST_UNPACKED = 1 << 30


def packed(payload: bytes) -> bytes:
    """Return a payload as it is stored.

    Raises:
        LedgerError: it is too large.
    """
    compressed = zlib.compress(payload, 6)
    if len(compressed) > LARGEST_PAYLOAD or len(payload) > _LARGEST_UNPACKED:
        raise LedgerError(f"the payload is larger than {LARGEST_PAYLOAD >> 20} MiB")
    return compressed


def unpacked(stored: object, release_id: str) -> bytes:
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

    @abstractmethod
    def entries(self) -> list[Entry]:
        """Return all entries in the order of their sequence."""

    @abstractmethod
    def append(self, entry: Entry) -> None:
        """Append one entry."""

    @abstractmethod
    def put_payload(self, release_id: str, payload: bytes) -> None:
        """Store the sealed payload of a release, compressed."""

    @abstractmethod
    def payload(self, release_id: str) -> bytes | None:
        """Return a sealed payload, or None."""

    @abstractmethod
    def payload_ids(self) -> list[str]:
        """Return the releases that have a stored payload."""


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

    def migrate(self) -> tuple[int, Path] | None:
        """Bring an older ledger to this version's schema, after a backup beside it.

        Returns:
            The version that it had, and the backup; None where it is of this version already.

        Raises:
            LedgerError: it is newer, kept by a server, or cannot be migrated; nothing is changed.
        """
        raise self._kept_by_a_server()

    def _kept_by_a_server(self) -> LedgerError:
        return LedgerError(
            f"the ledger {self.location!r} is kept by a database server, which has tools of its own for this",
            hint="with PostgreSQL: pg_dump and pg_restore; then dpbayes budget verify",
        )
