"""What differs by law is a method of the law: no code outside a law's own package asks of what type a law is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set
from pathlib import Path

from tests.conftest import ROOT

PACKAGE = ROOT / "dpbayes_cli"
TESTS = {"isinstance", "issubclass"}
CLASS = re.compile(r"^class (\w+)\(([^)]*)\):", re.MULTILINE)


def test_no_type_tests_on_laws() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    owners = law_classes(sources)
    assert {"DiscreteLaplace", "PartNoise", "PrivateBounds", "Langevin", "ScalarSampler"} <= owners.keys()
    found = []
    for path, source in sources.items():
        if any(name in source for name in owners):
            for line, name in type_tests(ast.parse(source), owners.keys()):
                if owners[name] != path.relative_to(PACKAGE).parts[0]:
                    found.append(f"{path.relative_to(PACKAGE)}:{line} asks for {name}")
    assert found == []


def law_classes(sources: dict[Path, str]) -> dict[str, str]:
    """Every class below ``StepLaw``, and the package that owns it."""
    classes = [
        (name, {base.strip() for base in bases.split(",")}, path.relative_to(PACKAGE).parts[0])
        for path, source in sources.items()
        for name, bases in CLASS.findall(source)
    ]
    owners = {"StepLaw": "privacy"}
    while below := {name: owner for name, bases, owner in classes if name not in owners and bases & owners.keys()}:
        owners |= below
    return owners


def type_tests(tree: ast.Module, laws: Set[str]) -> Iterator[tuple[int, str]]:
    """The lines that test a type, or a stored kind, of these classes."""
    for node in ast.walk(tree):
        asked: list[ast.AST] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in TESTS:
            asked = list(node.args[1:])
        elif isinstance(node, ast.Compare):
            asked = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchClass):
            asked = [node.cls]
        for part in asked:
            for each in ast.walk(part):
                if isinstance(each, ast.Name) and each.id in laws:
                    yield each.lineno, each.id


def test_a_type_test_is_found() -> None:
    source = "isinstance(law, A | B) or type(law) is B or law.kind == A.kind or isinstance(g, C)"
    assert sorted(name for _, name in type_tests(ast.parse(source), {"A", "B"})) == ["A", "A", "B", "B"]
