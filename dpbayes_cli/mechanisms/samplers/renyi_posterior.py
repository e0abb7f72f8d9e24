"""What the three Renyi mechanisms share: the curve of a conjugate posterior, its calibration, and its draws."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any, ClassVar

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import RecordPolicy, complete_records
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import MethodInfo, Model
from dpbayes_cli.core.options import EpsilonOptions, NumberOfDraws, Options, Order, StatedDelta
from dpbayes_cli.core.plan import Plan, Sampler, Step
from dpbayes_cli.core.released import Draws
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import NO_STATISTIC, Statistic, Statistics
from dpbayes_cli.mechanisms.samplers.langevin_calibration import (
    CalibratedChain,
    ChainCalibrator,
    LangevinOptions,
    chain_calibrator,
    plan_chains,
    run_chains,
)
from dpbayes_cli.mechanisms.samplers.langevin_rules import DEFAULT_ORDER
from dpbayes_cli.models.families.capabilities import ConjugatePosterior
from dpbayes_cli.models.families.convex_loss import ConvexLossModel
from dpbayes_cli.privacy.conjugate import LARGEST_ORDER, ConjugateFamily, divergence_slack
from dpbayes_cli.privacy.conversions import INFINITE, ORDERS, round_up
from dpbayes_cli.privacy.kinds import Points, RenyiCurve

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

    def is_possible(self, draw: Sequence[float]) -> bool:
        """Return whether a draw is within the range of the model's parameters."""
        low, high = self.model.parameter_range
        return len(draw) == len(self.model.parameters) and all(low <= value <= high for value in draw)

    def moments(self, values: Sequence[int]) -> tuple[float, float]:
        """Return the moments of the conjugate posterior."""
        return self.moments_by_row(values)[0]

    def moments_by_row(self, values: Sequence[int]) -> list[tuple[float, float]]:
        """Return those of the conjugate posterior's rows."""
        family = self.model.family(self.n_records)
        return family.moments_by_row(self.model.sums(values, self.n_records), self.r, self.m)


def divergence_bound(family: ConjugateFamily, order: float, r: float, m: float) -> Decimal:
    """Return an upper bound of the Renyi divergence of one draw at an order, finite precision included."""
    return round_up(
        family.divergence(order, r, m) * (1.0 + _MARGIN)
        + _MARGIN * 1e-3
        + family.n_coordinates * divergence_slack(order)
    )


def largest_parameter(cost: Callable[[float], Decimal], target: Decimal) -> float:
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


class RenyiOptions(EpsilonOptions, frozen=True, kw_only=True):
    """What is read of a conjugate posterior."""

    delta: StatedDelta = None
    order: Order = None
    draws: NumberOfDraws = 1


class RenyiChainOptions(LangevinOptions, frozen=True, kw_only=True):
    """What is read of a convex loss."""

    order: Order = None


