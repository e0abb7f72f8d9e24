"""Measurements, printed and not asserted: ``python -m pytest -m benchmark -n 0 -s``.

Each one runs next to what a user would use instead, in the same run, as whole processes, and prints the ratio. Times
are the median of several runs, memory is the largest resident set.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from dpbayes_cli.core.noisy_observation import NoisyCounts, RecordCount
from dpbayes_cli.inference.counts.beta_mixture import beta_mixture
from dpbayes_cli.inference.solve import infer
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace

pytestmark = pytest.mark.benchmark

DPBAYES = [sys.executable, "-m", "dpbayes_cli"]
COUNT = 'import duckdb; print(duckdb.sql("SELECT {what} FROM {source}").fetchall())'
DUCKDB_ONE = "count(*) FILTER (x = '1'), count(*) FILTER (x = '0')"


LAUNCHER = """
import os, sys, time
null = os.open(os.devnull, os.O_WRONLY)
started = time.perf_counter()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)])
_, status, usage = os.wait4(pid, 0)
seconds, cpu = time.perf_counter() - started, usage.ru_utime + usage.ru_stime
print(seconds, usage.ru_maxrss / 1024, cpu, os.waitstatus_to_exitcode(status))
"""
"""Starts a process from a small one: a child's largest resident set includes that of the process that forked it."""


def run_process(command: list[str]) -> tuple[float, float, float]:
    """Return the wall time in seconds, the largest resident set in MB and the CPU seconds of a whole process.

    The ledger is a new one, so that every release is the first of its account.
    """
    with tempfile.TemporaryDirectory() as directory:
        environment = {**os.environ, "DPBAYES_LEDGER": f"{directory}/ledger.sqlite"}
        done = subprocess.run(
            [sys.executable, "-c", LAUNCHER, *command],
            cwd=directory, env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
    seconds, megabytes, cpu, code = map(float, done.stdout.split())
    assert code == 0, done.stderr
    return seconds, megabytes, cpu


def measure(command: list[str], runs: int = 5) -> tuple[float, float]:
    """Return the median wall time in seconds and the largest resident set in MB of a whole process."""
    times, peaks, _ = zip(*(run_process(command) for _ in range(runs)), strict=True)
    return statistics.median(times), max(peaks)


def show(name: str, ours: tuple[float, float], theirs: tuple[float, float], what: str) -> None:
    print(
        f"{name}: {ours[0]:.2f} s, {ours[1]:.0f} MB; {what}: {theirs[0]:.2f} s, {theirs[1]:.0f} MB; "
        f"ratio {ours[0] / theirs[0]:.2f} in time, {ours[1] / theirs[1]:.2f} in memory"
    )


def released(path: Path, *extra: str) -> list[str]:
    return [*DPBAYES, "release", str(path), "--model", "beta-bernoulli", "--eps", "1", "-q", *extra]


def test_start_up(place: Path) -> None:
    help_, bare = measure([*DPBAYES, "--help"], 21), measure([sys.executable, "-c", "import click"], 21)
    show("dpbayes --help", help_, bare, "python -c 'import click'")


def test_a_thousand_records(place: Path) -> None:
    path = place / "small.csv"
    path.write_text("x\n" + "1\n0\n0\n" * 333 + "1\n")
    alone = measure(
        [sys.executable, "-c", COUNT.format(what=DUCKDB_ONE, source=f"read_csv('{path}', all_varchar=true)")]
    )
    show("1,000 records, one line, no set-up", measure(released(path), 11), alone, "counting in DuckDB alone")


def test_milliseconds_of_the_smallest_release(place: Path) -> None:
    """What a release of 1,000 records builds on, from the interpreter alone to the release; median of 9 processes."""
    path = place / "small.csv"
    path.write_text("x\n" + "1\n0\n0\n" * 333 + "1\n")
    steps = {
        "the interpreter": [sys.executable, "-c", "pass"],
        "import numpy": [sys.executable, "-c", "import numpy"],
        "import scipy.special": [sys.executable, "-c", "import scipy.special"],
        "import opendp.measurements": [sys.executable, "-c", "import opendp.measurements"],
        "dpbayes --help": [*DPBAYES, "--help"],
        "dpbayes release": released(path),
    }
    print(f"with a load of {os.getloadavg()[0]:.1f}:")
    for name, command in steps.items():
        wall, _, cpu = zip(*(run_process(command) for _ in range(9)), strict=True)
        middle, least = statistics.median(cpu) * 1000, min(wall) * 1000
        print(f"{name:27} {middle:4.0f} ms of CPU, {least:4.0f} ms at best by the clock")


@pytest.mark.parametrize(
    ("n", "scale"), [(1000, 1.0), (1000, 100.0), (10**6, 10.0), (10**8, 1.0), (10**8, 1e4), (10**8, 1e6)]
)
def test_the_exact_mixture(n: int, scale: float) -> None:
    observation = NoisyCounts((1.0, 1.0), (int(0.3 * n), None), DiscreteLaplace(scale), RecordCount("known", n))
    started = time.perf_counter()
    mixture = beta_mixture(observation)
    mixture.posterior(4000, np.random.default_rng(0))
    print(
        f"n = {n:.0e}, noise scale {scale:g}: {len(mixture.weights)} components, {time.perf_counter() - started:.3f} s"
    )


@pytest.mark.parametrize(
    ("k", "n", "scale"), [(2, 10**3, 2.0), (2, 10**6, 200.0), (10, 10**4, 20.0), (1000, 10**4, 2.0)]
)
def test_latent_counts_of_unknown_total(k: int, n: int, scale: float) -> None:
    observation = NoisyCounts((1.0,) * k, (n // k,) * k, DiscreteLaplace(scale), RecordCount("at-most", n))
    started = time.perf_counter()
    posterior = infer(observation, "noise-aware", 4000, np.random.default_rng(0))
    print(f"K = {k}, n = {n:.0e}, noise scale {scale:g}: {posterior.method}: {time.perf_counter() - started:.2f} s")
