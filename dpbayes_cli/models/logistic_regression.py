"""Logistic regression: the probability of a class from features."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from dpbayes_cli.core.columns import Column, NumericColumn
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.findings import Effect, Fact, Findings
from dpbayes_cli.core.losses import LogisticLoss
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.section import Section
from dpbayes_cli.models.families.convex_loss import ConvexClassModel, CurvedLossModel
from dpbayes_cli.models.families.regression_domain import ClassDomain, CoefficientPrior, Precision, class_example

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_MOST = 700.0
"""The largest log of an odds ratio, so that the ratio is finite."""


class LogisticDomain(ClassDomain, frozen=True, kw_only=True):
    """Features, and a target of two classes."""

    @property
    def loss(self) -> LogisticLoss:
        return LogisticLoss()


class LogisticPrior(CoefficientPrior, frozen=True, kw_only=True):
    """Independent normal priors with mean zero on all coefficients of the scaled design."""

    precision: Precision = 1.0


class LogisticRegression(ConvexClassModel, CurvedLossModel):
    """P(y = 1 | x) = sigma(x'w), with w ~ N(0, I / tau).

    Privacy: gradient and curvature are bounded for every record; see ``ConvexLossModel.curvature``.
    Source: Geumlek, Song and Chaudhuri 2017, sec. 4.2; Minami et al. 2016, sec. 4.
    """

    name: ClassVar[str] = "logistic-regression"
    summary: ClassVar[str] = "the probability of a class from features, normal prior; classifies new records"
    has_probabilities: ClassVar[bool] = True
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="With `noisy-newton`, the default: noisy derivatives of the log likelihood, from which the posterior "
        "is inferred. With the other mechanisms: draws of the coefficients from a posterior tempered for privacy.",
        guarantee="The mechanism gives the guarantee. A row of the design has norm at most c; with an intercept, c^2 "
        "= norm^2 + 1. The gradient of one record's loss has norm at most c, and its curvature is at most c^2 / 4.",
        assumptions="Numbers have public bounds; texts have public lists of values. A record's features are clipped to "
        "a public norm. Coefficients refer to the scaled design, in which the bounds of a number become -1 and 1.",
        source="Geumlek, Song and Chaudhuri 2017, sec. 4; Minami, Arai, Sato and Nakagawa 2016.",
        corrections="With an intercept, the Lipschitz constant of the loss is L = sqrt(1 + norm^2); the papers state L "
        "= norm.",
        prefer_when="You predict one of two classes from many columns, and want probabilities.",
    )
    domain_type: ClassVar[type[Section]] = LogisticDomain
    prior_type: ClassVar[type[Section]] = LogisticPrior
    examples: ClassVar[tuple[Example, ...]] = (class_example(), class_example(norm=0.5, intercept=False))

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The odds ratios of class 1: for a number that is higher by a round step, and for each value of a text.

        The first value of a text is the one that the others are compared with. If rows are clipped there are none,
        because a coefficient then means something else for a clipped row.
        """
        effects, k = [], int(self.design.intercept)
        if self.design.radius < self.design.largest:
            return ()
        for feature in self.design.features:
            column = feature.column
            if isinstance(column, NumericColumn):
                step = 10.0 ** round(math.log10((column.upper - column.lower) / 10.0))
                effects.append(self._of_number(column.role, k, step, step / feature.reach))
            else:
                of_texts = (self._of_text(column, k, i) for i in range(1, len(column.levels)))
                effects += of_texts
            k += len(feature.names)
        return tuple(effects)

    def findings(self, column: str, estimates: Sequence[float]) -> Findings:
        """Return the odds ratio that is farthest from 1."""
        import numpy as np

        findings, effects = super().findings(column, estimates), self.effects
        if not effects:
            return findings
        logs = [abs(math.log(float(effect.of_samples(np.array([estimates]))[0]))) for effect in effects]
        return replace(findings, facts=(effects[logs.index(max(logs))].fact,))

    def _of_number(self, name: str, parameter: int, step: float, factor: float) -> Effect:
        def convert(coefficient: float) -> float:
            return math.exp(min(max(factor * coefficient, -_MOST), _MOST))

        before = f"with {name} {step:g} higher, the odds of {self._event} are about"
        fact = Fact(before, parameter, "times as high", convert=convert)
        return Effect(f"{name} + {step:g}", fact, _odds_ratio(parameter, None, factor))

    def _of_text(self, column: Column, first: int, i: int) -> Effect:
        name, level, other = column.role, column.levels[i], column.levels[0]
        of_samples = _odds_ratio(first + i, first)
        before = f"with {name} = {level}, the odds of {self._event} are about"
        fact = Fact(before, first + i, f"times as high as with {name} = {other}", of_samples=of_samples)
        return Effect(f"{name}={level} against {other}", fact, of_samples)

    @property
    def _event(self) -> str:
        return f"{self.target.role} = {self.target.levels[1]}"

    def mean(self, t: "Floats") -> "Floats":
        from scipy.special import expit

        return expit(t)


def _odds_ratio(raised: int, lowered: int | None, factor: float = 1.0) -> "Callable[[Floats], Floats]":
    def of_samples(samples: "Floats") -> "Floats":
        import numpy as np

        below = 0.0 if lowered is None else samples[:, lowered]
        return np.exp(np.clip(factor * (samples[:, raised] - below), -_MOST, _MOST))

    return of_samples
