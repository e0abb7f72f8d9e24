"""The base class of the three Renyi mechanisms: Renyi curve, calibration and draws of a conjugate posterior."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any, ClassVar

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import RecordPolicy, require_complete_records
from dpbayes_cli.core.model import MethodInfo, Model
from dpbayes_cli.core.options import EpsilonOptions, NumberOfDraws, Options, Order, StatedDelta
from dpbayes_cli.core.plan import Plan, Sampler, Step
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import NO_STATISTIC, Statistic
from dpbayes_cli.mechanisms.samplers.draw_mechanism import DrawMechanism
from dpbayes_cli.mechanisms.samplers.langevin_calibration import (
    CalibratedChain,
    Calibrator,
    LangevinOptions,
    chain_calibrator,
    plan_chains,
)
from dpbayes_cli.mechanisms.samplers.langevin_rules import DEFAULT_ORDER
from dpbayes_cli.models.families.capabilities import ConjugatePosterior
from dpbayes_cli.models.families.convex_loss import ConvexLossModel
from dpbayes_cli.privacy.conjugate import LARGEST_ORDER, ConjugateFamily, curve_slack
from dpbayes_cli.privacy.conversions import INFINITE, ORDERS, bisect_floats, round_up
from dpbayes_cli.privacy.kinds import Points, RenyiCurve

_DOWN = Context(prec=12, rounding=ROUND_FLOOR)
_MARGIN = 1e-10
"""A divergence d in floats is increased to d * (1 + _MARGIN) + _MARGIN / 1000; its rounding error is below 1e-12."""


@dataclass(frozen=True)
class ConjugateSampler(Sampler):
    """The posterior with the likelihood raised to the power r and the prior's parameters divided by m.

    Privacy: see ``RenyiMechanism``.
    Source: Geumlek, Song and Chaudhuri 2017, Algorithms 1-3.
    """

    model: ConjugatePosterior
    n_records: int
    r: float
    m: float

    def draw(self, values: Sequence[int], size: int) -> list[tuple[float, ...]]:
        family = self.model.family(self.n_records)
        drawn = family.draw(self.model.sums(values, self.n_records), self.r, self.m, size)
        return [self.model.reported(point) for point in drawn]

    def is_possible(self, draw: Sequence[float]) -> bool:
        low, high = self.model.parameter_range
        return len(draw) == len(self.model.parameters) and all(low <= value <= high for value in draw)

    def moments(self, values: Sequence[int]) -> tuple[float, float]:
        return self.moments_by_row(values)[0]

    def moments_by_row(self, values: Sequence[int]) -> list[tuple[float, float]]:
        family = self.model.family(self.n_records)
        return family.moments_by_row(self.model.sums(values, self.n_records), self.r, self.m)


def renyi_bound(family: ConjugateFamily, order: float, r: float, m: float) -> Decimal:
    """Return an upper bound on the Renyi divergence of one draw at an order, rounding errors of the draw included."""
    return round_up(
        family.divergence(order, r, m) * (1.0 + _MARGIN) + _MARGIN * 1e-3 + family.n_coordinates * curve_slack(order)
    )


def largest_parameter(cost: Callable[[float], Decimal], target: Decimal) -> float:
    """Return the largest parameter in (0, 1] whose cost stays within a target.

    The cost must increase with the parameter.
    """
    if cost(1.0) <= target:
        return 1.0
    low, _ = bisect_floats(lambda parameter: cost(parameter) <= target, 0.0, 1.0)
    if low < 1e-12:
        raise SpecError(
            "epsilon is too small for any posterior draw", where="privacy.epsilon", hint="spend more, or draw less"
        )
    return low


class RenyiOptions(EpsilonOptions, frozen=True, kw_only=True):
    """The options of a conjugate posterior."""

    delta: StatedDelta = None
    order: Order = None
    draws: NumberOfDraws = 1


class RenyiChainOptions(LangevinOptions, frozen=True, kw_only=True):
    """The options of a Renyi mechanism for models with a convex loss, whose draws come from chains."""

    order: Order = None


class RenyiMechanism(DrawMechanism):
    """Draw from a conjugate posterior at the cost of its Renyi curve; a subclass chooses r and m.

    Privacy: the whole Renyi curve is charged. At every order below lambda* it is the supremum of the divergence over
        all neighboring complete data sets, plus a bound on the effect of the public grid and of integer weights.
    Source: Geumlek, Song and Chaudhuri 2017, Algorithms 1-3; corrected, see ``privacy.conjugate``.
    """

    requires: ClassVar[tuple[type, ...]] = (ConjugatePosterior, ConvexLossModel)
    options_type: ClassVar[type[Options]] = RenyiOptions
    chain_options: ClassVar[type[RenyiChainOptions]] = RenyiChainOptions

    @abstractmethod
    def choose(self, family: ConjugateFamily, order: float, epsilon: Decimal | None) -> tuple[float, float]:
        """Return the power r of the likelihood and the divisor m of the prior's parameters.

        Raises:
            SpecError: no r and m keep the divergence of one draw at the order within epsilon, or epsilon is missing.
        """

    @staticmethod
    def largest_within(
        epsilon: Decimal | None, family: ConjugateFamily, order: float, at: Callable[[float], tuple[float, float]]
    ) -> tuple[float, float]:
        """Return the r and m of the largest parameter in (0, 1] at which the divergence stays within epsilon.

        ``at`` maps the parameter to r and m; the divergence must increase with the parameter.
        """
        if epsilon is None:
            raise SpecError(
                "missing", where="privacy.epsilon", hint="state the divergence to spend at --order, e.g. --eps 0.1"
            )
        return at(largest_parameter(lambda parameter: renyi_bound(family, order, *at(parameter)), epsilon))

    @abstractmethod
    def chain(self, chains: Calibrator, options: RenyiChainOptions) -> tuple[CalibratedChain, dict[str, Any]]:
        """Return the chain on the posterior of a convex loss, and what the plan states about its calibration."""

    @classmethod
    def options_for(cls, model: type[Model]) -> type[Options]:
        """Return the class of options; for a convex loss these are the options of a chain."""
        return cls.chain_options if issubclass(model, ConvexLossModel) else cls.options_type

    def statistic(self, model: Model, policy: RecordPolicy) -> Statistic:
        """Return the model's statistic; for a convex loss it is empty, because the chain reads rows."""
        return NO_STATISTIC if isinstance(model, ConvexLossModel) else super().statistic(model, policy)

    def plan(self, model: Model, policy: RecordPolicy, options: Options, n_records: int | None = None) -> Plan:
        """Choose r and m and price the draws; for a convex loss, calibrate a Langevin chain instead."""
        if isinstance(model, ConvexLossModel):
            chain_options = require_type(options, self.chain_options)
            chains = chain_calibrator(model, policy, chain_options, n_records)
            calibrated, parameters = self.chain(chains, chain_options)
            return plan_chains(chains, calibrated, "geumlek", parameters)
        conjugate, renyi = require_type(model, ConjugatePosterior), require_type(options, RenyiOptions)
        n = require_complete_records(policy, model.columns, n_records)
        family, order = conjugate.family(n), float(renyi.order or DEFAULT_ORDER)
        if order > LARGEST_ORDER:
            raise SpecError(f"the order is {order:g}; curves are stored up to {LARGEST_ORDER:g}", where="privacy.order")
        epsilon_per_draw = None if renyi.epsilon is None else _DOWN.divide(renyi.epsilon, Decimal(renyi.draws))
        r, m = self.choose(family, order, epsilon_per_draw)
        family.lattice(r, m).check()
        lambda_star = family.order_max(r, m)
        order_max = _DOWN.create_decimal(lambda_star) if math.isfinite(lambda_star) else INFINITE
        guarantee = RenyiCurve(_curve(family, r, m, renyi), order_max)
        step = Step(conjugate.statistic(policy), ConjugateSampler(conjugate, n, r, m), guarantee, renyi.draws)
        return Plan((step,), guarantee, {"r": r, "m": m, "draws": renyi.draws, "order": order})


