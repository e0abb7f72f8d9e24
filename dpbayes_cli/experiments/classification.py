"""Classification: how well a released Bayes net predicts the class of new records, as a function of epsilon."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

import msgspec
import numpy as np
from msgspec import Meta, field

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.registry import check_supports, mechanism_type, model_type
from dpbayes_cli.core.section import require_type
from dpbayes_cli.experiments import network_posteriors as networks
from dpbayes_cli.experiments.file_records import check_stand_ins, file_digest
from dpbayes_cli.experiments.plots import Plot
from dpbayes_cli.experiments.results import OURS, Claim, Comparison, GridPoint, PointOutcome, Results
from dpbayes_cli.experiments.study import SimulatedStudy, StudySection, build_model_sections, errors_at, with_errors
from dpbayes_cli.inference.predictive.classify import class_probabilities
from dpbayes_cli.inference.scores import class_scores
from dpbayes_cli.spec.convert_section import Exact
from dpbayes_cli.spec.release_spec import build_spec

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet

Method = Literal["non-private", "laplace", "laplace-naive", "fourier-laplace", "fourier-naive", "ops"]

SOURCE = "[Z] Figure 1"
_SCORES = ("accuracy", "log_score", "calibration_error")
_ERRORS = ("released_error", "cell_error")
_COMPARISONS = (
    Comparison(SOURCE, "fourier-naive", "laplace-naive",
               "plug-in tables from noisy Fourier coefficients predict no better than plug-in noisy counts",
               "Here the noise is smaller: it follows from the coefficients' exact joint sensitivity.", never=1),
    Comparison(OURS, "ops", "laplace-naive", "one posterior draw predicts no better than plug-in noisy counts",
               "Here each table has a likelihood power of its own, and the sampler is idealized.", never=1),
    Comparison(OURS, "laplace", "laplace-naive",
               "the noise-aware posterior predicts no worse than a posterior that treats noisy counts as exact",
               never=-1),
)  # fmt: skip

_RecordNumber = Annotated[int, Meta(ge=1, le=10_000_000)] | None


class ClassificationCase(StudySection, frozen=True, kw_only=True):
    """A Bayes net with the variable to predict, and records that are simulated or read from two files."""

    model: str
    domain: dict[str, Any]
    prior: dict[str, Any] = field(default_factory=dict)
    n_train: _RecordNumber = None  # simulated records: how many to learn from, and how many to predict
    n_test: _RecordNumber = None
    train: str | None = None  # instead: the files to learn from and to predict, relative to the study file
    test: str | None = None
    epsilon: Annotated[tuple[Exact, ...], Meta(description="epsilons of this case, in place of the study's")] = ()
    trials: Annotated[int, Meta(ge=2, le=1_000_000)] | None = None  # the largest number of trials of this case

    def __post_init__(self) -> None:
        stated = [(self.n_train is not None, self.n_test is not None), (self.train is not None, self.test is not None)]
        if sorted(stated) != [(False, False), (True, True)]:
            raise ValueError("state n_train and n_test, or train and test")
        super().__post_init__()

    @property
    def network(self) -> DiscreteBayesNet:
        """The model. Simulated records have no invalid cells, so that any value can be the stand-in."""
        spec = build_spec({"model": self.model, "domain": self.domain, "prior": self.prior})
        model = cast("DiscreteBayesNet", spec.build_model())
        if self.train is not None:
            return model
        return replace(model, variables=tuple(replace(each, impute=each.levels[0]) for each in model.variables))

    def check(self, where: str) -> None:
        """Refuse a model or columns that this study cannot use."""
        with errors_at(f"{where}.model", hint="use a Bayes net, such as naive-bayes or bayes-net"):
            check_supports(mechanism_type("fourier-laplace"), model_type(self.model))
        if self.network.target is None:
            message = "the domain names no target, which is the variable to predict"
            raise SpecError(message, where=f"{where}.domain.target", hint="target: NAME")
        check_stand_ins(self.network.variables, f"{where}.domain.variables")


class Classification(SimulatedStudy, frozen=True, kw_only=True):
    """How well a released Bayes net predicts the class of new records.

    Within a case, all methods and epsilons use the same records. `ops` (**idealized**) is one posterior draw, computed
    in floats.

    Source: Zhang, Rubinstein and Dimitrakakis 2016, sec. 5.1 and Fig. 1.
    """

    study: Literal["classification"]
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)]
    cases: Annotated[dict[str, ClassificationCase], Meta(min_length=1)]

    files = ("train", "test")
    columns = ("case", "model", "epsilon", "method")
    measures = with_errors(*_SCORES, "majority", *_ERRORS)
    by_trial = (*_SCORES, "majority", *_ERRORS)
    shown = ("case", "epsilon", "method", "accuracy", "accuracy_se", "log_score", "calibration_error", "cell_error")
    plots: ClassVar = {
        "accuracy": Plot("Accuracy of predictions", "accuracy", across="non-private", level="majority"),
        "cell-error": Plot("Mean absolute error of a count in the plug-in tables", "cell_error", scales="log log"),
    }
    compared = (
        ("fourier-laplace", "laplace", "accuracy"),
        ("fourier-naive", "laplace-naive", "released_error"),
        ("fourier-naive", "laplace-naive", "cell_error"),
    )
    legend = (
        "`accuracy`: how often the most probable class is the true one. `log_score`: mean log probability of the true "
        "class. `majority`: accuracy of always predicting the most frequent class. `released_error`: mean absolute "
        "difference between the noisy and the exact counts of the tables; `cell_error`: the same, after the noisy "
        "tables have been made consistent. One standard error follows each number."
    )

    @classmethod
    def complete_case(cls, case: ClassificationCase, place: str) -> ClassificationCase:
        domain, prior = build_model_sections(place, case.model, case.domain, case.prior)
        return msgspec.structs.replace(case, domain=domain, prior=prior)

    def grid(self) -> list[GridPoint]:
        grid = []
        for name, case in self.cases.items():
            case.check(f"cases.{name}")
            stated = {key: getattr(case, key) for key in ("model", "domain", "prior", "n_train", "n_test")}
            contents = [file_digest(path) for path in (case.train, case.test) if path is not None]
            data = {**stated, "contents": contents, "seed": self.seed}
            prices, noisy = case.epsilon or self.epsilon, filter(None, map(networks.MECHANISMS.get, self.methods))
            for mechanism, price in product(dict.fromkeys(noisy), prices):
                with errors_at(f"cases.{name}", f" ({mechanism}, epsilon {price})"):
                    networks.release_step(mechanism, price, case.network, case.n_train)
            for epsilon, method in self.prices_and_methods(prices, self.methods, "non-private"):
                own = {"epsilon": epsilon, "method": method, "trials": min(self.trials, case.trials or self.trials)}
                own["draws"] = 1 if method == "ops" else self.draws
                place = {"case": name, "model": case.model, "epsilon": epsilon, "method": method}
                grid.append(self.point(place, data, own))
        return grid

    def records_of(self, point: GridPoint) -> networks.NetworkRecords:
        """Return the records of all trials of a point."""
        case, trials = self.cases[point.case], point.definition["trials"]
        if case.train is not None and case.test is not None:
            return networks.read_files(case.train, case.test, case.network, trials)
        rng = np.random.default_rng(point.data_seed())
        return networks.simulated_records(case.network, case.n_train or 0, case.n_test or 0, trials, rng)

    def run(self, point: GridPoint) -> PointOutcome:
        model, records = self.cases[point.case].network, self.records_of(point)
        posterior = networks.posteriors(point, model, records, self.draws)
        trials = _scored(model, records, posterior.draws)
        for name, tables in zip(_ERRORS, (posterior.released, posterior.taken), strict=True):
            if tables is not None:
                trials[name] = np.abs(tables - records.counts).mean(axis=1)
        return PointOutcome.averaged(trials, self.by_trial)

    def claims(self, results: Results) -> Iterator[Claim]:
        for name in self.cases:
            own = results.where(case=name)
            yield from _cost(name, own)
            for comparison in _COMPARISONS:
                yield from comparison.claims(name, own, "accuracy")


def _scored(model: DiscreteBayesNet, records: networks.NetworkRecords, draws: Floats) -> dict[str, Floats]:
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


def _cost(name: str, own: Results) -> Iterator[Claim]:
    exact, prices = own.where(method="non-private"), own.values("epsilon")
    methods = [method for method in ("laplace-naive", "fourier-naive", "ops") if own.where(method=method)]
    if not methods or not exact:
        return
    level, ends = exact[0].measure("accuracy"), {}
    for method in methods:
        ends[method] = [own.one(epsilon=e, method=method).measure("accuracy") for e in (prices[0], prices[-1])]
    pairs = "; ".join(f"`{method}` {low:.3f}, {high:.3f}" for method, (low, high) in ends.items())
    yield Claim(
        SOURCE,
        f"{name}: every private method is less accurate than the non-private one, and by less at larger epsilon.",
        all(low <= high and low < level for low, high in ends.values()),
        f"accuracy at epsilon {prices[0]} and at epsilon {prices[-1]}: {pairs}; without privacy {level:.3f}",
    )
