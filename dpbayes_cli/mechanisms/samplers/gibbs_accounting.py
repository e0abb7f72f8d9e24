"""The accounting of private chains: likelihood powers, schedules of rising powers, and the cost of the updates."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from dpbayes_cli.base.errors import DpbayesError, SpecError
from dpbayes_cli.base.numeric import exact_difference, exact_sum
from dpbayes_cli.core.options import EpsilonOptions, NumberOfLastDraws, Sweeps
from dpbayes_cli.mechanisms.samplers.tempering import DOWN, UP
from dpbayes_cli.privacy.composition import compose
from dpbayes_cli.privacy.conversions import round_up
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.kinds import BoundedRange

ANNEALING_LEVELS = 10
"""Number of powers of an annealed chain: 1/10, 2/10, ..., 1."""
_MARGIN, _EXTRA_FACTOR = Decimal("1e-8"), 16
"""The likelihood power leaves a reserve: 1e-8 of the budget, plus 16 times the bound on the rounding errors of the
updates. So each share of the budget covers the cost of its updates, although it is rounded to a short decimal."""
_TEN_DIGITS = Context(prec=10)


class ChainOptions(EpsilonOptions, frozen=True, kw_only=True):
    """The options of every private chain."""

    draws: NumberOfLastDraws = 1
    sweeps: Sweeps = None


@dataclass(frozen=True)
class Update:
    """One kind of update in a sweep.

    Attributes:
        spread: the bounded range of the update at likelihood power 1.
        extra: a bound on how much rounding adds to this range, at any power.
        times: the number of updates of this kind in a sweep.
    """

    name: str
    spread: Decimal
    extra: Decimal
    times: int = 1

    def cost_of_sweeps(self, likelihood_power: Decimal, sweeps: int) -> Decimal:
        """Return the cost of all updates of this kind in a number of sweeps, rounded up."""
        one_update = UP.add(UP.multiply(likelihood_power, self.spread), self.extra)
        return UP.multiply(one_update, Decimal(self.times * sweeps))


@dataclass(frozen=True)
class Stage:
    """Consecutive sweeps at one likelihood power."""

    likelihood_power: Decimal
    sweeps: int


@dataclass(frozen=True)
class ChainCost:
    """The cost of a chain. All of its updates are planned and priced before it starts.

    Attributes:
        likelihood_power: the likelihood power of the last sweeps.
        updates: the number of priced updates.
        log_weight_epsilon: the part of the guarantee's epsilon that pays for the noisy log weight.
    """

    likelihood_power: Decimal
    stages: tuple[Stage, ...]
    guarantee: Guarantee
    updates: int
    log_weight_epsilon: Decimal = Decimal(0)

    def plan_parameters(self, kernel: str) -> dict[str, Any]:
        """Return the parameters that a plan states about the cost of a chain."""
        spent = exact_difference(self.guarantee.epsilon, self.log_weight_epsilon)
        parameters = {
            "kernel": kernel,
            "sweeps": sum(stage.sweeps for stage in self.stages),
            "updates": self.updates,
            "likelihood_power": float(self.likelihood_power),
            "epsilon_per_update": float(spent / self.updates),
            "cost_of_chain": float(self.guarantee.epsilon),
            "cost_untempered": float(spent / self.likelihood_power),
            "rho_of_chain": float(self.guarantee.rho),
        }
        if len(self.stages) > 1:
            parameters["first_likelihood_power"] = float(self.stages[0].likelihood_power)
            parameters["levels"] = len(self.stages)
        return parameters


def powers(sweeps: int, draws: int, *, annealed: bool) -> list[tuple[Decimal, int]]:
    """Return pairs of a power and its number of sweeps; all draws come from the sweeps at power one."""
    if draws > sweeps:
        raise SpecError(
            f"{draws} draws need at least as many sweeps; there are {sweeps}",
            where="sampling.draws",
            hint="more sweeps: --sweeps N",
        )
    if not annealed:
        return [(Decimal(1), sweeps)]
    levels = min(ANNEALING_LEVELS, sweeps)
    per_level, rest = divmod(sweeps, levels)
    counts = [per_level] * (levels - 1) + [per_level + rest]
    if draws > counts[-1]:
        raise SpecError(
            f"{draws} draws need as many sweeps at full power; only {counts[-1]} of {sweeps} annealed sweeps run at it",
            where="sampling.draws",
            hint="use more sweeps, fewer draws, or kernel: gibbs",
        )
    return [(DOWN.divide(Decimal(level + 1), Decimal(levels)), count) for level, count in enumerate(counts)]


def price_chain(epsilon: Decimal, updates: Sequence[Update], schedule: Sequence[tuple[Decimal, int]]) -> ChainCost:
    """Return the cost of a chain that runs at the largest likelihood power, up to 1, within a budget.

    Args:
        epsilon: the budget.
        updates: the kinds of update in every sweep.
        schedule: for each stage of the chain, its power and its number of sweeps.

    Privacy: an update at likelihood power p is an exponential mechanism of bounded range at most p * spread + extra.
        The chain is the adaptive composition of its updates: their number, order and costs are fixed before it starts,
        and all of its points are public. So the epsilons of the updates add up, and so do their Renyi curves.
    Source: Foulds et al. 2016, sec. 4.1; Cesar and Rogers 2021; Neal 2001 (rising powers).

    Raises:
        SpecError: epsilon is too small for this number of updates.
        DpbayesError: the shares of the budget do not cover the cost of the updates.
    """
    parts = [(power, sweeps, update) for power, sweeps in schedule for update in updates]
    sizes = [UP.multiply(UP.multiply(power, update.spread), Decimal(n * update.times)) for power, n, update in parts]
    total = exact_sum(sizes)
    extra = _EXTRA_FACTOR * exact_sum(update.extra * update.times * n for _, n, update in parts)
    remaining = DOWN.subtract(DOWN.multiply(epsilon, 1 - _MARGIN), extra)
    if remaining <= extra:
        count = sum(n * update.times for _, n, update in parts)
        raise SpecError(
            f"epsilon is {epsilon:g}; the rounding of {count} updates alone needs {float(3 * extra):.2g}",
            where="privacy.epsilon",
            hint="use fewer sweeps: --sweeps N",
        )
    likelihood_power, charged = min(Decimal(1), DOWN.divide(remaining, total)), epsilon
    if likelihood_power == 1:
        charged = min(epsilon, round_up(float(UP.divide(UP.add(total, extra), 1 - _MARGIN))))
    stages = tuple(Stage(DOWN.multiply(likelihood_power, power), sweeps) for power, sweeps in schedule)
    guarantees = []
    for share, (stage, update) in zip(_shares(charged, sizes), itertools.product(stages, updates), strict=True):
        if update.cost_of_sweeps(stage.likelihood_power, stage.sweeps) > share:
            raise DpbayesError("the shares of the budget do not cover the chain; nothing is released")
        guarantees.append(BoundedRange(share, stage.sweeps * update.times))
    guarantee = guarantees[0] if len(guarantees) == 1 else compose(guarantees)
    return ChainCost(likelihood_power, stages, guarantee, sum(part.parts for part in guarantees))


def _shares(total: Decimal, sizes: Sequence[Decimal]) -> list[Decimal]:
    """Return the shares of a total in proportion to sizes, with ten digits each; the last share is the remainder."""
    total_size = exact_sum(sizes)
    shares = [DOWN.multiply(total, DOWN.divide(size, total_size)).normalize(_TEN_DIGITS) for size in sizes[:-1]]
    return [*shares, exact_difference(total, exact_sum(shares))]
