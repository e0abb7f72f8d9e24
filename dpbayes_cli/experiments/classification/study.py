"""The file of a classification study: which networks predict which records, at which prices and by which methods."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta, field

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import decimal_text, parse_decimal
from dpbayes_cli.core.registry import mechanism_type, model_names, model_type, supports
from dpbayes_cli.core.section import Section
from dpbayes_cli.experiments.file_records import absolute
from dpbayes_cli.experiments.study import SimulatedStudy, build_cases, build_model_sections, exact_number
from dpbayes_cli.privacy.guarantee import check_epsilon
from dpbayes_cli.spec.convert_section import Exact, convert_section
from dpbayes_cli.spec.release_spec import build_spec

if TYPE_CHECKING:
    from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet

Method = Literal["non-private", "laplace", "laplace-naive", "fourier-laplace", "fourier-naive", "ops"]

_Records = Annotated[int, Meta(ge=1, le=10_000_000)]


class ClassificationCase(Section, frozen=True, kw_only=True):
    """A network that predicts one of its variables, and where its records come from: the prior, or two files."""

    model: str
    domain: dict[str, Any]
    prior: dict[str, Any] = field(default_factory=dict)
    n_train: Annotated[_Records | None, Meta(description="simulated records to learn from")] = None
    n_test: Annotated[_Records | None, Meta(description="simulated records to predict")] = None
    train: Annotated[str | None, Meta(description="the file to learn from, relative to the study")] = None
    test: Annotated[str | None, Meta(description="the file to predict, relative to the study")] = None
    epsilon: Annotated[tuple[Exact, ...], Meta(description="prices of this case, in place of the study's")] = ()
    trials: Annotated[
        Annotated[int, Meta(ge=2, le=1_000_000)] | None, Meta(description="at most so many trials of this case")
    ] = None

    def __post_init__(self) -> None:
        stated = [sum(part is not None for part in pair) for pair in self._sources]
        if sorted(stated) != [0, 2]:
            raise ValueError("state n_train and n_test, or train and test")
        prices = tuple(decimal_text(exact_number("epsilon", text)) for text in self.epsilon)
        if len(set(prices)) != len(prices):
            raise ValueError(f"epsilon holds a value twice: {', '.join(prices)}")
        for text in prices:
            try:
                check_epsilon(parse_decimal(text))
            except SpecError as error:
                raise ValueError(error.message) from None
        msgspec.structs.force_setattr(self, "epsilon", prices)

    @property
    def _sources(self) -> tuple[tuple[object, object], tuple[object, object]]:
        """The two ways to say where records come from."""
        return (self.n_train, self.n_test), (self.train, self.test)


class ClassificationStudy(SimulatedStudy, frozen=True, kw_only=True):
    """A grid of cases x epsilon x methods; the trials of a case have the same records at every price and method."""

    study: Literal["classification"]
    methods: Annotated[tuple[Method, ...], Meta(min_length=1, description="what makes a posterior")]
    cases: Annotated[dict[str, ClassificationCase], Meta(min_length=1)]


def build_classification(document: dict[str, Any], base: Path) -> ClassificationStudy:
    """Check a document; domains and priors are brought to their full form, paths are made absolute.

    Args:
        document: nested mappings and lists of texts.
        base: the directory that paths are relative to.

    Raises:
        SpecError: a key is unknown, missing or has a wrong value; the first is named, with its place.
    """
    return build_cases(document, ClassificationStudy, partial(_case, base))


def _case(base: Path, place: str, document: Any) -> ClassificationCase:
    """Check one case and write its defaults out."""
    case = convert_section(document, ClassificationCase, place)
    domain, prior = build_model_sections(place, case.model, case.domain, case.prior)
    paths = {"train": absolute(base, case.train), "test": absolute(base, case.test)}
    return msgspec.structs.replace(case, domain=domain, prior=prior, **paths)


def network_of(case: ClassificationCase) -> DiscreteBayesNet:
    """Return the model of a case, which is one of networks; see ``check_predicts``."""
    spec = build_spec({"model": case.model, "domain": case.domain, "prior": case.prior})
    return cast("DiscreteBayesNet", spec.build_model())


def check_predicts(study: ClassificationStudy) -> None:
    """Refuse cases that predict nothing.

    Raises:
        SpecError: a model is no network, names no target, or has records from files of which cells may be invalid.
    """
    for name, case in study.cases.items():
        where = f"cases.{name}"
        of_networks = mechanism_type("fourier-laplace")
        if not supports(of_networks, model_type(case.model)):
            served = [other for other in model_names() if supports(of_networks, model_type(other))]
            raise SpecError(
                f"model {case.model!r} does not predict one column from others",
                where=f"{where}.model",
                hint=f"allowed: {', '.join(served)}",
            )
        model = network_of(case)
        if model.target is None:
            raise SpecError("no variable is named to be predicted", where=f"{where}.domain.target", hint="target: NAME")
        open_ended = [column.role for column in model.variables if column.impute is None]
        if case.train is not None and open_ended:
            raise SpecError(
                "a cell that holds no valid value needs a public stand-in",
                where=f"{where}.domain.variables.{open_ended[0]}",
                hint="impute: VALUE, for every variable: the number of complete records is then public",
            )
