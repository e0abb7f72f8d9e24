"""How time grows with the number of records, and what privacy units cost; printed, not asserted."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.test_benchmarks import COUNT, DUCKDB_ONE, measure, released, show

pytestmark = pytest.mark.benchmark

SIZES = (10**3, 10**5, 10**6, 10**7, 10**8)


def parquet_of(path: Path, n: int, column: str = "(random() < 0.3)::INTEGER AS x") -> Path:
    import duckdb

    duckdb.sql(f"SELECT {column} FROM range({n}) AS t(i)").write_parquet(str(path))
    return path


def slope(sizes: Sequence[int], times: Sequence[float]) -> float:
    """Return the slope of log time beyond the start-up against log size, over the last two sizes."""
    start = min(times[:2])
    return float(np.log((times[-1] - start) / (times[-2] - start)) / np.log(sizes[-1] / sizes[-2]))


def csv_of(path: Path, n: int) -> Path:
    cells = np.empty((min(n, 10**7), 2), np.uint8)
    cells[:, 0] = 48 + (np.random.default_rng(0).random(len(cells)) < 0.3)
    cells[:, 1] = 10
    with path.open("wb") as file:
        file.write(b"x\n")
        for _ in range(n // len(cells)):
            file.write(cells.tobytes())
    return path


PANDAS = """
import pandas as pd
x = pd.read_{form}({path!r})["x"]
counts = [int((x == 1).sum()), int((x == 0).sum())]
"""
OPENDP = """
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_laplace
from opendp.metrics import l1_distance
from opendp.mod import enable_features
enable_features("contrib")
noise = make_laplace(vector_domain(atom_domain(T=int)), l1_distance(T=int), 2.0)
print(noise(counts))
"""


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_growth(form: str, place: Path) -> None:
    """A whole release beside the count alone in DuckDB and in pandas, and beside pandas and OpenDP by hand."""
    times = []
    for n in SIZES:
        path = parquet_of(place / f"{n}.parquet", n) if form == "parquet" else csv_of(place / f"{n}.csv", n)
        source = f"'{path}'" if form == "parquet" else f"read_csv('{path}', all_varchar=true, header=true)"
        runs = 7 if n <= 10**7 else 3
        by_hand = PANDAS.format(form=form, path=str(path))
        ours = measure(released(path), runs)
        alone = measure([sys.executable, "-c", COUNT.format(what=DUCKDB_ONE, source=source)], runs)
        pandas = measure([sys.executable, "-c", by_hand], runs)
        opendp = measure([sys.executable, "-c", by_hand + OPENDP], runs)
        others = zip(("DuckDB", "pandas", "pandas and OpenDP"), (alone, pandas, opendp), strict=True)
        said = "; ".join(f"{name} {seconds:.2f} s, {memory:.0f} MB" for name, (seconds, memory) in others)
        print(f"\n{n:,} records of {form}: {ours[0]:.2f} s, {ours[1]:.0f} MB; {said}", end="")
        print(f"; allowed: {2 * alone[0] + 0.4:.2f} s, 2000 MB", end="")
        times.append(ours[0])
        path.unlink()
    sizes = (*SIZES, 4 * 10**8)  # ten million take hardly longer than none
    more = (parquet_of if form == "parquet" else csv_of)(place / f"more.{form}", sizes[-1])
    times.append(measure(released(more), 3)[0])
    print(f"\nslope of {form} to {sizes[-1]:,}, start-up taken off: {slope(sizes, times):.3f}")


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
