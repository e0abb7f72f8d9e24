"""Kill a release at every step, finish it, and check what must hold. A process of its own; forks one child a run.

``python -m tests.faults.harness single|pairs|terminate|bounds|network DIRECTORY`` prints one JSON summary. All is
imported before the first fork, so that a run costs a tenth of a second; each child is a real process that dies by a
real signal. A step is an event that can be seen from outside or that guards one: every statement that the ledger
executes, every file opened, written, synced, made or renamed, the reading of the data, the noise, the analysis, every
line printed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import duckdb  # noqa: F401 - imported before the fork
import numpy.random  # noqa: F401 - imported before the fork
import opendp.measurements  # noqa: F401 - imported before the fork

import dpbayes_cli.bundle.place as bundle_place
import dpbayes_cli.bundle.write as bundle_write
import dpbayes_cli.release as release_module
from dpbayes_cli.bundle.document import parse_document, parse_draw
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.sqlite import SqliteStorage
from dpbayes_cli.main import run
from dpbayes_cli.mechanisms.laplace import Laplace
from dpbayes_cli.private_quantile import PrivateBounds
from dpbayes_cli.sources.delimited import DelimitedSource

NEVER = 10**9


class Steps:
    """Counts the steps of a run and sends a signal to this process before one of them."""

    def __init__(self, fatal: int, number: int, log: Path) -> None:
        self.count, self.fatal, self.number, self.log = 0, fatal, number, log

    def step(self) -> None:
        self.count += 1
        if self.count == self.fatal:
            os.kill(os.getpid(), self.number)

    def around(self, owner: Any, name: str) -> None:
        """Make every call of a function a step."""
        original: Callable[..., Any] = getattr(owner, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            self.step()
            return original(*arguments, **named)

        setattr(owner, name, counted)

    def install(self) -> None:
        for name in ("open", "fsync", "fchmod", "mkdir", "unlink", "rmdir"):
            self.around(os, name)
        self.around(bundle_write, "_rename_without_replacing")
        self.around(DelimitedSource, "check")
        self.around(DelimitedSource, "statistics")
        self.around(PrivateBounds, "choose")
        self.around(Laplace, "release")
        self.around(release_module, "analysis_of_draw")
        self.around(bundle_place, "write_samples")
        self.around(bundle_place, "report_markdown")
        self.around(click, "echo")
        steps = self

        class Connection(sqlite3.Connection):
            def execute(self, *arguments: Any) -> Any:
                if not str(arguments[0]).startswith(("SELECT", "PRAGMA")):
                    steps.step()
                return super().execute(*arguments)

        connect = sqlite3.connect
        setattr(sqlite3, "connect", lambda *a, **k: connect(*a, factory=Connection, **k))  # noqa: B010 - for mypy


def run_child(directory: Path, fatal: int, number: int = signal.SIGKILL) -> tuple[int, int]:
    """Run the release in a forked child; return its exit status (negative: the signal) and the steps it counted."""
    log = directory / "steps"
    log.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            os.chdir(directory / "work")
            output = os.open(directory / "output", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.environ["DPBAYES_LEDGER"] = str(directory / "ledger.sqlite")
            sys.argv = ["dpbayes", *ARGUMENTS]
            steps = Steps(fatal, number, log)
            steps.install()
            try:
                run()
            except SystemExit as leaving:
                code = int(leaving.code or 0)
            with log.open("w") as file:
                file.write(str(steps.count))
        except BaseException:  # noqa: BLE001 - the child must not return into the parent's code
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    counted = int(log.read_text()) if log.exists() else 0
    return os.waitstatus_to_exitcode(status), counted


ARGUMENTS = ["release", "data.csv", "--model", "beta-bernoulli", "--eps", "1", "--out", "out"]
BOUNDED = ["release", "data.csv", "--model", "gamma-poisson", "--eps", "0.75", "--bounds-epsilon", "0.25",
           "--bounds-high", "9", "--on-invalid", "impute:0", "--out", "out"]  # fmt: skip
NETWORK = ["release", "data.csv", "--spec", "../network.yaml", "--out", "out"]
SPEC = """
model: bayes-net
privacy: {epsilon: 1}
domain: {variables: {x: {values: ['0', '1'], impute: '0'}, y: {values: ['0', '1'], impute: '0', parents: [x]}}}
inference: {samples: 200}
"""
EPSILON = Decimal(1)
"""The price of each."""


def fresh(directory: Path) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "work").mkdir(parents=True)
    (directory / "network.yaml").write_text(SPEC)
    if ARGUMENTS is NETWORK:
        (directory / "work" / "data.csv").write_text("x,y\n" + "1,0\n" * 30 + "0,1\n" * 70)
    else:
        (directory / "work" / "data.csv").write_text("x\n" + "1\n" * 30 + "0\n" * 70)
    return directory


def bundle_of(directory: Path) -> dict[str, bytes]:
    out = directory / "work" / "out"
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())} if out.is_dir() else {}


def examine(directory: Path) -> tuple[list[str], bytes | None, dict[str, bytes], str]:
    """Check what must hold at any moment; return violations, the sealed payload, the bundle and the stage."""
    wrong: list[str] = []
    ledger, bundle = Ledger(SqliteStorage(directory / "ledger.sqlite")), bundle_of(directory)
    if not SqliteStorage(directory / "ledger.sqlite").exists:
        return (["a bundle without a ledger"] if bundle else []), None, bundle, "none"
    with SqliteStorage(directory / "ledger.sqlite").writing():
        pass  # rolls back a hot journal and creates the tables, as the next command would
    findings, state = ledger.findings()
    wrong += findings
    releases = [release for account in state.accounts.values() for release in account.releases.values()]
    if len(releases) > 1:
        wrong.append(f"{len(releases)} charges for one request")
    if not releases:
        return wrong + (["a bundle without a charge"] if bundle else []), None, bundle, "none"
    (release,) = releases
    payload = None
    if release.sealed is not None:
        with SqliteStorage(directory / "ledger.sqlite").reading() as transaction:
            payload = transaction.payload(release.release_id)
    if bundle:
        if payload is None:
            wrong.append("a bundle of what was not sealed")
        else:
            document, draw = parse_document(bundle["release.json"]), parse_draw(payload)
            if (document.statistics, document.bounds) != (draw.statistics, draw.bounds):
                wrong.append("the bundle is not of the sealed draw")
        tables = {"tables.csv"} if ARGUMENTS is NETWORK else set()
        if set(bundle) != {"release.json", "statistics.csv", "samples.parquet", "report.md"} | tables:
            wrong.append(f"an incomplete bundle: {sorted(bundle)}")
    if release.stage == "published" and not bundle:
        wrong.append("published, but no bundle")
    return wrong, payload, bundle, release.stage


def finish(directory: Path, payload: bytes | None, bundle: dict[str, bytes]) -> list[str]:
    """Run the same command undisturbed; return what is wrong with the result."""
    code, _ = run_child(directory, NEVER)
    wrong, final_payload, final_bundle, stage = examine(directory)
    if code != 0:
        wrong.append(f"the same command again ends with {code}")
    if stage != "published":
        wrong.append(f"exit 0, but {stage}")
    if payload is not None and final_payload != payload:
        wrong.append("the payload changed after it was sealed")
    if bundle and final_bundle != bundle:
        wrong.append("the bundle changed after it was visible")
    state = Ledger(SqliteStorage(directory / "ledger.sqlite")).state()
    if [account.spent["epsilon"] for account in state.accounts.values()] != [EPSILON]:
        wrong.append("not exactly one charge")
    left = [path.name for path in (directory / "work").iterdir() if path.name not in {"out", "data.csv"}]
    if left:
        wrong.append(f"left behind: {left}")
    return wrong


def sweep(root: Path, number: int, expected: set[int], *, pairs: bool, patience: int = NEVER) -> dict[str, Any]:
    """Run the whole sweep, or until ``patience`` violations are found."""
    code, total = run_child(fresh(root / "count"), NEVER, number)
    violations: list[str] = [] if code == 0 else [f"an undisturbed run ends with {code}"]
    runs = 0
    for first in range(1, total + 1):
        seconds = range(1, total + 1) if pairs else [0]
        for second in seconds:
            if len(violations) >= patience:
                break
            directory = fresh(root / "run")
            places = [first, second] if pairs else [first]
            payload: bytes | None = None
            bundle: dict[str, bytes] = {}
            for fatal in places:
                code, _ = run_child(directory, fatal, number)
                if code not in expected and not (pairs and code == 0):
                    violations.append(f"step {places}: the signal gave exit {code}")
                wrong, sealed, seen, _ = examine(directory)
                if payload is not None and sealed != payload:
                    wrong.append("the payload changed after it was sealed")
                payload, bundle = sealed, seen
                violations += [f"step {places}: {what}" for what in wrong]
            violations += [f"step {places}, finished: {what}" for what in finish(directory, payload, bundle)]
            runs += 1
    return {"steps": total, "runs": runs, "losses": len(violations), "violations": violations[:20]}


if __name__ == "__main__":
    kind, place = sys.argv[1], Path(sys.argv[2])
    if kind == "bounds":
        ARGUMENTS = BOUNDED
    if kind == "network":
        ARGUMENTS = NETWORK
    if kind == "terminate":
        summary = sweep(place, signal.SIGTERM, {128 + signal.SIGTERM}, pairs=False)
    else:
        summary = sweep(place, signal.SIGKILL, {-signal.SIGKILL}, pairs=kind == "pairs")
    print(json.dumps(summary))
