"""A failing system call anywhere in a release, a full disk, a read-only ledger, no randomness, a wild clock."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dpbayes_cli.ledger.budgets import PureBudget
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.sqlite import SqliteStorage
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.conftest import ROOT, Cli, often
from tests.faults.summary import summary_of

COIN = ["--model", "beta-bernoulli", "--eps", "1", "--out", "out"]


def can_trace() -> bool:
    """Return whether strace is installed and may trace a process."""
    if shutil.which("strace") is None:
        return False
    done = subprocess.run(["strace", "-o", os.devnull, "-e", "inject=fsync:error=EIO", "true"], check=False)
    return done.returncode == 0


traced = pytest.mark.skipif(not can_trace(), reason="strace cannot watch a process here")


@pytest.mark.faults
@pytest.mark.slow
@traced
def test_a_release_that_cannot_sync_or_rename_is_finished_by_the_same_command(tmp_path: Path) -> None:
    summary = summary_of("errors", tmp_path / "faults", "fsync:EIO", "renameat2:ENOSPC")
    assert summary["faults"] >= 8
    assert summary["aborts"] == 0
    assert summary["violations"] == []


@pytest.mark.faults
@traced
@pytest.mark.slow
def test_any_call_that_fails_leaves_a_release_that_the_same_command_finishes(tmp_path: Path) -> None:
    summary = summary_of("errors", tmp_path / "faults")
    assert summary["faults"] >= 500
    assert summary["violations"] == []


def limited(limit: Callable[[], None], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "dpbayes_cli", *arguments],
        capture_output=True, text=True, check=False, preexec_fn=limit,
    )  # fmt: skip


def test_a_file_that_cannot_be_opened_for_its_digest_is_not_published_without_it(
    coin: Path, dpbayes: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def failing(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if str(path).endswith("report.md") and not flags & os.O_CREAT and flags & os.O_NONBLOCK:
            raise OSError(errno.EMFILE, "too many")
        return opened(path, flags, *rest, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", failing)
        failed = dpbayes("release", coin, *COIN)
    assert failed.code == 8
    assert "cannot read 'report.md': Too many open files" in failed.err
    assert dpbayes("release", coin, *COIN, "--json").json["replayed"]
    assert dpbayes("verify", "out").code == 0


@pytest.mark.parametrize("kibibytes", often([8, 0, 18], 3))
def test_a_full_disk_is_reported_and_the_release_finished_later(
    kibibytes: int, coin: Path, dpbayes: Cli, place: Path
) -> None:
    """By the largest file that can be written: no file, no complete ledger, or a ledger but no samples."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (kibibytes << 10, kibibytes << 10))

    done = limited(limit, "release", str(coin), *COIN)
    assert done.returncode in {6, 8}, done.stderr
    assert "Error: " in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in place.iterdir()) == ["coin.csv"]
    assert dpbayes("release", coin, *COIN).code == 0
    (account,) = dpbayes("budget", "show", "--json").json["accounts"]
    assert account["spent"] == {"epsilon": "1"}


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs privileges")
def test_a_full_file_system_is_reported_and_the_release_finished_elsewhere(
    coin: Path, dpbayes: Cli, place: Path
) -> None:
    small = place / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", small], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        dpbayes("release", coin, *COIN[:-1], "small/out").exits(8)
        assert list(small.iterdir()) == []
        subprocess.run(["mount", "-o", "remount,ro", small], check=True)
        dpbayes("release", coin, *COIN[:-1], "small/out").exits(8, "Read-only")
    finally:
        subprocess.run(["umount", small], check=True)
    assert dpbayes("release", coin, *COIN).code == 0
    (account,) = dpbayes("budget", "show", "--json").json["accounts"]
    assert account["spent"] == {"epsilon": "1"}


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs privileges")
@pytest.mark.parametrize("how", ["full", "read-only"])
def test_a_read_only_ledger_charges_and_shows_nothing(how: str, coin: Path, dpbayes: Cli, place: Path) -> None:
    disk = place / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    ledger = ["--ledger", "disk/ledger.sqlite"]
    try:
        assert dpbayes("budget", "open", "coin", "--eps", "2", *ledger).code == 0
        if how == "full":
            with (disk / "filler").open("wb") as file:
                file.write(b"x" * ((os.statvfs(disk).f_bavail) * os.statvfs(disk).f_bsize))
        else:
            subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        dpbayes("release", coin, *COIN, *ledger).exits(6)
        assert not Path("out").exists()
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        (disk / "filler").unlink(missing_ok=True)
        assert dpbayes("release", coin, *COIN, *ledger).code == 0
        assert dpbayes("budget", "show", "coin", "--json", *ledger).json["accounts"][0]["spent"] == {"epsilon": "1"}
        assert dpbayes("budget", "verify", *ledger).code == 0
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("model", [["laplace"], ["ops", "--support", "0.1,0.9"]], ids=["laplace", "ops"])
def test_without_randomness_nothing_is_released(
    model: list[str], coin: Path, dpbayes: Cli, monkeypatch: pytest.MonkeyPatch, ledger_path: Path
) -> None:
    """If the operating system has no randomness, there is no second source."""
    import opendp.mod

    from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
    from dpbayes_cli.privacy.measurements import add_noise

    def no_bytes(*_: Any) -> Any:
        raise OSError(5, "Input/output error")

    def no_draw(_: float) -> Any:
        def measurement(_: Any) -> Any:
            raise opendp.mod.OpenDPException("FailedFunction", "entropy")

        return measurement

    arguments = ["release", coin, *COIN, "--mechanism", *model, "--on-invalid", "impute:0"]
    with monkeypatch.context() as broken:
        broken.setattr(DiscreteLaplace, "release", lambda law, values: add_noise(no_draw(law.scale), values))
        for name in ("randbelow", "randbits"):
            broken.setattr(f"dpbayes_cli.privacy.grid.secrets.{name}", no_bytes)
        done = dpbayes(*arguments)
    assert done.code == 1
    assert "no random numbers" in done.err
    assert "Input/output" not in done.err + done.out
    assert not Path("out").exists()
    with sqlite3.connect(ledger_path) as connection:
        assert connection.execute("SELECT count(*) FROM payloads").fetchone() == (0,)
    connection.close()
    assert dpbayes(*arguments).code == 0
    assert dpbayes("budget", "show", "--json").json["accounts"][0]["spent"] == {"epsilon": "1"}


