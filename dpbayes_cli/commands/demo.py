"""``dpbayes demo``: a first release from beginning to end, on made-up data in a temporary directory."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from dpbayes_cli.commands.output import emit, output_options, say

_STORY = (
    ("Look at the file (not private: for the custodian only)", "check relapse.csv --model beta-bernoulli"),
    ("See how precise a release would be; no data are read", "plan --model beta-bernoulli --eps 1 --records 1000"),
    ("Release", "release relapse.csv --model beta-bernoulli --eps 1 --out relapse-2026"),
    ("Repeat the request: the same result, at no cost", "release relapse.csv --model beta-bernoulli --eps 1"
     " --out relapse-2026"),
    ("Use another prior, at no cost", "infer relapse-2026 --prior alpha=2,beta=5 --seed 1"),
    ("See the remaining budget", "budget show relapse"),
    ("Check the bundle against the ledger", "verify relapse-2026"),
)  # fmt: skip
"""What the demo does: a title and a command for each step."""


@click.command("demo")
@output_options
def command(as_json: bool) -> None:
    """Show a first release from beginning to end, on made-up data in a temporary directory; takes less than half a
    minute.

    Each command is printed before it runs. The demo has a ledger of its own, and leaves nothing behind.
    """
    import numpy as np

    if as_json:
        raise click.UsageError("the demo prints no JSON document")
    with tempfile.TemporaryDirectory(prefix="dpbayes-demo-") as name:
        answers = np.random.default_rng(1).random(1000) < 0.3
        (Path(name) / "relapse.csv").write_text("\n".join(["relapse", *("01"[int(each)] for each in answers), ""]))
        environment = {**os.environ, "DPBAYES_LEDGER": str(Path(name) / "ledger.sqlite")}
        for variable in ("DPBAYES_ANCHOR", "DPBAYES_LEDGER_KEY"):
            environment.pop(variable, None)
        for title, arguments in _STORY:
            emit(f"# {title}\n$ dpbayes {arguments}")
            _flush()
            line = [sys.executable, "-m", "dpbayes_cli", *shlex.split(arguments)]
            if (code := subprocess.run(line, cwd=name, env=environment, check=False).returncode) != 0:  # noqa: S603
                raise click.exceptions.Exit(code)
            emit("")
        _flush()
    say("the temporary directory was removed; to begin with your own file: dpbayes check FILE")


def _flush() -> None:
    """Write what was printed before another process prints."""
    sys.stdout.flush()
    sys.stderr.flush()
