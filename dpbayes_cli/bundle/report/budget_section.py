"""The account before and after a release, on the page: from the custodian's ledger, where it was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbayes_cli.bundle.report.markup import code, paragraph, prose, table, text, titled
from dpbayes_cli.bundle.report.wording import ledger_note

if TYPE_CHECKING:
    from dpbayes_cli.bundle.analysis import Analysis
    from dpbayes_cli.bundle.document import ReleaseDocument
    from dpbayes_cli.bundle.report.report_context import BudgetChange, ReportContext

TITLE = "The budget, and the proof of what was spent"


def budget_section(document: ReleaseDocument, analysis: Analysis, beside: ReportContext) -> str:
    """Return what the account held before and after, and how to check what was spent."""
    around = beside.budget
    if around is None or isinstance(around, str):
        why = around or "No ledger was asked."
        shown = paragraph(f"The budget before and after is not known here. {prose(why)}")
    else:
        shown = _around(document, around)
    return titled(TITLE, shown, paragraph(prose(ledger_note(document))))


def _around(document: ReleaseDocument, around: BudgetChange) -> str:
    rows = [
        [name, total, around.before[name], around.after[name], around.remaining[name]]
        for name, total in around.total.items()
    ]
    others = "the first release" if around.releases == 0 else f"release number {around.releases + 1}"
    columns = ["component", "total", "spent before", "spent after", "remaining after"]
    return (
        paragraph(f"Of the account {code(document.account)} this is {others}; it was charged {text(around.charged)}.")
        + "\n"
        + table("The account just before and after this release was charged", columns, rows)
        + "\n"
        + paragraph(
            "This table is from the custodian's ledger, and not in the bundle. What was charged later is not in it.",
            "quiet",
        )
    )
