"""Claims: where a summary tells them, that they can fail, and that one which fails is no failure of the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.plots import figure_files, stamped_panels
from dpbayes_cli.experiments.results import OURS, Claim, Comparison, Difference, GridPoint, Result, Results
from dpbayes_cli.experiments.runner import summary
from dpbayes_cli.experiments.study import build_study
from tests.conftest import Cli
from tests.experiments.studies import CALIBRATION, HMM, LINEAR

TRUE = Claim("[X] Figure 1", "it is so.", True, "3 of 3")
FALSE = Claim(OURS, "it is not so.", False, "0 of 3", "chance")
UTILITY: dict[str, Any] = {
    "study": "renyi-utility", "name": "tiny", "orders": ["2"], "epsilon": ["1"],
    "methods": ["gaussian", "gaussian-naive"], "cases": {"coin": {"n": "10", "successes": "4"}},
}  # fmt: skip


def result(
    place: dict[str, Any], measures: dict[str, float | None], trials: dict[str, list[float]] | None = None
) -> Result:
    return Result(GridPoint(place, {}, place), measures, trials or {})


def test_a_summary_tells_its_claims_before_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    study = build_study(UTILITY)
    monkeypatch.setattr(type(study), "claims", lambda *_: [TRUE, FALSE])
    place = {"case": "coin", "order": "2", "epsilon": "1", "method": "gaussian"}
    measures: dict[str, float | None] = dict.fromkeys(study.measures, 0.5)
    results = Results([result(place, measures)])
    text = summary(study, results, ["kl.svg"])
    headings = ["# Study `tiny`", "## Claims", "## coin", "## Figures"]
    assert [line for line in text.splitlines() if line.startswith("#")] == headings
    assert "| [X] Figure 1 | it is so. | holds | 3 of 3 |  |" in text
    assert f"| {OURS} | it is not so. | **does not hold** | 0 of 3 | chance |" in text
    assert "| 2 | 1 | gaussian | 0.5 | " in text
    monkeypatch.setattr(type(study), "claims", lambda *_: [])
    assert "These results decide no claim" in summary(study, results, [])


@pytest.mark.slow
@pytest.mark.calibration
def test_a_claim_that_does_not_hold_is_told_and_is_no_failure(dpbayes: Cli, place: Path) -> None:
    """One draw that knows the noise is further from the posterior than a naive one, averaged over the noise."""
    Path("tiny.yaml").write_text(yaml.safe_dump(UTILITY), encoding="utf-8")
    done = dpbayes("experiment", "tiny.yaml", "--jobs", "1", "--json", "--format", "svg,png")
    (claim,) = done.json["claims"]
    assert (done.code, claim["source"], claim["holds"]) == (0, OURS, False)
    assert claim["says"].startswith("coin, order 2: noise-aware inference")
    assert claim["measured"]
    shown = dpbayes("experiment", "tiny.yaml", "--jobs", "1")
    assert f"\ndoes not hold: {OURS}, coin, order 2: noise-aware inference" in shown.out
    summary = (place / "experiment-tiny" / "summary.md").read_text(encoding="utf-8")
    assert "**does not hold**" in summary
    assert {"kl.svg", "kl.png", "log-likelihood.svg", "log-likelihood.png"} < {
        path.name for path in (place / "experiment-tiny").iterdir()
    }


@pytest.mark.slow
def test_a_figure_is_stamped_in_every_format() -> None:
    figure = stamped_panels([("a",), ("b",), ("c",)], 2, lambda axes, name: axes.set_title(name), "one")
    files = figure_files({"one": figure}, ("svg", "png"))
    assert files["one.png"].startswith(b"\x89PNG")
    assert NOT_PRIVATE.encode() in files["one.png"]
    assert f">{NOT_PRIVATE}<" in files["one.svg"].decode()
    assert files["one.svg"].count(b'id="patch_') == 1 + 3 * 5, "a row of panels may be short"
    assert files == figure_files({"one": figure}, ("svg", "png")), "the same bytes for the same figure"


@pytest.mark.parametrize(
    ("signs", "values", "holds"),
    [
        ({"always": -1}, (-0.1, -0.2), True), ({"always": -1}, (-0.1, 0.0), False), ({"never": 1}, (-0.1, 0.0), True),
        ({"never": 1}, (-0.1, 0.1), False), ({"never": -1, "some": 1}, (0.0, 0.1), True),
        ({"never": -1, "some": 1}, (0.0, 0.0), False),
    ],
)  # fmt: skip
def test_a_claim_about_differences_follows_from_their_signs(
    signs: dict[str, int], values: tuple[float, ...], holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That one is below another needs a clear difference; that it is not above is refuted by one."""
    differences = {f"epsilon {k}": Difference(value, 0.01) for k, value in enumerate(values)}
    monkeypatch.setattr(Results, "differences", lambda *_: differences)
    (claim,) = Comparison(OURS, "a", "b", "it is so", "chance", **signs).claims("here", Results(), "x", 3.0)
    assert (claim.holds, claim.why) == (holds, "" if holds else "chance")
    assert f"epsilon 1: {values[1]:+.4f} ± 0.0100" in claim.measured


