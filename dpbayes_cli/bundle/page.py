"""The report as one HTML page: a function of the release and its analysis, one small function a section.

Everything is in the page, style and figures too: it fetches nothing, runs nothing, and reads the same in ten years.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from string import Template
from typing import Any

from dpbayes_cli.bundle.analysis import Analysis
from dpbayes_cli.bundle.document import ParameterSummary, ReleaseDocument
from dpbayes_cli.bundle.hmm_section import hmm_section
from dpbayes_cli.bundle.markup import code, gallery, listed, paragraph, prose, section, share_bar, table, terms, text
from dpbayes_cli.bundle.network_section import network_section
from dpbayes_cli.bundle.page_figures import chain_pictures, posterior_pictures, shown
from dpbayes_cli.bundle.wording import (
    ESTIMATE_HEADING,
    REUSE_COMMAND,
    are_estimates,
    bounds_text,
    computed_text,
    draws_word,
    guarantee_meaning,
    guarantee_text,
    ledger_note,
    noise_share,
    odds_text,
    records_text,
    released_text,
    reuse_texts,
    table_meanings,
    width_text,
)
from dpbayes_cli.registry import model_type

_MANY = 40
"""Longer tables are cut; the files hold the rest."""
_LISTED = 12

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

Part = Callable[[ReleaseDocument, Analysis], str]
"""A section: its markup, or nothing where a release has nothing to say in it."""


def report_html(document: ReleaseDocument, analysis: Analysis) -> bytes:
    """Return the bytes of the page.

    Args:
        document: the release.
        analysis: its posterior, as ``analysis_of`` repeats it.
    """
    sections = {title: part(document, analysis) for title, part in SECTIONS.items()}
    links = [f'<a href="#{identifier_of(title)}">{text(title)}</a>' for title, markup in sections.items() if markup]
    body = "\n".join(
        [
            f"<header>\n{_header(document)}\n</header>",
            _warnings(document),
            f'<nav aria-label="Sections">{listed(links)}</nav>',
            "<main>",
            *(markup for markup in sections.values() if markup),
            "</main>",
            f"<footer>{_footer(document)}</footer>",
        ]
    )
    title = text(f"Private posterior release {document.release_id}")
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    return _FRAME.substitute(title=title, style=style, body=body).encode("utf-8")


def identifier_of(title: str) -> str:
    """Return the name by which a section is linked to."""
    return "-".join("".join(mark if mark.isalnum() else " " for mark in title.lower()).split())


def question(document: ReleaseDocument, analysis: Analysis) -> str:
    """Return what was asked, of whom."""
    stated = {key: _settings(document.spec.get(key, {})) for key in ("domain", "prior")}
    return _section(
        "The question",
        terms(
            [
                ("Data set (account)", code(document.account)),
                ("Model", f"{code(document.model)}: {text(model_type(document.model).summary)}"),
                ("Mechanism", code(document.mechanism)),
                *((key.capitalize(), text(value)) for key, value in stated.items() if value),
                *([("Bounds", text(bounds_text(document)))] if bounds_text(document) else []),
                ("One record", text(document.record_unit)),
                ("Number of records", text(records_text(document))),
                ("Data opened", f"<time>{text(document.created)}</time>"),
            ]
        ),
    )


def guarantee(document: ReleaseDocument, analysis: Analysis) -> str:
    """Return what is promised, in plain words."""
    promised = document.guarantee
    curve = [[f"{order:g}", f"{value:.6g}"] for order, value in (promised.rdp or [])[:_MANY]]
    return _section(
        "The guarantee",
        paragraph(_promise(document), "headline"),
        paragraph(prose(guarantee_meaning(document))),
        paragraph(prose(odds_text(promised))) if odds_text(promised) else "",
        table("Renyi divergence by order", ["order", "divergence at most"], curve) if curve else "",
    )


def released(document: ReleaseDocument, analysis: Analysis) -> str:
    """Return what left the custodian's hands."""
    if document.draws:
        names = list(document.posterior)[:_MANY]
        rows = [[str(i), *(f"{x:.6g}" for x in draw[:_MANY])] for i, draw in enumerate(document.draws[:_MANY], 1)]
        shown = table(f"The released {draws_word(document)}", [draws_word(document)[:-1], *names], rows)
        more = _more(len(document.draws), document.inference.samples_file)
    else:
        rows = [
            [item.name, str(item.value), f"{item.noise_scale:.6g}", document.meanings.get(item.name, "")]
            for item in document.statistics[:_MANY]
        ]
        heads = ["statistic", "released value", "noise scale", "what a record adds"]
        shown = table("The released statistics", heads, rows)
        more = _more(len(document.statistics), "statistics.csv") + _of_tables(document)
    return _section("What was released", paragraph(prose(released_text(document))), shown, more)


