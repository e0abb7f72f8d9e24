"""A request without a mechanism gets the model's default for the account that pays, and keeps it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dpbayes_cli as dpb
from tests.conftest import Cli

REGRESSION = """
model: linear-regression
domain: {target: {column: y, lower: 0, upper: 10}, features: {a: {lower: 0, upper: 10}}}
"""


@pytest.fixture
def table(place: Path) -> Path:
    (place / "spec.yaml").write_text(REGRESSION)
    (place / "t.csv").write_text("a,y\n" + "".join(f"{k % 9 + 0.5},{k % 7 + k % 2}\n" for k in range(300)))
    return place / "t.csv"


def release(dpbayes: Cli, *more: str) -> dict[str, Any]:
    """Release without chains; their inference is tested elsewhere."""
    done = dpbayes("release", "t.csv", "--spec", "spec.yaml", "--eps", "1", "--inference", "naive", "--json", *more)
    done.exits(0)
    return {**done.json, "assumed": done.err.partition("assumed: ")[2].partition("\n")[0]}


@pytest.mark.parametrize(
    ("total", "stated", "mechanism"),
    [
        ([], [], "laplace"),
        (["--epsilon", "3"], [], "laplace"),
        (["--epsilon", "3", "--delta", "1e-6"], [], "gaussian"),
        (["--epsilon", "3", "--delta", "1e-6"], ["--mechanism", "laplace"], "laplace"),
        (["--epsilon", "1", "--delta", "1e-6"], [], "laplace"),  # it cannot pay for gaussian
        (["--rho", "1"], [], "laplace"),
        (["--rho", "1"], ["--delta", "1e-5"], "gaussian"),
    ],
)
@pytest.mark.usefixtures("table")
def test_a_regression_has_gaussian_noise_if_its_account_has_a_delta_and_can_pay(
    dpbayes: Cli, total: list[str], stated: list[str], mechanism: str
) -> None:
    if total:
        dpbayes("budget", "open", "t", *total).exits(0)
    planned = release(dpbayes, "--dry-run", *stated)
    assert planned["mechanism"] == mechanism
    by_account = mechanism == "gaussian" and not stated
    assert ("delta 0.000001 of the account" in planned["assumed"]) == by_account
    assert ("its noise is 2 times that of laplace" in planned["assumed"]) == by_account


@pytest.mark.usefixtures("table")
def test_the_same_command_is_the_same_release_whatever_delta_the_account_has_later(dpbayes: Cli) -> None:
    dpbayes("budget", "open", "t", "--epsilon", "9").exits(0)
    assert release(dpbayes, "--out", "pure")["mechanism"] == "laplace"
    dpbayes("budget", "amend", "t", "--delta", "1e-6", "--reason", "r").exits(0)
    again = release(dpbayes, "--out", "pure")
    assert (again["mechanism"], again["replayed"]) == ("laplace", True)
    first = release(dpbayes, "--out", "first", "--fresh")
    dpbayes("budget", "amend", "t", "--delta", "1e-5", "--reason", "r").exits(0)
    second = release(dpbayes, "--out", "second", "--release-id", "second")
    assert first["guarantee"]["rho"] == second["guarantee"]["rho"]
    again = release(dpbayes, "--out", "again", "--release-id", "second")
    assert (again["release_id"], again["replayed"]) == (second["release_id"], True)


@pytest.mark.usefixtures("table")
def test_a_release_of_the_other_mechanism_changes_nothing(dpbayes: Cli) -> None:
    dpbayes("budget", "open", "t", "--epsilon", "9", "--delta", "1e-6").exits(0)
    first = release(dpbayes, "--out", "first")
    assert release(dpbayes, "--out", "other", "--mechanism", "laplace")["mechanism"] == "laplace"
    again = release(dpbayes, "--out", "again")
    assert (again["release_id"], again["replayed"]) == (first["release_id"], True)


def test_moved_data_are_not_charged_by_the_other_mechanism(dpbayes: Cli, table: Path) -> None:
    dpbayes("budget", "open", "t", "--epsilon", "9", "--delta", "1e-6").exits(0)
    first = release(dpbayes, "--out", "first")
    table.rename("moved.csv")
    request = ("release", "moved.csv", "--spec", "spec.yaml", "--eps", "1", "--inference", "naive", "--dataset", "t")
    dpbayes(*request, "--out", "again").exits(5, "from another source; nothing was charged")
    assert dpbayes(*request, "--same-data", "--out", "again", "--json").json["release_id"] == first["release_id"]


@pytest.mark.usefixtures("table")
def test_a_planned_request_keeps_the_mechanism_of_its_plan(dpbayes: Cli, tmp_path: Path) -> None:
    ledger = dpb.Ledger(tmp_path / "ledger.sqlite")
    ledger.open("t", epsilon=9, delta="1e-6")
    bounds = {"lower": 0, "upper": 10}
    model = dpb.models.LinearRegression(target={"column": "y", **bounds}, features={"a": bounds})
    cost, quick = {"epsilon": "1"}, {"method": "naive"}
    planned = dpb.plan(model, privacy=cost, inference=quick)
    default = dpb.release("t.csv", model, ledger=ledger, out="default", privacy=cost, inference=quick)
    kept = dpb.release("t.csv", planned, ledger=ledger, out="planned")
    assert kept.guarantee == planned.guarantee()
    assert default.guarantee.rho < kept.guarantee.rho / 5
