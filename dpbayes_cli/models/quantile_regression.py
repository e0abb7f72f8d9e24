"""Quantile regression: a quantile of a number from features."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from msgspec import Meta

from dpbayes_cli.columns import NumericColumn
from dpbayes_cli.contracts import Card, Section, expect
from dpbayes_cli.convex_loss import ConvexLossModel
from dpbayes_cli.design import Design
from dpbayes_cli.losses import QuantileLoss
from dpbayes_cli.regression_domain import CoefficientPrior, NumberDomain

if TYPE_CHECKING:
    from dpbayes_cli.numeric import Floats


class QuantileDomain(NumberDomain, frozen=True, kw_only=True):
    """Features, a number to be predicted, and the loss of residuals."""

    level: Annotated[Annotated[float, Meta(ge=0.01, le=0.99)], Meta(description="the quantile that is predicted")] = 0.5
    smoothing: Annotated[
        Annotated[float, Meta(ge=1e-3, le=10.0)],
        Meta(description="half the width over which the loss's kink is rounded, in scales"),
    ] = 0.5


@dataclass(frozen=True)
class QuantileRegression(ConvexLossModel):
    """Gibbs posterior of the smoothed pinball loss of (x'w - y) / scale, y scaled to [-1, 1], w ~ N(0, I / tau).

    Privacy: gradient and curvature of a record's loss are bounded by those of the loss and the norm of a row, whatever
        the record; see ``ConvexLossModel.curvature``.
    Source: Koenker and Bassett 1978; Minami et al. 2016 (Lipschitz convex losses).
    """

    name: ClassVar[str] = "quantile-regression"
    summary: ClassVar[str] = "a quantile of a number from features, smoothed pinball loss, normal prior"
    card: ClassVar[Card] = Card(
        releases="Draws of the coefficients from a Gibbs posterior tempered for privacy; nothing else.",
        guarantee="That of the mechanism. The gradient of one record's loss has the norm c max(level, 1 - level) / "
        "scale "
        "at most, its curvature c^2 / (2 smoothing scale^2), with the scale of a target that goes from -1 to 1.",
        assumptions="As logistic-regression; the target is clamped to public bounds.",
        source="Koenker and Bassett 1978; Minami, Arai, Sato and Nakagawa 2016.",
        corrections="The kink of the loss is rounded by a uniform law: Langevin steps need a bounded curvature.",
        prefer_when="The median, or a high quantile, of a number is to be predicted.",
    )
    domain_type: ClassVar[type[Section]] = QuantileDomain
    prior_type: ClassVar[type[Section]] = CoefficientPrior

    design: Design
    target: NumericColumn
    precision: float
    loss: QuantileLoss

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        """Build the model from its parts of a spec."""
        parts = expect(domain, QuantileDomain)
        loss = QuantileLoss(parts.level, parts.smoothing, parts.relative_scale)
        return cls(parts.design, parts.target.target(), expect(prior, CoefficientPrior).precision, loss)

    def mean(self, t: "Floats") -> "Floats":
        """Return the number in units of the target."""
        return (self.target.lower + self.target.upper) / 2.0 + (self.target.upper - self.target.lower) / 2.0 * t
