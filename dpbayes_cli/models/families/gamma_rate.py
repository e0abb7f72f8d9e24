"""A rate with a Gamma prior, for models of counts or waiting times."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta

from dpbayes_cli.core.section import Positive
from dpbayes_cli.models.families.capabilities import Arithmetic, ConjugatePosterior, OneParameterFamily

PriorShape = Annotated[Positive, Meta(description="shape of the Gamma prior")]
PriorRate = Annotated[Positive, Meta(description="rate of the Gamma prior")]


class GammaRate(OneParameterFamily, ConjugatePosterior):
    """The capability of models whose one parameter is a ``rate`` with a Gamma(shape, rate) prior."""

    shape: float
    rate: float

    parameters: ClassVar[tuple[str, ...]] = ("rate",)
    parameter_range: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    default_support: ClassVar[None] = None

    def log_prior(self, theta: Any, arithmetic: Arithmetic) -> Any:
        return (arithmetic.number(self.shape) - 1) * arithmetic.log(theta) - arithmetic.number(self.rate) * theta
