"""The words of the package: imperative docstrings, the terms of the glossary, and the generated list of messages."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT

VERBS = """
add analyze append apply audit begin bring build calibrate charge check choose clear close combine compare complete
compute connect convert copy count create cut decide dictate divide do draw eliminate end estimate evaluate execute
extend find finish fit follow forget group hand hold import index infer keep learn leave list lock look make mark
maximize merge migrate move name note open pack parse place plan predict prepare price print privatize propose put
raise read rebuild record redraw refuse release remember remove rename render repeat replace report require resolve
restore return run save scale score see send set show sign simulate solve split stand start state step stop store
subtract sum summarize tabulate take tell thin transform turn undo update use verify wait walk warn write yield
"""
"""What public functions do; a new verb is added here."""
EXEMPT = (
    "CHANGELOG.md", "tests/", "docs/glossary.md", "dpbayes_cli/spec/version_1", "dpbayes_cli/spec/stored_spec.py",
    "dpbayes_cli/bundle/version_1.py",
)  # fmt: skip
"""Where a word of before may stand: the history, records of earlier versions, and the list of such words."""


def public_functions(path: Path) -> Iterator[tuple[str, str]]:
    """Yield name and docstring of public functions and methods; commands and properties are described, not called."""
    holders: list[tuple[str, ast.Module | ast.ClassDef]] = [("", ast.parse(path.read_text(encoding="utf-8")))]
    for prefix, holder in holders:
        for node in holder.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                holders.append((f"{prefix}{node.name}.", node))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                decorators = " ".join(ast.unparse(each) for each in node.decorator_list)
                if not re.search(r"property|setter|command|group|overload", decorators):
                    yield f"{path.relative_to(ROOT)}: {prefix}{node.name}", ast.get_docstring(node) or ""


def test_docstrings_of_public_functions_begin_with_an_imperative_verb() -> None:
    functions = [pair for path in sorted((ROOT / "dpbayes_cli").rglob("*.py")) for pair in public_functions(path)]
    assert len(functions) > 1000
    first = {name: re.split(r"\W", text, maxsplit=1)[0].lower() for name, text in functions if text}
    assert {name: word for name, word in first.items() if word not in VERBS.split()} == {}
    assert [name for name, text in functions if re.match(r"Return (that|those)\b", text)] == []


EARLIER = ("neighb[o]urs?", "col[o]urs?", "temp[e]ratures?", "taken for tr[u]e", "lo[t]s?")
"""Words of version 0.1, written so that a search for them does not find this line."""
BRITISH = (
    "gr[e]y", "cent[r]e[ds]?", "labelle[d]", "modelle[d]", "licen[c]e", "toward[s]", "afterward[s]", "behavio[u]r",
    "analys[e]d?",
)  # fmt: skip


def other_words() -> list[str]:
    """Return patterns of words to avoid: those of version 0.1, British spellings, and those that the glossary lists."""
    text = " ".join((ROOT / "docs/glossary.md").read_text(encoding="utf-8").split())
    listed = [word for words in re.findall(r"Not: ([^.]*)\.", text) for word in words.split(", ")]
    return [*EARLIER, *BRITISH, *map(re.escape, listed)]


def test_terms_have_one_form() -> None:
    pattern = "|".join(rf"\b{word}\b" for word in other_words())
    done = subprocess.run(
        ["git", "grep", "-nIiP", pattern], cwd=ROOT, capture_output=True, text=True, check=False, errors="replace"
    )
    hits = [line for line in done.stdout.splitlines() if not line.startswith(EXEMPT)]
    assert hits == []


def test_the_glossary_is_short() -> None:
    terms = re.findall(r"^- \*\*(.+?)\*\*", (ROOT / "docs/glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(terms) == len(set(terms)) <= 60
    assert len(other_words()) > 5


def test_generated_pages_are_up_to_date() -> None:
    """``python -m docs.generate`` writes them."""
    from docs.generate import contents

    old = [place.relative_to(ROOT) for place, text in contents().items() if place.read_text(encoding="utf-8") != text]
    assert [str(place) for place in old] == []
