"""Print the times of ``dpbayes plan`` and ``dpbayes audit`` for every model and mechanism.

``python -m tests.benchmarks.plan_and_audit_times [--audit] [--records N] [MODEL ...]``

Each time is that of a whole process on the spec that ``dpbayes spec init`` writes, in CPU seconds and in wall seconds.
An audit makes up as many records as it does by default.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dpbayes_cli.core.registry import model_names, model_type, supporting_mechanisms

DPBAYES = [sys.executable, "-m", "dpbayes_cli"]
LONGEST = 120.0


def timed(arguments: list[str], directory: Path) -> str:
    """Return the CPU and wall seconds of a command, and its exit code if it failed."""
    environment = {**os.environ, "DPBAYES_LEDGER": f"{directory}/ledger.sqlite"}
    before, started, late, failed = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter(), "", ""
    try:
        done = subprocess.run(
            [*DPBAYES, *arguments], cwd=directory, env=environment, capture_output=True, check=False, timeout=LONGEST
        )
        failed = f" exit {done.returncode}" if done.returncode else ""
    except subprocess.TimeoutExpired:
        late = ">"
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - started
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return f"{late}{cpu:.1f} ({wall:.1f}){failed}"


def main() -> None:
    """Print one line for each model and mechanism."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="models to measure [all]")
    parser.add_argument("--audit", action="store_true", help="measure the audit too")
    parser.add_argument("--records", default="1000", metavar="N", help="records to plan for [1000]")
    stated = parser.parse_args()
    print(f"{'model':22}{'mechanism':18}{'plan: CPU (wall)':>20}{'audit: CPU (wall)' if stated.audit else '':>24}")
    for model in stated.models or model_names():
        for mechanism in supporting_mechanisms(model_type(model)):
            with tempfile.TemporaryDirectory() as place:
                pair = [model, "--mechanism", mechanism]
                written = subprocess.run([*DPBAYES, "spec", "init", *pair], capture_output=True, text=True, check=True)
                spec = Path(place) / "spec.yaml"
                spec.write_text(written.stdout)
                plan = timed(["plan", "--spec", str(spec), "--records", stated.records], Path(place))
                audit = timed(["audit", "--spec", str(spec)], Path(place)) if stated.audit else ""
            print(f"{model:22}{mechanism:18}{plan:>20}{audit:>24}", flush=True)


if __name__ == "__main__":
    main()
