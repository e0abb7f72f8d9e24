"""``dpbayes budget`` from the shell: accounts are opened, charged, amended, shown and exported."""

from __future__ import annotations

import json
import sqlite3
from decimal import Decimal
from pathlib import Path

import pytest

from tests.conftest import Cli

APART = ["--separate-population", "--reason", "a test"]
COIN = ["--model", "beta-bernoulli", "--eps", "1"]


def test_accounts_are_opened_charged_amended_and_shown(dpbayes: Cli, coin: Path) -> None:
    opened = dpbayes("budget", "open", "coin", "--eps", "1.5", "--json").json
    assert opened["remaining"] == {"epsilon": "1.5"}
    assert (opened["neighbors"], opened["by_default"]) == ("replace-one", False)
    approximate = dpbayes("budget", "open", "other", "--eps", "2", "--delta", "1e-6", *APART, "--json").json
    assert approximate["remaining"] == {"epsilon": "2", "delta": "0.000001"}
    dpbayes("release", coin, *COIN, "--purpose", "annual report")
    charged = dpbayes("release", coin, *COIN, "--dataset", "other", "--json").json
    assert charged["remaining"] == {"epsilon": "1", "delta": "0.000001"}
    shown = dpbayes("budget", "show", "coin", "--json").json["accounts"][0]
    assert (shown["spent"], shown["remaining"]) == ({"epsilon": "1"}, {"epsilon": "0.5"})
    assert shown["releases"][0]["purpose"] == "annual report"
    history = dpbayes("budget", "history", "coin", "--json").json
    assert [entry["kind"] for entry in history] == ["open", "reserved", "sealed", "published"]
    assert "annual report" in dpbayes("budget", "history").out
    assert dpbayes("budget", "amend", "coin", "--eps", "5", "--reason", "new wave").code == 0
    for code, options in (
        (5, ["--eps", "0.5", "--reason", "oops"]), (3, ["--eps", "0", "--reason", "close"]),
        (2, ["--reason", "nothing"]), (2, ["--eps", "6"]), (2, ["--eps", "6", "--reason", " "]),
        (2, ["--eps", "6", "--reason", "x\x1b[2J"]),
    ):  # fmt: skip
        assert dpbayes("budget", "amend", "coin", *options).code == code
    assert "remaining" in dpbayes("budget", "show").out
    assert "anchor" in dpbayes("budget", "show", "-v").err
    exported = [json.loads(line) for line in dpbayes("budget", "export").out.splitlines()]
    assert exported == dpbayes("budget", "export", "--json").json["entries"]


@pytest.mark.parametrize(
    "mechanism", ["gaussian --rho 0.1", "gaussian --epsilon 0.5 --delta 1e-7", "rdp-diffuse --epsilon 0.1 --order 4"]
)
def test_a_gaussian_account_says_why_it_refuses_a_curve(mechanism: str, dpbayes: Cli, coin: Path) -> None:
    dpbayes("budget", "open", "coin", "--mu", "1")
    asked = ["--model", "beta-bernoulli", "--on-invalid", "impute:0", "--mechanism", *mechanism.split()]
    refused = dpbayes("release", coin, *asked).exits(5, "nothing was charged")
    assert "only a pure epsilon or a mu has one" in " ".join(refused.err.split())


def test_options_of_a_total_that_do_not_go_together_are_refused(dpbayes: Cli, ledger_path: Path) -> None:
    for options in (
        "", "--epsilon 1 --rho 1", "--delta 1e-6", "--rdp 1", "--rho 1 --order 2", "--epsilon 1 --basic",
        "--epsilon 1 --delta 1e-6 --basic --gaussian", "--epsilon 1 --delta 1e-6 --orders x",
        "--epsilon 1 --separate-population", "--epsilon 1 --reason x",
    ):  # fmt: skip
        assert dpbayes("budget", "open", "d", *options.split()).code == 2, options
    assert dpbayes("budget", "open", "d", "--epsilon", "1", "--reason", "").code == 2
    for options in ("", "--none", "file --none"):
        assert dpbayes("budget", "anchor", *options.split()).code == 2, options
    assert not ledger_path.exists()


