"""The file of a study: what is wrong is named, with its place and a next step; points depend on what they use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.calibration import Calibration
from dpbayes_cli.experiments.runner import study_yaml
from dpbayes_cli.experiments.study import STUDIES, build_study, read_study
from dpbayes_cli.spec.yaml_reader import parse_yaml
from tests.conftest import ROOT
from tests.experiments.studies import (
    ADVERSARIAL,
    CALIBRATION,
    CLASSIFICATION,
    CURVES,
    ESTIMATION,
    HMM,
    LINEAR,
    LOGISTIC,
    UTILITY,
    changed,
)

BINARY = {"values": ["0", "1"]}
FEATURES = CLASSIFICATION["cases"]["features"]
FEATURE = {"kind": {"values": ["x", "y"]}}


def test_defaults_and_exact_costs_are_written_out() -> None:
    study = Calibration.build(changed(CALIBRATION, "epsilon", ["0.10", "1e-2"]))
    assert study.epsilon == ("0.1", "0.01")
    assert study.cases["coin"].domain == {"success": None, "failure": None}
    assert study.cases["dice"].prior == {"concentration": 5.0}
    assert (study.mmd, study.ops.draws) == (True, 5)

    text = study_yaml(study).decode()
    assert text.startswith(f"# {NOT_PRIVATE}")
    assert Calibration.build(parse_yaml(text)) == study, "the canonical file is the same study"


def test_a_file_without_a_kind_is_a_calibration_study() -> None:
    assert build_study(CALIBRATION) == Calibration.build(CALIBRATION)
    with pytest.raises(SpecError, match="no study 'classify'") as error:
        build_study(changed(CALIBRATION, "study", "classify"))
    assert error.value.hint.startswith("allowed: calibration, classification, ")


@pytest.mark.parametrize(
    ("document", "path_and_value", "where", "hint"),
    [
        (CALIBRATION, ("trails", "3"), "trails", "'trials'"),
        (CALIBRATION, ("cases", "coin", "prior", "alfa", "1"), "cases.coin.prior.alfa", "'alpha'"),
        (CALIBRATION, ("cases", "coin", "model", "beta-bernouli"), "cases.coin.model", "'beta-bernoulli'"),
        (CALIBRATION, ("cases", "dice", "domain", None), "cases.dice.domain", "--categories"),
        (CALIBRATION, ("cases", "dice", "unclamped", {"kategories": []}), "cases.dice.domain", "'categories'"),
        (CALIBRATION, ("cases", "a b", {"model": "beta-bernoulli"}), "cases.a b", ""),
        (CALIBRATION, ("cases", None), "cases", "NAME:"),
        (CALIBRATION, ("n", None), "n", "state it"),
        (CALIBRATION, ("n", ["10", "10"]), "n holds a value twice", ""),
        (CALIBRATION, ("epsilon", ["0"]), "epsilon", ""),
        (CALIBRATION, ("epsilon", ["many"]), "epsilon is 'many'", ""),
        (CALIBRATION, ("draws", "10000000"), "draws", ""),
        (CALIBRATION, ("name", "../x"), "", ""),
        (CALIBRATION, ("cases", "dice", "parameter", "theta[d]"), "no parameter 'theta[d]'", "theta["),
        (CALIBRATION, ("cases", "coin", {"model": "hmm", "domain": {**HMM["cases"]["units"]["domain"], "states": "2"}}),
         "cases.coin.model: mechanism 'rdp-direct' does not support model 'hmm'", "--case NAME"),
        (CALIBRATION, ("cases", "coin", "support", ["0.9", "0.1"]), "cases.coin.support: the support is [0.9", ""),
        (CALIBRATION, ("cases", "dice", "support", ["0.4", "0.8"]), "cases.dice.support: ", "support: [LOW, HIGH]"),
        (CALIBRATION, ("cases", "dice", "domain", "categories", [*map(str, range(64)), "b"]),
         "cases.dice: the model has 65 probabilities", ""),
        (CLASSIFICATION, ("cases", "features", "train", "a.csv"), "cases.features", ""),
        (CLASSIFICATION, ("cases", "features", "n_test", None), "cases.features", ""),
        (CLASSIFICATION, ("cases", "features", "domain", "target", "z"), "cases.features.domain", ""),
        (CLASSIFICATION, ("cases", "features", {**FEATURES, "model": "beta-bernoulli", "domain": {}}),
         "cases.features.model", "bayes-net"),
        (CLASSIFICATION, ("cases", "chain", "domain", "target", None), "cases.chain.domain.target", "target: NAME"),
        (CLASSIFICATION, ("cases", "file", "domain", "variables", "kind", FEATURE["kind"]),
         "cases.file.domain.variables: kind", "impute"),
        (CLASSIFICATION, ("cases", "features", "domain", "variables", "a", {**BINARY, "weight": "2"}),
         "fourier-laplace, epsilon 1", ""),
        (HMM, ("least_share", "0.4"), "least_share", ""),
        (HMM, ("cases", "units", "domain", "states", "2"), "cases.units.domain.states", ""),
        (HMM, ("cases", "units", "domain", "features", FEATURE), "cases.units.domain", "impute: VALUE"),
        (LINEAR, ("prior_variance", ["0"]), "prior_variance is 0; expected more than 0", ""),
        (LINEAR, ("cases", "two", "features", {"a": {"values": ["x"], "impute": "x"}}), "cases.two", ""),
        (LINEAR, ("cases", "two", "features", {"a": {"lower": "0", "upper": "1"}}), "cases.two", ""),
        (LINEAR, ("cases", "two", "target", "column", "a"), "cases.two", ""),
        (LOGISTIC, ("orders", ["0.5"]), "an order is 1 or more", ""),
        (LOGISTIC, ("langevin_steps", "3"), "langevin_steps: a released chain needs", ""),
        (LOGISTIC, ("cases", "split", "test", "records.csv"), "cases.split", ""),
        (LOGISTIC, ("cases", "split", "n_train", "400"), "n_train", ""),
        (LOGISTIC, ("cases", "split", "target", "cut", None), "cases.split.target", ""),
        (LOGISTIC, ("cases", "split", "features", FEATURE), "cases.split", ""),
        (ESTIMATION, ("cases", "curve", "support", None), "cases.curve.support", ""),
        (CURVES, ("weights", ["1.5"]), "weights is 1.5; expected more than 0 and at most 1", ""),
        (UTILITY, ("orders", ["1"]), "orders is 1; expected more than 1", ""),
        (UTILITY, ("cases", "coin", "successes", "21"), "cases.coin", ""),
        (ADVERSARIAL, ("n", "1"), "n", ""),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_before_anything_is_computed(
    document: dict[str, Any], path_and_value: tuple[Any, ...], where: str, hint: str, records: Path
) -> None:
    with pytest.raises(SpecError) as error:
        build_study(changed(document, *path_and_value), records).grid()
    assert any(where in each.message and hint in each.hint for each in error.value.mistakes)


def test_some_cases_alone_and_other_trials(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(yaml.safe_dump(CALIBRATION), encoding="utf-8")
    assert {point.case for point in read_study(file, cases=("dice",)).grid()} == {"dice"}
    study: Any = read_study(file, trials=3, seed=9)
    assert (study.trials, study.seed) == (3, 9)
    with pytest.raises(SpecError, match="no case 'dic'") as error:
        read_study(file, cases=("dic",))
    assert error.value.hint == "did you mean 'dice'?"


@pytest.mark.parametrize(
    ("document", "path_and_value", "moved"),
    [
        (CALIBRATION, ("name", "other"), set()),
        (CALIBRATION, ("ops", "draws", "30"), {"ops"}),
        (CALIBRATION, ("cases", "coin", "support", ["0.2", "0.8"]), {"ops"}),
        (CALIBRATION, ("seed", "8"), set(CALIBRATION["methods"])),
        (CALIBRATION, ("cases", "dice", "prior", {"concentration": "4"}), set(CALIBRATION["methods"])),
        (CLASSIFICATION, ("draws", "11"), set(CLASSIFICATION["methods"]) - {"ops"}),
        (CLASSIFICATION, ("cases", "chain", "n_test", "81"), set(CLASSIFICATION["methods"])),
        (HMM, ("sweeps", "7"), {"gibbs"}),
        (HMM, ("converged", "21"), {"ops"}),
        (HMM, ("least_share", "0.02"), {"ops"}),
        (HMM, ("held_out", "0.3"), set(HMM["methods"])),
        (ESTIMATION, ("cases", "curve", "support", ["0.2", "0.8"]), {"ops"}),
        (LINEAR, ("draws", "11"), {"noise-aware"}),
        (LOGISTIC, ("metropolis_steps", "30"), {"true-posterior", "rdp-concentrated", "rdp-diffuse", "ops"}),
    ],
)
def test_a_point_is_defined_by_what_its_numbers_depend_on(
    document: dict[str, Any], path_and_value: tuple[Any, ...], moved: set[str], records: Path
) -> None:
    before, after = (build_study(each, records).grid() for each in (document, changed(document, *path_and_value)))
    assert {a["method"] for a, b in zip(before, after, strict=True) if a.digest != b.digest} == moved


def test_the_name_of_a_case_changes_no_number(records: Path) -> None:
    renamed = {**CLASSIFICATION, "cases": {f"{name}-2": case for name, case in CLASSIFICATION["cases"].items()}}
    before, after = (build_study(each, records).grid() for each in (CLASSIFICATION, renamed))
    assert [point.digest for point in before] == [point.digest for point in after]


def test_the_pages_of_studies_are_those_of_configs(monkeypatch: pytest.MonkeyPatch) -> None:
    """To write the pages from a run: python -m docs.study_pages RESULTS."""
    monkeypatch.setattr("dpbayes_cli.experiments.benchmark.versioned", str)  # its packages need not be installed
    configs = {path.stem: read_study(path) for path in (ROOT / "configs" / "experiments").glob("*.yaml")}
    assert {name: study.name for name, study in configs.items()} == {name: name for name in configs}
    assert sum(len(study.grid()) for study in configs.values()) == 1397
    assert {study.study for study in configs.values()} == set(STUDIES)
    assert {path.stem for path in (ROOT / "docs" / "studies").glob("*.md")} - {"index", "benchmarks"} <= set(configs)
