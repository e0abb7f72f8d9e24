"""The report in Markdown: what was released, with what guarantee, against whom, under which assumptions."""

from __future__ import annotations

from dpbayes_cli.bundle.document import ReleasedGuarantee, ReleaseDocument
from dpbayes_cli.numeric import float_text

_MANY = 40
"""Longer tables are cut; the files hold the rest."""


def report_markdown(document: ReleaseDocument, head_note: str) -> bytes:
    """Return the bytes of ``report.md``.

    Args:
        document: the release.
        head_note: how to check the release against the ledger.
    """
    sections = [
        f"# Private posterior release `{document.release_id}`",
        _question(document),
        _guarantee(document),
        _draws(document) if document.draws else _statistics(document),
        _posterior(document),
        *([_width(document)] if document.width else []),
        _list("Assumptions", document.assumptions),
        _list("Corrections to the papers", document.corrections),
        f"## Proof of what was spent\n\n{head_note}",
        _again(document),
    ]
    return ("\n\n".join(sections) + "\n").encode("utf-8")


def _question(document: ReleaseDocument) -> str:
    records = (
        "private" if document.n_records is None else f"{document.n_records:,} (public under replace-one neighbours)"
    )
    lines = [
        f"- Data set (account): `{document.account}`",
        f"- Model: `{document.model}`; mechanism: `{document.mechanism}`",
        f"- One record: one {document.record_unit}; number of records: {records}",
        f"- Sealed: {document.created}",
    ]
    return "## The question\n\n" + "\n".join(lines)


def guarantee_text(guarantee: ReleasedGuarantee) -> str:
    """Return a guarantee in one line, its own notion first."""
    parts = []
    if guarantee.rho is not None:
        parts.append(f"rho {float_text(guarantee.rho)}")
    if guarantee.kind == "rdp":
        below = f" below order {guarantee.order_max:.6g}" if guarantee.order_max is not None else ""
        parts.append(f"Renyi curve{below}")
    if guarantee.epsilon is not None:
        parts.append(f"epsilon {float_text(guarantee.epsilon)}, delta {float_text(guarantee.delta)}")
    return ", ".join(parts)


def _guarantee(document: ReleaseDocument) -> str:
    guarantee = document.guarantee
    neighbors = {
        "replace-one": "the content of one record, the number of records being the same",
        "add-remove": "the presence of one record",
    }[guarantee.neighbors]
    meaning = (
        "Whoever sees this bundle, with whatever else they know and however much they compute, can hardly tell two "
        f"data sets apart that differ in {neighbors}"
    )
    if guarantee.epsilon is not None:
        epsilon, but = float_text(guarantee.epsilon), ""
        if guarantee.delta > 0:
            but = f" but for an event of probability {float_text(guarantee.delta)},"
        meaning += (
            f":{but} any conclusion they draw was at most exp({epsilon}) = {_factor(guarantee.epsilon)} times as "
            f"likely "
            "with one as with the other"
        )
    unit = f"The privacy unit is {document.privacy_unit}."
    headline = f"**{guarantee_text(guarantee)}** ({guarantee.kind}, {guarantee.neighbors} neighbours)."
    sections = ["## The guarantee", headline, f"{meaning}. {unit}"]
    if guarantee.rdp:
        rows = "\n".join(f"| {order:g} | {value:.6g} |" for order, value in guarantee.rdp)
        sections.append(f"| order | Renyi divergence at most |\n|---:|---:|\n{rows}")
    return "\n\n".join(sections)


def _factor(epsilon: float) -> str:
    return f"{2.718281828459045**epsilon:.3g}" if epsilon < 50 else "an astronomical number of"


