"""Choose and draw the figures of the page, with their captions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbayes_cli.bundle.report.guarantee_plot import guarantee_plots
from dpbayes_cli.bundle.report.inline_svg import Picture
from dpbayes_cli.bundle.report.model_sections import DrawnSection, drawn_sections
from dpbayes_cli.bundle.report.plots import density_plot, interval_plot, rank_plot, trace_plot
from dpbayes_cli.bundle.report.report_context import EMPTY_CONTEXT, ReportContext
from dpbayes_cli.bundle.report.wording import are_estimates, draws_word

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.bundle.analysis import Analysis
    from dpbayes_cli.bundle.document import ParameterSummary, ReleaseDocument
    from dpbayes_cli.bundle.report.report_context import Expected

_MAX_INTERVALS = 40
_MAX_DENSITIES = 12
_MAX_TRACED = 4


@dataclass(frozen=True)
class PageFigures:
    """The figures of the page, by section.

    Attributes:
        guarantee: the curves of the guarantee; empty if the guarantee could not be recomputed.
        intervals: one figure with the intervals of the first parameters; empty if there is only one parameter.
        densities: the posterior densities of the first parameters, or the spread of several estimates.
        sections: the sections that the model declares, which replace the intervals and densities.
        chains: the first parameters, each with its trace plot and rank histograms.
    """

    guarantee: list[Picture]
    intervals: list[Picture]
    densities: list[Picture]
    sections: list[DrawnSection]
    chains: list[tuple[str, list[Picture]]]

    @property
    def pictures(self) -> list[Picture]:
        """All figures, in their order in the page."""
        groups = [self.guarantee, self.intervals, self.densities]
        groups += [section.pictures for section in self.sections] + [pictures for _, pictures in self.chains]
        return [picture for group in groups for picture in group]


def page_figures(document: ReleaseDocument, analysis: Analysis, context: ReportContext = EMPTY_CONTEXT) -> PageFigures:
    """Draw the figures of the page, each with a unique name.

    Args:
        analysis: the posterior of the release, computed again by ``analysis_of``.
        context: what the page shows in addition to the bundle.
    """
    guarantee, stated = context.guarantee, document.guarantee
    intervals, densities = _posterior_pictures(document, analysis, context.expected)
    return PageFigures(
        [] if guarantee is None else guarantee_plots(guarantee, stated.epsilon, stated.delta),
        intervals,
        densities,
        list(drawn_sections(document, analysis.model)),
        [] if analysis.chains is None else _chain_pictures(analysis.parameters, analysis.chains),
    )


def _posterior_pictures(
    document: ReleaseDocument, analysis: Analysis, expected: Expected | None
) -> tuple[list[Picture], list[Picture]]:
    """Return the figures of intervals and of densities."""
    if analysis.model.sections():
        return [], []
    if are_estimates(document):
        return [], _density_pictures(document, analysis, None) if len(document.draws) > 1 else []
    return _interval_pictures(document), _density_pictures(document, analysis, expected)


def _density_pictures(document: ReleaseDocument, analysis: Analysis, expected: Expected | None) -> list[Picture]:
    """Return the densities of the first parameters; if known, each shows the width that was expected without
    privacy."""
    summaries = list(document.posterior.items())[:_MAX_DENSITIES]
    what = f"Released {draws_word(document)}" if document.draws else "Posterior density"
    pictures = []
    for place, (parameter, summary) in enumerate(summaries):
        samples, name = analysis.samples[:, place], f"density-{place}"
        caption = (
            _draws_text(parameter, samples, draws_word(document))
            if document.draws
            else _summary_text(parameter, summary)
        )
        width = expected.widths.get(parameter) if expected is not None else None
        if width is not None:
            caption += (
                f". The bar at the top shows the width of the 90 % interval that was expected without privacy, "
                f"{width.interval_width:.4g}; the position of the bar has no meaning"
            )
        length = None if width is None else width.interval_width
        svg = density_plot(samples, summary, name, f"{what} of {caption}", alone=len(summaries) == 1, expected=length)
        pictures.append(Picture(name, svg, caption))
    return pictures


def _interval_pictures(document: ReleaseDocument) -> list[Picture]:
    drawn, n_parameters = dict(list(document.posterior.items())[:_MAX_INTERVALS]), len(document.posterior)
    if len(drawn) < 2:
        return []
    which = f"the first {len(drawn)} of {n_parameters}" if n_parameters > len(drawn) else "all"
    have_intervals = all(p.q05 is not None for p in drawn.values())
    what = "Medians and 90 % intervals" if have_intervals else f"The {draws_word(document)[:-1]}"
    caption = f"{what} of {which} parameters"
    svg = interval_plot(drawn, "intervals", f"{caption}; the numbers are in the table above")
    return [Picture("intervals", svg, caption)]


def _chain_pictures(parameters: Sequence[str], chains: Floats) -> list[tuple[str, list[Picture]]]:
    pictures = []
    for place, parameter in enumerate(parameters[:_MAX_TRACED]):
        draws, trace, ranks = chains[:, :, place], f"trace-{place}", f"ranks-{place}"
        trace_caption = f"Trace of {parameter}, {len(draws)} chains"
        ranks_caption = f"Ranks of {parameter} by chain, among all draws"
        pair = [
            Picture(trace, trace_plot(draws, trace, trace_caption), trace_caption),
            Picture(ranks, rank_plot(draws, ranks, ranks_caption), ranks_caption),
        ]
        pictures.append((parameter, pair))
    return pictures


def _summary_text(name: str, summary: ParameterSummary) -> str:
    if summary.q05 is None or summary.q50 is None or summary.q95 is None:
        return f"{name}: {summary.mean:.4g}"
    return f"{name}: median {summary.q50:.4g}, 90 % between {summary.q05:.4g} and {summary.q95:.4g}"


def _draws_text(name: str, draws: Floats, word: str) -> str:
    if len(draws) == 1:
        return f"{name}: one {word[:-1]}, {draws[0]:.4g}"
    return f"{name}: {len(draws)} {word} between {draws.min():.4g} and {draws.max():.4g}"
