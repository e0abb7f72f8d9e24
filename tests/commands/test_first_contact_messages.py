"""What the command line says on first contact: what was wrong, what to type next, and nothing of the data."""

from __future__ import annotations

import gzip
import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from dpbayes_cli.commands import interruption
from dpbayes_cli.ledger import charging
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.sources.delimited import DelimitedSource
from tests.conftest import Cli

PERSON = "Mustermann"
"""Stands in the first line of each file; no message may hold it."""
HEADER = f"{PERSON},relapsed,age\n"
BODY = "".join(f"P{i},{i % 2},{40 + i % 30}\n" for i in range(60))
TABLE = HEADER + BODY
COIN = ["--model", "beta-bernoulli", "--eps", "1"]
RELAPSED = [*COIN, "--column", "relapsed"]
PACKED = gzip.compress(TABLE.encode(), 1, mtime=0)

FILES: dict[str, tuple[str, bytes, list[str], str, str]] = {
    "semicolons": ("a.csv", TABLE.replace(",", ";").encode(), RELAPSED, "holds ';'", "--delimiter ';'"),
    "tabs": ("a.csv", TABLE.replace(",", "\t").encode(), RELAPSED, "separate columns", "--delimiter tab"),
    "another case": ("a.csv", TABLE.replace("relapsed", " Relapsed").encode(), RELAPSED, "upper and lower case", ""),
    "a misspelled column": ("a.csv", TABLE.encode(), [*COIN, "--column", PERSON[:-1]], "a similar name", ""),
    "no column chosen": ("a.csv", TABLE.encode(), COIN, "none of them was chosen", "--column NAME"),
    "two columns": ("a.csv", TABLE.encode(), [*COIN, "--column", "age,relapsed"], "takes one column", "dpbayes models"),
    "a comment": ("a.csv", f"# {PERSON}\n{TABLE}".encode(), RELAPSED, "a comment", "tail -n +2 a.csv"),
    "only a comment": ("a.csv", f"# {PERSON}\nx\n1\n0\n".encode(), COIN, "a comment", "tail -n +2 a.csv"),
    "no header": ("a.csv", f"{PERSON},1,40\n{BODY}".encode(), RELAPSED, "no column 'relapsed'", "--no-header"),
    "twice": ("a.csv", TABLE.replace("age", "relapsed").encode(), RELAPSED, "more than once", "--column 2"),
    "Windows-1252": ("a.csv", TABLE.replace("age", "Größe").encode("cp1252"), RELAPSED, "not UTF-8", "iconv -f cp1252"),
    "UTF-16": ("a.csv", TABLE.encode("utf-16"), RELAPSED, "UTF-16", "iconv -f utf-16"),
    "carriage returns": ("a.csv", TABLE.replace("\n", "\r").encode(), RELAPSED, "carriage return", "tr '\\r'"),
    "an open quote": ("a.csv", f'"{TABLE}'.encode(), RELAPSED, "malformed", ""),
    "nothing": ("a.csv", b"", RELAPSED, "'a.csv' is empty", "export it again"),
    "no records": ("a.csv", HEADER.encode(), RELAPSED, "the data have no records; nothing is charged", ""),
    "a cut archive": ("a.csv.gz", PACKED[:-20], RELAPSED, "not complete", "gzip -t"),
    "no archive": ("a.csv.gz", TABLE.encode(), RELAPSED, "not compressed by gzip", "without .gz"),
    "an archive": ("a.csv", PACKED, RELAPSED, "is compressed by gzip", "ends in .gz"),
    "a spreadsheet": ("a.csv", b"PK\x03\x04 and so on", RELAPSED, "spreadsheet", "export the table as CSV"),
    "no Parquet": ("a.parquet", TABLE.encode(), RELAPSED, "not a Parquet file", "--input-format csv"),
    "a cut Parquet file": ("a.parquet", b"PAR1" + b"\0" * 40, RELAPSED, "not complete", "export it again"),
}
"""Name and content of a file, flags, what the message says, and what the hint says."""
OTHER_REMEDIES = (
    "nothing", "no records", "rchive", "Parquet", "sheet", "Windows", "UTF", "carriage", "two", "no column",
)  # fmt: skip
"""Parts of the names of the cases whose message does not suggest ``dpbayes check``."""


