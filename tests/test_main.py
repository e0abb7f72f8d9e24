"""The command line as a custodian uses it: help, exit codes, suggestions, imports, signals and closed streams."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from dpbayes_cli import __version__
from dpbayes_cli.main import COMMANDS, cli
from tests.conftest import Cli, often

COIN = ["--model", "beta-bernoulli", "--eps", "1"]
REQUEST = [*COIN, "--out", "out"]
RELEASE = [sys.executable, "-m", "dpbayes_cli", "release"]


def all_commands() -> dict[str, click.Command]:
    """Return the commands by their full names, as ``budget open``."""
    context = cli.make_context("dpbayes", ["models"], resilient_parsing=True)
    commands: dict[str, click.Command] = {}
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        children = getattr(command, "commands", {})
        commands |= {f"{name} {child}": leaf for child, leaf in children.items()} or {name: command}
    return commands


def test_every_command_and_every_option_is_explained(dpbayes: Cli) -> None:
    shown = dpbayes("--help").out
    assert all(f"{name}  " in shown and text in shown for name, text in COMMANDS.items())
    for name, command in all_commands().items():
        assert command.help, name
        assert dpbayes(*name.split(), "--help").code == 0
        options = [each for each in command.params if isinstance(each, click.Option)]
        assert [each.name for each in options if not each.help] == [], name
    assert dpbayes("--version").out.strip() == f"dpbayes, version {__version__}"


EXITS: list[tuple[int, list[str]]] = [
    (2, ["nothing"]),
    (2, ["demo", "--json"]),
    (2, ["release", "coin.csv", "--nonsense"]),
    (2, ["release", "coin.csv", *COIN, "--release-id", "a b"]),
    (2, ["release", "coin.csv", *COIN, "--fresh", "--release-id", "x"]),
    (2, ["release", "coin.csv", *COIN, "--prior", "alpha"]),
    (2, ["release", "coin.csv", *COIN, "--purpose", "x\n99 amend"]),
    (2, ["budget", "open", "x", "--eps", "many"]),
    (2, ["report"]),
    (2, ["report", "damaged", "--index", "taken"]),
    (2, ["report", "--index", "taken", "--format", "svg"]),
    (2, ["report", "damaged", "--format", "pdf"]),
    (2, ["report", "damaged", "--format", "svg"]),
    (2, ["report", "damaged", "--no-ledger", "--ledger", "x"]),
    (2, ["report", "damaged", "--records", "0"]),
    (2, ["report", "damaged", "--state", "basic.name=x"]),
    (2, ["report", "damaged", "--format", "registry", "--state", "basic.name"]),
    (2, ["report", "damaged", "--format", "registry", "--state", "basic.name= "]),
    (2, ["report", "damaged", "--format", "registry", "--state", "basic.name=x", "--state", "basic.name=y"]),
    (2, ["verify", "damaged", "--no-ledger", "--ledger", "x"]),
    (3, ["release", "coin.csv", "--eps", "1"]),
    (3, ["release", "coin.csv", "--model", "nope", "--eps", "1"]),
    (3, ["release", "coin.csv", "--model", "beta-bernoulli"]),
    (3, ["release", "coin.csv", "--model", "beta-bernoulli", "--eps", "0"]),
    (3, ["release", "coin.csv", *COIN, "--success", "yes"]),
    (3, ["release", "coin.csv", *COIN, "--on-invalid", "impute:7"]),
    (3, ["release", "coin.csv", "--model", "dirichlet-categorical", "--eps", "1"]),
    (3, ["release", *COIN]),
    (3, ["spec", "check", "missing.yaml"]),
    (3, ["explain", "nothing"]),
    (4, ["check", "-"]),
    (4, ["check", "missing.csv"]),
    (4, ["release", "missing.csv", *COIN]),
    (4, ["release", "x" * 5000, *COIN]),
    (4, ["release", "a\0b", *COIN]),
    (4, ["release", "coin.csv", *COIN, "--column", "y"]),
    (4, ["release", "coin.csv", *COIN, "--records", "7"]),
    (4, ["release", ".", *COIN]),
    (5, ["release", "coin.csv", "--model", "beta-bernoulli", "--eps", "4"]),
    (5, ["release", "coin.csv", *COIN, "--no-open-account"]),
    (5, ["release", "coin.csv", *COIN, "--no-open-account"]),
    (6, ["budget", "show", "nobody"]),
    (6, ["budget", "export", "--ledger", "coin.csv"]),
    (6, ["release", "coin.csv", *COIN, "--ledger", "coin.csv/x"]),
    (6, ["verify", "damaged"]),
    (7, ["infer", "damaged"]),
    (7, ["report", "damaged", "--format", "html"]),
    (8, ["report", "missing"]),
    (8, ["report", "--index", "missing"]),
    (8, ["report", "--index", "taken"]),
    (8, ["release", "coin.csv", *COIN, "--out", "taken"]),
]


def test_every_exit_code_is_reached_and_nothing_is_charged(dpbayes: Cli, coin: Path, ledger_path: Path) -> None:
    assert coin.name == "coin.csv"
    Path("taken").mkdir()
    Path("damaged").mkdir()
    Path("damaged/release.json").write_text('{"schema_version": 1}')
    for code, arguments in EXITS:
        done = dpbayes(*arguments)
        assert (done.code, done.out, "Error: " in done.err) == (code, "", True), (arguments, done.err)
        assert not ledger_path.exists(), arguments


def test_an_internal_error_says_nothing_about_its_cause(
    dpbayes: Cli, coin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the cell holds SENTINEL")

    monkeypatch.setattr("dpbayes_cli.sources.delimited.DelimitedSource.statistics", broken)
    done = dpbayes("release", coin, *COIN, "-vv").exits(1, "internal error (RuntimeError at test_main.py:")
    assert "SENTINEL" not in done.err + done.out
    assert "in broken" in done.err


def test_json_alone_is_on_stdout(dpbayes: Cli, coin: Path) -> None:
    coin.write_text("x\n" + "1\n0\n" * 1000)  # so many valid records that the noise causes no note about them
    done = dpbayes("release", coin, *COIN, "--json", "-v")
    assert json.loads(done.out)["account"] == "coin"
    assert "charged epsilon 1" in done.err
    assert "ledger: " in done.err
    assert dpbayes("release", coin, *COIN, "--json", "-q").err == ""


HEAVY = "scipy sqlalchemy pandas pyarrow matplotlib rich yaml ibis duckdb"
DATA = "_duckdb opendp sqlite3 pandas pyarrow"
PAGE = "_duckdb opendp sqlite3 pandas matplotlib"


@pytest.mark.parametrize(
    ("arguments", "watched", "loaded"),
    [
        (["--help"], "numpy duckdb dpbayes_cli.spec dpbayes_cli.commands.options", []),
        (["release", "coin.csv", *COIN, "-q"], HEAVY, []),
        pytest.param(["infer", "out", "-q"], DATA, [], marks=pytest.mark.slow),
        pytest.param(["report", "out", "--out", "page.md"], PAGE, [], marks=pytest.mark.slow),
        pytest.param(["report", "out", "--out", "page.yaml"], PAGE, [], marks=pytest.mark.slow),
        pytest.param(
            ["report", "out", "--out", "page.html", "--no-ledger"], PAGE, ["opendp", "matplotlib"],
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ["report", "out", "--out", "page.html"], PAGE, ["opendp", "sqlite3", "matplotlib"], marks=pytest.mark.slow
        ),
    ],
    ids=lambda each: " ".join(each[:4]) if isinstance(each, list) else "",
)  # fmt: skip
def test_a_command_imports_only_what_it_needs(
    arguments: list[str], watched: str, loaded: list[str], coin: Path, dpbayes: Cli
) -> None:
    if "out" in arguments:
        dpbayes("release", coin, *REQUEST)
    script = (
        f"import sys; sys.argv = ['dpbayes', *{arguments}]\n"
        "from dpbayes_cli.main import run\n"
        "try: run()\n"
        f"finally: print([name for name in {watched.split()} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == str(loaded), done.stderr


def ended_by(number: int, started: subprocess.Popen[bytes], after: str) -> tuple[int, str]:
    """Send a signal once stderr has a message; return exit code and stderr."""
    assert started.stderr is not None
    messages = b""
    while after.encode() not in messages:
        line = started.stderr.readline()
        assert line, messages
        messages += line
    time.sleep(0.5)
    started.send_signal(number)
    code = started.wait(timeout=30)
    messages += started.stderr.read()
    return code, messages.decode()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
def test_a_signal_while_the_data_stall_ends_the_run(number: int, code: int, place: Path, dpbayes: Cli) -> None:
    """The engine waits for data that never come; the signal ends the run all the same."""
    with subprocess.Popen(
        [*RELEASE, "-", "--dataset", "d", *REQUEST], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as started:
        assert started.stdin is not None
        started.stdin.write(b"x\n" + b"1\n" * 100)
        started.stdin.flush()
        exit_code, messages = ended_by(number, started, "charged epsilon 1")
        assert (exit_code, "internal error" in messages) == (code, False)
    again = dpbayes("release", "-", "--dataset", "d", *REQUEST, "--json", stdin=b"x\n" + b"1\n" * 100)
    assert again.json["remaining"] == {"epsilon": "2"}


@pytest.mark.slow
def test_a_signal_while_the_engine_works_is_no_internal_error(place: Path) -> None:
    path = place / "big.csv"
    path.write_bytes(b"x\n" + b"1,1\n" * 20_000_000)  # every record is ragged, which takes the engine a while
    with subprocess.Popen([*RELEASE, str(path), *REQUEST], stderr=subprocess.PIPE) as started:
        exit_code, messages = ended_by(signal.SIGINT, started, "charged epsilon 1")
    assert exit_code in {130, 0}  # 0: it was faster than the signal
    assert "internal error" not in messages


@pytest.mark.parametrize(
    ("redirection", "code"),
    often([(">/dev/full", 8), (">&- 2>&-", 0), ("2>/dev/full", 0)], 3, several=True),
)
def test_only_a_result_that_cannot_be_written_is_a_failure(
    redirection: str, code: int, coin: Path, dpbayes: Cli
) -> None:
    command = " ".join([*RELEASE, str(coin), *REQUEST, redirection])
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False)
    assert (done.returncode, b"Traceback" in done.stderr) == (code, False)
    assert dpbayes("release", coin, *REQUEST, "--json").json["replayed"]


def test_closed_standard_input_is_a_source_error(place: Path) -> None:
    command = " ".join([*RELEASE, "-", "--dataset", "d", *REQUEST, "<&-"])
    assert subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False).returncode == 4


def test_signal_ends_waiting_for_the_ledger(coin: Path, ledger_path: Path, dpbayes: Cli) -> None:
    dpbayes("budget", "open", "d", "--epsilon", "1")
    holder = sqlite3.connect(ledger_path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with subprocess.Popen([*RELEASE[:-1], "budget", "open", "e", "--epsilon", "1"]) as started:
        time.sleep(1.0)
        started.terminate()
        assert started.wait(timeout=60) == 143
    holder.close()


def test_names_that_are_not_utf_8_are_refused_before_the_charge(coin: Path, ledger_path: Path, dpbayes: Cli) -> None:
    strange = os.fsdecode(b"q\xff")
    assert dpbayes("release", coin, "--model", "beta-bernoulli", "--eps", "1", "--out", strange).code == 8
    copy = coin.with_name(strange + ".csv")
    copy.write_bytes(coin.read_bytes())
    assert dpbayes("release", copy, *REQUEST).code == 3
    assert not ledger_path.exists()
    assert dpbayes("release", copy, *REQUEST, "--dataset", "d", "--json").code == 0
