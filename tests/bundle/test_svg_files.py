"""Figures as SVG files: complete by themselves, with their own colors, independent of the page."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import numpy as np
import pytest

from dpbayes_cli.bundle.report.inline_svg import Picture, svg_file
from dpbayes_cli.bundle.report.probability_plots import emissions_plot, table_plot
from dpbayes_cli.bundle.report.states_plot import states_plot
from dpbayes_cli.core.columns import Column
from tests.bundle.pictures import HOSTILE, cells_of, check_picture

SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"
NAMES = (*HOSTILE, "var(--ink)", ' href="#x"')


PICTURES: dict[str, Callable[[], Picture]] = {
    "table": lambda: table_plot('<b>&"', NAMES[:8], {'<b>&"': NAMES, "b": ["1"]}, cells_of((len(NAMES), 8)), "table-1"),
    "emissions": lambda: emissions_plot('<b>&"', NAMES, cells_of((2, len(NAMES))), "emissions-0"),
    "states": lambda: states_plot(Column("var(--page)", NAMES), Column("t", NAMES), np.full((9, 9, 2), 0.5), "states"),
}


@pytest.mark.parametrize("kind", PICTURES)
def test_svg_file_stands_alone(kind: str) -> None:
    picture = PICTURES[kind]()
    check_picture(picture, labeled=not picture.name.startswith("table"))
    content = svg_file(picture)
    assert b"<b>" not in content
    assert content == svg_file(picture)
    root = ElementTree.fromstring(content)
    assert root.tag == f"{SVG}svg"
    assert root.findtext(f"{SVG}title") == picture.caption
    assert str(root.get("aria-label")).startswith(picture.caption)
    width, height = (float(str(root.get(side)).removesuffix("pt")) for side in ("width", "height"))
    assert root.get("viewBox") == f"0 0 {width:g} {height:g}"
    assert [child.get("fill") for child in root if child.tag == f"{SVG}rect"] == ["#ffffff"]
    ids = {element.get("id") for element in root.iter()}
    for element in root.iter():
        style = element.get("style", "")
        assert "var(" not in style
        assert element.tag.removeprefix(SVG) not in {"script", "image", "a", "foreignObject"}
        assert element.get(LINK, "#")[1:] in {"", *ids}
        assert element.get("href") is None
        assert set(re.findall(r"url\(#([^)]*)\)", style + element.get("clip-path", ""))) <= ids
    drawn = ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]
    assert {"var(--ink)", '<b>&"'} & set(drawn)
