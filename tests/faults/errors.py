"""Make every system call of a release fail in turn, finish the release, and check the invariants, in a fresh process.

``python -m tests.faults.errors DIRECTORY CALL:ERRNO...`` prints one JSON summary; without pairs it takes ``FAULTS``. A
forked child runs the release of the kill sweep, and strace makes the n-th call of each of its threads fail: those of
SQLite and DuckDB as well as our own, without a line of the product knowing.
"""

from __future__ import annotations

import collections
import json
import os
import re
import select
import signal
import subprocess
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from dpbayes_cli.main import run
from tests.faults import harness

FAULTS = (
    "write:ENOSPC", "write:EIO", "write:EDQUOT", "write:EINTR", "pwrite64:ENOSPC", "pwrite64:EIO", "pwrite64:EINTR",
    "fsync:EIO", "fsync:ENOSPC", "fdatasync:EIO", "renameat2:EIO", "renameat2:ENOSPC", "renameat2:EROFS",
    "renameat2:EINTR", "rename:EIO", "unlink:EIO", "unlink:EROFS", "unlinkat:EIO", "mkdir:ENOSPC", "mkdir:EROFS",
    "mkdir:EDQUOT", "rmdir:EIO", "link:ENOSPC", "link:EIO", "fchmod:EIO", "fchmod:EROFS", "ftruncate:EIO",
    "openat:EMFILE", "openat:EROFS", "openat:EIO", "read:EIO", "read:EINTR", "pread64:EIO", "getrandom:EIO",
)  # fmt: skip
CALLS = sorted({fault.partition(":")[0] for fault in FAULTS})
ALLOWED = {0, 1, 3, 4, 6, 8}
"""Done, or the spec, the data, the ledger or the output, or another call of the operating system: see ``INTERNALS``."""
INTERNALS = re.compile(r"Traceback|internal error|sqlite3\.|_duckdb|\.py\b|Exception", re.IGNORECASE)
_START = 20.0


@dataclass(frozen=True)
class Run:
    """The result of a release: its exit code and what it printed."""

    code: int
    printed: str


def _redirect(directory: Path) -> None:
    output = os.open(directory / "output", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)


def command(directory: Path) -> int:
    """Run the release in this child process; return its exit code."""
    os.chdir(directory / "work")
    os.environ["DPBAYES_LEDGER"] = str(directory / "ledger.sqlite")
    sys.argv = ["dpbayes", *harness.KIND.arguments]
    try:
        run()
    except SystemExit as leaving:
        return int(leaving.code or 0)


def run_traced(directory: Path, *options: str) -> Run:
    """Run the release in a forked child under strace, which is attached before the release starts."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            os.close(writer)
            _redirect(directory)
            select.select([reader], [], [])
            code = command(directory)
        except BaseException:  # noqa: BLE001 - the child must not return into the parent's code
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(reader)
    tracer = subprocess.Popen(["strace", "-f", *options, "-p", str(pid)], stderr=subprocess.PIPE)
    assert tracer.stderr is not None
    ready, _, _ = select.select([tracer.stderr], [], [], _START)
    line = tracer.stderr.readline() if ready else b""
    if b"attached" not in line:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        raise SystemExit(f"strace cannot attach: {line!r}")
    os.write(writer, b"x")
    os.close(writer)
    tracer.communicate()
    _, status = os.waitpid(pid, 0)
    printed = (directory / "output").read_text(errors="replace") if (directory / "output").exists() else ""
    return Run(os.waitstatus_to_exitcode(status), printed)


def count_calls(root: Path) -> dict[str, int]:
    """Return, by call, how often the busiest thread of an undisturbed release makes it."""
    log = root / "calls"
    directory = harness.fresh(root / "count")
    done = run_traced(directory, "-o", str(log), "-e", f"trace={','.join(CALLS)}")
    if done.code != 0:
        raise SystemExit(f"an undisturbed release ends with {done.code}: {done.printed}")
    counts = collections.Counter(re.findall(r"^(\d+) +(\w+)\(", log.read_text(errors="replace"), re.MULTILINE))
    return {call: max([n for (_, name), n in counts.items() if name == call], default=0) for call in CALLS}


def import_all(root: Path) -> None:
    """Import what a release imports, so that no fault strikes an import."""
    directory = harness.fresh(root / "warm")
    pid = os.fork()
    if pid == 0:
        _redirect(directory)
        command(directory)
        (directory / "modules").write_text("\n".join(sys.modules))
        os._exit(0)
    os.waitpid(pid, 0)
    for name in (directory / "modules").read_text().split():
        with suppress(ImportError):
            import_module(name)


def strike(root: Path, fault: str, place: int) -> tuple[list[str], bool]:
    """Make one call fail.

    Returns:
        What is wrong then, and after the same command was run again; and whether a library aborted the process, which
        it may as anybody may kill it: DuckDB does where it cannot read how much memory there is.
    """
    call, _, error = fault.partition(":")
    directory = harness.fresh(root / "run")
    inject = f"inject={call}:error={error}:when={place}"
    done = run_traced(directory, "-o", os.devnull, "-e", f"trace={call}", "-e", inject)
    wrong, payload, bundle, stage = harness.examine(directory)
    aborted = done.code == -signal.SIGABRT
    if aborted and stage != "none":
        wrong.append("aborted after the charge")
    if not aborted:
        wrong += _judged(done, stage, silent=call == "write")
    wrong += harness.finish(directory, payload, bundle)
    return [f"{fault} at call {place}: {what}" for what in wrong], aborted


def _judged(done: Run, stage: str, *, silent: bool) -> list[str]:
    """Return the violations by a release that met a fault."""
    wrong = []
    if done.code not in ALLOWED:
        wrong.append(f"exit {done.code}: {done.printed[-300:]}")
    if done.code == 0 and stage != "published":
        wrong.append(f"exit 0, but {stage}")
    if INTERNALS.search(done.printed):
        wrong.append(f"internals: {done.printed[-300:]}")
    if done.code and "Error: " not in done.printed and not silent:
        wrong.append("no message")
    return wrong


def sweep(root: Path, faults: tuple[str, ...]) -> dict[str, Any]:
    """Strike every call of every kind."""
    root.mkdir(parents=True, exist_ok=True)
    import_all(root)
    counted = count_calls(root)
    points = {fault: counted[fault.partition(":")[0]] for fault in faults}
    violations: list[str] = []
    aborts = 0
    for fault, most in points.items():
        for place in range(1, most + 1):
            new_violations, aborted = strike(root, fault, place)
            violations += new_violations
            aborts += aborted
    return {
        "calls": sum(counted[call] for call in {fault.partition(":")[0] for fault in faults}),
        "faults": sum(points.values()),
        "aborts": aborts,
        "losses": len(violations),
        "points": points,
        "violations": violations[:20],
    }


if __name__ == "__main__":
    print(json.dumps(sweep(Path(sys.argv[1]), tuple(sys.argv[2:]) or FAULTS)))
