"""Claims: where a summary tells them, that they can fail, and that one which fails is no failure of the command."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.calibration.claims import claims as calibration_claims
from dpbayes_cli.experiments.claims import OURS, Claim, claims_section, listed, with_claims
from dpbayes_cli.experiments.hmm.claims import claims as hmm_claims
from dpbayes_cli.experiments.kinds import KINDS, build_study
from dpbayes_cli.experiments.linear_regression.claims import claims as linear_claims
from dpbayes_cli.experiments.logistic_regression import claims as logistic
from dpbayes_cli.experiments.logistic_regression.comparison import MethodDifference
from dpbayes_cli.experiments.stamped import figure_files, figure_formats, stamped_panels
from dpbayes_cli.experiments.store import FinishedCell
from tests.conftest import ROOT, Cli
from tests.experiments.studies import SMALL, grid

TRUE = Claim("[X] Figure 1", "it is so.", True, "3 of 3")
FALSE = Claim(OURS, "it is not so.", False, "0 of 3", "chance")
UTILITY: dict[str, Any] = {
    "study": "renyi-utility",
    "name": "tiny",
    "orders": ["2"],
    "epsilon": ["1"],
    "methods": ["gaussian", "gaussian-naive"],
    "cases": {"coin": {"n": "10", "successes": "4"}},
}


def finished(measures: dict[str, float | None], trials: dict[str, list[float]] | None = None) -> FinishedCell:
    return FinishedCell(stamp=NOT_PRIVATE, definition={}, measures=measures, trials=trials or {}, seconds=0.0)


# --- where they stand ------------------------------------------------------------------------------------------------


def test_a_summary_tells_its_claims_before_everything_else() -> None:
    text = with_claims(b"# Study\n\n**NOT PRIVATE**\n\n## first\n\nx\n", [TRUE, FALSE]).decode()
    assert [line for line in text.splitlines() if line.startswith("#")] == ["# Study", "## Claims", "## first"]
    assert "| [X] Figure 1 | it is so. | holds | 3 of 3 |  |" in text
    assert f"| {OURS} | it is not so. | **does not hold** | 0 of 3 | chance |" in text
    assert text.endswith("## first\n\nx\n")
    assert with_claims(b"# Study\n", [TRUE]).decode().count("## Claims") == 1
    assert "tell nothing" in claims_section([])
    assert (listed([1, "b"]), listed([])) == ("1, b", "nowhere")


@pytest.mark.slow
def test_a_claim_that_does_not_hold_is_told_and_is_no_failure(dpbayes: Cli, place: Path) -> None:
    """One draw that knows the noise is further from the posterior than a naive one, averaged over the noise."""
    Path("tiny.yaml").write_text(yaml.safe_dump(UTILITY), encoding="utf-8")
    done = dpbayes("experiment", "tiny.yaml", "--jobs", "1", "--json", "--format", "svg,png")
    (claim,) = done.json["claims"]
    assert (done.code, claim["source"], claim["holds"]) == (0, OURS, False)
    assert claim["says"].startswith("coin, order 2: knowing the noise")
    assert claim["measured"]
    shown = dpbayes("experiment", "tiny.yaml", "--jobs", "1")
    assert f"\ndoes not hold: {OURS}, coin, order 2: knowing the noise" in shown.out
    summary = (place / "experiment-tiny" / "summary.md").read_text(encoding="utf-8")
    assert "**does not hold**" in summary
    assert {"kl.svg", "kl.png", "log-likelihood.svg", "log-likelihood.png"} < {
        path.name for path in (place / "experiment-tiny").iterdir()
    }


def test_a_figure_is_stamped_in_every_format() -> None:
    assert (figure_formats("svg"), figure_formats("svg,png")) == (("svg",), ("svg", "png"))
    figure = stamped_panels([("a",)], 1, lambda axes, name: axes.set_title(name), "one")
    files = figure_files({"one": figure}, ("svg", "png"))
    assert files["one.png"].startswith(b"\x89PNG")
    assert NOT_PRIVATE.encode() in files["one.png"]
    assert f">{NOT_PRIVATE}<" in files["one.svg"].decode()
    assert files == figure_files({"one": figure}, ("svg", "png")), "the same bytes for the same figure"


def test_the_gallery_names_every_study() -> None:
    gallery = (ROOT / "README.md").read_text(encoding="utf-8").split("### Gallery")[1].split("\n## ")[0]
    configs = [path.name for path in (ROOT / "configs" / "experiments").glob("*.yaml")]
    assert len(configs) == len(KINDS)
    assert [name for name in configs if f"`{name}`" not in gallery] == []


# --- calibration -----------------------------------------------------------------------------------------------------


def of_calibration(**changes: float) -> dict[str, Claim]:
    """The claims of the small study with measures that bear them out, but for those that are stated."""
    ks = {"noise-aware": 0.2, "non-private": 0.2, "naive": 0.9, "ops": 0.8} | changes
    results = []
    for cell in grid(SMALL):
        value = ks[cell.method] * (0.1 if cell.method == "naive" and cell.n_records == 40 else 1.0)
        measures: dict[str, float | None] = {
            "ks": value,
            "ks_p_value": 0.5 if value < 0.3 else 1e-9,
            "coverage": changes.get("coverage", 0.99),
            "mmd_squared": {"noise-aware": changes.get("mmd", 0.1), "naive": 0.2}.get(cell.method, 0.0),
            "mmd_squared_error": 0.01,
        }
        results.append((cell, finished(measures)))
    study: Any = build_study(SMALL)
    return {claim.says: claim for claim in calibration_claims(study, results)}


def test_what_bernstein_and_sheldon_show_holds_where_it_is_measured() -> None:
    found = of_calibration()
    assert [claim.holds for claim in found.values()] == [True] * 5
    assert "largest KS distance 0.200 (non-private 0.200)" in next(iter(found.values())).measured


@pytest.mark.parametrize(
    ("change", "which"),
    [
        ({"noise-aware": 0.6}, "Noise-aware posteriors are as calibrated"),
        ({"naive": 0.2}, "naive posteriors are too confident"),
        ({"ops": 0.2}, "Posterior samples are never calibrated"),
        ({"coverage": 0.5}, "Posterior samples are never calibrated"),
        ({"mmd": 0.4}, "Noise-aware posteriors are at least as near"),
    ],
)
def test_each_of_them_can_fail(change: dict[str, float], which: str) -> None:
    assert [says for says, claim in of_calibration(**change).items() if not claim.holds] == [
        says for says in of_calibration() if which in says
    ]


# --- hidden Markov models, regressions -------------------------------------------------------------------------------


def of_hmm(ahead: float) -> dict[str, bool]:
    level = {"non-private": 0.0, "laplace": ahead, "laplace-naive": 0.0, "ops": -1.0, "gibbs": -2.0}
    study: Any = SimpleNamespace(cases={"log": None}, states=(2, 1), methods=tuple(level), epsilon=("1", "3"))
    results: Any = [
        (SimpleNamespace(name="log", states=states, epsilon=epsilon, method=method), finished({}, {"log_likelihood": [
            value, value + 0.1
        ]}))
        for states in (2, 1)
        for epsilon in study.epsilon
        for method, value in level.items()
    ]  # fmt: skip
    return {claim.says: claim.holds for claim in hmm_claims(study, results)}


def test_claims_about_hidden_markov_models_can_fail() -> None:
    found = of_hmm(1.0)
    assert len(found) == 5 + 3
    assert all(found.values())
    missed = [says for says, holds in of_hmm(-1.5).items() if not holds]
    assert len(missed) == 4, "behind ops, and behind counts taken for true, with two states and with one"


def difference(error: float) -> MethodDifference:
    return MethodDifference("1", False, error, 0.01, 0.0, 0.01, 1.0)


@pytest.mark.parametrize(("error", "holds"), [(-0.1, [True, True]), (0.0, [False, True]), (0.1, [False, False])])
def test_claims_about_logistic_regressions_can_fail(
    error: float, holds: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That one is below another needs a clear difference; that it is not above is refuted by one."""
    monkeypatch.setattr(logistic, "families", lambda _: ["order 1"])
    monkeypatch.setattr(logistic, "differences", lambda *_: [difference(error)])
    study: Any = SimpleNamespace(cases={"case": None})
    found = logistic.claims(study, [])
    assert [found[0].holds, found[2].holds] == holds
    assert ("against it" in found[2].measured) == (not holds[1])


@pytest.mark.parametrize(("wide", "holds"), [(5.0, True), (0.1, False)])
def test_claims_about_linear_regressions_can_fail(wide: float, holds: bool) -> None:
    methods = ("non-private", "truncated-sampler")
    case = SimpleNamespace(methods=methods)
    study: Any = SimpleNamespace(cases={"x": case}, prior_variance=("1", "10"), epsilon=("1", "100"), methods=methods)
    excess = {("1", "1"): 1.0, ("1", "100"): 0.05, ("10", "1"): wide, ("10", "100"): wide / 50.0}
    results: Any = [
        (SimpleNamespace(name="x", prior_variance=v, epsilon=None, method="non-private"), finished({"mse": 1.0}))
        for v in study.prior_variance
    ]
    results += [
        (
            SimpleNamespace(name="x", prior_variance=v, epsilon=epsilon, method="truncated-sampler"),
            finished({"mse": 1.0 + value}),
        )
        for (v, epsilon), value in excess.items()
    ]
    falls, narrow = linear_claims(study, results)
    assert (falls.holds, narrow.holds) == (True, holds)
