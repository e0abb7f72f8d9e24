"""The base classes of studies: a file of cases, a grid of points, the computation of a point, claims and figures.

``docs/CONTRIBUTING.md`` has the skeleton of a new study.
"""

from __future__ import annotations

import os
from abc import ABCMeta, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, cast, get_args, get_type_hints

import msgspec
from msgspec import Meta

import dpbayes_cli
from dpbayes_cli.base.errors import SpecError, join_mistakes, nearest
from dpbayes_cli.base.numeric import decimal_text, parse_decimal
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.registry import mechanism_type, model_names
from dpbayes_cli.core.section import Positive, Section
from dpbayes_cli.experiments.plots import Plot
from dpbayes_cli.experiments.results import Claim, GridPoint, PointOutcome, Results, in_words
from dpbayes_cli.models.beta_bernoulli import BetaBernoulli
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.account_name import check_name
from dpbayes_cli.spec.convert_section import Exact, convert_section
from dpbayes_cli.spec.release_spec import build_spec
from dpbayes_cli.spec.yaml_reader import read_spec_file

COMPLETE = RecordPolicy(Neighbors.REPLACE_ONE, "0")
"""The policy under which every record holds an outcome, so that the number of successes is the statistic."""
DROPPED = RecordPolicy(Neighbors.REPLACE_ONE)
"""The policy under which records may be invalid, so that the numbers of successes and failures are the statistic."""
_EPSILONS = ("0", "1000")  # the limits of epsilon: more than the first number, and at most the second number
_MAX_DRAWS = 20_000_000


class StudySection(Section, frozen=True, kw_only=True):
    """A section of a study's file; exact numbers get their canonical form, and no list may hold a value twice."""

    exact: ClassVar[Mapping[str, tuple[str, str]]] = {}  # limits like ``_EPSILONS`` of other exact numbers, by key

    def __post_init__(self) -> None:
        for key, (low, high) in {"epsilon": _EPSILONS, **self.exact}.items():
            stated = getattr(self, key, ())
            if isinstance(stated, str):
                msgspec.structs.force_setattr(self, key, _canonical(key, stated, low, high))
            elif stated:
                texts = tuple(_canonical(key, text, low, high) for text in stated)
                msgspec.structs.force_setattr(self, key, texts)
        for key, values in msgspec.structs.asdict(self).items():
            if isinstance(values, tuple) and len(set(values)) != len(values):
                raise ValueError(f"{key} holds a value twice: {', '.join(map(str, values))}")


def _canonical(key: str, text: str, low: str, high: str) -> str:
    try:
        number = parse_decimal(text)
    except ValueError as error:
        raise ValueError(f"{key} is {text!r}: {error}") from None
    if not Decimal(low) < number <= Decimal(high):
        raise ValueError(f"{key} is {number}; expected more than {low} and at most {high}")
    return decimal_text(number)


class CoinCase(StudySection, frozen=True, kw_only=True):
    """A probability of success with a Beta prior."""

    alpha: Annotated[Positive, Meta(description="prior successes")] = 1.0
    beta: Annotated[Positive, Meta(description="prior failures")] = 1.0

    @property
    def model(self) -> BetaBernoulli:
        spec = build_spec({"model": "beta-bernoulli", "prior": {"alpha": self.alpha, "beta": self.beta}})
        return cast(BetaBernoulli, spec.build_model())


class _AbstractSection(msgspec.StructMeta, ABCMeta):
    """The type of sections with abstract methods."""


