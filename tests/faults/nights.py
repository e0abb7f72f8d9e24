"""A schedule of many nights on a data set that changes nightly, with runs that are killed at random steps.

``python -m tests.faults.nights DIRECTORY NIGHTS`` prints one JSON summary. Each night, the same command is run until it
ends by itself, then once more. Checkpoints come often, so that runs are killed around several of them.
"""

from __future__ import annotations

import json
import random
import sys
from datetime import date, timedelta
from pathlib import Path

from dpbayes_cli.ledger import checkpoint
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.sqlite import SqliteStorage
from tests.faults.harness import NEVER, run_child

SCHEDULE = """
account: nights
epsilon: 3
delta: 1e-6
releases:
  - name: rate
    times: {nights}
    spec: {{model: beta-bernoulli, column: x, domain: {{success: "1", failure: "0"}}, privacy: {{epsilon: 0.008}}}}
    data: coin.csv
"""
_MOST_STEPS = 160
"""A run takes fewer steps than this, so that some runs are not killed."""


def main(directory: Path, nights: int) -> dict[str, object]:
    work, rng = directory / "work", random.Random(1)
    work.mkdir(parents=True)
    setattr(checkpoint, "_INTERVAL_ENTRIES", 20)  # noqa: B010 - in the forked children too
    (work / "nights.yaml").write_text(SCHEDULE.format(nights=nights))
    violations, kills, first = [], 0, date(2026, 1, 1)

    def run(*arguments: str, fatal: int = NEVER) -> int:
        return run_child(directory, fatal, arguments=arguments)[0]

    while run("schedule", "open", "nights.yaml", fatal=rng.randrange(1, _MOST_STEPS)):
        kills += 1
    for night in range(nights):
        ones = rng.randrange(20, 80)
        (work / "coin.csv").write_text("x\n" + "1\n" * ones + "0\n" * (100 - ones))
        command = ("schedule", "run", "nights.yaml", "--date", (first + timedelta(night)).isoformat())
        while status := run(*command, fatal=rng.randrange(1, _MOST_STEPS)):
            kills += 1
            if status != -9:
                violations.append(f"night {night}: status {status}")
                break
        bundle = work / "nights" / f"rate-{night + 1}" / "release.json"
        before = bundle.read_bytes() if bundle.exists() else b""
        if run(*command) or bundle.read_bytes() != before:
            violations.append(f"night {night}: the second run differs")
    bundles = sorted(path.name for path in (work / "nights").iterdir())
    violations += [f"{name} does not verify" for name in bundles if run("verify", f"nights/{name}")]
    ledger = Ledger(SqliteStorage(directory / "ledger.sqlite"))
    findings, state = ledger.findings()
    kinds = [entry.fields["kind"] for entry in ledger.entries()]
    return {
        "kills": kills,
        "bundles": len(bundles),
        "checkpoints": kinds.count("checkpoint"),
        "opened": kinds.count("open"),
        "charged": kinds.count("reserved"),
        "spent": {name: str(amount) for name, amount in state.accounts["nights"].spent.items()},
        "violations": violations + findings,
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]))))
