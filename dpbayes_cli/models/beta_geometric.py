"""Beta-geometric: the probability that an attempt succeeds, from the failures before the first success."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from dpbayes_cli.base.numeric import LEAST_DIVISOR
from dpbayes_cli.core.columns import Outside
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.findings import Fact, Findings
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.section import Section
from dpbayes_cli.models.families.beta_probability import BetaProbability, PriorFailures, PriorSuccesses
from dpbayes_cli.models.families.bounded_numbers import WholeNumber
from dpbayes_cli.models.families.capabilities import Arithmetic
from dpbayes_cli.privacy.real_conjugate import BetaFailuresFamily

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.models.families.beta_numbers import GeometricNumbers


class BetaGeometricPrior(Section, frozen=True, kw_only=True):
    """Beta(alpha, beta) on the probability of success."""

    alpha: PriorSuccesses = 1.0
    beta: PriorFailures = 1.0


@dataclass(frozen=True)
class BetaGeometric(WholeNumber, BetaProbability):
    """theta ~ Beta(alpha, beta); each record is a number of failures before a first success, clamped to a public bound.

    The conjugate update adds the number of records to alpha and the sum of the failures to beta.

    Source: Bernstein and Sheldon 2018 sec. 3.3 (univariate exponential families with truncation); Geumlek et al. 2017
        sec. 3 (draws).
    """

    name: ClassVar[str] = "beta-geometric"
    has_linear_mean: ClassVar[bool] = False
    summary: ClassVar[str] = "probability of success from the number of failures before the first success, Beta prior"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="The noisy sum of the failures, each number clamped to a public bound; also the noisy number of "
        "valid records, unless this number is public. From the released numbers, inference computes the posterior of "
        "the probability of success. The mechanisms gibbs, ops and rdp-* release draws of that probability instead; "
        "map releases an estimate of it.",
        guarantee="The mechanism gives the guarantee. One record moves the sum by at most the public bound.",
        assumptions="Each record holds one whole number, the failures before the first success; larger numbers are "
        "clamped to the public bound or dropped. Attempts are independent and have the same probability of success. "
        "With impute:VALUE, an invalid cell counts as if it held VALUE; the custodian states that VALUE is a fair "
        "stand-in.",
        source="Bernstein and Sheldon 2018, sec. 3.3 and Alg. 2-3; Geumlek, Song and Chaudhuri 2017, sec. 3.",
        corrections="Inference accounts for the clamping: it computes the exact likelihood by inverting the "
        "characteristic function. The paper uses a normal approximation. The mechanisms gibbs, map, ops and rdp-* "
        "ignore the clamping; the released probabilities are too large if many numbers exceed the bound.",
        prefer_when="You count the attempts until a first success: applications until admission, contacts until an "
        "answer.",
    )
    law_note: ClassVar[str] = (
        "intervals assume that all attempts succeed with the same probability (a geometric law). If the probability "
        "differs between records, intervals are too narrow"
    )
    prior_type: ClassVar[type[Section]] = BetaGeometricPrior
    examples: ClassVar[tuple[Example, ...]] = (
        Example({"upper": 3}, {"alpha": 2.0, "beta": 3.0}),
        Example({"upper": 4, "out_of_bounds": "drop"}, drawn=False),
    )

    upper: int
    alpha: float
    beta: float
    out_of_bounds: Outside = "clamp"

    @property
    def number_family(self) -> "GeometricNumbers":
        from dpbayes_cli.models.families.beta_numbers import GeometricNumbers

        return GeometricNumbers(self.alpha, self.beta)

    def draw_numbers(self, parameter: float, size: int, rng: "np.random.Generator") -> "Floats":
        return (rng.geometric(max(parameter, 1e-15), size) - 1).astype(float)

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return the mean number of failures at the posterior mean of the probability."""
        return {"mean": (1.0 - mean[0]) / max(mean[0], LEAST_DIVISOR)}

    def variance_at(self, mean: float) -> float:
        return mean * (1.0 + mean)

    def findings(self, column: str, estimates: Sequence[float]) -> Findings:
        failures = f"if {column or 'each number'} counts the failures before the first success"
        share = Fact("about", 0, f"of attempts succeed, {failures}", is_share=True)
        return self.findings_of(share, (1.0 - estimates[0]) ** (self.upper + 1))

    @property
    def default_support(self) -> tuple[float, float]:
        """The interval from 0.1 to 0.9; if the bound on the failures exceeds 9, the lower end is 1 / (1 + bound)."""
        return (min(0.1, 1.0 / (1.0 + self.upper)), 0.9)

    def natural(self, theta: Any, arithmetic: Arithmetic) -> tuple[Any, Any]:
        """Return the coefficients of sum(x) and n in the log likelihood: log(1 - theta) and log(theta)."""
        return arithmetic.log(1 - theta), arithmetic.log(theta)

    def family(self, n_records: int) -> BetaFailuresFamily:
        """Return the family of Beta posteriors; only their second parameter depends on the sum of the failures."""
        return BetaFailuresFamily(self.alpha, self.beta, 1.0, float(self.upper), n_records)
