"""Classification: how well a release of a Bayes net predicts the class of new records, against epsilon.

Source: Zhang, Rubinstein and Dimitrakakis 2016, sec. 5.1 and Fig. 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

import msgspec
import numpy as np
from msgspec import Meta, field

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.registry import mechanism_type, model_names, model_type, supports
from dpbayes_cli.core.section import require_type
from dpbayes_cli.experiments.file_records import absolute, file_digest
from dpbayes_cli.experiments.network_posteriors import (
    MECHANISMS,
    NetworkRecords,
    plan_of,
    posteriors,
    read_files,
    simulated_records,
    with_stand_ins,
)
from dpbayes_cli.experiments.plots import Plot, Style
from dpbayes_cli.experiments.results import OURS, Claim, Comparison, GridPoint, PointOutcome, Results, with_errors
from dpbayes_cli.experiments.study import SimulatedStudy, StudyLayout, StudySection, build_model_sections, errors_at
from dpbayes_cli.inference.predictive.classify import class_probabilities
from dpbayes_cli.inference.scores.class_scores import class_scores
from dpbayes_cli.spec.convert_section import Exact
from dpbayes_cli.spec.release_spec import build_spec

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet

Method = Literal["non-private", "laplace", "laplace-naive", "fourier-laplace", "fourier-naive", "ops"]

SOURCE = "[Z] Figure 1"
_SCORES = ("accuracy", "log_score", "calibration_error")
_ERRORS = ("released_error", "cell_error")
_STYLES = {
    "laplace": Style("tab:blue", "o"),
    "laplace-naive": Style("tab:blue", "s", "--"),
    "fourier-laplace": Style("tab:orange", "^"),
    "fourier-naive": Style("tab:orange", "v", "--"),
    "ops": Style("tab:green", "d", ":"),
}
_COMPARISONS = (
    Comparison(SOURCE, "fourier-naive", "laplace-naive",
               "plug-in tables from noisy Fourier coefficients predict no better than plug-in noisy counts",
               "Here the noise of the coefficients follows from their exact joint sensitivity, which is smaller than "
               "the paper's.", never=1),
    Comparison(OURS, "ops", "laplace-naive", "one posterior draw predicts no better than plug-in noisy counts",
               "Here each table has a likelihood power of its own, and the sampler is idealized.", never=1),
    Comparison(OURS, "laplace", "laplace-naive",
               "the noise-aware posterior predicts no worse than a posterior that takes noisy counts for exact",
               never=-1),
)  # fmt: skip

_RecordNumber = Annotated[int, Meta(ge=1, le=10_000_000)]


class ClassificationCase(StudySection, frozen=True, kw_only=True):
    """A Bayes net, the variable that it predicts, and records that are simulated or read from two files."""

    model: str
    domain: dict[str, Any]
    prior: dict[str, Any] = field(default_factory=dict)
    n_train: Annotated[_RecordNumber | None, Meta(description="number of simulated records to learn from")] = None
    n_test: Annotated[_RecordNumber | None, Meta(description="number of simulated records to predict")] = None
    train: Annotated[str | None, Meta(description="path of the file to learn from, relative to the study file")] = None
    test: Annotated[str | None, Meta(description="path of the file to predict, relative to the study file")] = None
    epsilon: Annotated[tuple[Exact, ...], Meta(description="epsilons of this case, in place of the study's")] = ()
    trials: Annotated[
        Annotated[int, Meta(ge=2, le=1_000_000)] | None, Meta(description="the largest number of trials of this case")
    ] = None

    def __post_init__(self) -> None:
        stated = [(self.n_train is not None, self.n_test is not None), (self.train is not None, self.test is not None)]
        if sorted(stated) != [(False, False), (True, True)]:
            raise ValueError("state n_train and n_test, or train and test")
        try:
            self.state_exactly("epsilon")
        except SpecError as error:
            raise ValueError(error.message) from None
        self.check_distinct("epsilon")

    @property
    def network(self) -> DiscreteBayesNet:
        """The model. Simulated records have no invalid cell, so that any value can be the stand-in."""
        spec = build_spec({"model": self.model, "domain": self.domain, "prior": self.prior})
        model = cast("DiscreteBayesNet", spec.build_model())
        return model if self.train is not None else with_stand_ins(model)

    def check_predicts(self, where: str) -> None:
        """Refuse a case whose model or columns this study cannot use.

        Raises:
            SpecError: the model is no Bayes net or has no target, or a column of the files has no stand-in for invalid
                cells.
        """
        of_networks = mechanism_type("fourier-laplace")
        if not supports(of_networks, model_type(self.model)):
            served = [other for other in model_names() if supports(of_networks, model_type(other))]
            message = f"model {self.model!r} does not predict one column from others"
            raise SpecError(message, where=f"{where}.model", hint=f"allowed: {', '.join(served)}")
        if self.network.target is None:
            raise SpecError(
                "the domain names no target, which is the variable to predict",
                where=f"{where}.domain.target",
                hint="target: NAME",
            )
        open_ended = [column.role for column in self.network.variables if column.impute is None]
        if open_ended:
            raise SpecError(
                "this study needs a public stand-in for cells that hold no valid value",
                where=f"{where}.domain.variables.{open_ended[0]}",
                hint="state impute: VALUE for every variable; the number of complete records is then public",
            )


class Classification(SimulatedStudy, frozen=True, kw_only=True):
    """A grid of cases x epsilon x methods; within a case, all points have the same records in each trial."""

    study: Literal["classification"]
    methods: Annotated[tuple[Method, ...], Meta(min_length=1, description="methods that compute or draw posteriors")]
    cases: Annotated[dict[str, ClassificationCase], Meta(min_length=1)]

    layout: ClassVar = StudyLayout(
        columns=("case", "model", "epsilon", "method"),
        measures=with_errors(*_SCORES, "majority", *_ERRORS),
        by_trial=(*_SCORES, "majority", *_ERRORS),
        shown=("case", "epsilon", "method", "accuracy", "accuracy_se", "log_score", "calibration_error", "cell_error"),
        plots={
            "accuracy": Plot("Accuracy of predictions; bars: two standard errors", "accuracy", "accuracy", _STYLES,
                             across=("non-private", "non-private"), level=("majority", "most frequent class"),
                             share_y=False),
            "cell-error": Plot("Error of the plug-in tables", "cell_error", "mean absolute error of a count",
                               _STYLES, scales="log log", share_y=False),
        },
        compared=(
            ("fourier-laplace", "laplace", "accuracy"),
            ("fourier-naive", "laplace-naive", "released_error"),
            ("fourier-naive", "laplace-naive", "cell_error"),
        ),
        about="How well a release of a Bayes net predicts the class of new records. Within a case, all methods and "
        "epsilons use the same records. `ops` is one posterior draw, computed in floats: an idealized form of a "
        "release.",
        legend="`accuracy`: how often the most probable class is the true one. `log_score`: mean log probability of "
        "the true class. `calibration_error`: expected calibration error. `majority`: accuracy of always predicting "
        "the most frequent class. `released_error`: mean absolute difference between the noisy and the exact counts "
        "of the tables. `cell_error`: this difference after the noisy tables have been made consistent. Consistent "
        "counts are not negative, sum to the known number of records and, with the Fourier mechanism, agree on "
        "common margins. One standard error of the mean follows each number.",
    )  # fmt: skip

    @classmethod
    def complete_case(cls, case: ClassificationCase, place: str, base: Path) -> ClassificationCase:
        domain, prior = build_model_sections(place, case.model, case.domain, case.prior)
        paths = {"train": absolute(base, case.train), "test": absolute(base, case.test)}
        return msgspec.structs.replace(case, domain=domain, prior=prior, **paths)

    def grid(self) -> list[GridPoint]:
        grid = []
        for name, case in self.cases.items():
            case.check_predicts(f"cases.{name}")
            stated = {key: getattr(case, key) for key in ("model", "domain", "prior", "n_train", "n_test")}
            contents = [file_digest(path) for path in (case.train, case.test) if path is not None]
            data = {**stated, "contents": contents, "seed": self.seed}
            planned: dict[tuple[str, str], None] = {}
            for epsilon, method in self.prices_and_methods(case.epsilon or self.epsilon, self.methods, "non-private"):
                own = {"epsilon": epsilon, "method": method, "trials": self._trials(case)}
                own["draws"] = 1 if method == "ops" else self.draws
                place = {"case": name, "model": case.model, "epsilon": epsilon, "method": method}
                grid.append(self.point(place, data, own))
                if method in MECHANISMS and epsilon is not None:
                    planned[MECHANISMS[method], epsilon] = None
            for mechanism, epsilon in planned:
                with errors_at(f"cases.{name}", f" ({mechanism}, epsilon {epsilon})"):
                    plan_of(mechanism, epsilon, case.network, case.n_train)
        return grid

    def _trials(self, case: ClassificationCase) -> int:
        return min(self.trials, case.trials or self.trials)

    def records_of(self, point: GridPoint) -> NetworkRecords:
        """Return the records of all trials of a point.

        Raises:
            SourceError: a file cannot be read.
        """
        case = self.cases[point.case]
        if case.train is not None and case.test is not None:
            return read_files(case.train, case.test, case.network, self._trials(case))
        rng = np.random.default_rng(point.data_seed())
        return simulated_records(case.network, case.n_train or 0, case.n_test or 0, self._trials(case), rng)

    def run(self, point: GridPoint) -> PointOutcome:
        model, records = self.cases[point.case].network, self.records_of(point)
        posterior = posteriors(point, model, records, self.draws)
        trials = _scored(model, records, posterior.draws)
        for name, tables in zip(_ERRORS, (posterior.released, posterior.taken), strict=True):
            if tables is not None:
                trials[name] = np.abs(tables - records.counts).mean(axis=1)
        return PointOutcome.averaged(trials, (*_SCORES, "majority", *_ERRORS))

    def about_case(self, own: Results) -> str:
        case = self.cases[own[0]["case"]]
        learned = f"{case.n_train} records" if case.train is None else f"`{Path(case.train).name}`"
        return f"The model `{case.model}` is learned from {learned}, in {self._trials(case)} trials."

    def claims(self, results: Results) -> list[Claim]:
        made = []
        for name in self.cases:
            own = results.where(case=name)
            made += _cost(name, own)
            for comparison in _COMPARISONS:
                made += comparison.claims(name, own, "accuracy")
        return made


def _scored(model: DiscreteBayesNet, records: NetworkRecords, draws: Floats) -> dict[str, Floats]:
    """Return the scores of each trial, and the accuracy of always predicting the most frequent training class."""
    target = require_type(model.target, int)
    scores = [
        class_scores(class_probabilities(model.network, target, drawn, test), labels)
        for drawn, test, labels in zip(draws, records.tests, records.labels, strict=True)
    ]
    trials = {name: np.array([getattr(each, name) for each in scores]) for name in _SCORES}
    of_class = model.split(records.counts)[target].reshape(len(draws), -1, model.network.sizes[target]).sum(axis=1)
    commonest = of_class.argmax(axis=1)
    right = [float((labels[labels >= 0] == k).mean()) for labels, k in zip(records.labels, commonest, strict=True)]
    return {**trials, "majority": np.array(right)}


def _cost(name: str, own: Results) -> list[Claim]:
    exact, prices = own.where(method="non-private"), own.values("epsilon")
    methods = [method for method in ("laplace-naive", "fourier-naive", "ops") if own.where(method=method)]
    if not methods or not exact:
        return []
    level = exact[0].measure("accuracy")
    ends = {
        method: [own.one(epsilon=epsilon, method=method).measure("accuracy") for epsilon in (prices[0], prices[-1])]
        for method in methods
    }
    pairs = "; ".join(f"`{method}` {low:.3f}, {high:.3f}" for method, (low, high) in ends.items())
    return [
        Claim(
            SOURCE,
            f"{name}: every private method is less accurate than the non-private one, and by less at larger epsilon.",
            all(low <= high for low, high in ends.values()) and all(low < level for low, _ in ends.values()),
            f"accuracy at epsilon {prices[0]} and at epsilon {prices[-1]}: {pairs}; without privacy {level:.3f}",
        )
    ]
