"""What every kind of study provides: a file of cases, a grid of points, their computation, claims and figures.

``docs/CONTRIBUTING.md`` has the skeleton of a new study.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, Self, TypeVar, cast, get_args, get_type_hints

import msgspec
from msgspec import Meta

import dpbayes_cli
from dpbayes_cli.base.errors import SpecError, nearest
from dpbayes_cli.base.numeric import decimal_text, parse_decimal
from dpbayes_cli.core.registry import model_names
from dpbayes_cli.core.section import Section
from dpbayes_cli.experiments.plots import Plot
from dpbayes_cli.experiments.results import Claim, GridPoint, PointOutcome, Results, in_words
from dpbayes_cli.privacy.guarantee import check_epsilon
from dpbayes_cli.spec.convert_section import Exact, convert_section
from dpbayes_cli.spec.release_spec import build_spec, check_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MAX_DRAWS = 20_000_000

MethodType = TypeVar("MethodType", bound=str)


@dataclass(frozen=True, kw_only=True)
class StudyLayout:
    """Columns, figures and texts of a kind of study.

    Attributes:
        columns: the columns of ``results.csv`` that identify a point; ``case`` is the first.
        details: further columns that describe a point.
        measures: the columns of measured numbers.
        by_trial: the measured columns of ``trials_file``.
        trials_file: the name of the file with one row per trial.
        unit: the word for a trial; empty: no ``trials_file`` is written.
        shown: the columns that the command prints.
        plots: the figures, by name.
        compared: pairs of methods, each with the measure whose differences the summary lists.
        about: the first paragraphs of the summary.
        legend: the last paragraph of the summary.
    """

    columns: tuple[str, ...]
    details: tuple[str, ...] = ()
    measures: tuple[str, ...]
    by_trial: tuple[str, ...] = ()
    trials_file: str = "trials.csv"
    unit: str = "trial"
    shown: tuple[str, ...]
    plots: Mapping[str, Plot]
    compared: tuple[tuple[str, str, str], ...] = ()
    about: str
    legend: str


class Study(Protocol):
    """A kind of study. It defines its layout, grid, computation and claims; ``StudyFile`` provides the rest."""

    layout: ClassVar[StudyLayout]
    __struct_fields__: ClassVar[tuple[str, ...]]

    @property
    def name(self) -> str:
        """The name of the study."""

    @property
    def cases(self) -> Mapping[str, Section]:
        """The cases, by name."""

    @classmethod
    def build(cls, document: dict[str, Any], base: Path = Path()) -> Self:
        """Build a study from a document; see ``StudyFile.build``."""

    def grid(self) -> list[GridPoint]:
        """Return the points in the order of the file, after checking that each of them can be computed.

        Raises:
            SpecError: a model, a method or an epsilon cannot be studied; the error names its place in the study.
            SourceError: a file cannot be read.
        """

    def run(self, point: GridPoint) -> PointOutcome:
        """Compute one point; equal definitions give equal results, in any process.

        Raises:
            SpecError: the point cannot be computed; the message names it.
        """

    def claims(self, results: Results) -> list[Claim]:
        """Return the claims that these results decide."""

    def figures(self, results: Results) -> dict[str, Figure]:
        """Return the figures, by name; each says that it is not private."""

    def about_case(self, own: Results) -> str:
        """Return the paragraph of the summary before the table of a case; may be empty."""

    def label(self, point: GridPoint) -> str:
        """Return a line with the point's values in the columns that the command prints."""


class StudySection(Section, frozen=True, kw_only=True):
    """A section of a study's file, with checks of its lists."""

    def check_distinct(self, *keys: str) -> None:
        """Refuse a list that holds a value twice.

        Raises:
            ValueError: a list holds a value twice.
        """
        for key in keys:
            values = getattr(self, key)
            if len(set(values)) != len(values):
                raise ValueError(f"{key} holds a value twice: {', '.join(map(str, values))}")

    def state_exactly(self, key: str, check: Callable[[Decimal], object] = check_epsilon) -> None:
        """Check each exact number of a list, and write it in canonical form.

        Raises:
            ValueError: a text is no plain decimal number, or ``check`` refuses a number.
            SpecError: ``check`` refuses a number.
        """
        numbers = [exact_number(key, text) for text in getattr(self, key)]
        for number in numbers:
            check(number)
        msgspec.structs.force_setattr(self, key, tuple(map(decimal_text, numbers)))


