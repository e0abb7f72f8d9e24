"""Kill the upkeep commands of a ledger at every step, run them again, and check the invariants, in a fresh process.

``python -m tests.faults.keeping KIND DIRECTORY`` prints one JSON summary; kinds are the keys of ``KEEPING``.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import dpbayes_cli.ledger.upkeep  # noqa: F401 - imported before the fork
from dpbayes_cli.ledger.anchor import read_last
from dpbayes_cli.ledger.state import State
from tests.faults import harness
from tests.ledger.ledgers import copy_of, damage, labeled, open_ledger, publish


@dataclass(frozen=True)
class Keeping:
    """What is run and on what; the entries about the ledger itself that it then has, the file that is made, and what
    is spent in that: of a damaged ledger the release whose end is lost is charged twice."""

    arguments: list[str]
    anchored: bool = False
    restored: bool = False
    damaged: bool = False
    entries: tuple[str, ...] = ()
    makes: str = ""
    spent: Decimal = Decimal("0.2")


KEEPING = {
    "anchor": Keeping(["budget", "anchor", "../anchor"], entries=("anchor",)),
    "move": Keeping(["budget", "anchor", "../moved"], anchored=True, entries=("anchor", "anchor")),
    "adopt": Keeping(
        ["budget", "adopt", "--reason", "looked"], anchored=True, restored=True, entries=("anchor", "adopt")
    ),
    "backup": Keeping(["budget", "backup", "../made"], anchored=True, entries=("anchor",), makes="made"),
    "salvage": Keeping(["budget", "recover", "--to", "../made"], damaged=True, makes="made", spent=Decimal("0.3")),
}


def fresh(directory: Path, keeping: Keeping) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "work").mkdir(parents=True)
    path = directory / "ledger.sqlite"
    ledger = open_ledger(path)
    if keeping.anchored:
        ledger.anchor(directory / "anchor", "")
    publish(ledger, labeled("a"))
    old = copy_of(path, "old")
    publish(ledger, labeled("b"))
    if keeping.restored:
        shutil.copy(old, path)
    if keeping.damaged:
        damage(path, 6)
    old.unlink()
    return directory


def examine(directory: Path, keeping: Keeping) -> tuple[list[str], State]:
    """Check the invariants of any moment."""
    ledger, wrong = open_ledger(directory / "ledger.sqlite"), []
    if not keeping.damaged:
        wrong += ledger.findings(compare=False)[0]
    output = directory / keeping.makes
    if keeping.makes and output.exists():
        findings, state = open_ledger(output).findings(compare=False)
        wrong += findings
        if [account.spent for account in state.accounts.values()] != [{"epsilon": keeping.spent}]:
            wrong.append("the new file lacks a charge")
    if keeping.damaged:
        return wrong, State()
    state = ledger.state(compare=False)
    for path in ledger.anchors(state):
        last = read_last(path)
        if last is None:
            wrong.append(f"{path.name} is configured and empty")
        elif not keeping.restored and not state.holds(last):
            wrong.append(f"{path.name} is ahead of the ledger")
    return wrong, state


def finished(directory: Path, keeping: Keeping) -> list[str]:
    """Run the same command undisturbed; return the violations by its result."""
    code, _ = harness.run_child(directory, harness.NEVER)
    wrong, state = examine(directory, keeping)
    if code != 0:
        wrong.append(f"the same command again ends with {code}")
    if not keeping.damaged:
        ledger = open_ledger(directory / "ledger.sqlite")
        wrong += ledger.findings()[0]
        kinds = tuple(entry.fields["kind"] for entry in ledger.entries() if not entry.fields["account"])
        if kinds != keeping.entries:
            wrong.append(f"the ledger says {kinds}")
        for path in ledger.anchors(state):
            if read_last(path) != state.mark:
                wrong.append("an anchor is behind a finished command")
    if keeping.makes and not (directory / keeping.makes).exists():
        wrong.append("there is no new file")
    left = sorted(path.name for path in directory.glob(".*"))
    return wrong + ([f"left behind: {left}"] if left else [])


def sweep(root: Path, keeping: Keeping) -> dict[str, object]:
    """Kill the command at every step."""
    setattr(harness, "KIND", keeping)  # noqa: B010 - of which only the arguments are used
    code, total = harness.run_child(fresh(root / "count", keeping), harness.NEVER)
    violations = [] if code == 0 else [f"an undisturbed run ends with {code}"]
    for step in range(1, total + 1):
        directory = fresh(root / "run", keeping)
        code, _ = harness.run_child(directory, step)
        if code != -signal.SIGKILL:
            violations.append(f"step {step}: the signal gave exit {code}")
        violations += [f"step {step}: {what}" for what in examine(directory, keeping)[0]]
        violations += [f"step {step}, finished: {what}" for what in finished(directory, keeping)]
    return {"steps": total, "runs": total, "losses": len(violations), "violations": violations[:20]}


if __name__ == "__main__":
    print(json.dumps(sweep(Path(sys.argv[2]), KEEPING[sys.argv[1]])))
