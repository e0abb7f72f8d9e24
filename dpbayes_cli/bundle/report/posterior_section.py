"""The posterior, or the estimates of its mode, on the page: its width, and how much of it is because of privacy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbayes_cli.bundle.report.markup import gallery, more_rows_note, paragraph, prose, share_bar, table, titled_section
from dpbayes_cli.bundle.report.page_figures import figures_of, posterior_pictures
from dpbayes_cli.bundle.report.wording import ESTIMATE_HEADING, are_estimates, noise_share, width_text

if TYPE_CHECKING:
    from dpbayes_cli.bundle.analysis import Analysis
    from dpbayes_cli.bundle.document import ParameterSummary, ReleaseDocument
    from dpbayes_cli.bundle.report.report_context import Expected, ReportContext

_MAX_ROWS = 40


def posterior_section(document: ReleaseDocument, analysis: Analysis, context: ReportContext) -> str:
    """Return the posterior as a table and as plots; empty for estimates."""
    if are_estimates(document):
        return ""
    rows = [_summary_row(name, summary) for name, summary in list(document.posterior.items())[:_MAX_ROWS]]
    summary_table = table("Posterior of each parameter", ["parameter", "mean", "sd", "5 %", "median", "95 %"], rows)
    pictures = posterior_pictures(document, analysis, context.expected)
    intervals = [picture for picture in pictures if picture.name == "intervals"]
    densities = [picture for picture in pictures if picture not in intervals]
    return titled_section(
        "The posterior",
        summary_table,
        more_rows_note(len(document.posterior), _MAX_ROWS, "release.json"),
        *figures_of(intervals),
        gallery(figures_of(densities)) if densities else "",
        paragraph(f"The first {len(densities)} of {len(document.posterior)} parameters are plotted.", "quiet")
        if 0 < len(densities) < len(document.posterior)
        else "",
    )


def estimate_section(document: ReleaseDocument, analysis: Analysis, context: ReportContext) -> str:
    """Return the estimates of the mode, or the mean of several; empty for other releases."""
    if not are_estimates(document):
        return ""
    rows = [[name, f"{summary.mean:.6g}"] for name, summary in list(document.posterior.items())[:_MAX_ROWS]]
    pictures = posterior_pictures(document, analysis)
    return titled_section(
        ESTIMATE_HEADING,
        table("The estimates", ["parameter", "mean of the estimates" if len(document.draws) > 1 else "estimate"], rows),
        more_rows_note(len(document.posterior), _MAX_ROWS, "release.json"),
        gallery(figures_of(pictures)) if pictures else "",
    )


def width_section(document: ReleaseDocument, analysis: Analysis, context: ReportContext) -> str:
    """Return the share of the posterior's width that is because of privacy, and the width expected without privacy."""
    expected = None if are_estimates(document) else context.expected
    if not document.width and expected is None:
        return ""
    rows, bars = [], []
    for name, parts in list(document.width.items())[:_MAX_ROWS]:
        share = noise_share(document, name)
        sd = document.posterior[name].sd or 0.0
        rows.append([name, f"{sd:.4g}", f"{parts.sd_data:.4g}", f"{parts.sd_noise:.4g}", f"{share:.1%}"])
        bars.append(share_bar(share))
    columns = ["parameter", "sd", "because of the data", "because of privacy", "privacy's share of the variance"]
    split = (
        paragraph(prose(width_text(document))),
        table("Where the width comes from", columns, rows, bars),
        more_rows_note(len(document.width), _MAX_ROWS, "release.json"),
    )
    return titled_section(
        "Width of the posterior",
        *(split if document.width else ()),
        *(_expected(document, expected) if expected is not None else ()),
    )


def _expected(document: ReleaseDocument, expected: Expected) -> list[str]:
    heading = "<h3>Expected width without privacy</h3>"
    if not expected.widths:
        return [heading, paragraph(prose(f"Not known. {expected.reason_unknown}"))]
    rows = []
    for name, width in list(expected.widths.items())[:_MAX_ROWS]:
        summary = document.posterior[name]
        released = None if summary.q05 is None or summary.q95 is None else summary.q95 - summary.q05
        cells = ("-" if released is None else f"{released:.4g}", f"{width.interval_width:.4g}", f"{width.sd:.4g}")
        rows.append([name, *cells])
    columns = ["parameter", "width of the 90 % interval", "expected without privacy", "sd expected without privacy"]
    return [
        heading,
        paragraph(
            f"A simulation: parameters from the prior, {expected.n_records:,} valid records from the model, and their "
            f"posterior without noise; medians over {expected.trials} such data sets. The real data are not used, and "
            "how wide their posterior would have been without privacy is never revealed."
        ),
        paragraph(_of_draws(document, expected)) if expected.drawn_sd and expected.drawn_nonprivate_sd else "",
        table("Widths expected without privacy", columns, rows),
        more_rows_note(len(expected.widths), _MAX_ROWS, "release.json"),
    ]


def _of_draws(document: ReleaseDocument, expected: Expected) -> str:
    drawn, nonprivate = expected.drawn_sd or 0.0, expected.drawn_nonprivate_sd or 0.0
    share = max(0.0, 1.0 - (nonprivate / drawn) ** 2)
    return prose(
        f"In the same simulation, the distribution that `{next(iter(document.posterior))}` was drawn from has an "
        f"expected sd of {drawn:.4g}, and the posterior without privacy one of {nonprivate:.4g} (root mean squares): "
        f"privacy's share of the variance is {share:.1%}."
    )


def _summary_row(name: str, summary: ParameterSummary) -> list[str]:
    numbers = (summary.mean, summary.sd, summary.q05, summary.q50, summary.q95)
    return [name, *("-" if number is None else f"{number:.6g}" for number in numbers)]
