"""Release and estimate in every trial of a cell: the L1 error of one draw, and of the posterior mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.base.numeric import parse_decimal
from dpbayes_cli.core.options import EpsilonOptions, Options
from dpbayes_cli.core.plan import Sampler
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.core.section import require_type
from dpbayes_cli.experiments.cell import CellOutcome
from dpbayes_cli.experiments.coin import COMPLETE, DROPPED
from dpbayes_cli.experiments.estimation.cell import EstimationCell
from dpbayes_cli.experiments.means import standard_error
from dpbayes_cli.inference.counts.beta_mixture import BetaMixture, beta_mixture
from dpbayes_cli.inference.naive import naive_shape
from dpbayes_cli.mechanisms.ops import OpsRangeOptions
from dpbayes_cli.mechanisms.samplers.simulated_draws import simulate_sampler
from dpbayes_cli.privacy.kinds import BoundedRange

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.core.columns import RecordPolicy
    from dpbayes_cli.core.plan import Step
    from dpbayes_cli.privacy.noise import NoiseLaw

_ORDER = Decimal(2)


@dataclass(frozen=True)
class Estimates:
    """What the releases of a cell tell, one number a trial.

    Attributes:
        draws: one draw of each posterior.
        means: the posterior means, None where a release is a draw.
        sds: the sds of the posteriors that draws come from.
        released: the released numbers of successes, None where there are none.
        totals: the sums of the shapes of naive posteriors.
    """

    draws: Floats
    means: Floats | None
    sds: Floats
    released: Integers | None = None
    totals: Floats | None = None


def run_trials(cell: EstimationCell) -> CellOutcome:
    """Run all trials of a cell; equal cells give equal numbers, in any process.

    Raises:
        SpecError: no release can be planned.
    """
    records, noise = (np.random.default_rng(seed) for seed in cell.data_seed().spawn(2))
    successes = records.binomial(cell.n_records, cell.case.theta, cell.trials)
    step = step_of(cell)
    rng = np.random.default_rng(cell.inference_seed())
    found = _METHODS[cell.method](cell, step, successes, noise, rng)
    l1 = np.abs(found.draws - cell.case.theta)
    measures = {"l1": float(l1.mean()), "l1_se": standard_error(l1), "sd": float(found.sds.mean())}
    trials = {"draw": found.draws, "l1": l1}
    if found.means is not None:
        of_mean = np.abs(found.means - cell.case.theta)
        measures |= {"l1_mean": float(of_mean.mean()), "l1_mean_se": standard_error(of_mean)}
        trials |= {"mean": found.means, "l1_mean": of_mean}
    if found.released is not None:
        trials["released"] = found.released.astype(np.float64)
    if found.totals is not None:
        trials["shape_total"] = found.totals
    absent: dict[str, float | None] = {"l1_mean": None, "l1_mean_se": None}
    return CellOutcome({**absent, **measures, **charges(step)}, trials)


def step_of(cell: EstimationCell) -> Step | None:
    """Return the calibrated step of a cell's release; None where nothing is private.

    Raises:
        SpecError: no guarantee can be given.
    """
    if cell.epsilon is None:
        return None
    name, epsilon = "laplace", parse_decimal(cell.epsilon)
    options: Options = EpsilonOptions(epsilon=epsilon)
    if cell.method == "ops":
        name, options = "ops", OpsRangeOptions(epsilon=epsilon, power_applies_to="joint", support=cell.case.support)
    (step,) = mechanism_type(name)().plan(cell.case.model, _policy(cell), options, cell.n_records).steps
    return step


def _policy(cell: EstimationCell) -> RecordPolicy:
    """Return complete records; the paper releases both counts, as if records could be invalid."""
    return DROPPED if cell.method == "laplace-paper" else COMPLETE


def charges(step: Step | None) -> dict[str, float | None]:
    """Return what a release costs: its temperature's range, and its divergence of order 2, exact and by its range."""
    if step is None:
        return {"charged": None, "rdp_2": None, "rdp_2_bound": None}
    guarantee = step.guarantee
    bound = exact = float(guarantee.rdp(_ORDER))
    if isinstance(guarantee, BoundedRange):
        bound = float(replace(guarantee, points=()).rdp(_ORDER))
    return {"charged": float(guarantee.epsilon), "rdp_2": exact, "rdp_2_bound": bound}


