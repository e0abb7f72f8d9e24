"""The figures of the page with their captions: which parameters are plotted, and what their captions say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from dpbayes_cli.bundle.report.inline_svg import Picture
from dpbayes_cli.bundle.report.markup import figure
from dpbayes_cli.bundle.report.plots import density_plot, interval_plot, rank_plot, trace_plot
from dpbayes_cli.bundle.report.wording import are_estimates, draws_word

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.bundle.analysis import Analysis
    from dpbayes_cli.bundle.document import ParameterSummary, ReleaseDocument
    from dpbayes_cli.bundle.report.report_context import Expected

_MAX_INTERVALS = 40
_MAX_DENSITIES = 12
_MAX_TRACED = 4


def scrolling_figure(picture: Picture) -> str:
    """Return a figure at readable width; it scrolls if the page is narrower."""
    wide = f'<div class="wide" tabindex="0" role="group" aria-label="drawing">{picture.svg}</div>'
    return figure(wide, picture.caption)


def figures_of(pictures: Iterable[Picture]) -> list[str]:
    """Return pictures as HTML figures with their captions."""
    return [figure(picture.svg, picture.caption) for picture in pictures]


def posterior_pictures(
    document: ReleaseDocument, analysis: Analysis, expected: Expected | None = None
) -> list[Picture]:
    """Return intervals and densities of the first parameters, or the spread of several estimates.

    Empty for models whose sections have pictures of their own.
    """
    if analysis.model.sections():
        return []
    if are_estimates(document):
        return density_pictures(document, analysis) if len(document.draws) > 1 else []
    return [*interval_pictures(document, _MAX_INTERVALS), *density_pictures(document, analysis, expected)]


def density_pictures(document: ReleaseDocument, analysis: Analysis, expected: Expected | None = None) -> list[Picture]:
    """Return the posterior densities of the first parameters, with the widths expected without privacy, if known."""
    summaries = list(document.posterior.items())[:_MAX_DENSITIES]
    what = f"Released {draws_word(document)}" if document.draws else "Posterior density"
    pictures = []
    for place, (parameter, summary) in enumerate(summaries):
        samples, name = analysis.samples[:, place], f"density-{place}"
        words = (
            _draws_text(parameter, samples, draws_word(document))
            if document.draws
            else _summary_text(parameter, summary)
        )
        width = expected.widths.get(parameter) if expected is not None else None
        if width is not None:
            words += (
                f". The bar above (only its length has a meaning) is the width of the 90 % interval expected without "
                f"privacy, {width.interval_width:.4g}"
            )
        length = None if width is None else width.interval_width
        svg = density_plot(samples, summary, name, f"{what} of {words}", alone=len(summaries) == 1, expected=length)
        pictures.append(Picture(name, svg, words))
    return pictures


def interval_pictures(document: ReleaseDocument, max_parameters: int) -> list[Picture]:
    """Return the intervals of the first parameters; empty if there is only one.

    Args:
        document: the release.
        max_parameters: how many parameters are shown at most.
    """
    drawn = dict(list(document.posterior.items())[:max_parameters])
    if len(drawn) < 2:
        return []
    n_parameters = len(document.posterior)
    which = f"the first {len(drawn)} of {n_parameters}" if n_parameters > max_parameters else "all"
    what = (
        "Medians and 90 % intervals"
        if all(p.q05 is not None for p in drawn.values())
        else f"The {draws_word(document)[:-1]}"
    )
    caption = f"{what} of {which} parameters"
    svg = interval_plot(drawn, "intervals", f"{caption}; the numbers are in the table above")
    return [Picture("intervals", svg, caption)]


def chain_pictures(parameters: Sequence[str], chains: Floats) -> Iterator[tuple[str, list[Picture]]]:
    """Yield the first parameters, each with its trace plot and rank histograms.

    Args:
        parameters: their names.
        chains: shape (n_chains, n_draws, n_parameters).
    """
    for place, parameter in enumerate(parameters[:_MAX_TRACED]):
        draws, trace, ranks = chains[:, :, place], f"trace-{place}", f"ranks-{place}"
        trace_caption = f"Trace of {parameter}, {len(draws)} chains"
        ranks_caption = f"Ranks of {parameter} by chain, among all draws"
        yield (
            parameter,
            [
                Picture(trace, trace_plot(draws, trace, trace_caption), trace_caption),
                Picture(ranks, rank_plot(draws, ranks, ranks_caption), ranks_caption),
            ],
        )


def summary_columns(document: ReleaseDocument) -> dict[str, Floats]:
    """Return mean, q05 and q95 of all parameters, shape (n_parameters,); the mean stands for missing quantiles."""
    import numpy as np

    summaries = document.posterior.values()
    return {
        "mean": np.array([p.mean for p in summaries]),
        "q05": np.array([p.mean if p.q05 is None else p.q05 for p in summaries]),
        "q95": np.array([p.mean if p.q95 is None else p.q95 for p in summaries]),
    }


def _summary_text(name: str, summary: ParameterSummary) -> str:
    if summary.q05 is None or summary.q50 is None or summary.q95 is None:
        return f"{name}: {summary.mean:.4g}"
    return f"{name}: median {summary.q50:.4g}, 90 % between {summary.q05:.4g} and {summary.q95:.4g}"


def _draws_text(name: str, draws: Floats, word: str) -> str:
    if len(draws) == 1:
        return f"{name}: one {word[:-1]}, {draws[0]:.4g}"
    return f"{name}: {len(draws)} {word} from {draws.min():.4g} to {draws.max():.4g}"
