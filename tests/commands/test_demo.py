"""``dpbayes demo``."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_demo_runs_in_a_directory_of_its_own_and_leaves_nothing(place: Path) -> None:
    before = set(Path(tempfile.gettempdir()).glob("dpbayes-demo-*"))
    done = subprocess.run([sys.executable, "-m", "dpbayes_cli", "demo"], capture_output=True, text=True, check=True)
    assert done.stdout.count("\n$ dpbayes ") + done.stdout.startswith("$") >= 6
    assert "verified" in done.stdout
    assert list(place.iterdir()) == []
    assert set(Path(tempfile.gettempdir()).glob("dpbayes-demo-*")) == before
