"""The commands of the how-to guides, run as they stand there."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from dpbayes_cli.main import cli
from tests.conftest import ROOT, SAMPLE_DATA, Cli
from tests.postgres_server import Server
from tests.tools.doc_examples import PAGES, blocks, prepare
from tests.tools.doc_examples import run as run_shell

ACCOUNT = ["budget", "open", "clinic", "--epsilon", "3"]


def recipe(page: str, language: str) -> str:
    """Return the first block of a guide in one language."""
    text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8")
    return str(re.findall(rf"^```{language}\n(.*?)^```$", text, re.S | re.M)[0])


@pytest.fixture
def clinic(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A custodian's directory: the data, the spec of the README, and ``dpbayes`` on the path."""
    (place / "bin").mkdir()
    shim = place / "bin" / "dpbayes"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dpbayes_cli "$@"\n')
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")
    work = place / "clinic"
    (work / "out").mkdir(parents=True)
    spec = (ROOT / "configs" / "releases" / "clinic-relapse.yaml").read_text()
    (work / "clinic.yaml").write_text(spec.replace("../../sample_data/", ""))
    shutil.copy(SAMPLE_DATA / "clinic.csv", work)
    monkeypatch.chdir(work)
    return work


def run(*command: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def charged(dpbayes: Cli) -> list[str]:
    history: list[dict[str, Any]] = dpbayes("budget", "history", "clinic", "--json").json
    return [entry["label"] for entry in history if entry["kind"] == "reserved"]


SCRIPTS = {
    "how-to/audit.md": "dpbayes release --spec clinic.yaml --out out",
    "how-to/groups.md": "dpbayes budget open visits --epsilon 3 --delta 1e-5 &&"
    "dpbayes release --spec configs/releases/adult-occupations.yaml --out jobs",
    "how-to/ledger.md": "dpbayes release --spec clinic.yaml --out out",
    "how-to/messy-files.md": ":",
    "how-to/noisy-tables.md": "printf 'region,yes,no\\nnorth,20,30\\nsouth,31,9\\n' > noisy.csv",
    "how-to/privacy-units.md": ":",
    "how-to/regression.md": "dpbayes release --spec configs/releases/clinic-regression.yaml --out clinic &&"
    "cp clinic.csv earlier.csv && dpbayes release earlier.csv --spec configs/releases/clinic-regression.yaml "
    "--dataset earlier --out earlier",
    "how-to/several-analysts.md": ":",
    "how-to/unknown-bounds.md": ":",
    "explanation/budgets.md": ":",
}
"""The pages whose ``sh`` blocks are run one after the other, and what must be done before them."""
ELSEWHERE = {
    "README.md": "its set-up commands are those of .ci/run",
    "CONTRIBUTING.md": "test_contributing.py and test_additions.py do what it describes",
    "explanation/noise-aware-inference.md": "a command that runs slow tests",
    "how-to/nightly-job.md": "tests below; the units of systemd in test_deployment.py",
    "how-to/schedules.md": "tests below",
    "how-to/two-hosts.md": "a test below",
    "how-to/warehouse.md": "a test below, and tests/sources",
    "reference/command-line.md": "its options are checked below; each command has a test in tests/commands",
    "reference/python.md": "the docstrings of which it consists: tests/api",
    "reference/extensions.md": "it has signatures only",
}
"""The pages with examples that are run by another test."""


def test_no_page_has_examples_that_nothing_runs() -> None:
    run_here = {*SCRIPTS, *ELSEWHERE}
    for page in ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]:
        name = page.removeprefix("docs/")
        assert not blocks(page, "sh") or name in run_here, page
        assert not (blocks(page, "console") or blocks(page, "python")) or page in PAGES or name in run_here, page


