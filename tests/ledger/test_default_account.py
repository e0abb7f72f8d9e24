"""The account that a first release opens is of the kind that the release needs; no message says ``inf``."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest

from dpbayes_cli.ledger.budgets import GaussianBudget, PureBudget
from dpbayes_cli.ledger.union_budget import UnionBudget, default_budget
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.kinds import BoundedRange, GaussianDP, PureDP, ZeroConcentrated
from tests.conftest import Cli

RATE = ["--model", "beta-bernoulli"]
MICRO = Decimal("1e-6")


@pytest.mark.parametrize(
    ("guarantee", "delta", "kind"),
    [
        (PureDP(Decimal(1)), None, PureBudget), (PureDP(Decimal(9)), None, PureBudget),
        (BoundedRange(Decimal(1)), MICRO, PureBudget), (ZeroConcentrated(Decimal("0.02")), None, PureBudget),
        (ZeroConcentrated(Decimal("0.02")), MICRO, UnionBudget), (ZeroConcentrated(Decimal(5)), MICRO, UnionBudget),
        (GaussianDP(Decimal("0.2")), MICRO, UnionBudget), (GaussianDP(Decimal("0.62")), MICRO, GaussianBudget),
    ],
)  # fmt: skip
def test_a_default_account_is_of_the_kind_that_its_first_release_needs(
    guarantee: Guarantee, delta: Decimal | None, kind: type
) -> None:
    budget = default_budget(guarantee, delta)
    assert type(budget) is kind
    assert delta is None or budget.total.get("delta", delta) == delta or kind is PureBudget


def test_a_stated_delta_opens_an_account_with_this_delta(dpbayes: Cli, coin: Path) -> None:
    dpbayes("release", coin, *RATE, "--mechanism", "gaussian", "--eps", "1", "--delta", "1e-7", "--out", "o").exits(
        0, "default total of epsilon 3, delta 0.0000001 under replace-one"
    )
    (account,) = dpbayes("budget", "show", "--json").json["accounts"]
    assert (account["kind"], account["budget"]) == ("renyi", {"epsilon": "3", "delta": "0.0000001"})
    assert dpbayes("release", coin, *RATE, "--eps", "0.1", "--out", "p").code == 0, "pure epsilon fits there too"
    assert dpbayes("verify", "o").code == 0


@pytest.mark.slow
def test_no_message_says_inf(dpbayes: Cli, coin: Path) -> None:
    gaussian = [*RATE, "--mechanism", "gaussian", "--rho", "0.1"]
    for name, total in (("r", ["--rdp", "1", "--order", "64"]), ("g", ["--mu", "1"]), ("b", ["--epsilon", "1"])):
        assert dpbayes("budget", "open", name, *total).code == 0
        assert dpbayes("budget", "limit", name, "ada", total[0], "0.5").code == 0
    assert dpbayes("budget", "open", "u", "--eps", "1000", "--delta", "0.1").code == 0
    steep = [*RATE, "--mechanism", "rdp-diffuse", "--eps", "0.1", "--order", "2", "--on-invalid", "impute:0",
             "--prior", "alpha=6,beta=12"]  # fmt: skip
    assert "requested: no finite epsilon" in dpbayes("release", coin, *gaussian).err
    for code, *command in [
        (5, "release", coin, *gaussian), (5, "release", coin, *gaussian, "--dataset", "b", "--analyst", "ada"),
        (5, "release", coin, *gaussian, "--dataset", "g", "--analyst", "ada"), (5, "release", coin, *steep),
        (5, "release", coin, *steep, "--dataset", "r", "--analyst", "ada"),
        (0, "release", coin, *steep, "--dataset", "u", "--out", "o"),
        (0, "release", coin, *gaussian, "--dataset", "u", "--dry-run"), (0, "budget", "show", "-v"),
        (0, "budget", "history"), (0, "report", "o", "--format", "html"),
    ]:  # fmt: skip
        done = dpbayes(*command)
        assert done.code == code
        assert not re.search(r"\b-?inf(inity)?\b", done.out + done.err, re.IGNORECASE), (command, done.out, done.err)
