"""The capability of regressions with a mean that increases with the linear predictor: ratios with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from dpbayes_cli.core.coefficient_law import CoefficientLaw
from dpbayes_cli.core.design import Contrast
from dpbayes_cli.core.findings import Effect, Fact, Findings
from dpbayes_cli.core.losses import CurvedLoss
from dpbayes_cli.core.section import Section, require_type, with_defaults
from dpbayes_cli.models.families.convex_loss import CoefficientModel, ConvexClassModel, ConvexLossDomain
from dpbayes_cli.models.families.regression_domain import StatedPrior

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_LARGEST_LOG = 700.0
"""The largest log of a ratio, so that the ratio is finite."""


class CurvedLossModel(CoefficientModel):
    """A model whose loss has a slope that is a mean minus the outcome, from which coefficients are inferred."""

    default_mechanism: ClassVar[str] = "noisy-newton"
    has_likelihood: ClassVar[bool] = True
    accepts_posteriors: ClassVar[bool] = True
    default_effect: ClassVar[float] = 1.5
    """The scale of the default prior of the change of the predictor per standard deviation of a number."""
    intercept_factor: ClassVar[float] = 1.0
    """How much wider the default prior of the intercept is than its own default."""
    ratio: ClassVar[str] = ""
    """The ratio that the exponential of a coefficient is, such as an odds ratio; empty if it is none."""

    @classmethod
    def complete_prior(cls, domain: Section, prior: Section) -> Section:
        return require_type(prior, StatedPrior).complete(cls.default_effect)

    @classmethod
    def complete_prior_of_draws(cls, domain: Section, prior: Section) -> Section:
        stated = require_type(prior, StatedPrior)
        return stated if stated.spread or stated.effect else with_defaults(stated, precision=1.0)

    @classmethod
    def coefficient_law(cls, domain: ConvexLossDomain, prior: Section) -> CoefficientLaw:
        whole = require_type(prior, StatedPrior).complete(cls.default_effect)
        return whole.law_of(domain.design, require_type(domain.loss, CurvedLoss).start(), cls.intercept_factor)

    @property
    def curved_loss(self) -> CurvedLoss:
        """The loss, with its curvature."""
        return require_type(self.loss, CurvedLoss)

    @property
    def ratio_of(self) -> str:
        """What ``ratio`` compares, in words, with a verb; empty without one."""
        return ""

    def mean(self, t: Floats) -> Floats:
        return self.curved_loss.mean(t)

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The ratio of each contrast of the design, if the model has ratios."""
        return tuple(map(self._effect_of, self.design.contrasts if self.ratio else ()))

    def findings(self, column: str, estimates: Sequence[float]) -> Findings:
        """Return the ratio that is farthest from 1."""
        import numpy as np

        findings, effects = super().findings(column, estimates), self.effects
        if not effects:
            return findings
        logs = [abs(math.log(float(effect.of_samples(np.array([estimates]))[0]))) for effect in effects]
        return replace(findings, facts=(effects[logs.index(max(logs))].fact,), n_effects=len(effects))

    def _effect_of(self, contrast: Contrast) -> Effect:
        def of_samples(samples: Floats) -> Floats:
            import numpy as np

            return np.exp(np.clip(contrast.of_coefficients(samples), -_LARGEST_LOG, _LARGEST_LOG))

        def convert(coefficient: float) -> float:
            return math.exp(min(max(contrast.factor * coefficient, -_LARGEST_LOG), _LARGEST_LOG))

        if contrast.lowered is None:
            before = f"with {contrast.feature} {contrast.change} higher, {self.ratio_of} about"
            fact = Fact(before, contrast.raised, "times as high", convert=convert, ratio=contrast.name)
        else:
            before = f"with {contrast.feature} = {contrast.change}, {self.ratio_of} about"
            after = f"times as high as with {contrast.feature} = {contrast.base}"
            fact = Fact(before, contrast.raised, after, of_samples=of_samples, ratio=contrast.name)
        return Effect(contrast.name, fact, of_samples, self.ratio)


class CurvedClassModel(CurvedLossModel, ConvexClassModel):
    """A model of the probability of a class, which mechanisms for convex losses support as well."""

    has_probabilities: ClassVar[bool] = True
    former_default: ClassVar[str] = "gibbs-posterior"
