"""HTML from texts: every text of a page is escaped here, so that no text can act as markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from itertools import zip_longest

_CODE = re.compile("`([^`]*)`")
_NUMERIC = re.compile(r"[-+]?[0-9.,]+(e[-+]?[0-9]+)?( ?%)?|-")


def text(content: object) -> str:
    """Return a text escaped for an element or for a quoted attribute."""
    return escape(str(content), quote=True)


def prose(sentence: str) -> str:
    """Return escaped sentences; text between backticks becomes code."""
    return _CODE.sub(r"<code>\1</code>", text(sentence))


def code(content: object) -> str:
    """Return a name or a value as inline code."""
    return f"<code>{text(content)}</code>"


def paragraph(markup: str, kind: str = "") -> str:
    """Return a paragraph of markup.

    Args:
        markup: escaped already.
        kind: a class of the style sheet, or empty.
    """
    return f"<p{_class(kind)}>{markup}</p>"


def section(identifier: str, title: str, parts: Iterable[str]) -> str:
    """Return a section that has a heading and can be linked to.

    Args:
        identifier: its name in links, unique in the page.
        title: its heading.
        parts: its content, markup; empty parts are left out.
    """
    body = "\n".join(part for part in parts if part)
    heading = f'<h2 id="{identifier}-heading">{text(title)}</h2>'
    return f'<section id="{identifier}" aria-labelledby="{identifier}-heading">\n{heading}\n{body}\n</section>'


def titled_section(title: str, *parts: str) -> str:
    """Return a section whose identifier is made from its title."""
    return section(identifier_of(title), title, parts)


def identifier_of(title: str) -> str:
    """Return the identifier of a section, for links to it."""
    return "-".join("".join(mark if mark.isalnum() else " " for mark in title.lower()).split())


def bullet_list(items: Iterable[str]) -> str:
    """Return a bullet list of items, each of them markup."""
    return "<ul>\n" + "\n".join(f"<li>{item}</li>" for item in items) + "\n</ul>"


def description_list(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a list of names, as texts, with their values, as markup."""
    return "<dl>\n" + "\n".join(f"<dt>{text(name)}</dt><dd>{value}</dd>" for name, value in pairs) + "\n</dl>"


def table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]], last: Sequence[str] = ()) -> str:
    """Return a table of texts; on a narrow screen the table scrolls, not the page.

    Args:
        caption: what it shows.
        columns: the heads; columns that hold only numbers are aligned to the right.
        rows: the cells; the first of a row is its head.
        last: one more cell per row, in a column without a head, made by ``share_bar``.
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


def code_block(content: str, label: str) -> str:
    """Return preformatted text; it scrolls if a line is too long for the page.

    Args:
        content: the text.
        label: what it is, for screen readers.
    """
    return f'<pre role="region" aria-label="{text(label)}" tabindex="0"><code>{text(content)}</code></pre>'


def more_rows_note(rows: int, shown: int, where: str) -> str:
    """Return a note about the rows that a table leaves out; empty if it shows all of them."""
    return paragraph(prose(f"{rows - shown} more rows are in `{where}`."), "quiet") if rows > shown else ""


def share_bar(share: float) -> str:
    """Return a table cell with a bar; another cell holds the number.

    Args:
        share: from 0 to 1.
    """
    bar = f'<div class="share"><span style="width:{100 * min(max(share, 0.0), 1.0):.1f}%"></span></div>'
    return f'<td class="bar" aria-hidden="true">{bar}</td>'


def figure(svg: str, caption: str) -> str:
    """Return a figure with its caption.

    Args:
        svg: the drawing, an SVG element with its own label.
        caption: plain text: what it shows.
    """
    return f"<figure>\n{svg}\n<figcaption>{text(caption)}</figcaption>\n</figure>"


def gallery(figures: Iterable[str], kind: str = "gallery") -> str:
    """Return figures side by side, as many as fit.

    Args:
        figures: see ``figure``.
        kind: gallery for small ones, pair for wide ones.
    """
    return f'<div class="{kind}">\n' + "\n".join(figures) + "\n</div>"


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
