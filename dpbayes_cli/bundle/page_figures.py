"""The figures of the page with their captions: which parameters are drawn, and what is said about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dpbayes_cli.bundle.markup import figure, gallery, text
from dpbayes_cli.bundle.plots import density_plot, interval_plot, rank_plot, trace_plot
from dpbayes_cli.bundle.wording import draws_word

if TYPE_CHECKING:
    from dpbayes_cli.bundle.analysis import Analysis
    from dpbayes_cli.bundle.document import ParameterSummary, ReleaseDocument
    from dpbayes_cli.numeric import Floats

_DENSITIES = 12
_TRACES = 4


def density_figures(document: ReleaseDocument, analysis: Analysis) -> list[str]:
    """Return the posterior densities of the first parameters."""
    shown = list(document.posterior.items())[:_DENSITIES]
    what = f"Released {draws_word(document)}" if document.draws else "Posterior density"
    figures = []
    for place, (name, summary) in enumerate(shown):
        samples = analysis.samples[:, place]
        words = _draws_in_words(name, samples, draws_word(document)) if document.draws else _in_words(name, summary)
        svg = density_plot(samples, summary, f"density-{place}", f"{what} of {words}", alone=len(shown) == 1)
        figures.append(figure(svg, words))
    return figures


def interval_figure(document: ReleaseDocument, most: int) -> str:
    """Return the intervals of the first parameters, or nothing where there is only one.

    Args:
        document: the release.
        most: how many parameters are shown.
    """
    shown = dict(list(document.posterior.items())[:most])
    if len(shown) < 2:
        return ""
    which = f"the first {len(shown)} of {len(document.posterior)}" if len(document.posterior) > most else "all"
    what = (
        "Medians and 90 % intervals"
        if all(p.q05 is not None for p in shown.values())
        else f"The {draws_word(document)[:-1]}"
    )
    caption = f"{what} of {which} parameters"
    return figure(interval_plot(shown, "intervals", f"{caption}; the numbers are in the table above"), caption)


def chain_figures(parameters: Sequence[str], chains: Floats) -> Iterator[str]:
    """Yield the traces and the rank histograms of the first parameters.

    Args:
        parameters: their names.
        chains: shape (n_chains, n_draws, n_parameters).
    """
    for place, name in enumerate(parameters[:_TRACES]):
        draws = chains[:, :, place]
        trace, ranks = f"Trace of {name}, {len(draws)} chains", f"Ranks of {name} by chain, among all draws"
        yield f"<h3>{text(name)}</h3>"
        plots = {trace: trace_plot(draws, f"trace-{place}", trace), ranks: rank_plot(draws, f"ranks-{place}", ranks)}
        yield gallery([figure(svg, caption) for caption, svg in plots.items()], "pair")


def _in_words(name: str, summary: ParameterSummary) -> str:
    if summary.q05 is None or summary.q50 is None or summary.q95 is None:
        return f"{name}: {summary.mean:.4g}"
    return f"{name}: median {summary.q50:.4g}, 90 % between {summary.q05:.4g} and {summary.q95:.4g}"


def _draws_in_words(name: str, draws: Floats, word: str) -> str:
    if len(draws) == 1:
        return f"{name}: one {word[:-1]}, {draws[0]:.4g}"
    return f"{name}: {len(draws)} {word} from {draws.min():.4g} to {draws.max():.4g}"
