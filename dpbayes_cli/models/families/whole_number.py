"""Records that are one whole number each, from 0 to a public bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import Meta

from dpbayes_cli.core.columns import NumericColumn, Outside
from dpbayes_cli.core.section import Section
from dpbayes_cli.models.families.capabilities import OneParameterNumber


class WholeNumberDomain(Section, frozen=True, kw_only=True):
    """The public bound of the numbers."""

    upper: Annotated[int, Meta(ge=1, le=1_000_000, description="the upper bound of the numbers")]
    out_of_bounds: Annotated[Outside, Meta(description="clamp larger numbers to the bound, or drop the record")] = (
        "clamp"
    )


class WholeNumber(OneParameterNumber):
    """The capability of models whose records are one whole number each, from 0 to a public bound.

    Attributes:
        upper: the bound.
        out_of_bounds: whether larger numbers are clamped or dropped.
    """

    domain_type: ClassVar[type[Section]] = WholeNumberDomain
    first_spec: ClassVar[Mapping[str, str]] = {"upper": "100"}
    first_spec_drawn: ClassVar[Mapping[str, str]] = {"on_invalid": "impute:1"}
    whole_numbers: ClassVar[bool] = True

    upper: int
    out_of_bounds: Outside

    @property
    def column(self) -> NumericColumn:
        """The column of numbers."""
        return NumericColumn("value", 0.0, float(self.upper), self.upper, integers=True, outside=self.out_of_bounds)
