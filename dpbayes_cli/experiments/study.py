"""A study: the typed file that says which cases, sizes, prices and methods are simulated, and how often."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, field

from dpbayes_cli.contracts import WRITTEN_FREELY, NoisyStatistics, Section, Temper
from dpbayes_cli.errors import SpecError, nearest
from dpbayes_cli.numeric import decimal_text, parse_decimal
from dpbayes_cli.privacy.guarantee import check_delta, check_epsilon
from dpbayes_cli.registry import check_serves, mechanism_type, model_names, model_type, serves
from dpbayes_cli.spec.release_spec import build_spec, check_name
from dpbayes_cli.spec.sections import convert_section

Method = Literal["noise-aware", "naive", "ops", "non-private"]
_Exact = Annotated[str, Meta(extra_json_schema=WRITTEN_FREELY)]
_MOST_DRAWS = 20_000_000


class OpsSection(Section, frozen=True, kw_only=True):
    """The baseline that releases posterior draws instead of noisy statistics."""

    draws: Annotated[int, Meta(ge=2, le=10_000, description="draws; each costs epsilon / draws")] = 100
    temper: Annotated[Temper, Meta(description="what the temperature acts on; joint is the papers' form")] = (
        "likelihood"
    )


class CaseSection(Section, frozen=True, kw_only=True):
    """One model with its public domain and its prior, from which parameters are drawn."""

    model: str
    domain: dict[str, Any] = field(default_factory=dict)
    prior: dict[str, Any] = field(default_factory=dict)
    parameter: Annotated[str | None, Meta(description="whose rank is looked at; default: the model's first")] = None
    support: Annotated[tuple[float, float] | None, Meta(description="with ops: public range of the parameter")] = None
    unclamped: Annotated[
        dict[str, Any] | None,
        Meta(description="a domain with bounds so wide that nothing is clamped, for the non-private posterior"),
    ] = None


class Study(Section, frozen=True, kw_only=True):
    """A grid of cases x n x epsilon x methods, each cell repeated ``trials`` times."""

    name: str
    seed: Annotated[int, Meta(ge=0, le=(1 << 62), description="of the whole study")] = 0
    trials: Annotated[int, Meta(ge=2, le=1_000_000, description="simulated releases a cell")] = 300
    draws: Annotated[int, Meta(ge=2, le=10_000, description="posterior draws a trial")] = 199
    n: Annotated[tuple[Annotated[int, Meta(ge=1, le=10**9)], ...], Meta(min_length=1, description="record numbers")]
    epsilon: Annotated[tuple[_Exact, ...], Meta(min_length=1, description="prices, exact")]
    methods: Annotated[tuple[Method, ...], Meta(min_length=1, description="what makes a posterior of a release")]
    mechanism: Annotated[str, Meta(description="whose noise noise-aware and naive see")] = "laplace"
    delta: Annotated[_Exact | None, Meta(description="with gaussian: the delta beside epsilon")] = None
    mmd: Annotated[bool, Meta(description="whether to measure the distance to the non-private posterior")] = True
    ops: OpsSection = field(default_factory=OpsSection)
    cases: Annotated[dict[str, CaseSection], Meta(min_length=1)]

    def __post_init__(self) -> None:
        check_name(self.name)
        prices = tuple(decimal_text(_exact("epsilon", text)) for text in self.epsilon)
        msgspec.structs.force_setattr(self, "epsilon", prices)
        for text in prices:
            check_epsilon(parse_decimal(text))
        if self.delta is not None:
            check_delta(_exact("delta", self.delta))
            msgspec.structs.force_setattr(self, "delta", decimal_text(_exact("delta", self.delta)))
        for key in ("n", "epsilon", "methods"):
            values = getattr(self, key)
            if len(set(values)) != len(values):
                raise ValueError(f"{key} holds a value twice: {', '.join(map(str, values))}")
        if self.trials * self.draws > _MOST_DRAWS:
            raise ValueError(f"trials times draws is {self.trials * self.draws}; allowed: at most {_MOST_DRAWS}")


def _exact(key: str, text: str) -> Any:
    try:
        return parse_decimal(text)
    except ValueError as error:
        raise ValueError(f"{key} is {text!r}: {error}") from None


def read_study(path: Path) -> Study:
    """Read a study file.

    Raises:
        SpecError: it is not plain YAML, or a key is unknown, missing or has a wrong value.
    """
    from dpbayes_cli.spec.yaml_reader import read_spec_file

    return build_study(read_spec_file(path))


def build_study(document: dict[str, Any]) -> Study:
    """Check a document; domains and priors are brought to their full form, defaults written out.

    Raises:
        SpecError: a key is unknown, missing or has a wrong value; the first is named, with its place.
    """
    cases = document.get("cases")
    if not isinstance(cases, dict) or not cases:
        raise SpecError(
            "no case is stated", where="cases", hint="a case is NAME: {model: ..., domain: {...}, prior: {...}}"
        )
    built = {name: _case(name, part) for name, part in cases.items()}
    return convert_section({**document, "cases": msgspec.to_builtins(built)}, Study)


def _case(name: str, document: Any) -> CaseSection:
    """Check one case and write its defaults out."""
    place = f"cases.{name}"
    try:
        check_name(name)
    except ValueError as error:
        raise SpecError(str(error), where=place) from None
    case = convert_section(document, CaseSection, place)
    domain, prior = _sections(place, case.model, case.domain, case.prior)
    unclamped = None if case.unclamped is None else _sections(place, case.model, case.unclamped, case.prior)[0]
    return msgspec.structs.replace(case, domain=domain, prior=prior, unclamped=unclamped)


def _sections(place: str, model: str, domain: Any, prior: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a model's domain and prior in full."""
    if model not in model_names():
        raise SpecError(f"there is no model {model!r}", where=f"{place}.model", hint=nearest(model, model_names()))
    try:
        spec = build_spec({"model": model, "domain": domain, "prior": prior})
        spec.build_model()
    except SpecError as error:
        message = error.message.removeprefix(f"{error.where}: ")
        raise SpecError(message, where=f"{place}.{error.where}".rstrip("."), hint=error.hint) from None
    return msgspec.to_builtins(spec.domain), msgspec.to_builtins(spec.prior)


