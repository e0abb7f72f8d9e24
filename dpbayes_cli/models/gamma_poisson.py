"""Gamma-Poisson: the rate of Poisson counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from dpbayes_cli.core.columns import Outside
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.findings import Findings, mean_of
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.section import Section, require_type, with_defaults
from dpbayes_cli.models.families.bounded_numbers import WholeNumber, WholeNumberDomain
from dpbayes_cli.models.families.capabilities import Arithmetic
from dpbayes_cli.models.families.gamma_rate import GammaRate, PriorRate, PriorShape
from dpbayes_cli.privacy.real_conjugate import GammaShapeFamily

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.models.families.gamma_numbers import PoissonCounts


class GammaPoissonPrior(Section, frozen=True, kw_only=True):
    """Gamma prior on the rate."""

    shape: PriorShape = 1.0
    rate: PriorRate = None


@dataclass(frozen=True)
class GammaPoisson(WholeNumber, GammaRate):
    """rate ~ Gamma(shape, rate); each record is a count, Poisson(rate), clamped to a public bound.

    The conjugate update adds the sum of the counts to the shape and the number of records to the rate. The default
    prior is exponential, and its mean is the upper bound. It is nearly flat over all rates below the bound, and it
    weighs as much as 1 / bound records.

    Source: Geumlek et al. 2017 sec. 3.2; Bernstein and Sheldon 2018 sec. 3.3.
    """

    name: ClassVar[str] = "gamma-poisson"
    summary: ClassVar[str] = "rate of a count, Gamma prior"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="The noisy sum of the counts, each clamped to a public bound; also the noisy number of valid "
        "records, unless this number is public. From the released numbers, inference computes the posterior of the "
        "rate. The mechanisms ops and rdp-* release draws of the rate instead.",
        guarantee="The mechanism gives the guarantee. One record moves the sum of counts by at most the public bound.",
        assumptions="Each record holds one count; a count above the public bound is clamped to the bound or dropped. "
        "With impute:VALUE, an invalid cell counts as if it held VALUE; the custodian states that VALUE is a fair "
        "stand-in. The variance of the counts equals their mean. If they vary more, as visits and claims often do, "
        "intervals are too narrow; the model normal with out_of_bounds recorded assumes no law.",
        source="Geumlek, Song and Chaudhuri 2017, sec. 3.2; Foulds et al. 2016, sec. 3.1.",
        corrections="Inference accounts for the clamping: it computes the exact likelihood by inverting the "
        "characteristic function. Draws by ops and rdp-* ignore the clamping; the drawn rates are too small if many "
        "counts exceed the bound.",
        prefer_when="You ask how often something happens to each person: visits, relapses, claims.",
    )
    law_note: ClassVar[str] = (
        "intervals assume that the variance of the counts equals their mean (a Poisson law). If the counts vary more, "
        "as visits and claims often do, intervals are too narrow; the model normal with out_of_bounds recorded "
        "assumes no law"
    )
    suggested_for: ClassVar[str] = "counts"
    prior_type: ClassVar[type[Section]] = GammaPoissonPrior
    examples: ClassVar[tuple[Example, ...]] = tuple(
        Example({"upper": upper}, {"shape": 2.0}, support=(0.5, 4.0)) for upper in (2, 1)
    )
    first_spec_drawn: ClassVar[Mapping[str, str]] = {"on_invalid": "impute:1", "sampling.support": "[0.01, 100]"}

    upper: int
    shape: float
    rate: float
    out_of_bounds: Outside = "clamp"

    @classmethod
    def complete_prior(cls, domain: Section, prior: Section) -> Section:
        return with_defaults(prior, rate=1.0 / require_type(domain, WholeNumberDomain).upper)

    @property
    def number_family(self) -> "PoissonCounts":
        from dpbayes_cli.models.families.gamma_numbers import PoissonCounts

        return PoissonCounts(self.shape, self.rate)

    def draw_numbers(self, parameter: float, size: int, rng: "np.random.Generator") -> "Floats":
        return rng.poisson(parameter, size).astype(float)

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        return {"mean": mean[0]}

    def variance_at(self, mean: float) -> float:
        return mean

    def findings(self, column: str, estimates: Sequence[float]) -> Findings:
        from scipy.special import pdtrc

        return self.findings_of(mean_of(column), float(pdtrc(self.upper, estimates[0])))

    def natural(self, theta: Any, arithmetic: Arithmetic) -> tuple[Any, Any]:
        """Return the coefficients of sum(x) and n in the log likelihood: log(rate) and -rate."""
        return arithmetic.log(theta), -theta

    def family(self, n_records: int) -> GammaShapeFamily:
        """Return the family of Gamma posteriors; only their shape depends on the sum of the counts."""
        return GammaShapeFamily(self.shape, self.rate, float(self.upper), n_records)
