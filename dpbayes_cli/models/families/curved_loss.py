"""The capability of regressions with a mean that increases with the linear predictor: ratios with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from dpbayes_cli.core.columns import Column, NumericColumn
from dpbayes_cli.core.findings import Effect, Fact, Findings
from dpbayes_cli.core.losses import CurvedLoss
from dpbayes_cli.core.section import require_type
from dpbayes_cli.models.families.convex_loss import CoefficientModel, ConvexClassModel

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_LARGEST_LOG = 700.0
"""The largest log of a ratio, so that the ratio is finite."""


class CurvedLossModel(CoefficientModel):
    """A model whose loss has a slope that is a mean minus the outcome, from which coefficients are inferred."""

    default_mechanism: ClassVar[str] = "noisy-newton"
    ratio: ClassVar[str] = ""
    """The ratio that the exponential of a coefficient is, such as an odds ratio; empty if it is none."""

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
        """The ratios for a number that is higher by a round step, and for each value of a text.

        The first value of a text is the one that the others are compared with. If rows are clipped there are none,
        because a coefficient then means something else for a clipped row.
        """
        effects, k = [], int(self.design.intercept)
        if not self.ratio or self.design.radius < self.design.largest:
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
        """Return the ratio that is farthest from 1."""
        import numpy as np

        findings, effects = super().findings(column, estimates), self.effects
        if not effects:
            return findings
        logs = [abs(math.log(float(effect.of_samples(np.array([estimates]))[0]))) for effect in effects]
        return replace(findings, facts=(effects[logs.index(max(logs))].fact,))

    def _of_number(self, name: str, parameter: int, step: float, factor: float) -> Effect:
        def convert(coefficient: float) -> float:
            return math.exp(min(max(factor * coefficient, -_LARGEST_LOG), _LARGEST_LOG))

        before = f"with {name} {step:g} higher, {self.ratio_of} about"
        fact = Fact(before, parameter, "times as high", convert=convert)
        return Effect(f"{name} + {step:g}", fact, _ratio(parameter, None, factor), self.ratio)

    def _of_text(self, column: Column, first: int, i: int) -> Effect:
        name, level, other = column.role, column.levels[i], column.levels[0]
        of_samples = _ratio(first + i, first)
        before = f"with {name} = {level}, {self.ratio_of} about"
        fact = Fact(before, first + i, f"times as high as with {name} = {other}", of_samples=of_samples)
        return Effect(f"{name}={level} against {other}", fact, of_samples, self.ratio)


class CurvedClassModel(CurvedLossModel, ConvexClassModel):
    """A model of the probability of a class, which mechanisms for convex losses support as well."""

    has_probabilities: ClassVar[bool] = True
    former_default: ClassVar[str] = "gibbs-posterior"


def _ratio(raised: int, lowered: int | None, factor: float = 1.0) -> Callable[[Floats], Floats]:
    def of_samples(samples: Floats) -> Floats:
        import numpy as np

        below = 0.0 if lowered is None else samples[:, lowered]
        return np.exp(np.clip(factor * (samples[:, raised] - below), -_LARGEST_LOG, _LARGEST_LOG))

    return of_samples
