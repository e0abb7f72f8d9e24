"""A probability with a Beta prior, for models of binary outcomes or of failures before a success."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta

from dpbayes_cli.core.section import Positive
from dpbayes_cli.models.families.capabilities import Arithmetic, ConjugatePosterior, OneParameterFamily

PriorSuccesses = Annotated[Positive, Meta(description="prior successes")]
PriorFailures = Annotated[Positive, Meta(description="prior failures")]


class BetaProbability(OneParameterFamily, ConjugatePosterior):
    """The capability of models whose one parameter is a probability ``theta`` with a Beta(alpha, beta) prior."""

    alpha: float
    beta: float

    parameters: ClassVar[tuple[str, ...]] = ("theta",)
    parameter_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    @property
    def default_support(self) -> tuple[float, float]:
        """The interval from a0 to 1 - a0, with a0 = 0.1 as in the papers."""
        return (0.1, 0.9)

    def log_prior(self, theta: Any, arithmetic: Arithmetic) -> Any:
        first, second = arithmetic.number(self.alpha), arithmetic.number(self.beta)
        return (first - 1) * arithmetic.log(theta) + (second - 1) * arithmetic.log(1 - theta)
