"""Running a study: what is written, that it is stamped, that it can be taken up, and that nothing depends on how."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from dpbayes_cli.base.errors import OutputError
from dpbayes_cli.base.figures import new_figure
from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.calibration import Calibration
from dpbayes_cli.experiments.point import GridPoint
from dpbayes_cli.experiments.studies import build_study
from tests.conftest import ROOT, Cli
from tests.experiments import studies
from tests.experiments.studies import SMALL, changed, grid
from tests.experiments.test_study import CALIBRATION


def run(document: dict[str, Any], out: Path, jobs: int = 1) -> list[GridPoint]:
    """Run a study and publish it; return the points that were computed."""
    return studies.run(build_study(document), out, jobs)


def published(out: Path) -> dict[str, bytes]:
    """The files of a study, but for the figures."""
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file() and path.suffix != ".svg"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the small study, run on one process."""
    out = tmp_path_factory.mktemp("studies") / "whole"
    assert len(run(SMALL, out)) == 16
    return out


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out figures, which ``whole`` has already drawn, and prices that a simulation does not pay."""
    figures = {name: new_figure(1.0, 1.0) for name in ("ks", "ranks-coin", "ranks-dice", "mmd")}
    monkeypatch.setattr(Calibration, "figures", lambda *_: figures)
    monkeypatch.setattr("dpbayes_cli.mechanisms.samplers.sampler_for.exact_curve", lambda _: ())


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    import shutil

    return Path(shutil.copytree(whole, tmp_path / "copy"))


def test_every_file_and_figure_says_that_it_is_not_private(whole: Path) -> None:
    files = [path for path in whole.rglob("*") if path.is_file()]
    assert len(files) == 16 + 8
    for path in files:
        assert NOT_PRIVATE in path.read_text(encoding="utf-8"), path.name
    for figure in whole.glob("*.svg"):
        assert f">{NOT_PRIVATE}<" in figure.read_text(encoding="utf-8"), "visible, not a comment"
    for table in whole.glob("*.csv"):
        lines = table.read_text(encoding="utf-8").splitlines()
        assert all(line.startswith(NOT_PRIVATE) for line in lines[1:])


def test_the_tables_are_read_without_options(whole: Path) -> None:
    results = pd.read_csv(whole / "results.csv")
    assert len(results) == 16
    assert set(results["stamp"]) == {NOT_PRIVATE}
    assert set(results.loc[results["case"] == "dice", "parameter"]) == {"theta[b]"}
    assert results.loc[results["method"] == "non-private", "mmd"].eq(0.0).all()
    ranks = pd.read_csv(whole / "ranks.csv")
    assert len(ranks) == 16 * 12
    assert ranks["rank"].between(0.0, 1.0).all()
    same = ranks.groupby(["case", "n", "epsilon", "trial"])["theta"].nunique()
    assert same.eq(1).all(), "all methods see the same trials"


def test_a_killed_run_is_taken_up(whole: Path, copy: Path) -> None:
    (lost,) = [c for c in grid(SMALL) if (c.case, c["n"], c["method"]) == ("coin", 40, "naive")]
    file = copy / "cells" / f"{lost.digest[:32]}.json"
    file.unlink()
    (copy / "cells" / "x.json.1-2.partial").write_text("half a cell")
    assert run(SMALL, copy) == [lost]
    assert published(copy) == published(whole)
    file.write_bytes(file.read_bytes()[:-40])
    assert run(SMALL, copy) == [lost], "a torn file is no finished cell"
    assert run(SMALL, copy) == []
    assert not list(copy.rglob("*.partial"))


def test_a_changed_study_recomputes_the_cells_that_changed(copy: Path) -> None:
    computed = run(changed("ops", "draws", "21"), copy)
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
        run(changed("name", "different"), out)
    assert "--out" in error.value.hint
    assert published(tmp_path) == before


@pytest.mark.slow
def test_the_numbers_do_not_depend_on_the_number_of_processes_or_the_order(whole: Path, tmp_path: Path) -> None:
    run(SMALL, tmp_path / "two", jobs=2)
    assert published(tmp_path / "two") == published(whole)
    document = changed("methods", list(reversed(SMALL["methods"])))
    run(changed("n", ["40"]), tmp_path / "part")
    run(document, tmp_path / "part")
    columns = ["case", "n", "method"]
    first, second = (
        pd.read_csv(io.BytesIO(published(out)["results.csv"])).sort_values(columns, ignore_index=True)
        for out in (whole, tmp_path / "part")
    )
    pd.testing.assert_frame_equal(first, second, check_exact=True)


def test_another_seed_gives_other_numbers(whole: Path, tmp_path: Path) -> None:
    run({**changed("seed", "8"), "methods": ["naive"]}, tmp_path / "other")
    first, second = (pd.read_csv(out / "ranks.csv") for out in (whole, tmp_path / "other"))
    assert not set(first["theta"]) & set(second["theta"])


def test_the_command_prints_one_document_and_talks_elsewhere(dpbayes: Cli, place: Path) -> None:
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
        (["missing.yaml"], 3),
        (["small.yaml", "--case", "nope"], 3),
        (["small.yaml", "--trials", "1"], 2),
        (["small.yaml", "--out", "taken"], 8),
    ],
)
def test_what_cannot_run_leaves_nothing(arguments: list[str], code: int, dpbayes: Cli) -> None:
    Path("small.yaml").write_text(yaml.safe_dump(SMALL), encoding="utf-8")
    Path("taken").write_text("x")
    done = dpbayes("experiment", *arguments)
    assert (done.code, done.out) == (code, ""), done.err
    assert sorted(path.name for path in Path().iterdir()) == ["small.yaml", "taken"]


@pytest.mark.parametrize("case", ["beta-bernoulli", "dirichlet-categorical"])
def test_the_study_of_the_paper_runs(case: str, dpbayes: Cli) -> None:
    done = dpbayes("experiment", CALIBRATION, "--trials", "2", "--case", case, "--jobs", "1", "--json", "--out", "out")
    assert len(done.json["results"]) == 40


def test_every_experiment_config_is_a_study() -> None:
    paths = list((ROOT / "configs" / "experiments").glob("*.yaml"))
    assert paths
    for path in paths:
        assert build_study(yaml.load(path.read_text(), Loader=yaml.BaseLoader)).name == path.stem


def test_the_file_of_a_point_holds_its_definition(whole: Path) -> None:
    for point in grid(SMALL):
        stored = json.loads((whole / "cells" / f"{point.digest[:32]}.json").read_bytes())
        assert stored["stamp"] == NOT_PRIVATE
        assert stored["definition"]["n_records"] == point["n"]
