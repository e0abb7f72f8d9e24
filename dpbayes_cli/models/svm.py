"""A support vector machine: the smoothed hinge loss of a linear score."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import Meta

from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.losses import SmoothHingeLoss
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.section import Section, require_type
from dpbayes_cli.models.families.convex_loss import ConvexLossModel
from dpbayes_cli.models.families.regression_domain import ClassDomain, RegressionDomain
from dpbayes_cli.models.families.regression_examples import CLASS_SPEC, classes

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats


class SvmDomain(ClassDomain, frozen=True, kw_only=True):
    """Features, a target of two classes, and the rounding of the hinge."""

    smoothing: Annotated[
        Annotated[float, Meta(ge=1e-3, le=2.0)], Meta(description="the width over which the hinge's kink is rounded")
    ] = 0.5


class Svm(ConvexLossModel):
    """Gibbs posterior of the smoothed hinge loss of x'w, w ~ N(0, I / tau); a score, and no probability.

    Privacy: gradient and curvature of a record's loss are bounded by those of the loss and the norm of a row, whatever
        the record; see ``ConvexLossModel.curvature``.
    Source: Minami et al. 2016 (Lipschitz convex losses).
    """

    name: ClassVar[str] = "svm"
    summary: ClassVar[str] = "a linear classifier with the smoothed hinge loss, normal prior; scores new records"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="Draws of the coefficients from a Gibbs posterior tempered for privacy; nothing else.",
        guarantee="That of the mechanism. The gradient of one record's loss has the norm c at most, c^2 = norm^2 + 1 "
        "with an intercept; its curvature is c^2 / smoothing at most.",
        assumptions="As logistic-regression. The loss is no likelihood: a record has a score, no probability.",
        source="Minami, Arai, Sato and Nakagawa 2016, sec. 3.",
        corrections="The kink of the hinge is rounded: Langevin steps need a bounded curvature.",
        prefer_when="Only the class matters, and records far from the boundary should not pull at it.",
    )
    domain_type: ClassVar[type[Section]] = SvmDomain
    examples: ClassVar[tuple[Example, ...]] = (classes(), classes(smoothing=0.1))
    first_spec: ClassVar[Mapping[str, str]] = CLASS_SPEC

    @classmethod
    def loss_of(cls, domain: RegressionDomain) -> SmoothHingeLoss:
        """Return the loss."""
        return SmoothHingeLoss(require_type(domain, SvmDomain).smoothing)

    def mean(self, t: "Floats") -> "Floats":
        """Return the score: positive for class 1."""
        return t
