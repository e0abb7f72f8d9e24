"""The kinds of studies, by name. Each is imported when it is used; a new kind takes one new line."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, cast

from dpbayes_cli.base.errors import SpecError, nearest
from dpbayes_cli.experiments.study import Study
from dpbayes_cli.spec.yaml_reader import read_spec_file

STUDIES = {
    "calibration": "dpbayes_cli.experiments.calibration:Calibration",
    "classification": "dpbayes_cli.experiments.classification:Classification",
    "logistic-regression": "dpbayes_cli.experiments.logistic_regression:LogisticRegressions",
    "linear-regression": "dpbayes_cli.experiments.linear_regression:LinearRegressions",
    "hmm": "dpbayes_cli.experiments.hmm:HiddenMarkovModels",
    "estimation": "dpbayes_cli.experiments.estimation:Estimation",
    "adversarial-data": "dpbayes_cli.experiments.adversarial_data:AdversarialData",
    "renyi-curves": "dpbayes_cli.experiments.renyi_curves:RenyiCurves",
    "renyi-utility": "dpbayes_cli.experiments.renyi_utility:RenyiUtility",
}


def study_type(name: str) -> type[Study]:
    """Return the class of a kind of study.

    Raises:
        SpecError: there is no such kind.
    """
    if name not in STUDIES:
        raise SpecError(f"there is no study {name!r}", where="study", hint=f"allowed: {', '.join(STUDIES)}")
    module, _, subject = STUDIES[name].partition(":")
    return cast(type[Study], getattr(import_module(module), subject))


def build_study(document: dict[str, Any], base: Path = Path()) -> Study:
    """Build the study that a document describes; without the key ``study`` its kind is ``calibration``.

    Raises:
        SpecError: there is no such kind, or a key is unknown, missing or has a wrong value.
    """
    return study_type(document.get("study", "calibration")).build(document, base)


def read_study(path: Path, *, trials: int | None = None, seed: int | None = None, cases: tuple[str, ...] = ()) -> Study:
    """Read a study file. Paths in the file are relative to its directory.

    Args:
        path: the study file.
        trials, seed: values that replace those of the file; None: the values of the file.
        cases: the names of the cases to keep; empty: all cases.

    Raises:
        SpecError: the text is not plain YAML, a key is unknown, missing or has a wrong value, or there is no case of a
            given name.
    """
    document = read_spec_file(path)
    document |= {key: value for key, value in {"trials": trials, "seed": seed}.items() if value is not None}
    stated = document.get("cases")
    if cases and isinstance(stated, dict):
        for name in cases:
            if name not in stated:
                raise SpecError(f"there is no case {name!r}", where="cases", hint=nearest(name, stated))
        document["cases"] = {name: stated[name] for name in dict.fromkeys(cases)}
    return build_study(document, path.parent)
