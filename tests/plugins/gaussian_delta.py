"""Gaussian at a cost of (epsilon, delta): discrete Gaussian noise for accounts that have no zCDP."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any, ClassVar

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import MethodInfo, Model, NoisyStatistics
from dpbayes_cli.core.options import Delta, EpsilonOptions, Options
from dpbayes_cli.core.plan import Plan, Step
from dpbayes_cli.core.released import Payload
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.mechanisms.samplers.calibrated_noise import calibrated_noise
from dpbayes_cli.privacy.conversions import rho_of_epsilon
from dpbayes_cli.privacy.kinds import ApproximateDP
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian

_DOWN = Context(prec=12, rounding=ROUND_FLOOR)


class GaussianDeltaOptions(EpsilonOptions, frozen=True, kw_only=True):
    """A cost in (epsilon, delta)."""

    delta: Delta = None


class GaussianDelta(Mechanism):
    """Add independent discrete Gaussian noise that is (epsilon, delta)-DP, and charge just that.

    Privacy: rho-zCDP noise, rho the largest whose conversion stays within (epsilon, delta); see ``DiscreteGaussian``.
    Source: Canonne, Kamath and Steinke 2020; Bun and Steinke 2016 (conversion).
    """

    name: ClassVar[str] = "gaussian-delta"
    summary: ClassVar[str] = "discrete Gaussian noise on integer statistics; (epsilon, delta)"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="The model's integer statistic plus independent discrete Gaussian noise on every component.",
        guarantee="(epsilon, delta)-DP, charged as stated.",
        assumptions="Each person has one record; the operating system's random numbers are secret.",
        source="Canonne, Kamath and Steinke 2020 (discrete Gaussian); Bun and Steinke 2016.",
        corrections="The noise is an exact integer, and calibrated by zCDP, not by the continuous Gaussian law.",
        prefer_when="The account has an (epsilon, delta) budget with basic composition, and there are many components.",
    )
    requires: ClassVar[tuple[type, ...]] = (NoisyStatistics,)
    example: ClassVar[Mapping[str, Mapping[str, Any]]] = {"privacy": {"epsilon": "0.5", "delta": "1e-6"}}
    options_type: ClassVar[type[Options]] = GaussianDeltaOptions
    first_spec: ClassVar[Mapping[str, str]] = {"privacy.epsilon": "1", "privacy.delta": "1e-6"}

    def plan(self, model: Model, policy: RecordPolicy, options: Options, n_records: int | None = None) -> Plan:
        """Calibrate the noise to the sensitivity of the model's statistic.

        Raises:
            SpecError: epsilon or delta is not stated.
        """
        stated = require_type(options, GaussianDeltaOptions)
        epsilon = stated.stated_epsilon()
        if stated.delta is None:
            raise SpecError("missing", where="privacy.delta", hint="--delta 1e-6")
        guarantee, statistic = ApproximateDP(epsilon, stated.delta), self.statistic(model, policy)
        rho = _DOWN.create_decimal(Decimal(rho_of_epsilon(float(epsilon), float(stated.delta)) * (1.0 - 1e-9)))
        noise = calibrated_noise(statistic, rho, DiscreteGaussian.calibrate, lambda part: part.sensitivity_l2_squared)
        return Plan((Step(statistic, noise, guarantee),), guarantee, {"rho": float(rho), "sigma": noise.scale})

    def release(self, plan: Plan, evidence: ExactEvidence) -> Payload:
        """Add the planned noise to the exact statistic.

        Privacy: (epsilon, delta)-DP as planned; only the noisy integers are returned.
        Source: see the class.
        """
        (step,) = plan.steps
        return Payload(step.statistic.names, tuple(step.noise.release(evidence.values)), step.noise)
