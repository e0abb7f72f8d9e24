"""The file of a study: what is wrong is named, with its place and a next step."""

from __future__ import annotations

from typing import Any

import pytest

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.registry import model_type
from dpbayes_cli.core.section import require_type
from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.calibration import Calibration
from dpbayes_cli.experiments.store import study_yaml
from dpbayes_cli.experiments.studies import build_study, read_study
from dpbayes_cli.experiments.study import overridden, restricted
from dpbayes_cli.spec.yaml_reader import parse_yaml
from tests.conftest import ROOT
from tests.experiments.studies import SMALL, changed, grid

CALIBRATION = ROOT / "configs" / "experiments" / "calibration.yaml"


def test_defaults_and_exact_prices_are_written_out() -> None:
    study = Calibration.build(changed("epsilon", ["0.10", "1e-2"]))
    assert study.epsilon == ("0.1", "0.01")
    assert study.cases["coin"].domain == {"success": None, "failure": None}
    assert study.cases["dice"].prior == {"concentration": 5.0}
    assert (study.mechanism, study.mmd, study.ops.draws) == ("laplace", True, 20)


def test_a_file_without_a_kind_is_a_calibration_study() -> None:
    assert build_study(SMALL) == Calibration.build(SMALL) == build_study(changed("study", "calibration"))
    with pytest.raises(SpecError, match="no study 'classify'") as error:
        build_study(changed("study", "classify"))
    assert error.value.hint.startswith("allowed: calibration, classification, ")


def test_the_canonical_file_is_the_same_study() -> None:
    study = Calibration.build(SMALL)
    text = study_yaml(study).decode()
    assert text.startswith(f"# {NOT_PRIVATE}")
    assert Calibration.build(parse_yaml(text)) == study


@pytest.mark.parametrize(
    ("path_and_value", "where", "hint"),
    [
        (("trails", "3"), "trails", "'trials'"),
        (("ops", "tempers", "1"), "ops.tempers", "'temper'"),
        (("cases", "coin", "priors", {}), "cases.coin.priors", "'prior'"),
        (("cases", "coin", "prior", "alfa", "1"), "cases.coin.prior.alfa", "'alpha'"),
        (("cases", "coin", "model", "beta-bernouli"), "cases.coin.model", "'beta-bernoulli'"),
        (("cases", "dice", "domain", None), "cases.dice.domain", "--categories"),
        (("cases", "dice", "unclamped", {"kategories": []}), "cases.dice.domain.kategories", "'categories'"),
        (("cases", "a b", {"model": "beta-bernoulli"}), "cases.a b", ""),
        (("cases", None), "cases", "NAME:"),
        (("methods", ["noise-award"]), "methods", ""),
        (("n", None), "n", "state it"),
        (("n", ["10", "10"]), "", ""),
        (("n", ["0"]), "n", ""),
        (("epsilon", ["0"]), "epsilon", ""),
        (("epsilon", ["many"]), "", ""),
        (("trials", "1"), "trials", ""),
        (("draws", "10000000"), "draws", ""),
        (("name", "../x"), "", ""),
    ],
)
def test_what_is_wrong_is_named(path_and_value: tuple[Any, ...], where: str, hint: str) -> None:
    with pytest.raises(SpecError) as error:
        Calibration.build(changed(*path_and_value))
    assert where in error.value.message
    assert hint in error.value.hint


@pytest.mark.parametrize(
    ("path_and_value", "message"),
    [
        (("cases", "dice", "parameter", "theta[d]"), "no parameter 'theta[d]'"),
        (("mechanism", "ops"), "adds no noise"),
        (("mechanism", "laplas"), "no mechanism"),
    ],
)
def test_what_cannot_be_simulated_is_refused_before_it_is(path_and_value: tuple[Any, ...], message: str) -> None:
    with pytest.raises(SpecError, match=message.replace("[", r"\[")):
        Calibration.build(changed(*path_and_value)).grid()


@pytest.mark.parametrize(
    ("path_and_value", "where"),
    [
        (("cases", "coin", "support", ["0.9", "0.1"]), "cases.coin.support: the support is [0.9, 0.1]"),
        (("cases", "dice", "support", ["0.4", "0.8"]), "cases.dice.support: "),
        (
            ("cases", "dice", "domain", "categories", [*map(str, range(64)), "b"]),
            "cases.dice: the model has 65 probabilities",
        ),
    ],
)
def test_what_cannot_be_priced_is_refused_at_the_start(path_and_value: tuple[Any, ...], where: str) -> None:
    with pytest.raises(SpecError) as error:
        grid(changed(*path_and_value))
    assert error.value.message.startswith(where)


def test_a_model_without_inference_from_noisy_statistics_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        """A model that cannot be inferred from its noisy statistic."""

    real = model_type("beta-bernoulli")
    place = "dpbayes_cli.experiments.calibration"
    monkeypatch.setattr(f"{place}.model_names", lambda: ["beta-bernoulli", "dirichlet-categorical"])
    monkeypatch.setattr(f"{place}.model_type", lambda name: real if name == "beta-bernoulli" else Silent)
    with pytest.raises(SpecError, match=r"cases\.dice\.model: .* cannot be studied") as error:
        grid(SMALL)
    assert "allowed: beta-bernoulli;" in error.value.hint


def test_some_cases_alone_and_other_trials() -> None:
    study = Calibration.build(SMALL)
    assert [point.case for point in restricted(study, ("dice",)).grid()] == ["dice"] * 8
    assert (overridden(study, trials=3, seed=None).trials, overridden(study, trials=None, seed=9).seed) == (3, 9)
    with pytest.raises(SpecError, match="no case 'dic'") as error:
        restricted(study, ("dic",))
    assert error.value.hint == "did you mean 'dice'?"


def test_the_study_of_the_paper_is_its_grid() -> None:
    study = require_type(read_study(CALIBRATION), Calibration)
    assert (study.n, study.epsilon, study.trials) == ((10, 30, 100, 300, 1000), ("0.01", "0.1"), 300)
    assert {case.model for case in study.cases.values()} == {
        "beta-bernoulli", "dirichlet-categorical", "gamma-exponential",
    }  # fmt: skip
    assert len({point.digest for point in study.grid()}) == len(study.grid()) == 120


def test_a_point_is_defined_by_what_its_numbers_depend_on() -> None:
    digests = {(c.case, c["n"], c["method"]): c.digest for c in grid(SMALL)}

    def differing(*path_and_value: Any) -> set[tuple[str, int, str]]:
        other = grid(changed(*path_and_value))
        return {key for c in other if digests.get(key := (c.case, c["n"], c["method"])) != c.digest}

    assert differing("name", "other") == set()
    assert differing("n", ["10", "40", "70"]) == {(c, 70, m) for c in SMALL["cases"] for m in SMALL["methods"]}
    assert differing("ops", "draws", "30") == {(c, n, "ops") for c in SMALL["cases"] for n in (10, 40)}
    assert differing("cases", "coin", "support", ["0.2", "0.8"]) == {("coin", n, "ops") for n in (10, 40)}
    assert differing("seed", "8") == set(digests)
    assert differing("cases", "dice", "prior", {"concentration": "4"}) == {k for k in digests if k[0] == "dice"}
