"""Planted bugs: a copy of the package with one of ``tests/mutants/*.patch`` applied must fail the test that it names.

Each patch is a bug that would break the guarantee, the posterior or the ledger. Its header says what breaks and which
test must fail; ``often: yes`` lets it run with the fast tests. To add one: change a line, take ``git diff -U1``, undo
the change, and put the header in front.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import ROOT

PYTEST = [sys.executable, "-m", "pytest", "--assert=plain", "-x", "-o", "addopts=", "-p", "no:cacheprovider"]


@dataclass(frozen=True)
class Mutant:
    """A planted bug.

    Attributes:
        path: of the patch.
        breaks: what is wrong with it.
        test: the test that must fail.
        often: whether it runs with the fast tests.
        files: what it changes, relative to the root.
    """

    path: Path
    breaks: str
    test: str
    often: bool
    files: tuple[str, ...]


def read(path: Path) -> Mutant:
    text = path.read_text(encoding="utf-8")
    head = dict(line.split(": ", 1) for line in text.split("\n\n", 1)[0].splitlines())
    files = tuple(re.findall(r"^\+\+\+ b/(.+)$", text, re.MULTILINE))
    return Mutant(path, head["breaks"], head["test"], head.get("often") == "yes", files)


MUTANTS = [read(path) for path in sorted((ROOT / "tests" / "mutants").glob("*.patch"))]


def apply(mutant: Mutant, place: Path, *options: str) -> str:
    """Apply a patch to a copy; return why it does not apply, or an empty text."""
    command = ["git", "apply", "--recount", "--ignore-whitespace", *options, str(mutant.path)]
    environment = {**os.environ, "GIT_DIR": str(place / "none"), "GIT_CEILING_DIRECTORIES": str(place)}
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr


def forget_bytecode(mutant: Mutant, place: Path) -> None:
    """Python takes a file of the same size and second for the same."""
    for name in mutant.files:
        for path in (place / name).parent.glob(f"__pycache__/{Path(name).stem}.*.pyc"):
            path.unlink()


def test_every_patch_applies() -> None:
    assert len(MUTANTS) > 200
    apart = {mutant.path.name: why for mutant in MUTANTS if (why := apply(mutant, ROOT, "--check"))}
    assert apart == {}, "patches that no longer fit the lines that they change"


def test_every_patch_names_a_test() -> None:
    for mutant in MUTANTS:
        file, _, name = mutant.test.partition("::")
        defined = re.findall(r"^(?:async )?def (test_\w+)", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
        assert not name or name.partition("[")[0] in defined, mutant.path.name


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One copy of what tests need, changed and restored for each bug."""
    place = tmp_path_factory.mktemp("mutants") / "copy"
    for name in ("dpbayes_cli", "tests", "sample_data", "configs", "docs"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("*.pyc.*"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, place)
    return place


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(each, id=each.path.stem, marks=[] if each.often else [pytest.mark.slow, pytest.mark.mutants])
        for each in MUTANTS
    ],
)
def test_a_planted_bug_is_caught(mutant: Mutant, copy: Path) -> None:
    assert apply(mutant, copy) == ""
    forget_bytecode(mutant, copy)
    try:
        among = "not slow" if mutant.often else "slow or not slow"
        done = subprocess.run(
            [*PYTEST, "-m", among, mutant.test], cwd=copy, capture_output=True, text=True, check=False,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        )  # fmt: skip
    finally:
        for name in mutant.files:
            shutil.copy(ROOT / name, copy / name)
        forget_bytecode(mutant, copy)
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
    assert "failed" in done.stdout
