"""Quantile regression: predict a quantile of a number from features."""

from typing import Annotated, ClassVar

from msgspec import Meta

from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.losses import QuantileLoss
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.section import Section
from dpbayes_cli.models.families.convex_loss import ConvexNumberModel
from dpbayes_cli.models.families.regression_domain import NormalCoefficients, NumberDomain, number_example


class QuantileDomain(NumberDomain, frozen=True, kw_only=True):
    """Features, a number to predict, and the loss of residuals."""

    level: Annotated[Annotated[float, Meta(ge=0.01, le=0.99)], Meta(description="the level of the quantile")] = 0.5
    smoothing: Annotated[
        Annotated[float, Meta(ge=1e-3, le=10.0)],
        Meta(description="half the width over which the kink of the loss is smoothed, in units of the scale"),
    ] = 0.5

    @property
    def loss(self) -> QuantileLoss:
        return QuantileLoss(self.level, self.smoothing, self.relative_scale)


class QuantilePrior(NormalCoefficients, frozen=True, kw_only=True):
    """Independent normal priors with mean zero on all coefficients of the scaled design, by default N(0, 1)."""


class QuantileRegression(ConvexNumberModel):
    """Gibbs posterior of a smoothed pinball loss of (x'w - y) / scale, with y scaled to [-1, 1] and w ~ N(0, I / tau).

    Privacy: gradient and curvature are bounded for every record; see ``ConvexLossModel.curvature``.
    Source: Koenker and Bassett 1978; Minami et al. 2016 (Lipschitz convex losses).
    """

    name: ClassVar[str] = "quantile-regression"
    summary: ClassVar[str] = "regression of a quantile of a number on features, smoothed pinball loss, normal prior"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="Draws of the coefficients from a Gibbs posterior tempered for privacy, and nothing else.",
        guarantee="The mechanism gives the guarantee. A row of the design has norm at most c; with an intercept, c^2 "
        "= norm^2 + 1. The scale is measured after the target has been scaled to [-1, 1]. The gradient of one "
        "record's loss has norm at most c * max(level, 1 - level) / scale, and its curvature is at most c^2 / (2 * "
        "smoothing * scale^2).",
        assumptions="The assumptions of logistic-regression apply. In addition, the target is clamped to public "
        "bounds.",
        source="Koenker and Bassett 1978; Minami, Arai, Sato and Nakagawa 2016.",
        corrections="The kink of the loss is smoothed by averaging over a uniform law, because Langevin steps need a "
        "bounded curvature.",
        prefer_when="You predict the median or a high quantile of a number.",
    )
    domain_type: ClassVar[type[Section]] = QuantileDomain
    prior_type: ClassVar[type[Section]] = QuantilePrior
    examples: ClassVar[tuple[Example, ...]] = (number_example(), number_example(level=0.9))
