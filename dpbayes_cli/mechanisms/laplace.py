"""Laplace: discrete Laplace noise on the exact integer statistic."""

from __future__ import annotations

from typing import ClassVar

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.model import MethodInfo, Model
from dpbayes_cli.core.options import EpsilonOptions, Options
from dpbayes_cli.core.plan import Plan, Step
from dpbayes_cli.core.section import require_type
from dpbayes_cli.mechanisms.samplers.calibrated_noise import NoiseMechanism, calibrated_noise
from dpbayes_cli.privacy.kinds import PureDP
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace


class Laplace(NoiseMechanism):
    """Add independent discrete Laplace noise of scale sensitivity / epsilon to every component.

    Privacy: pure epsilon-DP under the neighbors of the policy; see ``DiscreteLaplace``.
    Source: Foulds et al. 2016 eq. 16-17; Zhang et al. 2016 Alg. 1; Bernstein and Sheldon 2018 sec. 3.1, with integer
        noise in place of real noise.
    """

    name: ClassVar[str] = "laplace"
    summary: ClassVar[str] = "discrete Laplace noise on integer statistics; pure epsilon"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="The model's integer statistic plus independent discrete Laplace noise on every component. Any "
        "number of posterior samples, any prior and any further analysis of it are free.",
        guarantee="Pure epsilon-DP: delta is 0. The noise scale, in counts, is the L1 sensitivity (how far one record "
        "can move all statistics together) divided by epsilon.",
        assumptions="One record per person, or as the privacy unit states. The operating system's random numbers are "
        "secret. Nothing is assumed about the analyst.",
        source="Foulds et al. 2016, eq. 16-17; Zhang, Rubinstein and Dimitrakakis 2016, Alg. 1; Bernstein and Sheldon "
        "2018, sec. 3.1; Ghosh, Roughgarden and Sundararajan 2009 (discrete Laplace).",
        corrections="The papers add real-valued noise to real-valued sums, but floating-point draws do not give pure "
        "epsilon-DP (Mironov 2012). Here statistics are exact integers and OpenDP draws the noise exactly; its own "
        "privacy map must agree with the plan before anything is charged.",
        prefer_when="Almost always for counts: one release answers every later request for posterior inference.",
    )
    options_type: ClassVar[type[Options]] = EpsilonOptions

    def plan(self, model: Model, policy: RecordPolicy, options: Options, n_records: int | None = None) -> Plan:
        """Calibrate the noise to the sensitivity of the model's statistic.

        Raises:
            SpecError: the statistic does not depend on the data.
            DpbayesError: OpenDP's privacy map disagrees with the plan.
        """
        statistic = self.statistic(model, policy)
        guarantee = PureDP(require_type(options, EpsilonOptions).stated_epsilon())
        noise = calibrated_noise(
            statistic, guarantee.epsilon, DiscreteLaplace.calibrate, lambda part: part.sensitivity_l1
        )
        return Plan((Step(statistic, noise, guarantee),), guarantee, {"scale": noise.scale})
