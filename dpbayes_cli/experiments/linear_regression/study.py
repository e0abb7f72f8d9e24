"""The file of a study of linear regression: which records, which priors, at which prices, by which methods."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from dpbayes_cli.base.numeric import decimal_text
from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.section import Positive, Section
from dpbayes_cli.experiments.file_records import absolute
from dpbayes_cli.experiments.study import SimulatedStudy, build_cases, exact_number
from dpbayes_cli.models.families.regression_domain import FeatureSection, NumberTarget, check_target
from dpbayes_cli.spec.convert_section import Exact, convert_section

Method = Literal["non-private", "truncated-sampler", "noise-aware"]


class LinearCase(Section, frozen=True, kw_only=True):
    """A number that is predicted from others, all with public bounds.

    Numbers are scaled to [-1, 1], an intercept of 1 is added, and a row is divided by the root of its length: its norm
    is 1 at most. The prior is that of the coefficients of such rows.
    """

    records: Annotated[str, Meta(description="the file, relative to the study")]
    target: NumberTarget
    features: Annotated[dict[str, FeatureSection], Meta(min_length=1)]
    residual_sd: Annotated[Positive, Meta(description="the known sd of the target given the features, in its units")]
    methods: Annotated[tuple[Method, ...], Meta(description="of this case, in place of the study's")] = ()

    def __post_init__(self) -> None:
        check_target(self.target.column, self.features)
        for name, feature in self.features.items():
            if feature.values or feature.origin is not None:
                raise ValueError(f"{name}: a number has a lower and an upper bound, and is coded 0 in the middle")
        stand_ins = {name: feature.impute for name, feature in self.features.items()}
        for name, impute in {**stand_ins, self.target.column: self.target.impute}.items():
            if impute is None:
                raise ValueError(f"{name}: a cell that holds no valid value needs a public stand-in, impute: VALUE")

    @property
    def columns(self) -> tuple[NumericColumn, ...]:
        """The target, then the features by their names: the order of ``linear-regression``."""
        features = sorted(self.features.items())
        named = ((name, float(str(f.lower)), float(str(f.upper)), f.impute) for name, f in features)
        steps = self.target.target().steps
        return (self.target.target(), *(NumericColumn(name, a, b, steps, impute=i) for name, a, b, i in named))

    @property
    def half_range(self) -> float:
        """Half the range of the target, which is coded 1."""
        return (self.target.upper - self.target.lower) / 2.0


class LinearStudy(SimulatedStudy, frozen=True, kw_only=True):
    """A grid of cases x prior variances x epsilon x methods; in each trial other records are learned from."""

    study: Literal["linear-regression"]
    trials: Annotated[int, Meta(ge=2, le=10_000, description="draws a cell")] = 50
    draws: Annotated[int, Meta(ge=2, le=10_000, description="posterior draws of noise-aware inference")] = 200
    train_share: Annotated[float, Meta(gt=0, lt=1, description="of the records, to learn from")] = 0.1
    prior_variance: Annotated[tuple[Exact, ...], Meta(min_length=1, description="of every coefficient")]
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)]
    cases: Annotated[dict[str, LinearCase], Meta(min_length=1)]

    def __post_init__(self) -> None:
        super().__post_init__()
        numbers = [exact_number("prior_variance", text) for text in self.prior_variance]
        if any(not 0 < number <= Decimal(1_000_000) for number in numbers):
            raise ValueError("a prior variance is positive and at most 1,000,000")
        msgspec.structs.force_setattr(self, "prior_variance", tuple(map(decimal_text, numbers)))
        self.check_distinct("prior_variance")


def build_linear(document: dict[str, Any], base: Path) -> LinearStudy:
    """Check a document; paths are made absolute.

    Args:
        document: nested mappings and lists of texts.
        base: the directory that paths are relative to.

    Raises:
        SpecError: a key is unknown, missing or has a wrong value; the first is named, with its place.
    """
    return build_cases(document, LinearStudy, partial(_case, base))


def _case(base: Path, place: str, document: Any) -> LinearCase:
    case = convert_section(document, LinearCase, place)
    return msgspec.structs.replace(case, records=absolute(base, case.records))
