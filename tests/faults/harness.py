"""Kill a release at every step, finish it, and check the invariants, in a fresh process that forks a child a run.

``python -m tests.faults.harness KIND DIRECTORY`` prints one JSON summary; kinds are single, repeated and terminate of
the release of a coin, and the keys of ``KINDS``. All is imported before the first fork, so that a run costs a tenth of
a second; each child is a real process that dies by a real signal. A step is an event that can be seen from outside or
that guards one: every statement that the ledger executes, every file opened, written, synced, made or renamed, the
reading of the data, the noise, the analysis, every line printed.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import duckdb  # noqa: F401 - imported before the fork
import numpy.random  # noqa: F401 - imported before the fork
import opendp.measurements  # noqa: F401 - imported before the fork

import dpbayes_cli.bundle.place as bundle_place
import dpbayes_cli.bundle.write as bundle_write
import dpbayes_cli.inference.sequences.infer_sequences  # noqa: F401 - imported before the fork
import dpbayes_cli.workflow.release as release_module
from dpbayes_cli.base import atomic_file
from dpbayes_cli.bundle.document import parse_document, parse_draw
from dpbayes_cli.core.private_quantile import PrivateBounds
from dpbayes_cli.ledger.chain import Mark
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.sqlite import SqliteStorage
from dpbayes_cli.main import run
from dpbayes_cli.mechanisms.gibbs import Gibbs
from dpbayes_cli.mechanisms.laplace import Laplace
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
        for name in ("open", "write", "fsync", "fchmod", "link", "mkdir", "unlink", "rmdir"):
            self.around(os, name)
        self.around(fcntl, "flock")
        for module in (atomic_file, bundle_write):
            self.around(module, "rename_without_replacing")
        self.around(DelimitedSource, "check")
        self.around(DelimitedSource, "statistics")
        self.around(PrivateBounds, "choose")
        self.around(Laplace, "release")
        self.around(Gibbs, "release")
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


def run_child(
    directory: Path, fatal: int, number: int = signal.SIGKILL, arguments: Sequence[str] | None = None
) -> tuple[int, int]:
    """Run a command in a forked child: the release, unless ``arguments`` are stated.

    Return its exit status (negative: the signal) and the steps it counted.
    """
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
            sys.argv = ["dpbayes", *(KIND.arguments if arguments is None else arguments)]
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


EPSILON = Decimal(1)
"""The cost of each."""
COIN = "x\n" + "1\n" * 30 + "0\n" * 70
LOG = "r,m,x\n" + "a,1,0\n" * 20 + "a,2,1\n" * 30 + "b,1,0\n" * 25 + "b,2,0\n" * 25
NETWORK = """
model: bayes-net
privacy: {epsilon: 1}
domain: {variables: {x: {values: ['0', '1'], impute: '0'}, y: {values: ['0', '1'], impute: '0', parents: [x]}}}
inference: {samples: 200}
"""
TREE = """
model: bayes-net
privacy: {epsilon: 0.8}
structure: {private: {epsilon: 0.2}}
domain: {variables: {x: {cuts: [1], impute: 0}, y: {cuts: [1], impute: 0}, z: {cuts: [1], impute: 0}}}
inference: {samples: 200}
"""
GROUPS = """
model: beta-bernoulli
column: x
privacy: {epsilon: 1}
by: {column: r, values: [a, b, c]}
inference: {samples: 200}
"""
HMM = """
model: hmm
privacy: {epsilon: 1}
mechanism: MECHANISM
domain:
  sequence: {column: r, values: [a, b], impute: a}
  time: {column: m, values: ['1', '2'], impute: '1'}
  features: {x: {values: ['0', '1'], impute: '0'}}
  states: 2
