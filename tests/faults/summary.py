"""Run a module of fault sweeps in a process of its own, and read the summary that it prints."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.conftest import ROOT


def summary_of(module: str, *arguments: object) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", "-m", f"tests.faults.{module}", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print({key: value for key, value in summary.items() if isinstance(value, int)})
    return summary
