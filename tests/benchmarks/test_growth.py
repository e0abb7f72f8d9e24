"""How time grows with the number of records, and what privacy units cost; printed, not asserted."""

from __future__ import annotations

import shutil
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from dpbayes_cli.columns import Column
from dpbayes_cli.sources.location import locate_for_spark
from dpbayes_cli.sources.spark import SparkSource
from dpbayes_cli.statistic import CountAt, Statistic
from tests.benchmarks.test_benchmarks import COUNT, big_csv, measure, released, show
from tests.sources.tables_of_texts import NOTHING, Asked, answer, bound, embedded

pytestmark = pytest.mark.benchmark

SPARK_SIZES = (10**3, 10**5, 10**6, 10**7)
SIZES = (10**3, 10**5, 10**6, 10**7, 10**8)


def parquet_of(path: Path, n: int, column: str = "(random() < 0.3)::INTEGER AS x") -> Path:
    import duckdb

    duckdb.sql(f"SELECT {column} FROM range({n}) AS t(i)").write_parquet(str(path))
    return path


def slope(times: list[float]) -> float:
    """Return the slope of log time beyond the start-up against log size, over the last two sizes."""
    start = min(times[:2])
    return float(np.log10((times[-1] - start) / (times[-2] - start)))


def test_growth_in_parquet(place: Path) -> None:
    what, times = "count(*) FILTER (x = 1), count(*) FILTER (x = 0)", []
    for n in SIZES:
        path = parquet_of(place / f"p{n}.parquet", n)
        alone = measure([sys.executable, "-c", COUNT.format(what=what, source=f"'{path}'")], 3)
        ours = measure(released(path), 3)
        show(f"{n:,} records of Parquet", ours, alone, "the same count in DuckDB alone")
        print(f"  allowed: {2 * alone[0] + 0.4:.2f} s and 2000 MB")
        times.append(ours[0])
    print(f"slope from 10^7 to 10^8, start-up taken off: {slope(times):.3f}")


def test_growth_in_csv(place: Path) -> None:
    times = []
    for n in SIZES:
        path = big_csv(place / f"c{n}.csv", n)
        source = f"read_csv('{path}', all_varchar=true, header=true)"
        what = "count(*) FILTER (x = '1'), count(*) FILTER (x = '0')"
        alone = measure([sys.executable, "-c", COUNT.format(what=what, source=source)], 3)
        ours = measure(released(path), 3)
        show(f"{n:,} records of CSV", ours, alone, "the same count in DuckDB alone")
        times.append(ours[0])
        path.unlink()
    print(f"slope from 10^7 to 10^8, start-up taken off: {slope(times):.3f}")


@pytest.mark.parametrize("n", [3 * 10**6, 3 * 10**7])
def test_privacy_units(place: Path, n: int) -> None:
    """Five records a unit on average, three of them kept; beside the same choice in DuckDB, by row numbers."""
    column = f"(random() * {n // 5})::INTEGER AS who, (random() < 0.3)::INTEGER AS x"
    path = parquet_of(place / "units.parquet", n, column)
    ranked = f"(SELECT x, row_number() OVER (PARTITION BY who ORDER BY hash(x)) AS place FROM '{path}')"
    alone = measure(
        [sys.executable, "-c", COUNT.format(what="sum(x), count(*)", source=f"{ranked} WHERE place <= 3")], 3
    )
    ours = measure(released(path, "--column", "x", "--unit", "who", "--max-contributions", "3"), 3)
    show(f"{n:,} records of {n // 5:,} units", ours, alone, "by row numbers in DuckDB alone")


@pytest.mark.skipif(find_spec("pyspark") is None, reason="pyspark is not installed")
@pytest.mark.skipif(shutil.which("java") is None, reason="no Java is installed")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("most", [None, 3])
def test_growth_by_spark(place: Path, most: int | None) -> None:
    """One session of two local threads, started before; the same integers as by the embedded reader."""
    times, column = [], (Column("x", ("0", "1")),)
    asked = Asked(Statistic((), (CountAt("x", 1),), 0, NOTHING, 0), column, most=most)
    for n in SPARK_SIZES:
        path = parquet_of(
            place / f"s{n}.parquet", n, f"(random() * {n // 5})::INTEGER AS owner, (i % 3 = 0)::INTEGER AS x"
        )
        expected, took = embedded(path, asked), []
        for _ in range(3):
            started = time.perf_counter()
            found = answer(SparkSource(locate_for_spark(str(path)), "local[2]", bound(asked)), asked)
            took.append(time.perf_counter() - started)
            assert found == expected
        times.append(min(took[1:]))
        print(f"\n{n:,} records by Spark, most {most}: {times[-1]:.2f} s, the first time {took[0]:.2f} s", end="")
    print(f"\nslope of Spark, start-up taken off: {slope(times):.3f}")
