"""The layout of the package, measured and held to its bars; ``pytest -s`` prints the table."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import ROOT

PACKAGE = ROOT / "dpbayes_cli"
TOP_LEVEL = {
    "docs",
    "CHANGELOG.md",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "dpbayes_cli",
    "configs",
    "tests",
    "sample_data",
}
TABLE = {
    "api": "",
    "audit": "",
    "base": "",
    "bundle": "report",
    "commands": "",
    "core": "",
    "experiments": "",
    "inference": "cells counts groups predictive regression scores sequences sums tables",
    "ledger": "",
    "mechanisms": "samplers",
    "models": "families",
    "prediction": "",
    "privacy": "laws",
    "sources": "",
    "spec": "",
    "workflow": "",
}
"""The packages, each with the sub-packages that it may have."""
NO_SUBJECT = {"utils", "helpers", "common", "misc"}
MOST_LINES, MOST_ROWS = 350, 14


@dataclass(frozen=True)
class Measure:
    """One line of the table: what was counted, what it may be, and what breaks the bar."""

    name: str
    value: object
    bar: str
    wrong: list[str]

    @property
    def line(self) -> str:
        return f"{self.name:<46} {self.value!s:>6}  {self.bar:<12} {'; '.join(self.wrong)}".rstrip()


def test_the_package_has_the_layout_that_it_should_have() -> None:
    sources = {path.relative_to(PACKAGE): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    trees = {path: ast.parse(source) for path, source in sources.items()}
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    measures = measured(sources, trees, contracts["contracts"])
    print("", *(each.line for each in measures), sep="\n")
    assert [each.line for each in measures if each.wrong] == []


def measured(
    sources: Mapping[Path, str], trees: Mapping[Path, ast.Module], contracts: list[dict[str, Any]]
) -> list[Measure]:
    root = sorted(path.stem for path in sources if path.parent == Path())
    rows = next(each["layers"] for each in contracts if each["type"] == "layers")
    in_rows = {name.strip().removeprefix("dpbayes_cli.") for row in rows for name in row.split("|")}
    apart = in_rows ^ {*TABLE, "main"}
    packages = sorted(path.parent for path in sources if path.name == "__init__.py" and path.parent != Path())
    against = [each for each in contracts if forbids_cycles(each)]
    lengths = {path: len(source.splitlines()) for path, source in sources.items()}
    vague = [path for path, tree in trees.items() if path.stem in NO_SUBJECT or not ast.get_docstring(tree)]
    twice = {name: places for name, places in public_classes(trees).items() if len(places) > 1}
    return [
        Measure("modules in the root", len(root), "3", names({*root} ^ {"__init__", "__main__", "main"})),
        Measure("rows of the layer contract", len(rows), f"<= {MOST_ROWS}", rows[MOST_ROWS:]),
        Measure("packages in one of contract and table alone", len(apart), "0", names(apart)),
        Measure("packages and sub-packages", len(packages), "in the table", outside_the_table(packages)),
        Measure("packages that say what they own", len(packages), "all", silent(packages, trees)),
        Measure(
            "contracts against cycles", len(against), "1", [] if len(against) == 1 else ["cycles are not forbidden"]
        ),
        Measure("public classes of one name", len(twice), "0", [f"{name}: {names(twice[name])}" for name in twice]),
        Measure(
            "lines of the longest module",
            max(lengths.values()),
            f"<= {MOST_LINES}",
            names(path for path, length in lengths.items() if length > MOST_LINES),
        ),
        Measure("modules without a subject or a docstring", len(vague), "0", names(vague)),
    ]


def names(found: Iterable[object]) -> list[str]:
    return sorted(map(str, found))


def public_classes(trees: Mapping[Path, ast.Module]) -> dict[str, list[Path]]:
    found = defaultdict(list)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path)
    return found


def outside_the_table(packages: list[Path]) -> list[str]:
    allowed = {Path(name) for name in TABLE}
    allowed |= {Path(name) / part for name, parts in TABLE.items() for part in parts.split()}
    return names(set(packages) - allowed)


def silent(packages: list[Path], trees: Mapping[Path, ast.Module]) -> list[str]:
    """Return the packages whose docstring is not one or two sentences."""
    texts = {package: ast.get_docstring(trees[package / "__init__.py"]) or "" for package in packages}
    return names(package for package, text in texts.items() if not 1 <= len(re.findall(r"\.(?:\s|$)", text)) <= 2)


def forbids_cycles(contract: dict[str, Any]) -> bool:
    """Return whether a contract, which the linter keeps, forbids every cycle among siblings."""
    wanted = {"type": "acyclic_siblings", "ancestors": ["dpbayes_cli"]}
    return {key: value for key, value in contract.items() if key != "name"} == wanted


def test_the_top_level_is_what_it_is() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:  # a source archive: nothing tells its files from what was built beside them since
        assert {path.name for path in ROOT.iterdir()} >= TOP_LEVEL
        return
    top = {line.split("/")[0] for line in listed.stdout.splitlines()}
    assert {name for name in top if not name.startswith(".")} == TOP_LEVEL
