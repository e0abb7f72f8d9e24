"""Run the examples of the documentation; ``python -m tests.tools.doc_examples`` writes what they print into the pages.

A ``console`` block is a terminal session: a line that begins with ``$`` is a command, and the lines after it are what
the command prints. ``python`` blocks of a page run one after the other.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    *(f"docs/tutorials/{name}.md" for name in ("first-release", "classifier", "arviz-and-r", "notebook")),
    "docs/how-to/groups.md",
    "docs/how-to/noisy-tables.md",
    "docs/how-to/private-tree.md",
    "docs/how-to/regression.md",
    "docs/how-to/synthetic-records.md",
    "docs/explanation/budgets.md",
)
"""The pages whose sessions and Python examples are run."""
_BLOCK = re.compile(r"^```(console|python|sh)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Command(NamedTuple):
    """A command of a session, and what it prints."""

    text: str
    output: str


def blocks(page: str, language: str) -> list[str]:
    """Return the blocks of a page in one language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [body for each, body in _BLOCK.findall(text) if each == language]


def session(block: str) -> list[Command]:
    """Return the commands of a block with what they print."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [Command(*part.partition("\n")[::2]) for part in parts]


def prepare(directory: Path) -> dict[str, str]:
    """Fill a directory with what the examples need; return the environment of their commands."""
    for name in ("sample_data", "configs"):
        (directory / name).symlink_to(ROOT / name)
    shim = directory / ".bin" / "dpbayes"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dpbayes_cli "$@"\n')
    shim.chmod(0o755)
    return {
        **os.environ, "PATH": f"{shim.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT),
        "DPBAYES_LEDGER": str(directory / ".ledger.sqlite"), "COLUMNS": "80",
    }  # fmt: skip


def run(command: str, directory: Path, environment: dict[str, str]) -> str:
    """Return what a command prints; messages and result share the terminal."""
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return done.stdout


def run_python(page: str, directory: Path, environment: dict[str, str]) -> None:
    """Run the Python blocks of a page as one program."""
    program = "\n".join(blocks(page, "python"))
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], cwd=directory, env=environment, check=True)


def printed(page: str, directory: Path, environment: dict[str, str]) -> Iterator[tuple[Command, str]]:
    """Yield each command of a page with what it prints now."""
    for block in blocks(page, "console"):
        for command in session(block):
            yield command, run(command.text, directory, environment)


def refill(page: str) -> None:
    """Write into a page what its commands print."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        environment = prepare(directory)

        def filled(match: re.Match[str]) -> str:
            if match[1] != "console":
                return match[0]
            outputs = [f"$ {each.text}\n{run(each.text, directory, environment)}" for each in session(match[2])]
            return f"```console\n{''.join(outputs)}```".replace(str(directory / ".ledger.sqlite"), "ledger.sqlite")

        path = ROOT / page
        path.write_text(_BLOCK.sub(filled, path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    for each in sys.argv[1:] or PAGES:
        refill(each)
