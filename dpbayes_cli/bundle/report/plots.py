"""The plots of a report: densities and intervals of the posterior, traces and ranks of its Markov chains."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.bundle.document_parts import ParameterSummary
from dpbayes_cli.bundle.report.cut_text import cut_text
from dpbayes_cli.bundle.report.inline_svg import INK, LINE, QUIET, SERIES, blank_figure, inline_svg
from dpbayes_cli.privacy.lazy_numpy import np

_MIN_DENSITY_SAMPLES = 100  # if there are fewer samples, the plot shows a line for each sample instead of a density
_BINS = 512
_POINTS = 128
_MAX_TRACE_POINTS = 250
_RANK_BINS = 20
_CHAIN_FIGURE_SIZE = (4.8, 1.6)  # in inches
_LABEL_EMS = 18.0


def density_plot(
    samples: Floats,
    summary: ParameterSummary,
    ends: tuple[float, float] | None,
    name: str,
    label: str,
    *,
    alone: bool,
    width_bar: float | None = None,
    prior: tuple[Floats, Floats] | None = None,
) -> str:
    """Return a plot of the posterior density of one parameter; its interval is darker and a line marks the median.

    Args:
        samples: shape (n_samples,).
        alone: whether the page has no other density; the figure is then larger.
        width_bar: the width that a bar above the density shows for comparison; None draws no bar.
        prior: points and densities of the prior, each of shape (n_points,), for a dashed line; None draws no line.
    """
    figure, (panel,) = blank_figure(3.8, 2.0) if alone else blank_figure(3.2, 1.7)
    panel.set_yticks([])
    panel.locator_params(axis="x", nbins=4)
    low, high = float(samples.min()), float(samples.max())
    if len(samples) < _MIN_DENSITY_SAMPLES or high - low <= 1e-9 * max(abs(low), abs(high)):
        panel.vlines(samples, 0.0, 1.0, color=SERIES[0], linewidth=1.5, alpha=max(0.25, 1.0 / len(samples) ** 0.5))
    else:
        x, y = density(samples)
        panel.fill_between(x, y, color=SERIES[0], alpha=0.18, linewidth=0)
        panel.plot(x, y, color=SERIES[0], linewidth=1.3)
        if ends is not None:
            panel.fill_between(x, y, where=(x >= ends[0]) & (x <= ends[1]), color=SERIES[0], alpha=0.35, linewidth=0)
        if prior is not None:
            view = panel.get_xlim(), panel.get_ylim()
            panel.plot(*prior, color=QUIET, linewidth=1.0, linestyle=(0, (4, 2)))
            panel.set(xlim=view[0], ylim=view[1])
        if summary.q50 is not None:
            panel.axvline(summary.q50, color=INK, linewidth=1.0)
    if width_bar is not None:
        _draw_width_bar(panel, summary.mean if summary.q50 is None else summary.q50, width_bar)
    panel.set_ylim(bottom=0.0)
    return inline_svg(figure, name, label)


def _draw_width_bar(panel: Axes, middle: float, width: float) -> None:
    """Draw a bar of the given width above the density; if the bar does not fit, a dotted line crosses the whole
    plot."""
    low, high = panel.get_xlim()
    reach = max(3.0 * (high - low), 1e-9 * abs(middle))
    top = panel.get_ylim()[1]
    left, right = middle - width / 2.0, middle + width / 2.0
    if width <= reach or low >= high:
        panel.plot([left, right], [1.1 * top] * 2, color=SERIES[1], linewidth=2.2, marker="|", markersize=8)
    else:
        panel.plot([low, high], [1.1 * top] * 2, color=SERIES[1], linewidth=2.2, linestyle=(0, (1, 1)))
        panel.set_xlim(low, high)
    panel.set_ylim(top=1.22 * top)


def density(samples: Floats) -> tuple[Floats, Floats]:
    """Return points and densities between the smallest and the largest of several samples, all of shape (n,).

    The samples are mirrored at both ends; otherwise the estimate would be too low at an end where the density is
    positive. Repeated samples are worth less, so that the estimate is smoother.
    """
    from scipy.ndimage import gaussian_filter1d

    counts, edges = np.histogram(samples, _BINS)
    quarters = np.quantile(samples, [0.25, 0.75])
    spread = min(float(samples.std()), float(quarters[1] - quarters[0]) / 1.34) or float(samples.std())
    step = float(edges[1] - edges[0])
    repeats = np.unique(samples, return_counts=True)[1].astype(float)
    width = max(0.9 * spread * (len(samples) ** 2 / np.square(repeats).sum()) ** -0.2 / step, 1.0)
    reach = min(int(4 * width) + 1, _BINS)
    smooth = gaussian_filter1d(counts.astype(float), width, mode="reflect", radius=reach)
    centers = (edges[:-1] + edges[1:]) / 2.0
    return centers[:: _BINS // _POINTS], (smooth / (len(samples) * step))[:: _BINS // _POINTS]


def interval_plot(
    posterior: Mapping[str, ParameterSummary], ends: Mapping[str, tuple[float, float]], name: str, label: str
) -> str:
    """Return a plot of the medians and intervals of several parameters, one below the other."""
    figure, (panel,) = blank_figure(4.2, 0.45 + 0.21 * len(posterior))
    rows = range(len(posterior))
    for row, parameter in zip(rows, posterior, strict=True):
        if parameter in ends:
            panel.hlines(row, *ends[parameter], color=SERIES[0], linewidth=2.2, alpha=0.55)
    middles = [summary.mean if summary.q50 is None else summary.q50 for summary in posterior.values()]
    panel.plot(middles, rows, linestyle="none", marker="o", markersize=3.6, color=SERIES[0])
    panel.set_yticks(rows, [cut_text(parameter, _LABEL_EMS) for parameter in posterior], parse_math=False)
    panel.tick_params(axis="y", length=0, labelcolor=INK)
    panel.set_ylim(len(posterior) - 0.4, -0.6)
    panel.grid(axis="x", color=LINE, linewidth=0.5)
    panel.set_axisbelow(True)
    return inline_svg(figure, name, label)


def trace_plot(chains: Floats, name: str, label: str) -> str:
    """Return the trace plot of one parameter: a line for each chain through its draws, shape (n_chains, n_draws)."""
    figure, (panel,) = blank_figure(*_CHAIN_FIGURE_SIZE)
    shown = np.arange(0, chains.shape[1], -(-chains.shape[1] // _MAX_TRACE_POINTS))
    for chain, color in zip(chains, _colors(len(chains)), strict=True):
        panel.plot(shown + 1, chain[shown], color=color, linewidth=0.6, alpha=0.8)
    panel.locator_params(axis="y", nbins=4)
    panel.set_xlabel("draw")
    panel.margins(x=0.01)
    return inline_svg(figure, name, label)


def rank_plot(chains: Floats, name: str, label: str) -> str:
    """Return a plot with a histogram for each chain: the ranks of its draws among the draws of all chains.

    If the chains, of shape (n_chains, n_draws), mix well, the histograms are flat.
    """
    from dpbayes_cli.inference.diagnostics import rank_counts

    counts = rank_counts(chains, _RANK_BINS)
    figure, panels = blank_figure(*_CHAIN_FIGURE_SIZE, len(chains))
    for place, (panel, color) in enumerate(zip(panels, _colors(len(chains)), strict=True), 1):
        panel.stairs(counts[place - 1], fill=True, color=color, alpha=0.6)
        panel.axhline(chains.shape[1] / _RANK_BINS, color=QUIET, linewidth=0.9, linestyle=(0, (4, 2)))
        panel.set_ylim(0.0, max(float(counts.max()), 2.0 * chains.shape[1] / _RANK_BINS))
        panel.set_xticks([])
        panel.set_yticks([])
        panel.set_xlabel(f"chain {place}")
    return inline_svg(figure, name, label)


def _colors(count: int) -> list[str]:
    return [SERIES[i % len(SERIES)] for i in range(count)]
