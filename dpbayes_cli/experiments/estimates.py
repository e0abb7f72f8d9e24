"""Posteriors after simulated releases of a binary outcome: draws, means, densities, and privacy costs."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import Meta
from scipy import stats

from dpbayes_cli.base.numeric import parse_decimal
from dpbayes_cli.core.options import EpsilonOptions, Options
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.core.section import require_type
from dpbayes_cli.experiments.coin import COMPLETE, DROPPED, CoinCase
from dpbayes_cli.experiments.results import Result
from dpbayes_cli.inference.counts.beta_mixture import BetaMixture, beta_mixture
from dpbayes_cli.inference.naive import naive_shape
from dpbayes_cli.mechanisms.ops import OpsRangeOptions
from dpbayes_cli.mechanisms.samplers.scalar_sampler import ScalarSampler
from dpbayes_cli.mechanisms.samplers.simulated_draws import simulate_sampler
from dpbayes_cli.privacy.kinds import BoundedRange

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.core.plan import Step

_ORDER = Decimal(2)
Estimates = tuple[dict[str, "Floats"], "Floats"]
"""Arrays by name, such as posterior draws and means; and an array of posterior sds. Each has one entry per trial."""


class EstimationCase(CoinCase, frozen=True, kw_only=True):
    """A true probability, a prior, and the numbers of records to study."""

    theta: Annotated[float, Meta(gt=0, lt=1, description="the true probability of success")]
    n: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=10_000_000)], ...], Meta(min_length=1, description="numbers of records")
    ]
    support: Annotated[tuple[float, float], Meta(description="for ops only: the public range of the parameter")]
    epsilon: Annotated[tuple[str, ...], Meta(description="the epsilons of this case, in place of the study's")] = ()
    densities: Annotated[int, Meta(ge=0, le=1000, description="number of releases whose posteriors are plotted")] = 0

    def __post_init__(self) -> None:
        self.state_exactly("epsilon")

    def step(self, method: str, epsilon: str | None, n_records: int) -> Step | None:
        """Return the calibrated step of a method's release; None for the non-private method, which has no epsilon.

        The method ``laplace-paper`` releases the numbers of successes and failures, other methods only the number of
        successes.

        Raises:
            SpecError: the mechanism cannot give this guarantee.
        """
        if epsilon is None:
            return None
        name, policy, price = "laplace", DROPPED if method == "laplace-paper" else COMPLETE, parse_decimal(epsilon)
        options: Options = EpsilonOptions(epsilon=price)
        if method == "ops":
            name, options = "ops", OpsRangeOptions(epsilon=price, power_applies_to="joint", support=self.support)
        (step,) = mechanism_type(name)().plan(self.model, policy, options, n_records).steps
        return step

    def posterior(self, step: Step, released: int, n_records: int) -> BetaMixture:
        return beta_mixture(self.model.observation(COMPLETE, (released,), step.noise, n_records))


def estimates(
    case: EstimationCase,
    method: str,
    step: Step | None,
    successes: Integers,
    n: int,
    noise: np.random.Generator,
    rng: np.random.Generator,
) -> Estimates:
    """Simulate the release of a method in each trial, and return draws, means and sds of its posteriors.

    Args:
        step: the step of the method's release; None: the method uses the exact counts.
        successes: the exact number of successes in each trial, shape (n_trials,).
        noise, rng: the generator of the noise, and the generator of posterior draws.
    """
    if step is None:
        return _of_betas(np.column_stack([case.alpha + successes, case.beta + n - successes]), rng)
    if method == "ops":
        draws, sds = np.empty(len(successes)), np.empty(len(successes))
        for value in np.unique(successes):
            at = successes == value
            draws[at] = simulate_sampler(step.sampler, (int(value),), int(at.sum()), rng)[:, 0]
            sds[at] = step.sampler.moments((int(value),))[1]
        return {"draw": draws}, sds
    counts = np.column_stack([successes, n - successes])[:, : 2 if method == "laplace-paper" else 1]
    released = counts + step.noise.simulate(noise, counts.shape)
    if method == "laplace":
        trials, sds = _aware(case, step, released[:, 0], n, rng)
    else:
        policy = DROPPED if method == "laplace-paper" else COMPLETE
        observed = (case.model.observation(policy, row, step.noise, n) for row in released.tolist())
        shapes = np.array([naive_shape(each) for each in observed])
        trials, sds = _of_betas(shapes, rng)
        trials["shape_total"] = shapes.sum(axis=1)
    trials["released"] = released[:, 0].astype(np.float64)
    return trials, sds


def _aware(case: EstimationCase, step: Step, released: Integers, n: int, rng: np.random.Generator) -> Estimates:
    draws, means, sds = (np.empty(len(released)) for _ in range(3))
    for value in np.unique(released):
        at, law = released == value, case.posterior(step, int(value), n)
        draws[at], means[at], sds[at] = law.draw(int(at.sum()), rng), law.mean, sum(law.variances) ** 0.5
    return {"draw": draws, "mean": means}, sds


def _of_betas(shapes: Floats, rng: np.random.Generator) -> Estimates:
    first, second = np.asarray(shapes, dtype=np.float64).T
    total = first + second
    mean = np.asarray(first / total)
    return {"draw": rng.beta(first, second), "mean": mean}, np.asarray(np.sqrt(mean * (1.0 - mean) / (total + 1.0)))


def charges(step: Step | None) -> dict[str, float | None]:
    """Return the privacy cost of a release in three measures, which are None without a release.

    ``charged`` is the pure epsilon, and ``rdp_2`` the Renyi divergence of order 2. ``rdp_2_bound`` is the bound on this
    divergence that follows from epsilon alone.
    """
    if step is None:
        return {"charged": None, "rdp_2": None, "rdp_2_bound": None}
    guarantee = step.guarantee
    bound = exact = float(guarantee.rdp(_ORDER))
    if isinstance(guarantee, BoundedRange):
        bound = float(replace(guarantee, points=()).rdp(_ORDER))
    return {"charged": float(guarantee.epsilon), "rdp_2": exact, "rdp_2_bound": bound}


def densities(case: EstimationCase, result: Result, theta: Floats, successes: int) -> list[Floats]:
    """Return posterior densities at ``theta``: one given ``successes`` for ``ops``, otherwise one per release."""
    n, method = result["n"], result["method"]
    step = case.step(method, result["epsilon"], n)
    if step is not None and method == "ops":
        law = require_type(step.law, ScalarSampler)
        logs = law.logs((successes,))
        masses = np.exp(logs - logs.max())
        return [np.interp(theta, law.cells, masses / masses.mean() / (law.support[1] - law.support[0]), 0.0, 0.0)]
    if step is not None and method == "laplace":
        released = result.trials["released"][: case.densities]
        return [case.posterior(step, int(value), n).pdf(theta) for value in released]
    pairs = zip(result.trials["mean"][: case.densities], result.trials["shape_total"], strict=False)
    return [stats.beta.pdf(theta, mean * total, (1.0 - mean) * total) for mean, total in pairs]
