"""What the README says is what the program does: the set-up, the worked example, the tables."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

from dpbayes_cli.base.errors import DpbayesError
from dpbayes_cli.main import COMMANDS
from tests.conftest import ROOT, SAMPLE_DATA, Cli
from tests.test_main import all_commands

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)


def shape(text: str) -> list[list[str]]:
    """The words of each line, with everything that differs from run to run and host to host made alike."""
    for pattern, stand_in in [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
        (r"\b[0-9a-f]{64}\b", "HASH"),
        (r"(?<=ledger )/\S+", "PATH,"),
        (r"(?<=TIME  )\S+", "USER"),
        (r"\d+\.\d+(?:e-\d+)?", "NUMBER"),
    ]:
        text = re.sub(pattern, stand_in, text)
    return [line.split() for line in text.strip().splitlines()]


def test_the_worked_example_is_what_the_program_prints(place: Path) -> None:
    (place / "sample_data").symlink_to(SAMPLE_DATA)
    shim = place / "bin" / "dpbayes"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dpbayes_cli "$@"\n')
    shim.chmod(0o755)
    transcript = "".join(blocks("console"))
    sessions = re.split(r"^\$ ", transcript, flags=re.MULTILINE)[1:]
    assert len(sessions) == 5
    for session in sessions:
        command, _, shown = session.partition("\n")
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            env={**os.environ, "PATH": f"{shim.parent}:{os.environ['PATH']}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
        )
        if command.startswith("dpbayes release"):  # messages and result share a terminal, in no fixed order
            assert sorted(shape(done.stdout)) == sorted(shape(shown))
        else:
            assert shape(done.stdout) == shape(shown)


def test_the_spec_of_the_readme_is_a_config_that_runs(dpbayes: Cli, place: Path) -> None:
    (spec,) = blocks("yaml")
    configs = [yaml.safe_load(path.read_text()) for path in (ROOT / "configs" / "releases").glob("*.yaml")]
    assert yaml.safe_load(spec) in configs


def test_ci_runs_the_test_command_of_the_readme() -> None:
    commands = "".join(blocks("sh")).splitlines()
    setup = [line for line in commands if line.startswith("python3 -m venv")]
    assert len(setup) == 2
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert setup[1] in script.read_text().splitlines()


def test_the_table_of_models_and_mechanisms_is_generated(dpbayes: Cli) -> None:
    match = re.search(r"<!-- generated: dpbayes models --markdown -->\n(.*?)<!-- end -->", README, re.DOTALL)
    assert match is not None
    assert match[1] == dpbayes("models", "--markdown").out


def test_every_command_is_in_the_table_of_commands() -> None:
    listed = [name for name in all_commands() if re.search(rf"^\| `dpbayes {name}[ `]", README, re.MULTILINE)]
    assert listed == [*all_commands()]


def test_no_command_of_the_readme_is_unknown() -> None:
    assert set(re.findall(r"(?:`|\$ |^|bin/)dpbayes ([a-z]+)", README, re.MULTILINE)) == set(COMMANDS)


def test_every_exit_code_is_in_the_readme() -> None:
    listed = {int(code) for code in re.findall(r"^\| (\d+) \| ", README, re.MULTILINE)}
    kinds = [DpbayesError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    assert listed == {0, 1, 2, 130} | {kind.exit_code for kind in kinds}
