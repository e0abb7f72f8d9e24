"""The layout of the package, held to its limits."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import click

from dpbayes_cli.core.registry import mechanism_names, model_names
from dpbayes_cli.main import cli
from tests.conftest import ROOT

PACKAGE = ROOT / "dpbayes_cli"
TOP_LEVEL = {"dpbayes_cli", "docs", "configs", "sample_data", "tests"}
TOP_LEVEL |= {"CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml"}
TABLE = {
    "api": "",
    "audit": "",
    "base": "",
    "bundle": "report",
    "check": "",
    "commands": "",
    "core": "",
    "experiments": "",
    "inference": "cells counts derivatives estimands groups predictive regression sequences sums tables",
    "ledger": "",
    "mechanisms": "samplers",
    "models": "families",
    "prediction": "",
    "privacy": "laws",
    "sources": "",
    "spec": "",
    "synthesis": "",
    "workflow": "",
}
"""The packages, each with the sub-packages that it may have."""
NO_SUBJECT = {"utils", "helpers", "common", "misc"}
MOST_LINES, MOST_ROWS = 350, 14


def test_the_package_has_the_layout_that_it_should_have() -> None:
    """Each list holds what breaks one rule."""
    sources = {path.relative_to(PACKAGE): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    trees = {path: ast.parse(source) for path, source in sources.items()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    rows = next(each["layers"] for each in contracts if each["type"] == "layers")
    in_rows = {name.strip().removeprefix("dpbayes_cli.") for row in rows for name in row.split("|")}
    against_cycles = {"type": "acyclic_siblings", "ancestors": ["dpbayes_cli"]}
    packages = {path.parent for path in sources if path.name == "__init__.py" and path.parent != Path()}
    allowed = {Path(name, part) for name, parts in TABLE.items() for part in ("", *parts.split())}
    wrong = {
        "modules in the root": {path.stem for path in sources if path.parent == Path()}
        ^ {"__init__", "__main__", "main"},
        "rows of the layer contract": rows[MOST_ROWS:],
        "packages in one of contract and table alone": in_rows ^ {*TABLE, "main"},
        "packages outside the table": packages - allowed,
        "packages whose docstring is not one or two sentences": [
            package for package in packages if not 1 <= n_sentences(trees[package / "__init__.py"]) <= 2
        ],
        "classes of one name": {name: places for name, places in classes(trees).items() if places[1:]},
        "modules of one name in one package": {name: n for name, n in modules(sources).items() if n > 1},
        "modules that are too long": [
            path for path, source in sources.items() if len(source.splitlines()) > MOST_LINES
        ],
        "modules without a subject or a docstring": [
            path for path, tree in trees.items() if path.stem in NO_SUBJECT or not ast.get_docstring(tree)
        ],
    }
    assert {rule: broken for rule, broken in wrong.items() if broken} == {}
    assert [{key: each[key] for key in each if key != "name"} for each in contracts].count(against_cycles) == 1


def test_each_command_model_and_mechanism_has_a_test_module_of_its_name() -> None:
    tested = {path.stem.removeprefix("test_") for path in (ROOT / "tests").rglob("test_*.py")}
    named = [*cli.list_commands(click.Context(cli)), *model_names(), *mechanism_names()]
    assert [name for name in named if name.replace("-", "_") not in tested] == []


def n_sentences(module: ast.Module) -> int:
    return len(re.findall(r"\.(?:\s|$)", ast.get_docstring(module) or ""))


def classes(trees: dict[Path, ast.Module]) -> dict[str, list[Path]]:
    places = defaultdict(list)
    for path, tree in trees.items():
        holders: list[ast.AST] = [tree]
        for holder in holders:
            for node in ast.iter_child_nodes(holder):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(path)
                if not isinstance(node, ast.expr):  # none holds a class
                    holders.append(node)
    return places


def modules(paths: Iterable[Path]) -> Counter[tuple[str, str]]:
    """Count the modules and sub-packages of each name within each package, its sub-packages included."""
    names = (path.parent if path.name == "__init__.py" else path.with_suffix("") for path in paths)
    return Counter((name.parts[0], name.name) for name in names if len(name.parts) > 1)


def test_the_top_level_is_what_it_is() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:  # a source archive: nothing tells its files from what was built beside them since
        assert {path.name for path in ROOT.iterdir()} >= TOP_LEVEL
        return
    top = {line.split("/")[0] for line in listed.stdout.splitlines()}
    assert {name for name in top if not name.startswith(".")} == TOP_LEVEL