@pytest.mark.parametrize("case", FILES)
def test_a_wrong_file_is_explained_without_its_content(case: str, dpbayes: Cli, place: Path, ledger_path: Path) -> None:
    name, content, flags, says, hint = FILES[case]
    (place / name).write_bytes(content)
    done = dpbayes("release", name, *flags)
    message = done.err[done.err.index("Error: ") :]
    assert (done.code, done.out) == (4, "")
    assert says in message.partition("Hint: ")[0]
    assert hint in message.partition("Hint: ")[2]
    assert f"dpbayes check {name}" in message or any(each in case for each in OTHER_REMEDIES)
    assert PERSON not in done.err
    assert len(message.splitlines()) == 2
    assert not ledger_path.exists()


def test_parquet_by_another_name_is_named_and_its_columns_are_suggested(dpbayes: Cli, place: Path) -> None:
    parquet.write_table(pa.table({"relapsed": ["0", "1"]}), place / "a.csv")
    assert "Hint: --input-format parquet" in dpbayes("release", "a.csv", *RELAPSED).err
    assert "'a.csv' is Parquet" in dpbayes("check", "a.csv").err
    dpbayes("release", "a.csv", *COIN, "--column", "relapse", "--input-format", "parquet").exits(
        4, "did you mean 'relapsed'?"
    )


def test_missing_files_and_directories(dpbayes: Cli, place: Path) -> None:
    (place / "days").mkdir()
    (place / "days" / "monday.csv").write_text(TABLE)
    (place / "clinic.csv").write_text(TABLE)
    assert "did you mean 'clinic.csv'?" in dpbayes("release", "clinc.csv", *RELAPSED).err
    assert "name its files: 'days/*.csv'" in dpbayes("release", "days", *RELAPSED).err
    assert dpbayes("check", "days/monday.csv.gz").code == 4
    (place / "cut.csv.gz").write_bytes(PACKED[:-20])
    cut = dpbayes("check", "cut.csv.gz")
    assert (cut.code, "not complete" in cut.err, "interrupted" in cut.err) == (4, True, False)


def test_an_archive_that_ends_too_early_after_the_charge_says_that_the_charge_stays(dpbayes: Cli, place: Path) -> None:
    packed = gzip.compress(HEADER.encode() + os.urandom(1 << 21), 1, mtime=0)
    (place / "a.csv.gz").write_bytes(packed[:-200_000])
    private_number = ["--neighbors", "add-remove"]  # a public one is counted before the charge
    refused = dpbayes("release", "a.csv.gz", *RELAPSED).exits(4, "the gzip file 'a.csv.gz' is not complete")
    assert "charge" not in refused.err
    done = dpbayes("release", "a.csv.gz", *RELAPSED, *private_number)
    done.exits(4, "but the charge stays", "without a second charge")


SPECS: dict[str, tuple[list[str], list[str]]] = {
    "negative epsilon": (["--eps=-1"], ["privacy.epsilon: epsilon is '-1', a negative number"]),
    "epsilon out of range": (["--eps", "0"], ["privacy.epsilon: epsilon is 0; allowed: 1e-12 to 1000"]),
    "negative delta": (
        ["--mechanism", "gaussian", "--eps", "1", "--delta=-1"],
        ["privacy.delta: delta is '-1', a negative number"],
    ),
    "a value out of range": (
        ["--eps", "1", "--samples", "0"],
        ["is '0'; expected a whole number of at least 1"],
    ),
    "a mechanism": (["--eps", "1", "--mechanism", "laplase"], ["no mechanism 'laplase'", "did you mean 'laplace'?"]),
    "a mechanism like none": (
        ["--eps", "1", "--mechanism", "typo"],
        ["Error: mechanism: there is no mechanism 'typo'"],
    ),
    "a key": (["--eps", "1", "--prior", "alhpa=1"], ["prior.alhpa: unknown key", "did you mean 'alpha'?"]),
    "a relation": (["--eps", "1", "--neighbors", "both"], ["is 'both'; expected replace-one or add-remove"]),
    "a model": (["--eps", "1", "--model", "betabernoulli"], ["no model 'betabernoulli'", "'beta-bernoulli'?"]),
    "bounds": (
        ["--model", "normal"],
        [
            "2 mistakes", "domain: missing; normal needs --lower, --upper", "--lower 0 --upper 100",
            "--bounds-epsilon 0.1", "--eps 1",
        ],
    ),
    "a comma": (["--model", "normal", "--eps", "1", "--lower", "0", "--upper", "1,5"], ["decimal point: 1.5"]),
}  # fmt: skip


