"""Whole releases of text files beside DuckDB's count of the same file, in paired runs; printed, not asserted."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.test_benchmarks import COUNT, released, run_process
from tests.benchmarks.test_growth import csv_of

pytestmark = pytest.mark.benchmark

STATUS = ("Married-civ-spouse", "Never-married", "Divorced", "Separated", "Widowed")
CASES = {
    "one column, 1e8 records": (10**8, "x", ""), "one column, 1e7 records": (10**7, "x", ""),
    "one of six columns, 1e7 records": (10**7, "a", ""), "one of six quoted columns, 1e7 records": (10**7, "a", '"'),
}  # fmt: skip


def six_columns(path: Path, n: int, quote: str) -> Path:
    """Write records of a bit, two texts, an integer and two decimals; a block of them is repeated."""
    rng, size = np.random.default_rng(1), 200_000
    cells = zip(
        rng.integers(0, 2, size).tolist(),
        rng.choice(["yes", "no"], size).tolist(),
        rng.choice(STATUS, size).tolist(),
        rng.integers(0, 100, size).tolist(),
        rng.normal(50, 20, size).round(2).tolist(),
        rng.random(size).round(6).tolist(),
        strict=True,
    )
    between = f"{quote},{quote}"
    block = "".join(f"{quote}{between.join(map(str, record))}{quote}\n" for record in cells).encode()
    with path.open("wb") as file:
        file.write(b"a,b,c,d,e,f\n")
        for _ in range(n // size):
            file.write(block)
    return path


@pytest.mark.parametrize("case", CASES)
def test_ratios(case: str, place: Path) -> None:
    n, column, quote = CASES[case]
    path = csv_of(place / "x.csv", n) if column == "x" else six_columns(place / "six.csv", n, quote)
    what = f"count(*) FILTER ({column} = '1'), count(*) FILTER ({column} = '0')"
    source = f"read_csv('{path}', all_varchar=true, header=true)"
    alone = [sys.executable, "-c", COUNT.format(what=what, source=source)]
    pairs = [(run_process(released(path, "--column", column)), run_process(alone)) for _ in range(3)]
    ours, theirs = zip(*pairs, strict=True)
    wall, cpu = (statistics.median(a[k] / b[k] for a, b in pairs) for k in (0, 2))
    seconds = [statistics.median(run[k] for run in runs) for runs in (ours, theirs) for k in (0, 2)]
    print(
        f"\n{case}: {seconds[0]:.2f} s, {seconds[1]:.2f} s of CPU, {max(run[1] for run in ours):.0f} MB; DuckDB "
        f"{seconds[2]:.2f} s, {seconds[3]:.2f} s of CPU, {max(run[1] for run in theirs):.0f} MB; ratio {wall:.2f} in "
        f"time, {cpu:.2f} in CPU time"
    )


@pytest.mark.parametrize("quoted", [False, True])
def test_memory_on_a_line_of_a_gigabyte(quoted: bool, place: Path) -> None:
    path = place / "long.csv"
    piece = b'"' + b"z\n" * 511 + b'",' if quoted else b"z" * 1024
    with path.open("wb") as file:
        file.write(b"x\n" + b"1\n0\n" * 500)  # enough for a release without a simulation of what it would be worth
        for _ in range(1 << 10):
            file.write(piece * (1 << 10))
        file.write(b"\n1\n")
    seconds, megabytes, _ = run_process(released(path, *(["--quoted-newlines"] if quoted else [])))
    print(f"\na line of 1 GB, quoted line feeds {quoted}: {seconds:.2f} s, {megabytes:.0f} MB")
