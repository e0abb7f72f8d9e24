"""Calibration of the likelihood power at which posterior draws cost a requested epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.options import PowerTarget
from dpbayes_cli.models.families.capabilities import OneParameterFamily
from dpbayes_cli.privacy.conversions import round_up

DOWN = Context(prec=30, rounding=ROUND_FLOOR)
UP = Context(prec=30, rounding=ROUND_CEILING)


@dataclass(frozen=True)
class DrawRequest:
    """A request for draws from a tempered law.

    Attributes:
        epsilon: the budget of all draws together.
        n_records: the public number of complete records.
        support: the public range of the parameter, or None for the model's default.
    """

    epsilon: Decimal
    n_records: int
    draws: int = 1
    power_applies_to: PowerTarget = "likelihood"
    support: tuple[float, float] | None = None


@dataclass(frozen=True)
class Tempering:
    """A likelihood power with its cost.

    Privacy: let f = log p(x | theta) - log p(x' | theta) for two records x and x', and R = sup f - inf f over the
        public grid. Data are complete, so that there are no null records. Let the score u be the log posterior; the
        scores of two neighbors differ by a function of theta whose range is at most R. A constant added to all scores
        does not change the law, so that the symmetric sensitivity of u is R / 2, and the exponential mechanism has the
        weights exp(epsilon u / (2 * R / 2)) = exp(epsilon u / R). With weights exp(T u) the range of the log ratio is
        at most T R, and rounding adds less than ``extra``. So T is chosen such that T R + extra <= epsilon / k for each
        of k draws. T is rounded down; R and the charge are rounded up.
    Source: McSherry and Talwar 2007; Zhang et al. 2016 Alg. 3; Foulds et al. 2016 sec. 3.1.

    Attributes:
        likelihood_power: T.
        spread: R, rounded up.
        charged: the epsilon that is charged for all draws together.
    """

    likelihood_power: Decimal
    spread: Decimal
    charged: Decimal

    def plan_parameters(self, request: DrawRequest) -> dict[str, Any]:
        """Return the parameters that a plan states about the likelihood power."""
        return {
            "likelihood_power": float(self.likelihood_power),
            "range": float(self.spread),
            "draws": request.draws,
            "power_applies_to": request.power_applies_to,
        }


def calibrate_power(request: DrawRequest, spread: Decimal, extra: Decimal, most: Decimal | None) -> Tempering:
    """Return the largest likelihood power at which each draw costs at most its part of epsilon.

    Args:
        request: the number of draws and their budget.
        spread: R, see ``Tempering``.
        extra: a bound on how much rounding adds to the range of a log ratio.
        most: the largest useful likelihood power: 1 for posterior samples; None (no limit) for estimates of the mode.
    """
    epsilon = request.epsilon
    epsilon_per_draw = DOWN.divide(epsilon, Decimal(request.draws))
    if epsilon_per_draw <= 2 * extra:
        raise SpecError(
            f"epsilon is {epsilon:g} for {request.draws} draws; exact draws need more than "
            f"{2 * extra * request.draws:g}",
            where="privacy.epsilon",
        )
    likelihood_power = DOWN.divide(DOWN.subtract(epsilon_per_draw, extra), spread)
    if most is not None:
        likelihood_power = min(most, likelihood_power)
    cost_per_draw = UP.add(UP.multiply(likelihood_power, spread), extra)
    charged = min(epsilon, UP.create_decimal(round_up(float(cost_per_draw * request.draws))))
    return Tempering(likelihood_power, spread, charged)


def weighted_moments(masses: Floats, values: Floats) -> tuple[float, float]:
    """Return the mean and standard deviation of values with the given probabilities."""
    mean = float(masses @ values)
    return mean, math.sqrt(float(masses @ (values - mean) ** 2))


def public_support(model: OneParameterFamily, support: tuple[float, float] | None) -> tuple[float, float]:
    """Return the public range of the parameter, stated or default; refuse one that the model does not allow."""
    support = support or model.default_support
    least, most = model.parameter_range
    if support is None:
        raise SpecError(
            "the posterior must be truncated to a public range of its parameter",
            where="sampling.support",
            hint="choose the range without looking at the data: --support LOW,HIGH",
        )
    if not (least < support[0] < support[1] < most and all(map(math.isfinite, support))):
        raise SpecError(
            f"the support is {list(support)}; allowed: low < high, strictly inside ({least:g}, {most:g})",
            where="sampling.support",
        )
    return support
