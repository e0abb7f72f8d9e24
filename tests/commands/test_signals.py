"""Signals and closed streams: the exit code says what happened, and nothing is charged twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import Cli

REQUEST = ["--model", "beta-bernoulli", "--eps", "1", "--out", "out"]
RELEASE = [sys.executable, "-m", "dpbayes_cli", "release"]


def ended_by(number: int, started: subprocess.Popen[bytes], after: str) -> tuple[int, float, str]:
    """Send a signal once stderr has a message; return exit code, seconds until the end, and stderr."""
    assert started.stderr is not None
    said = b""
    while after.encode() not in said:
        line = started.stderr.readline()
        assert line, said
        said += line
    time.sleep(0.5)
    sent = time.monotonic()
    started.send_signal(number)
    code = started.wait(timeout=30)
    said += started.stderr.read()
    return code, time.monotonic() - sent, said.decode()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_while_the_data_stall_ends_the_run(number: int, code: int, place: Path, dpbayes: Cli) -> None:
    """The engine waits for data that never come; the signal ends the run all the same."""
    with subprocess.Popen(
        [*RELEASE, "-", "--dataset", "d", *REQUEST], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as started:
        assert started.stdin is not None
        started.stdin.write(b"x\n" + b"1\n" * 100)
        started.stdin.flush()
        got, seconds, said = ended_by(number, started, "charged epsilon 1")
        assert (got, "internal error" in said) == (code, False)
        assert seconds < 10
    again = dpbayes("release", "-", "--dataset", "d", *REQUEST, "--json", stdin=b"x\n" + b"1\n" * 100)
    assert again.json["remaining"] == {"epsilon": "2"}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_while_the_engine_works_is_no_internal_error(number: int, code: int, place: Path) -> None:
    path = place / "big.csv"
    path.write_bytes(b"x\n" + b"1,1\n" * 20_000_000)  # every record is ragged, which takes the engine a while
    with subprocess.Popen([*RELEASE, str(path), *REQUEST], stderr=subprocess.PIPE) as started:
        got, _, said = ended_by(number, started, "charged epsilon 1")
    assert got in {code, 0}  # 0: it was faster than the signal
    assert "internal error" not in said


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-", "2>/dev/full"])
def test_a_closed_stream_does_not_turn_a_release_into_a_failure(redirection: str, coin: Path, dpbayes: Cli) -> None:
    command = " ".join([*RELEASE, str(coin), *REQUEST, redirection])
    assert subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False).returncode == 0
    assert dpbayes("release", coin, *REQUEST, "--json").json["replayed"]


def test_a_result_that_cannot_be_written_is_an_output_error(coin: Path, dpbayes: Cli) -> None:
    command = " ".join([*RELEASE, str(coin), *REQUEST, ">/dev/full"])
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False)
    assert (done.returncode, b"Traceback" in done.stderr) == (8, False)
    assert dpbayes("release", coin, *REQUEST, "--json").json["replayed"]


def test_closed_standard_input_is_a_source_error(place: Path) -> None:
    command = " ".join([*RELEASE, "-", "--dataset", "d", *REQUEST, "<&-"])
    assert subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False).returncode == 4


def test_signal_ends_waiting_for_the_ledger(coin: Path, ledger_path: Path, dpbayes: Cli) -> None:
    import sqlite3

    dpbayes("budget", "open", "d", "--epsilon", "1")
    holder = sqlite3.connect(ledger_path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with subprocess.Popen([*RELEASE[:-1], "budget", "open", "e", "--epsilon", "1"]) as started:
        time.sleep(1.0)
        started.terminate()
        assert started.wait(timeout=10) == 143
    holder.close()


def test_names_that_are_not_utf_8_are_refused_before_the_charge(coin: Path, ledger_path: Path, dpbayes: Cli) -> None:
    strange = os.fsdecode(b"q\xff")
    assert dpbayes("release", coin, "--model", "beta-bernoulli", "--eps", "1", "--out", strange).code == 8
    copy = coin.with_name(strange + ".csv")
    copy.write_bytes(coin.read_bytes())
    assert dpbayes("release", copy, *REQUEST).code == 3
    assert not ledger_path.exists()
    assert dpbayes("release", copy, *REQUEST, "--dataset", "d", "--json").code == 0