class StudyFile(StudySection, frozen=True, kw_only=True):
    """The file of a study: named cases, and what every kind of study does with them.

    Attributes:
        study: the kind of study.
        name: the name of this study.
        cases: the cases, by name.
    """

    study: str
    name: str
    cases: Mapping[str, Section]
    layout: ClassVar[StudyLayout]

    def __post_init__(self) -> None:
        check_name(self.name)

    @classmethod
    def build(cls, document: dict[str, Any], base: Path = Path()) -> Self:
        """Build a study from a document, with the defaults of models written out.

        Args:
            document: nested mappings and lists of texts.
            base: the directory that paths in the document are relative to.

        Raises:
            SpecError: a key is unknown, missing or has a wrong value; the error names the place of the first such key.
        """
        cases = document.get("cases")
        if not isinstance(cases, dict) or not cases:
            hint = "write a case as NAME: {model: ..., domain: {...}, prior: {...}}"
            raise SpecError("no case is stated", where="cases", hint=hint)
        built, case_type = {}, get_args(get_type_hints(cls)["cases"])[1]
        for name, part in cases.items():
            place = f"cases.{name}"
            try:
                check_name(name)
            except ValueError as error:
                raise SpecError(str(error), where=place) from None
            case = cls.complete_case(convert_section(part, case_type, place), place, base)
            built[name] = msgspec.to_builtins(case)
        return convert_section({**document, "cases": built}, cls)

    @classmethod
    def complete_case(cls, case: Any, _place: str, _base: Path) -> Section:
        """Return a case with its defaults written out and its paths made absolute.

        Raises:
            SpecError: a value does not fit; the error names its place.
        """
        return cast(Section, case)

    def point(
        self, place: dict[str, Any], data: dict[str, Any], own: dict[str, Any], details: dict[str, Any] | None = None
    ) -> GridPoint:
        """Return a point whose definition is ``data``, ``own``, the kind of study, and the version of dpbayes."""
        definition = {**data, "version": dpbayes_cli.__version__, "study": self.study, **own}
        return GridPoint(place, data, definition, getattr(self, "seed", 0), details or {})

    @staticmethod
    def prices_and_methods(
        prices: Sequence[str], methods: Sequence[MethodType], free: MethodType
    ) -> Iterator[tuple[str | None, MethodType]]:
        """Yield epsilon and method of every point of a case; the method ``free`` has one point, without epsilon."""
        if free in methods:
            yield None, free
        for epsilon in prices:
            yield from ((epsilon, method) for method in methods if method != free)

    def figures(self, results: Results) -> dict[str, Figure]:
        return {name: plot.figure(results) for name, plot in self.layout.plots.items()}

    def about_case(self, _own: Results) -> str:
        return ""

    def label(self, point: GridPoint) -> str:
        return in_words({name: point[name] for name in self.layout.columns if name in self.layout.shown})


class SimulatedStudy(StudyFile, frozen=True, kw_only=True):
    """A study with a grid of cases, epsilons and methods, and with ``trials`` simulated releases at each point."""

    seed: Annotated[int, Meta(ge=0, le=(1 << 62), description="seed of the whole study")] = 0
    trials: Annotated[int, Meta(ge=2, le=1_000_000, description="simulated releases per point of the grid")] = 300
    draws: Annotated[int, Meta(ge=2, le=10_000, description="posterior draws per trial")] = 199
    epsilon: Annotated[tuple[Exact, ...], Meta(min_length=1, description="epsilons, exact decimal numbers")]
    methods: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.state_exactly("epsilon")
        self.check_distinct("epsilon", "methods")
        if self.trials * self.draws > _MAX_DRAWS:
            raise ValueError(f"trials * draws is {self.trials * self.draws}; allowed: at most {_MAX_DRAWS}")


def check_within(is_allowed: str, low: str, high: str) -> Callable[[Decimal], None]:
    """Return a function that raises ValueError with the message ``is_allowed`` for numbers outside of (low, high]."""

    def check(number: Decimal) -> None:
        if not Decimal(low) < number <= Decimal(high):
            raise ValueError(is_allowed)

    return check


def exact_number(key: str, text: str) -> Decimal:
    """Return the exact number that the text of a key states.

    Raises:
        ValueError: the text is no plain decimal number; the message names the key.
    """
    try:
        return parse_decimal(text)
    except ValueError as error:
        raise ValueError(f"{key} is {text!r}: {error}") from None


@contextmanager
def errors_at(place: str, detail: str = "", hint: str | None = None) -> Iterator[None]:
    """Raise a SpecError of the block with a place in the study, a detail after its message and a new hint if any.

    Raises:
        SpecError: the block raised one.
    """
    try:
        yield
    except SpecError as error:
        message = f"{error.message.removeprefix(f'{error.where}: ')}{detail}"
        raise SpecError(message, where=place, hint=error.hint if hint is None else hint) from None


def build_model_sections(place: str, model: str, domain: Any, prior: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a model's domain and prior with their defaults written out.

    Raises:
        SpecError: there is no such model, or domain or prior do not fit it; the error names its place in the study.
    """
    if model not in model_names():
        raise SpecError(f"there is no model {model!r}", where=f"{place}.model", hint=nearest(model, model_names()))
    try:
        spec = build_spec({"model": model, "domain": domain, "prior": prior})
        spec.build_model()
    except SpecError as error:
        with errors_at(f"{place}.{error.where}".rstrip(".")):
            raise
    return msgspec.to_builtins(spec.domain), msgspec.to_builtins(spec.prior)
