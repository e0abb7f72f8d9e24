"""The small interface behind which a ledger is stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

from dpbayes_cli.ledger.chain import Entry


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
