"""Huber regression: a number from features, with bounded influence of every record."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import Meta

from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.losses import HuberLoss
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.section import Section, require_type
from dpbayes_cli.models.families.convex_loss import ConvexNumberModel
from dpbayes_cli.models.families.regression_domain import NumberDomain, RegressionDomain
from dpbayes_cli.models.families.regression_examples import NUMBER_SPEC, numbers


class HuberDomain(NumberDomain, frozen=True, kw_only=True):
    """Features, a number to be predicted, and the loss of residuals."""

    threshold: Annotated[
        Annotated[float, Meta(ge=1e-3, le=1e3)],
        Meta(description="residuals beyond so many scales pull no harder"),
    ] = 1.345


class HuberRegression(ConvexNumberModel):
    """Gibbs posterior of Huber's loss of (x'w - y) / scale, y scaled to [-1, 1], w ~ N(0, I / tau).

    Privacy: gradient and curvature of a record's loss are bounded by those of the loss and the norm of a row, whatever
        the record; see ``ConvexLossModel.curvature``.
    Source: Huber 1964; Minami et al. 2016 (Lipschitz convex losses); mechanisms: squared loss with clipped gradient.
    """

    name: ClassVar[str] = "huber-regression"
    summary: ClassVar[str] = "a number from features with Huber's loss, normal prior; predicts new records"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="Draws of the coefficients from a Gibbs posterior tempered for privacy; nothing else.",
        guarantee="That of the mechanism. The gradient of one record's loss has the norm c threshold / scale at most, "
        "its curvature c^2 / scale^2, with the scale of a target that goes from -1 to 1.",
        assumptions="As logistic-regression; the target is clamped to public bounds. The loss is squared near zero and "
        "linear beyond the threshold.",
        source="Huber 1964; Minami, Arai, Sato and Nakagawa 2016.",
        corrections="The gradient is clipped, not the residual, which would not be convex.",
        prefer_when="Predicting a number where linear-regression's bounds would have to be wide for a few records.",
    )
    domain_type: ClassVar[type[Section]] = HuberDomain
    examples: ClassVar[tuple[Example, ...]] = (numbers(), numbers(norm=0.5, scale=2.0, threshold=1.0))
    first_spec: ClassVar[Mapping[str, str]] = NUMBER_SPEC

    @classmethod
    def loss_of(cls, domain: RegressionDomain) -> HuberLoss:
        """Return the loss."""
        parts = require_type(domain, HuberDomain)
        return HuberLoss(parts.threshold, parts.relative_scale)
