"""What a restore asks of the storage whose ledger it replaces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from dpbayes_cli.ledger.chain import Entry


class Leftover(ABC):
    """What can be read of the ledger that is to be replaced.

    Attributes:
        entries: every entry that can be read, verified or not.
        is_the_ledger: whether nothing says that another file was put in its place: a journal that is not the file's.
    """

    entries: list[Entry]
    is_the_ledger: bool

    @abstractmethod
    def reads_on_from(self, sequence: int) -> bool:
        """Return whether the entries after one can be walked to the last that anything in the file tells of."""

    @abstractmethod
    def payload(self, key: str) -> bytes | None:
        """Return a payload that can still be read, or None."""


class Replacement(ABC):
    """A ledger that is to take the place of another.

    Attributes:
        partial: a file for the new ledger, empty at first.
        left: what is left of what is there.
    """

    partial: Path
    left: Leftover

    @abstractmethod
    def place(self) -> None:
        """Keep a copy of what is there, and write the new ledger in its place.

        Raises:
            OSError: a file cannot be written; the same replacement, made again, goes on from there.
        """
