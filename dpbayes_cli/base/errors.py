"""The exceptions of dpbayes: one root, and a class with an exit code for each kind of error.

A message says what was wrong and what was expected; the hint says what to type next. Both are built from public inputs
only (the spec, the flags, the ledger), never from a cell of the data or the text of a third-party error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import ClassVar

from dpbayes_cli.base.numeric import short_text

_MAX_CHARGES = 20  # the largest number of releases that a message lists


class DpbayesError(Exception):
    """The root of all errors: a message for the user, and a hint (or an empty text) on what to do next.

    >>> request = dpb.plan(dpb.models.BetaBernoulli(), dpb.mechanisms.Laplace(epsilon=5))
    >>> try:
    ...     dpb.release("relapse.csv", request, ledger="ledger.sqlite")
    ... except dpb.errors.BudgetError as error:
    ...     print(error.hint)
    ask for less, or raise the total: dpbayes budget amend relapse --epsilon TOTAL --reason TEXT
    """

    exit_code: ClassVar[int] = 1  # the status with which the process ends

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint
        if hint:
            self.add_note(f"Hint: {hint}")  # a traceback in a notebook prints it

    @property
    def details(self) -> list[str]:
        """Lines to print between the message and the hint."""
        return []


class SpecError(DpbayesError):
    """The release request is wrong or incomplete: a key, a domain, a prior, an impossible guarantee (exit 3).

    ``reason`` is the message without the place, and ``where`` is the dotted key in the spec, or empty.
    """

    exit_code = 3

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message, hint=hint)
        self.reason, self.where = message, where

    @property
    def mistakes(self) -> tuple[SpecError, ...]:
        """The mistakes that this error stands for; only this one, unless a subclass says otherwise."""
        return (self,)


class SeveralMistakesError(SpecError):
    """All mistakes of one request, each with its place and its hint (exit 3)."""

    def __init__(self, mistakes: Iterable[SpecError]) -> None:
        self._mistakes = tuple(single for each in mistakes for single in each.mistakes)
        super().__init__(f"the request has {len(self._mistakes)} mistakes")

    @property
    def mistakes(self) -> tuple[SpecError, ...]:
        """The mistakes, in the order of the request."""
        return self._mistakes

    @property
    def details(self) -> list[str]:
        """Each mistake, and its hint in a line below."""
        lines: list[str] = []
        for mistake in self._mistakes:
            lines.append(mistake.message)
            lines += [f"  {line}" for line in mistake.hint.splitlines()]
        return lines


def join_mistakes(mistakes: Iterable[SpecError]) -> SpecError:
    """Return one error for one or more mistakes of a request."""
    several = SeveralMistakesError(mistakes)
    return several.mistakes[0] if len(several.mistakes) == 1 else several


class SourceError(DpbayesError):
    """The data source cannot be used (exit 4); the message never depends on a record."""

    exit_code = 4


class BudgetError(DpbayesError):
    """The budget does not allow a release or a change (exit 5); amounts are decimal texts by budget component."""

    exit_code = 5

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        findings: Iterable[str] = (),
        requested: Mapping[str, str] | None = None,
        remaining: Mapping[str, str] | None = None,
        missing: Mapping[str, str] | None = None,
        spent_by: Iterable[tuple[str, str]] = (),
    ) -> None:
        super().__init__(message, hint=hint)
        self.findings = tuple(findings)  # lines to print first
        self.requested = dict(requested or {})
        self.remaining = dict(remaining or {})
        self.missing = dict(missing or {})  # the difference of the two
        self.spent_by = tuple(spent_by)  # the releases that spent the budget, as (release ID, cost)

    @property
    def details(self) -> list[str]:
        """The findings, the amounts, and the latest releases that spent the budget."""
        amounts = {"requested": self.requested, "remaining": self.remaining, "missing": self.missing}
        lines = [*self.findings]
        for title, components in amounts.items():
            if components:
                lines.append(f"{title}: {amounts_text(components, up=title != 'remaining')}")
        lines += [f"spent by {release_id}: {cost}" for release_id, cost in self.spent_by[-_MAX_CHARGES:]]
        if (earlier := len(self.spent_by) - _MAX_CHARGES) > 0:
            lines.append(f"and by {earlier} earlier releases; see: dpbayes budget history")
        return lines


class LedgerError(DpbayesError):
    """The ledger cannot be opened, written or trusted (exit 6)."""

    exit_code = 6


class VerificationError(DpbayesError):
    """A check of a ledger or a bundle failed (exit 7); there is one finding, a sentence, for each failure."""

    exit_code = 7

    def __init__(self, message: str, *, findings: Iterable[str] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.findings = tuple(findings)

    @property
    def details(self) -> list[str]:
        """The findings."""
        return [*self.findings]


class OutputError(DpbayesError):
    """The result cannot be written to the requested place (exit 8)."""

    exit_code = 8


class Interrupted(BaseException):
    """A signal ended the run (exit 128 + signal).

    It is not a subclass of Exception, because a library that catches every Exception would keep the run going. Message,
    hint and details are as for a ``DpbayesError``.
    """

    message, details = "interrupted", ()

    def __init__(self, signal: int, hint: str = "") -> None:
        super().__init__(self.message)
        self.hint, self.signal = hint, signal


def nearest_word(word: str, allowed: Iterable[str]) -> str | None:
    """Return the allowed word that is nearest to a word; None if none is near."""
    words = {each.casefold(): each for each in sorted(allowed)}
    close = get_close_matches(word.casefold(), words, n=1, cutoff=0.5)
    return words[close[0]] if close else None


def amounts_text(amounts: Mapping[str, object], *, up: bool | None = None) -> str:
    """Return named amounts as one line of text, such as "epsilon 1, delta 0.000001".

    Args:
        up: whether to round decimal strings up to six digits, as suits a cost, or down; None: all digits.
    """
    texts = []
    for name, value in amounts.items():
        if value == "inf":
            texts.append(f"no finite {name}")
        elif up is None or not isinstance(value, str):
            texts.append(f"{name} {value}")
        else:
            texts.append(f"{name} {short_text(Decimal(value), up=up)}")
    return ", ".join(texts)


def nearest(word: str, allowed: Iterable[str]) -> str:
    """Return a hint with the allowed word nearest to a refused one, or with all allowed words. Never pass it a cell."""
    words = sorted(allowed)
    if close := nearest_word(word, words):
        return f"did you mean {close!r}?"
    return f"allowed: {', '.join(words)}" if words else ""


def near_file(path: Path) -> str:
    """Return a hint for a missing file: the file in its directory that has the most similar name."""
    try:
        names = [] if path.exists() else [each.name for each in path.parent.iterdir()]
    except (OSError, ValueError):
        return ""
    close = nearest_word(path.name, names)
    return f"did you mean {str(path.parent / close)!r}?" if close else ""
