"""Planted bugs that an audit with default arguments must find: exit 7, and a finding that names the defect.

Each of ``tests/audit/planted/*.patch`` breaks a copy of the package, so that fresh processes run the bug too. Its
header says what breaks, the arguments of the audit, and what it must find.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.test_mutants import Mutant, apply

PLACE = ROOT / "tests" / "audit" / "planted"
PATCHES = sorted(PLACE.glob("*.patch"))


def read(path: Path) -> tuple[Mutant, list[str]]:
    """Return a patch, whose ``test`` is what the audit must find, and the arguments of the audit."""
    text = path.read_text(encoding="utf-8")
    head = dict(line.split(": ", 1) for line in text.split("\n\n", 1)[0].splitlines())
    files = tuple(re.findall(r"^\+\+\+ b/(.+)$", text, re.MULTILINE))
    return Mutant(path, head["breaks"], head["finds"], False, files), head["audit"].split()


def test_every_planted_bug_finds_its_lines() -> None:
    assert len(PATCHES) >= 14
    assert [path.name for path in PATCHES if apply(read(path)[0], ROOT, "--check")] == []


@pytest.mark.slow
@pytest.mark.parametrize("path", PATCHES, ids=lambda path: path.stem)
def test_a_default_audit_finds_the_planted_bug(path: Path, tmp_path: Path) -> None:
    planted, arguments = read(path)
    shutil.copytree(ROOT / "dpbayes_cli", tmp_path / "dpbayes_cli", ignore=shutil.ignore_patterns("__pycache__"))
    for spec in PLACE.glob("*.yaml"):
        shutil.copy(spec, tmp_path)
    assert apply(planted, tmp_path) == ""
    done = subprocess.run(
        [sys.executable, "-m", "dpbayes_cli", "audit", *arguments],
        cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    assert done.returncode == 7, done.stdout[-3000:] + done.stderr[-2000:]
    assert "the audit disproves the guarantee" in done.stderr
    assert planted.test in done.stderr, done.stderr
