"""Figures as parts of a page: they take its colors, light or dark, and their names do not meet those of others."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbayes_cli.base.figures import new_figure, svg_text
from dpbayes_cli.bundle.report.markup import text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, QUIET, LINE, PAGE = "#0a0a01", "#0a0a02", "#0a0a03", "#0a0a04"
SERIES = ("#0a0a11", "#0a0a12", "#0a0a13", "#0a0a14")
HUES = ("#0a0a21", "#0a0a22", "#0a0a23", "#0a0a24", "#0a0a25", "#0a0a26")
OTHERS = "#0a0a27"
"""Colors that stand for those of the page's style sheet. Hues can be told apart by the color-blind too, at full
strength; ``OTHERS`` is a grey for whatever has none of its own."""
_ROLES = {
    **{INK: "ink", QUIET: "quiet", LINE: "line", PAGE: "page"},
    **{color: f"series-{i}" for i, color in enumerate(SERIES, 1)},
    **{color: f"hue-{i}" for i, color in enumerate((*HUES, OTHERS), 1)},
}
_COLOR = re.compile("#0a0a(?:[01][1-4]|2[1-7])")
_TAG = re.compile("<[^>]*>")
_NAME = re.compile(r'\bid="|url\(#|href="#')
_PRECISE = re.compile(r"(\.\d\d)\d+")
_NOT_DRAWN = re.compile(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", re.DOTALL)
_VIEW = re.compile('viewBox="([-0-9. ]*)"')
_FONT = 9.0
_ENLARGED = 1.3
"""How much larger than drawn, in pixels a point, a figure may become."""


@dataclass(frozen=True)
class Picture:
    """A figure of the page.

    Attributes:
        name: unique in the page: letters, digits and hyphens.
        svg: an SVG element.
        caption: what it shows and what it leaves out, a text.
    """

    name: str
    svg: str
    caption: str


def blank(width: float, height: float, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels beside each other, without frames, in the page's colors.

    Args:
        width, height: in inches.
        columns: how many panels.
    """
    figure = new_figure(width, height)
    panels = [figure.add_subplot(1, columns, place) for place in range(1, columns + 1)]
    for panel in panels:
        for side in ("top", "right", "left"):
            panel.spines[side].set_visible(False)
        panel.spines["bottom"].set_color(LINE)
        panel.tick_params(colors=LINE, labelcolor=QUIET, labelsize=_FONT, length=3)
        panel.xaxis.label.set(color=QUIET, fontsize=_FONT)
        panel.xaxis.get_offset_text().set(color=QUIET, fontsize=_FONT)
        panel.patch.set_visible(False)
    figure.patch.set_visible(False)
    return figure, panels


def inline(figure: Figure, name: str, label: str, smallest: float = 0.0) -> str:
    """Return a figure as an SVG element of a page.

    Args:
        figure: drawn in the colors of this file.
        name: unique in the page: letters, digits and hyphens.
        label: what it shows, for those who do not see it.
        smallest: how many pixels a point it keeps on narrow screens, where it scrolls; 0: it shrinks.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that the measuring font lacks is drawn by the reader's own
        drawn = svg_text(figure)
    drawn = _TAG.sub(lambda tag: _adapted(tag[0], name), _NOT_DRAWN.sub("", drawn))
    points = figure.get_figwidth() * 72
    narrowest = f";min-width:{points * smallest:.0f}px" if smallest else ""
    frame = (
        f'<svg role="img" aria-label="{text(label)}" viewBox="{_VIEW.findall(drawn)[0]}" '
        f'style="max-width:{points * _ENLARGED:.0f}px{narrowest}">'
    )
    return frame + drawn[drawn.index(">") + 1 :]


def _adapted(tag: str, name: str) -> str:
    """Return a tag with the page's colors, and with names that are this figure's own."""
    tag = _COLOR.sub(lambda color: f"var(--{_ROLES[color[0]]})", tag)
    tag = _NAME.sub(lambda start: f"{start[0]}{name}-", tag)
    return _PRECISE.sub(r"\1", tag).replace("xlink:href", "href")
