"""``dpbayes plan``: the privacy cost in every notion, without data, ledger or charge."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT, Cli

COIN = ["plan", "--model", "beta-bernoulli", "--records", "100", "--json"]
PAPER = [*COIN, "--on-invalid", "impute:0", "--prior", "alpha=6,beta=12", "--trials", "20"]


def test_a_plan_touches_neither_data_nor_ledger(dpbayes: Cli, ledger_path: Path, place: Path) -> None:
    planned = dpbayes(*COIN, "--eps", "1").json
    assert planned["parameters"] == {"scale": 2.0}
    assert set(planned) == {"model", "mechanism", "parameters", "guarantee", "expected"}
    guarantee = planned["guarantee"]
    assert {"kind", "epsilon", "delta", "rho", "mu", "neighbors", "rdp", "order_max"} <= set(guarantee)
    assert (guarantee["kind"], guarantee["epsilon"], guarantee["delta"]) == ("pure", 1.0, 0.0)
    assert planned["expected"]["inflation"] > 1.0
    assert not ledger_path.exists()
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("mechanism", "order", "parameter", "value"),
    [("rdp-diffuse", "2", "r", 0.718261997), ("rdp-concentrated", "15", "m", 0.0578274525)],
)
def test_the_parameters_of_the_paper(dpbayes: Cli, mechanism: str, order: str, parameter: str, value: float) -> None:
    planned = dpbayes(*PAPER, "--mechanism", mechanism, "--eps", "0.1", "--order", order).json
    assert planned["parameters"][parameter] == pytest.approx(value, abs=1e-8)
    assert planned["guarantee"]["kind"] == "rdp"
    assert planned["guarantee"]["epsilon"] is not None
    assert planned["guarantee"]["rho"] is None


def test_ops_states_its_likelihood_power_and_gaussian_its_rho(dpbayes: Cli) -> None:
    planned = dpbayes(*PAPER, "--mechanism", "ops", "--eps", "0.1").json
    assert planned["parameters"]["likelihood_power"] == pytest.approx(0.1 / 4.394449, rel=1e-5)
    assert planned["expected"]["coverage"] is None
    planned = dpbayes(*PAPER, "--mechanism", "gaussian", "--rho", "0.1").json
    assert planned["guarantee"]["rho"] == 0.1
    assert planned["guarantee"]["rdp"][4] == [2.0, pytest.approx(0.2)]


def test_noise_aware_intervals_cover_and_naive_ones_do_not(dpbayes: Cli) -> None:
    """300 trials: 0.9 is left by less than 0.12 with probability 1 - 1e-9; the naive one covers far less."""
    planned = dpbayes(*COIN, "--eps", "0.05", "--on-invalid", "impute:0", "--trials", "300").json
    coverage = planned["expected"]["coverage"]
    assert abs(coverage["noise-aware"] - 0.9) < 0.12
    assert coverage["naive"] < 0.7


def test_comparison_ranks_what_fits_and_says_why_the_rest_does_not(dpbayes: Cli) -> None:
    offers = dpbayes(*PAPER, "--eps", "0.1", "--compare").json
    assert {offer["mechanism"] for offer in offers} == {
        "gaussian", "gibbs", "laplace", "map", "ops", "rdp-concentrated", "rdp-diffuse", "rdp-direct"
    }  # fmt: skip
    ranked = [offer["expected"]["inflation"] for offer in offers if "refused" not in offer]
    assert ranked == sorted(ranked)
    refused = {offer["mechanism"]: offer["refused"] for offer in offers if "refused" in offer}
    assert "rho" in refused["gaussian"]
    assert "true posterior costs" in refused["rdp-direct"]


def test_plan_prints_tables_as_text(dpbayes: Cli) -> None:
    shown = dpbayes("plan", "--model", "beta-bernoulli", "--records", "50", "--eps", "1", "--compare", "--trials", "5")
    assert shown.code == 0
    assert "inflation" in shown.out
    spec = ROOT / "configs" / "releases" / "clinic-relapse.yaml"
    assert "coverage" in dpbayes("plan", "--spec", spec, "--records", "500", "--trials", "5").out


def test_the_number_of_records_must_be_stated(dpbayes: Cli) -> None:
    for records in ([], ["--records", "0"], ["--records", "many"]):
        assert dpbayes("plan", "--model", "beta-bernoulli", "--eps", "1", *records).code == 2
