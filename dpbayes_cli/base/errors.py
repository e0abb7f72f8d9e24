"""The exceptions of dpbayes: one root, and an exit code for each family.

A message says what was wrong and what was expected; the hint says what to type next. Both are built from public inputs
only (the spec, the flags, the ledger), never from a cell of the data or the text of a third-party error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import ClassVar


class DpbayesError(Exception):
    """The root of all errors: a message for the user, and a hint if there is a next step.

    Attributes:
        exit_code: the status with which the process ends.
        hint: what to do next, or an empty string.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(DpbayesError):
    """The command line itself is wrong (exit 2)."""

    exit_code = 2


class SpecError(DpbayesError):
    """The release request is wrong or incomplete: a key, a domain, a prior, an impossible guarantee (exit 3).

    Attributes:
        where: the dotted key in the spec, or an empty string.
    """

    exit_code = 3

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message, hint=hint)
        self.where = where


class SourceError(DpbayesError):
    """The data source cannot be used; the message never depends on a record (exit 4)."""

    exit_code = 4


class BudgetError(DpbayesError):
    """The budget does not allow a release or a change (exit 5).

    Attributes:
        requested: the charge asked for, by component, as decimal strings.
        remaining: what the account has left, by component.
        missing: how much more budget would be needed, by component.
        spent_by: the releases that spent the budget, as (release ID, cost).
    """

    exit_code = 5

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        requested: Mapping[str, str] | None = None,
        remaining: Mapping[str, str] | None = None,
        missing: Mapping[str, str] | None = None,
        spent_by: Iterable[tuple[str, str]] = (),
    ) -> None:
        super().__init__(message, hint=hint)
        self.requested = dict(requested or {})
        self.remaining = dict(remaining or {})
        self.missing = dict(missing or {})
        self.spent_by = tuple(spent_by)


class LedgerError(DpbayesError):
    """The ledger cannot be opened, written or trusted (exit 6)."""

    exit_code = 6


class VerificationError(DpbayesError):
    """A check of a ledger or a bundle failed (exit 7).

    Attributes:
        findings: what failed, one sentence each.
    """

    exit_code = 7

    def __init__(self, message: str, *, findings: Iterable[str] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.findings = tuple(findings)


class OutputError(DpbayesError):
    """The result cannot be written where it was asked for (exit 8)."""

    exit_code = 8


class Interrupted(BaseException):
    """A signal ended the run; a release that had begun can be finished (exit 128 + signal).

    It is not a subclass of Exception: clean-up code of libraries ignores those, and the run would not end.

    Attributes:
        message, hint: as for a ``DpbayesError``.
        signal: the number of the signal.
    """

    def __init__(
        self, signal: int, hint: str = "if a release had begun, run the same command again to finish it"
    ) -> None:
        self.message, self.hint = "interrupted", hint
        super().__init__(self.message)
        self.signal = signal


def nearest(word: str, allowed: Iterable[str]) -> str:
    """Return a hint that names the nearest allowed word, or lists them all.

    Args:
        word: what was given (a public word: a flag, a key, a name; never a cell).
        allowed: the words that are accepted.
    """
    words = sorted(allowed)
    close = get_close_matches(word, words, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"allowed: {', '.join(words)}" if words else ""
