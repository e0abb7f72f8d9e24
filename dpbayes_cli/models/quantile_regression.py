"""Quantile regression: a quantile of a number from features."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import Meta

from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.losses import QuantileLoss
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.section import Section, require_type
from dpbayes_cli.models.families.convex_loss import ConvexNumberModel
from dpbayes_cli.models.families.regression_domain import NumberDomain, RegressionDomain
from dpbayes_cli.models.families.regression_examples import NUMBER_SPEC, numbers


class QuantileDomain(NumberDomain, frozen=True, kw_only=True):
    """Features, a number to be predicted, and the loss of residuals."""

    level: Annotated[Annotated[float, Meta(ge=0.01, le=0.99)], Meta(description="the quantile that is predicted")] = 0.5
    smoothing: Annotated[
        Annotated[float, Meta(ge=1e-3, le=10.0)],
        Meta(description="half the width over which the loss's kink is rounded, in scales"),
    ] = 0.5


class QuantileRegression(ConvexNumberModel):
    """Gibbs posterior of the smoothed pinball loss of (x'w - y) / scale, y scaled to [-1, 1], w ~ N(0, I / tau).

    Privacy: gradient and curvature of a record's loss are bounded by those of the loss and the norm of a row, whatever
        the record; see ``ConvexLossModel.curvature``.
    Source: Koenker and Bassett 1978; Minami et al. 2016 (Lipschitz convex losses).
    """

    name: ClassVar[str] = "quantile-regression"
    summary: ClassVar[str] = "a quantile of a number from features, smoothed pinball loss, normal prior"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="Draws of the coefficients from a Gibbs posterior tempered for privacy; nothing else.",
        guarantee="That of the mechanism. The gradient of one record's loss has the norm c max(level, 1 - level) / "
        "scale at most, its curvature c^2 / (2 smoothing scale^2), with the scale of a target that goes from -1 to 1.",
        assumptions="As logistic-regression; the target is clamped to public bounds.",
        source="Koenker and Bassett 1978; Minami, Arai, Sato and Nakagawa 2016.",
        corrections="The kink of the loss is rounded by a uniform law: Langevin steps need a bounded curvature.",
        prefer_when="The median, or a high quantile, of a number is to be predicted.",
    )
    domain_type: ClassVar[type[Section]] = QuantileDomain
    examples: ClassVar[tuple[Example, ...]] = (numbers(), numbers(level=0.9))
    first_spec: ClassVar[Mapping[str, str]] = NUMBER_SPEC

    @classmethod
    def loss_of(cls, domain: RegressionDomain) -> QuantileLoss:
        """Return the loss."""
        parts = require_type(domain, QuantileDomain)
        return QuantileLoss(parts.level, parts.smoothing, parts.relative_scale)
