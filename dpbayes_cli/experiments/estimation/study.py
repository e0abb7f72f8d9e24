"""The file of a study of estimates: which truths and priors, how many records, which prices and methods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.experiments.coin import CoinCase
from dpbayes_cli.experiments.study import SimulatedStudy, build_cases, exact_prices
from dpbayes_cli.spec.convert_section import convert_section

Method = Literal["non-private", "laplace-paper", "laplace-naive", "laplace", "ops"]


class EstimationCase(CoinCase, frozen=True, kw_only=True):
    """A true probability, a prior, and the numbers of records that are looked at."""

    theta: Annotated[float, Meta(gt=0, lt=1, description="the true probability of success")]
    n: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=10_000_000)], ...], Meta(min_length=1, description="record numbers")
    ]
    support: Annotated[tuple[float, float], Meta(description="with ops: public range of the parameter")]
    epsilon: Annotated[tuple[str, ...], Meta(description="of this case, in place of the study's")] = ()
    densities: Annotated[int, Meta(ge=0, le=1000, description="releases whose posteriors are drawn in a figure")] = 0


class EstimationStudy(SimulatedStudy, frozen=True, kw_only=True):
    """A grid of cases x n x epsilon x methods; all methods see the same records."""

    study: Literal["estimation"]
    draws: Annotated[int, Meta(ge=1, le=1, description="posterior draws a trial")] = 1
    trials: Annotated[int, Meta(ge=2, le=100_000, description="releases a cell")] = 1000
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)]
    cases: Annotated[dict[str, EstimationCase], Meta(min_length=1)]


def build_estimation(document: dict[str, Any]) -> EstimationStudy:
    """Check a document.

    Raises:
        SpecError: a key is unknown, missing or has a wrong value; the first is named, with its place.
    """
    return build_cases(document, EstimationStudy, _case)


def _case(place: str, document: Any) -> EstimationCase:
    """Check one case, its prices in their one plain spelling."""
    case = convert_section(document, EstimationCase, place)
    try:
        return msgspec.structs.replace(case, epsilon=exact_prices(case.epsilon))
    except ValueError as error:
        raise SpecError(str(error), where=place) from None


def prices_of(study: EstimationStudy, case: EstimationCase) -> tuple[str, ...]:
    """Return the epsilons of a case: its own, or the study's."""
    return case.epsilon or study.epsilon


def coordinates(study: EstimationStudy) -> Iterator[tuple[str, int, str | None, Method]]:
    """Return case, n, epsilon and method of every cell; without a price one cell an n is enough."""
    for name, case in study.cases.items():
        for n in case.n:
            if "non-private" in study.methods:
                yield name, n, None, "non-private"
            for epsilon in prices_of(study, case):
                yield from ((name, n, epsilon, method) for method in study.methods if method != "non-private")
