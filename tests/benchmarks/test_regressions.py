"""Regressions as whole processes, printed, not asserted: seconds a step and memory of Langevin chains against rows, and
seconds of a linear regression against features."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import duckdb
import numpy as np
import pytest
import yaml

from tests.benchmarks.test_benchmarks import DPBAYES, measure, run_process
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


@pytest.mark.parametrize("n_features", [3, 5, 10, 20, 30])
def test_linear_regression(n_features: int, tmp_path: Path) -> None:
    """5,000 records at epsilon 1, delta 1e-6; the bars are 10 s with 10 features and 60 s with 30."""
    rng, data = np.random.default_rng(7), tmp_path / "rows.csv"
    x = np.clip(rng.standard_normal((5000, n_features)) / 3.5, -1.0, 1.0)
    y = 0.1 + x @ rng.normal(0.0, 0.3 / n_features**0.5, n_features) + rng.normal(0.0, 0.2, 5000)
    names = [f"x{i}" for i in range(n_features)]
    np.savetxt(data, np.column_stack([y, x]), delimiter=",", header=",".join(["y", *names]), comments="", fmt="%.5f")
    ends = {"lower": -1, "upper": 1}
    domain = {"target": {"column": "y", **ends}, "features": {name: dict(ends) for name in names}}
    spec = {"model": "linear-regression", "domain": domain, "privacy": {"epsilon": 1, "delta": "1e-6"}}
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(spec))
    program, request = shlex.join(DPBAYES), shlex.join([str(data), "--spec", str(tmp_path / "spec.yaml")])
    account = f"{program} budget open rows --epsilon 2 --delta 1e-5 > opened"
    command = ["/bin/bash", "-c", f"{account} && {program} release {request} --dataset rows --out out"]
    seconds, memory, cpu = run_process(command)
    print(f"\nlinear regression, {n_features} features: {seconds:.1f} s, {cpu:.1f} s of a processor, {memory:.0f} MB")


def test_adult() -> None:
    spec = ROOT / "configs" / "releases" / "adult-logistic-regression.yaml"
    seconds, memory = measure(release("--spec", str(spec)), runs=1)
    print(f"\nAdult, 32,561 rows, 109 columns: {seconds:.1f} s, {memory:.0f} MB")
