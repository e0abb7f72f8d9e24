"""The kinds of studies, and how a file is read as one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.experiments.adversarial_data import AdversarialData
from dpbayes_cli.experiments.calibration import Calibration
from dpbayes_cli.experiments.classification import Classification
from dpbayes_cli.experiments.estimation import Estimation
from dpbayes_cli.experiments.hmm import HiddenMarkovModels
from dpbayes_cli.experiments.linear_regression import LinearRegressions
from dpbayes_cli.experiments.logistic_regression import LogisticRegressions
from dpbayes_cli.experiments.renyi_curves import RenyiCurves
from dpbayes_cli.experiments.renyi_utility import RenyiUtility
from dpbayes_cli.experiments.study import Study
from dpbayes_cli.spec.yaml_reader import read_spec_file

STUDIES: dict[str, type[Study]] = {
    "calibration": Calibration,
    "classification": Classification,
    "logistic-regression": LogisticRegressions,
    "linear-regression": LinearRegressions,
    "hmm": HiddenMarkovModels,
    "estimation": Estimation,
    "adversarial-data": AdversarialData,
    "renyi-curves": RenyiCurves,
    "renyi-utility": RenyiUtility,
}


def read_study(path: Path) -> Study:
    """Read a study file; paths in it are relative to it.

    Raises:
        SpecError: the text is not plain YAML, or a key is unknown, missing or has a wrong value.
    """
    return build_study(read_spec_file(path), path.parent)


def build_study(document: dict[str, Any], base: Path = Path()) -> Study:
    """Check a document as the kind of study that it says it is; see ``Study.build``.

    Raises:
        SpecError: there is no such kind, or a key is unknown, missing or has a wrong value.
    """
    name = document.get("study", "calibration")
    if name not in STUDIES:
        raise SpecError(f"there is no study {name!r}", where="study", hint=f"allowed: {', '.join(STUDIES)}")
    return STUDIES[name].build(document, base)
