"""A low limit of address space is refused before the charge; at the limit that the message states, a release works."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from dpbayes_cli.base.address_space import needed_address_space
from tests.conftest import ROOT, SAMPLE_DATA

MEBIBYTE = 1 << 20


def under(limit: int, *arguments: str, what: int = resource.RLIMIT_AS) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "dpbayes_cli", *arguments], capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(what, (limit, limit)), env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


@pytest.mark.parametrize(
    "mebibytes", [150, 700, *(pytest.param(each, marks=pytest.mark.slow) for each in range(100, 3000, 100))]
)
def test_address_space_limit_is_refused_before_any_charge(mebibytes: int, coin: Path, ledger_path: Path) -> None:
    done = under(mebibytes * MEBIBYTE, "release", coin.name, "--model", "beta-bernoulli", "--eps", "1", "--out", "out")
    assert done.returncode == 1, done.stderr
    assert f"needs {needed_address_space() // MEBIBYTE} MiB of address space" in done.stderr
    assert not ledger_path.exists()
    assert not Path("out").exists()


def test_data_segment_limit_is_refused_too(coin: Path, ledger_path: Path) -> None:
    done = under(300 * MEBIBYTE, "release", coin.name, "--model", "beta-bernoulli", "--eps", "1",
                 what=resource.RLIMIT_DATA)  # fmt: skip
    assert (done.returncode, "ulimit -d" in done.stderr) == (1, True)
    assert not ledger_path.exists()


@pytest.mark.parametrize("spec", ["relapse", *(pytest.param(s, marks=pytest.mark.slow) for s in (
    "adult-naive-bayes", "abalone-linear-regression", "clinic-classes"))],
)  # fmt: skip
def test_needed_address_space_is_enough_for_a_release(spec: str, place: Path) -> None:
    path = SAMPLE_DATA.parent / "configs" / "releases" / f"{spec}.yaml"
    done = under(needed_address_space(), "release", "--spec", str(path), "--out", str(place / "out"))
    assert done.returncode == 0, done.stderr
