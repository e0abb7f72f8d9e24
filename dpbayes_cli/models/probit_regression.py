"""Probit regression with the canonical pseudo-likelihood: the probability of a class from features."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import Meta

from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.losses import ProbitLoss
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.section import Section
from dpbayes_cli.models.families.convex_loss import ConvexLossModel
from dpbayes_cli.models.families.regression_domain import ClassDomain, RegressionDomain
from dpbayes_cli.models.families.regression_examples import CLASS_SPEC, classes

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats


class ProbitDomain(ClassDomain, frozen=True, kw_only=True):
    """Features, a target of two classes, and the loss."""

    likelihood: Annotated[str, Meta(description="canonical: the only one whose gradients are bounded")] = "canonical"

    def __post_init__(self) -> None:
        if self.likelihood != "canonical":
            raise ValueError(
                f"likelihood is {self.likelihood!r}: only 'canonical' is offered, for the log likelihood of probit "
                "regression itself has unbounded gradients (log Phi(t) falls as -t^2 / 2), so that one record may "
                "change the posterior by any amount"
            )
        super().__post_init__()


class ProbitRegression(ConvexLossModel):
    """Loss A(t) - y t, A(t) = t Phi(t) + phi(t): its mean function is Phi; w ~ N(0, I / tau).

    Privacy: gradient and curvature of a record's loss are bounded by those of the loss and the norm of a row, whatever
        the record; see ``ConvexLossModel.curvature``.
    Source: Geumlek, Song and Chaudhuri 2017, sec. 4.2, corrected: the theorem needs the canonical form.
    """

    name: ClassVar[str] = "probit-regression"
    summary: ClassVar[str] = "the probability of a class by Phi, canonical pseudo-likelihood, normal prior"
    has_probabilities: ClassVar[bool] = True
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="Draws of the coefficients from a posterior tempered for privacy; nothing else.",
        guarantee="That of the mechanism. The gradient of one record's loss has the norm c at most, c^2 = norm^2 + 1 "
        "with an intercept; its curvature is phi(0) c^2 = 0.399 c^2 at most.",
        assumptions="As logistic-regression. The loss is the canonical pseudo-likelihood y t - A(t) with A(t) = t "
        "Phi(t) + phi(t), not the likelihood of probit regression; both have the same mean function, Phi.",
        source="Geumlek, Song and Chaudhuri 2017, sec. 4.2.",
        corrections="The paper lists probit and complementary log-log as instances of its theorem, which needs the "
        "canonical form; their true log likelihoods have unbounded gradients and are refused.",
        prefer_when="A probit mean function is wanted; else logistic-regression has the smaller curvature.",
    )
    domain_type: ClassVar[type[Section]] = ProbitDomain
    examples: ClassVar[tuple[Example, ...]] = (classes(),)
    first_spec: ClassVar[Mapping[str, str]] = CLASS_SPEC

    @classmethod
    def loss_of(cls, domain: RegressionDomain) -> ProbitLoss:
        """Return the loss."""
        return ProbitLoss()

    def mean(self, t: "Floats") -> "Floats":
        """Return the probability of class 1."""
        from scipy.special import ndtr

        return ndtr(t)
