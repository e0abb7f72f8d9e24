"""The interface by which a restore replaces the ledger in a storage."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from dpbayes_cli.ledger.chain import Entry


class Leftover(ABC):
    """The readable part of the ledger that will be replaced.

    Attributes:
        entries: every readable entry, verified or not.
        is_the_ledger: whether the file is the ledger, as far as can be told; False if its journal is another file's.
    """

    entries: list[Entry]
    is_the_ledger: bool

    @abstractmethod
    def reads_on_from(self, sequence: int) -> bool:
        """Return whether all entries after one can be read, up to the last one that the file mentions anywhere."""

    @abstractmethod
    def payload(self, key: str) -> bytes | None:
        """Return a payload, or None if it cannot be read."""


class Replacement(ABC):
    """A new ledger that will take the place of another.

    Attributes:
        partial: a file for the new ledger, empty at first.
        left: the readable part of the old ledger.
    """

    partial: Path
    left: Leftover

    @abstractmethod
    def place(self) -> None:
        """Keep a copy of the old files, and write the new ledger in their place.

        Raises:
            OSError: a file cannot be written; the same replacement can be repeated, and continues from there.
        """