def _draws(document: ReleaseDocument) -> str:
    names = list(document.posterior)
    rows = [
        f"| {i} | " + " | ".join(f"{x:.6g}" for x in draw[:_MANY]) + " |" for i, draw in enumerate(document.draws, 1)
    ]
    head = "| draw | " + " | ".join(_cell(name) for name in names[:_MANY]) + " |\n|---:|" + "---:|" * len(names[:_MANY])
    found = ", ".join(f"{name} {value}" for name, value in document.parameters.items())
    return (
        f"## What was released\n\n{len(document.draws)} draws from a private posterior ({found}), and nothing else: no "
        f"statistic, and no summary of the data.\n\n{head}\n"
        + "\n".join(rows)
        + _more(len(document.draws), f"samples.{document.inference.samples_format}")
    )


def _statistics(document: ReleaseDocument) -> str:
    noise = document.noise.law.replace("-", " ") if document.noise else "no"
    rows = [f"| {_cell(item.name)} | {item.value} | {item.noise_scale:.6g} |" for item in document.statistics[:_MANY]]
    return (
        "## What was released\n\n"
        f"Exact integer statistics plus independent {noise} noise. A value may be negative or too large; it "
        "is published as drawn, because cutting it would bias what follows.\n\n"
        "| statistic | released value | noise scale (counts) |\n|---|---:|---:|\n"
        + "\n".join(rows)
        + _more(len(document.statistics), "statistics.csv")
    )


def _posterior(document: ReleaseDocument) -> str:
    rows = [
        f"| {_cell(name)} | {p.mean:.6g} | {_number(p.sd)} | {_number(p.q05)} | {_number(p.q50)} | {_number(p.q95)} |"
        for name, p in list(document.posterior.items())[:_MANY]
    ]
    how = f"{document.inference.method}: {document.inference.how}."
    if document.inference.monte_carlo_error > 0:
        how += f" Monte-Carlo error of the means: at most {document.inference.monte_carlo_error:.2g} sd."
    warnings = "".join(f"\n\n**Warning: {warning}.**" for warning in document.inference.warnings)
    return (
        "## The posterior\n\n"
        "| parameter | mean | sd | 5 % | median | 95 % |\n|---|---:|---:|---:|---:|---:|\n"
        + "\n".join(rows)
        + _more(len(document.posterior), "release.json")
        + f"\n\n{how}{warnings}"
    )


def _width(document: ReleaseDocument) -> str:
    rows = []
    for name, width in list(document.width.items())[:_MANY]:
        sd = document.posterior[name].sd or 0.0
        share = (width.sd_noise / sd) ** 2 if sd > 0 else 0.0
        rows.append(f"| {_cell(name)} | {sd:.4g} | {width.sd_data:.4g} | {width.sd_noise:.4g} | {share:.1%} |")
    return (
        "## How wide, and why\n\n"
        "sd^2 = (data)^2 + (privacy)^2: what the data would leave if the true counts were known, and what not knowing "
        "them adds. Both are computed from the released values alone.\n\n"
        "| parameter | sd | because of the data | because of privacy | privacy's share of the variance |\n"
        "|---|---:|---:|---:|---:|\n" + "\n".join(rows) + _more(len(document.width), "release.json")
    )


def _list(title: str, items: list[str]) -> str:
    return f"## {title}\n\n" + "\n".join(f"- {item}" for item in items)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def _again(document: ReleaseDocument) -> str:
    if document.draws:
        return (
            "## Going on\n\nWhatever is computed from these draws costs nothing more, but there are no more of them "
            "for "
            f"free: each was paid for. `samples.{document.inference.samples_format}` holds them."
        )
    return (
        "## Going on\n\n"
        "Everything in this bundle is public, and whatever is computed from it costs nothing more:\n\n"
        "```\ndpbayes infer BUNDLE --samples 100000 --seed 1\n```\n\n"
        f"`samples.{document.inference.samples_format}` holds {document.inference.samples:,} posterior samples; "
        "`release.json` holds everything in machine-readable form."
    )


def _cell(text: str) -> str:
    """Return a text that cannot break out of a Markdown table cell."""
    for mark in "\\`|*_<>[]":
        text = text.replace(mark, "\\" + mark)
    return text


def _more(count: int, where: str) -> str:
    return f"\n\n{count - _MANY} more rows are in `{where}`." if count > _MANY else ""