@pytest.mark.parametrize("case", SPECS)
def test_a_wrong_request_is_explained(case: str, dpbayes: Cli) -> None:
    flags, says = SPECS[case]
    done = dpbayes("release", "a.csv", "--model", "beta-bernoulli", *flags).exits(3)
    assert [text for text in says if text not in done.err] == []


def test_a_misspelled_option_suggests_one(dpbayes: Cli) -> None:
    for wrong, right in (("--colum", "--column"), ("--neighbers", "--neighbors"), ("--account", "--dataset")):
        dpbayes("release", "a.csv", *COIN, wrong, "x").exits(2, f"Did you mean {right}?")
    assert "--likelihood-power" in dpbayes("release", "a.csv", *COIN, "--temp" + "erature", "1").err
    assert "'release'" in dpbayes("relase").err
    assert "laplace" in dpbayes("explain", "laplas").err


MISTAKES = """\
model: beta-bernouli
colum: relapsed
on_invalid: ignore
privacy: {epsilon: -1, delta: 1e-6, neighbers: replace-one}
prior: {alpha: 0, beta: x}
inference: {samples: many}
source: {delimiter: ab}
"""
PLACES = [
    "model", "colum", "on_invalid", "privacy.delta", "privacy.neighbers", "privacy.epsilon", "prior.alpha",
    "prior.beta", "inference.samples", "source",
]  # fmt: skip


@pytest.mark.parametrize("command", [["spec", "check", "s.yaml"], ["release", "a.csv", "--spec", "s.yaml"]])
def test_all_mistakes_of_a_spec_are_listed_at_once(command: list[str], dpbayes: Cli, place: Path) -> None:
    (place / "s.yaml").write_text(MISTAKES)
    done = dpbayes(*command, "--json")
    document = json.loads(done.out)
    assert (done.code, document["ok"]) == (3, False)
    assert [each["where"] for each in document["mistakes"]] == PLACES
    assert f"the request has {len(PLACES)} mistakes" in done.err
    assert all(f"\n  {where}: " in done.err for where in PLACES)
    assert "did you mean 'column'?" in done.err
    assert dpbayes(*command).out == ""


def test_lines_of_a_domain_can_be_pasted(dpbayes: Cli, place: Path) -> None:
    (place / "s.yaml").write_text("model: naive-bayes\nprivacy: {epsilon: 1}\n")
    refused = dpbayes("spec", "check", "s.yaml")
    lines = refused.err[refused.err.index("\ndomain:") :]
    with (place / "s.yaml").open("a") as spec:
        spec.write(lines)
    assert (refused.code, dpbayes("spec", "check", "s.yaml").code) == (3, 0)


YAML = {
    "privacy:\n  epsilon: 1\n epsilon: 2\n": ("line 3", "indented differently"),
    "privacy:\n\tepsilon: 1\n": ("line 2", "blanks, not with tabs"),
    'column: "a\nprivacy: 1\n': ("line 1", "quotation mark is not closed"),
    "domain: [a, b\nprivacy: 1\n": ("line 1", "bracket is not closed"),
    "model\nprivacy:\n  epsilon: 1\n": ("line 2", "the line above has its colon"),
    "model: a: b\n": ("line 1", "in quotes"),
    "a: 1\na: 2\n": ("line 2", "the key 'a' appears twice"),
    "just text": ("a text", "KEY: VALUE"),
}


@pytest.mark.parametrize("text", YAML)
def test_yaml_errors_give_the_line_and_the_reason(text: str, dpbayes: Cli, place: Path) -> None:
    (place / "s.yaml").write_text(text)
    done = dpbayes("spec", "check", "s.yaml").exits(3)
    assert all(part in done.err for part in YAML[text]), done.err


