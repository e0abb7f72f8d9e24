"""``dpbayes plan``: the privacy cost in every notion, without data, ledger or charge."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from dpbayes_cli.workflow.expectation import Estimated, ExpectedPredictions
from dpbayes_cli.workflow.plan_sentences import _predictions
from tests.conftest import Cli

COIN = ["plan", "--model", "beta-bernoulli", "--records", "100", "--json"]
IMPUTED = ["--on-invalid", "impute:0"]
REGRESSION = """
model: logistic-regression
domain:
  target: {column: ill, values: ["no", "yes"]}
  features: {age: {lower: 18, upper: 100}, dose: {lower: 0, upper: 1}}
prior: {precision: 0.1}
privacy: {epsilon: 0.05, delta: 1e-6}
"""
PAPER = [*COIN, "--on-invalid", "impute:0", "--prior", "alpha=6,beta=12", "--trials", "20"]


def test_a_plan_touches_neither_data_nor_ledger(dpbayes: Cli, ledger_path: Path, place: Path) -> None:
    planned = dpbayes(*COIN, "--eps", "1", "--trials", "20").json
    assert planned["parameters"] == {"scale": 2.0}
    assert set(planned) == {"model", "mechanism", "parameters", "guarantee", "accounts", "expected", "sentences"}
    guarantee = planned["guarantee"]
    assert {"kind", "epsilon", "delta", "rho", "mu", "neighbors", "rdp", "order_max"} <= set(guarantee)
    assert (guarantee["kind"], guarantee["epsilon"], guarantee["delta"]) == ("pure", 1.0, 0.0)
    assert planned["expected"]["inflation"] > 1.0
    assert not ledger_path.exists()
    assert list(place.iterdir()) == []


def test_ops_states_its_likelihood_power_and_gaussian_its_rho(dpbayes: Cli) -> None:
    planned = dpbayes(*PAPER, "--mechanism", "ops", "--eps", "0.1").json
    assert planned["parameters"]["likelihood_power"] == pytest.approx(0.1 / 4.394449, rel=1e-5)
    assert planned["expected"]["coverage"] is None
    planned = dpbayes(*PAPER, "--mechanism", "rdp-diffuse", "--eps", "0.1", "--order", "2").json
    assert (planned["guarantee"]["kind"], planned["guarantee"]["rho"]) == ("rdp", None)
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
    planned = [offer for offer in offers if "refused" not in offer]
    ranked = [(offer["costs_more"], offer["expected"]["inflation"]) for offer in planned]
    assert ranked == sorted(ranked)
    dearer = {offer["mechanism"] for offer in planned if offer["costs_more"]}
    assert dearer == {"rdp-concentrated", "rdp-diffuse"}, "a Renyi curve has no pure epsilon, which was asked"
    assert planned[0]["mechanism"] == "laplace"
    asked = dpbayes(*PAPER, "--mechanism", "rdp-diffuse", "--eps", "0.1", "--compare").json
    assert not any(offer["costs_more"] for offer in asked if "refused" not in offer)
    refused = {offer["mechanism"]: offer["refused"] for offer in offers if "refused" in offer}
    assert "rho" in refused["gaussian"]
    assert "true posterior costs" in refused["rdp-direct"]


def test_a_plan_begins_with_what_to_expect(dpbayes: Cli) -> None:
    shown = dpbayes(*COIN[:-1], "--eps", "0.5", "--trials", "20").out
    first, rest = " ".join(shown.split("\n\n")[0].split()), shown.split("\n\n")[2]
    assert first.startswith("At epsilon 0.5, expect a 90 % interval for theta about ")
    assert "percentage points wide; without privacy it would be " in first
    assert rest.startswith("guarantee epsilon 0.5")
    assert max(map(len, shown.splitlines())) <= 80


def test_a_target_gives_the_smallest_epsilon_that_reaches_it(dpbayes: Cli) -> None:
    """All epsilons see the same data: the plan at the found epsilon reaches the target, at 70 % of it it does not."""
    wanted = 0.2
    planned = dpbayes(*COIN, "--target-width", str(wanted), "--trials", "16").json
    smallest = planned["target"]["found"]
    assert smallest["low"] <= float(smallest["value"])
    assert smallest["high"] is None, "the largest of 16 values may be below the 90 % quantile"
    assert f"about {smallest['value']}" in planned["sentences"][0]
    widths = [
        dpbayes(*COIN, "--eps", str(share * float(smallest["value"])), "--trials", "16").json["expected"]["intervals"]
        for share in (1.0, 0.7)
    ]
    reached, missed = (each["theta"]["width_9_in_10"] for each in widths)
    assert reached <= 1.03 * wanted < missed  # three percent: the Monte Carlo error of the drawn posteriors


def test_a_target_that_the_prior_reaches_is_refused(dpbayes: Cli) -> None:
    """Who types 4 for 4 percentage points gets no epsilon."""
    dpbayes(*COIN[:-1], "--target-width", "4", "--trials", "2").exits(3, "4 percentage points are 0.04")


def test_a_target_that_sampling_error_exceeds_asks_for_records(dpbayes: Cli) -> None:
    planned = dpbayes(*COIN, "--target-sd", "0.001", "--trials", "8").json
    assert planned["target"]["found"]["value"] is None
    assert planned["sentences"][0].startswith("No epsilon up to 20 gives a standard deviation of theta of at most 0.1")
    assert "times as many records" in planned["sentences"][0]


@pytest.mark.parametrize(
    ("request_flags", "warning"),
    [
        (["beta-bernoulli", "--eps", "0.0005"], "no narrower than before the release"),
        (["logistic-regression", "--spec", "regression.yaml"], "no better than guessing the commonest class"),
        (["beta-bernoulli", "--mechanism", "rdp-concentrated", "--eps", "0.01", *IMPUTED], "more about the prior"),
    ],
)
def test_an_answer_that_is_worth_nothing_is_said_to_be(
    dpbayes: Cli, place: Path, request_flags: list[str], warning: str
) -> None:
    (place / "regression.yaml").write_text(REGRESSION)
    planned = dpbayes("plan", "--model", *request_flags, "--records", "100", "--trials", "4", "--json").json
    assert any(each.startswith("WARNING: ") and warning in each for each in planned["sentences"])


@pytest.mark.usefixtures("short_searches")
def test_a_regression_states_what_predictions_are_worth(dpbayes: Cli, place: Path) -> None:
    (place / "regression.yaml").write_text(REGRESSION.replace("0.05", "1"))
    planned = dpbayes("plan", "--spec", "regression.yaml", "--records", "5000", "--trials", "2", "--json").json
    predictions = planned["expected"]["predictions"]
    assert predictions["measure"] == "accuracy"
    assert predictions["guessing_score"] <= predictions["score"]["median"] <= predictions["nonprivate_score"] + 0.02
    assert planned["sentences"][0].startswith("At epsilon 1 and delta 0.000001, expect about ")
    assert any(each.startswith("Features are simulated with any spread") for each in planned["sentences"])
    assert not any("targets are equal" in each for each in planned["sentences"])


@pytest.mark.usefixtures("short_searches")
def test_plans_by_the_wide_default_prior_leave_out_data_sets_of_one_class(
    dpbayes: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the limit, the median of the commonest class's share is .94 in this plan; the seed is fixed."""
    monkeypatch.setattr("dpbayes_cli.workflow.simulated_coefficients.COMMONEST", 0.6)
    (place / "regression.yaml").write_text(REGRESSION.replace("prior: {precision: 0.1}\n", ""))
    planned = dpbayes("plan", "--spec", "regression.yaml", "--records", "100", "--trials", "4", "--json").json
    assert planned["expected"]["predictions"]["guessing_score"] <= 0.62
    assert any("more than 60 % of the targets are equal" in each for each in planned["sentences"])