def renyi_info(releases: str, algorithm: str, prefer_when: str) -> MethodInfo:
    """Return the info of a Renyi mechanism; the arguments are the texts in which the three mechanisms differ."""
    return MethodInfo(
        releases=releases,
        guarantee="A Renyi curve, which is finite at orders below a stated lambda* and is charged as a whole. There is "
        "no pure epsilon: the account must be kept in (epsilon, delta), or in RDP at an order below lambda*. With a "
        "convex loss the chain that draws is mu-Gaussian differentially private, see gibbs-posterior, and lambda* is "
        "infinite.",
        assumptions="Records are complete and their number is public. With a convex loss the assumptions of "
        "gibbs-posterior hold instead. The operating system's random numbers are secret. The prior was chosen without "
        "looking at the data.",
        source=f"Geumlek, Song and Chaudhuri 2017, {algorithm} and Theorem 15; Mironov 2017.",
        corrections="For conjugate posteriors, the paper compares only extreme values of the statistics with their "
        "neighbors, and it counts neighbors that belong to no data set, so its divergence is 6 to 44 % too large. "
        "Here neighbors are data sets that share n - 1 records. For Dirichlet priors, the largest divergence takes "
        "O(K) steps to compute, not O(K^3). Draws are exact on a public grid, whose effect on the divergence (below "
        "1e-14) is charged. For convex losses, the paper prices exact draws, which no chain gives; here the chain "
        "that runs is priced.",
        prefer_when=prefer_when,
    )


def _curve(family: ConjugateFamily, r: float, m: float, options: RenyiOptions) -> Points:
    """Return the Renyi curve of all draws together at the standard orders below lambda* and at the requested order."""
    limit, requested = family.order_max(r, m), options.order or DEFAULT_ORDER
    orders = sorted({*(order for order in ORDERS if order <= LARGEST_ORDER), requested})
    bounds = {
        order: renyi_bound(family, float(order), r, m) for order in orders if float(order) < limit * (1.0 - 1e-10)
    }
    finite = {order: value for order, value in bounds.items() if value.is_finite()}
    if requested not in finite:
        raise SpecError(
            f"the divergence is infinite at and above order {limit:g}; requested: order {requested:f}",
            where="privacy.order",
            hint=f"use a prior whose parameters are more than {(float(requested) - 1) / (limit - 1):.4g} times "
            "as large, a smaller --order, or rdp-diffuse or rdp-concentrated",
        )
    return tuple((order, value * options.draws) for order, value in finite.items())
