"""The interface of the places where a ledger is stored, and of transactions on them."""

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

MAX_PAYLOAD_BYTES = 256 << 20
"""The largest stored (compressed) payload."""
_MAX_UNPACKED_BYTES = 1 << 30


def compress_payload(payload: bytes) -> bytes:
    """Return a payload in its stored form.

    Raises:
        LedgerError: the payload is too large.
    """
    compressed = zlib.compress(payload, 6)
    if len(compressed) > MAX_PAYLOAD_BYTES or len(payload) > _MAX_UNPACKED_BYTES:
        raise LedgerError(f"the payload is larger than {MAX_PAYLOAD_BYTES >> 20} MiB")
    return compressed


def decompress_payload(stored: object, release_id: str) -> bytes:
    """Return a payload from its stored form, in bounded memory whatever is stored.

    Raises:
        LedgerError: the stored form is damaged.
    """
    inflate = zlib.decompressobj()
    try:
        if isinstance(stored, bytes):
            payload = inflate.decompress(stored, _MAX_UNPACKED_BYTES)
            if inflate.eof and not inflate.unused_data:
                return payload
    except zlib.error:
        pass
    raise LedgerError(f"the sealed payload of release {release_id} is damaged")


class Transaction(ABC):
    """One serializable transaction: it sees a fixed ledger, and may append to it."""

    @property
    def is_suspect(self) -> bool:
        """Whether the storage had to undo an incomplete transaction after a crash, so that all must be verified."""
        return False

    @abstractmethod
    def entries(self, after: int = 0) -> list[Entry]:
        """Return the entries after a sequence number, in order."""

    @abstractmethod
    def entry(self, sequence: int) -> Entry | None:
        """Return the entry with a sequence number, or None."""

    @property
    @abstractmethod
    def is_indexed(self) -> bool:
        """Whether there is an index, so that entries are found by their terms without reading all of them."""

    @abstractmethod
    def begin_index(self) -> bool:
        """Create an index of the entries, kept up to date from now on; return False if the storage cannot have one."""

    @abstractmethod
    def indexed(self) -> list[tuple[str, int]]:
        """Return the whole index, in order: terms, each with the sequence number of an entry."""

    def find(self, term: str, last: int | None = None) -> list[Entry]:
        """Return the entries with an index term, in order; see ``terms_of``.

        Args:
            term: the index term.
            last: only this many, the latest; None: all.
        """
        matching = [entry for entry in self.entries() if term in terms_of(entry.fields)]
        return matching if last is None else matching[len(matching) - min(last, len(matching)) :]

    @abstractmethod
    def append(self, entry: Entry) -> None:
        """Append one entry."""

    @abstractmethod
    def put_payload(self, key: str, payload: bytes) -> None:
        """Store a payload, compressed: a sealed draw, a document or the state of a checkpoint."""

    @abstractmethod
    def payload(self, key: str) -> bytes | None:
        """Return a payload, or None."""

    @abstractmethod
    def payload_ids(self) -> list[str]:
        """Return the keys of the stored payloads."""


class Storage(ABC):
    """A place where a ledger lives."""

    @property
    @abstractmethod
    def location(self) -> str:
        """The place, as a user names it, without a password."""

    @property
    @abstractmethod
    def exists(self) -> bool:
        """Whether there is a ledger."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[Transaction]:
        """Begin an exclusive transaction; it is durable when the block ends, and undone if the block raises.

        Creates the ledger if there is none.

        Raises:
            LedgerError: the ledger cannot be opened, locked or written.
        """

    @abstractmethod
    def reading(self) -> AbstractContextManager[Transaction]:
        """Begin a read-only transaction.

        Raises:
            LedgerError: the ledger cannot be opened.
        """

    @property
    def directory(self) -> Path | None:
        """The directory of the ledger's file; None if it is not a file of this host."""
        return None

    def settle(self) -> bool:
        """Undo an incomplete transaction after a crash; return whether there was one.

        Raises:
            LedgerError: the ledger cannot be opened, locked or written.
        """
        return False

    def damage(self) -> list[str]:
        """Return the findings of the storage's own integrity check, one sentence each."""
        return []

    def copy_to(self, target: Path) -> None:
        """Write a consistent copy into an empty file.

        Raises:
            LedgerError: the ledger is on a server, or cannot be read.
        """
        raise self._on_a_server()

    def salvage(self) -> tuple[list[Entry], list[str]]:
        """Return every readable entry, verified or not, and the unreadable ones, one sentence each.

        Raises:
            LedgerError: the ledger is on a server, or nothing can be read.
        """
        raise self._on_a_server()

    def salvage_payload(self, release_id: str) -> bytes | None:
        """Return a sealed payload, or None if it cannot be read."""
        raise self._on_a_server()

    def replacing(self, suffix: str, is_done: Callable[[], bool]) -> AbstractContextManager[Replacement | None]:
        """Lock the ledger exclusively while a file is made that will replace it; yield None if that was done already.

        Args:
            suffix: added to the names of the old files, which are kept.
            is_done: called if an earlier replacement was interrupted: whether only its last step is missing.

        Raises:
            LedgerError: the ledger is on a server, or a file cannot be written.
        """
        raise self._on_a_server()

    def migrate(self) -> tuple[int, Path | None] | None:
        """Migrate an older ledger to this version's schema; a ledger in a file is backed up beside it first.

        Returns:
            The old version, and the path of the backup, if any; None if the ledger has this version already.

        Raises:
            LedgerError: the ledger is newer, or cannot be migrated; nothing is changed.
        """
        raise self._on_a_server()

    def _on_a_server(self) -> LedgerError:
        return LedgerError(
            f"the ledger {self.location!r} is on a database server, which has its own tools for this",
            hint="with PostgreSQL: pg_dump and pg_restore; then dpbayes budget verify",
        )
