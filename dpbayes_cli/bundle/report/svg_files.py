"""Figures of the page as SVG files, for papers and slides."""

from __future__ import annotations

import re
from functools import cache
from html import escape
from pathlib import Path

from dpbayes_cli.bundle.report.inline_svg import Picture

_TAG = re.compile("<[^>]*>")
_ROLE = re.compile(r"var\(--([-a-z0-9]+)\)")
_SETTING = re.compile(r"--([-a-z0-9]+): (#[0-9a-f]{6});")
_LABEL = re.compile('aria-label="([^"]*)" viewBox="[-0-9.]+ [-0-9.]+ ([0-9.]+) ([0-9.]+)"')


def svg_file(picture: Picture) -> bytes:
    """Return the bytes of a figure as an SVG file that every program can read, in light colors on white."""
    start = picture.svg.index(">") + 1
    frame_match = _LABEL.search(picture.svg[:start])
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
    return _ROLE.sub(lambda role: _light()[role[1]], tag).replace(' href="#', ' xlink:href="#')


@cache
def _light() -> dict[str, str]:
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    return dict(_SETTING.findall(style[: style.index("}")]))
