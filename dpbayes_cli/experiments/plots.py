"""Figures of a study: panels with one line per method, one legend, and a title that says that they are not private."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple

from dpbayes_cli.base.figures import new_figure, png_bytes, svg_text
from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.results import Result, Results, in_words, mean_difference

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL_INCHES, _LINE_INCHES, _LETTER_INCHES = 3.2, 0.7, 0.08
"""The side of a panel; the widths of a legend entry's line and of one letter of its text."""
_SHIFT = 0.02
"""On the log10 scale, points of successive methods are this far apart, so that error bars do not overlap."""
_COLORS = ("tab:red", "tab:orange", "tab:green", "tab:blue", "tab:purple")


class Style(NamedTuple):
    """Color, marker and line style of a method."""

    color: Any
    marker: str = ""
    line: str = "-"


@dataclass(frozen=True)
class Plot:
    """A figure of a measure against a column, with one line per method.

    Attributes:
        y: the measure on the vertical axis; bars show two standard errors if these are known.
        label: the label of the vertical axis.
        styles: the style of each method that has a line.
        x: the column of numbers on the horizontal axis.
        panels: columns; each combination of their values has a panel.
        across: a method that is drawn as a horizontal line, and the label of this line.
        level: a measure that is equal for all methods, drawn as a horizontal line, and the label of this line.
        dashed: a second measure of the methods, drawn as dashed lines.
        short_of: a method; if given, the lines show its ``y`` minus the ``y`` of each other method.
        colored_by: a column; each of its values has lines in a color of its own.
        scales: the scales of the horizontal and the vertical axis, such as ``log linear``.
        y_limits: the limits of the vertical axis.
        share_y: whether the vertical axes of all panels have the same limits.
    """

    title: str
    y: str
    label: str
    styles: Mapping[str, Style]
    x: str = "epsilon"
    panels: tuple[str, ...] = ("case",)
    across: tuple[str, str] | None = None
    level: tuple[str, str] | None = None
    dashed: str = ""
    short_of: str = ""
    colored_by: str = ""
    scales: str = "log linear"
    y_limits: tuple[float, float] | None = None
    share_y: bool = True

    def figure(self, results: Results, finish: Callable[[Axes], object] = lambda _: None) -> Figure:
        """Return the figure; ``finish`` is called with the axes of each panel, and may draw more into it."""

        def draw(axes: Axes, place: dict[str, Any]) -> None:
            self._draw(axes, results.at(**place))
            label_axes(axes, in_words(place), self.x.replace("_", " "), self.label, self.scales)
            if self.y_limits is not None:
                axes.set_ylim(*self.y_limits)
            finish(axes)

        places = results.places(*self.panels)
        many = len(results.values(self.panels[-1]))
        keys = [(place,) for place in places]
        return stamped_panels(keys, many if many <= 4 else 3, draw, self.title, share_y=self.share_y, panel=4.2)

    def _draw(self, axes: Axes, own: Results) -> None:
        colors = own.values(self.colored_by) if self.colored_by else []
        for k, (method, style) in enumerate(self.styles.items()):
            of_method = own.where(method=method)
            uncolored = of_method.where(**{self.colored_by: None}) if colors else of_method
            draw_line(axes, self._points(uncolored, own, k), style, method)
            for i, value in enumerate(colors):
                points = self._points(of_method.where(**{self.colored_by: value}), own, k)
                color = _COLORS[i % len(_COLORS)]
                draw_line(axes, points, style._replace(color=color), f"{method}, {self.colored_by} {value}")
            if self.dashed:
                again = [(float(each[self.x]), each.measure(self.dashed)) for each in of_method]
                draw_line(axes, again, style._replace(line="--"), None)
        if self.across is not None:
            for each in own.where(method=self.across[0]):
                value = 0.0 if self.short_of else each.measure(self.y)
                axes.axhline(value, color="0.2", linewidth=1.2, label=self.across[1])
        if self.level is not None and own:
            axes.axhline(own[0].measure(self.level[0]), color="0.6", linewidth=1.2, linestyle="-.", label=self.level[1])

    def _points(self, lines: Results, own: Results, k: int) -> list[tuple[float, ...]]:
        """Return the points of the k-th method's line, shifted a little to one side if it has bars."""
        values = [(float(each[self.x]), *self._value(each, own)) for each in lines if each[self.x] is not None]
        shift = 10.0 ** (_SHIFT * (k - (len(self.styles) - 1) / 2.0))
        return [(x * shift, *y) if len(y) > 1 else (x, *y) for x, *y in values]

    def _value(self, each: Result, own: Results) -> tuple[float, ...]:
        if self.short_of:
            return mean_difference(own.one(method=self.short_of).trials[self.y], each.trials[self.y])
        error = f"{self.y}_se"
        return (each.measure(self.y), each.measure(error)) if error in each.measures else (each.measure(self.y),)