def test_regressions_are_compared_on_the_same_data_sets_each_with_its_own_prior(dpbayes: Cli, place: Path) -> None:
    (place / "regression.yaml").write_text(REGRESSION.replace("0.05", "1").replace("prior: {precision: 0.1}\n", ""))
    request = ("plan", "--spec", "regression.yaml", "--records", "5000", "--trials", "1")
    alone = dpbayes(*request, "--json").json["expected"]
    ours, draws, *_ = dpbayes(*request, "--compare", "--json").json
    assert (ours["mechanism"], draws["mechanism"]) == ("noisy-newton", "gibbs-posterior")
    assert ours["expected"] == alone
    prior_widths = [next(iter(each["expected"]["intervals"].values()))["prior_width"] for each in (ours, draws)]
    assert prior_widths[0] > 4.0 * prior_widths[1]
    assert ours["expected"]["nonprivate_effect_error"] < ours["expected"]["effect_error"]
    less = 100.0 * (1.0 - ours["expected"]["effect_error"] / draws["expected"]["effect_error"])
    shown = " ".join(dpbayes(*request, "--compare").out.split())
    assert f"effects estimated by noisy-newton err {less:.0f} % less than those of gibbs-posterior" in shown
    assert "true ones are drawn from noisy-newton's prior" in shown