def _conjugate(
    cell: EstimationCell, _step: Step | None, successes: Integers, _: np.random.Generator, rng: np.random.Generator
) -> Estimates:
    """Know the exact count."""
    first, second = cell.case.alpha + successes, cell.case.beta + cell.n_records - successes
    return _beta(np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64), rng)


def _naive(
    cell: EstimationCell, step: Step | None, successes: Integers, noise: np.random.Generator, rng: np.random.Generator
) -> Estimates:
    """Take projected counts for true: the number of successes, or both counts as in the paper."""
    released = _released(cell, step, successes, noise)
    shapes = naive_shapes(cell, step, released)
    return replace(_beta(shapes[:, 0], shapes[:, 1], rng), released=released[:, 0], totals=shapes.sum(axis=1))


def naive_shapes(cell: EstimationCell, step: Step | None, released: Integers) -> Floats:
    """Return the Beta posteriors of noisy counts that are taken for true, shape (n_trials, 2)."""
    observation, noise, policy = cell.case.model.observation, _noise(step), _policy(cell)
    return np.array([naive_shape(observation(policy, row, noise, cell.n_records)) for row in released.tolist()])


def _aware(
    cell: EstimationCell, step: Step | None, successes: Integers, noise: np.random.Generator, rng: np.random.Generator
) -> Estimates:
    """Know the noise."""
    released = _released(cell, step, successes, noise)[:, 0]
    draws, means, sds = (np.empty(cell.trials) for _ in range(3))
    for value in np.unique(released):
        at = released == value
        law = mixture_of(cell, int(value))
        draws[at], means[at], sds[at] = law.draw(int(at.sum()), rng), law.mean, sum(law.variances) ** 0.5
    return Estimates(draws, means, sds, released)


def mixture_of(cell: EstimationCell, released: int) -> BetaMixture:
    """Return the posterior of a noisy count that knows the noise."""
    return beta_mixture(cell.case.model.observation(COMPLETE, (released,), _noise(step_of(cell)), cell.n_records))


def _sampled(
    cell: EstimationCell, step: Step | None, successes: Integers, _: np.random.Generator, rng: np.random.Generator
) -> Estimates:
    """Draw what posterior sampling would release."""
    sampler = require_type(None if step is None else step.law, Sampler)
    draws, sds = np.empty(cell.trials), np.empty(cell.trials)
    for value in np.unique(successes):
        at = successes == value
        draws[at] = simulate_sampler(sampler, (int(value),), int(at.sum()), rng)[:, 0]
        sds[at] = sampler.moments((int(value),))[1]
    return Estimates(draws, None, sds)


def _released(cell: EstimationCell, step: Step | None, successes: Integers, rng: np.random.Generator) -> Integers:
    """Return the statistic with noise, shape (n_trials, n_components)."""
    noise = _noise(step)
    counts = np.column_stack([successes, cell.n_records - successes])
    exact = counts if cell.method == "laplace-paper" else counts[:, :1]
    return np.asarray(exact + noise.simulate(rng, exact.shape))


def _noise(step: Step | None) -> NoiseLaw:
    if step is None:
        raise TypeError("a noisy release has a price")
    return step.noise


def _beta(first: Floats, second: Floats, rng: np.random.Generator) -> Estimates:
    total = np.asarray(first + second)
    mean = np.asarray(first / total)
    return Estimates(rng.beta(first, second), mean, np.asarray(np.sqrt(mean * (1.0 - mean) / (total + 1.0))))


_METHODS: dict[
    str,
    Callable[
        [EstimationCell, Step | None, Integers, np.random.Generator, np.random.Generator],
        Estimates,
    ],
] = {
    "non-private": _conjugate,
    "laplace-paper": _naive,
    "laplace-naive": _naive,
    "laplace": _aware,
    "ops": _sampled,
}
