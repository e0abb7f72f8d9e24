"""Huber regression: predict a number from features, with bounded influence of every record."""

from typing import Annotated, ClassVar

from msgspec import Meta

from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.losses import HuberLoss
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.section import Section
from dpbayes_cli.models.families.convex_loss import ConvexNumberModel
from dpbayes_cli.models.families.regression_domain import NormalCoefficients, NumberDomain, number_example


class HuberDomain(NumberDomain, frozen=True, kw_only=True):
    """Features, a number to predict, and the loss of residuals."""

    threshold: Annotated[
        Annotated[float, Meta(ge=1e-3, le=1e3)],
        Meta(description="the loss is linear for residuals larger than this, in units of the scale"),
    ] = 1.345

    @property
    def loss(self) -> HuberLoss:
        return HuberLoss(self.threshold, self.relative_scale)


class HuberPrior(NormalCoefficients, frozen=True, kw_only=True):
    """Independent normal priors with mean zero on all coefficients of the scaled design, by default N(0, 1)."""


class HuberRegression(ConvexNumberModel):
    """Gibbs posterior of Huber's loss of (x'w - y) / scale, with y scaled to [-1, 1] and w ~ N(0, I / tau).

    Privacy: gradient and curvature are bounded for every record; see ``ConvexLossModel.curvature``.
    Source: Huber 1964; Minami et al. 2016 (Lipschitz convex losses); mechanisms: squared loss with clipped gradient.
    """

    name: ClassVar[str] = "huber-regression"
    summary: ClassVar[str] = "regression of a number on features with Huber's loss, normal prior; predicts new records"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="Draws of the coefficients from a Gibbs posterior tempered for privacy, and nothing else.",
        guarantee="The mechanism gives the guarantee. A row of the design has norm at most c; with an intercept, c^2 "
        "= norm^2 + 1. The scale is in units of the target after its mapping to [-1, 1]. The gradient of one "
        "record's loss has norm at most c * threshold / scale, and its curvature is at most c^2 / scale^2.",
        assumptions="The assumptions of logistic-regression apply. In addition, the target is clamped to public "
        "bounds. The loss is squared near zero and linear beyond the threshold.",
        source="Huber 1964; Minami, Arai, Sato and Nakagawa 2016.",
        corrections="The gradient of the squared loss is clipped, not the residuals; with clipped residuals the loss "
        "would not be convex.",
        prefer_when="You predict a number, and a few extreme records would force wide bounds on linear-regression.",
    )
    domain_type: ClassVar[type[Section]] = HuberDomain
    prior_type: ClassVar[type[Section]] = HuberPrior
    examples: ClassVar[tuple[Example, ...]] = (number_example(), number_example(norm=0.5, scale=2.0, threshold=1.0))
