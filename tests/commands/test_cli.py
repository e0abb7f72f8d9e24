"""The command line as a custodian uses it: help, exit codes, JSON, suggestions, completion."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from dpbayes_cli import __version__
from dpbayes_cli.core.registry import mechanism_names, model_names
from dpbayes_cli.main import COMMANDS, cli
from dpbayes_cli.spec.schema import json_schema
from tests.conftest import ROOT, Cli

APART = ["--separate-population", "--reason", "a test"]
COIN = ["--model", "beta-bernoulli", "--eps", "1"]


def all_commands() -> list[list[str]]:
    context = cli.make_context("dpbayes", ["models"], resilient_parsing=True)
    names = []
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        children = getattr(command, "commands", {})
        names += [[name, child] for child in children] or [[name]]
    return names


@pytest.mark.parametrize("command", [[], *all_commands()], ids=" ".join)
def test_every_command_and_every_option_is_explained(command: list[str], dpbayes: Cli) -> None:
    done = dpbayes(*command, "--help")
    assert done.code == 0
    assert "Usage: dpbayes" in done.out
    context = cli.make_context("dpbayes", ["models"], resilient_parsing=True)
    leaf = cli
    for name in command:
        leaf = leaf.get_command(context, name)  # type: ignore[assignment]
    for parameter in leaf.params:
        if parameter.param_type_name == "option":
            assert parameter.help, parameter.name
    if command:
        assert leaf.help


def test_help_lists_all_commands_with_their_short_help(dpbayes: Cli) -> None:
    listed = dpbayes("--help").out
    for name, text in COMMANDS.items():
        assert name in listed
        assert text in listed


def test_version(dpbayes: Cli) -> None:
    assert dpbayes("--version").out.strip() == f"dpbayes, version {__version__}"


def test_models_and_mechanisms_are_lists_of_named_objects(dpbayes: Cli) -> None:
    assert [item["name"] for item in dpbayes("models", "--json").json] == model_names()
    assert [item["name"] for item in dpbayes("mechanisms", "--json").json] == mechanism_names()
    for name in (*model_names(), *mechanism_names()):
        assert name in dpbayes("models").out + dpbayes("mechanisms").out
        info = dpbayes("explain", name, "--json").json
        assert {"name", "kind", "releases", "guarantee", "assumptions", "source", "corrections"} <= set(info)
        assert info["guarantee"].split(".")[0][:20] in " ".join(dpbayes("explain", name).out.split())


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["models"], 0),
        (["nothing"], 2),
        (["release", "coin.csv", "--nonsense"], 2),
        (["release", "coin.csv", *COIN, "--release-id", "a b"], 2),
        (["release", "coin.csv", *COIN, "--fresh", "--release-id", "x"], 2),
        (["release", "coin.csv", *COIN, "--prior", "alpha"], 2),
        (["budget", "open", "x", "--eps", "many"], 2),
        (["release", "coin.csv", "--eps", "1"], 3),
        (["release", "coin.csv", "--model", "nope", "--eps", "1"], 3),
        (["release", "coin.csv", "--model", "beta-bernoulli"], 3),
        (["release", "coin.csv", "--model", "beta-bernoulli", "--eps", "0"], 3),
        (["release", "coin.csv", *COIN, "--success", "yes"], 3),
        (["release", "coin.csv", *COIN, "--on-invalid", "impute:7"], 3),
        (["release", "coin.csv", "--model", "dirichlet-categorical", "--eps", "1"], 3),
        (["release", *COIN], 3),
        (["spec", "check", "missing.yaml"], 3),
        (["explain", "nothing"], 3),
        (["release", "missing.csv", *COIN], 4),
        (["release", "coin.csv", *COIN, "--column", "y"], 4),
        (["release", "coin.csv", *COIN, "--records", "7"], 4),
        (["release", ".", *COIN], 4),
        (["release", "coin.csv", "--model", "beta-bernoulli", "--eps", "4"], 5),
        (["release", "coin.csv", *COIN, "--no-open-account"], 5),
        (["budget", "show", "nobody"], 5),
        (["budget", "export", "--ledger", "coin.csv"], 6),
        (["release", "coin.csv", *COIN, "--ledger", "coin.csv/x"], 6),
        (["infer", "damaged"], 7),
        (["report", "damaged"], 7),
        (["report", "damaged", "--format", "html"], 7),
        (["report", "missing"], 8),
        (["report", "damaged", "--format", "pdf"], 2),
        (["release", "coin.csv", *COIN, "--out", "taken"], 8),
        (["infer", "missing"], 8),
    ],
)
def test_every_exit_code_is_reached_and_nothing_is_charged(
    arguments: list[str], code: int, dpbayes: Cli, coin: Path, ledger_path: Path
) -> None:
    assert coin.name == "coin.csv"
    Path("taken").mkdir()
    Path("damaged").mkdir()
    Path("damaged/release.json").write_text('{"schema_version": 1}')
    done = dpbayes(*arguments)
    assert done.code == code, done.err
    if code:
        assert done.out == ""
        assert "Error: " in done.err
        assert not ledger_path.exists()


def test_an_internal_error_says_nothing_about_its_cause(
    dpbayes: Cli, coin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the cell holds SENTINEL")

    monkeypatch.setattr("dpbayes_cli.sources.delimited.DelimitedSource.statistics", broken)
    done = dpbayes("release", coin, *COIN, "-vv")
    assert done.code == 1
    assert "internal error (RuntimeError at test_cli.py:" in done.err
    assert "SENTINEL" not in done.err + done.out
    assert "in statistics" in done.err or "in broken" in done.err


def test_a_broken_ledger_is_exit_7_for_verify_and_6_for_the_rest(dpbayes: Cli, coin: Path, ledger_path: Path) -> None:
    import sqlite3

    dpbayes("release", coin, *COIN)
    with sqlite3.connect(ledger_path) as connection:
        connection.execute("DELETE FROM entries WHERE sequence = 2")
    connection.close()
    verified = dpbayes("budget", "verify")
    assert (verified.code, "entry 2 is missing" in verified.err) == (7, True)
    assert dpbayes("budget", "verify", "--json").code == 7
    assert dpbayes("release", coin, *COIN, "--fresh").code == 6
    assert dpbayes("budget", "show").code == 6


def test_unknown_words_suggest_the_nearest(dpbayes: Cli, coin: Path) -> None:
    assert "'release'" in dpbayes("relase").err
    assert "--epsilon" in dpbayes("release", coin, "--epsilom", "1").err
    assert "beta-bernoulli" in dpbayes("release", coin, "--model", "beta-bernouli", "--eps", "1").err
    assert "alpha" in dpbayes("release", coin, *COIN, "--prior", "alfa=1").err
    assert "laplace" in dpbayes("explain", "laplas").err


def test_json_alone_is_on_stdout(shell: Cli, coin: Path) -> None:
    done = shell("release", coin, *COIN, "--json", "-v")
    assert json.loads(done.out)["account"] == "coin"
    assert "charged epsilon 1" in done.err
    assert "ledger: " in done.err
    assert shell("release", coin, *COIN, "--json", "-q").err == ""


def test_keys_of_a_release_in_json_are_stable(dpbayes: Cli, coin: Path) -> None:
    printed = dpbayes("release", coin, *COIN, "--json").json
    number = {"type": "number"}
    summary = {
        "type": "object",
        "properties": dict.fromkeys(("mean", "sd", "q05", "q50", "q95"), number),
        "required": ["mean", "sd", "q05", "q50", "q95"],
        "additionalProperties": False,
    }
    schema = {
        "type": "object",
        "required": ["release_id", "account", "bundle", "model", "mechanism", "statistics", "guarantee", "remaining",
                     "posterior", "replayed", "receipt"],
        "additionalProperties": False,
        "properties": {
            "release_id": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
            "account": {"const": "coin"},
            "bundle": {"type": "string"},
            "model": {"const": "beta-bernoulli"},
            "mechanism": {"const": "laplace"},
            "statistics": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["name", "value", "noise_scale"],
                    "properties": {"name": {"type": "string"}, "value": {"type": "integer"}, "noise_scale": number},
                    "additionalProperties": False,
                },
            },
            "guarantee": {"const": {"kind": "pure", "epsilon": 1.0, "delta": 0.0, "neighbors": "replace-one"}},
            "remaining": {"const": {"epsilon": "2"}},
            "posterior": {"type": "object", "properties": {"theta": summary}, "additionalProperties": False},
            "replayed": {"const": False},
            "receipt": {"type": "object"},
        },
    }  # fmt: skip
    jsonschema.validate(printed, schema)


CHAINS = {
    "abalone-linear-regression", "adult-bayes-net", "clinic-age", "clinic-age-months", "clinic-age-private-bounds",
    "events-hmm",
}  # fmt: skip
"""Configs whose posteriors take several seconds."""


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.slow if path.stem in CHAINS else ())
        for path in sorted((ROOT / "configs" / "releases").glob("*.yaml"))
    ],
    ids=lambda path: path.name,
)
def test_every_config_runs(path: Path, dpbayes: Cli) -> None:
    checked = dpbayes("spec", "check", path, "--json").json
    assert checked["ok"]
    chain = checked["spec"]["mechanism"] == "gibbs-posterior"
    if chain:
        assert dpbayes("budget", "open", "chains", "--rho", "1").code == 0
    more = ["--n-steps", "20", "--dataset", "chains"] if chain else []
    if path.stem == "events-hmm":  # more than an account is opened with
        assert dpbayes("budget", "open", "events", "--epsilon", "5").code == 0
    printed = dpbayes("release", "--spec", path, "--out", "out", "--json", *more).json
    assert printed["posterior"]
    assert dpbayes("verify", "out").code == 0
    drawn = json.loads(Path("out/release.json").read_text())["draws"]
    assert dpbayes("infer", "out", "--samples", "50").code == (3 if drawn else 0)


def test_flags_override_the_file(dpbayes: Cli) -> None:
    path = ROOT / "configs" / "releases" / "relapse.yaml"
    printed = dpbayes("release", "--spec", path, "--eps", "0.25", "--dataset", "other", "--json").json
    assert (printed["guarantee"]["epsilon"], printed["account"]) == (0.25, "other")


def test_spec_init_check_and_schema(dpbayes: Cli, coin: Path) -> None:
    for model in model_names():
        text = dpbayes("spec", "init", model).out
        Path("s.yaml").write_text(text.replace("data.csv", coin.name))
        assert dpbayes("spec", "check", "s.yaml").code == 0
    assert dpbayes("spec", "schema").json == json.loads(json.dumps(json_schema()))
    Path("bad.yaml").write_text("model: beta-bernoulli\nprivacy: {epsilom: 1}\n")
    refused = dpbayes("spec", "check", "bad.yaml")
    assert (refused.code, "'epsilon'" in refused.err) == (3, True)


def test_counting_valid_records_is_marked_not_private(dpbayes: Cli, coin: Path) -> None:
    Path("s.yaml").write_text("model: beta-bernoulli\nprivacy: {epsilon: 1}\n")
    counted = dpbayes("spec", "check", "s.yaml", "--against", coin, "--json").json
    assert counted["NOT PRIVATE"] == {"successes": 60, "failures": 135, "invalid": 5, "records": 200}
    assert "NOT PRIVATE" in dpbayes("spec", "check", "s.yaml", "--against", coin).out


def test_infer_is_free_and_repeatable(dpbayes: Cli, coin: Path, ledger_path: Path) -> None:
    dpbayes("release", coin, *COIN, "--out", "out")
    before = ledger_path.read_bytes(), {p.name: p.read_bytes() for p in Path("out").iterdir()}
    coin.unlink()
    first = dpbayes(
        "infer", "out", "--samples", "500", "--prior", "alpha=20,beta=50", "--seed", "3", "--out", "i1", "--json"
    )
    again = dpbayes(
        "infer", "out", "--samples", "500", "--prior", "alpha=20,beta=50", "--seed", "3", "--out", "i2", "--json"
    )
    assert first.json["posterior"] == again.json["posterior"]
    assert first.json["prior"] == {"alpha": 20.0, "beta": 50.0}
    assert Path("i1/samples.parquet").read_bytes() == Path("i2/samples.parquet").read_bytes()
    other = dpbayes("infer", "out", "--seed", "4", "--json").json
    assert other["posterior"] != first.json["posterior"]
    assert (ledger_path.read_bytes(), {p.name: p.read_bytes() for p in Path("out").iterdir()}) == before
    assert dpbayes("infer", "out", "--out", "out").code == 8
    assert dpbayes("infer", "out", "--inference", "naive").out.count("WARNING") == 1
    released = json.loads(Path("out/release.json").read_text())["posterior"]
    assert dpbayes("infer", "out", "--json").json["posterior"] == released


def test_infer_needs_neither_data_nor_engine_nor_noise(coin: Path, shell: Cli) -> None:
    shell("release", coin, *COIN, "--out", "out")
    script = (
        "import sys; sys.argv = ['dpbayes', 'infer', 'out', '-q']\n"
        "from dpbayes_cli.main import run\n"
        "try: run()\n"
        "finally: print([m for m in ('_duckdb', 'opendp', 'sqlite3', 'pandas', 'pyarrow') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_the_release_path_imports_nothing_heavy(coin: Path) -> None:
    script = (
        "import sys; sys.argv = ['dpbayes', 'release', 'coin.csv', '--model', 'beta-bernoulli', '--eps', '1', '-q']\n"
        "from dpbayes_cli.main import run\n"
        "try: run()\n"
        "finally:\n"
        "    heavy = ('scipy', 'sqlalchemy', 'pandas', 'pyarrow', 'matplotlib', 'rich', 'yaml', 'ibis', 'duckdb')\n"
        "    print([m for m in heavy if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_help_imports_no_command() -> None:
    script = (
        "import sys; sys.argv = ['dpbayes', '--help']\n"
        "from dpbayes_cli.main import run\n"
        "try: run()\n"
        "finally: print(sorted(m for m in sys.modules if m.startswith('dpbayes_cli.') or m in ('numpy', 'duckdb')))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    loaded = done.stdout.splitlines()[-1]
    ours = ["base", "base.blas_threads", "base.cell_grammar", "base.errors", "commands", "commands.output", "main"]
    assert loaded == str([f"dpbayes_cli.{name}" for name in ours])


def test_budgets_from_the_shell(dpbayes: Cli, coin: Path) -> None:
    opened = dpbayes("budget", "open", "coin", "--eps", "1.5", "--json").json
    assert (opened["remaining"], opened["neighbors"], opened["by_default"]) == (
        {"epsilon": "1.5"},
        "replace-one",
        False,
    )
    approximate = dpbayes("budget", "open", "other", "--eps", "2", "--delta", "1e-6", *APART, "--json").json
    assert approximate["remaining"] == {"epsilon": "2", "delta": "0.000001"}
    dpbayes("release", coin, *COIN, "--purpose", "annual report")
    assert dpbayes("release", coin, *COIN, "--dataset", "other", "--json").json["remaining"] == {
        "epsilon": "1", "delta": "0.000001",
    }  # fmt: skip
    shown = dpbayes("budget", "show", "coin", "--json").json["accounts"][0]
    assert (shown["spent"], shown["remaining"]) == ({"epsilon": "1"}, {"epsilon": "0.5"})
    assert shown["releases"][0]["purpose"] == "annual report"
    history = dpbayes("budget", "history", "coin", "--json").json
    assert [entry["kind"] for entry in history] == ["open", "reserved", "sealed", "published"]
    assert "annual report" in dpbayes("budget", "history").out
    assert dpbayes("budget", "amend", "coin", "--eps", "5", "--reason", "new wave").code == 0
    assert dpbayes("budget", "amend", "coin", "--eps", "0.5", "--reason", "oops").code == 5
    assert dpbayes("budget", "amend", "coin", "--reason", "nothing").code == 2
    assert "remaining" in dpbayes("budget", "show").out
    assert "anchor" in dpbayes("budget", "show").err
    exported = [json.loads(line) for line in dpbayes("budget", "export").out.splitlines()]
    assert exported == dpbayes("budget", "export", "--json").json["entries"]


def test_a_refusal_shows_requested_remaining_and_missing(dpbayes: Cli, coin: Path) -> None:
    dpbayes("release", coin, "--model", "beta-bernoulli", "--eps", "2")
    refused = dpbayes("release", coin, "--model", "beta-bernoulli", "--eps", "1.5")
    assert refused.code == 5
    text = refused.err
    for line in ("requested: epsilon 1.5", "remaining: epsilon 1", "missing: epsilon 0.5", "spent by "):
        assert line in text


@pytest.mark.parametrize(
    ("total", "fits"),
    [
        ("--epsilon 1", "laplace epsilon 1, ops epsilon 1"),
        ("--rho 0.125", "laplace epsilon 0.500, ops epsilon 1.00, gaussian rho 0.125, gibbs-posterior mu 0.500"),
        ("--mu 0.5", "gibbs-posterior mu 0.500"),
        ("--epsilon 1 --delta 1e-6 --gaussian", "gibbs-posterior mu 0.236"),
    ],
)
def test_budget_show_prints_the_largest_next_release_that_fits(dpbayes: Cli, total: str, fits: str) -> None:
    assert dpbayes("budget", "open", "d", *total.split()).code == 0
    assert f"d: the next release may cost at most (one of these): {fits}\n" in dpbayes("budget", "show", "d").err


def test_completion(dpbayes: Cli, shell: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bash", "zsh", "fish"):
        assert "_DPBAYES_COMPLETE" in dpbayes("completion", name).out
    environment = {**os.environ, "_DPBAYES_COMPLETE": "bash_complete", "COMP_WORDS": "dpbayes re", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "dpbayes_cli"], env=environment, capture_output=True, text=True, check=False
    )
    assert "release" in done.stdout


def test_tables_fit_a_terminal_and_carry_no_color_unless_there_is_one(dpbayes: Cli) -> None:
    assert not re.search("\x1b", dpbayes("models").out)


def test_a_budget_cannot_be_amended_to_nothing(dpbayes: Cli) -> None:
    dpbayes("budget", "open", "d", "--epsilon", "2")
    assert dpbayes("budget", "amend", "d", "--epsilon", "0", "--reason", "close").code == 3
    assert dpbayes("budget", "show", "d", "--json").json["accounts"][0]["remaining"] == {"epsilon": "2"}


def test_a_purpose_cannot_fake_a_line_of_the_history(dpbayes: Cli, coin: Path) -> None:
    assert dpbayes("release", coin, *COIN, "--purpose", "x\n99 amend").code == 2
    assert dpbayes("budget", "open", "d", "--epsilon", "2").code == 0
    assert dpbayes("budget", "amend", "d", "--epsilon", "3", "--reason", "x\x1b[2J").code == 2


def test_account_must_be_named_if_the_file_name_cannot_name_one(dpbayes: Cli, coin: Path) -> None:
    named = coin.rename("my data.csv")
    refused = dpbayes("release", named, *COIN)
    assert (refused.code, "--dataset" in refused.err) == (3, True)


@pytest.mark.parametrize("data", ["x" * 5000, "a\0b"])
def test_impossible_path_is_a_source_error(data: str, dpbayes: Cli) -> None:
    assert dpbayes("release", data, *COIN).code == 4


def test_a_bundle_is_not_written_into(dpbayes: Cli, coin: Path) -> None:
    dpbayes("release", coin, *COIN, "--out", "out")
    assert dpbayes("infer", "out", "--out", "out/again").code == 8
    Path("link").symlink_to("out")
    assert dpbayes("release", coin, *COIN, "--fresh", "--out", "link/x").code == 8


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("spec", "prior"), None),
        (("spec", "model"), "gone"),
        (("spec", "prior", "alpha"), 5e-324),
        (("statistics",), []),
        (("statistics", 0, "value"), 2**70),
        (("statistics", 0, "name"), "other"),
        (("n_records",), None),
        (("n_records",), -1),
        (("noise", "scale"), 1e308),
    ],
)
def test_a_tampered_bundle_is_a_failed_verification(
    where: tuple[str | int, ...], value: object, dpbayes: Cli, coin: Path
) -> None:
    dpbayes("release", coin, *COIN, "--out", "out")
    document = json.loads(Path("out/release.json").read_text())
    inside = document
    for key in where[:-1]:
        inside = inside[key]
    if value is None and where[0] == "spec":
        del inside[where[-1]]
    else:
        inside[where[-1]] = value
    Path("out/release.json").write_text(json.dumps(document))
    assert dpbayes("infer", "out").code == 7


@pytest.mark.parametrize("wrong", ["mechanism: lapplace", "on_invalid: 'impute:7'"])
def test_a_spec_that_release_would_refuse_does_not_pass_the_check(wrong: str, dpbayes: Cli) -> None:
    Path("s.yaml").write_text(f"model: beta-bernoulli\nprivacy: {{epsilon: 1}}\n{wrong}\n")
    assert dpbayes("spec", "check", "s.yaml").code == 3
