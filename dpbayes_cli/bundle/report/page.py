"""The report as one HTML page: a function of the release and its analysis, one small function per section.

The page contains its style and figures: it fetches nothing, runs nothing, and will look the same in ten years.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from string import Template
from typing import Any

from dpbayes_cli.bundle.analysis import Analysis
from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.report.budget_section import TITLE as BUDGET_HEADING
from dpbayes_cli.bundle.report.budget_section import budget_section
from dpbayes_cli.bundle.report.citation import citation_section
from dpbayes_cli.bundle.report.guarantee_section import guarantee_headline, guarantee_section
from dpbayes_cli.bundle.report.markup import (
    bullet_list,
    code,
    code_block,
    description_list,
    gallery,
    identifier_of,
    more_rows_note,
    paragraph,
    prose,
    table,
    text,
    titled_section,
)
from dpbayes_cli.bundle.report.model_sections import DRAWINGS, SectionDrawing
from dpbayes_cli.bundle.report.page_figures import chain_pictures, figures_of
from dpbayes_cli.bundle.report.posterior_section import estimate_section, posterior_section, width_section
from dpbayes_cli.bundle.report.report_context import EMPTY_CONTEXT, ReportContext
from dpbayes_cli.bundle.report.wording import (
    ESTIMATE_HEADING,
    REUSE_COMMAND,
    bounds_text,
    computed_text,
    draws_word,
    records_text,
    released_text,
    reuse_texts,
    table_meanings,
)

_MAX_ROWS = 40
"""Longer tables are cut; the files hold the rest."""
_MAX_LISTED = 12

_FRAME = Template(
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="dpbayes">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>$title</title>
<style>
$style</style>
</head>
<body>
$body
</body>
</html>
"""
)

Part = Callable[[ReleaseDocument, Analysis, ReportContext], str]
"""Makes the markup of a section; empty if the section does not apply to the release."""


def report_html(document: ReleaseDocument, analysis: Analysis, context: ReportContext = EMPTY_CONTEXT) -> bytes:
    """Return the bytes of the page.

    Args:
        document: the release.
        analysis: the posterior of the release, computed again by ``analysis_of``.
        context: what the page shows that the bundle does not hold.
    """
    sections = {title: part(document, analysis, context) for title, part in SECTIONS.items()}
    links = [f'<a href="#{identifier_of(title)}">{text(title)}</a>' for title, markup in sections.items() if markup]
    body = "\n".join(
        [
            f"<header>\n{_header(document)}\n</header>",
            _warnings(document),
            f'<nav aria-label="Sections">{bullet_list(links)}</nav>',
            "<main>",
            *(markup for markup in sections.values() if markup),
            "</main>",
            f"<footer>{_footer(document, context)}</footer>",
        ]
    )
    title = text(f"Private posterior release {document.release_id}")
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    return _FRAME.substitute(title=title, style=style, body=body).encode("utf-8")


def request(document: ReleaseDocument, analysis: Analysis, context: ReportContext) -> str:
    """Return the release request: data, model, mechanism, domain and prior."""
    settings = {key: _stated(document.spec.get(key, {})) for key in ("domain", "prior")}
    return titled_section(
        "The request",
        description_list(
            [
                ("Data set (account)", code(document.account)),
                ("Model", f"{code(document.model)}: {text(analysis.model.summary)}"),
                ("Mechanism", code(document.mechanism)),
                *((key.capitalize(), value) for key, value in settings.items() if value),
                *([("Bounds", text(bounds_text(document)))] if bounds_text(document) else []),
                ("One record", text(document.record_unit)),
                ("Number of records", text(records_text(document))),
                ("Data read", f"<time>{text(document.created)}</time>"),
            ]
        ),
    )


def released(document: ReleaseDocument, analysis: Analysis, context: ReportContext) -> str:
    """Return what was released: draws, or statistics with noise."""
    if document.draws:
        names = list(document.posterior)[:_MAX_ROWS]
        draws = document.draws[:_MAX_ROWS]
        rows = [[str(i), *(f"{x:.6g}" for x in draw[:_MAX_ROWS])] for i, draw in enumerate(draws, 1)]
        shown = table(f"The released {draws_word(document)}", [draws_word(document)[:-1], *names], rows)
        more = more_rows_note(len(document.draws), _MAX_ROWS, document.inference.samples_file)
    else:
        rows = [
            [item.name, str(item.value), f"{item.noise_scale:.6g}", document.meanings.get(item.name, "")]
            for item in document.statistics[:_MAX_ROWS]
        ]
        heads = ["statistic", "released value", "noise scale", "what a record adds"]
        if not any(row[3] for row in rows):  # a second table says it for whole tables
            heads, rows = heads[:3], [row[:3] for row in rows]
        shown = table("The released statistics", heads, rows)
        more = more_rows_note(len(document.statistics), _MAX_ROWS, "statistics.csv") + _of_tables(document)
    return titled_section("What was released", paragraph(prose(released_text(document))), shown, more)


def computed(document: ReleaseDocument, analysis: Analysis, context: ReportContext) -> str:
    """Return how the posterior was computed, with its warnings."""
    exact = "The samples are independent draws: there was no Markov chain that had to converge."
    return titled_section(
        "How it was computed",
        paragraph(prose(computed_text(document))),
        paragraph(exact) if document.inference.exact and not document.draws else "",
        *(paragraph(f"Warning: {prose(warning)}.", "warned") for warning in document.inference.warnings),
    )