"""


@dataclass(frozen=True)
class Kind:
    """What is released: the command, its data, its spec, the files that a bundle has beside those of all, and whether
    the ledger has an anchor."""

    options: tuple[str, ...]
    data: str = COIN
    spec: str = ""
    files: frozenset[str] = frozenset()
    anchored: bool = False

    @property
    def arguments(self) -> list[str]:
        spec = ["--spec", "../spec.yaml"] if self.spec else []
        return ["release", "data.csv", *self.options, *spec, "--out", "out"]


BOUNDED = ("--model", "gamma-poisson", "--eps", "0.75", "--bounds-epsilon", "0.25", "--bounds-high", "9",
           "--on-invalid", "impute:0")  # fmt: skip
KINDS = {
    "coin": Kind(("--model", "beta-bernoulli", "--eps", "1")),
    "anchored": Kind(("--model", "beta-bernoulli", "--eps", "1"), anchored=True),
    "bounds": Kind(BOUNDED),
    "network": Kind((), "x,y\n" + "1,0\n" * 30 + "0,1\n" * 70, NETWORK, frozenset({"tables.csv"})),
    "tree": Kind((), "x,y,z\n" + "1,0,2\n" * 30 + "0,1,0\n" * 70, TREE, frozenset({"tables.csv"})),
    "groups": Kind((), LOG, GROUPS, frozenset({"groups.parquet"})),
    "hmm": Kind(("--mcmc-sweeps", "50"), LOG, HMM.replace("MECHANISM", "laplace"), frozenset({"states.csv"})),
    "gibbs": Kind((), LOG, HMM.replace("MECHANISM", "gibbs") + "sampling: {sweeps: 5}\nrecords: 100\n",
                  frozenset({"states.csv"})),
}  # fmt: skip
KIND = KINDS["coin"]


def fresh(directory: Path) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "work").mkdir(parents=True)
    (directory / "spec.yaml").write_text(KIND.spec)
    (directory / "work" / "data.csv").write_text(KIND.data)
    if KIND.anchored:
        Ledger(SqliteStorage(directory / "ledger.sqlite")).anchor(directory / "anchor", "")
    return directory


def marks_of(directory: Path) -> list[Mark]:
    """Return the lines of the anchor; none may be incomplete, because a line is written by one call."""
    if not KIND.anchored:
        return []
    lines = [line.split() for line in (directory / "anchor").read_text().splitlines()]
    return [Mark(int(sequence), head) for sequence, head in lines]


def bundle_of(directory: Path) -> dict[str, bytes]:
    out = directory / "work" / "out"
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())} if out.is_dir() else {}


def examine(directory: Path) -> tuple[list[str], bytes | None, dict[str, bytes], str]:
    """Check the invariants of any moment; return violations, the sealed payload, the bundle and the stage."""
    wrong: list[str] = []
    ledger, bundle = Ledger(SqliteStorage(directory / "ledger.sqlite")), bundle_of(directory)
    if not SqliteStorage(directory / "ledger.sqlite").exists:
        return (["a bundle without a ledger"] if bundle else []), None, bundle, "none"
    with SqliteStorage(directory / "ledger.sqlite").writing():
        pass  # rolls back a hot journal and creates the tables, as the next command would
    findings, state = ledger.findings()
    wrong += findings
    marks = marks_of(directory)
    wrong += [f"the anchor is ahead of the ledger: {mark}" for mark in marks if not state.holds(mark)]
    if [mark.sequence for mark in marks] != sorted({mark.sequence for mark in marks}):
        wrong.append("the lines of the anchor are not in the order of the entries")
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
            if any(getattr(document, key) != getattr(draw, key) for key in ("statistics", "bounds", "structure")):
                wrong.append("the bundle is not of the sealed draw")
        if set(bundle) != {"release.json", "statistics.csv", "samples.parquet", "report.md"} | KIND.files:
            wrong.append(f"an incomplete bundle: {sorted(bundle)}")
    if release.stage == "published" and not bundle:
        wrong.append("published, but no bundle")
    return wrong, payload, bundle, release.stage


def finish(directory: Path, payload: bytes | None, bundle: dict[str, bytes]) -> list[str]:
    """Run the same command undisturbed; return the violations by its result."""
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
    if KIND.anchored and marks_of(directory)[-1] != state.mark:
        wrong.append("the anchor is behind a finished release")
    left = [path.name for path in (directory / "work").iterdir() if path.name not in {"out", "data.csv"}]
    if left:
        wrong.append(f"left behind: {left}")
    return wrong


def sweep(root: Path, number: int, *, patience: int = NEVER) -> dict[str, Any]:
    """Send the signal at every step of a release and finish it; stop after ``patience`` violations."""
    code, total = run_child(fresh(root / "count"), NEVER, number)
    violations: list[str] = [] if code == 0 else [f"an undisturbed run ends with {code}"]
    expected = -number if number == signal.SIGKILL else 128 + number
    for step in range(1, total + 1):
        directory = fresh(root / "run")
        code, _ = run_child(directory, step, number)
        if code != expected:
            violations.append(f"step {step}: the signal gave exit {code}")
        wrong, payload, bundle, _ = examine(directory)
        violations += [f"step {step}: {what}" for what in wrong + finish(directory, payload, bundle)]
        if len(violations) >= patience:
            break
    return {"steps": total, "losses": len(violations), "violations": violations[:20]}


def state_of(directory: Path) -> tuple[object, ...]:
    """Return what the next process sees: the names of the files, which are empty, and the entries of the ledger."""
    files = {
        (re.sub(r"[0-9a-f]{8,}", "#", str(path.relative_to(directory))), path.is_dir() or path.stat().st_size > 0)
        for path in directory.rglob("*")
        if path.name not in {"steps", "output"}
    }
    storage = SqliteStorage(directory / "ledger.sqlite")
    entries = [entry.fields["kind"] for entry in Ledger(storage).entries()] if storage.exists else []
    return (*sorted(files), *entries)


def sweep_repeated_kills(root: Path) -> dict[str, Any]:
    """Kill the command at every step from every state that kills of it leave, until they leave no new one.

    A killed process leaves files and nothing else. So any number of kills leaves one of the states that are found: from
    each, the command is finished, and killed again. From the first state it is killed at each step, from the others at
    every fourth step, so that a state which only a step in between leaves may be missed.
    """
    violations: list[str] = []
    todo = [fresh(root / "state-0")]
    states, runs = {state_of(todo[0])}, 0
    for place in todo:
        _, payload, bundle, _ = examine(shutil.copytree(place, root / "run"))
        violations += [f"{place.name}, finished: {what}" for what in finish(root / "run", payload, bundle)]
        code, step = -signal.SIGKILL, 0
        while code == -signal.SIGKILL:
            shutil.rmtree(root / "run")
            directory, step = Path(shutil.copytree(place, root / "run")), step + (1 if place is todo[0] else 4)
            code, _ = run_child(directory, step)
            left = Path(shutil.copytree(directory, root / "left"))  # before an examination plays back a journal
            state = state_of(directory)
            wrong, sealed, seen, _ = examine(directory)
            if payload is not None and sealed != payload:
                wrong.append("the payload changed after it was sealed")
            if bundle and seen != bundle:
                wrong.append("the bundle changed after it was visible")
            violations += [f"{place.name}, step {step}, exit {code}: {what}" for what in wrong]
            runs += 1
            if state not in states:
                states.add(state)
                todo.append(left.rename(root / f"state-{len(todo)}"))
            shutil.rmtree(left, ignore_errors=True)
        if code != 0:
            violations.append(f"{place.name}: an undisturbed run ends with {code}")
        shutil.rmtree(root / "run")
    return {"states": len(states), "runs": runs, "violations": violations[:20]}


if __name__ == "__main__":
    kind, place = sys.argv[1], Path(sys.argv[2])
    KIND = KINDS.get(kind, KIND)
    number = signal.SIGTERM if kind == "terminate" else signal.SIGKILL
    print(json.dumps(sweep_repeated_kills(place) if kind == "repeated" else sweep(place, number)))