class RenyiMechanism(Mechanism):
    """Draw from a conjugate posterior at the price of its Renyi curve; a subclass chooses what is changed about it.

    Privacy: the Renyi divergence of every order below lambda*, the supremum over all neighboring complete data sets,
        with what the public grid and its integers add; the whole curve is charged.
    Source: Geumlek, Song and Chaudhuri 2017, Algorithms 1-3; corrected, see ``privacy.conjugate``.
    """

    requires: ClassVar[tuple[type, ...]] = (ConjugatePosterior, ConvexLossModel)
    options_type: ClassVar[type[Options]] = RenyiOptions
    chain_options: ClassVar[type[RenyiChainOptions]] = RenyiChainOptions
    needs_n: ClassVar[bool] = True
    post_processing: ClassVar[bool] = False

    @abstractmethod
    def choose(self, family: ConjugateFamily, order: float, epsilon: Decimal | None) -> tuple[float, float]:
        """Return the weight r of the likelihood and the divisor m of the prior.

        Args:
            family: the conjugate family.
            order: the order at which epsilon is meant.
            epsilon: what one draw may cost, or None.

        Raises:
            SpecError: the price cannot be met.
        """

    @abstractmethod
    def chain(self, chains: ChainCalibrator, options: RenyiChainOptions) -> tuple[CalibratedChain, dict[str, Any]]:
        """Return the chain on the posterior of a convex loss, and what a plan says about it.

        Raises:
            SpecError: the price cannot be met.
        """

    @classmethod
    def options_for(cls, model: type[Model]) -> type[Options]:
        """Return what is read: of a convex loss, what its chain needs."""
        return cls.chain_options if issubclass(model, ConvexLossModel) else cls.options_type

    def statistic(self, model: Model, policy: RecordPolicy) -> Statistic:
        """Return the model's statistic; of a convex loss rows are read."""
        return NO_STATISTIC if isinstance(model, ConvexLossModel) else super().statistic(model, policy)

    def plan(self, model: Model, policy: RecordPolicy, options: Options, n_records: int | None = None) -> Plan:
        """Choose r and m, and price the draws; of a convex loss find the chain.

        Raises:
            SpecError: records are not complete, or the price cannot be met.
        """
        if isinstance(model, ConvexLossModel):
            of_chain = require_type(options, self.chain_options)
            chains = chain_calibrator(model, policy, of_chain, n_records)
            found, more = self.chain(chains, of_chain)
            return plan_chains(chains, found, "geumlek", more)
        conjugate, asked = require_type(model, ConjugatePosterior), require_type(options, RenyiOptions)
        n = complete_records(policy, model.columns, n_records)
        family, order = conjugate.family(n), float(asked.order or DEFAULT_ORDER)
        if order > LARGEST_ORDER:
            raise SpecError(f"the order is {order:g}; curves are stored up to {LARGEST_ORDER:g}", where="privacy.order")
        each = None if asked.epsilon is None else _BELOW.divide(asked.epsilon, Decimal(asked.draws))
        r, m = self.choose(family, order, each)
        family.lattice(r, m).check()
        largest = family.order_max(r, m)
        order_max = _BELOW.create_decimal(largest) if math.isfinite(largest) else INFINITE
        guarantee = RenyiCurve(_curve(family, r, m, asked), order_max)
        step = Step(conjugate.statistic(policy), ConjugateSampler(conjugate, n, r, m), guarantee, asked.draws)
        return Plan((step,), guarantee, {"r": r, "m": m, "draws": asked.draws, "order": order})

    def release(self, plan: Plan, evidence: Statistics) -> Draws:
        """Draw from the planned posterior.

        Privacy: the plan's Renyi curve; the draws alone are returned.
        Source: see the class.
        """
        (step,) = plan.steps
        if step.rows is not None:
            return run_chains(plan, evidence)
        return Draws(tuple(require_type(step.law, ConjugateSampler).draw(evidence.values, step.draws)))


def renyi_info(releases: str, algorithm: str, prefer_when: str) -> MethodInfo:
    """Return the card of a Renyi mechanism: what they share, and what is its own."""
    return MethodInfo(
        releases=releases,
        guarantee="A Renyi curve, finite below an order lambda* that is stated, and charged whole. It has no pure "
        "epsilon: the account must be one of (epsilon, delta), or of RDP at an order below lambda*. With a convex "
        "loss: mu-Gaussian differential privacy of the chain that draws, see gibbs-posterior; lambda* is infinite.",
        assumptions="Complete records, and a number of them that is public (with a convex loss: as gibbs-posterior). "
        "The operating system's random numbers are secret. The prior was chosen without looking at the data.",
        source=f"Geumlek, Song and Chaudhuri 2017, {algorithm} and Theorem 15; Mironov 2017.",
        corrections="Of conjugate posteriors: neighbors share n - 1 records; the paper lets one posterior leave that "
        "hull and pairs vertices only, 6 to 44 % too large. For Dirichlet priors the supremum takes O(K) steps, not "
        "O(K^3). Draws are exact on a public grid; what that adds to the divergence (below 1e-14) is charged. Of "
        "convex losses: the paper prices exact draws, which no chain gives; here the chain that runs is priced.",
        prefer_when=prefer_when,
    )


def _curve(family: ConjugateFamily, r: float, m: float, asked: RenyiOptions) -> Points:
    """Return the whole curve of all draws on the grid of orders below lambda*, the requested order included."""
    largest, wanted = family.order_max(r, m), asked.order or DEFAULT_ORDER
    orders = sorted({*(order for order in ORDERS if order <= LARGEST_ORDER), wanted})
    priced = {
        order: divergence_bound(family, float(order), r, m)
        for order in orders
        if float(order) < largest * (1.0 - 1e-10)
    }
    finite = {order: value for order, value in priced.items() if value.is_finite()}
    if wanted not in finite:
        raise SpecError(
            f"the divergence is infinite at and above order {largest:g}, and order {wanted:f} was asked for",
            where="privacy.order",
            hint=f"a prior whose parameters are more than {(float(wanted) - 1) / (largest - 1):.4g} times as "
            "large, a smaller --order, or rdp-diffuse or rdp-concentrated",
        )
    return tuple((order, value * asked.draws) for order, value in finite.items())
