"""Gamma-exponential: the rate of exponential waiting times."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from dpbayes_cli.base.numeric import LEAST_DIVISOR
from dpbayes_cli.core.columns import NumericColumn, Outside, check_bounds
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.findings import Findings, mean_of
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.section import Positive, Section, require_type, with_defaults
from dpbayes_cli.models.families.bounded_numbers import ConjugateNumber
from dpbayes_cli.models.families.capabilities import Arithmetic
from dpbayes_cli.models.families.gamma_rate import GammaRate, PriorRate
from dpbayes_cli.privacy.real_conjugate import GammaRateFamily

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.models.families.gamma_numbers import ExponentialTimes

STEPS = 1 << 20
"""Number of grid steps between 0 and the upper bound."""


class GammaExponentialDomain(Section, frozen=True, kw_only=True):
    """The public bound of a waiting time."""

    upper: Annotated[float, Meta(gt=0.0, le=1e12, description="the upper bound of the times")]
    out_of_bounds: Annotated[Outside, Meta(description="clamp longer times to the bound, or drop the record")] = "clamp"

    def __post_init__(self) -> None:
        check_bounds(0.0, self.upper)


class GammaExponentialPrior(Section, frozen=True, kw_only=True):
    """Gamma prior on the rate."""

    shape: Annotated[Positive | None, Meta(description="shape of the Gamma prior [0.5]")] = None
    rate: PriorRate = None


@dataclass(frozen=True)
class GammaExponential(ConjugateNumber, GammaRate):
    """rate ~ Gamma(shape, rate); each record is a waiting time, exponential with that rate, clamped to a public bound.

    The conjugate update adds the number of records to the shape and the sum of the times to the rate. The default prior
    weighs as much as half a record. Its density is roughly proportional to 1 / sqrt(rate) if the mean time, 1 / rate,
    exceeds a hundredth of the upper bound; for shorter mean times, it falls exponentially.

    Source: Bernstein and Sheldon 2018 sec. 3.3 and Fig. 1 (exponential); Geumlek et al. 2017 sec. 3.
    """

    name: ClassVar[str] = "gamma-exponential"
    has_linear_mean: ClassVar[bool] = False
    summary: ClassVar[str] = "rate of a waiting time, Gamma prior"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="The noisy sum of the times, each clamped to a public bound; also the noisy number of valid records, "
        "unless this number is public. From the released numbers, inference computes the posterior of the rate. The "
        "mechanisms ops and rdp-* release draws of the rate instead.",
        guarantee="The mechanism gives the guarantee. One record moves the sum of times by at most the public bound.",
        assumptions="Each record holds one non-negative number; larger numbers are clamped to the public bound or "
        "dropped. Numbers are rounded to a public grid of 2^20 steps. With impute:VALUE, an invalid cell counts as if "
        "it held VALUE; the custodian states that VALUE is a fair stand-in.",
        source="Bernstein and Sheldon 2018, sec. 3.3; Geumlek, Song and Chaudhuri 2017, sec. 3.",
        corrections="Inference accounts for the clamping: it computes the exact likelihood by inverting the "
        "characteristic function. Bernstein and Sheldon use a normal approximation, and a bound that depends on the "
        "true parameter; here the bound is public. Draws by ops and rdp-* ignore the clamping; the drawn rates are "
        "too large if many of the times exceed the bound.",
        prefer_when="You ask how long something takes, and no time is censored.",
    )
    domain_type: ClassVar[type[Section]] = GammaExponentialDomain
    law_note: ClassVar[str] = (
        "intervals assume that the standard deviation of the numbers equals their mean (an exponential law). If the "
        "numbers vary more, intervals are too narrow; if they vary less, too wide. The model normal with "
        "out_of_bounds recorded assumes no law"
    )
    prior_type: ClassVar[type[Section]] = GammaExponentialPrior
    examples: ClassVar[tuple[Example, ...]] = (
        Example({"upper": 2.5}, {"shape": 2.0, "rate": 1.0}, support=(0.5, 4.0)),
        Example({"upper": 2.5, "out_of_bounds": "drop"}, drawn=False),
    )
    first_spec: ClassVar[Mapping[str, str]] = {"upper": "100"}
    first_spec_drawn: ClassVar[Mapping[str, str]] = {"on_invalid": "impute:1", "sampling.support": "[0.01, 100]"}

    upper: float
    shape: float
    rate: float
    out_of_bounds: Outside = "clamp"

    @classmethod
    def complete_prior(cls, domain: Section, prior: Section) -> Section:
        return with_defaults(prior, shape=0.5, rate=0.01 * require_type(domain, GammaExponentialDomain).upper)

    @property
    def column(self) -> NumericColumn:
        return NumericColumn("value", 0.0, self.upper, STEPS, outside=self.out_of_bounds)

    @property
    def number_family(self) -> "ExponentialTimes":
        from dpbayes_cli.models.families.gamma_numbers import ExponentialTimes

        return ExponentialTimes(self.shape, self.rate)

    def draw_numbers(self, parameter: float, size: int, rng: "np.random.Generator") -> "Floats":
        return rng.exponential(1.0 / parameter, size)

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return the mean of a new record at the posterior mean of the rate."""
        return {"mean": 1.0 / max(mean[0], LEAST_DIVISOR)}

    def variance_at(self, mean: float) -> float:
        return mean**2

    def findings(self, column: str, estimates: Sequence[float]) -> Findings:
        mean = mean_of(column, convert=lambda rate: 1.0 / max(rate, LEAST_DIVISOR))
        return self.findings_of(mean, math.exp(-estimates[0] * self.upper))

    def natural(self, theta: Any, arithmetic: Arithmetic) -> tuple[Any, Any]:
        """Return the coefficients of sum(x) and n in the log likelihood: -rate and log(rate)."""
        return -theta, arithmetic.log(theta)

    def family(self, n_records: int) -> GammaRateFamily:
        """Return the family of Gamma posteriors; only their rate depends on the sum of the times."""
        return GammaRateFamily(self.shape, self.rate, self.upper, n_records)
