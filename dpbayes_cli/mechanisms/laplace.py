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
        releases="The model's integer statistic with independent discrete Laplace noise on every component. Posterior "
        "samples under any prior, and any other analysis of the released statistic, cost nothing more.",
        guarantee="Pure epsilon-DP: delta is 0. The noise scale is the L1 sensitivity divided by epsilon. The L1 "
        "sensitivity is the largest change that one record can cause: the sum of the absolute changes of all "
        "components. In Renyi, zCDP and Gaussian accounts, the cost is the sum of the costs of the components that a "
        "record changes, which is less than for other mechanisms of the same epsilon if it changes several. If the "
        "keys of groups are found in the data, the guarantee also has the stated delta, the probability that a key of "
        "one person alone is published.",
        assumptions="Each person has one record, or as many as the privacy unit allows. The operating system's random "
        "numbers are secret. Nothing is assumed about the analyst.",
        source="Foulds et al. 2016, eq. 16-17; Zhang, Rubinstein and Dimitrakakis 2016, Alg. 1; Bernstein and Sheldon "
        "2018, sec. 3.1; Ghosh, Roughgarden and Sundararajan 2009 (discrete Laplace).",
        corrections="The papers add real-valued noise to real-valued sums, but floating-point draws do not give pure "
        "epsilon-DP (Mironov 2012). Here statistics are exact integers and OpenDP draws the noise exactly. OpenDP's "
        "own privacy map must agree with the plan before anything is charged.",
        prefer_when="The statistic consists of counts: then `laplace` is almost always best, and one release serves "
        "all later posterior inference.",
    )
    options_type: ClassVar[type[Options]] = EpsilonOptions

    def plan(self, model: Model, policy: RecordPolicy, options: Options, n_records: int | None = None) -> Plan:
        statistic = self.statistic(model, policy)
        epsilon = require_type(options, EpsilonOptions).stated_epsilon()
        noise = calibrated_noise(statistic, epsilon, DiscreteLaplace.calibrate, lambda part: part.sensitivity_l1)
        guarantee = require_type(noise.privacy(statistic.worst_shifts), PureDP).at_most(epsilon)
        return Plan((Step(statistic, noise, guarantee),), guarantee, {"scale": noise.scale})
