"""Posteriors of few small groups by enumeration of sizes and sums, with the hyperparameters on dense grids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.noisy_observation import GroupedSums, NoisyGroups
from dpbayes_cli.inference.groups.noisy_normal import scaled_density
from dpbayes_cli.inference.groups.population import log_hyperprior, normal_weights, parameter_moments
from dpbayes_cli.inference.groups.record_moments import RecordMoments
from dpbayes_cli.inference.groups.size_law import log_size_prior
from dpbayes_cli.models.families.number_families import NumberFamily, NumberLaw
from tests.models.number_laws import code_masses

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_COORDINATES = 321
_MOST_RECORDS = 60


@dataclass(frozen=True, eq=False)
class Reference:
    """Posteriors on a grid.

    Attributes:
        grid: coordinates, shape (n_coordinates,).
        masses: the probability of each coordinate, for each group.
        sizes: the probability of each size 0, 1, 2, ..., for each group.
        means: the mean of each group's parameter.
        sds: the standard deviation of each group's parameter.
        hyperparameters: the posterior means of the mean and the sd of the parameter over groups, and of the mean size.
    """

    grid: Floats
    masses: Floats
    sizes: Floats
    means: Floats
    sds: Floats
    hyperparameters: Floats


def likelihoods(observation: NoisyGroups, family: NumberFamily, column: NumericColumn, grid: Floats) -> Floats:
    """Return p(noisy row | size, coordinate) by enumeration, shape (n_groups, n_sizes, n_coordinates)."""
    masses, sums = code_masses(family, column, family.parameter(grid)), np.ones((len(grid), 1))
    if column.outside == "drop":
        masses = masses / masses.sum(axis=1, keepdims=True)
    rows = []
    for n in range(_MOST_RECORDS):
        values = 2 * np.arange(n * column.steps + 1) - n * column.steps
        noise = observation.noise.log_pmf(observation.observed[:, :1] - values)
        counted = observation.noise.log_pmf(observation.observed[:, 1] - n * column.steps)
        rows.append(np.exp(noise + counted[:, None]) @ sums.T)
        sums = np.array([np.convolve(a, b) for a, b in zip(sums, masses, strict=True)])
    return np.stack(rows, axis=1)


def normal_likelihoods(observation: NoisyGroups, moments: RecordMoments, grid: Floats) -> Floats:
    """Return the same for sums that are taken for normal."""
    mean, sd = moments.at(grid)
    n = np.arange(float(_MOST_RECORDS))[:, None]
    residual = observation.observed[:, 0, None, None] - n * mean
    density, _ = scaled_density(observation.noise, residual, np.broadcast_to(np.sqrt(n) * sd, residual.shape))
    counted = observation.noise.log_pmf(observation.observed[:, 1:] - np.rint(n[:, 0] * moments.steps).astype(np.int64))
    return density * np.exp(counted)[..., None]


def dense_grid(moments: RecordMoments) -> Floats:
    """Return coordinates, close together in the core."""
    (begin, end), core = moments.domain, moments.core
    return np.unique(np.concatenate([[begin, end], np.linspace(*moments.domain, 24), np.linspace(*core, _COORDINATES)]))


def reference(outcome: GroupedSums, moments: RecordMoments, grid: Floats, likelihood: Floats) -> Reference:
    """Return the posteriors, given p(noisy row | size, coordinate)."""
    low, high = moments.prior_range
    centers = np.linspace(max(low, moments.core[0] - 4.0 * moments.spread), min(high, moments.core[1]), 61)
    log_spreads = np.log(moments.spread) + np.linspace(-5.0, 1.3, 25)
    center, log_spread = (each.ravel() for each in np.meshgrid(centers, log_spreads, indexing="ij"))
    log_mean, log_shape = (
        each.ravel() for each in np.meshgrid(np.linspace(-4.0, 6.5, 43), np.linspace(-5.0, 5.0, 21), indexing="ij")
    )
    population = normal_weights(grid[None], center, np.exp(log_spread))[0].T
    shape, mean = np.exp(log_shape)[:, None], np.exp(log_mean)[:, None]
    sizes = stats.nbinom.pmf(np.arange(likelihood.shape[1]), shape, shape / (shape + mean))
    weights = np.exp(log_size_prior(log_mean, log_shape))[:, None] * np.exp(
        log_hyperprior(outcome.law, moments.spread, center, log_spread)
    )
    given_size = [sizes @ each for each in likelihood]
    evidence = [each @ population.T for each in given_size]
    for each in evidence:
        weights = weights * (each / each.max())
    weights /= weights.sum()
    masses = np.array(
        [(g * ((weights / e) @ population)).sum(axis=0) for g, e in zip(given_size, evidence, strict=True)]
    )
    number = np.array(
        [
            (sizes * ((weights / e) @ population @ each.T)).sum(axis=0)
            for e, each in zip(evidence, likelihood, strict=True)
        ]
    )
    values = outcome.law.parameters(grid[:, None])[:, 0]
    means = masses @ values
    sds = np.sqrt(((values - means[:, None]) ** 2 * masses).sum(axis=1))
    overall, spread = parameter_moments(outcome.law, moments.domain, center, np.exp(log_spread))
    margin = weights.sum(axis=0)
    records = float(weights.sum(axis=1) @ np.exp(log_mean))
    return Reference(grid, masses, number, means, sds, np.array([margin @ overall, margin @ spread, records]))


def outcome_of(family: NumberFamily, column: NumericColumn) -> GroupedSums:
    """Return the law of a group's records, with records inside the bounds counted as valid."""
    return GroupedSums(NumberLaw(family, column, True, column.outside == "drop"), column.steps)
