"""Staircase: staircase noise on the exact integer statistic, for a statistic of one component above all."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Context, Decimal
from typing import ClassVar

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import MethodInfo, Model, NoisyStatistics
from dpbayes_cli.core.options import EpsilonOptions, Options
from dpbayes_cli.core.plan import Plan, Step
from dpbayes_cli.core.registry import noise_law_type
from dpbayes_cli.core.released import Payload
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.privacy.kinds import PureDP

_DOWN = Context(prec=12, rounding=ROUND_FLOOR)


class StaircaseNoise(Mechanism):
    """Add independent staircase noise, whose step is the sensitivity, to every component.

    Privacy: a record moves no component by more than the sensitivity, one step, and so many components at most as the
        statistic has, or as the sensitivity is: each of them has an equal share of epsilon.
    Source: Geng and Viswanath 2016; basic composition over components.
    """

    name: ClassVar[str] = "staircase-noise"
    summary: ClassVar[str] = "discrete staircase noise on integer statistics; pure epsilon"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="The model's integer statistic plus independent discrete staircase noise on every component.",
        guarantee="Pure epsilon-DP, in equal shares for the components that one record can move.",
        assumptions="Each person has one record; the operating system's random numbers are secret.",
        source="Geng and Viswanath 2016 (the staircase law on integers).",
        corrections="The noise is drawn exactly, with integers and coins of rational probability.",
        prefer_when="The statistic has one component, and its sensitivity and epsilon are large.",
    )
    requires: ClassVar[tuple[type, ...]] = (NoisyStatistics,)
    options_type: ClassVar[type[Options]] = EpsilonOptions

    def plan(self, model: Model, policy: RecordPolicy, options: Options, n_records: int | None = None) -> Plan:
        statistic = self.statistic(model, policy)
        guarantee, step = PureDP(require_type(options, EpsilonOptions).stated_epsilon()), statistic.sensitivity_l1
        moved = min(len(statistic.names), step)
        noise = noise_law_type("staircase").of(step, _DOWN.divide(guarantee.epsilon, Decimal(moved)))  # type: ignore[attr-defined]
        return Plan((Step(statistic, noise, guarantee),), guarantee, {"scale": noise.scale})

    def release(self, plan: Plan, evidence: ExactEvidence) -> Payload:
        """Add the planned noise to the exact statistic.

        Privacy: pure epsilon-DP with the plan's epsilon; only the noisy integers are returned.
        Source: see the class.
        """
        (step,) = plan.steps
        return Payload(step.statistic.names, tuple(step.noise.release(evidence.values)), step.noise)