def diagnostics(document: ReleaseDocument, analysis: Analysis, context: ReportContext) -> str:
    """Return the diagnostics of the Markov chains; empty if there were none."""
    if analysis.chains is None:
        return ""
    values = document.inference.diagnostics
    rows = [
        [title, "-" if values.get(key) is None else f"{values[key]:.4g}", good]
        for key, title, good in (
            ("r_hat", "R-hat", "at most 1.01"),
            ("ess_bulk", "effective sample size, center", "at least 400"),
            ("ess_tail", "effective sample size, tails", "at least 400"),
        )
        if key in values
    ]
    return titled_section(
        "Diagnostics",
        paragraph(
            "Several chains started from different points. If they have converged, their traces overlap, and the ranks "
            "of each chain among all draws are spread evenly: the bars stay near the dashed line."
        ),
        table("The worst value over all parameters", ["diagnostic", "value", "good if"], rows),
        *(
            f"<h3>{text(name)}</h3>\n{gallery(figures_of(pictures), 'pair')}"
            for name, pictures in chain_pictures(analysis.parameters, analysis.chains)
        ),
    )


def assumptions(document: ReleaseDocument, analysis: Analysis, context: ReportContext) -> str:
    """Return the assumptions of the guarantee and of the posterior."""
    return titled_section("Assumptions", bullet_list(prose(item) for item in document.assumptions))


def corrections(document: ReleaseDocument, analysis: Analysis, context: ReportContext) -> str:
    """Return the corrections to the papers."""
    return titled_section("Corrections to the papers", bullet_list(prose(item) for item in document.corrections))


def next_steps(document: ReleaseDocument, analysis: Analysis, context: ReportContext) -> str:
    """Return what a reader can do with the bundle."""
    return titled_section(
        "What you can do next",
        *(
            code_block(part, "A command") if part == REUSE_COMMAND else paragraph(prose(part))
            for part in reuse_texts(document)
        ),
    )


def _drawn(drawing: SectionDrawing) -> Part:
    return lambda document, analysis, _: drawing.section(document, analysis.model)


SECTIONS: dict[str, Part] = {
    "The request": request,
    "The guarantee": guarantee_section,
    "What was released": released,
    "The posterior": posterior_section,
    ESTIMATE_HEADING: estimate_section,
    **{drawing.title: _drawn(drawing) for drawing in DRAWINGS},
    "Width of the posterior": width_section,
    "How it was computed": computed,
    "Diagnostics": diagnostics,
    "Assumptions": assumptions,
    "Corrections to the papers": corrections,
    BUDGET_HEADING: budget_section,
    "How to cite": citation_section,
    "What you can do next": next_steps,
}
"""The sections of the page, in their order."""


def _of_tables(document: ReleaseDocument) -> str:
    tables = list(table_meanings(document).items())
    if not tables:
        return ""
    rows = [[name, meaning] for name, meaning in tables[:_MAX_ROWS]]
    shown = table("What a record adds to a table", ["table", "what a record adds"], rows)
    return shown + more_rows_note(len(tables), _MAX_ROWS, "release.json")


def _header(document: ReleaseDocument) -> str:
    about = f"{code(document.model)} released through {code(document.mechanism)}, {text(document.created)}"
    return (
        f"<h1>Private posterior release {code(document.release_id)}</h1>\n"
        f"{paragraph(about, 'quiet')}\n{paragraph(guarantee_headline(document), 'headline')}"
    )


def _warnings(document: ReleaseDocument) -> str:
    warnings = document.inference.warnings
    if not warnings:
        return ""
    title = "Warning" if len(warnings) == 1 else "Warnings"
    heading = f'<h2 id="warnings-heading">{title}</h2>'
    items = bullet_list(prose(f"{warning[:1].upper()}{warning[1:]}.") for warning in warnings)
    return f'<aside class="warnings" aria-labelledby="warnings-heading">\n{heading}\n{items}\n</aside>'


def _footer(document: ReleaseDocument, context: ReportContext) -> str:
    ledger = " alone" if isinstance(context.budget, str | None) else " and the custodian's ledger"
    versions = ", ".join(f"{name} {version}" for name, version in document.software.items())
    return paragraph(text(f"Made from release.json{ledger}. Computed with {versions}."))


def _stated(part: Mapping[str, Any]) -> str:
    """Return a part of the spec in one line, but settings by name as a list, one name per item."""
    plain = _settings({key: item for key, item in part.items() if not _by_name(item)})
    shown = [text(plain)] if plain else []
    for key, item in part.items():
        if _by_name(item):
            lines = [f"{code(name)}: {text(_settings(settings))}" for name, settings in list(item.items())[:_MAX_ROWS]]
            more = [f"and {len(item) - _MAX_ROWS} more"] if len(item) > _MAX_ROWS else []
            shown.append(f"{text(key)}:\n{bullet_list([*lines, *more])}")
    return "; ".join(shown)


def _by_name(item: Any) -> bool:
    return isinstance(item, Mapping) and len(item) > 1 and all(isinstance(part, Mapping) for part in item.values())


def _settings(value: Any) -> str:
    """Return a part of the spec in one line; long lists are cut, and empty settings are left out."""
    if isinstance(value, Mapping):
        return "; ".join(f"{key} {_settings(item)}" for key, item in value.items() if item not in (None, [], {}))
    if isinstance(value, list):
        more = f" and {len(value) - _MAX_LISTED} more" if len(value) > _MAX_LISTED else ""
        return ", ".join(_settings(item) for item in value[:_MAX_LISTED]) + more
    return f"{value:g}" if isinstance(value, float) else str(value)