@pytest.mark.usefixtures("short_searches")
def test_errors_of_effects_need_neither_contrasts_nor_all_records(dpbayes: Cli, place: Path) -> None:
    """Rows that are clipped have no contrasts; of more than 10,000 records, 10,000 are simulated. Seeds are fixed."""
    document = REGRESSION.replace("0.05", "1").replace("prior: {precision: 0.1}\n", "")
    (place / "clipped.yaml").write_text(document.replace("features:", "norm: 1\n  features:"))
    (place / "regression.yaml").write_text(document)
    clipped = dpbayes("plan", "--spec", "clipped.yaml", "--records", "500", "--trials", "1", "--json").json["expected"]
    assert clipped["effect_error"] > clipped["nonprivate_effect_error"] > 0.0
    errors = []
    for n in "10000", "1000000":
        request = ("plan", "--spec", "regression.yaml", "--records", n, "--trials", "2")
        errors.append(dpbayes(*request, "--json").json["expected"]["nonprivate_effect_error"])
    assert errors[1] < 0.3 * errors[0], "the sampling error falls by ten times"


def test_privacy_does_not_seem_to_help_predictions() -> None:
    expected = ExpectedPredictions("accuracy", Estimated(0.72, 0.65, 0.8), nonprivate_score=0.71, guessing_score=0.5)
    assert "without privacy it would be about the same" in _predictions(expected)
    assert "without privacy it would be 74 %" in _predictions(replace(expected, nonprivate_score=0.74))


def test_wrong_requests_are_refused(dpbayes: Cli) -> None:
    for records in ([], ["--records", "0"], ["--records", "many"]):
        assert dpbayes("plan", "--model", "beta-bernoulli", "--eps", "1", *records).code == 2
    dpbayes(*COIN, "--eps", "1", "--parameter", "thet", "--trials", "2").exits(3, "theta")
    dpbayes(*COIN, "--target-width", "0.1", "--parameter", "thet").exits(3, "theta")
    assert dpbayes(*COIN, "--target-width", "0.1", "--compare").code == 2
    assert dpbayes(*COIN, "--target-width", "0").code == 2


