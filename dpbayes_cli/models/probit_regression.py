"""Probit regression with the canonical pseudo-likelihood: the probability of a class from features."""

from typing import Annotated, ClassVar

from msgspec import Meta

from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.losses import ProbitLoss
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.section import Section
from dpbayes_cli.models.families.curved_loss import CurvedClassModel
from dpbayes_cli.models.families.regression_domain import ClassDomain, StatedPrior, class_example


class ProbitDomain(ClassDomain, frozen=True, kw_only=True):
    """Features, a target of two classes, and the loss."""

    likelihood: Annotated[str, Meta(description="canonical is the only choice, because its gradients are bounded")] = (
        "canonical"
    )

    def __post_init__(self) -> None:
        if self.likelihood != "canonical":
            raise ValueError(
                f"likelihood is {self.likelihood!r}, expected 'canonical': the log likelihood of probit regression "
                "itself has unbounded gradients (log Phi(t) falls as -t^2 / 2), so that one record may change the "
                "posterior by any amount"
            )
        super().__post_init__()

    @property
    def loss(self) -> ProbitLoss:
        return ProbitLoss()


class ProbitPrior(StatedPrior, frozen=True, kw_only=True):
    """By default normal; see ``effect``. The effect of a standard deviation of a number has standard deviation 0.9."""


class ProbitRegression(CurvedClassModel):
    """Gibbs posterior of the loss A(t) - y * t, where t = x'w and A(t) = t * Phi(t) + phi(t).

    If the expected loss is smallest, the probability of class 1 is A'(t) = Phi(t), as in probit regression.

    Privacy: gradient and curvature are bounded for every record; see ``ConvexLossModel.curvature``.
    Source: Geumlek, Song and Chaudhuri 2017, sec. 4.2, corrected: the theorem needs the canonical form.
    """

    name: ClassVar[str] = "probit-regression"
    summary: ClassVar[str] = "the probability of a class, probit mean function, pseudo-likelihood"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="With `noisy-newton`, the default: noisy derivatives of the log likelihood, from which the posterior "
        "is inferred. With the other mechanisms: draws of the coefficients from a posterior tempered for privacy.",
        guarantee="The mechanism gives the guarantee. A row of the design has norm at most c; with an intercept, c^2 "
        "= norm^2 + 1. The gradient of one record's loss has norm at most c, and its curvature is at most phi(0) * "
        "c^2 = 0.399 * c^2.",
        assumptions="The assumptions of logistic-regression apply, with the probit mean function Phi. The log "
        "likelihood is replaced by the canonical pseudo-likelihood y * t - A(t), where t is the linear predictor and "
        "A(t) = t * Phi(t) + phi(t); both have the mean function Phi. The standard deviations of the "
        "default priors are 0.9 for the effect of one standard deviation of a number, 1 for texts, and 2.7 for the "
        "intercept (1 without numbers), where the numbers have their means.",
        source="Geumlek, Song and Chaudhuri 2017, sec. 4.2.",
        corrections="The paper lists probit and complementary log-log as instances of its theorem, which needs the "
        "canonical form. The log likelihoods of probit and complementary log-log models have unbounded gradients and "
        "are refused.",
        prefer_when="You want a probit mean function. Otherwise use logistic-regression, which has the smaller "
        "curvature.",
    )
    domain_type: ClassVar[type[Section]] = ProbitDomain
    prior_type: ClassVar[type[Section]] = ProbitPrior
    default_effect: ClassVar[float] = 0.9
    examples: ClassVar[tuple[Example, ...]] = (class_example(),)
