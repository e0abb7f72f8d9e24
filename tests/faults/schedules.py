"""Kill ``schedule open`` and ``schedule run`` at every step, run them again, and check the invariants.

``python -m tests.faults.schedules DIRECTORY`` prints one JSON summary. Before a run is repeated, the data change, as
they do between two nights. Two releases are due, so that a run may be killed between them.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections import Counter
from pathlib import Path

import dp_accounting.pld.privacy_loss_distribution  # noqa: F401 - imported before the fork

from dpbayes_cli.bundle.document import parse_document, parse_draw
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.sqlite import SqliteStorage
from tests.faults.harness import COIN, NEVER, run_child

SCHEDULE = """
account: nights
epsilon: 3
delta: 1e-6
releases:
  - name: rate
    times: 2
    spec: {model: beta-bernoulli, column: x, domain: {success: "1", failure: "0"}, privacy: {epsilon: 0.1}}
    data: coin.csv
  - name: sides
    dates: [2026-11-22, 2026-12-24]
    spec: {model: dirichlet-categorical, column: x, domain: {categories: ["0", "1"]}, privacy: {epsilon: 0.2}}
    data: coin.csv
"""
OPEN = ("schedule", "open", "nights.yaml")
RUN = ("schedule", "run", "nights.yaml", "--date", "2026-11-23")
DUE = ("rate-1", "sides-2026-11-22")

Seen = dict[str, bytes]


def fresh(directory: Path, *, opened: bool) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "work").mkdir(parents=True)
    (directory / "work" / "nights.yaml").write_text(SCHEDULE)
    (directory / "work" / "coin.csv").write_text(COIN)
    if opened and run_child(directory, NEVER, arguments=OPEN)[0]:
        raise RuntimeError("the schedule cannot be opened")
    return directory


def examine(directory: Path) -> tuple[list[str], Seen]:
    """Check the invariants of any moment; return the violations, the sealed draws and the files of the bundles."""
    seen: Seen = {}
    bundles = directory / "work" / "nights"
    for path in bundles.glob("[!.]*/*"):
        seen[str(path.relative_to(bundles))] = path.read_bytes()
    storage = SqliteStorage(directory / "ledger.sqlite")
    if not storage.exists:
        return (["a bundle without a ledger"] if seen else []), seen
    with storage.writing():
        pass  # rolls back a hot journal, as the next command would
    wrong, state = Ledger(storage).findings()
    kinds = Counter(entry.fields["kind"] for entry in Ledger(storage).entries())
    if kinds["open"] > 1:
        wrong.append("the schedule was charged twice")
    for account in state.accounts.values():
        if {name: str(amount) for name, amount in account.spent.items()} != {"epsilon": "3", "delta": "0.000001"}:
            wrong.append("another amount is spent than the total")
        labels = Counter(record.label for record in account.releases.values())
        if max(labels.values(), default=0) > 1 or kinds["reserved"] != len(labels):
            wrong.append(f"a release was charged twice: {labels}")
        for record in account.releases.values():
            document = seen.get(f"{record.label}/release.json")
            if record.sealed is not None:
                with storage.reading() as transaction:
                    draw = transaction.payload(record.release_id)
                assert draw is not None
                seen[f"draw of {record.label}"] = draw
                if document and parse_document(document).statistics != parse_draw(draw).statistics:
                    wrong.append(f"the bundle of {record.label} is not of the sealed draw")
            elif document:
                wrong.append(f"a bundle of {record.label}, which was not sealed")
            if record.stage == "published" and not document:
                wrong.append(f"{record.label} is published and has no bundle")
    return wrong, seen


def finish(directory: Path, command: tuple[str, ...], before: Seen) -> list[str]:
    """Run the same command undisturbed, then once more; return the violations by the results."""
    wrong = []
    for _ in range(2):
        code, _ = run_child(directory, NEVER, arguments=command)
        violations, seen = examine(directory)
        wrong += [*violations, *([f"the same command again ends with {code}"] if code else [])]
        wrong += [f"{name} changed" for name, content in before.items() if seen.get(name) != content]
        before = seen
    account = Ledger(SqliteStorage(directory / "ledger.sqlite")).state().accounts["nights"]
    expected = DUE if command == RUN else ()
    stages = {record.label: record.stage for record in account.releases.values()}
    if stages != dict.fromkeys(expected, "published"):
        wrong.append("other releases than those that were due")
    for each in expected:
        if run_child(directory, NEVER, arguments=("verify", f"nights/{each}"))[0]:
            wrong.append(f"{each} does not verify")
    left = [path.name for path in (directory / "work").rglob(".*")]
    return wrong + ([f"left behind: {left}"] if left else [])


def sweep(root: Path, command: tuple[str, ...]) -> tuple[int, list[str]]:
    """Kill a command at every step; return the number of steps and the violations."""
    start = fresh(root / "start", opened=command == RUN)
    counted = root / "count"
    shutil.copytree(start, counted, dirs_exist_ok=True)
    code, total = run_child(counted, NEVER, arguments=command)
    violations = [] if code == 0 else [f"an undisturbed run ends with {code}"]
    for step in range(1, total + 1):
        directory = root / "run"
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(start, directory)
        code, _ = run_child(directory, step, arguments=command)
        if code != -signal.SIGKILL:
            violations.append(f"step {step}: the signal gave exit {code}")
        wrong, seen = examine(directory)
        (directory / "work" / "coin.csv").write_text(COIN.replace("1\n0\n", "1\n1\n0\n"))
        violations += [f"{command[1]}, step {step}: {what}" for what in wrong + finish(directory, command, seen)]
    return total, violations


if __name__ == "__main__":
    place = Path(sys.argv[1])
    swept = [sweep(place / command[1], command) for command in (OPEN, RUN)]
    wrong = [what for _, violations in swept for what in violations]
    steps = [total for total, _ in swept]
    print(json.dumps({"steps": steps, "losses": len(wrong), "violations": wrong[:20]}))
