"""The kinds of studies, and how a file is read as one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.experiments.adversarial_data.kind import AdversarialData
from dpbayes_cli.experiments.calibration.kind import Calibration
from dpbayes_cli.experiments.classification.kind import Classification
from dpbayes_cli.experiments.estimation.kind import Estimation
from dpbayes_cli.experiments.hmm.kind import HiddenMarkovModels
from dpbayes_cli.experiments.kind import Kind
from dpbayes_cli.experiments.linear_regression.kind import LinearRegressions
from dpbayes_cli.experiments.logistic_regression.kind import LogisticRegressions
from dpbayes_cli.experiments.renyi_curves.kind import RenyiCurves
from dpbayes_cli.experiments.renyi_utility.kind import RenyiUtility
from dpbayes_cli.experiments.study import Study

KINDS: dict[str, Kind[Any, Any]] = {
    kind.name: kind
    for kind in (
        Calibration(),
        Classification(),
        LogisticRegressions(),
        LinearRegressions(),
        HiddenMarkovModels(),
        Estimation(),
        AdversarialData(),
        RenyiCurves(),
        RenyiUtility(),
    )
}


def kind_of(study: Study) -> Kind[Any, Any]:
    """Return the kind of a study."""
    return KINDS[study.study]


def read_study(path: Path) -> Study:
    """Read a study file; paths in it are relative to it.

    Raises:
        SpecError: it is not plain YAML, or a key is unknown, missing or has a wrong value.
    """
    from dpbayes_cli.spec.yaml_reader import read_spec_file

    return build_study(read_spec_file(path), path.parent)


def build_study(document: dict[str, Any], base: Path = Path()) -> Study:
    """Check a document as the kind of study that it says it is; see ``Kind.build``.

    Raises:
        SpecError: there is no such kind, or a key is unknown, missing or has a wrong value.
    """
    name = document.get("study", "calibration")
    if name not in KINDS:
        raise SpecError(f"there is no study {name!r}", where="study", hint=f"allowed: {', '.join(KINDS)}")
    study: Study = KINDS[name].build(document, base)
    return study