class Study(StudySection, metaclass=_AbstractSection, frozen=True, kw_only=True):
    """A study, as its file states it. A subclass is a kind of study: it adds keys, and defines grid, run and claims.

    The docstring of the subclass stands at the beginning of ``summary.md``.
    """

    study: str
    name: str
    cases: Mapping[str, Section]

    files: ClassVar[tuple[str, ...]] = ()  # the keys of a case that name files, relative to the file of the study
    columns: ClassVar[tuple[str, ...]]  # the columns of ``results.csv`` that identify a point; ``case`` is the first
    details: ClassVar[tuple[str, ...]] = ()  # further columns that describe a point
    measures: ClassVar[tuple[str, ...]]  # the columns of measured numbers
    by_trial: ClassVar[tuple[str, ...]] = ()  # the measured columns of ``trials_file``, which has one row per trial
    trials_file: ClassVar[str] = "trials.csv"
    unit: ClassVar[str] = "trial"  # the word for a trial; empty: no ``trials_file`` is written
    shown: ClassVar[tuple[str, ...]]  # the columns that the command prints
    plots: ClassVar[Mapping[str, Plot]] = {}
    compared: ClassVar[
        tuple[tuple[str, str, str], ...]
    ] = ()  # two methods, and the measure whose difference between them is listed
    legend: ClassVar[str]  # the last paragraph of the summary

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name(self.name)

    @classmethod
    def build(cls, document: dict[str, Any], base: Path = Path()) -> Self:
        """Build a study from a parsed file; the defaults of models are written out, and paths made absolute."""
        cases, built, case_type = document.get("cases"), {}, get_args(get_type_hints(cls)["cases"])[1]
        if not isinstance(cases, dict) or not cases:
            hint = "write a case as NAME: {model: ..., domain: {...}, prior: {...}}"
            raise SpecError("no case is stated", where="cases", hint=hint)
        for name, part in cases.items():
            place = f"cases.{name}"
            try:
                check_name(name)
            except ValueError as error:
                raise SpecError(str(error), where=place) from None
            case = msgspec.to_builtins(cls.complete_case(convert_section(part, case_type, place), place))
            for key in cls.files:
                if case[key] is not None:
                    case[key] = os.path.abspath(base / case[key])  # noqa: PTH100 - links stay as they are named
            built[name] = case
        return convert_section({**document, "cases": built}, cls)

    @classmethod
    def complete_case(cls, case: Any, _place: str) -> Section:
        """Return a case with its defaults written out."""
        return cast(Section, case)

    @abstractmethod
    def grid(self) -> list[GridPoint]:
        """Return the points in the order of the file, after checking that each of them can be computed."""

    def point(
        self, place: dict[str, Any], data: dict[str, Any], own: dict[str, Any], details: dict[str, Any] | None = None
    ) -> GridPoint:
        """Return a point, defined by ``data``, ``own``, the kind of study, and the version of dpbayes."""
        definition = {**data, "version": dpbayes_cli.__version__, "study": self.study, **own}
        return GridPoint(place, data, definition, getattr(self, "seed", 0), details or {})

    @staticmethod
    def prices_and_methods(prices: Sequence[str], methods: Sequence[str], free: str) -> Iterator[tuple[Any, Any]]:
        """Yield epsilon and method of every point of a case; the method ``free`` has one point, without epsilon."""
        if free in methods:
            yield None, free
        yield from product(prices, (method for method in methods if method != free))

    def parts(self, point: GridPoint) -> list[GridPoint]:
        """Return what is computed and saved one by one to get a point: the point itself, or blocks of its trials."""
        return [point]

    @abstractmethod
    def run(self, point: GridPoint) -> PointOutcome:
        """Compute one point, or a part of it; equal definitions give equal results, in any process."""

    @abstractmethod
    def claims(self, results: Results) -> Iterable[Claim]:
        """Return the claims that these results confirm or contradict."""

    def figures(self, results: Results) -> dict[str, Any]:
        """Return the figures by name; each states that it is not private."""
        return {name: plot.figure(results) for name, plot in self.plots.items()}

    def label(self, point: GridPoint) -> str:
        """Return a line with the point's values in the columns that the command prints."""
        return in_words({name: point[name] for name in self.columns if name in self.shown})