def test_methods_are_compared_at_one_cost_and_not_with_themselves() -> None:
    def of(method: str, epsilon: str | None, values: list[float], law: str) -> Result:
        place = {"case": "one", "epsilon": epsilon, "method": method}
        return Result(GridPoint(place, {}, {"law": law}), {}, {"x": values})

    own = Results(
        [of("a", "1", [1.0, 3.0], "1"), of("a", "2", [1.0, 3.0], "2"), of("b", "1", [0.0, 1.0], "3"),
         of("b", "2", [0.0, 1.0], "2"), of("free", None, [1.0, 1.0], "4")]
    )  # fmt: skip
    assert own.differences("a", "b", "x") == {"epsilon 1": Difference(1.5, 0.5)}
    assert set(own.differences("a", "free", "x")) == {"epsilon 1", "epsilon 2"}
    assert list(Comparison(OURS, "a", "nobody", "it is so").claims("here", own, "x", 3.0)) == []


def of_calibration(**changes: float) -> dict[str, Claim]:
    """The claims of the small study with measures that bear them out, but for those that are stated."""
    ks = {"noise-aware": 0.2, "non-private": 0.2, "naive": 0.9, "ops": 0.8} | changes
    study, results = build_study(CALIBRATION), []
    for point in study.grid():
        method = point["method"]
        value = ks[method] * (0.1 if method == "naive" and point["n"] == 40 else 1.0)
        measures: dict[str, float | None] = {
            "ks": value,
            "ks_p_value": 0.5 if value < 0.3 else 1e-9,
            "coverage": changes.get("coverage", 0.99),
            "mmd_squared": {"noise-aware": changes.get("mmd", 0.1), "naive": 0.2}.get(method, 0.0),
            "mmd_squared_error": 0.01,
        }
        results.append(Result(point, measures, {}))
    return {claim.says: claim for claim in study.claims(Results(results))}


def test_what_bernstein_and_sheldon_show_holds_where_it_is_measured() -> None:
    results = of_calibration()
    assert [claim.holds for claim in results.values()] == [True] * 6
    assert "largest KS distance 0.200 (non-private 0.200)" in next(iter(results.values())).measured


@pytest.mark.parametrize(
    ("change", "which"),
    [
        ({"noise-aware": 0.6}, "Noise-aware posteriors are as calibrated"),
        ({"naive": 0.2}, "naive posteriors are too confident"),
        ({"ops": 0.2}, "Released posterior draws are never calibrated"),
        ({"coverage": 0.5}, "Released posterior draws are never calibrated"),
        ({"mmd": 0.4}, "Noise-aware posteriors are nowhere further"),
    ],
)
def test_each_of_them_can_fail(change: dict[str, float], which: str) -> None:
    assert [says for says, claim in of_calibration(**change).items() if not claim.holds] == [
        says for says in of_calibration() if which in says
    ]


def of_hmm(ahead: float) -> dict[str, bool]:
    level = {"non-private": 0.0, "laplace": ahead, "laplace-naive": 0.0, "ops": -1.0, "gibbs": -2.0}
    results = Results(
        result(
            {"case": "units", "states": states, "epsilon": epsilon, "method": method},
            {},
            {"log_likelihood": [value, value + 0.1]},
        )
        for states in (2, 1)
        for epsilon in HMM["epsilon"]
        for method, value in level.items()
    )
    study = build_study({**HMM, "states": ["2", "1"]})
    return {claim.says: claim.holds for claim in study.claims(results)}


def test_claims_about_hidden_markov_models_can_fail() -> None:
    results = of_hmm(1.0)
    assert len(results) == 5 + 3
    assert all(results.values())
    missed = [says for says, holds in of_hmm(-1.5).items() if not holds]
    assert len(missed) == 4, "behind ops, and behind plug-in counts, with two states and with one"


@pytest.mark.parametrize(("wide", "holds"), [(5.0, True), (0.1, False)])
def test_claims_about_linear_regressions_can_fail(wide: float, holds: bool) -> None:
    study = build_study({**LINEAR, "cases": {"two": LINEAR["cases"]["two"]}})
    excess = {("0.1", "1"): 1.0, ("0.1", "1000"): 0.05, ("1", "1"): wide, ("1", "1000"): wide / 50.0}
    exact = {"case": "two", "epsilon": None, "method": "non-private"}
    results = [result({**exact, "prior_variance": v}, {"mse": 1.0}) for v in ("0.1", "1")]
    results += [
        result({"case": "two", "prior_variance": v, "epsilon": e, "method": "truncated-sampler"}, {"mse": 1.0 + value})
        for (v, e), value in excess.items()
    ]
    falls, narrow = study.claims(Results(results))
    assert (falls.holds, narrow.holds) == (True, holds)
