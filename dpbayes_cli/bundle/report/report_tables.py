"""The tables that the page and the Markdown report share, as texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from dpbayes_cli.bundle.report.wording import are_estimates, draws_word, table_meanings

if TYPE_CHECKING:
    from dpbayes_cli.bundle.document import ParameterSummary, ReleaseDocument

MAX_ROWS = 40
"""Tables of the report are cut to this number of rows; a file of the bundle holds all rows."""
_NUMERIC = re.compile(r"[-+]?[0-9.,]+(e[-+]?[0-9]+)?( ?%)?|-")
Item = TypeVar("Item")


@dataclass(frozen=True)
class ReportTable:
    """A table of texts.

    Attributes:
        rows: the rows that are shown.
        n_rows: the number of rows in the file.
        file: the file that holds all rows.
        shares: for each row, a share from 0 to 1 that the page shows as a bar; empty if there are no bars.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    n_rows: int
    file: str
    shares: Sequence[float] = ()

    @property
    def is_numeric(self) -> list[bool]:
        """Whether each column holds only numbers."""
        return [all(_NUMERIC.fullmatch(row[k]) for row in self.rows) for k in range(len(self.columns))]


def released_table(document: ReleaseDocument) -> ReportTable:
    """Return the released draws, estimates or statistics."""
    if document.draws:
        word = draws_word(document)
        columns = [word[:-1], *list(document.posterior)[:MAX_ROWS]]
        draws = list(enumerate(document.draws, 1))
        return cut_table(
            f"The released {word}",
            columns,
            draws,
            lambda draw: [str(draw[0]), *(f"{x:.6g}" for x in draw[1][:MAX_ROWS])],
            document.inference.samples_file,
        )
    columns = ["statistic", "released value", "noise scale", "what a record adds"]
    if not document.meanings.keys() & {item.name for item in document.statistics[:MAX_ROWS]}:
        columns.pop()  # the meanings of whole tables have a table of their own
    return cut_table(
        "The released statistics",
        columns,
        document.statistics,
        lambda item: [item.name, str(item.value), f"{item.noise_scale:.6g}", document.meanings.get(item.name, "")][
            : len(columns)
        ],
        "statistics.csv",
    )


def meanings_table(document: ReleaseDocument) -> ReportTable:
    """Return what a record adds to each table of counts; there are no rows if the statistics form no tables."""
    meanings = list(table_meanings(document).items())
    return cut_table("What a record adds to a table", ["table", "what a record adds"], meanings, list)


def posterior_table(document: ReleaseDocument) -> ReportTable:
    """Return the summary of each parameter, or its estimate."""
    summaries = list(document.posterior.items())
    if are_estimates(document):
        columns = ["parameter", "mean of the estimates" if len(document.draws) > 1 else "estimate"]
        return cut_table("The estimates", columns, summaries, lambda item: [item[0], f"{item[1].mean:.6g}"])
    columns = ["parameter", "mean", "sd", "5 %", "median", "95 %"]
    return cut_table("Posterior of each parameter", columns, summaries, lambda item: [item[0], *_numbers(item[1])])


def width_table(document: ReleaseDocument) -> ReportTable:
    """Return the two parts of each posterior standard deviation, and privacy's share of the variance."""
    columns = ["parameter", "sd", "sd from the data", "sd from privacy", "privacy's share of the variance"]
    rows, shares = [], []
    for name, width in list(document.width.items())[:MAX_ROWS]:
        sd = document.posterior[name].sd or 0.0
        shares.append((width.sd_noise / sd) ** 2 if sd > 0 else 0.0)
        rows.append([name, f"{sd:.4g}", f"{width.sd_data:.4g}", f"{width.sd_noise:.4g}", f"{shares[-1]:.1%}"])
    return ReportTable("Where the width comes from", columns, rows, len(document.width), "release.json", shares)


def renyi_table(document: ReleaseDocument) -> ReportTable:
    """Return the Renyi curve of the guarantee; there are no rows if the guarantee has no such curve."""
    curve = document.guarantee.rdp or []
    return cut_table(
        "Renyi divergence by order",
        ["order", "upper bound"],
        curve,
        lambda point: [f"{point[0]:g}", f"{point[1]:.6g}"],
    )


def cut_table(
    caption: str,
    columns: Sequence[str],
    items: Sequence[Item],
    row: Callable[[Item], Sequence[str]],
    file: str = "release.json",
) -> ReportTable:
    """Return a table with a row for each item, up to ``MAX_ROWS`` rows."""
    return ReportTable(caption, columns, [row(item) for item in items[:MAX_ROWS]], len(items), file)


def _numbers(summary: ParameterSummary) -> list[str]:
    return ["-" if x is None else f"{x:.6g}" for x in (summary.mean, summary.sd, summary.q05, summary.q50, summary.q95)]
