"""Collect what an index page shows: the bundles in a directory, and the history of their accounts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dpbayes_cli.base.atomic_file import is_partial
from dpbayes_cli.base.errors import LedgerError, OutputError
from dpbayes_cli.bundle.read import read_document
from dpbayes_cli.bundle.report.index_page import IndexedBundle
from dpbayes_cli.bundle.report.report_context import BudgetHistory
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.workflow.reporting import budget_over_time


def bundles_in(directory: Path, linked_as: Path) -> list[IndexedBundle]:
    """Return the bundles in a directory, in the order in which their data were read.

    Args:
        directory: a directory that holds bundles, each in a directory of its own.
        linked_as: the path of the directory, relative to the page.

    Raises:
        OutputError: there is no such directory, or it holds no bundle.
        VerificationError: the document of a bundle is not valid.
    """
    try:
        names = sorted(path.name for path in directory.iterdir() if not is_partial(path.name))
    except OSError as error:
        raise OutputError(f"cannot list {str(directory)!r}: {error.strerror}") from None
    bundles = []
    for name in names:
        if (directory / name / "release.json").is_file():
            pages = (f"{name}.html", f"{name}/report.md", f"{name}/release.json")
            link = next(linked_as / page for page in pages if (directory / page).is_file())
            bundles.append(IndexedBundle(name, link.as_posix(), read_document(directory / name)))
    if not bundles:
        raise OutputError(f"there is no bundle in {str(directory)!r}", hint="name the directory that holds the bundles")
    return sorted(bundles, key=lambda each: (each.document.created, each.name))


def budgets_of(bundles: Sequence[IndexedBundle], ledger: Ledger | None) -> list[BudgetHistory | str]:
    """Return the history of each account of the bundles, or a sentence that says why it is unknown."""
    if ledger is None or not ledger.storage.exists:
        return ["No ledger was given." if ledger is None else "No ledger was found."]
    try:
        accounts = sorted({each.document.account for each in bundles})
        return [budget_over_time(account, ledger) for account in accounts]
    except LedgerError:
        return ["The ledger could not be read or trusted."]
