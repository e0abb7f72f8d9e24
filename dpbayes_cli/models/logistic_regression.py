"""Logistic regression: the probability of a class from features."""

from typing import ClassVar

from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.losses import LogisticLoss
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.section import Section
from dpbayes_cli.models.families.curved_loss import CurvedClassModel
from dpbayes_cli.models.families.regression_domain import ClassDomain, StatedPrior, class_example


class LogisticDomain(ClassDomain, frozen=True, kw_only=True):
    """Features, and a target of two classes."""

    @property
    def loss(self) -> LogisticLoss:
        return LogisticLoss()


class LogisticPrior(StatedPrior, frozen=True, kw_only=True):
    """By default normal; see ``effect``. The effect of a standard deviation of a number has standard deviation 1.5."""


class LogisticRegression(CurvedClassModel):
    """P(y = 1 | x) = sigma(x'w), with independent priors of the coefficients w.

    Privacy: gradient and curvature are bounded for every record; see ``ConvexLossModel.curvature``.
    Source: Geumlek, Song and Chaudhuri 2017, sec. 4.2; Minami et al. 2016, sec. 4.
    """

    name: ClassVar[str] = "logistic-regression"
    suggested_for_target: ClassVar[str] = "two texts"
    summary: ClassVar[str] = "the probability of a class from features: odds ratios; classifies new records"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="With `noisy-newton`, the default: noisy derivatives of the log likelihood, from which the posterior "
        "is inferred. With the other mechanisms: draws of the coefficients from a posterior tempered for privacy.",
        guarantee="The mechanism gives the guarantee. A row of the design has norm at most c; with an intercept, c^2 "
        "= norm^2 + 1. The gradient of one record's loss has norm at most c, and its curvature is at most c^2 / 4.",
        assumptions="Numbers have public bounds; texts have public lists of values. A record's features are clipped to "
        "a public norm. Coefficients refer to the scaled design, in which the bounds of a number become -1 and 1. By "
        "default their priors are normal with mean 0. Their standard deviations are 1.5 for the effect of one standard "
        "deviation of a number, 1 for texts, and 4.5 for the intercept (1 without numbers), where the numbers "
        "have their means; with mechanisms that release draws, 1 for all coefficients.",
        source="Geumlek, Song and Chaudhuri 2017, sec. 4; Minami, Arai, Sato and Nakagawa 2016.",
        corrections="With an intercept, the Lipschitz constant of the loss is L = sqrt(1 + norm^2); the papers state L "
        "= norm.",
        prefer_when="You predict one of two classes from many columns, and want probabilities.",
    )
    domain_type: ClassVar[type[Section]] = LogisticDomain
    prior_type: ClassVar[type[Section]] = LogisticPrior
    ratio: ClassVar[str] = "odds ratio"
    examples: ClassVar[tuple[Example, ...]] = (class_example(), class_example(norm=0.5, intercept=False))

    @property
    def ratio_of(self) -> str:
        return f"the odds of {self.target.role} = {self.target.levels[1]} are"