class SimulatedStudy(Study, frozen=True, kw_only=True):
    """A study with a grid of cases, epsilons and methods, and with ``trials`` simulated releases at each point."""

    seed: Annotated[int, Meta(ge=0, le=(1 << 62), description="seed of the whole study")] = 0
    trials: Annotated[int, Meta(ge=2, le=1_000_000, description="simulated releases per point of the grid")] = 300
    draws: Annotated[int, Meta(ge=2, le=10_000, description="posterior draws per trial")] = 199
    epsilon: Annotated[tuple[Exact, ...], Meta(min_length=1, description="epsilons, exact decimal numbers")]
    methods: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.trials * self.draws > _MAX_DRAWS:
            raise ValueError(f"trials * draws is {self.trials * self.draws}; allowed: at most {_MAX_DRAWS}")


def with_errors(*names: str) -> tuple[str, ...]:
    """Return the names of measures, each followed by the name of its standard error."""
    return tuple(f"{name}{ending}" for name in names for ending in ("", "_se"))


def plan_release(mechanism: str, model: Model, policy: RecordPolicy, n_records: int | None, **options: Any) -> Plan:
    """Return the plan of a release by a mechanism with these options."""
    kind = mechanism_type(mechanism)
    return kind().plan(model, policy, kind.options_for(type(model))(**options), n_records)


@contextmanager
def errors_at(place: str, detail: str = "", hint: str | None = None) -> Iterator[None]:
    """Raise a SpecError of the ``with`` block again, with this place, this detail after its message, and this hint."""
    try:
        yield
    except SpecError as error:
        message = f"{error.reason}{detail}"
        raise SpecError(message, where=place, hint=error.hint if hint is None else hint) from None


def build_model_sections(place: str, model: str, domain: Any, prior: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a model's domain and prior with their defaults written out."""
    if model not in model_names():
        raise SpecError(f"there is no model {model!r}", where=f"{place}.model", hint=nearest(model, model_names()))
    try:
        spec = build_spec({"model": model, "domain": domain, "prior": prior})
        spec.build_model()
    except SpecError as error:
        raise join_mistakes(
            SpecError(each.reason, where=f"{place}.{each.where}".rstrip("."), hint=each.hint) for each in error.mistakes
        ) from None
    return msgspec.to_builtins(spec.domain), msgspec.to_builtins(spec.prior)


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
    "regression-accuracy": "dpbayes_cli.experiments.regression_accuracy:RegressionAccuracy",
    "regression-calibration": "dpbayes_cli.experiments.regression_calibration:RegressionCalibration",
    "groups": "dpbayes_cli.experiments.groups:Groups",
    "synthetic": "dpbayes_cli.experiments.synthetic:Synthetic",
    "benchmark": "dpbayes_cli.experiments.benchmark:Benchmark",
}
"""The kinds of studies by name. A module is imported when its kind is used; a new kind needs one new line here."""


def build_study(document: dict[str, Any], base: Path = Path()) -> Study:
    """Build a study from a parsed file. If the file has no key ``study``, the kind is ``calibration``."""
    name = document.get("study", "calibration")
    if name not in STUDIES:
        raise SpecError(f"there is no study {name!r}", where="study", hint=f"allowed: {', '.join(STUDIES)}")
    module, _, subject = STUDIES[name].partition(":")
    return cast(type[Study], getattr(import_module(module), subject)).build(document, base)


def read_study(path: Path, *, trials: int | None = None, seed: int | None = None, cases: tuple[str, ...] = ()) -> Study:
    """Read a study file. ``trials`` and ``seed`` replace the numbers in the file; only the named ``cases`` are kept."""
    document = read_spec_file(path)
    document |= {key: value for key, value in {"trials": trials, "seed": seed}.items() if value is not None}
    stated = document.get("cases")
    if cases and isinstance(stated, dict):
        for name in cases:
            if name not in stated:
                raise SpecError(f"there is no case {name!r}", where="cases", hint=nearest(name, stated))
        document["cases"] = {name: stated[name] for name in dict.fromkeys(cases)}
    return build_study(document, path.parent)
