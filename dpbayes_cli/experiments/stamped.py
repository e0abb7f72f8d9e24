"""Tables and figures with their stamp.

The stamp of a CSV file is its first column, so that ``pandas.read_csv(path)`` needs no option.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from dpbayes_cli.base.csv_escape import csv_text
from dpbayes_cli.base.figures import new_figure, png_bytes, svg_text
from dpbayes_cli.experiments import NOT_PRIVATE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL, _LEGEND = 3.2, 1.7
"""Inches: of a panel, and of a column of the legend."""

Format = Literal["svg", "png"]
"""What a figure is written as."""


def stamped_csv(header: Iterable[str], table: Iterable[Iterable[Any]]) -> bytes:
    """Return the bytes of a CSV file; floats in full, None as an empty cell."""
    rows = ((NOT_PRIVATE, *(repr(value) if isinstance(value, float) else value for value in row)) for row in table)
    return csv_text([("stamp", *header), *rows]).encode("utf-8")


def stamped_panels(
    panels: Iterable[tuple[Any, ...]],
    columns: int,
    draw: Callable[..., None],
    title: str,
    *,
    share_y: bool = True,
    panel: float = _PANEL,
) -> Figure:
    """Return a figure: a grid of panels under a title that is stamped, with one legend.

    Args:
        panels: the arguments of ``draw`` after the axes, one panel each.
        columns: how many panels a row.
        draw: draws one panel.
        title: what the figure shows.
        share_y: whether the panels have one vertical axis.
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
    shown = _legend(axes.flat)
    if shown:
        where: Any = {
            "loc": "outside lower center",
            "ncols": min(len(shown), 6, max(2, int(panel * columns / _LEGEND))),
            "fontsize": 9,
            "frameon": False,
        }
        figure.legend(list(shown.values()), list(shown), **where)
    figure.suptitle(f"{title}\n{NOT_PRIVATE}", fontsize=10)
    return figure


def figure_formats(text: str) -> tuple[Format, ...]:
    """Return the formats of a list with commas."""
    known: tuple[Format, ...] = ("svg", "png")
    return tuple(each for each in known if each in text.split(","))


def figure_files(figures: Mapping[str, Figure], formats: Sequence[Format]) -> dict[str, bytes]:
    """Return figures as files, each in every format, by file name; the stamp is in their titles and their metadata."""
    found = {}
    for name, figure in figures.items():
        for ending in formats:
            if ending == "svg":
                found[f"{name}.svg"] = f"<!-- {NOT_PRIVATE} -->\n{svg_text(figure)}".encode()
            else:
                found[f"{name}.png"] = png_bytes(figure, NOT_PRIVATE)
    return found


def _legend(axes: Iterable[Axes]) -> dict[str, Any]:
    """Return what the legend shows, each label once."""
    shown: dict[str, Any] = {}
    for place in axes:
        lines, labels = place.get_legend_handles_labels()
        shown.update(zip(labels, lines, strict=True))
    return shown
