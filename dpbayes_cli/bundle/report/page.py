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
from dpbayes_cli.bundle.report import page_tables, report_tables, validity, wording
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
    """Return the bytes of the page.

    Args:
        analysis: the posterior of the release, computed again by ``analysis_of``.
        context: what the page shows in addition to the bundle.
        intervals: the intervals to show; by default those in the document.
    """
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
    page = environment.get_template("page.html.j2").render(
        document=document,
        analysis=analysis,
        context=context,
        words=wording,
        validity=validity,
        tables=report_tables,
        page=page_tables,
        intervals=intervals,
        warnings=warnings_before(document),
        sentence=result_sentence(document, intervals),
        privacy_width=privacy_width_sentence(document, intervals),
        figures=page_figures(document, analysis, context, intervals),
        citations=citations(document),
        bibtex=bibtex(document),
        style=(place / "page.css").read_text(encoding="utf-8"),
    )
    return page.encode("utf-8")


def identifier_of(title: str) -> str:
    """Return the identifier of a section, for links to the section."""
    return "-".join("".join(mark if mark.isalnum() else " " for mark in title.lower()).split())


def prose(sentences: str) -> Markup:
    """Return sentences as escaped HTML, in which text between backticks is code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(sentences))))  # noqa: S704 - the text is escaped


def _stated(part: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    """Return a part of the spec as pairs of a key and what to show for it.

    The first pair has an empty key and one line with all plain settings. Each other pair holds a list of named
    settings, as pairs of a name and a line. If some are left out, the last pair says how many, and its line is None.
    """
    by_name = {key: item for key, item in (part or {}).items() if _has_names(item)}
    line = _settings({key: item for key, item in (part or {}).items() if key not in by_name})
    shown: list[tuple[str, Any]] = [("", line)] if line else []
    for key, item in by_name.items():
        pairs = [(name, _settings(settings)) for name, settings in list(item.items())[: report_tables.MAX_ROWS]]
        left_out = len(item) - len(pairs)
        shown.append((key, [*pairs, *([(f"and {left_out} more", None)] if left_out else [])]))
    return shown


def _has_names(item: Any) -> bool:
    return isinstance(item, Mapping) and len(item) > 1 and all(isinstance(part, Mapping) for part in item.values())


def _settings(value: Any) -> str:
    """Return a part of the spec in one line; long lists are cut, and empty settings are left out."""
    if isinstance(value, Mapping):
        return "; ".join(f"{key} {_settings(item)}" for key, item in value.items() if item not in (None, [], {}))
    if isinstance(value, list):
        more = f" and {len(value) - _MAX_LISTED} more" if len(value) > _MAX_LISTED else ""
        return ", ".join(_settings(item) for item in value[:_MAX_LISTED]) + more
    return f"{value:g}" if isinstance(value, float) else str(value)
