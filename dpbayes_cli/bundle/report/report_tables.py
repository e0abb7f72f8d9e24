"""The tables that are both on the page and in the Markdown report; their cells are texts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.report.digits import percent, rounded
from dpbayes_cli.bundle.report.intervals import Intervals, stored_intervals
from dpbayes_cli.bundle.report.prior import prior_ends
from dpbayes_cli.bundle.report.result_sentence import findings_of
from dpbayes_cli.bundle.report.wording import are_estimates, draws_word, table_meanings
from dpbayes_cli.core.model import Model

MAX_ROWS = 40
"""Tables of the report are cut to this number of rows; a file of the bundle holds all rows."""
_NUMERIC = re.compile(r"[-+]?[0-9.,]+(e[-+]?[0-9]+)?( ?%)?|-")
Item = TypeVar("Item")


@dataclass(frozen=True)
class ReportTable:
    """A table of texts."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]  # the rows that are shown
    n_rows: int  # the number of rows in the file
    file: str  # the file that holds all rows
    shares: Sequence[float] = ()  # for each row, a share from 0 to 1 that the page shows as a bar, if there are bars

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
    """Return what a record adds to each table of counts; without such tables, there are no rows."""
    meanings = list(table_meanings(document).items())
    return cut_table("What a record adds to a table", ["table", "what a record adds"], meanings, list)


def posterior_table(
    document: ReleaseDocument, model: Model, intervals: Intervals | None = None, max_rows: int = MAX_ROWS
) -> ReportTable:
    """Return mean, sd, median, interval and prior of each parameter; for estimates or one draw, only their values.

    By default, the intervals are those in the document.
    """
    summaries = list(document.posterior.items())
    if are_estimates(document) or (len(document.draws) == 1):
        one = "estimate" if are_estimates(document) else "draw"
        columns = ["parameter", f"mean of the {one}s" if len(document.draws) > 1 else one]
        rows = [[name, f"{p.mean:.4g}"] for name, p in summaries[:max_rows]]
        return ReportTable(f"The {one}{'s' * (len(document.draws) > 1)}", columns, rows, len(summaries), "release.json")
    shown = intervals or stored_intervals(document)
    priors = prior_ends(document, model, shown.tails)
    columns = ["parameter", "mean", "sd", shown.heads[0], "median", shown.heads[1]]
    columns += [f"prior, {shown.percent}"] if priors else []
    rows, write = [], percent if model.has_one_unit and model.main_fact.is_share else rounded
    for name, p in summaries[:max_rows]:
        low, high = shown.ends.get(name, (math.nan, math.nan))
        numbers = [(p.mean, high - low), (p.sd, p.sd), (low, high - low), (p.q50, high - low), (high, high - low)]
        row = [name, *("-" if x is None or math.isnan(x) else write(x, width or 0.0) for x, width in numbers)]
        if priors:
            ends = priors.get(name)
            row.append("-" if ends is None else " to ".join(write(end, ends[1] - ends[0]) for end in ends))
        rows.append(row)
    caption = findings_of(document).caption or "Posterior of each parameter"
    return ReportTable(caption, columns, rows, len(summaries), "release.json")


def width_table(document: ReleaseDocument) -> ReportTable:
    """Return the two parts of each posterior standard deviation, and privacy's share of the variance."""
    columns = ["parameter", "sd", "sd from the data", "sd from privacy", "privacy's share of the variance"]
    rows, shares = [], []
    for name, width in list(document.width.items())[:MAX_ROWS]:
        sd = document.posterior[name].sd or 0.0
        shares.append((width.sd_noise / sd) ** 2 if sd > 0 else 0.0)
        sds = (rounded(x, sd) for x in (sd, width.sd_data, width.sd_noise))
        rows.append([name, *sds, f"{100.0 * shares[-1]:.0f} %"])
    return ReportTable("Where the width comes from", columns, rows, len(document.width), "release.json", shares)


def renyi_table(document: ReleaseDocument) -> ReportTable:
    """Return the Renyi curve of the guarantee; without such a curve, there are no rows."""
    curve = document.guarantee.rdp or []
    return cut_table(
        "Renyi divergence by order",
        ["order", "upper bound on the Renyi divergence"],
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
