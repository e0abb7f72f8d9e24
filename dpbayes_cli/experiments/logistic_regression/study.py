"""The file of a study of logistic regression: which records, at which prices, by which methods."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from dpbayes_cli.base.numeric import decimal_text
from dpbayes_cli.core.columns import Column, CutColumn
from dpbayes_cli.core.section import Level, Positive, Section
from dpbayes_cli.experiments.file_records import absolute
from dpbayes_cli.experiments.study import SimulatedStudy, build_cases, exact_number
from dpbayes_cli.models.families.regression_domain import FeatureSection, check_target
from dpbayes_cli.spec.convert_section import Exact, convert_section

Method = Literal["true-posterior", "rdp-concentrated", "rdp-diffuse", "ops", "gdp-langevin", "minami-langevin"]

_Records = Annotated[int, Meta(ge=2, le=10_000_000)]


class TwoClasses(Section, frozen=True, kw_only=True):
    """The class that is predicted: one of two texts, or whether a number reaches a cut."""

    column: Annotated[str, Meta(description="the column")]
    values: Annotated[tuple[Level, Level] | None, Meta(description="its two texts, that of class 0 first")] = None
    cut: Annotated[float | None, Meta(description="in place of values: class 1 is a number of at least that")] = None
    impute: Annotated[str, Meta(description="the public value that an invalid cell counts as")]

    def __post_init__(self) -> None:
        if (self.values is None) == (self.cut is None):
            raise ValueError("a target has values, or a cut")

    def target(self) -> Column | CutColumn:
        """Return the column, whose codes are the classes."""
        if self.cut is not None:
            return CutColumn(self.column, (self.cut,), self.impute)
        return Column(self.column, self.values or (), self.impute)


class LogisticCase(Section, frozen=True, kw_only=True):
    """A file to learn from, and one to predict or a part of the same; the rows are those of the paper.

    Texts become indicators of their public values; these and numbers between their public bounds are scaled to
    [-0.5, 0.5]; then each row is divided by its norm.
    """

    train: Annotated[str, Meta(description="the file to learn from, relative to the study")]
    test: Annotated[str | None, Meta(description="the file to predict; none: what is left of the other")] = None
    n_train: Annotated[_Records | None, Meta(description="records to learn from, at random in each trial")] = None
    target: TwoClasses
    features: Annotated[dict[str, FeatureSection], Meta(min_length=1)]
    beta: Annotated[Positive, Meta(description="the prior precision of n records is n beta")]

    def __post_init__(self) -> None:
        check_target(self.target.column, self.features)
        if (self.test is None) == (self.n_train is None):
            raise ValueError("state test, or n_train")
        for name, feature in self.features.items():
            if feature.impute is None:
                raise ValueError(f"{name}: a cell that holds no valid value needs a public stand-in, impute: VALUE")


class LogisticStudy(SimulatedStudy, frozen=True, kw_only=True):
    """Prices are epsilons of Renyi divergence at ``orders``, and pairs of ``epsilon_at_delta`` and ``delta``."""

    study: Literal["logistic-regression"]
    draws: Annotated[int, Meta(ge=1, le=1, description="posterior draws a trial")] = 1
    trials: Annotated[int, Meta(ge=2, le=10_000, description="draws a cell")] = 50
    orders: Annotated[tuple[Exact, ...], Meta(description="orders of Renyi divergence; 1 is Kullback-Leibler")]
    delta: Annotated[Exact, Meta(description="of the pairs")] = "1e-6"
    epsilon_at_delta: Annotated[tuple[Exact, ...], Meta(description="epsilons of the pairs")] = ()
    metropolis_steps: Annotated[int, Meta(ge=10, le=100_000, description="of chains that stand for exact draws")] = 60
    langevin_steps: Annotated[int, Meta(ge=1, le=1_000_000, description="of released chains, at most")] = 800
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)]
    cases: Annotated[dict[str, LogisticCase], Meta(min_length=1)]

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("orders", "epsilon_at_delta"):
            numbers = [exact_number(key, text) for text in getattr(self, key)]
            if any(not 0 < number <= 10_000 for number in numbers):
                raise ValueError(f"{key} are positive and at most 10,000")
            msgspec.structs.force_setattr(self, key, tuple(map(decimal_text, numbers)))
        if any(Decimal(order) < 1 for order in self.orders):
            raise ValueError("an order is 1 or more")
        self.check_distinct("orders", "epsilon_at_delta")
        delta = exact_number("delta", self.delta)
        if not 0 < delta < Decimal("0.1"):
            raise ValueError("delta is positive and below 0.1")
        msgspec.structs.force_setattr(self, "delta", decimal_text(delta))


def build_logistic(document: dict[str, Any], base: Path) -> LogisticStudy:
    """Check a document; paths are made absolute.

    Args:
        document: nested mappings and lists of texts.
        base: the directory that paths are relative to.

    Raises:
        SpecError: a key is unknown, missing or has a wrong value; the first is named, with its place.
    """
    return build_cases(document, LogisticStudy, partial(_case, base))


def _case(base: Path, place: str, document: Any) -> LogisticCase:
    case = convert_section(document, LogisticCase, place)
    return msgspec.structs.replace(case, train=absolute(base, case.train), test=absolute(base, case.test))
