"""The protocol from data to disk: repeated, killed half-way, refused and replayed releases."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dpbayes_cli.bundle import place as module
from dpbayes_cli.bundle.document import parse_document
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.released import Payload
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.mechanisms.laplace import Laplace
from dpbayes_cli.workflow import release as release_module
from tests.conftest import ROOT, Cli, files_of

COIN = ["--model", "beta-bernoulli", "--eps", "1"]
PURE = {"kind": "pure", "epsilon": 1.0, "delta": 0.0, "neighbors": "replace-one", "rho": 0.25}


def test_repeated_release_is_charged_once_and_has_the_same_bytes(dpbayes: Cli, coin: Path) -> None:
    first = dpbayes("release", coin, *COIN, "--out", "out", "--json").json
    before = files_of("out")
    coin.write_bytes(b"")  # a replay does not open the data
    again = dpbayes("release", coin, *COIN, "--out", "out", "--json")
    assert again.json["replayed"]
    assert not first["replayed"]
    assert {**again.json, "replayed": False} == first
    assert "not opened" in again.err
    assert files_of("out") == before
    elsewhere = dpbayes("release", coin, *COIN, "--out", "in/a/copy", "--json").json
    assert elsewhere["remaining"] == {"epsilon": "2"}
    assert files_of("in/a/copy") == before


def test_a_failed_analysis_does_not_draw_again(
    dpbayes: Cli, coin: Path, monkeypatch: pytest.MonkeyPatch, ledger_path: Path
) -> None:
    """Nothing may depend on a draw before it is sealed: each failure would reveal something about a new draw."""
    released: list[tuple[int, ...]] = []
    release = Laplace.release

    def noted(self: Laplace, plan: Plan, evidence: ExactEvidence) -> Payload:
        payload = release(self, plan, evidence)
        released.append(payload.values)
        return payload

    def failing(*arguments: object) -> None:
        raise ArithmeticError("no posterior")

    monkeypatch.setattr(Laplace, "release", noted)
    with monkeypatch.context() as broken:
        broken.setattr(release_module, "analysis_of_draw", failing)
        for _ in range(3):
            assert dpbayes("release", coin, *COIN, "--out", "out").code == 1
    printed = dpbayes("release", coin, *COIN, "--out", "out", "--json").json
    assert released == [tuple(item["value"] for item in printed["statistics"])]
    assert printed["remaining"] == {"epsilon": "2"}


def test_release_prints_the_defaults_that_it_uses_and_no_others(dpbayes: Cli, coin: Path) -> None:
    assumed = " ".join(dpbayes("release", coin, *COIN).err.partition("assumed: ")[2].partition("charged")[0].split())
    assert "success '1', 'yes', 'true' or 'y' (upper or lower case); failure '0', 'no', 'false' or 'n'" in assumed
    assert "(upper or lower case); cells with any other text are invalid; prior alpha 1, beta 1 (default)" in assumed
    stated = ["--success", "1", "--failure", "0", "--prior", "alpha=1,beta=1", "--mechanism", "laplace"]
    again = dpbayes("release", coin, *COIN, *stated, "--delimiter", ",", "--dataset", "coin").err
    values = "prior alpha 1, beta 1 (stated); invalid records are dropped; neighbors replace-one; quote '\"'"
    expected = f"assumed: {values} charged"
    assert expected in " ".join(again.split())


def test_release_says_which_decimal_mark_it_assumes(dpbayes: Cli, place: Path) -> None:
    (place / "a.csv").write_text("w;z\n1,5;0\n", encoding="utf-8")
    ask = ("release", "a.csv", "--model", "normal", "--column", "w", "--lower", "0", "--upper", "9", "--eps", "1")
    said = " ".join(dpbayes(*ask, "--dry-run", "--delimiter", ";").err.split())
    assert "decimal '.'; thousands none; a number such as 1,5 is invalid, unless --decimal ,; account a" in said
    said = " ".join(dpbayes(*ask, "--dry-run", "--delimiter", ";", "--decimal", ",").err.split())
    assert "quote '\"'; thousands none; account a" in said


def test_fresh_pays_for_a_new_draw(dpbayes: Cli, coin: Path) -> None:
    """At epsilon 0.001, two draws are equal with probability below 1e-6."""
    again = ["release", coin, "--model", "beta-bernoulli", "--fresh", "--json", "--eps"]
    runs = [dpbayes(*again, epsilon).json for epsilon in ("0.001", "0.001", "2")]
    assert len({run["release_id"] for run in runs}) == 3
    assert runs[0]["statistics"] != runs[1]["statistics"]
    assert all(run["bundle"] == f"dpbayes-{run['release_id']}" for run in runs)
    assert dpbayes(*again, "1").code == 5


def test_a_release_belongs_to_its_label_its_source_and_its_prior(dpbayes: Cli, coin: Path, place: Path) -> None:
    first = dpbayes("release", coin, *COIN, "--out", "out", "--json").json
    named = dpbayes("release", coin, *COIN, "--release-id", "2026-01-01", "--json").json
    assert named["release_id"] != first["release_id"]
    assert dpbayes("release", coin, *COIN, "--release-id", "2026-01-01", "--json").json["replayed"]
    dpbayes("release", coin, "--model", "beta-bernoulli", "--eps", "0.5", "--release-id", "2026-01-01").exits(
        5, "another request"
    )
    dpbayes("release", coin, *COIN, "--prior", "alpha=2,beta=2").exits(5, "dpbayes infer")
    (place / "february").mkdir()
    moved = coin.rename(place / "february" / "coin.csv")
    dpbayes("release", moved, *COIN, "--out", "out2").exits(5, "--same-data")
    assert dpbayes("release", moved, *COIN, "--out", "out2", "--same-data", "--json").json["replayed"]
    assert not dpbayes("release", moved, *COIN, "--out", "out3", "--fresh", "--json").json["replayed"]


def test_a_damaged_bundle_is_noticed_and_can_be_written_again(dpbayes: Cli, coin: Path) -> None:
    dpbayes("release", coin, *COIN, "--out", "out")
    good = files_of("out")
    for name in good:
        damaged = Path("out") / name
        damaged.write_bytes(good[name][:-1] + b"!")
        assert dpbayes("release", coin, *COIN, "--out", "out").code == 8
        damaged.write_bytes(good[name])
    Path("out/report.md").unlink()
    assert dpbayes("release", coin, *COIN, "--out", "out").code == 8
    assert dpbayes("release", coin, *COIN, "--out", "again").code == 0
    assert files_of("again") == good


def test_an_output_that_exists_is_refused(dpbayes: Cli, coin: Path, ledger_path: Path) -> None:
    Path("file").touch()
    assert dpbayes("release", coin, *COIN, "--out", "file/place").code == 8
    assert not ledger_path.exists()
    dpbayes("release", coin, *COIN, "--out", "one")
    dpbayes("release", coin, *COIN, "--out", "two", "--release-id", "two")
    assert dpbayes("release", coin, *COIN, "--out", "two").code == 8
    Path("link").symlink_to("one")
    for out in ("link", "link/x"):
        assert dpbayes("release", coin, *COIN, "--fresh", "--out", out).code == 8


def test_the_stated_number_of_records_is_checked_before_the_charge(dpbayes: Cli, coin: Path, ledger_path: Path) -> None:
    dpbayes("release", coin, *COIN, "--records", "199").exits(4, "200 records, but 199")
    assert not ledger_path.exists()
    assert dpbayes("release", coin, *COIN, "--records", "200").code == 0


def test_stated_number_of_records_of_a_stream_is_checked_after_the_charge(dpbayes: Cli, coin: Path) -> None:
    content = coin.read_bytes()
    arguments = ["release", "-", *COIN, "--dataset", "coin", "--records", "199", "--out", "out"]
    dpbayes(*arguments, stdin=content).exits(4)
    assert not Path("out").exists()
    assert dpbayes("budget", "show", "coin", "--json").json["accounts"][0]["remaining"] == {"epsilon": "2"}
    assert dpbayes(*arguments, stdin=content[: content.index(b"\n") + 1] + b"1\n" * 199).code == 0
    assert dpbayes("budget", "show", "coin", "--json").json["accounts"][0]["remaining"] == {"epsilon": "2"}


def test_account_must_be_named_if_no_file_name_can_name_one(dpbayes: Cli, coin: Path) -> None:
    content = coin.read_bytes()
    for data in ("-", coin.rename("my data.csv")):
        dpbayes("release", data, *COIN, stdin=content).exits(3, "--dataset")
    done = dpbayes("release", "-", *COIN, "--dataset", "coin", "--json", stdin=content)
    assert done.json["account"] == "coin"


def test_a_dry_run_prices_and_changes_nothing(dpbayes: Cli, coin: Path, ledger_path: Path, place: Path) -> None:
    coin.write_text("x\n1\n")
    priced = dpbayes("release", coin, *COIN, "--dry-run", "--json").json
    assert priced["guarantee"] == PURE
    assert [item["noise_scale"] for item in priced["statistics"]] == [2.0, 2.0]
    assert priced["remaining"] == {"epsilon": "2"}
    assert not ledger_path.exists()
    assert sorted(path.name for path in place.iterdir()) == ["coin.csv"]
    assert dpbayes("release", coin, "--model", "beta-bernoulli", "--eps", "3.01", "--dry-run").code == 5
    real = dpbayes("release", coin, *COIN, "--json").json
    assert real["release_id"] == priced["release_id"]
    assert dpbayes("release", coin, *COIN, "--dry-run", "--json").json["already_charged"]


def test_a_dry_run_calls_noise_counts_only_if_counts_are_released(dpbayes: Cli, coin: Path) -> None:
    assert "noise scale 2 counts, on 2" in dpbayes("release", coin, *COIN, "--dry-run").out
    Path("spec.yaml").write_text("model: normal\ndomain: {lower: 0, upper: 1}\nprivacy: {epsilon: 1}\n")
    priced = dpbayes("release", coin, "--spec", "spec.yaml", "--dataset", "numbers", "--dry-run").out
    assert "times the largest change of a statistic by one record" in " ".join(priced.split())
    assert "counts" not in priced


def test_noise_is_added_to_the_exact_statistic(dpbayes: Cli, coin: Path) -> None:
    """At epsilon 1000 the discrete noise is zero (probability of any other value below 1e-200)."""
    for arguments, values in (
        (["--eps", "1000"], [60, 135]),
        (["--eps", "1000", "--on-invalid", "impute:1"], [65]),
        (["--eps", "1000", "--success", "0", "--failure", "1"], [135, 60]),
    ):
        opening = ["--eps", "1000", "--separate-population", "--reason", "a test"]
        dpbayes("budget", "open", f"c{len(values)}{values[0]}", *opening)
        name = ["--dataset", f"c{len(values)}{values[0]}"]
        printed = dpbayes("release", coin, "--model", "beta-bernoulli", *arguments, *name, "--json").json
        assert [item["value"] for item in printed["statistics"]] == values


def test_keys_of_a_release_in_json_are_stable_and_its_receipt_is_the_head_of_the_ledger(
    dpbayes: Cli, coin: Path
) -> None:
    printed = dpbayes("release", coin, *COIN, "--out", "out", "--json").json
    assert set(printed) == {
        "release_id", "account", "bundle", "model", "mechanism", "statistics", "guarantee", "remaining", "posterior",
        "replayed", "receipt", "valid_records", "results",
    }  # fmt: skip
    assert re.fullmatch("[0-9a-f]{16}", printed["release_id"])
    assert (printed["account"], printed["model"], printed["mechanism"]) == ("coin", "beta-bernoulli", "laplace")
    assert all(set(item) == {"name", "value", "noise_scale"} for item in printed["statistics"])
    assert (printed["guarantee"], printed["remaining"]) == (PURE, {"epsilon": "2"})
    assert set(printed["posterior"]["theta"]) == {"mean", "sd", "q05", "q50", "q95"}
    head = dpbayes("budget", "verify", "--json").json["head"]
    assert printed["receipt"] == {"sequence": head["sequence"], "head": head["hash"]}
    document = parse_document(Path("out/release.json").read_bytes())
    entries = dpbayes("budget", "export", "--json").json["entries"]
    charged = entries[document.ledger.sequence - 1]
    assert charged["hash"] == document.ledger.hash
    assert json.loads(charged["body"])["release_id"] == document.release_id


def test_a_bundle_written_by_a_racing_process_is_recognized(
    dpbayes: Cli, coin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may finish the same release between the check of the output and the rename."""
    dpbayes("release", coin, *COIN, "--out", "first")
    render = module.render

    def slow(*arguments: object) -> dict[str, str]:
        if not Path("out").exists():
            Path("first").rename("out")
        return render(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "render", slow)
    dpbayes("release", coin, *COIN, "--out", "out").exits(0)