@pytest.mark.parametrize(
    ("total", "fits"),
    [
        ("--epsilon 1", "laplace epsilon 1, ops epsilon 1"),
        ("--rho 0.125", "laplace epsilon 0.5, ops epsilon 1, gaussian rho 0.125, gibbs-posterior mu 0.5"),
        ("--mu 0.5", "laplace epsilon 0.4, ops epsilon 0.4, gaussian mu 0.5, gibbs-posterior mu 0.5"),
        (
            "--epsilon 1 --delta 1e-6 --gaussian",
            "laplace epsilon 0.188, ops epsilon 0.188, gaussian mu 0.236, gibbs-posterior mu 0.236",
        ),
    ],
)
def test_show_prints_the_largest_next_release_that_fits(dpbayes: Cli, total: str, fits: str) -> None:
    sentence = f"d: a next release that costs at most one of these fits, whatever it releases: {fits}\n"
    assert dpbayes("budget", "open", "d", *total.split()).code == 0
    assert sentence in dpbayes("budget", "show", "d", "-v").err


def test_a_refusal_shows_requested_remaining_and_missing(dpbayes: Cli, coin: Path) -> None:
    dpbayes("release", coin, "--model", "beta-bernoulli", "--eps", "2")
    refused = dpbayes("release", coin, "--model", "beta-bernoulli", "--eps", "1.5").exits(5)
    for line in ("requested: epsilon 1.5", "remaining: epsilon 1", "missing: epsilon 0.5", "spent by "):
        assert line in refused.err


def test_a_broken_ledger_is_exit_7_for_verify_and_6_for_the_rest(dpbayes: Cli, coin: Path, ledger_path: Path) -> None:
    dpbayes("release", coin, *COIN)
    with sqlite3.connect(ledger_path) as connection:
        connection.execute("DELETE FROM entries WHERE sequence = 2")
    connection.close()
    dpbayes("budget", "verify").exits(7, "entry 2 is missing")
    assert dpbayes("budget", "verify", "--json").code == 7
    assert dpbayes("release", coin, *COIN, "--fresh").code == 6
    assert dpbayes("budget", "show").code == 6


def test_a_charge_states_its_cost_in_the_notion_of_the_account(dpbayes: Cli, coin: Path) -> None:
    assert dpbayes("budget", "open", "coin", "--rho", "0.5").code == 0
    release = ("release", coin, "--model", "beta-bernoulli", "--eps", "0.3")
    assert "would cost epsilon 0.3 (rho 0.0225), from" in dpbayes(*release, "--dry-run").out
    assert "charged epsilon 0.3 (rho 0.0225) to account 'coin'" in dpbayes(*release).err
    assert "epsilon 0.3 (rho 0.0225)" in " ".join(dpbayes("budget", "history").out.split())


def test_amounts_have_six_digits_and_costs_are_rounded_up(dpbayes: Cli, coin: Path) -> None:
    """A release costs 0.0019634515... of a squared mu of 1; --json holds 15 digits."""
    assert dpbayes("budget", "open", "coin", "--mu", "1").code == 0
    ask = ["release", coin, "--model", "beta-bernoulli", "--fresh", "--out"]
    assert "remaining mu_squared 0.998036 in account coin" in dpbayes(*ask, "a", "--eps", "0.05").out
    row = dpbayes("budget", "show").out.splitlines()[1].split()
    assert row[2:5] == ["0.998036", "1", "0.00196346"]
    account = dpbayes("budget", "show", "--json").json["accounts"][0]
    spent, remaining = (account[name]["mu_squared"] for name in ("spent", "remaining"))
    assert spent.startswith("0.0019634515")
    assert len(spent.lstrip("0.")) == len(remaining.lstrip("0.")) == 15
    assert Decimal(spent) + Decimal(remaining) == pytest.approx(Decimal(1), abs=Decimal("1e-14"))
    refused = dpbayes(*ask, "b", "--eps", "2").err.splitlines()
    assert {"requested: mu_squared 3.03583", "remaining: mu_squared 0.998036"} <= {line.strip() for line in refused}


@pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
def test_a_total_of_mu_is_shown_as_the_epsilon_that_was_stated(dpbayes: Cli, epsilon: str) -> None:
    """The computed epsilon of the mu for epsilon 3 is 3.00000000000258: a margin, which is not rounded up."""
    assert dpbayes("budget", "open", "coin", "--epsilon", epsilon, "--delta", "1e-6", "--gaussian").code == 0
    assert f"is epsilon {epsilon} at delta 0.000001" in dpbayes("budget", "show", "-v").err


@pytest.mark.parametrize(
    ("total", "shown", "spent"),
    [
        (
            "--rho 0.5",
            ["the total, rho 0.5, is epsilon 5.22154 at delta 0.000001", "rho 0.2, is epsilon 3.13106 at delta"],
            " 0.2 ",
        ),
        (
            "--epsilon 6 --delta 1e-6",
            [
                "the total and the spent epsilon hold at delta 0.000001",
                "Alone, such a release has the epsilon that it states. The account adds releases up",
            ],
            " 3.53511 ",
        ),
    ],
)
def test_show_states_epsilon_with_its_delta(dpbayes: Cli, coin: Path, total: str, shown: list[str], spent: str) -> None:
    assert dpbayes("budget", "open", "coin", *total.split()).code == 0
    for name in ("a", "b"):
        gaussian = ["--model", "beta-bernoulli", "--mechanism", "gaussian", "--rho", "0.1", "--release-id", name]
        assert dpbayes("release", coin, *gaussian, "--out", name).code == 0
    assert all(sentence in dpbayes("budget", "show", "-v").err for sentence in shown)
    table = dpbayes("budget", "show").out
    assert spent in table
    assert "delta 0 " not in table


@pytest.mark.parametrize(
    ("total", "sentence"),
    [
        (
            "--epsilon 3",
            "pure epsilon: 2 of epsilon 3 is left. It pays for 2 more releases like the last one.",
        ),
        (
            "--epsilon 3 --delta 1e-6",
            "(epsilon, delta) with Renyi composition: 2 of epsilon 3 is left at delta 0.000001. It pays for 2 more "
            "releases like the last one.",
        ),
        (
            "--epsilon 2 --delta 1e-6 --basic",
            "(epsilon, delta): 1 of epsilon 2 and 0.000001 of delta 0.000001 are left. It pays for 1 more release "
            "like the last one.",
        ),
        ("--rho 0.3", "zCDP: 0.05 of rho 0.3 is left. It pays for no more release like the last one."),
    ],
)
def test_show_says_how_an_account_is_kept_and_what_is_left(dpbayes: Cli, coin: Path, total: str, sentence: str) -> None:
    assert dpbayes("budget", "open", "coin", *total.split()).code == 0
    assert dpbayes("budget", "show").err.startswith("coin is kept in ")
    assert dpbayes("release", coin, *COIN).code == 0
    assert dpbayes("budget", "show", "coin").err == f"coin is kept in {sentence}\n"
    dpbayes("budget", "open", "other", "--epsilon", "1", *APART)
    assert "kept in" not in dpbayes("budget", "show").err
    assert dpbayes("budget", "show", "-v").err.count("is kept in") == 2


def test_every_command_names_a_missing_ledger_and_creates_none(dpbayes: Cli, coin: Path, ledger_path: Path) -> None:
    for line in (
        "budget show", "budget show coin", "budget history", "budget export", "budget verify", "budget recover",
        "budget recover --to new.sqlite", "budget backup new.sqlite", "budget amend coin --eps 1 --reason why",
        "budget limit coin ada --eps 1", "budget notify coin --at 0.8", "budget close coin --reason why",
        "budget adopt --reason why", "release coin.csv --model beta-bernoulli --eps 1 --no-open-account",
    ):  # fmt: skip
        done = dpbayes(*line.split())
        assert (line, done.code) == (line, 5 if line.startswith("release") else 6)
        assert f"there is no ledger at '{ledger_path}'" in done.err
        assert "dpbayes budget restore BACKUP --reason TEXT" in done.err
        assert not ledger_path.exists()
        assert not Path("new.sqlite").exists()
