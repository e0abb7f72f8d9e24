"""Running a study: an interrupted run is resumed, a changed study recomputes what changed, the command reports it."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from dpbayes_cli.base.errors import OutputError, SourceError
from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.calibration import Calibration
from dpbayes_cli.experiments.results import GridPoint
from dpbayes_cli.experiments.study import build_study
from tests.experiments import studies
from tests.experiments.studies import CALIBRATION, changed

CASES = {name: CALIBRATION["cases"][name] for name in ("coin", "dice")}
SMALL: dict[str, Any] = {**CALIBRATION, "name": "small", "trials": "12", "cases": CASES}


def run(document: dict[str, Any], out: Path) -> list[GridPoint]:
    """Run a study and publish it; return the points that were computed."""
    return studies.run(build_study(document), out)


def published(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out figures, and prices that a simulation does not pay."""
    monkeypatch.setattr(Calibration, "figures", lambda *_: {})
    monkeypatch.setattr("dpbayes_cli.mechanisms.samplers.sampler_for.exact_curve", lambda _: ())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("studies") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Calibration, "figures", lambda *_: {})
        assert len(run(SMALL, out)) == 16
    return out


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def test_a_killed_run_is_resumed(whole: Path, copy: Path) -> None:
    (lost,) = [p for p in build_study(SMALL).grid() if (p.case, p["n"], p["method"]) == ("coin", 40, "naive")]
    file = copy / "cells" / f"{lost.digest[:32]}.json"
    stored = json.loads(file.read_bytes())
    assert (stored["stamp"], stored["definition"]["n_records"]) == (NOT_PRIVATE, 40)
    file.unlink()
    (copy / "cells" / f".x.json.held-{'0' * 16}.partial").mkdir()
    assert run(SMALL, copy) == [lost]
    assert published(copy) == published(whole)
    file.write_bytes(file.read_bytes()[:-40])
    assert run(SMALL, copy) == [lost], "a torn file is no finished cell"
    assert run(SMALL, copy) == []
    assert not list(copy.rglob("*.partial"))


def test_a_changed_study_recomputes_the_points_that_changed(copy: Path) -> None:
    computed = run(changed(SMALL, "ops", "draws", "21"), copy)
    assert {point["method"] for point in computed} == {"ops"}
    assert len(computed) == 4
    assert yaml.safe_load((copy / "study.yaml").read_text())["ops"]["draws"] == 21
    assert run(SMALL, copy) == [], "what was computed before is still there"


@pytest.mark.parametrize("taken", ["other", "foreign", "file"])
def test_a_directory_of_something_else_is_refused(taken: str, tmp_path: Path, copy: Path) -> None:
    out = tmp_path / taken
    if taken == "other":
        out = copy
    elif taken == "foreign":
        out.mkdir()
        (out / "thesis.tex").write_text("x")
    else:
        out.write_text("x")
    before = published(tmp_path)
    with pytest.raises(OutputError) as error:
        run({**SMALL, "name": "different"}, out)
    assert "--out" in error.value.hint
    assert published(tmp_path) == before


def test_another_seed_gives_other_numbers(whole: Path, tmp_path: Path) -> None:
    run({**SMALL, "seed": "8", "methods": ["naive"]}, tmp_path / "other")
    first, second = (pd.read_csv(out / "ranks.csv") for out in (whole, tmp_path / "other"))
    assert not set(first["theta"]) & set(second["theta"])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"cannot read .*records\.csv"):
        build_study(studies.LINEAR, tmp_path).grid()


def test_an_interruption_does_not_wait_for_the_workers(tmp_path: Path) -> None:
    """One point takes at least a minute."""
    case = {"model": "logistic-regression", "kind": "normal", "features": [10]}
    document = {**studies.REGRESSIONS, "trials": 80, "n": [20000], "methods": ["noise-aware"], "cases": {"wide": case}}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(document))
    command = [sys.executable, "-m", "dpbayes_cli", "experiment", "study.yaml", "--out", "out", "--jobs", "2"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "out" / "cells").exists():
            time.sleep(0.1)
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        _, says = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "the finished points are saved" in says
