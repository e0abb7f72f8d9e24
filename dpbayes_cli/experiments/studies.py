"""The kinds of studies by name, each imported when it is used; one line adds one."""

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
    """Check a document as the kind of study that it states, ``calibration`` by default; see ``StudyFile.build``.

    Raises:
        SpecError: there is no such kind, or a key is unknown, missing or has a wrong value.
    """
    return study_type(document.get("study", "calibration")).build(document, base)


def read_study(path: Path, *, trials: int | None = None, seed: int | None = None, cases: tuple[str, ...] = ()) -> Study:
    """Read a study file; paths in it are relative to it.

    Args:
        path: the file.
        trials, seed: replace those of the file unless None.
        cases: keep these cases only; empty: all.

    Raises:
        SpecError: the text is not plain YAML, a key is unknown, missing or has a wrong value, or a case is missing.
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
