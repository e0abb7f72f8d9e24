"""Turn figures into SVG elements of a page, with its light or dark colors and unique names, and into SVG files."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpbayes_cli.base.figures import new_figure, svg_text

INK, QUIET, LINE, PAGE = "#0a0a01", "#0a0a02", "#0a0a03", "#0a0a04"
SERIES = ("#0a0a11", "#0a0a12", "#0a0a13", "#0a0a14")
HUES = ("#0a0a21", "#0a0a22", "#0a0a23", "#0a0a24", "#0a0a25", "#0a0a26")
OTHERS = "#0a0a27"
"""All colors here are placeholders for colors of the page's style sheet. Color-blind readers can distinguish the colors
of ``HUES`` at full opacity. ``OTHERS`` is a gray for states that have no color in ``HUES``."""
_ROLES = {
    **{INK: "ink", QUIET: "quiet", LINE: "line", PAGE: "page"},
    **{color: f"series-{i}" for i, color in enumerate(SERIES, 1)},
    **{color: f"hue-{i}" for i, color in enumerate((*HUES, OTHERS), 1)},
}
_COLOR = re.compile("#0a0a(?:[01][1-4]|2[1-7])")
_TAG = re.compile("<[^>]*>")
_NAME = re.compile(r'\bid="|url\(#|href="#')
_PRECISE = re.compile(r"(\.\d\d)\d+")
_INVISIBLE = re.compile(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", re.DOTALL)
_VIEW = re.compile('viewBox="([-0-9. ]*)"')
_FONT = 9.0
_MAX_ENLARGEMENT = 1.3  # the largest number of screen pixels per point of a figure
_VARIABLE = re.compile(r"var\(--([-a-z0-9]+)\)")
_SETTING = re.compile(r"--([-a-z0-9]+): (#[0-9a-f]{6});")
_LABEL_AND_SIZE = re.compile('aria-label="([^"]*)" viewBox="[-0-9.]+ [-0-9.]+ ([0-9.]+) ([0-9.]+)"')


@dataclass(frozen=True)
class Picture:
    """A figure of the page."""

    name: str  # a name of letters, digits and hyphens that is unique in the page
    svg: str  # an SVG element
    caption: str  # what the figure shows and what it leaves out, as plain text


def blank_figure(width: float, height: float, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels side by side, without frames, in the page's colors; its size is in inches."""
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


def blank_canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure without axes whose coordinates are inches from the upper left corner."""
    figure, (panel,) = blank_figure(width, height)
    figure.set_layout_engine("none")
    panel.set_position((0.0, 0.0, 1.0, 1.0))
    panel.set_axis_off()
    panel.set_xlim(0.0, width)
    panel.set_ylim(height, 0.0)
    return figure, panel


def draw_text(
    panel: Axes, at: tuple[float, float], words: str, size: float, ink: str = INK, align: str = "center"
) -> None:
    """Draw a text at a point, vertically centered; dollar signs in the text do not start a formula."""
    panel.text(*at, words, fontsize=size, color=ink, ha=align, va="center", parse_math=False)


def hue_of(state: int) -> str:
    """Return the color of a hidden state, counted from 0; all states beyond ``HUES`` share one gray."""
    return HUES[state] if state < len(HUES) else OTHERS


def shown_text(parts: Sequence[str]) -> str:
    """Return a sentence for a caption that names the parts that are shown; empty if there are no parts."""
    return f" Shown: {' and '.join(parts)}." if parts else ""


def inline_svg(figure: Figure, name: str, label: str, min_scale: float = 0.0) -> str:
    """Return a figure in the placeholder colors of this module as an SVG element for a page.

    ``min_scale`` is the smallest number of pixels per point; on a screen too narrow for it, the figure scrolls.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this font may lack letters, which the reader's font then draws
        drawn = svg_text(figure)
    drawn = _TAG.sub(lambda tag: _adapted(tag[0], name), _INVISIBLE.sub("", drawn))
    points = figure.get_figwidth() * 72
    narrowest = f";min-width:{points * min_scale:.0f}px" if min_scale else ""
    frame = (
        f'<svg role="img" aria-label="{escape(label)}" viewBox="{_VIEW.findall(drawn)[0]}" '
        f'style="max-width:{points * _MAX_ENLARGEMENT:.0f}px{narrowest}">'
    )
    return frame + drawn[drawn.index(">") + 1 :]


def _adapted(tag: str, name: str) -> str:
    """Return an SVG tag with the page's colors, and with identifiers that begin with the figure's name."""
    tag = _COLOR.sub(lambda color: f"var(--{_ROLES[color[0]]})", tag)
    tag = _NAME.sub(lambda start: f"{start[0]}{name}-", tag)
    return _PRECISE.sub(r"\1", tag).replace("xlink:href", "href")


def svg_file(picture: Picture) -> bytes:
    """Return the bytes of a figure as an SVG file that every program can read, in light colors on white."""
    start = picture.svg.index(">") + 1
    frame_match = _LABEL_AND_SIZE.search(picture.svg[:start])
    if frame_match is None:
        raise ValueError("the figure has no label or no size")
    label, width, height = frame_match.groups()
    frame = (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="{width}pt" height="{height}pt" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">\n'
        f"<title>{escape(picture.caption)}</title>\n"
        "<style>* { stroke-linejoin: round; stroke-linecap: butt; }</style>\n"
        f'<rect width="100%" height="100%" fill="{_light()["page"]}"/>'
    )
    return (frame + _TAG.sub(lambda tag: _plain(tag[0]), picture.svg[start:])).encode("utf-8")


def _plain(tag: str) -> str:
    return _VARIABLE.sub(lambda role: _light()[role[1]], tag).replace(' href="#', ' xlink:href="#')


@cache
def _light() -> dict[str, str]:
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    return dict(_SETTING.findall(style[: style.index("}")]))
