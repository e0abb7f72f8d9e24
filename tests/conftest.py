"""Fixtures: the command line in this process and in one of its own, each test with a ledger of its own."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from dpbayes_cli import main
from dpbayes_cli.base.blas_threads import use_one_blas_thread
from tests.postgres_server import Server, running, why_not

use_one_blas_thread()  # before NumPy is imported: as the command line does
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # of the processes that tests start, only the first one compiles
sys.dont_write_bytecode = False

settings.register_profile("any-load", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-load")  # a busy machine is slow, and fails no test

ROOT = Path(__file__).parent.parent
SAMPLE_DATA = ROOT / "sample_data"
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 4 << 30:  # where files are in memory, a sync costs nothing
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def often(cases: Iterable[Any], every: int, *, several: bool = False) -> list[Any]:
    """Return the cases of a parametrized test, of which the fast tests run one in so many, and the slow ones all.

    Args:
        cases: the values of one argument, or of several.
        every: the fast tests run the first case, and each that follows by a multiple of this number.
        several: each case is a tuple of several arguments.
    """
    return [
        pytest.param(*(case if several else (case,)), marks=() if i % every == 0 else pytest.mark.slow)
        for i, case in enumerate(cases)
    ]


def seldom(cases: Iterable[tuple[Any, ...]], every: int = 11) -> list[Any]:
    """Return the cases of a study, of which the slow tests run one in so many, and ``calibration_full`` the others.

    Eleven shares no factor with the numbers of models, sizes and epsilons, so that all of them occur.
    """
    few, others = pytest.mark.slow, pytest.mark.calibration_full
    return [pytest.param(*case, marks=others if i % every else few) for i, case in enumerate(cases)]


def files_of(directory: str | Path) -> dict[str, bytes]:
    """Return the content of every file of a directory, such as a bundle."""
    return {path.name: path.read_bytes() for path in Path(directory).iterdir()}


@pytest.fixture
def short_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search for the points of regressions in a tenth of the steps: for tests that need some point, not the best."""
    monkeypatch.setattr("dpbayes_cli.inference.derivatives.posterior_mode._MAX_STEPS", (4, 8))


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Fail once this process has used so much CPU time: many times what is needed, so only another growth fails."""

    def stop(*_: object) -> None:
        pytest.fail(f"took more than {seconds} s of CPU time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


@dataclass(frozen=True)
class Result:
    """What a run of the command line gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        assert self.code == 0, self.err
        return json.loads(self.out)

    def exits(self, code: int, *says: str) -> Result:
        """Check the exit code and that stderr holds each text."""
        assert self.code == code, (self.out, self.err)
        assert [text for text in says if text not in self.err] == [], self.err
        return self


Cli = Callable[..., Result]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Give every test an empty working directory and a ledger of its own.

    Releases do not simulate before the charge what their answers are worth, which takes most of the time of small ones.
    """
    if request.node.get_closest_marker("simulates") is None:
        monkeypatch.setattr("dpbayes_cli.workflow.planning.glance", lambda *_: None)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("DPBAYES_LEDGER", str(tmp_path / "ledger.sqlite"))
    monkeypatch.setenv("COLUMNS", "10000")  # so that tests find sentences on one line
    monkeypatch.delenv("DPBAYES_ANCHOR", raising=False)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    mask = os.umask(0o022)
    yield work
    os.umask(mask)
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that needs a PostgreSQL server; tests of Spark mark themselves."""
    for item in items:
        if "postgres" in getattr(item, "fixturenames", ()):
            item.add_marker("engines")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server that the tests of this process share."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with running() as server:
        yield server


@pytest.fixture
def database(postgres: Server) -> Iterator[str]:
    """A database on that server, for one test."""
    with postgres.database() as name:
        yield name


@pytest.fixture
def ledger_path(tmp_path: Path) -> Path:
    """The ledger that the command line uses in this test."""
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def dpbayes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run the command line in this process."""

    def invoke(*arguments: str | Path, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(main, "_leave_threads", sys.exit)  # os._exit would end pytest
        monkeypatch.setattr(sys, "argv", ["dpbayes", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin))))
        capsys.readouterr()
        with pytest.raises(SystemExit) as leaving:
            main.run()
        captured = capsys.readouterr()
        assert isinstance(leaving.value.code, int)
        return Result(leaving.value.code, captured.out, captured.err)

    return invoke


@pytest.fixture
def without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the figures out of pages: to draw them takes most of the time."""
    from dpbayes_cli.bundle.report.page_figures import PageFigures

    nothing = PageFigures([], [], [], [], [])
    monkeypatch.setattr("dpbayes_cli.bundle.report.page.page_figures", lambda *_: nothing)


@pytest.fixture
def coin(place: Path) -> Path:
    """A file of 200 records, one column of 0 and 1: 60 ones, 135 zeros, 5 empty."""
    path = place / "coin.csv"
    path.write_text("x\n" + "1\n" * 60 + "0\n" * 135 + "\n" * 5, encoding="ascii")
    return path
