"""The figures of the page with their captions: which parameters are drawn, and what is said about them."""

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

_INTERVALS = 40
_DENSITIES = 12
_TRACES = 4


def scrolled(picture: Picture) -> str:
    """Return a figure that is as wide as it needs to be read, and scrolls where the page is narrower."""
    wide = f'<div class="wide" tabindex="0" role="group" aria-label="drawing">{picture.svg}</div>'
    return figure(wide, picture.caption)


def shown(pictures: Iterable[Picture]) -> list[str]:
    """Return pictures as figures with their captions."""
    return [figure(picture.svg, picture.caption) for picture in pictures]


def posterior_pictures(
    document: ReleaseDocument, analysis: Analysis, expected: Expected | None = None
) -> list[Picture]:
    """Return intervals and densities of the first parameters, or how far several estimates lie apart.

    Nothing of models whose sections have pictures of their own.
    """
    if analysis.model.sections():
        return []
    if are_estimates(document):
        return density_pictures(document, analysis) if len(document.draws) > 1 else []
    return [*interval_pictures(document, _INTERVALS), *density_pictures(document, analysis, expected)]


def density_pictures(document: ReleaseDocument, analysis: Analysis, expected: Expected | None = None) -> list[Picture]:
    """Return the posterior densities of the first parameters, with the widths that were to be expected of others."""
    drawn = list(document.posterior.items())[:_DENSITIES]
    what = f"Released {draws_word(document)}" if document.draws else "Posterior density"
    pictures = []
    for place, (parameter, summary) in enumerate(drawn):
        samples, name = analysis.samples[:, place], f"density-{place}"
        words = (
            _draws_in_words(parameter, samples, draws_word(document))
            if document.draws
            else _in_words(parameter, summary)
        )
        width = expected.widths.get(parameter) if expected is not None else None
        if width is not None:
            words += (
                f". Bar above, whose place says nothing: the width of 90 % that was to be expected without privacy, "
                f"before the data, {width.interval_width:.4g}"
            )
        middle = None if width is None else width.interval_width
        svg = density_plot(samples, summary, name, f"{what} of {words}", alone=len(drawn) == 1, expected=middle)
        pictures.append(Picture(name, svg, words))
    return pictures


def interval_pictures(document: ReleaseDocument, most: int) -> list[Picture]:
    """Return the intervals of the first parameters, or nothing where there is only one.

    Args:
        document: the release.
        most: how many parameters are shown.
    """
    drawn = dict(list(document.posterior.items())[:most])
    if len(drawn) < 2:
        return []
    which = f"the first {len(drawn)} of {len(document.posterior)}" if len(document.posterior) > most else "all"
    what = (
        "Medians and 90 % intervals"
        if all(p.q05 is not None for p in drawn.values())
        else f"The {draws_word(document)[:-1]}"
    )
    caption = f"{what} of {which} parameters"
    svg = interval_plot(drawn, "intervals", f"{caption}; the numbers are in the table above")
    return [Picture("intervals", svg, caption)]


def chain_pictures(parameters: Sequence[str], chains: Floats) -> Iterator[tuple[str, list[Picture]]]:
    """Yield the first parameters with their traces and rank histograms.

    Args:
        parameters: their names.
        chains: shape (n_chains, n_draws, n_parameters).
    """
    for place, parameter in enumerate(parameters[:_TRACES]):
        draws, trace, ranks = chains[:, :, place], f"trace-{place}", f"ranks-{place}"
        of_trace = f"Trace of {parameter}, {len(draws)} chains"
        of_ranks = f"Ranks of {parameter} by chain, among all draws"
        yield (
            parameter,
            [
                Picture(trace, trace_plot(draws, trace, of_trace), of_trace),
                Picture(ranks, rank_plot(draws, ranks, of_ranks), of_ranks),
            ],
        )


def summary_columns(document: ReleaseDocument) -> dict[str, Floats]:
    """Return mean, q05 and q95 of all parameters, shape (n_parameters,); the mean where there is no interval."""
    import numpy as np

    summaries = document.posterior.values()
    return {
        "mean": np.array([p.mean for p in summaries]),
        "q05": np.array([p.mean if p.q05 is None else p.q05 for p in summaries]),
        "q95": np.array([p.mean if p.q95 is None else p.q95 for p in summaries]),
    }


def _in_words(name: str, summary: ParameterSummary) -> str:
    if summary.q05 is None or summary.q50 is None or summary.q95 is None:
        return f"{name}: {summary.mean:.4g}"
    return f"{name}: median {summary.q50:.4g}, 90 % between {summary.q05:.4g} and {summary.q95:.4g}"


def _draws_in_words(name: str, draws: Floats, word: str) -> str:
    if len(draws) == 1:
        return f"{name}: one {word[:-1]}, {draws[0]:.4g}"
    return f"{name}: {len(draws)} {word} from {draws.min():.4g} to {draws.max():.4g}"
