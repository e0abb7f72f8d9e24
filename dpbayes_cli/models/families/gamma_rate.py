"""A rate with a Gamma prior, for models of counts or waiting times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from dpbayes_cli.core.section import Positive, Section
from dpbayes_cli.models.families.capabilities import Arithmetic, ConjugatePosterior, OneParameterFamily
from dpbayes_cli.models.families.number_families import NumberFamily

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats


class GammaPrior(Section, frozen=True, kw_only=True):
    """Gamma prior on the rate."""

    shape: Annotated[Positive, Meta(description="shape of the Gamma prior")] = 1.0
    rate: Annotated[Positive, Meta(description="rate of the Gamma prior")] = 1.0


class GammaRate(OneParameterFamily, ConjugatePosterior):
    """The capability of models whose one parameter is a ``rate`` with a Gamma(shape, rate) prior.

    Attributes:
        shape, rate: the prior.
    """

    shape: float
    rate: float

    @property
    def parameters(self) -> tuple[str, ...]:
        """The name of the parameter, the rate."""
        return ("rate",)

    @property
    def parameter_range(self) -> tuple[float, float]:
        """The interval of positive numbers."""
        return (0.0, float("inf"))

    @property
    def default_support(self) -> None:
        """None: the support must be stated."""
        return

    def log_prior(self, theta: Any, arithmetic: Arithmetic) -> Any:
        """Return the log density of Gamma(shape, rate), up to a constant."""
        return (arithmetic.number(self.shape) - 1) * arithmetic.log(theta) - arithmetic.number(self.rate) * theta


class LogOfGamma(NumberFamily):
    """A family of numbers whose parameter is a rate with a Gamma(shape, rate) prior; the coordinate is its logarithm.

    Attributes:
        shape, rate: the prior.
    """

    shape: float
    rate: float

    @property
    def prior_range(self) -> tuple[float, float]:
        """The logarithms of the 1e-12 and 1 - 1e-12 quantiles."""
        import numpy as np
        from scipy.special import gammainccinv, gammaincinv

        low = max(float(gammaincinv(self.shape, 1e-12)), 1e-300)
        return float(np.log(low / self.rate)), float(np.log(gammainccinv(self.shape, 1e-12) / self.rate))

    def draw_prior(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw log rates, in logarithms throughout, so that small shapes do not underflow."""
        import numpy as np

        drawn = np.log(rng.standard_gamma(self.shape + 1.0, size)) + np.log1p(-rng.random(size)) / self.shape
        return np.asarray(drawn - np.log(self.rate))

    def log_prior(self, coordinate: Floats) -> Floats:
        """Return the log density of the log rate, up to a constant."""
        import numpy as np

        return np.asarray(self.shape * coordinate - self.rate * np.exp(coordinate))

    def parameter(self, coordinate: Floats) -> Floats:
        """Return the rate."""
        import numpy as np

        return np.exp(coordinate)
