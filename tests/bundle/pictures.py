"""Parsers and checks for pages and pictures, and names that must not act as markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np

from dpbayes_cli.bundle.report.inline_svg import Picture

EVIL = [
    "<script>alert(1)</script>",
    "\"a'b&c $x$ --> <!-- ]]>",
    '" onload="alert(2)',
    "</svg></style>",
    "id=\"x url(#x) #0a0a01 1.23456",
    "日本語",
    "`code` long " * 40 + "end",
]  # fmt: skip
HOSTILE = [*EVIL, '<b>&"', "$x^2$ \\frac"]
VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """Checks while parsing that tags are nested correctly; keeps tags and texts for the tests."""

    def __init__(self, content: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(content)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), tag
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def attributes(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def text(self) -> str:
        return " ".join("".join(data for tag, data in self.texts if tag != "style").split())

    def sections(self) -> list[str]:
        return [attributes["id"] for attributes in self.attributes("section")]


def texts(picture: Picture) -> list[str]:
    return [data for tag, data in Page(picture.svg).texts if tag == "text"]


def check_picture(picture: Picture, *, labeled: bool = False) -> None:
    """Check what every picture must be: one labeled element in the page's colors that fetches nothing.

    Args:
        picture: the picture.
        labeled: whether its label says more than its caption.
    """
    ElementTree.fromstring(picture.svg.replace("xmlns:xlink", "xmlns:x"))
    page = Page(picture.svg)
    assert picture.svg.count("<svg") == 1
    (frame,) = page.attributes("svg")
    assert frame["role"] == "img"
    assert frame["aria-label"].startswith(picture.caption)
    assert (len(frame["aria-label"]) > len(picture.caption)) == labeled
    assert not {tag for tag, _ in page.tags} & {"script", "image", "style", "a", "foreignobject", "b"}
    references = [value for _, attributes in page.tags for key, value in attributes.items() if key in {"href", "src"}]
    references += re.findall(r"url\(([^)]*)\)", " ".join(v for _, f in page.tags for v in f.values() if v != EVIL[4]))
    assert all(value.startswith("#") for value in references)
    styles = " ".join(attributes.get("style", "") for _, attributes in page.tags)
    assert "var(--ink)" in styles
    assert not re.search("#[0-9a-f]{6}", styles)


def cells_of(shape: tuple[int, ...], seed: int = 0) -> dict[str, np.ndarray]:
    mean = np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), shape[:-1])
    return {"mean": mean, "q05": 0.5 * mean, "q95": np.minimum(1.0, 1.5 * mean)}


def markers(picture: Picture) -> list[list[tuple[float, float]]]:
    """Return the positions of the dots, panel by panel."""
    panels = re.findall(r'<g clip-path="[^"]*">\s*((?:<use [^>]*/>\s*)+)</g>', picture.svg)
    place = re.compile(r'x="([-\d.]+)" y="([-\d.]+)"')
    return [[(float(x), float(y)) for x, y in place.findall(group)] for group in panels]
