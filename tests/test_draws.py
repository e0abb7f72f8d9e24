"""Posterior draws as a custodian releases them: requirements, costs, replay."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.conftest import SAMPLE_DATA, Cli, often

OPS = ["--model", "beta-bernoulli", "--mechanism", "ops", "--on-invalid", "impute:0"]
CLINIC = SAMPLE_DATA / "clinic.csv"


def test_a_draw_is_charged_once_and_replayed_for_free(dpbayes: Cli, coin: Path) -> None:
    first = dpbayes("release", coin, *OPS, "--eps", "1", "--out", "out", "--json").json
    document = json.loads(Path("out/release.json").read_text())
    assert first["statistics"] == []
    assert first["guarantee"]["kind"] == "bounded-range"
    assert first["posterior"]["theta"]["mean"] == document["draws"][0][0]
    assert first["posterior"]["theta"]["sd"] is None
    coin.write_bytes(b"")  # a replay does not open the data
    again = dpbayes("release", coin, *OPS, "--eps", "1", "--out", "copy", "--json").json
    assert again["replayed"]
    assert Path("copy/release.json").read_bytes() == Path("out/release.json").read_bytes()


def test_more_draws_are_not_free(dpbayes: Cli, coin: Path) -> None:
    dpbayes("release", coin, *OPS, "--eps", "1", "--draws", "4", "--samples-format", "csv", "--out", "out")
    with Path("out/samples.csv").open() as file:
        assert len(list(csv.reader(file))) == 5
    refused = dpbayes("infer", "out", "--samples", "100")
    assert refused.code == 3
    assert "--draws" in refused.err


def test_another_prior_is_another_request(dpbayes: Cli, coin: Path) -> None:
    """The prior of draws is part of the request that was paid for."""
    dpbayes("release", coin, *OPS, "--eps", "1", "--out", "out")
    other = dpbayes("release", coin, *OPS, "--eps", "1", "--prior", "alpha=2,beta=2", "--out", "other", "--json").json
    assert other["remaining"] == {"epsilon": "1"}


@pytest.mark.parametrize("mechanism", ["map", "rdp-diffuse"])
def test_incomplete_records_are_refused_with_a_hint(
    dpbayes: Cli, coin: Path, mechanism: str, ledger_path: Path
) -> None:
    refused = dpbayes("release", coin, "--model", "beta-bernoulli", "--mechanism", mechanism, "--eps", "0.1")
    assert refused.code == 3
    assert "--on-invalid impute:VALUE" in refused.err
    assert not ledger_path.exists()


@pytest.mark.parametrize(("mechanism", "cost"), [("rdp-diffuse", ["--eps", "0.1"]), ("gaussian", ["--rho", "0.01"])])
def test_an_account_opened_by_default_keeps_pure_epsilon(
    dpbayes: Cli, coin: Path, mechanism: str, cost: list[str], ledger_path: Path
) -> None:
    request = ["release", coin, "--model", "beta-bernoulli", "--mechanism", mechanism, "--on-invalid", "impute:0"]
    refused = dpbayes(*request, *cost, "--prior", "alpha=6,beta=12")
    assert refused.code == 5
    line = refused.err.split("which a default account needs; open another: ")[1].splitlines()[0]
    assert line == "dpbayes budget open coin --epsilon 3 --delta 1e-6"
    assert not ledger_path.exists() or dpbayes("budget", "show", "--json").json["accounts"] == []
    assert dpbayes(*line.split()[1:]).code == 0
    assert dpbayes(*request, *cost, "--prior", "alpha=6,beta=12", "--json").code == 0


def test_a_curve_that_is_infinite_at_the_accounts_order_is_refused_with_the_prior_that_would_do(
    dpbayes: Cli, coin: Path
) -> None:
    dpbayes("budget", "open", "coin", "--rdp", "1", "--order", "8")
    request = ["release", coin, "--model", "beta-bernoulli", "--mechanism", "rdp-direct", "--on-invalid", "impute:0"]
    refused = dpbayes(*request, "--prior", "alpha=6,beta=12")
    assert refused.code == 5
    assert "infinite at order 7 and above" in refused.err
    assert "1.167 times" in refused.err
    assert dpbayes("budget", "show", "coin", "--json").json["accounts"][0]["remaining"] == {"rdp(8)": "1"}
    assert dpbayes(*request, "--prior", "alpha=12,beta=24", "--json").code == 0


@pytest.mark.parametrize(
    "arguments",
    often(
        [
            "--mechanism rdp-diffuse --model gamma-exponential --column months --upper 60",
            "--mechanism ops --model gamma-poisson --column months --upper 30 --support 1,30",
            "--mechanism ops --model normal-mean --column age --lower 0 --upper 100 --variance 400 "
            "--prior mean=50,variance=100",
        ],
        3,
    ),
)
def test_models_of_numbers_release_draws(dpbayes: Cli, arguments: str) -> None:
    dpbayes("budget", "open", "clinic", "--epsilon", "20", "--delta", "1e-6")
    request = ["release", CLINIC, *arguments.split(), "--on-invalid", "impute:12", "--eps", "0.5"]
    done = dpbayes(*request, "--draws", "2", "--out", "out", "--json").json
    assert len(json.loads(Path("out/release.json").read_text())["draws"]) == 2
    (summary,) = done["posterior"].values()
    assert summary["sd"] > 0
    assert "draws from a private posterior" in Path("out/report.md").read_text()


def test_a_changed_number_of_records_releases_nothing(dpbayes: Cli, coin: Path) -> None:
    """For a stream the number of records is stated; with one record more or fewer nothing is drawn."""
    data = b"x\n" + b"1\n" * 9
    refused = dpbayes("release", "-", *OPS, "--eps", "1", "--dataset", "d", "--records", "10", "--out", "o", stdin=data)
    assert refused.code == 4
    assert not Path("o").exists()
    missing = dpbayes("release", "-", *OPS, "--eps", "1", "--dataset", "e", stdin=data)
    assert (missing.code, "--records" in missing.err) == (3, True)


def test_a_reservation_is_not_drawn_from_at_another_cost(dpbayes: Cli) -> None:
    """Some draws cost more with more records: a reservation is not finished at the old cost after n was corrected."""
    dpbayes("budget", "open", "d", "--rdp", "1", "--order", "2")
    request = ["release", "-", "--model", "gamma-exponential", "--upper", "1", "--mechanism", "rdp-direct"]
    request += ["--on-invalid", "impute:1", "--prior", "shape=2,rate=60", "--dataset", "d", "--out", "out"]
    data = b"x\n" + b"0.5\n" * 40
    assert dpbayes(*request, "--records", "4", stdin=data).code == 4  # charged for four records, nothing drawn
    charged = dpbayes("budget", "show", "d", "--json").json["accounts"][0]["spent"]
    refused = dpbayes(*request, "--records", "40", stdin=data)
    assert (refused.code, "but now costs" in refused.err) == (5, True)
    assert not Path("out").exists()
    assert dpbayes("budget", "show", "d", "--json").json["accounts"][0]["spent"] == charged
    paid = dpbayes(*request, "--records", "40", "--fresh", "--json", stdin=data)
    assert paid.code == 0, paid.err


@pytest.mark.usefixtures("without_figures")
@pytest.mark.parametrize("how", [[], ["--selection", "permute-and-flip", "--draws", "3"]])
def test_an_estimate_is_not_called_a_posterior(dpbayes: Cli, coin: Path, how: list[str]) -> None:
    """An estimate has no width, no interval and no predictive law, and every text calls it an estimate."""
    request = ["release", coin, "--model", "beta-bernoulli", "--mechanism", "map", "--on-invalid", "impute:0"]
    assert "of the posterior's mode" in dpbayes(*request, "--eps", "1", *how, "--dry-run").out
    shown = dpbayes(*request, "--eps", "1", *how, "--out", "out")
    assert shown.code == 0, shown.err
    assert "estimate" in shown.out
    document = json.loads(Path("out/release.json").read_text())
    draws = 3 if "--draws" in how else 1
    assert len(document["draws"]) == draws
    assert document["guarantee"]["kind"] == ("pure" if "--selection" in how else "bounded-range")
    assert document["inference"]["method"] == "estimates"
    assert document["posterior_predictive"] == {}
    theta = document["posterior"]["theta"]
    assert theta.pop("mean") == pytest.approx(sum(draw[0] for draw in document["draws"]) / draws)
    assert set(theta.values()) == {None}
    report = Path("out/report.md").read_text()
    assert "## The estimate of the posterior mode" in report
    assert "no posterior" in report
    assert "draws from a private posterior" not in report
    assert "posterior sample" not in report.split("## Corrections")[0]
    assert dpbayes("report", "out", "--format", "html", "--out", "page.html").code == 0
    page = Path("page.html").read_text()
    assert "The posterior<" not in page
    assert "Posterior of each parameter" not in page
    assert dpbayes("infer", "out", "--samples", "10").code == 3


def test_a_plan_of_an_estimate_states_its_error(dpbayes: Cli) -> None:
    """At a large epsilon the distance from the truth tends to the posterior's width, and not to zero."""
    request = ["plan", "--model", "beta-bernoulli", "--records", "100", "--on-invalid", "impute:0", "--trials", "400"]
    request += ["--prior", "alpha=20,beta=20", "--mechanism", "map"]
    planned = dpbayes(*request, "--eps", "500", "--json").json["expected"]
    assert planned["sd_of"] == "estimate"
    assert planned["inflation"] == pytest.approx(1.0, abs=0.25)
    assert dpbayes(*request, "--eps", "0.1", "--json").json["expected"]["inflation"] > 1.5
    assert "distance from the true parameter" in dpbayes(*request, "--eps", "1", "-v").out
