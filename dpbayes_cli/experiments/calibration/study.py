"""The file of a calibration study: which cases, sizes, prices and methods are simulated, and how often."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, field

from dpbayes_cli.base.errors import SpecError, nearest
from dpbayes_cli.base.numeric import decimal_text
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.options import PowerTarget
from dpbayes_cli.core.registry import check_supports, mechanism_type, model_names, model_type, supports
from dpbayes_cli.core.section import Section
from dpbayes_cli.experiments.study import SimulatedStudy, build_cases, build_model_sections, exact_number
from dpbayes_cli.privacy.guarantee import check_delta
from dpbayes_cli.spec.convert_section import Exact, convert_section
from dpbayes_cli.spec.release_spec import build_spec

Method = Literal["noise-aware", "naive", "ops", "non-private"]


class OpsSection(Section, frozen=True, kw_only=True):
    """The baseline that releases posterior draws instead of noisy statistics."""

    draws: Annotated[int, Meta(ge=2, le=10_000, description="draws; each costs epsilon / draws")] = 100
    temper: Annotated[PowerTarget, Meta(description="what the temperature acts on; joint is the papers' form")] = (
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


class CalibrationStudy(SimulatedStudy, frozen=True, kw_only=True):
    """A grid of cases x n x epsilon x methods, each cell repeated ``trials`` times."""

    study: Literal["calibration"] = "calibration"
    n: Annotated[tuple[Annotated[int, Meta(ge=1, le=10**9)], ...], Meta(min_length=1, description="record numbers")]
    methods: Annotated[tuple[Method, ...], Meta(min_length=1, description="what makes a posterior of a release")]
    mechanism: Annotated[str, Meta(description="whose noise noise-aware and naive see")] = "laplace"
    delta: Annotated[Exact | None, Meta(description="with gaussian: the delta beside epsilon")] = None
    mmd: Annotated[bool, Meta(description="whether to measure the distance to the non-private posterior")] = True
    ops: OpsSection = field(default_factory=OpsSection)
    cases: Annotated[dict[str, CaseSection], Meta(min_length=1)]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta is not None:
            check_delta(exact_number("delta", self.delta))
            msgspec.structs.force_setattr(self, "delta", decimal_text(exact_number("delta", self.delta)))
        self.check_distinct("n")


def build_calibration(document: dict[str, Any]) -> CalibrationStudy:
    """Check a document; domains and priors are brought to their full form, defaults written out.

    Raises:
        SpecError: a key is unknown, missing or has a wrong value; the first is named, with its place.
    """
    return build_cases(document, CalibrationStudy, _case)


def _case(place: str, document: Any) -> CaseSection:
    """Check one case and write its defaults out."""
    case = convert_section(document, CaseSection, place)
    domain, prior = build_model_sections(place, case.model, case.domain, case.prior)
    unclamped = (
        None if case.unclamped is None else build_model_sections(place, case.model, case.unclamped, case.prior)[0]
    )
    return msgspec.structs.replace(case, domain=domain, prior=prior, unclamped=unclamped)


def parameter_of(case: CaseSection) -> str:
    """Return the name of the parameter that is looked at."""
    if case.parameter is not None:
        return case.parameter
    spec = build_spec({"model": case.model, "domain": case.domain, "prior": case.prior})
    return spec.build_model().parameters[0]


def _is_studied(kind: type[Model]) -> bool:
    """Return whether a noisy statistic of a model can be released, and its posterior without noise be drawn from."""
    return all(supports(mechanism_type(name), kind) for name in ("laplace", "rdp-direct"))


def check_served(study: CalibrationStudy) -> None:
    """Refuse what cannot be simulated, before anything is.

    Raises:
        SpecError: a model's posterior cannot be inferred from noisy statistics, a parameter does not exist, or a
            mechanism does not serve a model.
    """
    for name, case in study.cases.items():
        kind, where = model_type(case.model), f"cases.{name}"
        if not _is_studied(kind):
            served = [other for other in model_names() if _is_studied(model_type(other))]
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
        check_supports(mechanism, kind)
        if not mechanism.post_processing:
            raise SpecError(f"{study.mechanism!r} adds no noise", where="mechanism", hint="allowed: laplace, gaussian")
        if "ops" in study.methods and not supports(mechanism_type("ops"), kind):
            raise SpecError(f"ops does not serve model {case.model!r}", where=where, hint="leave ops out of methods")


def coordinates(study: CalibrationStudy) -> Iterator[tuple[str, int, str, Method]]:
    """Return case, n, epsilon and method of every cell, in the order of the file."""
    return (
        (name, n, epsilon, method)
        for name in study.cases
        for n in study.n
        for epsilon in study.epsilon
        for method in study.methods
    )
