"""The likelihood of hyperparameters given the noisy sums of all groups, and the groups' posteriors given them.

Given its number n of valid records and its coordinate eta, the sum of a group is approximately normal, with the moments
of n records. The noisy sum thus has the density of a normal variable plus noise. The evidence of a group is this
density times the probability of its noisy size, summed over n by the law of the sizes, and integrated over eta by the
law of the groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from dpbayes_cli.core.noisy_observation import GroupedSums, NoisyGroups
from dpbayes_cli.inference.groups.grouped_posterior import WORKERS, Pooling, map_parts
from dpbayes_cli.inference.groups.noisy_normal import normal_given_sum, scaled_density
from dpbayes_cli.inference.groups.population import log_hyperprior, normal_excess, normal_weights, prior_weights
from dpbayes_cli.inference.groups.record_moments import RecordMoments
from dpbayes_cli.inference.groups.selection import PublishedSizes
from dpbayes_cli.inference.groups.size_law import log_size_prior, log_sizes
from dpbayes_cli.inference.groups.sum_nodes import log_size_weights
from dpbayes_cli.inference.groups.tabulated import exp_minus

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_MAX_STORED = 25_000_000
"""Densities are computed anew in every pass over the groups, if there are more of them than this."""
_MAX_TABLE = 20_000
"""If there are more different sizes among the nodes, the law of the sizes is computed at this many and interpolated."""
_CHUNK = 1 << 16
"""Arrays of one chunk of groups have about this many elements, and stay in a CPU's cache."""
_BLOCK, _FEW = 1024, 256
"""Of so many groups, the different values among the nodes of the coordinates are listed; most are those of many."""
_LEAST = 1e-300
_Value = TypeVar("_Value")


@dataclass(frozen=True, eq=False)
class ChunkTerms:
    """The factors of the joint law of noisy sum, size and coordinate, for some groups and points of hyperparameters.

    Attributes:
        groups: the groups of the chunk.
        sizes: p(size) p(noisy size | size), up to a factor, shape (n_groups, n_sizes, n_points).
        density: p(noisy sum | size, coordinate), up to a factor, shape (n_groups, n_sizes, n_coordinates).
        population: the probabilities of the coordinates, shape (n_groups, n_coordinates, n_points).
        joint: p(coordinate, noisy sum and size), up to the factors above, of the shape of ``population``.
        evidence: the sum of ``joint`` over the coordinates, shape (n_groups, n_points).
        log_factors: the logarithm of the factors that differ between points, shape (n_groups, n_points).
        normal: the mean of the exact sum less its mean given size and coordinate, and the factor of its variance, given
            the noisy sum, of the shape of ``density``; empty unless ``SumLikelihood.given`` asks for it.
    """

    groups: slice
    sizes: Floats
    density: Floats
    population: Floats
    joint: Floats
    evidence: Floats
    log_factors: Floats
    normal: tuple[Floats, ...]

    @property
    def log_evidence(self) -> Floats:
        """The log evidence of all groups of the chunk, shape (n_points,)."""
        return np.asarray((np.log(self.evidence) + self.log_factors).sum(axis=0))

    @property
    def masses(self) -> Floats:
        """The posterior probabilities of the coordinates, given each point of hyperparameters."""
        return self.joint / self.evidence[:, None]

    @property
    def size_masses(self) -> Floats:
        """The posterior probabilities of the sizes, given each point of hyperparameters."""
        return self.sizes * (self.density @ self.population) / self.evidence[:, None]