@pytest.mark.faults
@traced
@pytest.mark.slow
@pytest.mark.parametrize("error", ["ENOSYS", "EPERM", "EIO"])
def test_a_kernel_without_getrandom_stops_the_release(error: str, tmp_path: Path) -> None:
    script = f"""
import sys
from pathlib import Path
from tests.faults import errors, harness
root = Path(sys.argv[1])
root.mkdir()
errors.import_all(root)
directory = harness.fresh(root / "run")
done = errors.run_traced(directory, "-o", "/dev/null", "-e", "trace=getrandom", "-e", "inject=getrandom:error={error}")
wrong, payload, bundle, stage = harness.examine(directory)
print(done.code, stage, payload, len(bundle), wrong, harness.finish(directory, payload, bundle))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, str(tmp_path / "root")],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] in {"1 reserved None 0 [] []", "-6 none None 0 [] []"}


FORK = """
import os, sys
import numpy
from dpbayes_cli.privacy.choices import public_generator
from dpbayes_cli.privacy.grid import secrets
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.secret_normals import RoundedNormals

def draws():
    laplace, gaussian = DiscreteLaplace(1e9).release([0] * 8), DiscreteGaussian(1e9).release([0] * 8)
    normals = RoundedNormals(1e12)((4,)).tolist()
    return [*laplace, *gaussian, secrets.randbits(128), *normals, public_generator().random()]

draws()
reader, writer = os.pipe()
pid = os.fork()
mine = draws()
if pid == 0:
    os.write(writer, repr(mine).encode())
    os._exit(0)
os.waitpid(pid, 0)
theirs = eval(os.read(reader, 1 << 16).decode())
assert len(mine) == len(theirs) == 22
print(len(set(mine) & set(theirs)), len(set(mine)))
"""


def test_a_fork_between_two_draws_gives_two_noises() -> None:
    """Among 8 + 8 draws at scale 1e9 and 6 of at least 52 bits, two agree with probability below 1e-6."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["0", "22"]


CLOCKS = [datetime(year, 1, 19, 3, 14, 8, tzinfo=UTC) for year in (2038, 2026, 1970, 9999, 1970)]


def test_entries_keep_their_order_whatever_the_clock_says(ledger_path: Path, dpbayes: Cli) -> None:
    times = iter(CLOCKS)
    for number in range(len(CLOCKS)):
        ledger = Ledger(SqliteStorage(ledger_path), clock=lambda: next(times))
        ledger.open_account(f"a{number}", PureBudget(Decimal(1)), Neighbors.REPLACE_ONE)
    rows = dpbayes("budget", "history", "--json").json
    assert [row["sequence"] for row in rows] == [1, 2, 3, 4, 5]
    assert [row["account"] for row in rows] == ["a0", "a1", "a2", "a3", "a4"]
    assert [row["time"][:4] for row in rows] == ["2038", "2026", "1970", "9999", "1970"]
    assert dpbayes("budget", "verify").code == 0


@pytest.mark.parametrize("year", [1970, 9999])
def test_a_release_finishes_whatever_the_clock_says(
    year: int, coin: Path, dpbayes: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock:
        @staticmethod
        def now(zone: Any) -> datetime:
            return datetime(year, 1, 19, 3, 14, 8, tzinfo=zone)

    for module in ("dpbayes_cli.workflow.release", "dpbayes_cli.ledger.verified_chain"):
        monkeypatch.setattr(f"{module}.datetime", Clock)
    assert dpbayes("release", coin, *COIN).code == 0
    assert json.loads(Path("out/release.json").read_text())["created"].startswith(str(year))
