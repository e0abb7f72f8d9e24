"""The file of a study of utility at Renyi prices: which prior and data, which orders and prices, which methods."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from dpbayes_cli.base.numeric import decimal_text
from dpbayes_cli.experiments.coin import CoinCase
from dpbayes_cli.experiments.study import Study, build_cases, exact_number, exact_prices
from dpbayes_cli.spec.convert_section import Exact, convert_section

Method = Literal[
    "rdp-direct", "rdp-diffuse", "rdp-concentrated", "gaussian-paper", "gaussian-naive", "gaussian", "laplace"
]


class UtilityCase(CoinCase, frozen=True, kw_only=True):
    """A prior, data, and the probability from which data and held-out records of other trials come."""

    n: Annotated[int, Meta(ge=1, le=1000, description="number of records, learned from and held out")]
    successes: Annotated[int, Meta(ge=0, description="of the data whose posterior is compared")]
    theta: Annotated[float, Meta(gt=0, lt=1, description="from which data and held-out records are drawn")] = 0.5

    def __post_init__(self) -> None:
        if self.successes > self.n:
            raise ValueError(f"there are {self.successes} successes in {self.n} records")


class RenyiUtilityStudy(Study, frozen=True, kw_only=True):
    """A grid of cases x orders x epsilon x methods; expectations are computed, and nothing is random."""

    study: Literal["renyi-utility"]
    orders: Annotated[tuple[Exact, ...], Meta(min_length=1, description="of Renyi divergence")]
    epsilon: Annotated[tuple[Exact, ...], Meta(min_length=1, description="prices at an order")]
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)]
    cases: Annotated[dict[str, UtilityCase], Meta(min_length=1)]

    def __post_init__(self) -> None:
        super().__post_init__()
        msgspec.structs.force_setattr(self, "epsilon", exact_prices(self.epsilon))
        orders = [exact_number("orders", text) for text in self.orders]
        if any(not Decimal(1) < order <= 256 for order in orders):
            raise ValueError("an order is above 1 and at most 256")
        msgspec.structs.force_setattr(self, "orders", tuple(map(decimal_text, orders)))
        self.check_distinct("orders", "epsilon", "methods")


def build_renyi_utility(document: dict[str, Any]) -> RenyiUtilityStudy:
    """Check a document.

    Raises:
        SpecError: a key is unknown, missing or has a wrong value; the first is named, with its place.
    """
    return build_cases(document, RenyiUtilityStudy, lambda place, case: convert_section(case, UtilityCase, place))


def coordinates(study: RenyiUtilityStudy) -> Iterator[tuple[str, str, str | None, Method]]:
    """Return case, order, epsilon and method of every cell; the true posterior has one price an order, its own."""
    for name in study.cases:
        for order in study.orders:
            if "rdp-direct" in study.methods:
                yield name, order, None, "rdp-direct"
            for epsilon in study.epsilon:
                yield from ((name, order, epsilon, method) for method in study.methods if method != "rdp-direct")
