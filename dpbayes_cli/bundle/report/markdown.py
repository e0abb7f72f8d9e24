"""The report in Markdown: the request, the guarantee, what was released, the posterior, the assumptions."""

from __future__ import annotations

from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.report.network_section import tables_text
from dpbayes_cli.bundle.report.states_section import states_text
from dpbayes_cli.bundle.report.wording import (
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
    records_text,
    released_text,
    reuse_texts,
    table_meanings,
    width_text,
)

_MAX_ROWS = 40
"""Longer tables are cut; the files hold the rest."""


def report_markdown(document: ReleaseDocument) -> bytes:
    """Return the bytes of ``report.md``."""
    sections = [
        f"# Private posterior release `{document.release_id}`",
        _request(document),
        _guarantee(document),
        _draws(document) if document.draws else _statistics(document),
        _posterior(document),
        *([_width(document)] if document.width else []),
        _list("Assumptions", document.assumptions),
        _list("Corrections to the papers", document.corrections),
        f"## Proof of the charge\n\n{ledger_note(document)}",
        _reuse(document),
    ]
    return ("\n\n".join(sections) + "\n").encode("utf-8")


def _request(document: ReleaseDocument) -> str:
    lines = [
        f"- Data set (account): `{document.account}`",
        f"- Model: `{document.model}`; mechanism: `{document.mechanism}`",
        *([f"- Bounds: {bounds_text(document)}"] if bounds_text(document) else []),
        f"- One record: one {document.record_unit}; number of records: {records_text(document)}",
        f"- Data read: {document.created}",
    ]
    return "## The request\n\n" + "\n".join(lines)


def _guarantee(document: ReleaseDocument) -> str:
    guarantee = document.guarantee
    headline = f"**{guarantee_text(guarantee)}** ({guarantee.kind}, {guarantee.neighbors} neighbors)."
    sections = ["## The guarantee", headline, guarantee_meaning(document)]
    if guarantee.rdp:
        rows = "\n".join(f"| {order:g} | {value:.6g} |" for order, value in guarantee.rdp)
        sections.append(f"| order | Renyi divergence at most |\n|---:|---:|\n{rows}")
    return "\n\n".join(sections)


def _draws(document: ReleaseDocument) -> str:
    names = list(document.posterior)
    draws = enumerate(document.draws, 1)
    rows = [f"| {i} | " + " | ".join(f"{x:.6g}" for x in draw[:_MAX_ROWS]) + " |" for i, draw in draws]
    head = (
        f"| {draws_word(document)[:-1]} | "
        + " | ".join(_escape(name) for name in names[:_MAX_ROWS])
        + " |\n|---:|"
        + "---:|" * len(names[:_MAX_ROWS])
    )
    return (
        f"## What was released\n\n{released_text(document)}\n\n{head}\n"
        + "\n".join(rows)
        + _more(len(document.draws), document.inference.samples_file)
    )


def _statistics(document: ReleaseDocument) -> str:
    rows = [
        f"| {_escape(item.name)} | {item.value} | {item.noise_scale:.6g} | "
        f"{_escape(document.meanings.get(item.name, ''))} |"
        for item in document.statistics[:_MAX_ROWS]
    ]
    return (
        f"## What was released\n\n{released_text(document)}\n\n"
        "| statistic | released value | noise scale | what a record adds |\n|---|---:|---:|---|\n"
        + "\n".join(rows)
        + _more(len(document.statistics), "statistics.csv")
        + _of_tables(document)
    )


def _of_tables(document: ReleaseDocument) -> str:
    meanings = list(table_meanings(document).items())
    if not meanings:
        return ""
    rows = "\n".join(f"| {_escape(name)} | {_escape(meaning)} |" for name, meaning in meanings[:_MAX_ROWS])
    return f"\n\n| table | what a record adds |\n|---|---|\n{rows}" + _more(len(meanings), "release.json")


def _posterior(document: ReleaseDocument) -> str:
    if are_estimates(document):
        what = "mean of the estimates" if len(document.draws) > 1 else "estimate"
        rows = [f"| {_escape(name)} | {p.mean:.6g} |" for name, p in list(document.posterior.items())[:_MAX_ROWS]]
        return (
            f"## {ESTIMATE_HEADING}\n\n| parameter | {what} |\n|---|---:|\n"
            + "\n".join(rows)
            + _more(len(document.posterior), "release.json")
            + f"\n\n{computed_text(document)}"
        )
    rows = [
        f"| {_escape(name)} | {p.mean:.6g} | {_number(p.sd)} | {_number(p.q05)} | {_number(p.q50)} | {_number(p.q95)} |"
        for name, p in list(document.posterior.items())[:_MAX_ROWS]
    ]
    warnings = "".join(f"\n\n**Warning: {warning}.**" for warning in document.inference.warnings)
    return (
        "## The posterior\n\n"
        "| parameter | mean | sd | 5 % | median | 95 % |\n|---|---:|---:|---:|---:|---:|\n"
        + "\n".join(rows)
        + _more(len(document.posterior), "release.json")
        + f"\n\n{computed_text(document)}{_of_files(document)}{warnings}"
    )


def _of_files(document: ReleaseDocument) -> str:
    return "".join(f" {sentence}" for sentence in (tables_text(document), states_text(document)) if sentence)


def _width(document: ReleaseDocument) -> str:
    rows = []
    for name, width in list(document.width.items())[:_MAX_ROWS]:
        sd = document.posterior[name].sd or 0.0
        share = noise_share(document, name)
        rows.append(f"| {_escape(name)} | {sd:.4g} | {width.sd_data:.4g} | {width.sd_noise:.4g} | {share:.1%} |")
    return (
        f"## Width of the posterior\n\n{width_text(document)}\n\n"
        "| parameter | sd | because of the data | because of privacy | privacy's share of the variance |\n"
        "|---|---:|---:|---:|---:|\n" + "\n".join(rows) + _more(len(document.width), "release.json")
    )


def _list(title: str, items: list[str]) -> str:
    return f"## {title}\n\n" + "\n".join(f"- {_escape_markup(item)}" for item in items)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def _reuse(document: ReleaseDocument) -> str:
    parts = [f"```\n{part}\n```" if part == REUSE_COMMAND else part for part in reuse_texts(document)]
    return "\n\n".join(["## What you can do next", *parts])


def _escape(text: str) -> str:
    for mark in "\\`|*_<>[]":
        text = text.replace(mark, "\\" + mark)
    return text


def _escape_markup(sentence: str) -> str:
    """Escape markup and links in a sentence, which may name columns and values."""
    for mark in "<>[]":
        sentence = sentence.replace(mark, "\\" + mark)
    return sentence


def _more(count: int, where: str) -> str:
    return f"\n\n{count - _MAX_ROWS} more rows are in `{where}`." if count > _MAX_ROWS else ""
