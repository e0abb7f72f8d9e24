"""Rules of the code: style, types and import contracts by their tools; docstrings, privacy claims, sample data."""

from __future__ import annotations

import ast
import gzip
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import dpbayes_cli
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.ledger.budgets import Budget
from dpbayes_cli.privacy.conjugate import ConjugateFamily
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.step_law import StepLaw
from tests.conftest import ROOT

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(dpbayes_cli.__path__, "dpbayes_cli.")
    if not module.name.endswith("__main__")
)


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "--no-cache", "."],
        ["ruff", "format", "--no-cache", "--check", "."],
        pytest.param(["mypy", "--no-error-summary"], marks=pytest.mark.slow),  # before each commit, for the package
        ["importlinter.cli", "--no-cache"],
    ],
    ids=lambda command: " ".join(command[:3]),
)
def test_the_tools_have_nothing_to_say(command: list[str]) -> None:
    if command[0] == "mypy":
        pytest.importorskip("mypy", reason="mypy is in the extra types")
    runner = (
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", command[1]]
        if command[0] == "importlinter.cli"
        else [sys.executable, "-W", "ignore", "-m", *command]
    )
    done = subprocess.run(runner, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def public_functions() -> list[tuple[str, object]]:
    functions: list[tuple[str, object]] = []
    for name in MODULES:
        module = importlib.import_module(name)
        for label, value in vars(module).items():
            if not label.startswith("_") and getattr(value, "__module__", None) == name and callable(value):
                functions.append((f"{name}.{label}", value))
    return functions


def test_everything_public_says_what_it_is_for() -> None:
    first = {name: (inspect.getdoc(subject) or "?").splitlines()[0].rstrip() for name, subject in public_functions()}
    assert len(first) > 1000
    assert [name for name, line in first.items() if not line.endswith((".", ":", ","))] == []


PRICED_PACKAGES = ("core", "ledger", "mechanisms", "models", "privacy", "workflow")
PRICED_BASES: tuple[type, ...] = (Budget, ConjugateFamily, Guarantee, Mechanism, StepLaw)
"""What a release costs or draws is computed by their subclasses."""
MARKER = re.compile(r"^Privacy: \S", re.MULTILINE)
"""Marks a docstring as that of a class or function on whose code a guarantee rests."""


def marked_docstrings() -> dict[str, str]:
    """Return the marked docstrings of classes, functions and methods, by their place."""
    return {
        f"{path.relative_to(ROOT)}:{node.name}": text
        for package in PRICED_PACKAGES
        for path in sorted((ROOT / "dpbayes_cli" / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and MARKER.search(text := ast.get_docstring(node) or "")
    }


def test_what_touches_privacy_says_how_and_why() -> None:
    """A marker that is lost from a function lowers the number; a new one may raise it."""
    marked = marked_docstrings()
    assert len(marked) >= 110
    assert [place for place, text in marked.items() if not re.search(r"^Source: \S", text, re.MULTILINE)] == []


def test_every_class_that_prices_or_draws_is_marked() -> None:
    def subclasses(base: type[Any]) -> Iterator[type[Any]]:
        for derived in base.__subclasses__():
            yield derived
            yield from subclasses(derived)

    for name in MODULES:
        importlib.import_module(name)
    kinds: set[type] = {kind for base in PRICED_BASES for kind in subclasses(base) if not inspect.isabstract(kind)}
    own = [kind for kind in kinds if kind.__module__ in MODULES]
    assert len(own) > 40
    assert [kind.__name__ for kind in own if not MARKER.search(inspect.cleandoc(kind.__doc__ or ""))] == []


def test_the_sample_data_are_what_their_generator_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "sample_data")
    generate, event_log = importlib.import_module("generate"), importlib.import_module("event_log")
    for name, table in importlib.import_module("noisy_tables").TABLES.items():
        assert (ROOT / "sample_data" / name).read_text(encoding="ascii") == table()
    assert (ROOT / "sample_data" / "relapse.csv").read_bytes() == generate.relapse()
    assert (ROOT / "sample_data" / "clinic.csv").read_bytes() == generate.clinic()
    assert (ROOT / "sample_data" / "survey.csv.gz").read_bytes() == generate.compressed(generate.survey())
    assert gzip.decompress((ROOT / "sample_data" / "events.csv.gz").read_bytes()) == event_log.events()
