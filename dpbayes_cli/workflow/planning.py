"""What a release would cost and tell, before any data are touched: prices, noise, simulated posteriors."""

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
from dpbayes_cli.spec.foreign_options import asked_of
from dpbayes_cli.spec.release_spec import ReleaseSpec, build_spec
from dpbayes_cli.workflow.pricing import PlannedRelease, price

if TYPE_CHECKING:
    import numpy as np

_SUMMARY_DRAWS = 2000
_LEAST_TRIALS = 3
_ESS = 200.0
_METHODS: tuple[Literal["noise-aware", "naive"], ...] = ("noise-aware", "naive")


@dataclass(frozen=True)
class Expectation:
    """What simulated releases of one question look like, data and parameters drawn from the model and its prior.

    A posterior draw tells about the posterior, whose width it widens. A point estimate has no posterior, and the spread
    of its law vanishes with much epsilon, however few the records: what is stated for it is its distance from the true
    parameter, which then tends to the posterior's width.

    Attributes:
        n_records: the number of records, all of them valid.
        trials: how many releases were simulated.
        noise_scale: the scale of the noise in counts, None where nothing is noised; the largest, where it depends on
            bounds that are found privately.
        posterior_sd: the root mean square of the posterior's standard deviation (of the law that is drawn from), of
            the first parameter, or of the first parameters of all rows of a network's tables; for point estimates that
            of the distance of one estimate from the true parameter.
        nonprivate_sd: the same for the posterior without privacy.
        inflation: their ratio.
        coverage: by inference method, how often the 90 % interval holds the parameter; None where nothing is inferred.
        sd_of: whether ``posterior_sd`` is of the posterior, or the error of an estimate.
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
class Offer:
    """One mechanism's plan for a question.

    Attributes:
        mechanism: its name.
        plan: the plan, None where there is none.
        expected: what it would tell.
        refusal: why there is no plan, else an empty text.
    """

    mechanism: str
    plan: Plan | None
    expected: Expectation | None
    refusal: str = ""


def offer(spec: ReleaseSpec, n_records: int, trials: int, seed: int) -> Offer:
    """Plan one question and simulate it.

    Args:
        spec: the question.
        n_records: the number of records to plan for.
        trials: how many releases to simulate, 0 for none.
        seed: of the simulation.

    Raises:
        SpecError: no guarantee can be given.
    """
    return _offered(price(spec, n_records), n_records, trials, seed)


def _offered(planned: PlannedRelease, n_records: int, trials: int, seed: int) -> Offer:
    expected = simulated(planned, n_records, trials, seed) if trials else None
    return Offer(planned.spec.mechanism, planned.plan, expected)


def offers(document: dict[str, Any], n_records: int, trials: int, seed: int) -> list[Offer]:
    """Plan a question with every mechanism that serves the model, the tightest posterior first, refusals last.

    Args:
        document: the spec, with options of any of these mechanisms; each is asked what it reads.
        n_records: the number of records to plan for.
        trials: how many releases to simulate, 0 for none.
        seed: of the simulation.

    Raises:
        SpecError: the document is no spec of any of them.
    """
    found, model = [], None
    for name in supporting_mechanisms(model_type(document["model"])):
        spec = build_spec(asked_of(document, name))
        model = model or spec.build_model()
        try:
            found.append(_offered(price(spec, n_records, model), n_records, trials, seed))
        except SpecError as error:
            found.append(Offer(name, None, None, f"{error.message}" + (f" ({error.hint})" if error.hint else "")))
    return sorted(found, key=lambda o: (o.plan is None, o.expected.inflation if o.expected else 0.0))


def simulated(planned: PlannedRelease, n_records: int, trials: int, seed: int) -> Expectation | None:
    """Simulate releases of a plan: parameters from the prior, records from the model, noise from its law.

    Plans of equal seed and model see the same parameters and records where the model draws them alike for all. None for
    models that are not simulated, for chains, whose runs are long, and where the exact posterior is not known.
    """
    import numpy as np

    model, step = planned.model, planned.plan.final_step
    if model.not_simulated or not step.law.can_be_simulated:
        return None
    simulating = require_type(model, NoisyStatistics)
    truth, own = np.random.default_rng(seed).spawn(2)
    trials = model.simulation_trials(trials)
    if step.law.adds_noise:
        return _noisy(planned, n_records, trials, truth, own)
    if step.law.slow_moments:
        return _of_own(step.sampler, planned, n_records, trials, truth)
    data = [simulating.simulated(planned.policy, n_records, truth) for _ in range(trials)]
    plain = [sd for _, values in data for _, sd in model.exact_moments(values, n_records)]
    if not plain:
        return _of_own(step.sampler, planned, n_records, trials, truth)
    estimates = planned.mechanism.estimates
    spreads = []
    for theta, values in data:
        found = zip(model.compared, step.sampler.moments_by_row(values), strict=True)
        spreads += [math.hypot(sd, mean - theta[k]) if estimates else sd for k, (mean, sd) in found]
    private, free = _root_mean_square(spreads), _root_mean_square(plain)
    sd_of: Literal["posterior", "estimate"] = "estimate" if estimates else "posterior"
    return Expectation(n_records, trials, None, private, free, private / free, None, sd_of)


def _of_own(
    law: Sampler, planned: PlannedRelease, n_records: int, trials: int, rng: np.random.Generator
) -> Expectation | None:
    """Simulate draws of a law that itself tells the sd of the first parameter without privacy."""
    trials = min(trials, _LEAST_TRIALS) if law.slow_moments else trials
    model = require_type(planned.model, NoisyStatistics)
    data = [model.simulated(planned.policy, n_records, rng)[1] for _ in range(trials)]
    private = _root_mean_square([law.moments(values)[1] for values in data])
    plain = [law.nonprivate_sd(values) for values in data]
    if None in plain:
        return None
    free = _root_mean_square([sd for sd in plain if sd is not None])
    return Expectation(n_records, trials, None, private, free, private / free, None)


def _noisy(
    planned: PlannedRelease, n_records: int, trials: int, truth: np.random.Generator, own: np.random.Generator
) -> Expectation:
    """Simulate noisy releases: posterior sds, without privacy too, and how often 90 % intervals hold the parameter.

    Parameters and records come from ``truth``, noise and inference from ``own``.
    """
    from dpbayes_cli.inference.posterior import Effort
    from dpbayes_cli.inference.solve import infer

    policy, plan, law = planned.policy, planned.plan, planned.plan.bounds
    model = require_type(planned.model, NoisyStatistics)
    public = n_records if policy.neighbors is Neighbors.REPLACE_ONE else None
    heads = model.compared
    private: list[float] = []
    plain: list[float] = []
    held = {"noise-aware": 0, "naive": 0}
    for _ in range(trials):
        if law is not None:
            theta, observation = simulated_between(planned, law, n_records, truth)
        else:
            theta, values = model.simulated_statistic(plan.final_step.statistic, policy, n_records, truth)
            released = _noised(values, plan, own)
            observation = planned.mechanism.observation(model, policy, released, plan.final_step.noise, public)
        for method in _METHODS:
            found = infer(observation, method, 1, own, Effort(_SUMMARY_DRAWS, _ESS)).marginals
            marginals = [found[model.components[k]] for k in heads]
            pairs = zip(marginals, (theta[k] for k in heads), strict=True)
            held[method] += sum(m.quantiles["q05"] <= true <= m.quantiles["q95"] for m, true in pairs)
            if method == "noise-aware":
                private += [marginal.sd for marginal in marginals]
                plain += [marginal.sd_data for marginal in marginals]
    sd, free = _root_mean_square(private), _root_mean_square(plain)
    coverage = {method: count / (trials * len(heads)) for method, count in held.items()}
    return Expectation(n_records, trials, plan.final_step.noise.scale, sd, free, sd / free, coverage)


def simulated_between(
    planned: PlannedRelease, law: PrivateBounds, n_records: int, rng: np.random.Generator
) -> tuple[tuple[float, ...], NoisyObservation]:
    """Simulate one release between private bounds: return the reported parameters, and the inference observation."""
    whole = law.grid.column("value", law.outside)
    theta, histogram = planned.model.simulated_histogram(whole, n_records, rng)
    lower, upper = law.simulate(histogram, rng)
    narrowed = planned.at((law.grid.value(lower), law.grid.value(upper)))
    policy, plan, bounded = planned.policy, narrowed.plan, require_type(narrowed.model, NoisyStatistics)
    column = require_type(bounded.columns[0], NumericColumn)
    values = evaluate_codes(plan.final_step.statistic, column, law.codes(histogram, lower, upper, column))
    public = n_records if policy.neighbors is Neighbors.REPLACE_ONE else None
    return theta, bounded.observation(policy, _noised(values, plan, rng), plan.final_step.noise, public)


def _noised(values: tuple[int, ...], plan: Plan, rng: np.random.Generator) -> list[int]:
    """Return a statistic with simulated noise."""
    noise = plan.final_step.noise.simulate(rng, len(values))
    return [int(value + z) for value, z in zip(values, noise, strict=True)]


def _root_mean_square(found: list[float]) -> float:
    return math.sqrt(sum(x * x for x in found) / len(found))


def guarantee_in_full(guarantee: Guarantee, neighbors: Neighbors, delta: Decimal) -> dict[str, Any]:
    """Return a guarantee in every notion: null where a notion has no number.

    Args:
        guarantee: the promise.
        neighbors: the relation that it is about.
        delta: the delta at which it is stated if it has no pure epsilon.
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
