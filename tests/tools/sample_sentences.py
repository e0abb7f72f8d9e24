"""Print sentences drawn at random from the package's texts: ``python -m tests.tools.sample_sentences SEED [NUMBER]``.

Each is to be understood at first reading, with the name that it documents and without the code around it.
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
ABBREVIATION = re.compile(r"(\b(?:e\.g|i\.e|sec|cf|vs|Thm|Alg|eq|et al)|\.\.|(?:^|\s)\d)\.\s+")
NO_SENTENCE = re.compile(r"Source: |SELECT |CREATE |\W*$")
"""Citations and statements of SQL."""
ENTRY = re.compile(
    r"\n(?= *(?:Args|Attributes|Returns|Raises|Yields|Privacy|Source|[a-z_0-9*]+(?:, [a-z_0-9*]+)*):(?: |\n))"
)
HEADING = re.compile(r"^ *(?:Args|Attributes|Returns|Raises|Yields):\s*", re.MULTILINE)


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


def documented(tree: ast.AST) -> dict[int, str]:
    """Return the name that each docstring documents, by the identity of its node."""
    names = {}
    for node in ast.walk(tree):
        before, body = "", getattr(node, "body", None)
        for i, statement in enumerate(body if isinstance(body, list) else []):
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                names[id(statement.value)] = before if i else getattr(node, "name", "")
            targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
            before = ast.unparse(targets[0]) if isinstance(targets[0], ast.expr) else ""
    return names


def texts(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, documented name and text of docstrings, and of texts of four words or more in the code."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = documented(tree)
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and (
            isinstance(node, ast.JoinedStr) or id(node) not in inner
        ):
            text = text_of(node)
            if len(text.split()) >= 4:
                yield node.lineno, names.get(id(node), ""), text


def split(text: str) -> Iterator[str]:
    """Yield the sentences of a text; each entry of a list of arguments or attributes begins a sentence."""
    for part in ENTRY.split(text):
        if part.strip().startswith("Source:"):
            continue
        for sentence in SENTENCE.findall(ABBREVIATION.sub("\\1.\0", HEADING.sub("", part))):
            yield " ".join(sentence.replace("\0", " ").split())


def sentences() -> list[tuple[str, str]]:
    """Return place and sentence of all texts of the package, its templates included."""
    placed = [
        (f"{path.relative_to(PACKAGE.parent)}:{line} {name}".rstrip(), sentence)
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, name, text in texts(path)
        for sentence in split(text)
    ]
    for path in sorted(PACKAGE.rglob("*.j2")):
        plain = re.sub(r"\{[#%].*?[#%]\}|<[^>]*>", "\n\n", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        placed += [
            (str(path.relative_to(PACKAGE.parent)), each)
            for block in plain.split("\n\n")
            for each in split(" ".join(block.split()))
        ]
    return [(place, each) for place, each in placed if len(each.split()) >= 4 and not NO_SENTENCE.match(each)]


if __name__ == "__main__":
    seed, number = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 60
    for place, sentence in random.Random(seed).sample(sentences(), number):
        print(f"{place}\n    {sentence}")
