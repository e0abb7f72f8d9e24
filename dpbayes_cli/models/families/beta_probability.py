"""A probability with a Beta prior, for models of binary outcomes or of failures before a success."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from dpbayes_cli.core.section import Positive, Section
from dpbayes_cli.models.families.capabilities import Arithmetic, ConjugatePosterior, OneParameterFamily
from dpbayes_cli.models.families.number_families import NumberFamily

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats


class BetaPrior(Section, frozen=True, kw_only=True):
    """Beta(alpha, beta) on the probability of success."""

    alpha: Annotated[Positive, Meta(description="prior successes")] = 1.0
    beta: Annotated[Positive, Meta(description="prior failures")] = 1.0


class BetaProbability(OneParameterFamily, ConjugatePosterior):
    """The capability of models whose one parameter is a probability ``theta`` with a Beta(alpha, beta) prior.

    Attributes:
        alpha, beta: the prior.
    """

    alpha: float
    beta: float

    @property
    def parameters(self) -> tuple[str, ...]:
        """The name of the parameter, the probability of success."""
        return ("theta",)

    @property
    def parameter_range(self) -> tuple[float, float]:
        """The interval of probabilities."""
        return (0.0, 1.0)

    @property
    def default_support(self) -> tuple[float, float]:
        """The truncation that the papers use, a0 = 0.1."""
        return (0.1, 0.9)

    def log_prior(self, theta: Any, arithmetic: Arithmetic) -> Any:
        """Return the log density of Beta(alpha, beta), up to a constant."""
        first, second = arithmetic.number(self.alpha), arithmetic.number(self.beta)
        return (first - 1) * arithmetic.log(theta) + (second - 1) * arithmetic.log(1 - theta)


class LogitOfBeta(NumberFamily):
    """A family of numbers whose parameter is a probability with a Beta prior; the coordinate is its logit.

    Attributes:
        alpha, beta: the prior.
    """

    alpha: float
    beta: float

    @property
    def prior_range(self) -> tuple[float, float]:
        """The logits of the 1e-12 and 1 - 1e-12 quantiles."""
        from scipy.special import betaincinv

        low = max(float(betaincinv(self.alpha, self.beta, 1e-12)), 1e-300)
        high = max(float(betaincinv(self.beta, self.alpha, 1e-12)), 1e-300)
        return math.log(low / (1.0 - low)), -math.log(high / (1.0 - high))

    def draw_prior(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw logits as differences of logarithms of Gamma variables, which do not underflow."""
        import numpy as np

        first, second = (
            np.log(rng.standard_gamma(shape + 1.0, size)) + np.log1p(-rng.random(size)) / shape
            for shape in (self.alpha, self.beta)
        )
        return np.asarray(first - second)

    def log_prior(self, coordinate: Floats) -> Floats:
        """Return the log density of the logit, up to a constant."""
        import numpy as np

        total = self.alpha + self.beta
        return np.asarray(self.alpha * coordinate - total * np.logaddexp(0.0, coordinate))

    def parameter(self, coordinate: Floats) -> Floats:
        """Return the probability of success."""
        from scipy.special import expit

        return expit(coordinate)
