"""The figures of a study, as SVG: KS distance and MMD against n, and how the ranks are distributed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.measures import ks_band
from dpbayes_cli.experiments.results import Results
from dpbayes_cli.experiments.study import Study
from dpbayes_cli.figures import new_figure, svg_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = {
    "noise-aware": ("tab:blue", "o"),
    "naive": ("tab:red", "s"),
    "ops": ("tab:orange", "^"),
    "non-private": ("0.35", "d"),
}
_PANEL = 3.2


def charts(study: Study, results: Results) -> dict[str, str]:
    """Return the figures by their file names."""
    found = {"ks.svg": _against_n(study, results, "ks", "KS distance of the ranks")}
    for name in study.cases:
        found[f"ranks-{name}.svg"] = _ranks(study, name, results)
    if study.mmd:
        found["mmd.svg"] = _against_n(study, results, "mmd", "MMD to the non-private posterior")
    return found


def _against_n(study: Study, results: Results, measure: str, title: str) -> str:
    """Draw one panel a case and epsilon, one line a method, on log axes."""

    def draw(axes: Axes, name: str, epsilon: str) -> None:
        for method in study.methods:
            points = [
                (cell.n_records, result.measures[measure])
                for cell, result in results
                if (cell.name, cell.epsilon, cell.method) == (name, epsilon, method)
            ]
            drawn = [(n, value) for n, value in points if value]
            if drawn:
                color, marker = _STYLES[method]
                axes.plot(*zip(*drawn, strict=True), color=color, marker=marker, markersize=4, label=method)
        if measure == "ks":
            axes.axhspan(1e-4, ks_band(study.trials), color="0.9", zorder=0)
            axes.set_ylim(0.005, 1.2)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("number of records n")
        axes.set_title(f"{name}, epsilon {epsilon}", fontsize=9)

    band = f"; grey: 95 % of {study.trials} uniform ranks" if measure == "ks" else ""
    panels = [(name, epsilon) for epsilon in study.epsilon for name in study.cases]
    return _panels(panels, len(study.cases), draw, f"{title}{band}")


def _ranks(study: Study, name: str, results: Results) -> str:
    """Draw the empirical distribution of the ranks, one panel an epsilon and n, one line a method."""

    def draw(axes: Axes, epsilon: str, n: int) -> None:
        for cell, result in results:
            if (cell.name, cell.epsilon, cell.n_records) == (name, epsilon, n):
                axes.ecdf(result.ranks, color=_STYLES[cell.method][0], linewidth=1.2, label=cell.method)
        band = ks_band(study.trials)
        axes.fill_between([0.0, 1.0], [-band, 1.0 - band], [band, 1.0 + band], color="0.9", zorder=0)
        axes.set_xlim(0.0, 1.0)
        axes.set_ylim(0.0, 1.0)
        axes.set_title(f"n {n}, epsilon {epsilon}", fontsize=9)

    panels = [(epsilon, n) for epsilon in study.epsilon for n in study.n]
    return _panels(panels, len(study.n), draw, f"Ranks of the true parameter, {name}")


def _panels(panels: Iterable[tuple[Any, Any]], columns: int, draw: Callable[[Axes, Any, Any], None], title: str) -> str:
    """Draw a grid of panels under a title that is stamped, with one legend."""
    keys = list(panels)
    height = -(-len(keys) // columns)
    figure = new_figure(max(5.0, _PANEL * columns), _PANEL * height + 0.9)
    axes = figure.subplots(height, columns, squeeze=False, sharey=True)
    for place, key in zip(axes.flat, keys, strict=True):
        draw(place, *key)
    shown: dict[str, Any] = {}
    for place in axes.flat:
        lines, labels = place.get_legend_handles_labels()
        shown.update(zip(labels, lines, strict=True))
    if shown:
        where: Any = {"loc": "outside lower center", "ncols": len(shown), "fontsize": 9, "frameon": False}
        figure.legend(list(shown.values()), list(shown), **where)
    figure.suptitle(f"{title}\n{NOT_PRIVATE}", fontsize=10)
    return svg_text(figure)
