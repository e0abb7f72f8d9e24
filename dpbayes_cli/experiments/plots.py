"""Figures of a study: panels with one line per method, and a title that states that they are not private."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes_cli.base.figures import new_figure, png_bytes, svg_text
from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.results import Result, Results, in_words, mean_difference

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = "os^dvP"


@dataclass(frozen=True)
class Plot:
    """A plot of a measure against a column: one line per method, with bars of two standard errors if known."""

    title: str
    y: str  # the measure on the vertical axis
    x: str = "epsilon"  # the column of numbers on the horizontal axis
    panels: tuple[str, ...] = ("case",)  # columns; each combination of their values has a panel
    across: str = ""  # a method that is drawn as a horizontal line
    level: str = ""  # a measure that is equal for all methods, drawn as a horizontal line
    dashed: str = ""  # a second measure of the methods, drawn as dashed lines
    short_of: str = ""  # a method; if given, the lines show its ``y`` minus the ``y`` of each other method
    scales: str = "log linear"  # of the horizontal and the vertical axis
    y_limits: tuple[float, float] | None = None

    def figure(self, results: Results, finish: Callable[[Axes], object] = lambda _: None) -> Figure:
        """Return the figure; ``finish`` may draw more into each panel, whose axes are its argument."""

        def draw(axes: Axes, place: dict[str, Any]) -> None:
            self._draw(axes, results.at(**place))
            label_axes(axes, in_words(place), self.x.replace("_", " "), self.y.replace("_", " "), self.scales)
            axes.set_ylim(self.y_limits)
            finish(axes)

        keys = [(place,) for place in results.places(*self.panels)]
        columns = len(results.values(self.panels[-1]))
        return stamped_panels(keys, columns if columns <= 4 else 3, draw, self.title)

    def _draw(self, axes: Axes, own: Results) -> None:
        if self.short_of and not own.where(method=self.short_of):
            return
        for k, method in enumerate(own.values("method")):
            lines = Results(each for each in own.where(method=method) if each[self.x] is not None)
            if lines and method not in {self.across, self.short_of}:
                x, style = [float(each[self.x]) for each in lines], f"C{k}{_MARKERS[k % len(_MARKERS)]}"
                y, errors = np.array([self._value(each, own) for each in lines]).T
                axes.errorbar(x, y, 2.0 * errors, fmt=f"{style}-", markersize=4, capsize=2, label=method)
                if self.dashed:
                    axes.plot(x, [each.measure(self.dashed) for each in lines], f"{style}--", markersize=4)
        for each in own.where(method=self.across):
            axes.axhline(each.measure(self.y), color="0.2", label=self.across)
        if self.level and own:
            axes.axhline(own[0].measure(self.level), color="0.6", linestyle="-.", label=self.level)

    def _value(self, each: Result, own: Results) -> tuple[float, float]:
        """Return y and its standard error, or 0 for an unknown standard error."""
        if self.short_of:
            return mean_difference(own.one(method=self.short_of).trials[self.y], each.trials[self.y])
        error = f"{self.y}_se"
        return each.measure(self.y), each.measure(error) if error in each.measures else 0.0


def label_axes(axes: Axes, title: str, x: str, y: str = "", scales: str = "log linear") -> None:
    """Name a panel and its axes, and set their scales; ``scales`` names the scale of x, then the scale of y."""
    for set_scale, scale in zip((axes.set_xscale, axes.set_yscale), scales.split(), strict=True):
        set_scale(scale, **({"linthresh": 1e-3} if scale == "symlog" else {}))
    axes.set(xlabel=x, ylabel=y)
    axes.set_title(title, fontsize=9)


def stamped_panels(panels: Iterable[tuple[Any, ...]], columns: int, draw: Callable[..., None], title: str) -> Figure:
    """Return a figure with a grid of panels, one legend, and a title that states that it is not private.

    ``panels`` holds, for each panel, the arguments of ``draw`` after the first, which is the panel's axes.
    """
    keys = list(panels)
    height = -(-len(keys) // columns)
    figure = new_figure(max(5.0, 4.0 * columns), 4.0 * height + 0.9)
    axes = figure.subplots(height, columns, squeeze=False).ravel()
    for place, key in zip(axes, keys, strict=False):
        draw(place, *key)
    for place in axes[len(keys) :]:
        place.set_visible(False)
    shown: dict[str, Any] = {}
    for place in axes:
        lines, labels = place.get_legend_handles_labels()
        shown.update(zip(labels, lines, strict=True))
    if shown:
        where: Any = {"loc": "outside lower center", "ncols": 2 * columns, "fontsize": 9, "frameon": False}
        figure.legend(shown.values(), shown.keys(), **where)
    figure.suptitle(f"{title}\n{NOT_PRIVATE}", fontsize=10)
    return figure


def figure_files(figures: Mapping[str, Figure], formats: Sequence[str]) -> dict[str, bytes]:
    """Return the files of all figures in all formats, by name; each file states that it is not private."""
    written: dict[str, Callable[[Figure], bytes]] = {
        "svg": lambda figure: f"<!-- {NOT_PRIVATE} -->\n{svg_text(figure)}".encode(),
        "png": lambda figure: png_bytes(figure, NOT_PRIVATE),
    }
    return {f"{name}.{format_}": written[format_](figure) for name, figure in figures.items() for format_ in formats}