CHAINS = {
    "abalone-linear-regression", "adult-bayes-net", "adult-employers", "adult-income", "adult-naive-bayes",
    "adult-occupations", "adult-tree", "clinic-age", "clinic-age-months", "clinic-age-private-bounds", "clinic-classes",
    "clinic-regression", "events-hmm",
}  # fmt: skip
"""Configs whose posteriors take several seconds."""


@pytest.mark.simulates
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


def test_a_dry_run_states_the_cost_in_the_notion_of_the_mechanism(dpbayes: Cli, coin: Path) -> None:
    drawn = ["--mechanism", "rdp-diffuse", "--eps", "0.1", "--order", "2", "--on-invalid", "impute:0"]
    for account, total, options, cost in (
        ("z", ["--rho", "0.5"], ["--mechanism", "gaussian", "--rho", "0.1"], "rho 0.1,"),
        (
            "r", ["--rdp", "0.5", "--order", "2"], [*drawn, "--prior", "alpha=6,beta=12"],
            "a Renyi curve below order 9.",
        ),
    ):  # fmt: skip
        assert dpbayes("budget", "open", account, *total).code == 0
        flags = ["--model", "beta-bernoulli", *options, "--dataset", account, "--dry-run"]
        assert f"would cost {cost}" in dpbayes("release", coin, *flags).out