def test_a_plan_prices_the_release_in_every_kind_of_account(dpbayes: Cli) -> None:
    """One count at epsilon 0.1 has noise of scale 10: rho is 1/200, and mu^2 is 4 Phi^-1(e^0.1 / (1 + e^0.1))^2."""
    planned = dpbayes(*COIN, "--eps", "0.1", *IMPUTED, "--trials", "0").json
    pure, renyi, zcdp, gdp = planned["accounts"]
    assert pure == {"kind": "pure", "total": {"epsilon": 3.0}, "cost": {"epsilon": 0.1}, "times": 30}
    assert (renyi["kind"], renyi["total"]) == ("renyi", {"epsilon": 3.0, "delta": 1e-6})
    moments = sum(math.tanh(0.05) * math.exp(-0.1 * (12 * abs(k) - 11 * abs(k - 1))) for k in range(-3000, 3000))
    assert (renyi["cost"], renyi["times"]) == ({"rdp(12)": pytest.approx(math.log(moments) / 11, rel=1e-9)}, 36)
    assert (zcdp["kind"], zcdp["cost"]) == ("zcdp", {"rho": pytest.approx(0.005)})
    assert zcdp["total"] == {"rho": pytest.approx(0.18507, rel=1e-4)}
    assert zcdp["times"] == 37
    assert (gdp["kind"], gdp["cost"]) == ("gdp", {"mu_squared": pytest.approx(0.0157, rel=1e-2)})
    assert gdp["times"] == int(gdp["total"]["mu_squared"] / gdp["cost"]["mu_squared"])
    pays = "A new account of epsilon 3 pays for 30 such releases; if it also has delta 0.000001, it pays for 36."
    assert planned["sentences"][-1] == pays
    shown = dpbayes(*COIN[:-1], "--eps", "0.1", *IMPUTED, "--trials", "0", "-v").out
    accounts = [" ".join(line.split()) for line in shown.splitlines()[-4:]]
    assert [each.partition(" 3")[0].partition(" 0.")[0] for each in accounts] == [
        "epsilon epsilon", "epsilon, delta epsilon", "rho rho", "mu mu^2",
    ]  # fmt: skip
    assert "epsilon 3, delta 0.000001 Renyi epsilon " in accounts[1]
    assert accounts[1].endswith(" at order 12 36")
    assert "1e-06" not in shown
    assert "20" in re.findall(r"(?m)^scale +(\S+)$", dpbayes(*COIN[:-1], "--eps", "0.1", "--trials", "0", "-v").out)


def test_a_release_that_an_account_cannot_pay_for_has_no_cost_in_it(dpbayes: Cli) -> None:
    planned = dpbayes(*COIN, "--mechanism", "gaussian", "--rho", "0.01", "--trials", "0").json
    times = {each["kind"]: (each["cost"] is None, each["times"]) for each in planned["accounts"]}
    assert times == {"pure": (True, 0), "renyi": (False, 15), "zcdp": (False, 18), "gdp": (True, 0)}
    assert "pays for no such release, because the release has no pure epsilon; " in planned["sentences"][-1]
    planned = dpbayes(*COIN, "--eps", "1.5", "--trials", "0").json
    assert planned["sentences"][-1] == "A new account of epsilon 3 pays for 2 such releases."
    planned = dpbayes(*COIN, "--eps", "4", "--trials", "0").json
    assert planned["sentences"][-1].endswith("with or without delta 0.000001, cannot pay for such a release.")
    planned = dpbayes(*COIN, "--mechanism", "gaussian", "--rho", "0.18", "--trials", "0").json
    pays = "cannot pay for such a release; one of zCDP that implies epsilon 3 at this delta pays for 1."
    assert planned["sentences"][-1].endswith(pays)


def test_a_comparison_says_how_often_an_account_pays(dpbayes: Cli) -> None:
    shown = dpbayes(*COIN[:-1], "--eps", "0.1", *IMPUTED, "--trials", "5", "--compare", "-v").out
    assert "has the narrowest posterior: its sd is" in shown or "about equally narrow" in shown
    head = next(line for line in shown.splitlines() if line.startswith("mechanism"))
    row = next(line for line in shown.splitlines() if line.startswith("laplace ")).split()
    assert row[head.replace("epsilon at delta", "a b c").split().index("times")] == "36"
    assert any(line.startswith("rdp-diffuse* ") for line in shown.splitlines())
    assert "\nnot possible: gaussian: privacy: gaussian needs rho" in shown
    costs = next(line for line in shown.splitlines() if line.startswith("laplace ") and "rho" in line).split()
    assert (costs[1:4], costs[costs.index("rho") :][:3]) == (["epsilon", "0.1:", "30"], ["rho", "0.005:", "37"])