@pytest.mark.slow
@pytest.mark.parametrize("page", SCRIPTS)
def test_the_commands_of_a_page_run(page: str, tmp_path: Path) -> None:
    environment = prepare(tmp_path)
    for name in ("mnt/other", "mnt/backup"):
        (tmp_path / name).mkdir(parents=True)
    shutil.copy(SAMPLE_DATA / "clinic.csv", tmp_path)
    spec = (ROOT / "configs" / "releases" / "clinic-relapse.yaml").read_text()
    (tmp_path / "clinic.yaml").write_text(spec.replace("../../sample_data/", ""))
    visits = [
        "patient_id,hospital,city,county,state,relapse,cost",
        *(f"{i % 300},north,Berlin,Mitte,BE,{i % 2},{i % 700 * 9}" for i in range(999)),
    ]
    (tmp_path / "visits.csv").write_text("\n".join(visits))
    (tmp_path / "hospitals.txt").write_text("north\nsouth\n")
    (tmp_path / "counties.csv").write_text("county,state\nMitte,BE\nMitte,HH\n")
    (tmp_path / "patients.csv").write_text("relapsed\n" + "1\n0\n" * 50)
    for block in [SCRIPTS[page], *blocks(f"docs/{page}", "sh")]:
        local = block.replace("/mnt/", f"{tmp_path}/mnt/").replace("ledger-2026-11-20", f"ledger-{date.today()}")
        if "budget restore" in local:
            Path(environment["DPBAYES_LEDGER"]).unlink()
        run_shell(local, tmp_path, environment)


