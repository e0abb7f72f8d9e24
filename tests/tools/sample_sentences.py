"""Print sentences drawn at random from the package's texts: ``python -m tests.tools.sample_sentences SEED [NUMBER]``.

Each is to be understood at first reading, without the code around it.
"""

from __future__ import annotations

import ast
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "dpbayes_cli"
SENTENCE = re.compile(r"[^.!?]+(?:[.!?](?!\s|$)[^.!?]*)*[.!?]?")


def text_of(node: ast.expr) -> str:
    """Return a text, with names in braces for what a run fills in; empty for anything but a text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            text_of(part) if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
            for part in node.values
            if isinstance(part, ast.Constant | ast.FormattedValue)
        )
    return ""


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of docstrings, and of messages, help texts and sentences of four words or more."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and (
            isinstance(node, ast.JoinedStr) or id(node) not in inner
        ):
            text = text_of(node)
            if len(text.split()) >= 4:
                yield node.lineno, text


def sentences() -> list[tuple[str, str]]:
    """Return place and sentence of all texts of the package."""
    return [
        (f"{path.relative_to(PACKAGE.parent)}:{line}", " ".join(sentence.split()))
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in texts(path)
        for sentence in SENTENCE.findall(text)
        if len(sentence.split()) >= 4
    ]


if __name__ == "__main__":
    seed, number = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 60
    for place, sentence in random.Random(seed).sample(sentences(), number):
        print(f"{place}\n    {sentence}")
