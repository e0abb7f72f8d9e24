"""A model is added by one file and one registry line, or as a plug-in, and all model tests run on it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

ADDED = ROOT / "tests" / "plugins" / "beta_negative_binomial.py"
NAME = "beta-negative-binomial"
LINE = f'        "{NAME}": "dpbayes_cli.models.beta_negative_binomial:BetaNegativeBinomial",\n'
BEFORE = '        "dirichlet-categorical": '
PYTEST = [sys.executable, "-m", "pytest", "-x", "-o", "addopts=", "-p", "no:cacheprovider"]
BATTERY = "tests/test_conformance.py"
CORE = "sensitivity or minimal or refused or examples or info or renyi_divergence"
"""The conformance tests that run with the fast tests."""
ALL_OF_IT = [BATTERY, "tests/spec/test_release_spec.py", "tests/mechanisms/test_ops.py", "tests/mechanisms/test_map.py"]
AUDITS = "tests/audit/test_attack.py::test_every_pair_passes_an_audit_by_default"

MECHANISM = '''
"""A mechanism that somebody else wrote."""

from typing import ClassVar

from dpbayes_cli.mechanisms.laplace import Laplace


class Lent(Laplace):
    """Add discrete Laplace noise.

    Privacy: that of ``Laplace``.
    Source: see there.
    """

    name: ClassVar[str] = "lent-laplace"
'''
ENTRY_POINTS = f"""[dpbayes.models]
{NAME} = beta_negative_binomial:BetaNegativeBinomial
[dpbayes.mechanisms]
lent-laplace = lent:Lent
"""


def with_the_model(tmp_path: Path) -> Path:
    """Return a copy of package and tests with the model's file and its registry line."""
    copy = tmp_path / "copy"
    for name in ("dpbayes_cli", "tests"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("*.pyc.*"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    shutil.copy(ADDED, copy / "dpbayes_cli" / "models")
    registry = copy / "dpbayes_cli" / "core" / "registry.py"
    source = registry.read_text(encoding="utf-8")
    assert source.count(BEFORE) == 1
    registry.write_text(source.replace(BEFORE, LINE + BEFORE), encoding="utf-8")
    return copy


def with_plug_ins(tmp_path: Path) -> Path:
    """Return a directory of installed packages with the model and a mechanism."""
    site = tmp_path / "site"
    metadata = site / "lent-1.0.dist-info"
    metadata.mkdir(parents=True)
    shutil.copy(ADDED, site)
    (site / "lent.py").write_text(MECHANISM, encoding="utf-8")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: lent\nVersion: 1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS, encoding="utf-8")
    return site


def passed(where: Path, *arguments: str, path: Path | None = None) -> int:
    """Run tests in another process, which must all pass, and return their number."""
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    done = subprocess.run(
        [*PYTEST, *arguments], cwd=where, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    counted = re.search(r"(\d+) (?:passed|tests collected)", done.stdout)
    assert counted, done.stdout[-3000:]
    return int(counted.group(1))


def test_an_installed_plug_in_is_tested_like_any_other(tmp_path: Path) -> None:
    """The conformance tests of the model, and of the mechanism on the beta models."""
    site = with_plug_ins(tmp_path)
    ours = f"({NAME} and ({CORE})) or (lent-laplace and beta)"
    assert passed(ROOT, BATTERY, "-k", ours, "-m", "not slow", path=site) > 30


@pytest.mark.slow
def test_the_tests_are_collected_with_plug_ins_and_their_battery_passes(tmp_path: Path) -> None:
    site = with_plug_ins(tmp_path)
    assert passed(ROOT, "--collect-only", path=site) > 2000
    assert passed(ROOT, BATTERY, "-k", f"{NAME} or lent-laplace", path=site) > 70


@pytest.mark.slow
def test_a_model_is_one_file_and_one_registry_line(tmp_path: Path) -> None:
    """The whole battery, its first spec, every pair of neighbors of its draws, and an audit of its Renyi curve."""
    copy = with_the_model(tmp_path)
    assert passed(copy, *ALL_OF_IT, "-k", NAME) > 60
    assert passed(copy, AUDITS, "-k", f"{NAME} and rdp-direct") == 1
