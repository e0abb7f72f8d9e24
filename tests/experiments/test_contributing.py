"""The skeleton of a study in docs/CONTRIBUTING.md runs as it stands there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dpbayes_cli.experiments.study import STUDIES
from tests.conftest import ROOT, Cli


def test_the_skeleton_of_a_study_runs(dpbayes: Cli, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs" / "CONTRIBUTING.md").read_text(encoding="utf-8")
    source, line, config = re.findall(r"```(?:python|yaml)\n(.*?)```", text, re.DOTALL)
    match = re.fullmatch(r'\s*"(.+)": "(.+):(.+)",\s*', line)
    assert match is not None
    name, module_name, _ = match.groups()
    module = ModuleType(module_name)
    monkeypatch.setitem(sys.modules, module_name, module)
    exec(compile(source, "CONTRIBUTING.md", "exec"), vars(module))
    monkeypatch.setitem(STUDIES, name, f"{match[2]}:{match[3]}")
    Path("proportions.yaml").write_text(config, encoding="utf-8")
    done = dpbayes("experiment", "proportions.yaml", "--jobs", "1", "--json")
    (exact, *noisy), (claim,) = done.json["results"], done.json["claims"]
    assert [row["scale"] for row in noisy] == pytest.approx([10.0, 1.0], rel=1e-6)
    assert exact["error"] < noisy[0]["error"]
    assert claim["holds"]
    assert {"results.csv", "trials.csv", "summary.md", "study.yaml", "error.svg"} < {
        path.name for path in (place / "experiment-proportions").iterdir()
    }
