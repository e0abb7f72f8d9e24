"""Find the smallest privacy cost at which simulated posteriors are as narrow as the user asks for.

The same data sets are simulated at every cost. For each data set, the smallest cost that reaches the target is
interpolated from a few costs. The 90 % quantile of these costs is the smallest cost at which nine in ten data sets
reach the target; the user may choose another share.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal
from time import process_time
from typing import TYPE_CHECKING, Any, Literal

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.spec.release_spec import build_spec
from dpbayes_cli.workflow.expectation import quantile_with_interval
from dpbayes_cli.workflow.planning import MAX_TRIALS, SimulationEffort, simulation_of, why_not_simulated
from dpbayes_cli.workflow.pricing import price

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.workflow.simulated_releases import Simulation, Trials

LIMITS = {"epsilon": 20.0, "rho": 20.0, "mu": 10.0}
"""The largest costs that are tried."""
_LEAST, _FIRST_COST = 1e-3, 1.0
_POWERS = {"epsilon": 2.0, "rho": 1.0, "mu": 2.0}
"""The variance of the noise falls with this power of the cost."""
_NEAR = math.log(1.05), math.log(1.3), math.log(1.3)
"""How close, on a logarithmic scale, a simulated cost must be to the result and to the ends of its interval."""
_STEPS, _MAX_STEPS = 3, 6
"""The search reserves time for the first number of costs, and tries at most the second if time is left."""
_FEWEST_TRIALS = 40
"""A search that is short of time continues with fewer data sets, but at least so many."""
_PATIENCE, _PATIENCE_FOR_GROUPS = 2.6, 1.0
"""A search may take this many times as long as a plan."""
_NO_PLAN = 1e150
"""The width that stands for a cost at which no plan exists; its square is finite."""
_ROUND_UP = Context(prec=3, rounding=ROUND_CEILING)


@dataclass(frozen=True)
class WidthTarget:
    """How narrow a posterior should be.

    Attributes:
        measure: ``width`` for the width of the 90 % interval, ``sd`` for the standard deviation.
        value: the largest width or standard deviation that is narrow enough.
        share: the share of simulated releases that must be narrow enough.
    """

    measure: Literal["width", "sd"]
    value: float
    share: float


@dataclass(frozen=True)
class FoundCost:
    """The smallest cost at which the target is reached.

    Attributes:
        parameter: the parameter whose posterior was measured.
        key: the key of the cost in the spec: epsilon, rho or mu.
        value: the cost; None if no cost up to ``limit`` reaches the target.
        low, high: a 90 % interval for the smallest cost, because only ``trials`` releases were simulated; ``high`` is
            None if even ``limit`` may be too small. Both are None if there is no ``value``.
        limit: the largest cost that was tried.
        trials: the number of releases that were simulated at each cost.
        at_limit: the width or standard deviation that the share of releases does not exceed at the largest cost.
        nonprivate: the same without privacy.
    """

    parameter: str
    key: str
    value: Decimal | None
    low: float | None
    high: float | None
    limit: float
    trials: int
    at_limit: float
    nonprivate: float


def find_cost(document: dict[str, Any], n_records: int, target: WidthTarget, effort: SimulationEffort) -> FoundCost:
    """Return the smallest cost at which simulated posteriors reach a target.

    The cost is rho or mu if the spec states one of them, otherwise epsilon; a stated value is not used.

    Raises:
        SpecError: the request cannot be priced or simulated even at the largest cost, or it has no cost to choose.
    """
    import numpy as np

    from dpbayes_cli.workflow.simulated_releases import run_in_time

    key = next((name for name in ("rho", "mu") if name in document.get("privacy", {})), "epsilon")
    patience = _PATIENCE if document.get("by") is None else _PATIENCE_FOR_GROUPS
    limit, ends = LIMITS[key], process_time() + patience * effort.seconds

    def simulation_at(cost: float) -> Simulation:
        privacy = {**document.get("privacy", {}), key: f"{cost:.12f}"}
        planned = price(build_spec({**document, "privacy": privacy}), n_records)
        simulation = simulation_of(planned, n_records, effort.seed, effort.parameter)
        if simulation is None or planned.mechanism.estimates:
            reason = "A point estimate has no interval." if simulation else why_not_simulated(planned, n_records)
            raise SpecError(f"no {key} can be found", where=f"--target-{target.measure}", hint=reason)
        simulation.widths_only = cost < limit
        return simulation

    at_limit = _most_trials(simulation_at, limit, effort, ends)
    trials, simulation = len(at_limit), simulation_at(limit)

    def sizes(drawn: Trials, prefix: str = "") -> Floats:
        """Return the width or standard deviation of the parameter in each release, shape (trials,)."""
        values: Floats = getattr(drawn, prefix + target.measure)[:, simulation.names.index(simulation.main)]
        return values

    largest = (quantile_with_interval(sizes(at_limit, prefix), target.share)[0] for prefix in ("", "plain_"))
    _refuse_reached_by_prior(simulation, target)
    result = FoundCost(simulation.main, key, None, None, None, limit, trials, *largest)
    if result.at_limit > target.value:
        return result
    measured, cost = {limit: sizes(at_limit)}, _FIRST_COST
    for step in range(_MAX_STEPS):
        seconds = (ends - process_time()) / (_STEPS - 1)
        try:
            widths = sizes(run_in_time(simulation_at(cost), effort.trials, trials, seconds, least=_FEWEST_TRIALS))
        except SpecError:  # there is no plan at so small a cost
            widths = np.full(trials, _NO_PLAN)
        trials = len(widths)
        measured = {each: values[:trials] for each, values in {**measured, cost: widths}.items()}
        estimate = quantile_with_interval(smallest_costs(measured, target.value, _POWERS[key]), target.share)
        if effort.progress:
            effort.progress((step + 1) / _MAX_STEPS)
        wanted = [min(max(each, _LEAST), limit) for each in estimate]
        far = (
            each
            for each, near in zip(wanted, _NEAR, strict=True)
            if all(abs(math.log(each / other)) > near for other in measured)
        )
        cost = next(far, 0.0)
        if not cost or (effort.trials is None and step + 1 >= _STEPS and process_time() > ends):
            break
    value = _ROUND_UP.create_decimal(repr(wanted[0]))
    return replace(
        result, trials=trials, value=value, low=estimate[1], high=estimate[2] if estimate[2] <= limit else None
    )


def _refuse_reached_by_prior(simulation: Simulation, target: WidthTarget) -> None:
    from dpbayes_cli.workflow.simulated_releases import NORMAL_WIDTH

    width = simulation.prior_widths()[simulation.model.parameters.index(simulation.main)]
    prior = float(width if target.measure == "width" else width / NORMAL_WIDTH)
    if target.value < prior or math.isnan(prior):
        return
    is_share = simulation.model.main_fact.is_share
    raise SpecError(
        f"{target.value:g} is not narrower than the prior of {simulation.main}, which is about {prior:.2g} "
        f"{'wide' if target.measure == 'width' else 'in standard deviation'} without any data",
        where=f"--target-{target.measure}",
        hint="state a share from 0 to 1: 4 percentage points are 0.04" if is_share else "state a smaller target",
    )


def _most_trials(
    simulation_at: Callable[[float], Simulation], limit: float, effort: SimulationEffort, ends: float
) -> Trials:
    """Return simulated releases at the largest cost, as many as time allows at each cost."""
    from dpbayes_cli.workflow.simulated_releases import run_in_time

    trials = effort.trials or 1  # the first release is slow, because it imports libraries
    while True:
        started = process_time()
        drawn = run_in_time(simulation_at(limit), trials, trials, 0.0)
        seconds = process_time() - started
        affordable = min(int((ends - process_time()) * trials / (_STEPS * max(seconds, 1e-6))), MAX_TRIALS)
        if effort.trials is not None or (trials > 1 and affordable < 1.3 * trials):
            return drawn
        trials = max(affordable, 2)


def smallest_costs(measured: dict[float, Floats], target: float, power: float) -> Floats:
    """Return the smallest cost at which each data set reaches a target, infinite if the largest cost does not.

    Between two costs, width^2 = a + b / cost^power. The curve is extended down to a quarter of the smallest cost.

    Args:
        measured: the widths at each of at least two costs, shape (n_data_sets,).
        power: the power of the cost with which the variance of the noise falls.
    """
    import numpy as np

    costs = np.array(sorted(measured))
    squares = np.square(np.minimum.accumulate([measured[cost] for cost in costs]))  # widths fall with the cost
    reached = squares <= target**2
    first = np.maximum(reached.argmax(axis=0), 1)
    above, below = (np.take_along_axis(squares, (first - i)[None], axis=0)[0] for i in (0, 1))
    near, far = costs[first] ** -power, costs[first - 1] ** -power
    with np.errstate(all="ignore"):
        variance = near + (far - near) * (target**2 - above) / (below - above)
        limited = np.fmin(variance, (costs[0] / 4.0) ** -power)  # equal widths give NaN
        return np.where(reached.any(axis=0), limited ** (-1.0 / power), np.inf)
