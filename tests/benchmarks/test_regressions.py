"""Regressions by Langevin chains: seconds a step and memory against rows, as whole processes; printed, not asserted."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import duckdb
import pytest
import yaml

from tests.benchmarks.test_benchmarks import DPBAYES, measure
from tests.conftest import ROOT

pytestmark = pytest.mark.benchmark

N_FEATURES = 49
STEPS = 100
BY_HAND = f"""
import sys, numpy as np, pandas as pd
data = pd.read_parquet(sys.argv[1])
y = data.pop("y").to_numpy(float)
x = np.column_stack([np.ones(len(y)), data.to_numpy(float) / 127.5 - 1])
w, rng = np.zeros(x.shape[1]), np.random.default_rng()
for _ in range({STEPS}):
    slope = 1 / (1 + np.exp(-(x @ w))) - y
    w -= 1e-9 * (x.T @ slope + w) + 1e-5 * rng.standard_normal(len(w))
"""
"""What one would write by hand: all rows in double precision, noise of a library's generator; no cost, no ledger."""


def data_file(place: Path, n_rows: int) -> Path:
    path = place / f"rows-{n_rows}.parquet"
    columns = ", ".join(f"CAST(floor(random() * 256) AS SMALLINT) AS x{i}" for i in range(N_FEATURES))
    query = f"SELECT {columns}, CAST(random() < 0.3 AS TINYINT) AS y FROM range({n_rows})"
    duckdb.sql(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
    return path


def spec_file(place: Path, steps: int) -> Path:
    path = place / f"steps-{steps}.yaml"
    domain = {
        "target": {"column": "y", "values": ["0", "1"]},
        "features": {f"x{i}": {"lower": 0, "upper": 255} for i in range(N_FEATURES)},
    }
    spec = {"model": "logistic-regression", "mechanism": "gibbs-posterior", "domain": domain,
            "privacy": {"mu": "0.5"}, "sampling": {"n_steps": steps}}  # fmt: skip
    path.write_text(yaml.safe_dump(spec))
    return path


def release(*arguments: str) -> list[str]:
    """Open an account and release, in one process of a shell: every run has a ledger of its own."""
    program = shlex.join(DPBAYES)
    asked = shlex.join([*arguments, "--dataset", "rows", "--out", "out"])
    return ["/bin/bash", "-c", f"{program} budget open rows --mu 30 > opened && {program} release {asked}"]


@pytest.mark.parametrize("n_rows", [1_000_000, 10_000_000])
def test_seconds_a_step_and_memory(n_rows: int, tmp_path: Path) -> None:
    data = data_file(tmp_path, n_rows)
    one, _ = measure(release(str(data), "--spec", str(spec_file(tmp_path, 1))), runs=1)
    whole, memory = measure(release(str(data), "--spec", str(spec_file(tmp_path, STEPS + 1))), runs=1)
    theirs, their_memory = measure([sys.executable, "-c", BY_HAND, str(data)], runs=1)
    print(f"\n{n_rows:.0e} rows, {N_FEATURES + 1} columns: {whole:.1f} s for {STEPS + 1} steps, {memory:.0f} MB; "
          f"{(whole - one) / STEPS:.3f} s a step; by hand {theirs:.1f} s, {their_memory:.0f} MB; "
          f"ratio {whole / theirs:.2f}")  # fmt: skip


def test_adult() -> None:
    spec = ROOT / "configs" / "releases" / "adult-logistic-regression.yaml"
    seconds, memory = measure(release("--spec", str(spec)), runs=1)
    print(f"\nAdult, 32,561 rows, 109 columns: {seconds:.1f} s, {memory:.0f} MB")