def draw_line(axes: Axes, points: Iterable[tuple[float, ...]], style: Style, label: str | None) -> None:
    """Draw a line through (x, y), or through (x, y, standard error) with bars of two standard errors."""
    columns = list(zip(*(point for point in points if not isnan(point[1])), strict=True))
    if not columns:
        return
    recipe: dict[str, Any] = {"color": style.color, "marker": style.marker, "linestyle": style.line, "label": label}
    recipe |= {"markersize": 4, "linewidth": 1.2}
    if len(columns) == 2:
        axes.plot(*columns, **recipe)
    else:
        bars = [2.0 * error for error in columns[2]]
        axes.errorbar(columns[0], columns[1], yerr=bars, elinewidth=0.8, capsize=2, **recipe)


def label_axes(axes: Axes, title: str, x: str, y: str = "", scales: str = "log linear") -> None:
    """Name a panel and its axes, and set their scales; ``scales`` holds the scale of x, then of y."""
    for set_scale, scale in zip((axes.set_xscale, axes.set_yscale), scales.split(), strict=True):
        set_scale(scale, **({"linthresh": 1e-3} if scale == "symlog" else {}))
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, fontsize=9)


def stamped_panels(
    panels: Iterable[tuple[Any, ...]],
    columns: int,
    draw: Callable[..., None],
    title: str,
    *,
    share_y: bool = True,
    panel: float = _PANEL_INCHES,
) -> Figure:
    """Return a figure with a grid of panels, one legend, and a title that says that it is not private.

    Args:
        panels: for each panel, the arguments of ``draw`` after the first.
        columns: the number of panels per row.
        draw: a function that draws one panel; its first argument is the panel's axes.
        share_y: whether the vertical axes of all panels have the same limits.
        panel: the width and height of a panel in inches.
    """
    keys = list(panels)
    height = -(-len(keys) // columns)
    figure = new_figure(max(5.0, panel * columns), panel * height + 0.9)
    axes = figure.subplots(height, columns, squeeze=False, sharey=share_y)
    for place, key in zip(axes.flat, keys, strict=False):
        draw(place, *key)
    for place in axes.flat[len(keys) :]:
        place.set_visible(False)
    shown: dict[str, Any] = {}
    for place in axes.flat:
        lines, labels = place.get_legend_handles_labels()
        shown.update(zip(labels, lines, strict=True))
    if shown:
        entry = _LINE_INCHES + _LETTER_INCHES * max(map(len, shown))
        n_columns = min(len(shown), 6, max(1, int(panel * columns / entry)))
        where: Any = {"loc": "outside lower center", "ncols": n_columns, "fontsize": 9, "frameon": False}
        figure.legend(list(shown.values()), list(shown), **where)
    figure.suptitle(f"{title}\n{NOT_PRIVATE}", fontsize=10)
    return figure


def figure_files(figures: Mapping[str, Figure], formats: Sequence[str]) -> dict[str, bytes]:
    """Return each figure as a file in each format, by name; title and metadata say that it is not private."""
    written: dict[str, Callable[[Figure], bytes]] = {
        "svg": lambda figure: f"<!-- {NOT_PRIVATE} -->\n{svg_text(figure)}".encode(),
        "png": lambda figure: png_bytes(figure, NOT_PRIVATE),
    }
    return {f"{name}.{format_}": written[format_](figure) for name, figure in figures.items() for format_ in formats}
