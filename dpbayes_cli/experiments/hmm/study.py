"""The file of a study of hidden Markov models: which records, how many states, at which prices, by which methods."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta, field

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.section import Section
from dpbayes_cli.experiments.file_records import absolute
from dpbayes_cli.experiments.study import SimulatedStudy, build_cases, build_model_sections
from dpbayes_cli.spec.convert_section import convert_section
from dpbayes_cli.spec.release_spec import build_spec

if TYPE_CHECKING:
    from dpbayes_cli.models.hmm import Hmm

MODEL = "hmm"

Method = Literal["non-private", "laplace", "laplace-naive", "ops", "gibbs"]


class HmmCase(Section, frozen=True, kw_only=True):
    """Records of sequences and time steps, all with public values."""

    records: Annotated[str, Meta(description="the file, relative to the study")]
    domain: Annotated[dict[str, Any], Meta(description="that of the model, but for the number of states")]
    prior: dict[str, Any] = field(default_factory=dict)


class HmmStudy(SimulatedStudy, frozen=True, kw_only=True):
    """A grid of cases x numbers of states x epsilon x methods; in each trial other cells are held out.

    A cell is a sequence at a time step. All states, prices and methods of a case see the same trials.
    """

    study: Literal["hmm"]
    trials: Annotated[int, Meta(ge=2, le=1_000, description="times that cells are held out")] = 10
    draws: Annotated[int, Meta(ge=2, le=10_000, description="posterior draws to predict by")] = 200
    held_out: Annotated[float, Meta(gt=0, lt=1, description="share of the cells that are predicted")] = 0.1
    states: Annotated[tuple[Annotated[int, Meta(ge=1, le=50)], ...], Meta(min_length=1)] = (2, 1)
    least_share: Annotated[float, Meta(gt=0, lt=0.5, description="public least probability of a value, of ops")] = 0.01
    converged: Annotated[int, Meta(ge=2, le=100_000, description="sweeps after which ops takes its draw")] = 500
    sweeps: Annotated[int, Meta(ge=2, le=100_000, description="sweeps that gibbs pays for")] = 200
    methods: Annotated[tuple[Method, ...], Meta(min_length=1, description="what predicts")]
    cases: Annotated[dict[str, HmmCase], Meta(min_length=1)]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_distinct("states")


def build_hmm(document: dict[str, Any], base: Path) -> HmmStudy:
    """Check a document; domains and priors are brought to their full form, paths are made absolute.

    Args:
        document: nested mappings and lists of texts.
        base: the directory that paths are relative to.

    Raises:
        SpecError: a key is unknown, missing or has a wrong value; the first is named, with its place.
    """
    return build_cases(document, HmmStudy, partial(_case, base))


def _case(base: Path, place: str, document: Any) -> HmmCase:
    """Check one case and write its defaults out; features by their names, for their order changes no digest."""
    case = convert_section(document, HmmCase, place)
    if "states" in case.domain:
        raise SpecError("the study says how many states there are", where=f"{place}.domain.states")
    domain, prior = build_model_sections(place, MODEL, {**case.domain, "states": 1}, case.prior)
    del domain["states"]
    domain["features"] = dict(sorted(domain["features"].items()))
    return msgspec.structs.replace(case, records=absolute(base, case.records), domain=domain, prior=prior)


def model_of(case: HmmCase, states: int) -> Hmm:
    """Return the model of a case with so many states."""
    document = {"model": MODEL, "domain": {**case.domain, "states": states}, "prior": case.prior}
    return cast("Hmm", build_spec(document).build_model())


def check_study(study: HmmStudy) -> None:
    """Refuse cases whose records may be incomplete, or whose features have too many values.

    Raises:
        SpecError: a column has no stand-in for invalid cells, or a feature's values cannot all have the least share.
    """
    for name, case in study.cases.items():
        model, where = model_of(case, 1), f"cases.{name}.domain"
        for column in model.columns:
            if column.impute is None:
                raise SpecError(
                    f"{column.role}: a cell that holds no valid value needs a public stand-in",
                    where=where,
                    hint="impute: VALUE, for every column: the number of records is then public",
                )
        if study.least_share * max(model.sizes) >= 1.0:
            raise SpecError(
                f"{max(model.sizes)} values of a feature cannot all have a share of {study.least_share:g}",
                where="least_share",
            )
