"""Simulated releases of sums, cell by cell: what calibration, benchmarks and Geweke's test of latent sums share."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.core.columns import Outside, RecordPolicy
from dpbayes_cli.core.model import NoisyStatistics
from dpbayes_cli.core.noisy_observation import NoisySums
from dpbayes_cli.core.record_law import RecordLaw, ScalarLaw
from dpbayes_cli.core.section import require_type
from dpbayes_cli.inference.sums.one_parameter import grid_density, log_likelihoods
from dpbayes_cli.inference.sums.scale_mixture_gibbs import ScaleMixtureSampler
from dpbayes_cli.mechanisms.gaussian import Gaussian
from dpbayes_cli.mechanisms.laplace import Laplace
from dpbayes_cli.models.beta_geometric import BetaGeometric
from dpbayes_cli.models.gamma_exponential import GammaExponential
from dpbayes_cli.models.gamma_poisson import GammaPoisson
from dpbayes_cli.models.multivariate_normal import MultivariateNormal
from dpbayes_cli.models.normal import Normal, NormalPrior
from dpbayes_cli.models.normal_mean import NormalMean
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.privacy.noise import NoiseLaw
from tests.plans import plan_of
from tests.statistical import assert_uniform

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpbayes_cli.base.numeric import Floats

SIZES = (10, 100, 1000)
EPSILONS = ("0.01", "0.1", "1")
TRIALS = 300
FALSE_FAIL = 1e-6
CHAINS = 8
KEPT = 25
"""Draws kept a chain; with ``CHAINS`` of them a rank is one of 201."""
THINNING = 3


def models(outside: Outside = "clamp") -> dict[str, NoisyStatistics]:
    """Return every model of numbers; bounds cut off records if the model accounts for its bounds."""
    numeric_models: dict[str, NoisyStatistics] = {
        "beta-geometric": BetaGeometric(8, 4.0, 6.0, outside),
        "gamma-exponential": GammaExponential(1.0, 8.0, 2.0, outside),
        "gamma-poisson": GammaPoisson(7, 5.0, 1.5, outside),
        "normal-mean": NormalMean(-2.0, 2.0, 1.0, 0.3, 1.0, outside),
        "normal": Normal(-2.0, 3.0, NormalPrior(mean=0.3, strength=2.0, shape=3.0, rate=3.0), outside),
    }
    if outside == "clamp":
        # Prior sd of a number 0.5 in bounds of +-10: next to nothing is beyond them even in the tails of the prior.
        bounds = (("a", -10.0, 10.0), ("b", -10.0, 10.0))
        numeric_models["multivariate-normal"] = MultivariateNormal(bounds, (0.5, -0.3), (0.6, 0.4), 2.0, 12.0)
    return numeric_models


@dataclass(frozen=True)
class Cell:
    """Trials of one cell: observations that differ only in their observed values.

    Attributes:
        observation: the observation of the first trial.
        observed: the releases, shape (n_trials, n_components).
        parameters: the true parameters, shape (n_trials, n_parameters).
        exact: the exact statistics, of the shape of the releases.
    """

    observation: NoisySums
    observed: Floats
    parameters: Floats
    exact: Floats


def noise_of(model: NoisyStatistics, policy: RecordPolicy, budget: str, gaussian: bool = False) -> NoiseLaw:
    """Return the noise that the mechanism plans, for an epsilon or (Gaussian) a rho."""
    if gaussian:
        return plan_of(Gaussian(), model, policy, rho=Decimal(budget)).steps[0].noise
    return plan_of(Laplace(), model, policy, Decimal(budget)).steps[0].noise


def policy_of(model: NoisyStatistics, complete: bool) -> RecordPolicy:
    """Return replace-one with or without a stand-in for invalid records."""
    return RecordPolicy(Neighbors.REPLACE_ONE, model.columns[0].cell(0.5) if complete else None)  # type: ignore[union-attr]


def simulate(
    model: NoisyStatistics,
    complete: bool,
    n: int,
    budget: str,
    trials: int = TRIALS,
    gaussian: bool = False,
    seed: int = 0,
) -> Cell:
    """Draw parameters from the prior, records and releases.

    Where invalid records are dropped, the number of valid ones is uniform on 0..n: the stated law.

    Args:
        model: the model.
        complete: whether invalid records are imputed, so that n records count.
        n: the public number of records.
        budget: epsilon, or rho.
        trials: how many.
        gaussian: whether the noise is Gaussian.
        seed: another one gives other trials of the cell.
    """
    rng = np.random.default_rng([n, round(float(budget) * 1000), int(complete), int(gaussian), len(model.name), seed])
    policy = policy_of(model, complete)
    noise = noise_of(model, policy, budget, gaussian)
    parameters, exact = [], []
    for _ in range(trials):
        m = n if complete else int(rng.integers(0, n, endpoint=True))
        drawn, statistic = model.simulated(policy, m, rng)
        parameters.append(drawn)
        exact.append(statistic)
    sums = np.array(exact, dtype=np.int64)
    observed = sums + noise.simulate(rng, sums.shape)
    observation = require_type(model.observation(policy, tuple(observed[0].tolist()), noise, n), NoisySums)
    return Cell(observation, observed.astype(np.float64), np.array(parameters), sums.astype(np.float64))


def all_log_likelihoods(observation: NoisySums, law: ScalarLaw, observed: Floats, points: Floats) -> Floats:
    """Return log p(observed | theta) for all pairs, shape (n_points, n_observed)."""
    shape = (len(points), len(observed))
    which, release = (index.ravel() for index in np.indices(shape))
    return log_likelihoods(observation, law, observed, points, (which, release)).reshape(shape)


def exact_ranks(cell: Cell) -> Floats:
    """Return the posterior probabilities below the true parameters, by the exact posteriors, shape (n_trials,)."""
    law = require_type(cell.observation.law, ScalarLaw)
    density = grid_density(cell.observation, law, cell.observed)
    low, high = law.prior_range
    grid = np.linspace(low, high, 4001)
    values = law.parameters(grid[:, None])[:, 0]
    return density.cdf(np.interp(cell.parameters[:, 0], values, grid))


def dense_posterior(cell: Cell) -> tuple[Floats, Floats]:
    """Return 2,001 fixed coordinates and the probabilities below them, shape (n_trials, 2001)."""
    law = require_type(cell.observation.law, ScalarLaw)
    low, high = law.prior_range
    drawn = law.draw_prior(20_000, np.random.default_rng(0))
    reach = float(drawn.max() - drawn.min()) * 0.25
    points = np.linspace(max(low, float(drawn.min()) - reach), min(high, float(drawn.max()) + reach), 2001)
    column = points[:, None]
    log_density = all_log_likelihoods(cell.observation, law, cell.observed, column) + law.log_prior(column)[:, None]
    density = np.exp(log_density - log_density.max(axis=0)).T
    cells = (density[:, 1:] + density[:, :-1]) / 2.0
    cumulative = np.hstack([np.zeros((len(cells), 1)), np.cumsum(cells, axis=1)])
    return points, np.asarray(cumulative / cumulative[:, -1:])


def chain_ranks(cell: Cell, seed: int = 1, functional: Callable[[Floats], Floats] | None = None) -> Floats:
    """Return the ranks of the true parameters among draws of the chains, shape (n_trials, n_parameters).

    Args:
        cell: the trials.
        seed: of the sampler.
        functional: ranks functions of the parameters in place of the parameters, shape (..., any number).
    """
    rng = np.random.default_rng(seed)
    sampler = ScaleMixtureSampler(cell.observation, cell.observed, CHAINS, rng)
    values = require_type(cell.observation.law, RecordLaw).parameters(sampler.run(KEPT, THINNING)[..., :-1])
    flat = values.reshape(len(cell.observed), -1, values.shape[-1])
    truth = cell.parameters
    if functional is not None:
        flat, truth = functional(flat), functional(truth)
    below = (flat < truth[:, None, :]).sum(axis=1)
    return np.asarray((below + rng.random(below.shape)) / (flat.shape[1] + 1))


def assert_calibrated(ranks: Floats) -> None:
    """Fail if the ranks of a parameter are not uniform; false-fail 1e-6 for all parameters together."""
    for column in ranks.reshape(len(ranks), -1).T:
        assert_uniform(column, FALSE_FAIL / (ranks.size // len(ranks)))
