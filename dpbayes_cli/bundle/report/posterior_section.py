"""The posterior, or the estimates of its mode, on the page: how wide it is, why, and how wide it could have been."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbayes_cli.bundle.report.markup import cut, gallery, paragraph, prose, share_bar, table, titled
from dpbayes_cli.bundle.report.page_figures import posterior_pictures, shown
from dpbayes_cli.bundle.report.wording import ESTIMATE_HEADING, are_estimates, noise_share, width_text

if TYPE_CHECKING:
    from dpbayes_cli.bundle.analysis import Analysis
    from dpbayes_cli.bundle.document import ParameterSummary, ReleaseDocument
    from dpbayes_cli.bundle.report.report_context import Expected, ReportContext

_MANY = 40


def posterior_section(document: ReleaseDocument, analysis: Analysis, beside: ReportContext) -> str:
    """Return the posterior as a table and as plots; nothing for estimates, which have none."""
    if are_estimates(document):
        return ""
    rows = [_summary(name, summary) for name, summary in list(document.posterior.items())[:_MANY]]
    listed_ones = table("Posterior of each parameter", ["parameter", "mean", "sd", "5 %", "median", "95 %"], rows)
    pictures = posterior_pictures(document, analysis, beside.expected)
    intervals = [picture for picture in pictures if picture.name == "intervals"]
    densities = [picture for picture in pictures if picture not in intervals]
    return titled(
        "The posterior",
        listed_ones,
        cut(len(document.posterior), _MANY, "release.json"),
        *shown(intervals),
        gallery(shown(densities)) if densities else "",
        paragraph(f"The first {len(densities)} of {len(document.posterior)} parameters are drawn.", "quiet")
        if 0 < len(densities) < len(document.posterior)
        else "",
    )


def estimate_section(document: ReleaseDocument, analysis: Analysis, beside: ReportContext) -> str:
    """Return the estimates of the mode, their mean where there are several; nothing for other releases."""
    if not are_estimates(document):
        return ""
    rows = [[name, f"{summary.mean:.6g}"] for name, summary in list(document.posterior.items())[:_MANY]]
    pictures = posterior_pictures(document, analysis)
    return titled(
        ESTIMATE_HEADING,
        table("The estimates", ["parameter", "mean of the estimates" if len(document.draws) > 1 else "estimate"], rows),
        cut(len(document.posterior), _MANY, "release.json"),
        gallery(shown(pictures)) if pictures else "",
    )


def width_section(document: ReleaseDocument, analysis: Analysis, beside: ReportContext) -> str:
    """Return how much of the posterior's width is there because of privacy, and what was to be expected without."""
    expected = None if are_estimates(document) else beside.expected
    if not document.width and expected is None:
        return ""
    rows, bars = [], []
    for name, parts in list(document.width.items())[:_MANY]:
        share = noise_share(document, name)
        sd = document.posterior[name].sd or 0.0
        rows.append([name, f"{sd:.4g}", f"{parts.sd_data:.4g}", f"{parts.sd_noise:.4g}", f"{share:.1%}"])
        bars.append(share_bar(share))
    columns = ["parameter", "sd", "because of the data", "because of privacy", "privacy's share of the variance"]
    split = (
        paragraph(prose(width_text(document))),
        table("Where the width comes from", columns, rows, bars),
        cut(len(document.width), _MANY, "release.json"),
    )
    return titled(
        "How wide, and why",
        *(split if document.width else ()),
        *(_expected(document, expected) if expected is not None else ()),
    )


def _expected(document: ReleaseDocument, expected: Expected) -> list[str]:
    """Return how wide the posterior could be expected to be without privacy."""
    heading = "<h3>Without privacy, as expected before the data</h3>"
    if not expected.widths:
        return [heading, paragraph(prose(f"Not known. {expected.reason_unknown}"))]
    rows = []
    for name, width in list(expected.widths.items())[:_MANY]:
        summary = document.posterior[name]
        middle = None if summary.q05 is None or summary.q95 is None else summary.q95 - summary.q05
        rows.append(
            [name, "-" if middle is None else f"{middle:.4g}", f"{width.interval_width:.4g}", f"{width.sd:.4g}"]
        )
    columns = ["parameter", "90 % interval, as released", "90 % interval, expected without privacy", "sd, expected"]
    return [
        heading,
        paragraph(
            f"Parameters from the prior, {expected.n_records:,} records from the model, all of them valid, and the "
            f"posterior without noise: medians over {expected.trials} such data sets. The data that were released from "
            "are not in it, and how wide their posterior would have been without privacy is not told anywhere."
        ),
        paragraph(_of_draws(document, expected)) if expected.drawn_sd and expected.drawn_nonprivate_sd else "",
        table("Widths that were to be expected without privacy", columns, rows),
        cut(len(expected.widths), _MANY, "release.json"),
    ]


def _of_draws(document: ReleaseDocument, expected: Expected) -> str:
    """Return how much wider than the posterior the law of the draws is, in a sentence."""
    drawn, free = expected.drawn_sd or 0.0, expected.drawn_nonprivate_sd or 0.0
    share = max(0.0, 1.0 - (free / drawn) ** 2)
    return prose(
        f"The law that `{next(iter(document.posterior))}` was drawn from has in the same way an expected sd of "
        f"{drawn:.4g}, and the posterior without privacy one of {free:.4g} (root mean squares): privacy's share of the "
        f"variance is {share:.1%}."
    )


def _summary(name: str, summary: ParameterSummary) -> list[str]:
    numbers = (summary.mean, summary.sd, summary.q05, summary.q50, summary.q95)
    return [name, *("-" if number is None else f"{number:.6g}" for number in numbers)]