def overridden(study: Study, *, trials: int | None, seed: int | None) -> Study:
    """Return a study with another number of trials or another seed, where they are stated.

    Raises:
        SpecError: that is too much for a cell.
    """
    document = msgspec.to_builtins(study)
    stated = {"trials": trials, "seed": seed}
    document.update({key: value for key, value in stated.items() if value is not None})
    return convert_section(document, Study)


def restricted(study: Study, cases: tuple[str, ...]) -> Study:
    """Return a study of some of its cases.

    Raises:
        SpecError: there is no such case.
    """
    for name in cases:
        if name not in study.cases:
            raise SpecError(f"there is no case {name!r}", where="cases", hint=nearest(name, study.cases))
    return msgspec.structs.replace(study, cases={name: study.cases[name] for name in dict.fromkeys(cases)})


def check_served(study: Study) -> None:
    """Refuse what cannot be simulated, before anything is.

    Raises:
        SpecError: a model's posterior cannot be inferred from noisy statistics, a parameter does not exist, or a
            mechanism does not serve a model.
    """
    from dpbayes_cli.capabilities import ConjugatePosterior

    needed = (NoisyStatistics, ConjugatePosterior)
    for name, case in study.cases.items():
        kind, where = model_type(case.model), f"cases.{name}"
        if not issubclass(kind, needed):
            served = [other for other in model_names() if issubclass(model_type(other), needed)]
            raise SpecError(
                f"model {case.model!r} cannot be studied: its posterior cannot be inferred from a noisy statistic",
                where=f"{where}.model",
                hint=f"allowed: {', '.join(served)}; leave the case out, or run the others with --case NAME",
            )
        model = build_spec({"model": case.model, "domain": case.domain, "prior": case.prior}).build_model()
        if case.parameter is not None and case.parameter not in model.parameters:
            raise SpecError(
                f"there is no parameter {case.parameter!r}",
                where=f"{where}.parameter",
                hint=nearest(case.parameter, model.parameters),
            )
        mechanism = mechanism_type(study.mechanism)
        check_serves(mechanism, kind)
        if not mechanism.post_processing:
            raise SpecError(f"{study.mechanism!r} adds no noise", where="mechanism", hint="allowed: laplace, gaussian")
        if "ops" in study.methods and not serves(mechanism_type("ops"), kind):
            raise SpecError(f"ops does not serve model {case.model!r}", where=where, hint="leave ops out of methods")


def coordinates(study: Study) -> Iterator[tuple[str, int, str, Method]]:
    """Return case, n, epsilon and method of every cell, in the order of the file."""
    return (
        (name, n, epsilon, method)
        for name in study.cases
        for n in study.n
        for epsilon in study.epsilon
        for method in study.methods
    )
