"""A rate with a Gamma prior, for models of counts or waiting times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from dpbayes_cli.core.section import Positive, Scale
from dpbayes_cli.models.families.capabilities import Arithmetic, ConjugatePosterior, OneParameterFamily

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

PriorShape = Annotated[Positive, Meta(description="shape of the Gamma prior")]
PriorRate = Annotated[Scale | None, Meta(description="rate of the Gamma prior [derived from the upper bound]")]


class GammaRate(OneParameterFamily, ConjugatePosterior):
    """The capability of models whose one parameter is a ``rate`` with a Gamma(shape, rate) prior."""

    shape: float
    rate: float

    parameters: ClassVar[tuple[str, ...]] = ("rate",)
    parameter_range: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    default_support: ClassVar[None] = None

    def prior_quantiles(self, levels: Floats) -> Floats:
        import numpy as np
        from scipy.special import gammaincinv

        return np.asarray(gammaincinv(self.shape, levels) / self.rate)[None, :]

    def log_prior(self, theta: Any, arithmetic: Arithmetic) -> Any:
        return (arithmetic.number(self.shape) - 1) * arithmetic.log(theta) - arithmetic.number(self.rate) * theta
