"""The files that tell what a study found: CSV files that are stamped, and ``summary.md`` with its claims and tables.

The stamp of a CSV file is its first column, so that ``pandas.read_csv(path)`` needs no option.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dpbayes_cli.base.csv_escape import csv_text
from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.claims import Claim
from dpbayes_cli.experiments.results import Results

_CLEAR = 3.0
"""A difference of so many standard errors is called one: among fifty comparisons of equals one in seven errs."""
_SIGNS = {1: "higher", -1: "lower", 0: "not clearly different"}


def stamped_csv(header: Iterable[str], table: Iterable[Iterable[Any]]) -> bytes:
    """Return the bytes of a CSV file; floats in full, None as an empty cell."""
    rows = ((NOT_PRIVATE, *(repr(value) if isinstance(value, float) else value for value in row)) for row in table)
    return csv_text([("stamp", *header), *rows]).encode("utf-8")


def markdown_table(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table for people."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join('' if cell is None else str(cell) for cell in line)} |" for line in lines)


def claims_section(claims: Sequence[Claim]) -> str:
    """Return the section of a summary that tells what holds."""
    if not claims:
        return "## Claims\n\nThese points tell nothing of what the papers show."
    rows = (
        (each.source, each.says, each.verdict if each.holds else f"**{each.verdict}**", each.measured, each.why)
        for each in claims
    )
    return f"## Claims\n\n{markdown_table(('whose', 'what is shown', 'verdict', 'measured', 'why they differ'), rows)}"


def results_table(own: Results, columns: Sequence[str], details: Sequence[str], measures: Sequence[str]) -> str:
    """Return the results of a case as a table: where they are, and what was measured of any of them."""
    measured = [
        name for name in measures if not name.endswith("_se") and any(each.measures[name] is not None for each in own)
    ]
    rows = (
        (
            *(each[name] for name in columns[1:]),
            *(_short(each.point.details[name]) for name in details),
            *(each.shown(name) for name in measured),
        )
        for each in own
    )
    return markdown_table((*columns[1:], *details, *measured), rows)


def paired_differences(own: Results, first: str, second: str, measure: str) -> str:
    """Return where one method has more or less of a measure than another, and the differences; empty if not both."""
    differences = own.differences(first, second, measure)
    if not differences:
        return ""
    where = {
        word: [place for place, each in differences.items() if each.sign(_CLEAR) == sign]
        for sign, word in _SIGNS.items()
    }
    said = "; ".join(f"{word} at {', '.join(places)}" for word, places in where.items() if places)
    numbers = "; ".join(f"{place}: {each}" for place, each in differences.items())
    return f"**`{first}` less `{second}`, `{measure}`**: {said}. {numbers}."


def _short(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) else value
