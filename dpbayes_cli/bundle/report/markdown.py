"""The report in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.files import found_keys, keys_of
from dpbayes_cli.bundle.report import report_tables, wording
from dpbayes_cli.bundle.report.group_results import about_files, extreme_tables, group_sentences
from dpbayes_cli.bundle.report.intervals import Intervals
from dpbayes_cli.bundle.report.prior import prior_text
from dpbayes_cli.bundle.report.result_sentence import findings_of, result_lines
from dpbayes_cli.bundle.report.validity import records_valid_text
from dpbayes_cli.bundle.stated_request import model_of

_MARKS = "\\`|*_<>[]"  # characters with a meaning in Markdown, which names of columns and values may hold


def report_markdown(document: ReleaseDocument, intervals: Intervals | None = None) -> bytes:
    """Return the bytes of ``report.md``; by default, it shows the intervals in the document."""
    guarantee = document.guarantee
    headline = f"**{wording.guarantee_text(guarantee)}** ({guarantee.kind}, {guarantee.neighbors} neighbors)."
    width = ["## Width of the posterior", wording.width_text(document), _table(report_tables.width_table(document))]
    about_posterior = wording.computed_text(document), wording.tables_text(document), wording.states_text(document)
    parts = [
        f"# {_escape(document.heading, _MARKS)}",
        *(_escape(line, _MARKS.replace("`", "")) for line in result_lines(document, intervals)),
        *_groups(document),
        f"## {wording.ESTIMATE_HEADING if wording.are_estimates(document) else 'The posterior'}",
        _table(report_tables.effects_table(document, model_of(document), intervals)),
        _table(report_tables.average_effects_table(document, intervals)),
        f"{caption}:" if (caption := findings_of(document).caption) else "",
        _table(report_tables.posterior_table(document, model_of(document), intervals)),
        " ".join(filter(None, about_posterior)),
        *(width if document.width else []),
        "## The guarantee",
        headline,
        wording.guarantee_meaning(document),
        _table(report_tables.renyi_table(document)),
        "## The request",
        _request(document),
        "## What was released",
        wording.released_text(document),
        _table(report_tables.released_table(document)),
        _table(report_tables.meanings_table(document)),
        "## Assumptions",
        _list(document.assumptions),
        "## Corrections to the papers",
        _list(document.corrections),
        "## Proof of the charge",
        wording.ledger_note(document),
        "## What you can do next",
        *(f"```\n{part}\n```" if part == wording.REUSE_COMMAND else part for part in wording.reuse_texts(document)),
    ]
    return ("\n\n".join(filter(None, parts)) + "\n").encode("utf-8")


def _groups(document: ReleaseDocument) -> list[str]:
    sentences, tables = group_sentences(document), extreme_tables(document)
    listed = [text for table in tables for text in (f"{table.caption}:", _table(table))]
    about_file = about_files(document)
    return ["## The groups", _list([*sentences, about_file]), *listed] if sentences else []


def _request(document: ReleaseDocument) -> str:
    key, choice = wording.choice_text(document)
    lines = [
        f"- Release: `{document.release_id}`",
        f"- Data set (account): `{document.account}`",
        f"- Model: `{document.model}`; mechanism: `{document.mechanism}`",
        *([f"- {key.capitalize()}: {choice}"] if key else []),
        *([f"- Groups: {_keys(document)}"] if document.spec.get("by") else []),
        "- Prior: " + _escape(prior_text(document), _MARKS),
        f"- One record: one {document.record_unit}; number of records: {wording.records_text(document)}",
        *([f"- Valid records: {valid}"] if (valid := records_valid_text(document)) else []),
        f"- Data read: {document.created}",
    ]
    return "\n".join(lines)


def _keys(document: ReleaseDocument) -> str:
    """Return how many keys the groups have, and where they are."""
    column, n_keys = document.spec["by"]["column"], len(keys_of(document, document.spec))
    if not isinstance(column, str):
        return f"{n_keys:,} public pairs of keys of the columns `{column[0]}` and `{column[1]}`"
    keys = f"key{'s' * (n_keys != 1)} found in the data"
    return f"{n_keys:,} {keys if found_keys(document) is not None else 'public keys'} of the column `{column}`"


def _table(table: report_tables.ReportTable) -> str:
    """Return a table, with a note if it leaves rows out; empty if the table has no rows."""
    if not table.rows:
        return ""
    left_out = table.n_rows - len(table.rows)
    lines = [table.columns, *table.rows]
    head, *rows = ["| " + " | ".join(_escape(cell, _MARKS) for cell in line) + " |" for line in lines]
    alignment = "".join("---:|" if is_numeric else "---|" for is_numeric in table.is_numeric)
    more = f"\n\n{left_out} more rows are in `{table.file}`." if left_out else ""
    return "\n".join([head, f"|{alignment}", *rows]) + more


def _list(items: Sequence[str]) -> str:
    return "\n".join(f"- {_escape(item, '<>[]')}" for item in items)


def _escape(text: str, marks: str) -> str:
    return text.translate({ord(mark): f"\\{mark}" for mark in marks})
