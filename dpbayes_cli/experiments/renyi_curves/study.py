"""The file of a study of Renyi curves: which priors, by how much they or the data are weighted down, which orders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from dpbayes_cli.base.numeric import decimal_text
from dpbayes_cli.experiments.coin import CoinCase
from dpbayes_cli.experiments.study import Study, build_cases, exact_number
from dpbayes_cli.spec.convert_section import Exact, convert_section

Method = Literal["rdp-diffuse", "rdp-concentrated"]
Records = Literal["complete", "dropped"]


class RenyiCase(CoinCase, frozen=True, kw_only=True):
    """A prior, and the public number of records."""

    n: Annotated[int, Meta(ge=1, le=10**9, description="number of records")]


class RenyiCurvesStudy(Study, frozen=True, kw_only=True):
    """A grid of cases x methods x weights x records; nothing is random."""

    study: Literal["renyi-curves"]
    weights: Annotated[
        tuple[Exact, ...], Meta(min_length=1, description="r of rdp-diffuse, m of rdp-concentrated; 1: rdp-direct")
    ]
    highest_order: Annotated[float, Meta(gt=1, le=256, description="orders are looked at up to this one")] = 20.0
    points: Annotated[int, Meta(ge=2, le=10_000, description="orders a curve, in equal steps")] = 400
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)] = ("rdp-diffuse", "rdp-concentrated")
    records: Annotated[
        tuple[Records, ...], Meta(min_length=1, description="whether records may be invalid, and are dropped then")
    ] = ("complete",)
    cases: Annotated[dict[str, RenyiCase], Meta(min_length=1)]

    def __post_init__(self) -> None:
        super().__post_init__()
        numbers = [exact_number("weights", text) for text in self.weights]
        if any(not 0 < number <= 1 for number in numbers):
            raise ValueError("a weight is positive and at most 1")
        msgspec.structs.force_setattr(self, "weights", tuple(map(decimal_text, numbers)))
        self.check_distinct("weights", "methods", "records")


def build_renyi_curves(document: dict[str, Any]) -> RenyiCurvesStudy:
    """Check a document.

    Raises:
        SpecError: a key is unknown, missing or has a wrong value; the first is named, with its place.
    """
    return build_cases(document, RenyiCurvesStudy, lambda place, case: convert_section(case, RenyiCase, place))


def coordinates(study: RenyiCurvesStudy) -> Iterator[tuple[str, Method, Records, str]]:
    """Return case, method, records and weight of every curve, in the order of the file."""
    return (
        (name, method, records, weight)
        for name in study.cases
        for method in study.methods
        for records in study.records
        for weight in study.weights
    )