@pytest.mark.slow
def test_scripts_get_the_number_that_the_sentence_states(dpbayes: Cli, place: Path) -> None:
    (place / "skewed.csv").write_text("cost\n" + "20\n" * 9000 + "9000\n" * 1000, encoding="ascii")
    flags = ["--model", "normal", "--column", "cost", "--lower", "0", "--upper", "10000", "--eps", "1", "--out", "o"]
    (stated,) = dpbayes("release", "skewed.csv", *flags, "--json").json["results"]
    shown = " ".join(dpbayes("release", "skewed.csv", *flags).out.split())
    assert stated["statement"] in shown
    assert stated["q05"] < stated["estimate"] < stated["q95"]
    document = json.loads((place / "o" / "release.json").read_text())
    assert document["results"] == [stated]
    assert document["posterior"]["mean"]["q95"] < stated["q05"], "the normal law has numbers below the bound"
    assert "before its numbers beyond 0 to 10000 are moved to the nearer bound:" in shown


@pytest.mark.slow
def test_the_table_keeps_estimate_and_interval_of_large_numbers(
    dpbayes: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (place / "a.csv").write_text("x\n" + "3000000\n5000000\n" * 500, encoding="ascii")
    flags = ["--model", "normal", "--lower", "0", "--upper", "10000000", "--eps", "1"]
    (head,) = (line for line in dpbayes("release", "a.csv", *flags).out.splitlines() if line.startswith("parameter"))
    assert re.split(" {2,}", head)[:5] == ["parameter", "mean", "5 %", "median", "95 %"]


@pytest.mark.simulates
def test_a_result_worth_nothing_is_told_before_the_charge(
    dpbayes: Cli, place: Path, ledger_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The warning follows from the number of records alone: other data with as many records get the same."""
    said = []
    for name, cell in (("a", "1"), ("b", "0")):
        (place / f"{name}.csv").write_text("x\n" + f"{cell}\n" * 4)
        done = dpbayes("release", f"{name}.csv", *COIN[:-1], "0.1", "--dry-run", "-q").exits(0)
        said.append(done.err)
    assert said[0] == said[1]
    assert said[0].startswith(
        "WARNING: in a quick simulation with 4 records, the answer about theta would be worth nothing"
    )
    (place / "c.csv").write_text("x\n" + "1\n0\n" * 200)
    assert "WARNING" not in dpbayes("release", "c.csv", *COIN, "--dry-run").err
    private = dpbayes("release", "a.csv", *COIN[:-1], "0.1", "--neighbors", "add-remove", "--dry-run")
    assert "WARNING" not in private.err  # the number of records is private

    def stop(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dpbayes_cli.commands.release.has_terminal", lambda: True)
    monkeypatch.setattr("dpbayes_cli.commands.release.sleep", stop)
    stopped = dpbayes("release", "a.csv", *COIN[:-1], "0.1")
    assert stopped.code == 130
    assert "press Ctrl-C within" in stopped.err
    assert "nothing was charged" in stopped.err
    assert not ledger_path.exists()
