"""``dpbayes experiment``: one document on stdout, and what cannot run."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.calibration import Calibration
from tests.conftest import Cli
from tests.experiments.test_runner import SMALL


def test_the_command_prints_one_document_and_talks_elsewhere(
    dpbayes: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Calibration, "figures", lambda *_: {})
    Path("small.yaml").write_text(yaml.safe_dump({**SMALL, "n": ["10"], "methods": ["naive"]}), encoding="utf-8")
    done = dpbayes("experiment", "small.yaml", "--jobs", "1", "--trials", "3", "--case", "coin", "--json", "-v")
    assert done.json["stamp"] == NOT_PRIVATE
    (row,) = done.json["results"]
    assert (row["case"], row["n"], row["epsilon"], row["method"], row["trials"]) == ("coin", 10, "0.1", "naive", 3)
    assert "1 of 1: coin, n 10, epsilon 0.1, naive" in done.err
    assert NOT_PRIVATE in done.err
    assert (place / "experiment-small" / "summary.md").exists()
    again = dpbayes("experiment", "small.yaml", "--jobs", "1", "--trials", "3", "--case", "coin", "-q")
    assert (again.err, again.out.splitlines()[0]) == ("", NOT_PRIVATE)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["missing.yaml"], 3), (["small.yaml", "--case", "nope"], 3), (["small.yaml", "--trials", "1"], 2),
        (["small.yaml", "--out", "taken"], 8),
    ],
)  # fmt: skip
def test_what_cannot_run_leaves_nothing(arguments: list[str], code: int, dpbayes: Cli) -> None:
    Path("small.yaml").write_text(yaml.safe_dump(SMALL), encoding="utf-8")
    Path("taken").write_text("x")
    done = dpbayes("experiment", *arguments)
    assert (done.code, done.out) == (code, ""), done.err
    assert sorted(path.name for path in Path().iterdir()) == ["small.yaml", "taken"]
