"""Tables and figures with their stamp.

The stamp of a CSV file is its first column, so that ``pandas.read_csv(path)`` needs no option.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.figures import new_figure, svg_text
from dpbayes_cli.spreadsheet import csv_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PANEL = 3.2


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
) -> bytes:
    """Return the bytes of an SVG file: a grid of panels under a title that is stamped, with one legend.

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
        where: Any = {"loc": "outside lower center", "ncols": min(len(shown), 6), "fontsize": 9, "frameon": False}
        figure.legend(list(shown.values()), list(shown), **where)
    figure.suptitle(f"{title}\n{NOT_PRIVATE}", fontsize=10)
    return f"<!-- {NOT_PRIVATE} -->\n{svg_text(figure)}".encode()


def _legend(axes: Iterable[Axes]) -> dict[str, Any]:
    """Return what the legend shows, each label once."""
    shown: dict[str, Any] = {}
    for place in axes:
        lines, labels = place.get_legend_handles_labels()
        shown.update(zip(labels, lines, strict=True))
    return shown
