"""Releases for many groups: seconds and memory against the number of groups; printed, not asserted."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dpbayes_cli.core.noisy_observation import GroupedCounts, NoisyGroups
from dpbayes_cli.inference.groups.infer_groups import infer_groups
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from tests.benchmarks.test_benchmarks import released, run_process
from tests.inference.groups.sum_references import outcome_of
from tests.inference.groups.sum_studies import COLUMNS, Cell, noisy_rows
from tests.inference.groups.test_moments import UNIT, noisy_groups

pytestmark = pytest.mark.benchmark

SIZES = (10**3, 10**4, 10**5, 10**6)
MEAN_SIZE = 20
DUCKDB = """
import duckdb, sys
counts = "count(*) FILTER (x = '1'), count(*) FILTER (x = '0')"
duckdb.sql(f"SELECT g, {counts} FROM read_csv('{sys.argv[1]}', all_varchar=true) GROUP BY g").fetchnumpy()
"""
PANDAS = """
import pandas as pd, sys
table = pd.read_csv(sys.argv[1], dtype={"g": str})
counts = table.groupby("g")["x"].agg(["sum", "size"])
"""


def slope(times: list[float]) -> float:
    """Return the slope of log time against log number of groups, over the last two numbers, start-up included."""
    return float(np.log(times[-1] / times[-2]) / np.log(SIZES[-1] / SIZES[-2]))


def usage(command: list[str]) -> tuple[str, float]:
    """Return the wall seconds, memory and CPU seconds of a whole process as text, and the CPU seconds."""
    seconds, megabytes, cpu = run_process(command)
    return f"{seconds:.2f} s, {cpu:.2f} s of CPU, {megabytes:.0f} MB", cpu


def files_of(place: Path, n_groups: int) -> tuple[Path, Path]:
    """Write records of groups with probabilities 0.2, 0.4 and 0.6, and the keys of the groups; return both files."""
    import duckdb

    data, keys = place / f"records-{n_groups}.csv", place / f"keys-{n_groups}.txt"
    rows = f"SELECT hash(i) % {n_groups} AS k FROM range({MEAN_SIZE * n_groups}) AS t(i)"
    query = f"SELECT 'g' || k AS g, (random() < 0.2 + 0.2 * (k % 3))::INTEGER AS x FROM ({rows})"
    duckdb.sql(f"COPY ({query}) TO '{data}' (HEADER)")
    keys.write_text("".join(f"g{k}\n" for k in range(n_groups)))
    return data, keys


def test_a_release_for_many_groups(place: Path) -> None:
    times = []
    for n_groups in SIZES:
        data, keys = files_of(place, n_groups)
        load = os.getloadavg()[0]
        ours, cpu = usage(released(data, "--column", "x", "--by", "g", "--groups", str(keys), "--out", "out"))
        print(f"{n_groups:,} groups of {MEAN_SIZE} records on average, with a load of {load:.1f}: {ours}")
        for name, program in (("GROUP BY in DuckDB", DUCKDB), ("groupby in pandas", PANDAS)):
            print(f"  {name}: {usage([sys.executable, '-c', program, str(data)])[0]}")
        times.append(cpu)
        data.unlink()
    print(f"slope of the CPU time of a release to {SIZES[-1]:,} groups, start-up included: {slope(times):.2f}")


def test_the_inference_of_groups_alone() -> None:
    rng, noise, times = np.random.default_rng(1), DiscreteLaplace(2.0), []
    for n_groups in SIZES:
        sizes = rng.poisson(MEAN_SIZE, n_groups)
        successes = rng.binomial(sizes, rng.beta(2.0, 3.0, n_groups))
        errors = np.array(noise.simulate(rng, 2 * n_groups)).reshape(-1, 2)
        observed = np.stack([successes, sizes - successes], axis=1) + errors
        started = time.process_time()
        infer_groups(NoisyGroups(GroupedCounts((1.0, 1.0)), observed, noise), "partial", 4000, rng)
        times.append(time.process_time() - started)
        print(f"infer_groups, {n_groups:,} groups: {times[-1]:.2f} s of CPU")
    print(f"slope of infer_groups to {SIZES[-1]:,} groups: {slope(times):.2f}")


@pytest.mark.parametrize(("n_groups", "sizes"), [(10**4, (0, 40)), (300, (2000, 20_000))], ids=["many", "large"])
def test_the_inference_of_groups_of_every_kind(n_groups: int, sizes: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    n = rng.integers(*sizes, n_groups)
    for n_categories in (2, 3, 5):
        counts = rng.multinomial(n, rng.dirichlet(np.full(n_categories, 4.0), n_groups))
        noise = DiscreteLaplace(2.0)
        observation = NoisyGroups(
            GroupedCounts((1.0,) * n_categories), counts + noise.simulate(rng, counts.shape), noise
        )
        timed(f"{n_categories} categories", observation, rng)
    for model in COLUMNS:
        cell = Cell(model, 1.0, float(np.mean(n)))
        outcome = outcome_of(cell.family, cell.column)
        low, high = outcome.law.public_range
        coordinates = rng.normal((low + high) / 2.0, (high - low) / 8.0, n_groups)
        parameters = outcome.law.parameters(coordinates[:, None])[:, 0]
        rows = noisy_rows(cell.family, cell.column, parameters, n, cell.noise, rng)
        timed(model, NoisyGroups(outcome, rows, cell.noise), rng)
    observation, _ = noisy_groups(rng.normal(5.0, 1.0, n_groups), n, 1.5, DiscreteLaplace(8.0 * UNIT), rng)
    timed("normal", observation, rng)


def timed(name: str, observation: NoisyGroups, rng: np.random.Generator) -> None:
    """Print the CPU seconds of an inference."""
    started = time.process_time()
    infer_groups(observation, "partial", 4000, rng)
    print(f"infer_groups, {len(observation.observed):,} groups, {name}: {time.process_time() - started:.2f} s of CPU")
