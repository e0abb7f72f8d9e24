"""What the files of all studies share: a name and named cases; and of those that simulate, a seed, prices, trials."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from dpbayes_cli.base.errors import SpecError, nearest
from dpbayes_cli.base.numeric import decimal_text, parse_decimal
from dpbayes_cli.core.registry import model_names
from dpbayes_cli.core.section import Section
from dpbayes_cli.privacy.guarantee import check_epsilon
from dpbayes_cli.spec.convert_section import Exact, convert_section
from dpbayes_cli.spec.release_spec import build_spec, check_name

_MOST_DRAWS = 20_000_000

StudyType = TypeVar("StudyType", bound="Study")


class Study(Section, frozen=True, kw_only=True):
    """Named cases; whatever else there is, the kind of study says."""

    study: str
    name: str
    cases: Mapping[str, Section]

    def __post_init__(self) -> None:
        check_name(self.name)

    def check_distinct(self, *keys: str) -> None:
        """Refuse a list that holds a value twice.

        Raises:
            ValueError: one does.
        """
        for key in keys:
            values = getattr(self, key)
            if len(set(values)) != len(values):
                raise ValueError(f"{key} holds a value twice: {', '.join(map(str, values))}")


class SimulatedStudy(Study, frozen=True, kw_only=True):
    """A grid of cases, prices and methods, each cell repeated ``trials`` times."""

    seed: Annotated[int, Meta(ge=0, le=(1 << 62), description="of the whole study")] = 0
    trials: Annotated[int, Meta(ge=2, le=1_000_000, description="simulated releases a cell")] = 300
    draws: Annotated[int, Meta(ge=2, le=10_000, description="posterior draws a trial")] = 199
    epsilon: Annotated[tuple[Exact, ...], Meta(min_length=1, description="prices, exact")]
    methods: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        msgspec.structs.force_setattr(self, "epsilon", exact_prices(self.epsilon))
        self.check_distinct("epsilon", "methods")
        if self.trials * self.draws > _MOST_DRAWS:
            raise ValueError(f"trials times draws is {self.trials * self.draws}; allowed: at most {_MOST_DRAWS}")


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


def build_cases(document: dict[str, Any], kind: type[StudyType], build: Callable[[str, Any], Section]) -> StudyType:
    """Check the cases of a document one by one, and the document with what was made of them.

    Args:
        document: the whole file.
        kind: the type of the study.
        build: checks one case, by its place in the file.

    Raises:
        SpecError: a key is unknown, missing or has a wrong value; the first is named, with its place.
    """
    cases = document.get("cases")
    if not isinstance(cases, dict) or not cases:
        raise SpecError(
            "no case is stated", where="cases", hint="a case is NAME: {model: ..., domain: {...}, prior: {...}}"
        )
    built = {}
    for name, part in cases.items():
        place = f"cases.{name}"
        try:
            check_name(name)
        except ValueError as error:
            raise SpecError(str(error), where=place) from None
        built[name] = msgspec.to_builtins(build(place, part))
    return convert_section({**document, "cases": built}, kind)


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
        message = error.message.removeprefix(f"{error.where}: ")
        raise SpecError(message, where=f"{place}.{error.where}".rstrip("."), hint=error.hint) from None
    return msgspec.to_builtins(spec.domain), msgspec.to_builtins(spec.prior)


def overridden(study: StudyType, *, trials: int | None, seed: int | None) -> StudyType:
    """Return a study with another number of trials or another seed, where they are stated.

    Raises:
        SpecError: that is too much for a cell.
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
