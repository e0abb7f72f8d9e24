"""Plan a release without data: compute its privacy cost and its noise, and simulate releases."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from time import process_time
from typing import TYPE_CHECKING, Any

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import as_decimal
from dpbayes_cli.core.coefficient_law import HasCoefficients
from dpbayes_cli.core.derivatives import DerivativeRows
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.registry import model_type, supporting_mechanisms
from dpbayes_cli.mechanisms.samplers.langevin_rules import DEFAULT_ORDER
from dpbayes_cli.privacy.conversions import ORDERS
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.foreign_options import pair_of, request_to
from dpbayes_cli.spec.groups_section import GROUP_MECHANISMS
from dpbayes_cli.spec.release_spec import ReleaseSpec, build_spec
from dpbayes_cli.workflow.expectation import Expectation
from dpbayes_cli.workflow.pricing import PlannedRelease, price

if TYPE_CHECKING:
    from dpbayes_cli.workflow.simulated_groups import ExpectedGroups
    from dpbayes_cli.workflow.simulated_releases import Progress, Simulation
    from dpbayes_cli.workflow.tree_split import TreeSplit

SECONDS = 3.0
"""The CPU time in which as many releases are simulated as possible if no number of trials is stated."""
MAX_TRIALS = 200
"""The largest number of simulated releases if no number is stated."""
_SMALL_NOISE, _SMALL_NOISE_OF_COUNTS = 0.003, 0.05
"""With a standard deviation below this share of what all records together can add, noise hides no mean or share."""
_GLANCE_SECONDS, _LEAST_GLANCES, _MOST_GLANCES, _MANY_PARAMETERS = 0.5, 5, 20, 5
"""The CPU time and the numbers of simulations before a charge; of more parameters than this, only one is simulated."""
_COMPARED_TRIALS = 20
"""The number of data sets on which mechanisms for regressions are compared; all see the same."""
_COSTS = ("epsilon", "delta", "rho", "mu")
_ROUNDING = Decimal("1.000001")
"""A cost may exceed the stated one by this factor, because costs are rounded up."""


@dataclass(frozen=True)
class SimulationEffort:
    """How many releases a plan simulates, and how.

    Attributes:
        trials: the number of releases, or 0; if None, as many as ``seconds`` allow, up to ``MAX_TRIALS``.
        seed: the seed of the simulation.
        seconds: the CPU time for simulations if ``trials`` is None.
        parameter: the parameter that sentences are about; if None, the parameter that the result reports first.
        progress: called with the finished fraction.
        asked: the request from whose prior coefficients of regressions are drawn; if None, the planned one. Mechanisms
            have different default priors, and are compared on the same data sets.
    """

    trials: int | None = None
    seed: int = 0
    seconds: float = SECONDS
    parameter: str | None = None
    progress: Progress | None = None
    asked: ReleaseSpec | None = None


@dataclass(frozen=True)
class MechanismPlan:
    """One mechanism's plan for a release request.

    Attributes:
        mechanism: the name of the mechanism.
        plan: the plan; None if the mechanism refuses the request.
        expected: a summary of simulated releases; None if nothing was simulated.
        refusal: why the mechanism refuses the request; empty if there is a plan.
        not_simulated: why nothing was simulated, one sentence; empty if there are simulated releases.
        groups: a summary of simulated releases of groups; None if there are no groups, or nothing was simulated.
        tree_split: how the budget is best divided between a private tree and its tables; None without such a tree.
        costs_more: whether the plan costs more than the request states, in a comparison of mechanisms.
    """

    mechanism: str
    plan: Plan | None
    expected: Expectation | None
    refusal: str = ""
    not_simulated: str = ""
    groups: ExpectedGroups | None = None
    tree_split: TreeSplit | None = None
    costs_more: bool = False

    @property
    def loss(self) -> float:
        """The error of estimated effects; for other models, how much wider privacy makes the posterior, or 0."""
        if self.expected and self.expected.effect_error is not None:
            return self.expected.effect_error
        expected = self.expected or self.groups
        return expected.inflation if expected else 0.0


def plan_mechanism(spec: ReleaseSpec, n_records: int, effort: SimulationEffort) -> MechanismPlan:
    """Return the plan of a release request, with simulated releases.

    Args:
        n_records: the number of records to plan for.

    Raises:
        SpecError: no guarantee can be given for the request, or the model has no such parameter.
    """
    return _simulate_priced(price(spec, n_records), n_records, effort)


def _simulate_priced(planned: PlannedRelease, n_records: int, effort: SimulationEffort) -> MechanismPlan:
    if effort.trials == 0:
        return MechanismPlan(planned.spec.mechanism, planned.plan, None, not_simulated="No releases were simulated.")
    if planned.plan.threshold is not None:
        reason = "A plan does not simulate groups whose keys are found in the data, because their number is not known."
        return MechanismPlan(planned.spec.mechanism, planned.plan, None, not_simulated=reason)
    if planned.spec.by is not None:
        return _simulate_groups(planned, n_records, effort)
    expected = simulate_plan(planned, n_records, effort)
    reason = "" if expected else why_not_simulated(planned)
    split = None
    if planned.spec.structure is not None:
        from dpbayes_cli.workflow.tree_split import simulate_tree_split

        split = simulate_tree_split(planned, n_records, effort.seed)
    return MechanismPlan(planned.spec.mechanism, planned.plan, expected, not_simulated=reason, tree_split=split)


def _simulate_groups(planned: PlannedRelease, n_records: int, effort: SimulationEffort) -> MechanismPlan:
    from dpbayes_cli.workflow.simulated_groups import MOST_TRIALS, ExpectedGroups, group_simulation, why_no_groups
    from dpbayes_cli.workflow.simulated_releases import run_in_time

    reason, groups = why_no_groups(planned, n_records), None
    if not reason:
        simulation = group_simulation(planned, n_records, effort.seed, effort.parameter)
        trials = run_in_time(simulation, effort.trials, MOST_TRIALS, effort.seconds, effort.progress)
        groups = ExpectedGroups.of(simulation, trials)
    return MechanismPlan(planned.spec.mechanism, planned.plan, None, not_simulated=reason, groups=groups)


def plan_every_mechanism(document: dict[str, Any], n_records: int, effort: SimulationEffort) -> list[MechanismPlan]:
    """Return the plans of every mechanism that supports the model, the best first; see ``MechanismPlan.loss``.

    Plans that cost more than the request states follow the others, and refusals are last.

    Args:
        document: the spec, which may hold options of several mechanisms; each mechanism gets the options that it reads.
        n_records: the number of records to plan for.
        effort: the simulation effort; the mechanisms share its time. Errors of effects are compared on a fixed number
            of data sets, however long that takes.

    Raises:
        SpecError: the document is not a valid spec, or the model has no such parameter.
    """
    plans: list[MechanismPlan] = []
    names = supporting_mechanisms(model_type(document["model"]))
    if document.get("by") is not None:
        names = [name for name in names if name in GROUP_MECHANISMS]
    asked, started = build_spec(request_to(document, pair_of(document)[1].name)), process_time()
    shared = asked.build_model()
    if effort.trials is None and isinstance(shared, HasCoefficients) and shared.has_likelihood:
        effort = replace(effort, trials=_COMPARED_TRIALS)
    for i, name in enumerate(names):
        spec = build_spec(request_to(document, name))
        model = shared if spec.prior == asked.prior else None
        left = max(effort.seconds - (process_time() - started), 0.0) / (len(names) - i)
        try:
            planned = price(spec, n_records, model)
        except SpecError as error:
            refusal = f"{error.message}" + (f" ({error.hint})" if error.hint else "")
            plans.append(MechanismPlan(name, None, None, refusal))
            continue
        part = replace(effort, seconds=left, progress=_part(effort, i, len(names)), asked=asked)
        more = costs_more(planned.plan.guarantee, document)
        plans.append(replace(_simulate_priced(planned, n_records, part), costs_more=more))
    return sorted(plans, key=lambda p: (p.plan is None, p.costs_more, p.loss))


def costs_more(guarantee: Guarantee, document: dict[str, Any]) -> bool:
    """Return whether a guarantee is weaker than the one that a spec states, as the mechanism of the spec reads it.

    An epsilon without delta is that of pure DP, or of the Renyi divergence if the mechanism reads an order.
    """
    read = build_spec(request_to(document, pair_of(document)[1].name)).privacy.values
    stated = {key: as_decimal(value) for key, value in document.get("privacy", {}).items() if key in _COSTS}
    delta = stated.get("delta", Decimal(0))
    costs = {
        "epsilon": guarantee.rdp(read["order"] or DEFAULT_ORDER) if "order" in read else guarantee.epsilon_at(delta),
        "rho": guarantee.rho,
        "mu": guarantee.mu,
    }
    return any(costs[key] > value * _ROUNDING for key, value in stated.items() if key in costs)


def _part(effort: SimulationEffort, done: int, parts: int) -> Progress | None:
    """Return a function that reports the progress of one of several equal parts as progress of the whole."""
    report = effort.progress
    return None if report is None else lambda share: report((done + share) / parts)


def glance(planned: PlannedRelease, n_records: int) -> Expectation | None:
    """Return a summary of a few simulated releases, within seconds.

    Nothing is simulated if the noise is small beside the number of records, or if a plan could not simulate it.

    Args:
        n_records: the public number of records.
    """
    step = planned.plan.final_step
    is_sum = step.law.adds_noise and step.rows is None
    share = _SMALL_NOISE_OF_COUNTS if planned.model.main_fact.is_share else _SMALL_NOISE
    small = is_sum and step.noise.variance**0.5 < share * n_records * step.statistic.largest_change
    if small or planned.spec.by is not None or (simulation := simulation_of(planned, n_records, 0)) is None:
        return None
    from dpbayes_cli.workflow.simulated_releases import run_in_time  # imports SciPy, which most releases do not need

    simulation.widths_only = True
    trials = 1 if len(planned.model.parameters) > _MANY_PARAMETERS else None
    return Expectation.of(
        simulation, run_in_time(simulation, trials, _MOST_GLANCES, _GLANCE_SECONDS, least=_LEAST_GLANCES)
    )


def simulate_plan(planned: PlannedRelease, n_records: int, effort: SimulationEffort) -> Expectation | None:
    """Return a summary of simulated releases; None if they cannot be simulated, see ``why_not_simulated``.

    For one seed and model, all mechanisms see the same parameters and records, unless the model draws them differently
    for different mechanisms.
    """
    from dpbayes_cli.workflow.simulated_releases import run_in_time

    simulation = simulation_of(planned, n_records, effort.seed, effort.parameter)
    if simulation is None:
        return None
    simulation.asked = effort.asked or planned.spec
    trials = run_in_time(simulation, effort.trials, MAX_TRIALS, effort.seconds, effort.progress)
    return Expectation.of(simulation, trials)


def simulation_of(
    planned: PlannedRelease, n_records: int, seed: int, parameter: str | None = None
) -> Simulation | None:
    """Return the simulation of a request; None if its releases cannot be simulated, see ``why_not_simulated``."""
    if planned.spec.by is not None:
        from dpbayes_cli.workflow.simulated_groups import group_simulation, why_no_groups

        return None if why_no_groups(planned, n_records) else group_simulation(planned, n_records, seed, parameter)
    from dpbayes_cli.workflow.simulated_coefficients import ChainSimulation, DerivativeSimulation
    from dpbayes_cli.workflow.simulated_releases import NoiseSimulation
    from dpbayes_cli.workflow.simulated_samplers import SamplerSimulation

    law = planned.plan.final_step.law
    if isinstance(planned.plan.final_step.rows, DerivativeRows):
        return DerivativeSimulation(price(planned.spec, n_records, planned.model), n_records, seed, parameter)
    if law.has_normal_approximation:
        return ChainSimulation(planned, n_records, seed, parameter)
    if planned.model.not_simulated or not law.can_be_simulated:
        return None
    if law.adds_noise:
        return NoiseSimulation(planned, n_records, seed, parameter)
    return SamplerSimulation(planned, n_records, seed, parameter)


def why_not_simulated(planned: PlannedRelease, n_records: int = 1) -> str:
    """Return why releases of a request are not simulated, one sentence."""
    if planned.spec.by is not None:
        from dpbayes_cli.workflow.simulated_groups import why_no_groups

        return why_no_groups(planned, n_records)
    if planned.plan.final_step.rows is not None and not planned.model.not_simulated.startswith("Posteriors"):
        return "The design has too many columns to simulate releases."
    return planned.model.not_simulated or (
        f"The mechanism {planned.spec.mechanism} runs a private Markov chain, which takes too long to simulate."
    )


def guarantee_in_full(guarantee: Guarantee, neighbors: Neighbors, delta: Decimal) -> dict[str, Any]:
    """Return a guarantee in every notion of privacy, as a JSON object; notions that do not apply are null.

    Args:
        delta: the delta at which epsilon is stated if the guarantee has no pure epsilon.
    """

    def number(value: Decimal) -> float | None:
        return float(value) if value.is_finite() else None

    pure = guarantee.epsilon.is_finite()
    stated = None if pure else guarantee.statement(delta)
    curve = [(order, guarantee.rdp(order)) for order in ORDERS]
    return {
        "kind": guarantee.kind,
        "epsilon": number(guarantee.epsilon if stated is None else stated.epsilon),
        "delta": float(guarantee.delta if stated is None else delta),
        "route": "pure" if stated is None else stated.route,
        "at_edge": False if stated is None else stated.at_edge,
        "rho": number(guarantee.rho),
        "mu": number(guarantee.mu),
        "neighbors": str(neighbors),
        "rdp": [[float(order), float(value)] for order, value in curve if value.is_finite()],
        "order_max": number(guarantee.order_max),
    }
