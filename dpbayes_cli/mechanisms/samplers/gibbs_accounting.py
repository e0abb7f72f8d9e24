"""The budget of a planned chain: its likelihood power, which may rise, and what every kind of update is charged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
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
"""Powers of an annealed chain: 1/10, 2/10, ..., 1."""
_MARGIN = Decimal("1e-8")
_SPARE = 16
"""A chain aims below its budget by a part of 1e-8, and by 16 times what finite precision adds: shares of the budget may
then be short decimals, and are checked against what the updates need."""


class ChainOptions(EpsilonOptions, frozen=True, kw_only=True):
    """What every private chain reads."""

    draws: NumberOfLastDraws = 1
    sweeps: Sweeps = None


@dataclass(frozen=True)
class Update:
    """One kind of update of a sweep.

    Attributes:
        name: what is updated.
        spread: the range of a log ratio of neighbors at a likelihood power of one.
        extra: what finite precision adds, at any likelihood power.
        times: how many updates of the kind a sweep makes.
    """

    name: str
    spread: Decimal
    extra: Decimal
    times: int = 1

    def cost_of_sweeps(self, likelihood_power: Decimal, sweeps: int) -> Decimal:
        """Return what the updates of so many sweeps cost, rounded up."""
        one = UP.add(UP.multiply(likelihood_power, self.spread), self.extra)
        return UP.multiply(one, Decimal(self.times * sweeps))


@dataclass(frozen=True)
class Stage:
    """Sweeps of one likelihood power.

    Attributes:
        likelihood_power: what the likelihood is raised to.
        sweeps: how many.
    """

    likelihood_power: Decimal
    sweeps: int


@dataclass(frozen=True)
class ChainCost:
    """A chain whose updates are planned and priced before it starts.

    Attributes:
        likelihood_power: the power of the likelihood in its last sweeps.
        stages: the sweeps in their order.
        guarantee: that of the whole chain.
        updates: how many priced updates there are.
        beside: the epsilon in the guarantee that is not that of updates.
    """

    likelihood_power: Decimal
    stages: tuple[Stage, ...]
    guarantee: Guarantee
    updates: int
    beside: Decimal = Decimal(0)

    def plan_parameters(self, kernel: str) -> dict[str, Any]:
        """Return what a plan says about it."""
        spent = exact_difference(self.guarantee.epsilon, self.beside)
        found = {
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
            found["first_likelihood_power"] = float(self.stages[0].likelihood_power)
            found["levels"] = len(self.stages)
        return found


def power_schedule(sweeps: int, draws: int, *, annealed: bool) -> list[tuple[Decimal, int]]:
    """Return the powers of a chain with the number of sweeps at each; the last draws are all at power one.

    Raises:
        SpecError: there are fewer sweeps than draws, or too few at power one.
    """
    if draws > sweeps:
        raise SpecError(
            f"{draws} draws are the last of {sweeps} sweeps", where="sampling.draws", hint="more sweeps: --sweeps N"
        )
    if not annealed:
        return [(Decimal(1), sweeps)]
    levels = min(ANNEALING_LEVELS, sweeps)
    each, rest = divmod(sweeps, levels)
    counts = [each] * (levels - 1) + [each + rest]
    if draws > counts[-1]:
        raise SpecError(
            f"of {sweeps} annealed sweeps the last {counts[-1]} are at full power, and {draws} draws are wanted",
            where="sampling.draws",
            hint="more sweeps, fewer draws, or kernel: gibbs",
        )
    return [(DOWN.divide(Decimal(level + 1), Decimal(levels)), count) for level, count in enumerate(counts)]


def price_chain(epsilon: Decimal, updates: Sequence[Update], schedule: Sequence[tuple[Decimal, int]]) -> ChainCost:
    """Return the largest likelihood power at which a chain costs what may be spent, and its price.

    Args:
        epsilon: what may be spent.
        updates: the kinds of update of every sweep.
        schedule: powers and numbers of sweeps.

    Privacy: an update of likelihood power b T has a log ratio of range b T R + extra at most: an exponential mechanism.
        The chain is their adaptive composition, fixed in number, order and price before it starts, with its whole state
        public: epsilons add, and the Renyi curves of bounded range, which are what accounts of a curve are charged.
    Source: Foulds et al. 2016, sec. 4.1; Cesar and Rogers 2021; Neal 2001 (rising powers).

    Raises:
        SpecError: epsilon is too small for so many updates.
        DpbayesError: the shares of the budget do not cover what the updates need.
    """
    parts = [(power, sweeps, update) for power, sweeps in schedule for update in updates]
    sizes = [UP.multiply(UP.multiply(power, update.spread), Decimal(n * update.times)) for power, n, update in parts]
    whole = exact_sum(sizes)
    extra = _SPARE * exact_sum(update.extra * update.times * n for _, n, update in parts)
    left = DOWN.subtract(DOWN.multiply(epsilon, 1 - _MARGIN), extra)
    if left <= extra:
        count = sum(n * update.times for _, n, update in parts)
        raise SpecError(
            f"epsilon is {epsilon:g} for {count} updates; with less than {float(3 * extra):.2g} they are nothing but "
            "rounding",
            where="privacy.epsilon",
            hint="fewer sweeps: --sweeps N",
        )
    likelihood_power = min(Decimal(1), DOWN.divide(left, whole))
    charged = epsilon
    if likelihood_power == 1:
        needed = UP.divide(UP.add(whole, extra), 1 - _MARGIN)
        charged = min(epsilon, round_up(float(needed)))
    stages = tuple(Stage(DOWN.multiply(likelihood_power, power), sweeps) for power, sweeps in schedule)
    shares = _shares(charged, sizes)
    guarantees = []
    for share, stage, update in zip(
        shares, (stage for stage in stages for _ in updates), [update for _, _, update in parts], strict=True
    ):
        if update.cost_of_sweeps(stage.likelihood_power, stage.sweeps) > share:
            raise DpbayesError("the shares of the budget do not cover the chain; nothing is released")
        guarantees.append(BoundedRange(share, stage.sweeps * update.times))
    guarantee = guarantees[0] if len(guarantees) == 1 else compose(guarantees)
    return ChainCost(likelihood_power, stages, guarantee, sum(part.parts for part in guarantees))


def _shares(total: Decimal, sizes: Sequence[Decimal]) -> list[Decimal]:
    """Divide a total in proportion to sizes, in short decimals; the last takes what the others leave."""
    whole = exact_sum(sizes)
    found = [round_to_ten_digits(DOWN.multiply(total, DOWN.divide(size, whole))) for size in sizes[:-1]]
    return [*found, exact_difference(total, exact_sum(found))]


def round_to_ten_digits(value: Decimal) -> Decimal:
    """Return the nearest decimal of ten digits."""
    return value.normalize(_SHORT)


_SHORT = type(DOWN)(prec=10)
