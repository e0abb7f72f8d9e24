"""Poisson regression: the rate of a count from features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.findings import Findings
from dpbayes_cli.core.losses import CountLoss
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.predicted import LEVELS, PredictiveLaws
from dpbayes_cli.core.section import Section, require_type
from dpbayes_cli.models.families.convex_loss import CoefficientPredictor
from dpbayes_cli.models.families.curved_loss import CurvedLossModel
from dpbayes_cli.models.families.regression_domain import COUNT_SPEC, CountDomain, StatedPrior, count_example

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats, Integers

_LAW_NOTE = (
    "intervals assume that the variance of a count equals its mean, given the features (a Poisson law). If counts vary "
    "more, intervals are too narrow"
)


class PoissonDomain(CountDomain, frozen=True, kw_only=True):
    """Features, and a target that is a count with a public bound."""

    @property
    def loss(self) -> CountLoss:
        return CountLoss(self.target.upper)


class PoissonPrior(StatedPrior, frozen=True, kw_only=True):
    """By default normal; see ``effect``. The effect of a standard deviation of a number has standard deviation 0.45."""


class PoissonRegression(CurvedLossModel):
    """The count is Poisson with mean exp(x'w), and then clamped to a public bound.

    A record adds (E[y | x] - y) x to the gradient, where y is the clamped count. This is the derivative of a
    pseudo-likelihood whose expectation is largest at the coefficients of the counts before clamping.

    Privacy: see ``CountLoss`` for the bounds on slope and curvature, and ``DerivativeRows`` for the integers.
    Source: Wedderburn 1974 (quasi-likelihood); the treatment of clamped counts is derived here.
    """

    name: ClassVar[str] = "poisson-regression"
    suggested_for_target: ClassVar[str] = "counts"
    summary: ClassVar[str] = "the rate of a count from features: rate ratios with intervals; predicts new records"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="Noisy derivatives of the log likelihood of the clamped counts' mean, from which the posterior of "
        "the coefficients is inferred.",
        guarantee="The mechanism gives the guarantee. A count is clamped to a public bound, which bounds the slope of "
        "a record's loss, and its curvature. A row of the design has norm at most c; with an intercept, c^2 = norm^2 "
        "+ 1.",
        assumptions="Counts have a public bound, numbers have public bounds, and texts have public lists of values. "
        "Given the features, a count is Poisson before it is clamped; if counts vary more, intervals are too narrow. "
        "Coefficients refer to the scaled design, in which the bounds of a number become -1 and 1. By default their "
        "priors are normal. Their standard deviations are 0.45 for the effect of one standard deviation of a number, 1 "
        "for texts, and 2.7 for the intercept (2 without numbers), where the numbers have their means; the mean "
        "of the intercept is log(bound / 4), that of other coefficients 0.",
        source="Wedderburn 1974 (quasi-likelihood).",
        corrections="The mean of clamped counts takes the place of exp(x'w), so that clamping causes no bias. With "
        "another link, gradients would have to be clipped, and clipping has a bias that depends on the data.",
        prefer_when="You ask how the number of visits, claims or events depends on other columns.",
    )
    domain_type: ClassVar[type[Section]] = PoissonDomain
    prior_type: ClassVar[type[Section]] = PoissonPrior
    first_spec: ClassVar[Mapping[str, str]] = COUNT_SPEC
    examples: ClassVar[tuple[Example, ...]] = (count_example(), count_example(norm=0.5, intercept=False))
    default_effect: ClassVar[float] = 0.45
    intercept_factor: ClassVar[float] = 2.0
    ratio: ClassVar[str] = "rate ratio"

    target: NumericColumn

    @property
    def ratio_of(self) -> str:
        return f"the rate of {self.target.role} is"

    def _effect(self, is_positive: bool) -> str:
        return f"{self.target.role} seems {'higher' if is_positive else 'lower'}"

    def findings(self, column: str, estimates: Sequence[float]) -> Findings:
        return replace(super().findings(column, estimates), note=_LAW_NOTE)

    def simulated_targets(self, scores: Floats, rng: np.random.Generator) -> Integers:
        import numpy as np

        counts = rng.poisson(np.exp(np.clip(scores, -30.0, 30.0)))
        return np.asarray(np.minimum(counts, self.target.steps), dtype=np.int64)

    def predictor(self, column: int, draws: Floats) -> CountPredictor:
        return CountPredictor(self.columns, self.column_names, column, draws, self)


@dataclass(frozen=True)
class CountPredictor(CoefficientPredictor):
    """Predicts the law of the clamped count of a record, a mixture over the draws of the coefficients."""

    @property
    def note(self) -> str:
        return ""

    def block(self, rows: Floats) -> PredictiveLaws:
        """Return predictive means, standard deviations and quantiles for rows of the design."""
        import numpy as np
        from scipy.special import pdtr

        loss = require_type(self.model.loss, CountLoss)
        t = np.clip(np.asarray(rows @ self.draws.T), -30.0, 30.0)
        (means, variances, *_), rates = loss.moments(t), np.exp(t)
        sd = np.sqrt(variances.mean(axis=1) + means.var(axis=1))
        quantiles = np.zeros((len(t), len(LEVELS)))
        for k, level in enumerate(LEVELS):
            low, high = np.zeros(len(t)), np.full(len(t), float(loss.upper))
            while (low < high).any():
                middle = np.floor((low + high) / 2.0)
                enough = pdtr(middle[:, None], rates).mean(axis=1) >= level
                low, high = np.where(enough, low, np.minimum(middle + 1.0, high)), np.where(enough, middle, high)
            quantiles[:, k] = high
        return PredictiveLaws(means.mean(axis=1), sd, quantiles)
