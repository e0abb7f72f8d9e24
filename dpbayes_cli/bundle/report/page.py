"""The report as one HTML page, made from the template ``templates/page.html.j2``.

The page contains its style and figures, fetches nothing and runs no scripts, so that it will look the same in ten
years. The template escapes every text, so that no text can act as markup.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from dpbayes_cli.bundle.analysis import Analysis
from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.report import report_tables, validity, wording
from dpbayes_cli.bundle.report.citation import bibtex, citations
from dpbayes_cli.bundle.report.intervals import Intervals
from dpbayes_cli.bundle.report.page_figures import page_figures
from dpbayes_cli.bundle.report.report_context import EMPTY_CONTEXT, ReportContext
from dpbayes_cli.bundle.report.result_sentence import privacy_width_sentence, result_sentence, warnings_before

_CODE = re.compile("`([^`]*)`")
_MAX_LISTED = 12


def report_html(
    document: ReleaseDocument,
    analysis: Analysis,
    context: ReportContext = EMPTY_CONTEXT,
    intervals: Intervals | None = None,
) -> bytes:
    """Return the bytes of the page, by default with the intervals in the document."""
    return render_page(
        "page.html.j2",
        document=document,
        analysis=analysis,
        context=context,
        words=wording,
        validity=validity,
        tables=report_tables,
        intervals=intervals,
        warnings=warnings_before(document),
        sentence=result_sentence(document, intervals),
        privacy_width=privacy_width_sentence(document, intervals),
        figures=page_figures(document, analysis, context, intervals),
        citations=citations(document),
        bibtex=bibtex(document),
    )


def render_page(template: str, **values: Any) -> bytes:
    """Return the bytes of a page from a template, the values that it shows, and the style of all pages."""
    place = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader(place / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        extensions=["jinja2.ext.do"],
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(identifier=identifier_of, prose=prose, stated=_stated)
    style = (place / "page.css").read_text(encoding="utf-8")
    return environment.get_template(template).render(**values, style=style).encode("utf-8")


def identifier_of(title: str) -> str:
    """Return the HTML identifier of the section with a title."""
    return "-".join("".join(mark if mark.isalnum() else " " for mark in title.lower()).split())


def prose(sentences: str) -> Markup:
    """Return sentences as escaped HTML, in which text between backticks is code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(sentences))))  # noqa: S704 - the text is escaped


def _stated(section: Mapping[str, Any] | None) -> list[tuple[str, str | list[tuple[str, str]]]]:
    """Return the content of a section of the spec, such as the domain or the prior, as pairs of a key and its text.

    A key with settings for each of several columns has a list of pairs (column, text) instead of a text. All other
    keys are joined in the text of the first pair, whose key is empty. If a list is cut, its last pair says how many
    columns it leaves out, and has an empty name.
    """
    by_column = {key: value for key, value in (section or {}).items() if _is_by_column(value)}
    line = _one_line({key: value for key, value in (section or {}).items() if key not in by_column})
    content: list[tuple[str, str | list[tuple[str, str]]]] = [("", line)] if line else []
    for key, columns in by_column.items():
        texts = [(name, _one_line(settings)) for name, settings in columns.items()][: report_tables.MAX_ROWS]
        if left_out := len(columns) - len(texts):
            texts.append(("", f"and {left_out} more"))
        content.append((key, texts))
    return content


def _is_by_column(value: Any) -> bool:
    return isinstance(value, Mapping) and len(value) > 1 and all(isinstance(part, Mapping) for part in value.values())


def _one_line(value: Any) -> str:
    """Return a value of the spec in one line; long lists are cut, and empty settings are left out."""
    if isinstance(value, Mapping):
        return "; ".join(f"{key} {_one_line(item)}" for key, item in value.items() if item not in (None, [], {}))
    if isinstance(value, list):
        more = f" and {len(value) - _MAX_LISTED} more" if len(value) > _MAX_LISTED else ""
        return ", ".join(_one_line(item) for item in value[:_MAX_LISTED]) + more
    return f"{value:g}" if isinstance(value, float) else str(value)
