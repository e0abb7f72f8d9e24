"""Write the pages of the documentation that follow from the code: ``python -m docs.generate``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docs.admitted_releases import budgets_page
from docs.man_pages import manuals
from docs.reference_pages import PAGES as REFERENCE

DOCS = Path(__file__).parent
PACKAGE = DOCS.parent / "dpbayes_cli"
KINDS = {
    "UsageError": (2, "The command line is wrong"),
    "SpecError": (3, "The request is wrong, or no guarantee can be given for it"),
    "SourceError": (4, "The data cannot be used"),
    "BudgetError": (5, "The account does not allow it"),
    "LedgerError": (6, "The ledger cannot be used"),
    "VerificationError": (7, "A bundle or a guarantee does not verify"),
    "OutputError": (8, "The output cannot be written"),
}
"""The classes of errors: exit code and meaning."""


@dataclass(frozen=True, order=True)
class Message:
    """One error message, with ``...`` where a run fills something in."""

    text: str
    hint: str


def template(node: ast.expr | None) -> str:
    """Return the text that an expression gives, with ``...`` for what is computed."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(template(part) if isinstance(part, ast.Constant) else "..." for part in node.values)
    if isinstance(node, ast.BinOp):
        return template(node.left) + template(node.right)
    if isinstance(node, ast.IfExp):
        return f"{template(node.body)} / {template(node.orelse)}"
    return "" if node is None or (isinstance(node, ast.Constant) and node.value is None) else "..."


def messages(path: Path) -> Iterator[tuple[str, Message]]:
    """Yield class and message of every error that a module raises with a text of its own."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rsplit(".", 1)[-1]
        if name not in KINDS or not node.args:
            continue
        text = template(node.args[0])
        hints = [keyword.value for keyword in node.keywords if keyword.arg == "hint"]
        hint = template(hints[0]) if hints else ""
        if re.search(r"[a-z]{2}", text):
            yield name, Message(" ".join(text.split()), " ".join(hint.split()).strip(". "))


def errors_page() -> str:
    """Return the page that lists every error message by its exit code."""
    known: dict[str, set[Message]] = {name: set() for name in KINDS}
    for path in sorted(PACKAGE.rglob("*.py")):
        for name, message in messages(path):
            known[name].add(message)
    lines = [
        "# Error messages",
        "",
        "A message says what was wrong and what was expected; the hint says what to type next. `...` stands for",
        "what a run fills in: a name, a number, a path; never a cell of the data.",
    ]
    for name, (code, meaning) in KINDS.items():
        lines += ["", f"## Exit code {code}: {meaning}", "", "| message | hint |", "|---|---|"]
        lines += [f"| {cell(message.text)} | {cell(message.hint)} |" for message in sorted(known[name])]
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """Return a text as a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("<", "&lt;")


GENERATED = {"reference/errors.md": errors_page, "explanation/budgets.md": budgets_page, **REFERENCE}
PAGES = {DOCS / place: make for place, make in GENERATED.items()}


def contents() -> dict[Path, str]:
    """Return the text of every generated file."""
    pages = {place: make() for place, make in PAGES.items()}
    return pages | {DOCS / "man" / name: text for name, text in manuals().items()}


if __name__ == "__main__":
    for place, text in contents().items():
        place.parent.mkdir(exist_ok=True)
        place.write_text(text, encoding="utf-8")
