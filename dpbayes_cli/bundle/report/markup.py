"""HTML from texts: whatever is put into a page goes through here and cannot be taken for markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from itertools import zip_longest

_CODE = re.compile("`([^`]*)`")
_NUMERIC = re.compile(r"[-+]?[0-9.,]+(e[-+]?[0-9]+)?( ?%)?|-")


def text(content: object) -> str:
    """Return a text that shows as itself, in an element or in a quoted attribute."""
    return escape(str(content), quote=True)


def prose(sentence: str) -> str:
    """Return sentences of ours; what is between backticks is code."""
    return _CODE.sub(r"<code>\1</code>", text(sentence))


def code(content: object) -> str:
    """Return a name or a value in code type."""
    return f"<code>{text(content)}</code>"


def paragraph(markup: str, kind: str = "") -> str:
    """Return a paragraph of markup.

    Args:
        markup: escaped already.
        kind: a class of the style sheet, or nothing.
    """
    return f"<p{_class(kind)}>{markup}</p>"


def section(identifier: str, title: str, parts: Iterable[str]) -> str:
    """Return a section that has a heading and can be linked to.

    Args:
        identifier: its name in links, unique in the page.
        title: its heading.
        parts: what it holds, markup.
    """
    body = "\n".join(part for part in parts if part)
    heading = f'<h2 id="{identifier}-heading">{text(title)}</h2>'
    return f'<section id="{identifier}" aria-labelledby="{identifier}-heading">\n{heading}\n{body}\n</section>'


def titled(title: str, *parts: str) -> str:
    """Return a section that is linked to by its title."""
    return section(identifier_of(title), title, parts)


def identifier_of(title: str) -> str:
    """Return the name by which a section is linked to."""
    return "-".join("".join(mark if mark.isalnum() else " " for mark in title.lower()).split())


def listed(items: Iterable[str]) -> str:
    """Return a list of items, each of them markup."""
    return "<ul>\n" + "\n".join(f"<li>{item}</li>" for item in items) + "\n</ul>"


def terms(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a list of names with what they stand for, which is markup."""
    return "<dl>\n" + "\n".join(f"<dt>{text(name)}</dt><dd>{value}</dd>" for name, value in pairs) + "\n</dl>"


def table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]], last: Sequence[str] = ()) -> str:
    """Return a table of texts; on a narrow screen it scrolls by itself, and not the page.

    Args:
        caption: what it shows, for those who do not see it.
        columns: the heads; those of columns that hold nothing but numbers stand to the right, like the numbers.
        rows: the cells; the first of a row is its head.
        last: one more cell a row without a head, as ``share_bar`` makes it.
    """
    numeric = [place > 0 and all(_NUMERIC.fullmatch(row[place]) for row in rows) for place in range(len(columns))]
    kinds = [_class("number") if right else "" for right in numeric]
    head = "".join(f'<th scope="col"{kind}>{text(column)}</th>' for kind, column in zip(kinds, columns, strict=True))
    lines = [
        f'<tr><th scope="row">{text(row[0])}</th>'
        + "".join(f"<td{kind}>{text(cell)}</td>" for kind, cell in zip(kinds[1:], row[1:], strict=True))
        + f"{extra}</tr>"
        for row, extra in zip_longest(rows, last, fillvalue="")
    ]
    label = text(caption)
    return (
        f'<div class="scroll" role="region" aria-label="{label}" tabindex="0">\n<table>\n'
        f"<caption>{label}</caption>\n<thead><tr>{head}{'<td></td>' if last else ''}</tr></thead>\n"
        f"<tbody>\n{chr(10).join(lines)}\n</tbody>\n</table>\n</div>"
    )


def block(content: str, label: str) -> str:
    """Return a text whose lines stay as they are; where one is too long for the page, it scrolls by itself.

    Args:
        content: a text.
        label: what it is, for those who do not see it.
    """
    return f'<pre role="region" aria-label="{text(label)}" tabindex="0"><code>{text(content)}</code></pre>'


def cut(rows: int, most: int, where: str) -> str:
    """Return where the rows are that a table leaves out; nothing where it holds them all."""
    return paragraph(prose(f"{rows - most} more rows are in `{where}`."), "quiet") if rows > most else ""


def share_bar(share: float) -> str:
    """Return a table cell with a bar; the number stands in a cell of its own.

    Args:
        share: from 0 to 1.
    """
    bar = f'<div class="share"><span style="width:{100 * min(max(share, 0.0), 1.0):.1f}%"></span></div>'
    return f'<td class="bar" aria-hidden="true">{bar}</td>'


def figure(svg: str, caption: str) -> str:
    """Return a figure with its caption, which is a text.

    Args:
        svg: the drawing, an SVG element with a label of its own.
        caption: what it shows.
    """
    return f"<figure>\n{svg}\n<figcaption>{text(caption)}</figcaption>\n</figure>"


def gallery(figures: Iterable[str], kind: str = "gallery") -> str:
    """Return figures beside each other, as many as fit.

    Args:
        figures: see ``figure``.
        kind: gallery for small ones, pair for wide ones.
    """
    return f'<div class="{kind}">\n' + "\n".join(figures) + "\n</div>"


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