def interrupting(method: Callable[..., object], after: bool) -> Callable[..., object]:
    """Return the method with an interruption at its end or, if not ``after``, at its beginning."""

    def interrupted(*arguments: object, **named: object) -> object:
        if after:
            method(*arguments, **named)
        os.kill(os.getpid(), signal.SIGINT)
        return method(*arguments, **named)

    return interrupted


@pytest.mark.parametrize("flags", [[], ["--fresh"]])
@pytest.mark.parametrize(
    ("owner", "name", "after", "says"),
    [
        (DelimitedSource, "check", False, "nothing was charged; run the same command again"),
        (Ledger, "reserve", False, "nothing was charged; run the same command again"),
        (Ledger, "reserve", True, "epsilon 1 is charged to account 'a'"),
        (DelimitedSource, "scan", False, "epsilon 1 is charged to account 'a'"),
        (Ledger, "publish", False, "epsilon 1 is charged to account 'a'"),
    ],
)
def test_an_interrupted_release_says_whether_it_was_charged(
    flags: list[str],
    owner: type,
    name: str,
    after: bool,
    says: str,
    dpbayes: Cli,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (place / "a.csv").write_text(TABLE)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, interrupting(getattr(owner, name), after))
        done = dpbayes("release", "a.csv", *RELAPSED, *flags, "--out", "out")
    assert done.code == 130
    assert says in done.err[done.err.index("Error: interrupted") :]
    monkeypatch.setattr(charging, "is_running", lambda _owner: False)  # the process that was interrupted has ended
    again = dpbayes("release", "a.csv", *RELAPSED, *flags, "--out", "out", "--json")
    assert again.json["remaining"] == {"epsilon": "2"}


def test_a_ledger_that_does_not_answer_is_not_guessed_about(
    dpbayes: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "a.csv").write_text(TABLE)
    monkeypatch.setattr(interruption, "_LEDGER_TIMEOUT_SECONDS", 0.0)
    answer = threading.Event()
    monkeypatch.setattr(Ledger, "begun", lambda *_: answer.wait(10))
    monkeypatch.setattr(Ledger, "reserve", interrupting(Ledger.reserve, False))
    done = dpbayes("release", "a.csv", *RELAPSED)
    answer.set()
    assert (done.code, "dpbayes budget history a shows whether" in done.err) == (130, True)


@pytest.mark.parametrize(
    ("arguments", "target", "says"),
    [
        (
            ["plan", *COIN, "--records", "100"],
            "dpbayes_cli.workflow.planning.simulate_plan",
            "a plan reads no data and charges nothing",
        ),
        (["check", "a.csv"], "dpbayes_cli.check.file_table.profile_columns", "the check was stopped"),
        (["audit", *COIN], "dpbayes_cli.audit.attack.audit", "interrupted"),
        (["infer", "out"], "dpbayes_cli.bundle.read.read_bundle", "interrupted"),
        (["experiment", "study.yaml"], "dpbayes_cli.experiments.study.read_study", "interrupted"),
    ],
)
def test_other_interrupted_commands_do_not_speak_of_a_charge(
    arguments: list[str], target: str, says: str, dpbayes: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "a.csv").write_text(TABLE)
    monkeypatch.setattr(target, interrupting(lambda *_a, **_n: None, False))
    done = dpbayes(*arguments)
    assert (done.code, "epsilon" in done.err, "same command" in done.err) == (130, False, False)
    assert "release" not in done.err[done.err.index("Error: interrupted") :]
    assert says in done.err


def test_an_account_of_pure_epsilon_says_which_releases_it_pays_for(dpbayes: Cli, place: Path) -> None:
    (place / "age.csv").write_text("age\n" + "40\n50\n" * 50)
    mean = ("release", "age.csv", "--model", "normal-mean", "--lower", "0", "--upper", "100", "--variance", "25")
    dpbayes(*mean, "--eps", "1", "--out", "one", "--inference", "naive").exits(0)
    told = dpbayes(*mean, "--mechanism", "gaussian", "--eps", "1", "--delta", "1e-6").exits(5, "in pure epsilon")
    assert "dpbayes budget amend age --delta 1e-6 --reason TEXT" in told.err
    dpbayes(*mean, "--mechanism", "laplace", "--eps", "0.5", "--out", "two", "--inference", "naive").exits(0)
