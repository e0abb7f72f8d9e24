"""What the three Renyi mechanisms share: the curve of a conjugate posterior, its calibration, and its draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any

from dpbayes_cli.capabilities import ConjugatePosterior
from dpbayes_cli.contracts import Draws, Model, Plan, Request, Sampler, Step, expect
from dpbayes_cli.errors import SpecError
from dpbayes_cli.privacy.conjugate import LARGEST_ORDER, ConjugateFamily, slack
from dpbayes_cli.privacy.kinds import Points, RenyiCurve
from dpbayes_cli.privacy.renyi import INFINITE, ORDERS, round_up
from dpbayes_cli.statistic import Statistics

_BELOW = Context(prec=12, rounding=ROUND_FLOOR)
_MARGIN = 1e-10
"""Relative and absolute margin for the floats in which a divergence is computed (they err by less than 1e-12)."""


@dataclass(frozen=True)
class ConjugateSampler(Sampler):
    """The posterior with the likelihood to the power r and the prior's parameters divided by m."""

    model: ConjugatePosterior
    n_records: int
    r: float
    m: float

    def draw(self, values: Sequence[int], size: int) -> list[tuple[float, ...]]:
        """Draw on the family's public grid."""
        family = self.model.family(self.n_records)
        drawn = family.draw(self.model.sums(values, self.n_records), self.r, self.m, size)
        return [self.model.reported(point) for point in drawn]

    def moments(self, values: Sequence[int]) -> tuple[float, float]:
        """Return the moments of the conjugate posterior."""
        return self.model.family(self.n_records).moments(self.model.sums(values, self.n_records), self.r, self.m)


def price(family: ConjugateFamily, order: float, r: float, m: float) -> Decimal:
    """Return an upper bound of the Renyi divergence of one draw at an order, finite precision included."""
    return round_up(family.divergence(order, r, m) * (1.0 + _MARGIN) + _MARGIN * 1e-3 + slack(order))


def calibrated(cost: Callable[[float], Decimal], target: Decimal) -> float:
    """Return the largest parameter in (0, 1] whose cost stays within a target: the safe end of a bisection.

    Args:
        cost: increasing in the parameter.
        target: what may be spent.

    Raises:
        SpecError: nothing fits.
    """
    if cost(1.0) <= target:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        low, high = (middle, high) if cost(middle) <= target else (low, middle)
    if low < 1e-12:
        raise SpecError("epsilon is too small for any posterior draw", where="privacy.epsilon")
    return low


def plan_of(
    model: Model, request: Request, choose: Callable[[ConjugateFamily, float, Decimal | None], tuple[float, float]]
) -> Plan:
    """Return the plan of a Renyi mechanism.

    Args:
        model: with a conjugate posterior.
        request: the price asked for: epsilon of all draws at ``order``.
        choose: returns (r, m) for a family, an order, and the epsilon of one draw (None: not stated).

    Raises:
        SpecError: records are not complete, or the price cannot be met.
    """
    conjugate = expect(model, ConjugatePosterior)
    n = request.complete_records()
    family, order = conjugate.family(n), float(request.order)
    each = None if request.epsilon is None else _BELOW.divide(request.epsilon, Decimal(request.draws))
    r, m = choose(family, order, each)
    points = _curve(family, r, m, request)
    largest = family.order_max(r, m)
    guarantee = RenyiCurve(points, _BELOW.create_decimal(largest) if math.isfinite(largest) else INFINITE)
    sampler = ConjugateSampler(conjugate, n, r, m)
    step = Step(conjugate.statistic(request.policy), sampler, guarantee, request.draws)
    parameters: dict[str, Any] = {"r": r, "m": m, "draws": request.draws, "order": order}
    return Plan((step,), guarantee, parameters)


def _curve(family: ConjugateFamily, r: float, m: float, request: Request) -> Points:
    """Return the whole curve of all draws on the grid of orders below lambda*, the requested order included."""
    largest = family.order_max(r, m)
    orders = sorted({*(order for order in ORDERS if order <= LARGEST_ORDER), request.order})
    finite = [order for order in orders if float(order) < largest * (1.0 - 1e-10)]
    if request.order not in finite:
        raise SpecError(
            f"the divergence is infinite at and above order {largest:g}, and order {request.order:f} was asked for",
            where="privacy.order",
            hint=f"a prior whose parameters are more than {(float(request.order) - 1) / (largest - 1):.4g} times as "
            "large, a smaller --order, or rdp-diffuse or rdp-concentrated",
        )
    return tuple((order, price(family, float(order), r, m) * request.draws) for order in finite)


def draws_of(plan: Plan, evidence: Statistics) -> Draws:
    """Draw what a plan of a Renyi mechanism promises."""
    (step,) = plan.steps
    return Draws(tuple(expect(step.law, ConjugateSampler).draw(evidence.values, step.draws)))