def posterior(document: ReleaseDocument, analysis: Analysis) -> str:
    """Return the posterior as a table and as plots; nothing for estimates, which have none."""
    if are_estimates(document):
        return ""
    rows = [_summary(name, summary) for name, summary in list(document.posterior.items())[:_MANY]]
    listed_ones = table("Posterior of each parameter", ["parameter", "mean", "sd", "5 %", "median", "95 %"], rows)
    pictures = posterior_pictures(document, analysis)
    intervals = [picture for picture in pictures if picture.name == "intervals"]
    densities = [picture for picture in pictures if picture not in intervals]
    return _section(
        "The posterior",
        listed_ones,
        _more(len(document.posterior), "release.json"),
        *shown(intervals),
        gallery(shown(densities)) if densities else "",
        paragraph(f"The first {len(densities)} of {len(document.posterior)} parameters are drawn.", "quiet")
        if 0 < len(densities) < len(document.posterior)
        else "",
    )


def estimate(document: ReleaseDocument, analysis: Analysis) -> str:
    """Return the estimates of the mode, their mean where there are several; nothing for other releases."""
    if not are_estimates(document):
        return ""
    rows = [[name, f"{summary.mean:.6g}"] for name, summary in list(document.posterior.items())[:_MANY]]
    pictures = posterior_pictures(document, analysis)
    return _section(
        ESTIMATE_HEADING,
        table("The estimates", ["parameter", "mean of the estimates" if len(document.draws) > 1 else "estimate"], rows),
        _more(len(document.posterior), "release.json"),
        gallery(shown(pictures)) if pictures else "",
    )


def width(document: ReleaseDocument, analysis: Analysis) -> str:
    """Return how much of the posterior's width is there because of privacy."""
    if not document.width:
        return ""
    rows, bars = [], []
    for name, parts in list(document.width.items())[:_MANY]:
        share = noise_share(document, name)
        sd = document.posterior[name].sd or 0.0
        rows.append([name, f"{sd:.4g}", f"{parts.sd_data:.4g}", f"{parts.sd_noise:.4g}", f"{share:.1%}"])
        bars.append(share_bar(share))
    columns = ["parameter", "sd", "because of the data", "because of privacy", "privacy's share of the variance"]
    return _section(
        "How wide, and why",
        paragraph(prose(width_text(document))),
        table("Where the width comes from", columns, rows, bars),
        _more(len(document.width), "release.json"),
    )


def computed(document: ReleaseDocument, analysis: Analysis) -> str:
    """Return how the posterior was computed."""
    exact = "The samples are independent draws: there is no chain, and nothing that had to converge."
    return _section(
        "How it was computed",
        paragraph(prose(computed_text(document))),
        paragraph(exact) if document.inference.exact and not document.draws else "",
        *(paragraph(f"Warning: {prose(warning)}.", "warned") for warning in document.inference.warnings),
    )


def diagnostics(document: ReleaseDocument, analysis: Analysis) -> str:
    """Return how far the Markov chains can be trusted, where there were any."""
    if analysis.chains is None:
        return ""
    found = document.inference.diagnostics
    rows = [
        [title, "-" if found.get(key) is None else f"{found[key]:.4g}", good]
        for key, title, good in (
            ("r_hat", "R-hat", "at most 1.01"),
            ("ess_bulk", "effective sample size, center", "at least 400"),
            ("ess_tail", "effective sample size, tails", "at least 400"),
        )
        if key in found
    ]
    return _section(
        "Diagnostics",
        paragraph(
            "Several chains started from different places. If they have forgotten where, their traces overlap and "
            "their ranks among all draws are even: the bars stay near the dashed line."
        ),
        table("The worst over all parameters", ["diagnostic", "value", "good"], rows),
        *(
            f"<h3>{text(name)}</h3>\n{gallery(shown(pictures), 'pair')}"
            for name, pictures in chain_pictures(analysis.parameters, analysis.chains)
        ),
    )


