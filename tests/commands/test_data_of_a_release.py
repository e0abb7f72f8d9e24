"""What ``release`` says about its data: that they are new to the account, or changed after the release was drawn."""

from __future__ import annotations

import os
import time
from pathlib import Path

import duckdb
import pytest

from dpbayes_cli.commands import release
from tests.conftest import Cli

RATE = ["--model", "beta-bernoulli", "--eps", "1", "--out", "out"]
CHANGED = "WARNING: the data were saved again after release "


def touch(path: Path, seconds: float) -> None:
    """Set when a file was modified, relative to now."""
    os.utime(path, (time.time() + seconds,) * 2)


def test_a_replay_of_changed_data_says_so_even_if_quiet(dpbayes: Cli, coin: Path) -> None:
    first = dpbayes("release", coin, *RATE, "-q")
    assert (first.code, first.err) == (0, "")
    assert CHANGED not in dpbayes("release", coin, *RATE).err, "the file is older than the draw"
    touch(coin, 5)
    stale = dpbayes("release", coin, *RATE, "-q")
    assert (stale.code, stale.out) == (0, first.out)
    assert stale.err.startswith(CHANGED)
    assert stale.err.count("\n") == 1
    assert "--fresh or --release-id NAME" in stale.err
    assert CHANGED in dpbayes("release", coin, *RATE, "--json", "-q").err
    assert CHANGED not in dpbayes("release", coin, *RATE, "--same-data").err, "the user says that nothing changed"
    fresh = dpbayes("release", coin, *RATE[:-1], "new", "--fresh", "-q")
    assert (fresh.code, fresh.err) == (0, "")


@pytest.mark.parametrize("changed", ["a.csv", "b.csv", "c.parquet"])
def test_any_changed_file_is_noticed(changed: str, dpbayes: Cli, place: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (place / name).write_text("x\n" + "1\n0\n" * 50, encoding="ascii")
    duckdb.sql("COPY (FROM read_csv('a.csv', all_varchar=true)) TO 'c.parquet'")
    data = ["c.parquet"] if changed == "c.parquet" else ["a.csv", "b.csv", "--dataset", "d"]
    assert dpbayes("release", *data, *RATE).code == 0
    assert CHANGED not in dpbayes("release", *data, *RATE).err
    touch(place / changed, 5)
    assert CHANGED in dpbayes("release", *data, *RATE).err


def test_a_pipe_has_no_time_of_modification(dpbayes: Cli) -> None:
    data = ["-", *RATE, "--dataset", "d"]
    assert dpbayes("release", *data, stdin=b"x\n1\n0\n").code == 0
    assert CHANGED not in dpbayes("release", *data, stdin=b"x\n0\n0\n").err


def test_new_data_suggest_a_check_on_a_terminal_before_the_charge(
    dpbayes: Cli, coin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suggestion = "dpbayes check "
    assert suggestion not in dpbayes("release", coin, *RATE, "--dataset", "script").err, "no terminal"
    monkeypatch.setattr(release, "has_terminal", lambda: True)
    again = coin.rename(coin.with_name("again.csv"))
    again.write_bytes(again.read_bytes())
    other = coin.with_name("other.csv")
    other.write_bytes(again.read_bytes())
    first = dpbayes("release", other, *RATE[:-1], "o2").err
    assert f"{suggestion}{other}" in first
    assert 0 < first.index(suggestion) < first.index("charged epsilon")
    assert suggestion not in dpbayes("release", other, *RATE[:-1], "o2").err
    assert suggestion not in dpbayes("release", other, *RATE[:2], "--eps", "0.5", "--out", "o3").err
    piped = dpbayes("release", "-", *RATE[:-1], "o4", "--dataset", "p", stdin=b"x\n1\n0\n")
    assert (piped.code, suggestion in piped.err) == (0, False), "a pipe cannot be read twice"
