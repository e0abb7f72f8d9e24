"""The account before and after a release, on the page: from the custodian's ledger, if it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbayes_cli.bundle.report.markup import code, paragraph, prose, table, text, titled_section
from dpbayes_cli.bundle.report.wording import ledger_note

if TYPE_CHECKING:
    from dpbayes_cli.bundle.analysis import Analysis
    from dpbayes_cli.bundle.document import ReleaseDocument
    from dpbayes_cli.bundle.report.report_context import BudgetChange, ReportContext

TITLE = "The budget, and proof of the charge"


def budget_section(document: ReleaseDocument, analysis: Analysis, context: ReportContext) -> str:
    """Return the account before and after the release, and how to check the charge."""
    change = context.budget
    if change is None or isinstance(change, str):
        why = change or "No ledger was given."
        shown = paragraph(f"The budget before and after this release is not known here. {prose(why)}")
    else:
        shown = _change(document, change)
    return titled_section(TITLE, shown, paragraph(prose(ledger_note(document))))


def _change(document: ReleaseDocument, change: BudgetChange) -> str:
    rows = [
        [name, total, change.before[name], change.after[name], change.remaining[name]]
        for name, total in change.total.items()
    ]
    order = "the first release" if change.releases == 0 else f"release number {change.releases + 1}"
    columns = ["component", "total", "spent before", "spent after", "remaining after"]
    return (
        paragraph(f"This is {order} of the account {code(document.account)}; it was charged {text(change.charged)}.")
        + "\n"
        + table("The account before and after this release", columns, rows)
        + "\n"
        + paragraph(
            "This table comes from the custodian's ledger, not from the bundle. It leaves out later charges.",
            "quiet",
        )
    )
