"""Synthetic tables from the shell: their columns and texts, their draws, what is written beside them, and refusals."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpbayes_cli as dpb
from dpbayes_cli.bundle.read import read_bundle
from dpbayes_cli.synthesis.bundle_law import law_of
from tests.commands.networks import VARIABLES, naive_bayes, people, release
from tests.commands.test_gibbs import HMM, MIXTURE, events
from tests.conftest import ROOT, Cli, files_of
from tests.test_leaks import SENTINEL

LEVELS = {"class": ["no", "yes"], "kind": ["u", "v", "w"], "flag": ["0", "1"]}
AGES = ["<20", "20 to <40", "40 to <60", ">=60"]


def table(path: str | Path) -> pd.DataFrame:
    return pd.read_csv(path, dtype=str)


def test_tables_have_the_columns_and_texts_of_the_spec(dpbayes: Cli, bundle: Path) -> None:
    command = ("synthesize", bundle, "--rows", "500", "--datasets", "3", "--seed", "7")
    done = dpbayes(*command, "--out", "made", "--json").exits(0)
    files = files_of("made")
    assert sorted(files) == ["README.md", "csv-metadata.json", *(f"synthetic-{k}.csv" for k in (1, 2, 3))]
    assert done.json["files"] == [f"synthetic-{k}.csv" for k in (1, 2, 3)]
    for name in done.json["files"]:
        synthesized = table(Path("made", name))
        assert {c: sorted(synthesized[c].unique()) for c in LEVELS} == LEVELS
        assert set(synthesized["age"]) <= set(AGES)
        assert len(synthesized) == 500
    assert len({files[name] for name in done.json["files"]}) == 3
    described = json.loads(files["csv-metadata.json"])
    assert [each["dpbayes:synthetic"] for each in described["tables"]] == ["true"] * 3
    assert described["dpbayes:release_id"] == done.json["release_id"]
    assert "dpb.combine(estimates, variances" in files["README.md"].decode()
    assert "epsilon 1" in files["README.md"].decode()
    assert "does not say how many records were valid.\n" in files["README.md"].decode(), "readers have no data to check"
    assert Path("made", "synthetic-1.csv").stat().st_mode & 0o777 == 0o600
    dpbayes(*command, "--out", "again").exits(0)
    assert files_of("again") == files
    other = dpb.synthesize(bundle, rows=500, datasets=3, seed=8)
    assert not other[0].astype(str).equals(table("made/synthetic-1.csv"))
    assert dpb.synthesize(bundle, rows=500, datasets=3, seed=7)[1].astype(str).equals(table("made/synthetic-2.csv"))
    dpbayes(*command, "--out", "made").exits(8, "exists already")


def test_each_table_follows_its_own_posterior_draw(bundle: Path) -> None:
    """Six standard errors: fails without reason with probability below 1e-6."""
    source = law_of(read_bundle(bundle))
    tables = dpb.synthesize(bundle, rows=20_000, datasets=40)
    assert len(set(tables.draws)) == 40
    theta = source.law.margin([0])[list(tables.draws), 1]
    shares = np.array([(synthesized["class"] == "yes").mean() for synthesized in tables])
    np.testing.assert_array_less(np.abs(shares - theta), 6.0 * np.sqrt(theta * (1 - theta) / 20_000))
    assert shares.std() > 3.0 * np.sqrt(0.25 / 20_000)  # else tables from one draw would pass


def test_numbers_are_uniform_within_their_cuts(dpbayes: Cli, bundle: Path) -> None:
    """The ages of each interval have the mean of a uniform law; five standard errors."""
    done = dpbayes("synthesize", bundle, "--rows", "9000", "--datasets", "1", "--bounds", "age=0:79", "--out", "made")
    texts = dpb.synthesize(bundle, rows=9000, datasets=1)[0]
    assert done.code == 0
    ages = pd.read_csv("made/synthetic-1.csv")["age"]
    assert ages.dtype == np.int64
    assert (ages.min(), ages.max()) == (0, 79)
    codes = np.searchsorted([20, 40, 60], ages, side="right")
    np.testing.assert_array_equal(codes, texts["age"].cat.codes)
    for code in range(4):
        within = ages[codes == code] - 20 * code
        assert abs(within.mean() - 9.5) < 5.0 * np.sqrt(399 / 12 / len(within))
    decimals = dpb.synthesize(bundle, rows=2000, bounds={"age": (0.0, 79.5)})[0]["age"]
    assert decimals.between(0.0, 79.5).all()
    assert (decimals % 1 != 0).mean() > 0.9
    for bounds in ("age=30:79", "age=0:50", "age=0:nan", "kind=0:1", "agee=0:1", "age=0", "age=5:1"):
        dpbayes("synthesize", bundle, "--bounds", bounds, "--out", "x").exits(3, "bounds")


def test_parquet_files_state_that_they_are_synthetic(dpbayes: Cli, bundle: Path) -> None:
    dpbayes("synthesize", bundle, "--rows", "50", "--datasets", "10", "--format", "parquet", "--out", "it's").exits(0)
    names = sorted(files_of("it's"))
    assert names == ["README.md", *(f"synthetic-{k:02}.parquet" for k in range(1, 11))]
    path = "it''s/synthetic-02.parquet"
    metadata = duckdb.execute(f"SELECT key, value FROM parquet_kv_metadata('{path}')").fetchall()
    stated = {bytes(key).decode(): bytes(value).decode() for key, value in metadata}
    assert (stated["synthetic"], stated["table"]) == ("true", "2 of 10")
    rows = duckdb.execute(f"SELECT * FROM '{path}'").fetchall()
    synthesized = dpb.synthesize(bundle, rows=50)[1]
    assert [list(map(str, row)) for row in rows] == synthesized.astype(str).to_numpy().tolist()


@pytest.mark.slow
@pytest.mark.parametrize("spec", [HMM, MIXTURE], ids=["hmm", "mixture"])
def test_released_draws_give_as_many_tables(spec: dict[str, Any], dpbayes: Cli, place: Path) -> None:
    data = events(place / "data.csv") if spec is HMM else people(place / "data.csv", 200)
    release(dpbayes, data, spec).exits(0)
    tables = dpb.synthesize("out", rows=300)
    assert tables.draws == (0, 1, 2, 3)
    assert list(tables[0]) == (["place", "month", "kind", "hurt"] if spec is HMM else ["kind", "flag", "age"])
    dpbayes("synthesize", "out", "--datasets", "5", "--out", "made").exits(3, "5 tables need as many posterior draws")
    dpbayes("synthesize", "out", "--out", "made").exits(0, "each table has 200 records")
    dpbayes("analyze", "out", "--mean", "kind").exits(3, "need at least 20 posterior draws")
    if spec is HMM:
        assert "equally frequent" in Path("made", "README.md").read_text()


@pytest.mark.slow
def test_what_has_no_joint_law_is_refused(dpbayes: Cli, coin: Path) -> None:
    dpbayes("release", coin, "--model", "beta-bernoulli", "--eps", "1", "--out", "out").exits(0)
    dpbayes("synthesize", "out", "--out", "made").exits(3, "has no joint law")
    assert not Path("made").exists()


def test_texts_of_the_data_that_the_spec_lacks_appear_nowhere(dpbayes: Cli, place: Path) -> None:
    lines = people(place / "data.csv", 300).read_text().splitlines()
    with_sentinels = [f"{line},{SENTINEL}" if k % 2 else line.replace("u", SENTINEL) for k, line in enumerate(lines)]
    Path("data.csv").write_text("\n".join([f"{lines[0]},{SENTINEL}", *with_sentinels[1:]]) + "\n")
    release(dpbayes, Path("data.csv"), naive_bayes()).exits(0)
    outputs = [dpbayes("synthesize", "out", "--out", "made", "--json")]
    outputs += [dpbayes("synthesize", "out", "--format", "parquet", "--out", "more", "--bounds", "age=0:99")]
    outputs += [
        dpbayes("analyze", "out", "class ~ kind", "--plot", "plot.svg"),
        dpbayes("analyze", "out", "--mean", "age"),
    ]
    outputs += [dpbayes("analyze", "out", f"class ~ {SENTINEL[:8]}")]
    assert [each.code for each in outputs] == [0, 0, 0, 0, 3]
    texts = "".join(each.out + each.err for each in outputs[:4]).encode()
    written = {**files_of("made"), **files_of("more"), "plot.svg": Path("plot.svg").read_bytes(), "printed": texts}
    assert [name for name, content in written.items() if SENTINEL.encode() in content] == []
    allowed = {level for column in LEVELS.values() for level in column} | set(AGES)
    assert set(table("made/synthetic-01.csv").to_numpy().ravel()) <= allowed
    assert list(table("made/synthetic-01.csv")) == list(VARIABLES)


@pytest.mark.slow
@pytest.mark.parametrize("table_format", ["csv", "parquet"])
def test_100_000_rows_of_adult_take_at_most_five_seconds(table_format: str, dpbayes: Cli) -> None:
    """Time of the processor, so that other processes do not count."""
    dpbayes("release", "--spec", ROOT / "configs/releases/adult-bayes-net.yaml", "--out", "out", "-q").exits(0)
    started = time.process_time()
    command = ("synthesize", "out", "--rows", "100000", "--datasets", "1", "--bounds", "age=17:90", "--out", "made")
    done = dpbayes(*command, "--format", table_format, "--json").exits(0)
    assert time.process_time() - started < 5.0
    assert len(done.json["columns"]) == 14
    counted = duckdb.execute(f"SELECT count(*) FROM 'made/synthetic-1.{table_format}'").fetchall()
    assert counted == [(100_000,)]


def test_a_killed_command_leaves_nothing(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = dpb.synthesize(bundle, rows=10, datasets=3)

    class StopError(Exception):
        pass

    def stop(share: float) -> None:
        if share > 0.5:
            raise StopError

    from dpbayes_cli.synthesis.files import write_tables

    before = sorted(path.name for path in Path().iterdir())
    with pytest.raises(StopError):
        write_tables(tables, Path("made"), report=stop)
    assert sorted(path.name for path in Path().iterdir()) == before
