"""Gaussian: discrete or rounded Gaussian noise on the exact integer statistic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any, ClassVar

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.model import MethodInfo, Model
from dpbayes_cli.core.options import Options
from dpbayes_cli.core.plan import Plan, Step
from dpbayes_cli.core.section import require_type
from dpbayes_cli.mechanisms.samplers.calibrated_noise import NoiseMechanism, calibrated_noise
from dpbayes_cli.mechanisms.samplers.stated_mu import MuOptions
from dpbayes_cli.privacy.conversions import rho_of_epsilon
from dpbayes_cli.privacy.guarantee import Guarantee, check_delta, check_rho
from dpbayes_cli.privacy.kinds import GaussianDP, ZeroConcentrated
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.rounded_gaussian import RoundedGaussian
from dpbayes_cli.privacy.noise import NoiseLaw

_EXACT = Context(prec=100)


class Gaussian(NoiseMechanism):
    """Add independent discrete Gaussian noise of variance Delta_2^2 / (2 rho) to every component.

    If mu is stated, the noise is a normal number of variance Delta_2^2 / mu^2, rounded to an integer.

    Privacy: rho-zCDP or mu-GDP under the neighbors of the policy; see ``DiscreteGaussian`` and ``RoundedGaussian``.
    Source: Canonne, Kamath and Steinke 2020; Geumlek et al. 2017 sec. 5.1, corrected by a factor of two; Dong, Roth and
        Su 2022.
    """

    name: ClassVar[str] = "gaussian"
    summary: ClassVar[str] = "discrete or rounded Gaussian noise on integer statistics; zCDP or Gaussian DP"
    example: ClassVar[Mapping[str, Mapping[str, Any]]] = {"privacy": {"rho": "0.1"}}
    first_spec: ClassVar[Mapping[str, str]] = {"privacy.epsilon": "1", "privacy.delta": "1e-6"}
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="The model's integer statistic with independent Gaussian noise on every component. Posterior "
        "samples under any prior, and any other analysis of the released statistic, cost nothing more.",
        guarantee="With --rho, or with --eps and --delta, from which rho is computed: rho-zCDP with rho = squared L2 "
        "sensitivity / (2 sigma^2), by discrete Gaussian noise. With --mu: exactly mu-Gaussian DP with mu = L2 "
        "sensitivity / sigma, by a normal number that is rounded to an integer. An account in Gaussian DP needs --mu. "
        "There is no pure epsilon: the account must be kept in zCDP, RDP, (epsilon, delta) or Gaussian DP. If the keys "
        "of groups are found in the data, the guarantee also has a delta, the probability that a key of one person "
        "alone is published: the one stated with --rho or --mu, or half of the one stated with --eps.",
        assumptions="Each person has one record, or as many as the privacy unit allows. The operating system's random "
        "numbers are secret. Nothing is assumed about the analyst.",
        source="Canonne, Kamath and Steinke 2020, Theorem 14 (discrete Gaussian); Bun and Steinke 2016 (zCDP); "
        "Geumlek, Song and Chaudhuri 2017, sec. 5.1; Dong, Roth and Su 2022, sec. 2 (Gaussian DP).",
        corrections="Geumlek et al. state the Renyi divergence lambda * Delta^2 / sigma^2 for Gaussian noise at order "
        "lambda; the correct value is half of this. The noise is an exact integer. OpenDP draws discrete Gaussian "
        "noise, and its own privacy map must agree with the plan before anything is charged. With --mu the noise is a "
        "normal number that is rounded exactly. The statistic is an integer. So the result is what the Gaussian "
        "mechanism would release, rounded to an integer, and rounding costs nothing.",
        prefer_when="There are many components (the counts of K categories have L2 sensitivity sqrt 2 but L1 "
        "sensitivity 2), or many releases are charged to one account in zCDP, (epsilon, delta) or Gaussian DP. For "
        "one small statistic under pure epsilon use `laplace`.",
    )
    options_type: ClassVar[type[Options]] = MuOptions

    def plan(self, model: Model, policy: RecordPolicy, options: Options, n_records: int | None = None) -> Plan:
        stated, statistic = require_type(options, MuOptions), self.statistic(model, policy)
        has_pair = stated.epsilon is not None or stated.delta is not None
        if [stated.mu is not None, stated.rho is not None, has_pair].count(True) > 1:
            raise SpecError("state only one of: rho; mu; epsilon and delta", where="privacy")
        guarantee: Guarantee
        calibrate: Callable[[int, Decimal], NoiseLaw]
        if stated.mu is not None:
            guarantee, calibrate, shown = GaussianDP(stated.mu), RoundedGaussian.calibrate, {"mu": float(stated.mu)}
            budget = _EXACT.multiply(stated.mu, stated.mu)  # the squares of the mus of parts add up
        else:
            budget = _rho_of_pair(stated) if stated.rho is None else stated.rho
            check_rho(budget)
            guarantee, calibrate, shown = ZeroConcentrated(budget), DiscreteGaussian.calibrate, {"rho": float(budget)}
        noise = calibrated_noise(statistic, budget, calibrate, lambda part: part.sensitivity_l2_squared)
        return Plan((Step(statistic, noise, guarantee),), guarantee, {**shown, "sigma": noise.scale})


def _rho_of_pair(options: MuOptions) -> Decimal:
    if options.epsilon is None or options.delta is None:
        raise SpecError(
            "gaussian needs rho, mu, or epsilon and delta", where="privacy", hint="--rho 0.1, or --eps 1 --delta 1e-6"
        )
    check_delta(options.delta)
    rho = rho_of_epsilon(float(options.epsilon), float(options.delta)) * (1.0 - 1e-9)
    return Context(prec=12, rounding=ROUND_FLOOR).create_decimal(Decimal(rho))
