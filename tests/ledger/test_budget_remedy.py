"""What an account that cannot pay advises, and whether the advice works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import Cli

RELEASE = ("release", "--model", "beta-bernoulli", "--mechanism", "gaussian", "--mu", "0.12", "--fresh", "-q")


def spend_all(dpbayes: Cli, coin: Path, account: str, place: Path) -> tuple[int, str]:
    """Release until the account cannot pay; return the number of releases, and the hint."""
    for n_paid in range(20):
        result = dpbayes(*RELEASE, str(coin), "--dataset", account, "--out", str(place / f"{account}-{n_paid}"))
        if result.code:
            assert result.code == 5
            return n_paid, result.err.replace("\n", " ")
    pytest.fail("the account pays for everything")


def test_an_account_of_renyi_composition_names_one_that_pays_for_more(dpbayes: Cli, coin: Path, place: Path) -> None:
    total = "--epsilon", "1", "--delta", "0.000001"
    dpbayes("budget", "open", "first", *total).exits(0)
    n_first, hint = spend_all(dpbayes, coin, "first", place)
    assert f"dpbayes budget open NAME {' '.join(total)} --gaussian" in hint
    apart = "--separate-population", "--reason", "a test"
    dpbayes("budget", "open", "second", *total, "--gaussian", *apart).exits(0)
    n_second, hint = spend_all(dpbayes, coin, "second", place)
    assert n_second > n_first
    assert "--gaussian" not in hint


def test_an_account_of_pure_epsilon_pays_for_gaussian_noise_once_it_has_a_delta(
    dpbayes: Cli, coin: Path, place: Path
) -> None:
    dpbayes("budget", "open", "pure", "--epsilon", "3").exits(0)
    dpbayes("release", "--model", "beta-bernoulli", coin, "--eps", "0.5", "--dataset", "pure", "--out", "a").exits(0)
    n_paid, hint = spend_all(dpbayes, coin, "pure", place)
    assert n_paid == 0
    command = re.search(r"dpbayes (budget amend pure --delta 1e-6 --reason) TEXT", hint)
    assert command, hint
    dpbayes(*command[1].split(), "a test").exits(0)
    dpbayes(*RELEASE, coin, "--dataset", "pure", "--out", "b").exits(0)
    dpbayes("budget", "verify").exits(0)
    dpbayes("budget", "amend", "pure", "--epsilon", "0.6", "--reason", "too little").exits(5, "already spent more")
