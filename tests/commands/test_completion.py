"""``dpbayes completion``: a script for each shell, and its suggestions."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.conftest import Cli


def test_completion_scripts_ask_the_program_for_suggestions(dpbayes: Cli) -> None:
    for name in ("bash", "zsh", "fish"):
        assert "_DPBAYES_COMPLETE" in dpbayes("completion", name).out
    environment = {**os.environ, "_DPBAYES_COMPLETE": "bash_complete", "COMP_WORDS": "dpbayes re", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "dpbayes_cli"], env=environment, capture_output=True, text=True, check=False
    )
    assert "release" in done.stdout