class SumLikelihood:
    """Likelihoods of hyperparameters on fixed nodes.

    The coordinates of a point of hyperparameters are the center and the log spread of the groups' coordinates, and the
    log mean and the log shape of the law of the sizes. Without pooling, only the last two exist.
    """

    def __init__(
        self,
        observation: NoisyGroups,
        outcome: GroupedSums,
        moments: RecordMoments,
        pooling: Pooling,
        numbers: Floats,
        coordinates: Floats,
    ) -> None:
        """Compute what does not depend on hyperparameters.

        Args:
            observation: the noisy sums and sizes.
            outcome: the law of a record.
            moments: the moments of a record.
            pooling: whether the groups have a common law.
            numbers: the nodes of the sizes, shape (n_groups, n_sizes).
            coordinates: the nodes of the coordinate, shape (n_groups, n_coordinates).
        """
        self._noise, self._law, self._moments, self._pooling = observation.noise, outcome.law, moments, pooling
        self._scale = observation.spread * moments.spread
        self._sums = observation.observed[:, 0].astype(np.float64)
        sizes = observation.observed[:, 1].astype(np.float64)
        self.numbers, self.coordinates = numbers, coordinates
        self.published = None if observation.threshold is None else PublishedSizes(observation.threshold)
        self._size_terms = log_size_weights(self._noise, moments.steps, sizes, numbers)
        self._table = np.unique(numbers)
        if len(self._table) > _MAX_TABLE:
            even = np.expm1(np.linspace(0.0, np.log1p(self._table[-1]), _MAX_TABLE))
            self._table = np.unique(np.append(np.rint(even), self._table[-1] + 1.0))
        self._place = np.searchsorted(self._table, numbers, side="right") - 1
        after = np.minimum(self._place + 1, len(self._table) - 1)
        gaps = np.maximum(self._table[after] - self._table[self._place], 1.0)
        share = (numbers - self._table[self._place]) / gaps
        self._share = share if share.any() else None
        size = min(_BLOCK, max(_FEW, -(-len(numbers) // WORKERS)))
        self._blocks = [slice(i, min(i + size, len(numbers))) for i in range(0, len(numbers), size)]
        self._evaluate: Callable[..., tuple[Floats, ...]] = scaled_density
        self._levels = map_parts(lambda block: np.unique(coordinates[block], return_inverse=True), self._blocks)
        is_small = len(numbers) * numbers.shape[1] * coordinates.shape[1] <= _MAX_STORED
        self._stored = map_parts(self._densities, self._blocks) if is_small else None

    def given(self, outcome: GroupedSums, moments: RecordMoments) -> SumLikelihood:
        """Return the likelihood for another law of a record, on the same nodes, with ``ChunkTerms.normal``."""
        result = copy(self)
        result._law, result._moments, result._stored = outcome.law, moments, None
        result._scale *= moments.spread / self._moments.spread
        result._evaluate = normal_given_sum
        return result

    def _densities(self, groups: slice) -> list[Floats]:
        """Return the densities of the noisy sums, the logs of each group's factor, and ``ChunkTerms.normal``."""
        sums, numbers = self._sums[groups], self.numbers[groups, :, None]
        mean, sd = (each[:, None, :] for each in self._moments.at(self.coordinates[groups]))
        step = max(1, _CHUNK // (numbers.shape[1] * mean.shape[2]))
        parts = []
        for start in range(0, len(sums), step):
            rows = slice(start, start + step)
            residual = sums[rows, None, None] - numbers[rows] * mean[rows]
            parts.append(self._evaluate(self._noise, residual, np.sqrt(numbers[rows]) * sd[rows]))
        return list(parts[0]) if len(parts) == 1 else [np.concatenate(each) for each in zip(*parts, strict=True)]

    def terms(self, points: Floats) -> Iterator[ChunkTerms]:
        """Yield the factors of all groups, chunk by chunk, at points of shape (n_points, n_hyperparameters)."""
        log_law = self._log_law(points)
        for block in range(len(self._blocks)):
            yield from self._terms(block, points, log_law)

    def map_terms(self, function: Callable[[ChunkTerms], _Value], points: Floats) -> list[_Value]:
        """Return the values of a function of the factors of each chunk of groups, in order; see ``terms``."""
        log_law = self._log_law(points)
        blocks = map_parts(
            lambda block: [function(each) for each in self._terms(block, points, log_law)], range(len(self._blocks))
        )
        return list(chain.from_iterable(blocks))

    def _log_law(self, points: Floats) -> Floats:
        return log_sizes(self._table, np.exp(points[:, -2, None]), np.exp(points[:, -1, None])).T

    def _terms(self, number: int, points: Floats, log_law: Floats) -> Iterator[ChunkTerms]:
        step = max(1, _CHUNK // (len(points) * self.coordinates.shape[1]))
        block = self._blocks[number]
        if self._pooling == "partial":
            levels, place = self._levels[number]
            center, spread = points[:, 0], np.exp(points[:, 1])
            excess = normal_excess(levels, center, spread)
        for start in range(block.start, block.stop, step):
            groups = slice(start, min(start + step, block.stop))
            inside = slice(groups.start - block.start, groups.stop - block.start)
            log_weights = self._interpolated(log_law, groups)
            log_weights += self._size_terms[groups, :, None]
            factors = log_weights.max(axis=1)
            sizes = exp_minus(factors[:, None] - log_weights)
            stored = self._stored
            density, density_factors, *normal = (
                self._densities(groups) if stored is None else (each[inside] for each in stored[number])
            )
            nodes = self.coordinates[groups]
            if self._pooling == "partial":
                population = normal_weights(nodes, center, spread, excess[place[inside]])
            else:
                population = np.repeat(prior_weights(nodes, self._law), len(points), axis=2)
            joint = density.swapaxes(1, 2) @ sizes
            joint *= population
            evidence = np.maximum(joint.sum(axis=1), _LEAST)
            factors += density_factors[:, None]
            yield ChunkTerms(groups, sizes, density, population, joint, evidence, factors, tuple(normal))

    def _interpolated(self, log_law: Floats, groups: slice) -> Floats:
        """Return values at the sizes, given those at the sizes of the table, shape (n, n_sizes, n_points)."""
        place = self._place[groups]
        if self._share is None:
            return np.asarray(log_law[place])
        share = self._share[groups, :, None]
        after = np.minimum(place + 1, len(log_law) - 1)
        return np.asarray((1.0 - share) * log_law[place] + share * log_law[after])

    def log_posterior(self, points: Floats) -> Floats:
        """Return the log posterior density of points of hyperparameters, up to a constant, shape (n_points,)."""
        return self.log_density(points, np.sum(self.map_terms(lambda each: each.log_evidence, points), axis=0))

    def log_density(self, points: Floats, log_evidence: Floats) -> Floats:
        """Return the log posterior density of points, up to a constant, given the log evidence of all groups."""
        result = log_evidence + log_size_prior(points[:, -2], points[:, -1])
        if self._pooling == "partial":
            result = result + log_hyperprior(self._law, self._scale, points[:, 0], points[:, 1])
        if self.published is not None:
            result = result - len(self._sums) * self.published.log_probability(*np.exp(points[:, -2:].T))
        return np.nan_to_num(result, nan=-1e300, neginf=-1e300)

    def masses(self, points: Floats) -> Floats:
        """Return the posterior probabilities of the coordinates, averaged over points, shape of ``coordinates``."""
        return np.concatenate(self.map_terms(lambda each: each.masses.mean(axis=2), points))
