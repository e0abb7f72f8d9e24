"""Plan a release without data: its privacy cost, its noise, and simulated posteriors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.model import NoisyStatistics
from dpbayes_cli.core.noisy_observation import NoisyObservation
from dpbayes_cli.core.plan import Plan, Sampler
from dpbayes_cli.core.private_quantile import PrivateBounds
from dpbayes_cli.core.registry import model_type, supporting_mechanisms
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import evaluate_codes
from dpbayes_cli.privacy.conversions import ORDERS
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.foreign_options import request_to
from dpbayes_cli.spec.release_spec import ReleaseSpec, build_spec
from dpbayes_cli.workflow.pricing import PlannedRelease, price

if TYPE_CHECKING:
    import numpy as np

_SUMMARY_DRAWS = 2000
_MAX_SLOW_TRIALS = 3
_MIN_EFFECTIVE_DRAWS = 200.0
_METHODS: tuple[Literal["noise-aware", "naive"], ...] = ("noise-aware", "naive")


@dataclass(frozen=True)
class Expectation:
    """A summary of simulated releases of one request.

    The parameters are drawn from the prior, and the data from the model. Posterior draws are released from a
    distribution that is wider than the posterior without privacy. A point estimate has no posterior, and for large
    epsilon the spread of the estimate vanishes, however few the records are. For estimates, ``posterior_sd`` is
    therefore their distance from the true parameter, which tends to the width of the posterior for large epsilon.

    Attributes:
        n_records: the number of records, all of them valid.
        trials: the number of simulated releases.
        noise_scale: the scale of the noise in counts; None if no noise is added. If the scale depends on private
            bounds, this is its largest value.
        posterior_sd: the standard deviation of the first parameter in the posterior (in the distribution of the draws,
            if draws are released), as a root mean square over the simulated releases; for a network, also over the
            first parameter of each table row. For point estimates, the root mean square distance of an estimate from
            the true parameter.
        nonprivate_sd: the root mean square standard deviation of the same parameters in the posterior without privacy.
        inflation: ``posterior_sd / nonprivate_sd``.
        coverage: for each inference method, the share of 90 % intervals that hold the true parameter; None if no
            posterior is inferred.
        sd_of: whether ``posterior_sd`` is the width of a posterior or the error of an estimate.
    """

    n_records: int
    trials: int
    noise_scale: float | None
    posterior_sd: float
    nonprivate_sd: float
    inflation: float
    coverage: dict[str, float] | None
    sd_of: Literal["posterior", "estimate"] = "posterior"


@dataclass(frozen=True)
class MechanismPlan:
    """One mechanism's plan for a release request.

    Attributes:
        mechanism: the name of the mechanism.
        plan: the plan; None if the mechanism refuses the request.
        expected: a summary of simulated releases; None if nothing was simulated.
        refusal: why the mechanism refuses the request; empty if there is a plan.
    """

    mechanism: str
    plan: Plan | None
    expected: Expectation | None
    refusal: str = ""


def plan_mechanism(spec: ReleaseSpec, n_records: int, trials: int, seed: int) -> MechanismPlan:
    """Return the plan of a release request, with simulated releases.

    Args:
        n_records: the number of records to plan for.
        trials: the number of releases to simulate; 0 simulates none.
        seed: the seed of the simulation.

    Raises:
        SpecError: no guarantee can be given for the request.
    """
    return _simulate_priced(price(spec, n_records), n_records, trials, seed)


def _simulate_priced(planned: PlannedRelease, n_records: int, trials: int, seed: int) -> MechanismPlan:
    expected = simulate_plan(planned, n_records, trials, seed) if trials else None
    return MechanismPlan(planned.spec.mechanism, planned.plan, expected)


def plan_every_mechanism(document: dict[str, Any], n_records: int, trials: int, seed: int) -> list[MechanismPlan]:
    """Return the plans of every mechanism that serves the model, the narrowest posterior first, refusals last.

    Args:
        document: the spec, which may hold options of several mechanisms; each mechanism gets the options that it reads.
        n_records: the number of records to plan for.
        trials: the number of releases to simulate; 0 simulates none.
        seed: the seed of the simulation.

    Raises:
        SpecError: the document is not a valid spec.
    """
    plans: list[MechanismPlan] = []
    model = None
    for name in supporting_mechanisms(model_type(document["model"])):
        spec = build_spec(request_to(document, name))
        model = model or spec.build_model()
        try:
            plans.append(_simulate_priced(price(spec, n_records, model), n_records, trials, seed))
        except SpecError as error:
            plans.append(
                MechanismPlan(name, None, None, f"{error.message}" + (f" ({error.hint})" if error.hint else ""))
            )
    return sorted(plans, key=lambda p: (p.plan is None, p.expected.inflation if p.expected else 0.0))


def simulate_plan(planned: PlannedRelease, n_records: int, trials: int, seed: int) -> Expectation | None:
    """Return a summary of simulated releases: parameters from the prior, records from the model, noise from its law.

    For one seed and model, all mechanisms see the same parameters and records, unless the model draws them differently
    for different mechanisms. The result is None if the model cannot be simulated, if the mechanism is a private chain,
    which would take too long, or if the exact posterior is not known.
    """
    import numpy as np

    model, step = planned.model, planned.plan.final_step
    if model.not_simulated or not step.law.can_be_simulated:
        return None
    simulating = require_type(model, NoisyStatistics)
    data_rng, release_rng = np.random.default_rng(seed).spawn(2)
    trials = model.simulation_trials(trials)
    if step.law.adds_noise:
        return _simulate_noise(planned, n_records, trials, data_rng, release_rng)
    if step.law.slow_moments:
        return _simulate_sampler(step.sampler, planned, n_records, trials, data_rng)
    data = [simulating.simulated(planned.policy, n_records, data_rng) for _ in range(trials)]
    plain = [sd for _, values in data for _, sd in model.exact_moments(values, n_records)]
    if not plain:
        return _simulate_sampler(step.sampler, planned, n_records, trials, data_rng)
    estimates = planned.mechanism.estimates
    spreads = []
    for theta, values in data:
        moments = zip(model.compared, step.sampler.moments_by_row(values), strict=True)
        spreads += [math.hypot(sd, mean - theta[k]) if estimates else sd for k, (mean, sd) in moments]
    private, nonprivate = _root_mean_square(spreads), _root_mean_square(plain)
    sd_of: Literal["posterior", "estimate"] = "estimate" if estimates else "posterior"
    return Expectation(n_records, trials, None, private, nonprivate, private / nonprivate, None, sd_of)


def _simulate_sampler(
    law: Sampler, planned: PlannedRelease, n_records: int, trials: int, rng: np.random.Generator
) -> Expectation | None:
    """Simulate releases of a sampler that computes the first parameter's standard deviation with and without
    privacy."""
    trials = min(trials, _MAX_SLOW_TRIALS) if law.slow_moments else trials
    model = require_type(planned.model, NoisyStatistics)
    data = [model.simulated(planned.policy, n_records, rng)[1] for _ in range(trials)]
    private = _root_mean_square([law.moments(values)[1] for values in data])
    plain = [law.nonprivate_sd(values) for values in data]
    if None in plain:
        return None
    nonprivate = _root_mean_square([sd for sd in plain if sd is not None])
    return Expectation(n_records, trials, None, private, nonprivate, private / nonprivate, None)


def _simulate_noise(
    planned: PlannedRelease,
    n_records: int,
    trials: int,
    data_rng: np.random.Generator,
    release_rng: np.random.Generator,
) -> Expectation:
    """Simulate releases with noise; ``release_rng`` draws the noise and the posterior samples."""
    from dpbayes_cli.inference.posterior import Effort
    from dpbayes_cli.inference.solve import infer

    policy, plan, law = planned.policy, planned.plan, planned.plan.bounds
    model = require_type(planned.model, NoisyStatistics)
    public = n_records if policy.neighbors is Neighbors.REPLACE_ONE else None
    heads = model.compared
    private: list[float] = []
    plain: list[float] = []
    covered = {"noise-aware": 0, "naive": 0}
    for _ in range(trials):
        if law is not None:
            theta, observation = simulate_with_private_bounds(planned, law, n_records, data_rng)
        else:
            theta, values = model.simulated_statistic(plan.final_step.statistic, policy, n_records, data_rng)
            released = _noised(values, plan, release_rng)
            observation = planned.mechanism.observation(model, policy, released, plan.final_step.noise, public)
        for method in _METHODS:
            inferred = infer(observation, method, 1, release_rng, Effort(_SUMMARY_DRAWS, _MIN_EFFECTIVE_DRAWS))
            marginals = [inferred.marginals[model.components[k]] for k in heads]
            pairs = zip(marginals, (theta[k] for k in heads), strict=True)
            covered[method] += sum(m.quantiles["q05"] <= true <= m.quantiles["q95"] for m, true in pairs)
            if method == "noise-aware":
                private += [marginal.sd for marginal in marginals]
                plain += [marginal.sd_data for marginal in marginals]
    sd, nonprivate = _root_mean_square(private), _root_mean_square(plain)
    coverage = {method: count / (trials * len(heads)) for method, count in covered.items()}
    return Expectation(n_records, trials, plan.final_step.noise.scale, sd, nonprivate, sd / nonprivate, coverage)


def simulate_with_private_bounds(
    planned: PlannedRelease, law: PrivateBounds, n_records: int, rng: np.random.Generator
) -> tuple[tuple[float, ...], NoisyObservation]:
    """Simulate a release with private bounds; return the true parameters and the noisy observation."""
    full_range = law.grid.column("value", law.outside)
    theta, histogram = planned.model.simulated_histogram(full_range, n_records, rng)
    lower, upper = law.simulate(histogram, rng)
    narrowed = planned.at_bounds((law.grid.value(lower), law.grid.value(upper)))
    policy, plan, bounded = planned.policy, narrowed.plan, require_type(narrowed.model, NoisyStatistics)
    column = require_type(bounded.columns[0], NumericColumn)
    values = evaluate_codes(plan.final_step.statistic, column, law.codes(histogram, lower, upper, column))
    public = n_records if policy.neighbors is Neighbors.REPLACE_ONE else None
    return theta, bounded.observation(policy, _noised(values, plan, rng), plan.final_step.noise, public)


def _noised(values: tuple[int, ...], plan: Plan, rng: np.random.Generator) -> list[int]:
    noise = plan.final_step.noise.simulate(rng, len(values))
    return [int(value + z) for value, z in zip(values, noise, strict=True)]


def _root_mean_square(values: list[float]) -> float:
    return math.sqrt(sum(x * x for x in values) / len(values))


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
