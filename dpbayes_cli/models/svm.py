"""A support vector machine: the smoothed hinge loss of a linear score."""

from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import Meta

from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.losses import SmoothHingeLoss
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.section import Section
from dpbayes_cli.models.families.convex_loss import ConvexClassModel
from dpbayes_cli.models.families.regression_domain import ClassDomain, NormalCoefficients, class_example

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats


class SvmDomain(ClassDomain, frozen=True, kw_only=True):
    """Features, a target of two classes, and the smoothing of the hinge."""

    smoothing: Annotated[
        Annotated[float, Meta(ge=1e-3, le=2.0)],
        Meta(description="the width over which the kink of the hinge is smoothed"),
    ] = 0.5

    @property
    def loss(self) -> SmoothHingeLoss:
        return SmoothHingeLoss(self.smoothing)


class SvmPrior(NormalCoefficients, frozen=True, kw_only=True):
    """Independent normal priors with mean zero on all coefficients of the scaled design, by default N(0, 1)."""


class Svm(ConvexClassModel):
    """Gibbs posterior of a smoothed hinge loss of x'w, with w ~ N(0, I / tau); it gives scores, not probabilities.

    Privacy: gradient and curvature are bounded for every record; see ``ConvexLossModel.curvature``.
    Source: Minami et al. 2016 (Lipschitz convex losses).
    """

    name: ClassVar[str] = "svm"
    summary: ClassVar[str] = "a linear classifier with the smoothed hinge loss, normal prior; scores new records"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="Draws of the coefficients from a Gibbs posterior tempered for privacy, and nothing else.",
        guarantee="The mechanism gives the guarantee. A row of the design has norm at most c; with an intercept, c^2 "
        "= norm^2 + 1. The gradient of one record's loss has norm at most c, and its curvature is at most c^2 / "
        "smoothing.",
        assumptions="The assumptions of logistic-regression apply, but the loss is not a likelihood: a record gets a "
        "score, not a probability.",
        source="Minami, Arai, Sato and Nakagawa 2016, sec. 3.",
        corrections="The kink of the hinge is smoothed, because Langevin steps need a bounded curvature.",
        prefer_when="You need only the class, and records far from the boundary should have no influence on it.",
    )
    domain_type: ClassVar[type[Section]] = SvmDomain
    prior_type: ClassVar[type[Section]] = SvmPrior
    examples: ClassVar[tuple[Example, ...]] = (class_example(), class_example(smoothing=0.1))

    def mean(self, t: "Floats") -> "Floats":
        """Return the scores, positive for class 1."""
        return t