def test_no_example_states_an_unknown_option() -> None:
    """The command lines of all ``sh`` blocks are parsed as the program would parse them; nothing is run."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for block in blocks(str(path.relative_to(ROOT)), "sh"):
            for line in block.replace("\\\n", "").splitlines():
                for words in re.findall(r"(?:^|[/ ])dpbayes ((?:'[^']*'|\"[^\"]*\"|[^|&>#'\"])*)", line):
                    parse_as_command(shlex.split(words.split("   ")[0]))


def parse_as_command(words: list[str]) -> None:
    """Parse the words after ``dpbayes``; raise a usage error if there is no such command or option."""
    context = click.Context(cli, info_name="dpbayes", **cli.context_settings)
    command: click.Command = cli
    while isinstance(command, click.Group):
        chosen = command.get_command(context, words[0])
        assert chosen is not None, words
        command, words = chosen, words[1:]
        context = click.Context(command, context, resilient_parsing=False)
    command.parse_args(click.Context(command, context), list(words))


@pytest.mark.slow
def test_the_nightly_release_charges_a_night_once(clinic: Path, dpbayes: Cli) -> None:
    assert dpbayes(*ACCOUNT).code == 0
    script = clinic / "nightly"
    script.write_text(recipe("nightly-job", "sh"))
    script.chmod(0o755)
    for _ in range(2):
        done = run(str(script), cwd=clinic.parent)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (day,) = charged(dpbayes)
    assert sorted(path.name for path in (clinic / "out").iterdir()) == [day, f"{day}.html"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", day)
    assert "release number" not in (clinic / "out" / f"{day}.html").read_text()
    assert "the first release" in (clinic / "out" / f"{day}.html").read_text()


def test_the_nightly_release_fails_aloud(clinic: Path) -> None:
    script = clinic / "nightly"
    script.write_text(recipe("nightly-job", "sh"))
    done = run("sh", str(script))
    assert done.returncode == 5
    assert "budget open" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_releases_once(clinic: Path, dpbayes: Cli) -> None:
    assert dpbayes(*ACCOUNT).code == 0
    (clinic / "Makefile").write_text(recipe("make-and-ci", "make"))
    for _ in range(2):
        done = run("make", "out/2026-q4.html")
        assert done.returncode == 0, done.stderr
        (clinic / "clinic.csv").touch()
    assert "up to date" in done.stdout or "Nothing to be done" in done.stdout
    assert charged(dpbayes) == ["2026-q4"]
    assert (clinic / "out" / "2026-q4" / "samples.parquet").exists()
    assert (clinic / "out" / "2026-q4.html").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_the_ci_job_fails_on_a_budget(clinic: Path, dpbayes: Cli) -> None:
    lines = yaml.safe_load(recipe("make-and-ci", "yml"))["budget"]["script"]
    assert len(lines) == 3
    assert dpbayes(*ACCOUNT).code == 0

    def codes() -> list[int]:
        return [run("sh", "-c", line).returncode for line in lines]

    assert codes() == [0, 0, 0]
    assert dpbayes("release", "--spec", "clinic.yaml", "--eps", "2.6", "--release-id", "a", "--out", "out/a").code == 0
    assert codes() == [5, 1, 0]


@pytest.mark.slow
def test_two_hosts_share_a_ledger(clinic: Path, database: str, postgres: Server) -> None:
    script = recipe("two-hosts", "sh")
    (address,) = re.findall(r"'(postgresql://[^']*)'", script)
    for host in ("berlin", "paris"):
        work = clinic.parent / host
        work.mkdir()
        for name in ("clinic.csv", "clinic.yaml"):
            shutil.copy(clinic / name, work)
        local = script.replace(address, postgres.url(database)).replace("$(hostname)", host)
        done = run("sh", "-euc", local, cwd=work)
        assert done.returncode == 0, done.stderr
        assert (work / "out" / "release.json").exists()
    history = json.loads(run("dpbayes", "budget", "history", "--json", DPBAYES_LEDGER=postgres.url(database)).stdout)
    assert [row["label"] for row in history if row["kind"] == "reserved"] == ["berlin-2026-q4", "paris-2026-q4"]


@pytest.mark.slow
def test_a_table_in_a_warehouse(clinic: Path, dpbayes: Cli, database: str, postgres: Server) -> None:
    assert dpbayes(*ACCOUNT).code == 0
    with postgres.connect(database) as connection:
        connection.execute("CREATE SCHEMA ward")
        connection.execute("CREATE TABLE ward.patients (age text, arm text, months text, relapse text, note text)")
        with connection.cursor().copy("COPY ward.patients FROM STDIN (FORMAT csv, HEADER)") as copy:
            copy.write((clinic / "clinic.csv").read_bytes())
    (clinic / "out").rmdir()
    command = recipe("warehouse", "sh")
    (address,) = re.findall(r"'(postgresql://[^']*)/ward\.patients'", command)
    done = run("sh", "-euc", command.replace(address, postgres.url(database)))
    assert done.returncode == 0, done.stderr
    assert charged(dpbayes) == ["2026-q4"]
    assert json.loads((clinic / "out" / "release.json").read_text())["n_records"] == 1500


def test_the_exact_check_of_the_audit_page_agrees_with_the_claims() -> None:
    done = run(sys.executable, "-c", recipe("audit", "python"))
    lines = [re.findall(r"(\S+) claimed (\S+)", line) for line in done.stdout.splitlines()]
    assert len(lines) == 4, done.stderr
    for ((measured, claimed),) in lines:
        assert float(measured) == pytest.approx(float(claimed), rel=1e-9)


@pytest.mark.slow
def test_a_schedule_is_priced_opened_and_run(clinic: Path, dpbayes: Cli) -> None:
    (clinic / "nights.yaml").write_text(recipe("schedules", "yaml"))
    spec = (clinic / "clinic.yaml").read_text()
    (clinic / "clinic.yaml").write_text(re.sub(r"epsilon: [0-9.]+", "epsilon: 0.048", spec))
    done = run("sh", "-e", "-c", recipe("schedules", "sh"))
    assert done.returncode == 0, done.stderr
    assert "365 releases (365 of relapse) cost epsilon 2.99" in done.stdout
    assert "1 done, 0 due, 364 open" in done.stdout
    assert dpbayes("verify", "clinic-nights/relapse-1").code == 0
    assert dpbayes("report", "--index", "clinic-nights", "--out", "nights.html").code == 0


@pytest.mark.slow
def test_a_schedule_of_several_requests_is_priced(clinic: Path, dpbayes: Cli) -> None:
    page = (ROOT / "docs" / "how-to" / "schedules.md").read_text()
    text = re.findall(r"^```yaml\n(.*?)^```$", page, re.S | re.M)[1]
    (clinic / "survey.yaml").write_text(text)
    (clinic / "clinic.yaml").write_text(
        re.sub(r"epsilon: [0-9.]+", "epsilon: 0.1", (clinic / "clinic.yaml").read_text())
    )
    assert dpbayes("schedule", "check", "survey.yaml").code == 0
