"""Hyperparameters of groups within larger groups, such as counties within states.

A larger group has a location: the mean of its groups on an unconstrained scale. Given the locations, groups are
independent, as with one level. The coordinates of a point of hyperparameters are those of the law of the locations,
which come first, and those of the law of the groups around their location and of their sizes.

Given the latter, the log likelihood of a group is a smooth function of its location. It is computed at nodes, added up
for each larger group, and interpolated to a finer grid by polynomials through 6 nodes. On this grid the locations are
summed out, with the exact prior mass of each cell. Then the hyperparameters are drawn by importance sampling, as with
one level.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy.sparse import csr_array, vstack
from scipy.special import logsumexp

from dpbayes_cli.inference.groups.count_axis import interpolation
from dpbayes_cli.inference.groups.hyperparameters import WeightedPoints, sample_density

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_FINER, _DEGREE = 16, 6
_POINTS, _LEAST_ESS = 128, 128.0
_LEAST_MASS = 1e-300


@dataclass(frozen=True, eq=False)
class LocationGrid:
    """The locations at which likelihoods are computed, and the finer grid on which locations are summed out.

    Beyond the nodes, the likelihood is that at the nearest node.

    Attributes:
        steps: ascending integers: a node is at ``spacing`` times its integer, shape (n_nodes,).
        spacing: the smallest distance between nodes.
        tails: distances of cells of the fine grid beyond the nodes, ascending, shape (n_tail,).
    """

    steps: Integers
    spacing: float
    tails: Floats

    @cached_property
    def nodes(self) -> Floats:
        """The locations at which likelihoods are computed, shape (n_nodes,)."""
        return np.asarray(self.steps * self.spacing, dtype=np.float64)

    @cached_property
    def basis(self) -> csr_array:
        """The interpolation from the nodes to the fine grid, shape (n_fine, n_nodes)."""
        inner = interpolation(self.steps * _FINER, _DEGREE)
        first, last = np.zeros((len(self.tails), len(self.steps))), np.zeros((len(self.tails), len(self.steps)))
        first[:, 0] = last[:, -1] = 1.0
        return csr_array(vstack([csr_array(first), inner, csr_array(last)]))

    @cached_property
    def fine(self) -> Floats:
        """The fine grid, ascending, shape (n_fine,)."""
        inner = np.arange(self.steps[0] * _FINER, self.steps[-1] * _FINER + 1) * (self.spacing / _FINER)
        return np.concatenate([inner[0] - self.tails[::-1], inner, inner[-1] + self.tails])

    @cached_property
    def edges(self) -> Floats:
        """The borders of the cells of the fine grid, shape (n_fine + 1,); the cells at both ends reach to infinity."""
        inner = (self.fine[1:] + self.fine[:-1]) / 2.0
        return np.concatenate([self.fine[:1], inner, self.fine[-1:]])

    def log_masses(self, below: Floats, above: Floats) -> Floats:
        """Return the log probabilities of the cells, given those below and above all edges but the first and last."""
        below, above = np.concatenate([[0.0], below, [1.0]]), np.concatenate([[1.0], above, [0.0]])
        masses = np.where(below[1:] < 0.5, np.diff(below), -np.diff(above))
        return np.asarray(np.log(np.maximum(masses, _LEAST_MASS)))

    def draw(self, weights: Floats, rng: np.random.Generator) -> Floats:
        """Draw a location for each column of weights on the fine grid, shape (weights.shape[1],)."""
        cumulated = np.cumsum(weights, axis=0)
        cell = (cumulated < rng.random(cumulated.shape[1]) * cumulated[-1]).sum(axis=0)
        cell = np.minimum(cell, len(self.fine) - 1)
        return np.asarray(self.edges[cell] + np.diff(self.edges)[cell] * rng.random(len(cell)))


class NestedLaw(Protocol):
    """What nested inference needs to know about the groups."""

    @property
    def n_upper(self) -> int:
        """How many coordinates belong to the law of the locations; they come first."""
        ...

    @property
    def grid(self) -> LocationGrid:
        """The locations."""
        ...

    def log_prior(self, points: Floats) -> Floats:
        """Return the log prior density of points of hyperparameters, shape (n_points,)."""
        ...

    def log_locations(self, upper: Floats) -> Floats:
        """Return the log probabilities of the cells of the fine grid under the law of the locations, (n_fine,)."""
        ...

    def log_likelihoods(self, lower: Floats) -> Floats:
        """Return the log likelihood of each larger group's observations at the nodes, shape (n_larger, n_nodes)."""
        ...


@dataclass(frozen=True, eq=False)
class NestedSample:
    """Weighted draws of the hyperparameters of groups within larger groups."""

    law: NestedLaw
    points: WeightedPoints

    def location_weights(self, point: Floats) -> Floats:
        """Return the posterior of each location on the fine grid, given hyperparameters, shape (n_fine, n_larger)."""
        split = self.law.n_upper
        logs = self.law.grid.basis @ self.law.log_likelihoods(point[split:]).T
        logs += self.law.log_locations(point[:split])[:, None]
        weights = np.exp(logs - logs.max(axis=0))
        return np.asarray(weights / weights.sum(axis=0))


def sample_nested(law: NestedLaw, starts: Floats, rng: np.random.Generator) -> NestedSample:
    """Return weighted draws of the hyperparameters.

    Args:
        law: the groups.
        starts: rough guesses of the mode, shape (n_starts, n_coordinates).
        rng: the generator.
    """

    def log_density(points: Floats) -> Floats:
        return log_nested_density(law, points)

    return NestedSample(law, sample_density(log_density, starts, _POINTS, _LEAST_ESS, rng))


def log_nested_density(law: NestedLaw, points: Floats) -> Floats:
    """Return the log posterior density of points of hyperparameters, up to a constant, shape (n_points,)."""
    split, result = law.n_upper, law.log_prior(points)
    rows, place = np.unique(points[:, split:], axis=0, return_inverse=True)
    for k, row in enumerate(rows):
        likelihoods = law.grid.basis @ law.log_likelihoods(row).T
        for i in np.flatnonzero(place == k):
            result[i] += logsumexp(likelihoods + law.log_locations(points[i, :split])[:, None], axis=0).sum()
    return np.asarray(result)