def assumptions(document: ReleaseDocument, analysis: Analysis) -> str:
    """Return what the guarantee and the posterior rest on."""
    return _section("Assumptions", listed(prose(item) for item in document.assumptions))


def corrections(document: ReleaseDocument, analysis: Analysis) -> str:
    """Return what differs from the papers."""
    return _section("Corrections to the papers", listed(prose(item) for item in document.corrections))


def proof(document: ReleaseDocument, analysis: Analysis) -> str:
    """Return how to check what was spent."""
    return _section("Proof of what was spent", paragraph(prose(ledger_note(document))))


def going_on(document: ReleaseDocument, analysis: Analysis) -> str:
    """Return what else the bundle is good for."""
    return _section(
        "Going on",
        *(
            f"<pre><code>{text(part)}</code></pre>" if part == REUSE_COMMAND else paragraph(prose(part))
            for part in reuse_texts(document)
        ),
    )


SECTIONS: dict[str, Part] = {
    "The question": question,
    "The guarantee": guarantee,
    "What was released": released,
    "The posterior": posterior,
    ESTIMATE_HEADING: estimate,
    "The network": lambda document, _: network_section(identifier_of("The network"), document),
    "The states": lambda document, _: hmm_section(identifier_of("The states"), document),
    "How wide, and why": width,
    "How it was computed": computed,
    "Diagnostics": diagnostics,
    "Assumptions": assumptions,
    "Corrections to the papers": corrections,
    "Proof of what was spent": proof,
    "Going on": going_on,
}
"""The sections of the page, in their order."""


def _of_tables(document: ReleaseDocument) -> str:
    """Return what a record adds to each table, where statistics are the cells of tables."""
    of_tables = list(table_meanings(document).items())
    if not of_tables:
        return ""
    rows = [[name, meaning] for name, meaning in of_tables[:_MANY]]
    return table("What a record adds to a table", ["table", "what a record adds"], rows) + _more(
        len(of_tables), "release.json"
    )


def _section(title: str, *parts: str) -> str:
    return section(identifier_of(title), title, parts)


def _header(document: ReleaseDocument) -> str:
    about = f"{code(document.model)} released through {code(document.mechanism)}, {text(document.created)}"
    return (
        f"<h1>Private posterior release {code(document.release_id)}</h1>\n"
        f"{paragraph(about, 'quiet')}\n{paragraph(_promise(document), 'headline')}"
    )


def _promise(document: ReleaseDocument) -> str:
    promised = document.guarantee
    return text(f"{guarantee_text(promised)} ({promised.kind}, {promised.neighbors} neighbours)")


def _warnings(document: ReleaseDocument) -> str:
    """Return the warnings, which stand above everything else."""
    warnings = document.inference.warnings
    if not warnings:
        return ""
    title = "Warning" if len(warnings) == 1 else "Warnings"
    heading = f'<h2 id="warnings-heading">{title}</h2>'
    items = listed(prose(f"{warning[:1].upper()}{warning[1:]}.") for warning in warnings)
    return f'<aside class="warnings" aria-labelledby="warnings-heading">\n{heading}\n{items}\n</aside>'


def _footer(document: ReleaseDocument) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in document.software.items())
    return paragraph(text(f"Made from release.json alone. Computed with {versions}."))


def _summary(name: str, summary: ParameterSummary) -> list[str]:
    numbers = (summary.mean, summary.sd, summary.q05, summary.q50, summary.q95)
    return [name, *("-" if number is None else f"{number:.6g}" for number in numbers)]


def _settings(value: Any) -> str:
    """Return a part of the spec in one line; long lists are cut."""
    if isinstance(value, Mapping):
        return "; ".join(f"{key} {_settings(item)}" for key, item in value.items() if item is not None)
    if isinstance(value, list):
        more = f" and {len(value) - _LISTED} more" if len(value) > _LISTED else ""
        return ", ".join(_settings(item) for item in value[:_LISTED]) + more
    return f"{value:g}" if isinstance(value, float) else str(value)


def _more(count: int, where: str) -> str:
    return paragraph(prose(f"{count - _MANY} more rows are in `{where}`."), "quiet") if count > _MANY else ""
