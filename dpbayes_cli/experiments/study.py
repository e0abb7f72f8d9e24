"""What a study is: a file of cases, a grid, what is computed at a point, and what is written of the results.

A new study is one module: a subclass of ``Study`` with its cases, ``grid``, ``run``, figures, claims and texts; and a
line in ``studies``.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Meta

import dpbayes_cli
from dpbayes_cli.base.errors import SpecError, nearest
from dpbayes_cli.base.numeric import decimal_text, parse_decimal
from dpbayes_cli.core.registry import model_names
from dpbayes_cli.core.section import Section
from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.claims import Claim
from dpbayes_cli.experiments.plots import Format, Plot, figure_files
from dpbayes_cli.experiments.point import GridPoint, in_words
from dpbayes_cli.experiments.results import PointOutcome, Results
from dpbayes_cli.experiments.summary import claims_section, paired_differences, results_table, stamped_csv
from dpbayes_cli.privacy.guarantee import check_epsilon
from dpbayes_cli.spec.convert_section import Exact, convert_section
from dpbayes_cli.spec.release_spec import build_spec, check_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_DRAWS = 20_000_000

StudyType = TypeVar("StudyType", bound="Study")
MethodType = TypeVar("MethodType", bound=str)


class Study(Section, frozen=True, kw_only=True):
    """A file of named cases, and all that is made of it.

    Attributes:
        study: the kind of study, as its file says it.
        name: the name of this one.
        cases: its cases, by name.
        columns: the columns of ``results.csv`` that tell points apart; ``case`` is the first.
        details: the columns that say more of a point.
        measures: the columns of what was measured.
        by_trial: the columns of the file with one row a trial.
        trials_file: that file.
        unit: what a trial is called; empty: no such file is written.
        shown: the columns that are printed.
        plots: the recipes of its figures, by name.
        compared: pairs of methods, and the measure whose difference is told.
        about: the first paragraphs of the summary.
        legend: its last paragraph.
    """

    study: str
    name: str
    cases: Mapping[str, Section]

    columns: ClassVar[tuple[str, ...]]
    details: ClassVar[tuple[str, ...]] = ()
    measures: ClassVar[tuple[str, ...]]
    by_trial: ClassVar[tuple[str, ...]] = ()
    trials_file: ClassVar[str] = "trials.csv"
    unit: ClassVar[str] = "trial"
    shown: ClassVar[tuple[str, ...]]
    plots: ClassVar[Mapping[str, Plot]] = {}
    compared: ClassVar[tuple[tuple[str, str, str], ...]] = ()
    about: ClassVar[str]
    legend: ClassVar[str]

    def __post_init__(self) -> None:
        check_name(self.name)

    # --- what a study says of itself ---------------------------------------------------------------------------------

    @classmethod
    def complete_case(cls, case: Any, _place: str, _base: Path) -> Section:
        """Return a case with its defaults written out and its paths made absolute.

        Args:
            case: a value of ``cases``, as it is in the file.
            _place: where the case is in the file.
            _base: the directory that paths are relative to.

        Raises:
            SpecError: a value does not fit; the error names its place.
        """
        checked: Section = case
        return checked

    def grid(self) -> list[GridPoint]:
        """Return the points in the order of the file, after refusing what cannot be computed.

        Raises:
            SpecError: a model, a method or a price cannot be studied; the place is that in the study.
            SourceError: a file cannot be read.
        """
        raise NotImplementedError

    def run(self, point: GridPoint) -> PointOutcome:
        """Compute one point; equal definitions give equal numbers, in any process.

        Raises:
            SpecError: the point cannot be computed; the message names it.
        """
        raise NotImplementedError

    def claims(self, results: Results) -> list[Claim]:
        """Return claims about the figure with what was measured, without those that the points cannot decide."""
        raise NotImplementedError

    def figures(self, results: Results) -> "dict[str, Figure]":
        """Return the figures by name, each stamped."""
        return {name: plot.figure(results) for name, plot in self.plots.items()}

    def about_case(self, _own: Results) -> str:
        """Return what the summary says of a case before its table."""
        return ""

    # --- what follows from that --------------------------------------------------------------------------------------

    @classmethod
    def build(cls, document: dict[str, Any], base: Path = Path()) -> Self:
        """Check a document, its cases one by one; what models need is brought to its full form.

        Args:
            document: nested mappings and lists of texts.
            base: the directory that paths in it are relative to.

        Raises:
            SpecError: a key is unknown, missing or has a wrong value; the first is named, with its place.
        """
        cases = document.get("cases")
        if not isinstance(cases, dict) or not cases:
            raise SpecError(
                "no case is stated", where="cases", hint="a case is NAME: {model: ..., domain: {...}, prior: {...}}"
            )
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

    def point(
        self, place: dict[str, Any], data: dict[str, Any], own: dict[str, Any], details: dict[str, Any] | None = None
    ) -> GridPoint:
        """Return a point whose numbers depend on its data, on ``own``, and on the version.

        Args:
            place: by column, the case first.
            data: what the simulated data depend on.
            own: everything else that the numbers depend on.
            details: further values in its row of results, by column.
        """
        definition = {**data, "version": dpbayes_cli.__version__, "study": self.study, **own}
        return GridPoint(place, data, definition, getattr(self, "seed", 0), details or {})

    def label(self, point: GridPoint) -> str:
        """Return a point in one line, for people: those columns that are printed."""
        return in_words({name: point[name] for name in self.columns if name in self.shown})

    def rows(self, results: Results) -> list[dict[str, Any]]:
        """Return one object a point: its place, how many trials it has, and its measures."""
        return [
            {
                **{name: each[name] for name in self.columns},
                **{name: each.point.details[name] for name in self.details},
                **({f"{self.unit}s": len(next(iter(each.trials.values())))} if self.unit else {}),
                **{name: each.measures[name] for name in self.measures},
            }
            for each in results
        ]

    def files(self, results: Results, formats: Sequence[Format] = ("svg",)) -> dict[str, bytes]:
        """Return what is written of the study, by file name, each stamped."""
        rows = self.rows(results)
        files = {"results.csv": stamped_csv(rows[0], (row.values() for row in rows))}
        if self.unit:
            trials = (
                (*(each[name] for name in self.columns), trial, *(None if m is None else m[trial] for m in measured))
                for each in results
                for measured in [[each.trials.get(name) for name in self.by_trial]]
                for trial in range(len(next(iter(each.trials.values()))))
            )
            files[self.trials_file] = stamped_csv((*self.columns, self.unit, *self.by_trial), trials)
        figures = figure_files(self.figures(results), formats)
        return {**files, "summary.md": self.summary(results, list(figures)).encode(), **figures}

    def summary(self, results: Results, figures: Sequence[str]) -> str:
        """Return the text of ``summary.md``, which links to files of figures."""
        parts = [f"# Study `{self.name}`", f"**{NOT_PRIVATE}.** {self.about}"]
        stated = {key: getattr(self, key) for key in self.__struct_fields__ if key not in {"study", "name"}}
        settings = {key: value for key, value in stated.items() if isinstance(value, int | float | str)}
        parts.append("; ".join([f"{len(results)} points", *(f"`{key}`: {value}" for key, value in settings.items())]))
        parts.append(claims_section(self.claims(results)))
        for name in results.values("case"):
            own = results.where(case=name)
            table = results_table(own, self.columns, self.details, self.measures)
            told = (paired_differences(own, *pair) for pair in self.compared)
            parts += [part for part in (f"## {name}", self.about_case(own), table, *told) if part]
        parts += ["## Figures\n\n" + "\n".join(f"- [{name}]({name})" for name in figures), self.legend]
        return "\n\n".join(parts) + "\n"

    def check_distinct(self, *keys: str) -> None:
        """Refuse a list that holds a value twice.

        Raises:
            ValueError: one does.
        """
        for key in keys:
            check_distinct(key, getattr(self, key))

    def state_exactly(self, key: str, is_allowed: str, low: str, high: str) -> None:
        """Bring exact numbers to their one plain spelling: those above ``low``, and at most ``high``.

        Raises:
            ValueError: one is no such number; the message is ``is_allowed``.
        """
        numbers = [exact_number(key, text) for text in getattr(self, key)]
        if any(not Decimal(low) < number <= Decimal(high) for number in numbers):
            raise ValueError(is_allowed)
        msgspec.structs.force_setattr(self, key, tuple(map(decimal_text, numbers)))


class SimulatedStudy(Study, frozen=True, kw_only=True):
    """A grid of cases, prices and methods, each point repeated ``trials`` times."""

    seed: Annotated[int, Meta(ge=0, le=(1 << 62), description="of the whole study")] = 0
    trials: Annotated[int, Meta(ge=2, le=1_000_000, description="simulated releases a cell")] = 300
    draws: Annotated[int, Meta(ge=2, le=10_000, description="posterior draws per trial")] = 199
    epsilon: Annotated[tuple[Exact, ...], Meta(min_length=1, description="prices, exact")]
    methods: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        msgspec.structs.force_setattr(self, "epsilon", exact_prices(self.epsilon))
        self.check_distinct("epsilon", "methods")
        if self.trials * self.draws > _MOST_DRAWS:
            raise ValueError(f"trials times draws is {self.trials * self.draws}; allowed: at most {_MOST_DRAWS}")


def prices_and_methods(
    prices: Sequence[str], methods: Sequence[MethodType], free: MethodType
) -> Iterator[tuple[str | None, MethodType]]:
    """Yield epsilon and method of every point of a case; what has no price is computed once."""
    if free in methods:
        yield None, free
    for epsilon in prices:
        yield from ((epsilon, method) for method in methods if method != free)


def check_distinct(key: str, values: Sequence[object]) -> None:
    """Refuse a list that holds a value twice.

    Raises:
        ValueError: it does.
    """
    if len(set(values)) != len(values):
        raise ValueError(f"{key} holds a value twice: {', '.join(map(str, values))}")


def exact_prices(texts: Sequence[str]) -> tuple[str, ...]:
    """Return epsilons in their one plain spelling.

    Raises:
        ValueError: one is no epsilon.
    """
    prices = tuple(decimal_text(exact_number("epsilon", text)) for text in texts)
    for text in prices:
        check_epsilon(parse_decimal(text))
    return prices


def exact_number(key: str, text: str) -> Decimal:
    """Return the exact number of a key.

    Raises:
        ValueError: it is no plain decimal number.
    """
    try:
        return parse_decimal(text)
    except ValueError as error:
        raise ValueError(f"{key} is {text!r}: {error}") from None


def build_model_sections(place: str, model: str, domain: Any, prior: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a model's domain and prior in full.

    Raises:
        SpecError: there is no such model, or they do not fit it; with their place in the study.
    """
    if model not in model_names():
        raise SpecError(f"there is no model {model!r}", where=f"{place}.model", hint=nearest(model, model_names()))
    try:
        spec = build_spec({"model": model, "domain": domain, "prior": prior})
        spec.build_model()
    except SpecError as error:
        raise SpecError(message_of(error), where=f"{place}.{error.where}".rstrip("."), hint=error.hint) from None
    return msgspec.to_builtins(spec.domain), msgspec.to_builtins(spec.prior)


def message_of(error: SpecError) -> str:
    """Return the message of an error without the place that it names."""
    return error.message.removeprefix(f"{error.where}: ")


def overridden(study: StudyType, *, trials: int | None, seed: int | None) -> StudyType:
    """Return a study with another number of trials or another seed, if they are stated.

    Raises:
        SpecError: that is too much for a point.
    """
    document = msgspec.to_builtins(study)
    stated = {"trials": trials, "seed": seed}
    document.update({key: value for key, value in stated.items() if value is not None})
    return convert_section(document, type(study))


def restricted(study: StudyType, cases: tuple[str, ...]) -> StudyType:
    """Return a study of some of its cases.

    Raises:
        SpecError: there is no such case.
    """
    for name in cases:
        if name not in study.cases:
            raise SpecError(f"there is no case {name!r}", where="cases", hint=nearest(name, study.cases))
    return msgspec.structs.replace(study, cases={name: study.cases[name] for name in dict.fromkeys(cases)})
