"""Simulated releases of sums of groups, and how often posteriors cover what generated them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.noisy_observation import NoisyGroups
from dpbayes_cli.inference.groups.grouped_posterior import GroupedPosterior, Pooling
from dpbayes_cli.inference.groups.grouped_sums import infer_grouped_sums
from dpbayes_cli.inference.groups.population import draw_coordinates, parameter_moments
from dpbayes_cli.inference.groups.record_moments import RecordMoments
from dpbayes_cli.models.families.beta_numbers import GeometricNumbers
from dpbayes_cli.models.families.gamma_numbers import ExponentialTimes, PoissonCounts
from dpbayes_cli.models.families.normal_numbers import NormalNumbers
from dpbayes_cli.models.families.number_families import NumberFamily
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.noise import NoiseLaw
from tests.inference.groups.sum_references import outcome_of
from tests.models.number_laws import FAMILIES

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

COLUMNS = {
    "gamma-poisson": NumericColumn("value", 0.0, 6.0, 6, integers=True),
    "beta-geometric": NumericColumn("value", 0.0, 6.0, 6, integers=True),
    "gamma-exponential": NumericColumn("value", 0.0, 2.0, 1 << 20),
    "normal-mean": NumericColumn("value", -1.5, 2.5, 1 << 20),
}
LOG_SIZE_SDS = 0.5, 0.7
"""The prior standard deviations of log mean and log shape of the sizes in the studies."""
DRAWS = 99
_MAX_RATE = 1e9


@dataclass(frozen=True)
class Cell:
    """A kind of release to study.

    Attributes:
        model: the name of the model.
        epsilon: the epsilon of the release.
        size: the typical number of records of a group.
        n_groups: the number of groups.
        sensitivity: the sensitivity of a release, in steps; 4 with replace-one neighbors, 2 with add-remove ones.
        pooling: see ``infer_groups``.
    """

    model: str
    epsilon: float
    size: float
    n_groups: int = 6
    sensitivity: int = 4
    pooling: Pooling = "partial"

    @property
    def family(self) -> NumberFamily:
        return FAMILIES[self.model]

    @property
    def column(self) -> NumericColumn:
        return COLUMNS[self.model]

    @property
    def noise(self) -> NoiseLaw:
        return DiscreteLaplace(self.sensitivity * self.column.steps / self.epsilon)

    @property
    def size_prior(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The mean and the standard deviation of log mean and log shape of the sizes."""
        return (float(np.log(self.size)), LOG_SIZE_SDS[0]), (1.0, LOG_SIZE_SDS[1])


@dataclass(frozen=True, eq=False)
class Study:
    """What simulated posteriors say about what generated the data; one row for each simulation.

    Attributes:
        ranks: ranks of the truth among draws, scaled to (0, 1): of the first group's parameter, and of the mean, the
            sd and the mean size over groups.
        covered: the share of the groups whose 90 % interval covers the parameter.
        sizes_covered: the share of the groups whose 90 % interval covers the number of records.
    """

    ranks: Floats
    covered: Floats
    sizes_covered: Floats


def draw_numbers(family: NumberFamily, parameter: float, size: int, rng: np.random.Generator) -> Floats:
    """Draw unclamped numbers."""
    if isinstance(family, PoissonCounts):
        return rng.poisson(min(parameter, _MAX_RATE), size).astype(np.float64)
    if isinstance(family, GeometricNumbers):
        return np.asarray(rng.geometric(max(parameter, 1.0 / _MAX_RATE), size) - 1.0, dtype=np.float64)
    if isinstance(family, ExponentialTimes):
        return rng.exponential(1.0 / parameter, size)
    assert isinstance(family, NormalNumbers)
    return rng.normal(parameter, family.variance**0.5, size)


def noisy_rows(
    family: NumberFamily,
    column: NumericColumn,
    parameters: Floats,
    sizes: Integers,
    noise: NoiseLaw,
    rng: np.random.Generator,
) -> Integers:
    """Return the noisy sum and the noisy size of each group of clamped numbers, shape (n_groups, 2)."""
    rows = []
    for parameter, size in zip(parameters.tolist(), sizes.tolist(), strict=True):
        codes, _ = column.codes(draw_numbers(family, parameter, size, rng))
        rows.append((int((2 * codes - column.steps).sum()), column.steps * size))
    exact = np.array(rows, dtype=np.int64)
    return exact + noise.simulate(rng, exact.shape)


def draw_sizes(cell: Cell, n_groups: int, rng: np.random.Generator) -> tuple[float, Integers]:
    """Draw the mean of the law of the sizes, and sizes."""
    log_mean, log_shape = (rng.normal(*each) for each in cell.size_prior)
    shape = float(np.exp(log_shape))
    return float(np.exp(log_mean)), rng.poisson(rng.gamma(shape, np.exp(log_mean) / shape, n_groups))


def simulate(cell: Cell, rng: np.random.Generator) -> tuple[NoisyGroups, Floats, Integers, Floats]:
    """Draw a release from the prior.

    Returns:
        The release, the parameters of the groups, their sizes, and the mean, the sd and the mean size over groups.
    """
    outcome = outcome_of(cell.family, cell.column)
    moments = RecordMoments(outcome)
    records, sizes = draw_sizes(cell, cell.n_groups, rng)
    if cell.pooling == "partial":
        center, spread = outcome.law.draw_prior(1, rng)[:, 0], np.abs(rng.normal(0.0, moments.spread, 1))
        coordinates = draw_coordinates(
            moments.domain, np.repeat(center, cell.n_groups), np.repeat(spread, cell.n_groups), rng
        )
        mean, sd = parameter_moments(outcome.law, moments.domain, center, spread)
        parameters = outcome.law.parameters(coordinates[:, None])[:, 0]
    else:
        parameters = outcome.law.parameters(outcome.law.draw_prior(cell.n_groups, rng))[:, 0]
        mean, sd = parameters.mean(keepdims=True), parameters.std(keepdims=True)
    rows = noisy_rows(cell.family, cell.column, parameters, sizes, cell.noise, rng)
    return NoisyGroups(outcome, rows, cell.noise), parameters, sizes, np.array([mean[0], sd[0], records])


def infer(observation: NoisyGroups, pooling: Pooling, samples: int, rng: np.random.Generator) -> GroupedPosterior:
    """Return the posterior."""
    return infer_grouped_sums(observation, observation.outcome, pooling, samples, rng)  # type: ignore[arg-type]


def study(cell: Cell, repeats: int, seed: int) -> Study:
    """Draw releases from the prior, infer their posteriors, and compare them with what generated the releases.

    The prior of the law of the sizes must have been set to that of the cell.
    """
    rng = np.random.default_rng(seed)
    ranks, covered, sizes_covered = [], [], []
    for _ in range(repeats):
        observation, parameters, sizes, truth = simulate(cell, rng)
        posterior = infer(observation, cell.pooling, DRAWS, rng)
        first = posterior.draw(DRAWS, rng)[:, :1, 0]
        below = (np.concatenate([first, posterior.draws], axis=1) < [parameters[0], *truth]).sum(axis=0)
        ranks.append((below + rng.random(4)) / (DRAWS + 1))
        covered.append(inside(posterior.quantiles[:, 0, [0, 2]], parameters))
        sizes_covered.append(inside(posterior.sizes[:, 1:], sizes))
    return Study(np.array(ranks), np.array(covered), np.array(sizes_covered))


def inside(intervals: Floats, values: Floats | Integers) -> float:
    """Return the share of the values that are in their intervals."""
    return float(np.mean((intervals[:, 0] <= values) & (values <= intervals[:, 1])))
