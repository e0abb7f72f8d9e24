"""Rules of the code: style, types and import contracts by their tools; docstrings, privacy claims, sample data."""

from __future__ import annotations

import ast
import gzip
import importlib
import inspect
import pkgutil
import subprocess
import sys
from typing import Any

import pytest

import dpbayes_cli
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.ledger.budgets import Budget
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.noise import NoiseLaw
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
        ["mypy", "--no-error-summary", "dpbayes_cli"],
        pytest.param(["mypy", "--no-error-summary"], marks=pytest.mark.slow),  # the tests, too
        ["importlinter.cli", "--no-cache"],
    ],
    ids=lambda command: " ".join(command[:3]),
)
def test_the_tools_have_nothing_to_say(command: list[str]) -> None:
    runner = (
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", command[1]]
        if command[0] == "importlinter.cli"
        else [sys.executable, "-W", "ignore", "-m", *command]
    )
    done = subprocess.run(runner, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def public_functions() -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for name in MODULES:
        module = importlib.import_module(name)
        for label, value in vars(module).items():
            if not label.startswith("_") and getattr(value, "__module__", None) == name and callable(value):
                found.append((f"{name}.{label}", value))
    return found


def test_everything_public_says_what_it_is_for() -> None:
    first = {name: (inspect.getdoc(subject) or "?").splitlines()[0].rstrip() for name, subject in public_functions()}
    assert len(first) > 1000
    assert [name for name, line in first.items() if not line.endswith((".", ":", ","))] == []


PRICING = ("core", "ledger", "mechanisms", "models", "privacy", "workflow")
"""The packages that price or draw."""


def privacy_claims() -> dict[str, str]:
    """Return the docstrings with a section ``Privacy:``, by module and name."""
    claims = {}
    for path in (path for package in PRICING for path in sorted((ROOT / "dpbayes_cli" / package).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = (ast.get_docstring(node) if isinstance(node, ast.ClassDef | ast.FunctionDef) else "") or ""
            if "Privacy:" in text:
                claims[f"{path.relative_to(ROOT)}: {node.name}"] = text  # type: ignore[attr-defined]
    return claims


def subclasses(kind: type[Any]) -> list[type[Any]]:
    direct: list[type[Any]] = [each for each in kind.__subclasses__() if each.__module__.startswith("dpbayes_cli.")]
    return [*direct, *(each for child in direct for each in subclasses(child))]


def test_privacy_claims_have_sources_and_none_is_missing() -> None:
    public_functions()  # imports all modules
    claims = privacy_claims()
    assert len(claims) >= 110, "a docstring has lost its section Privacy:"
    assert [name for name, text in claims.items() if "Source:" not in text] == []
    bases: list[type[Any]] = [Mechanism, NoiseLaw, Budget, Guarantee]
    priced = [each for base in bases for each in subclasses(base)]
    assert {each.__name__ for each in priced} - {name.rsplit(" ", 1)[1] for name in claims} == set()


def test_the_sample_data_are_what_their_generator_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "sample_data")
    generate, event_log = importlib.import_module("generate"), importlib.import_module("event_log")
    assert (ROOT / "sample_data" / "relapse.csv").read_bytes() == generate.relapse()
    assert (ROOT / "sample_data" / "clinic.csv").read_bytes() == generate.clinic()
    assert (ROOT / "sample_data" / "survey.csv.gz").read_bytes() == generate.compressed(generate.survey())
    assert gzip.decompress((ROOT / "sample_data" / "events.csv.gz").read_bytes()) == event_log.events()
