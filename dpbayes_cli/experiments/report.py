"""The files of a study: CSV files, figures, and ``summary.md`` with claims and tables.

Each file says that it is not private. A CSV file says so in its first column, so that ``pandas.read_csv(path)`` needs
no option.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dpbayes_cli.base.csv_escape import csv_text
from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.plots import figure_files
from dpbayes_cli.experiments.results import CLEAR, Claim, Results
from dpbayes_cli.experiments.study import Study

_SIGNS = {1: "higher", -1: "lower", 0: "not clearly different"}


def result_rows(study: Study, results: Results) -> list[dict[str, Any]]:
    """Return the rows of ``results.csv``: the columns, the number of trials and the measures of each point."""
    layout = study.layout
    return [
        {
            **{name: each[name] for name in layout.columns},
            **{name: each.point.details[name] for name in layout.details},
            **({f"{layout.unit}s": len(next(iter(each.trials.values())))} if layout.unit else {}),
            **{name: each.measures[name] for name in layout.measures},
        }
        for each in results
    ]


def study_files(study: Study, results: Results, formats: Sequence[str] = ("svg",)) -> dict[str, bytes]:
    """Return the contents of a study's files by name; equal results give equal files."""
    rows, layout = result_rows(study, results), study.layout
    files = {"results.csv": _stamped_csv(rows[0], (row.values() for row in rows))}
    if layout.unit:
        trials = (
            (*(each[name] for name in layout.columns), trial, *(None if m is None else m[trial] for m in measured))
            for each in results
            for measured in [[each.trials.get(name) for name in layout.by_trial]]
            for trial in range(len(next(iter(each.trials.values()))))
        )
        files[layout.trials_file] = _stamped_csv((*layout.columns, layout.unit, *layout.by_trial), trials)
    figures = figure_files(study.figures(results), formats)
    return {**files, "summary.md": summary(study, results, list(figures)).encode(), **figures}


def summary(study: Study, results: Results, figures: Sequence[str]) -> str:
    """Return the text of ``summary.md``, which links to the files ``figures``."""
    layout = study.layout
    stated = ((key, getattr(study, key)) for key in study.__struct_fields__ if key not in {"study", "name"})
    settings = [f"`{key}`: {value}" for key, value in stated if isinstance(value, int | float | str)]
    parts = [f"# Study `{study.name}`", f"**{NOT_PRIVATE}.** {layout.about}"]
    parts += ["; ".join([f"{len(results)} points", *settings]), _claims_section(study.claims(results))]
    for name in results.values("case"):
        own = results.where(case=name)
        differences = (_paired_differences(own, *pair) for pair in layout.compared)
        sections = (f"## {name}", study.about_case(own), _results_table(study, own), *differences)
        parts += [section for section in sections if section]
    parts += ["## Figures\n\n" + "\n".join(f"- [{name}]({name})" for name in figures), layout.legend]
    return "\n\n".join(parts) + "\n"


def _stamped_csv(header: Iterable[str], table: Iterable[Iterable[Any]]) -> bytes:
    """Return the bytes of a CSV file: floats with all digits, None as an empty cell."""
    rows = ((NOT_PRIVATE, *(repr(value) if isinstance(value, float) else value for value in row)) for row in table)
    return csv_text([("stamp", *header), *rows]).encode("utf-8")


def _markdown_table(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join('' if cell is None else str(cell) for cell in line)} |" for line in lines)


def _claims_section(claims: Sequence[Claim]) -> str:
    if not claims:
        return "## Claims\n\nThese results decide no claim."
    rows = ((c.source, c.says, c.verdict if c.holds else f"**{c.verdict}**", c.measured, c.why) for c in claims)
    return f"## Claims\n\n{_markdown_table(('whose', 'what is shown', 'verdict', 'measured', 'why they differ'), rows)}"


def _results_table(study: Study, own: Results) -> str:
    """Return the results of a case as a table, without measures that were measured at no point."""
    columns, details = study.layout.columns[1:], study.layout.details
    names = [name for name in study.layout.measures if not name.endswith("_se")]
    measured = [name for name in names if any(each.measures[name] is not None for each in own)]
    rows = (
        (
            *(each[name] for name in columns),
            *(f"{v:.4g}" if isinstance(v := each.point.details[name], float) else v for name in details),
            *(each.shown(name) for name in measured),
        )
        for each in own
    )
    return _markdown_table((*columns, *details, *measured), rows)


def _paired_differences(own: Results, first: str, second: str, measure: str) -> str:
    """Return the differences of two methods in a measure, as text; empty if no point has both methods."""
    differences = own.differences(first, second, measure)
    if not differences:
        return ""
    where = {
        word: [place for place, each in differences.items() if each.sign(CLEAR) == sign]
        for sign, word in _SIGNS.items()
    }
    verdicts = "; ".join(f"{word} at {', '.join(places)}" for word, places in where.items() if places)
    numbers = "; ".join(f"{place}: {each}" for place, each in differences.items())
    return f"**`{first}` minus `{second}`, `{measure}`**: {verdicts}. {numbers}."
