"""Posterior densities of the one parameter of a law, on fine grids."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import PchipInterpolator

from dpbayes_cli.base.numeric import Booleans, Floats
from dpbayes_cli.core.record_law import ScalarLaw

FINE_POINTS = 2049
"""The number of grid points of each density."""


@dataclass(frozen=True)
class GridDensity:
    """Posterior densities of the one parameter of a law on fine grids, one row for each observation.

    A coordinate is the parameter on the unconstrained scale of the law; see ``RecordLaw``.

    Attributes:
        law: the law of a record.
        grid: ascending coordinates, shape (n_observations, n_points).
        weights: the probability of the interval around each grid point; each row sums to one.
        explained: whether some parameter value has a positive likelihood, in floating point, shape (n_observations,);
            if not, the density is that of the prior.
    """

    law: ScalarLaw
    grid: Floats
    weights: Floats
    explained: Booleans

    def cdf(self, coordinates: Floats) -> Floats:
        """Return the posterior probability below each coordinate; the first axis of both is over observations."""
        edges, cumulative = self._edges()
        return np.array([np.interp(c, e, p) for c, e, p in zip(coordinates, edges, cumulative, strict=True)])

    def quantiles(self, probabilities: Floats) -> Floats:
        """Return the quantiles of the parameter at given probabilities, shape (n_observations, n_probabilities)."""
        edges, cumulative = self._edges()
        points = np.array([np.interp(probabilities, p, e) for e, p in zip(edges, cumulative, strict=True)])
        return np.sort(self.law.parameters(points[..., None])[..., 0], axis=1)

    def replace(self, row: int, points: Floats, log_densities: Floats) -> None:
        """Replace the density of one observation, given log densities at ascending coordinates of any spacing."""
        index = np.linspace(0.0, len(points) - 1.0, FINE_POINTS)
        fine = np.interp(index, np.arange(len(points)), points)
        log_fine = PchipInterpolator(points, log_densities)(fine)
        cells = np.diff(np.concatenate([fine[:1], (fine[1:] + fine[:-1]) / 2.0, fine[-1:]]))
        weights = np.exp(log_fine - log_fine.max()) * cells
        self.grid[row], self.weights[row] = fine, weights / weights.sum()

    def draw(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw parameter values, shape (n_observations, size)."""
        edges, cumulative = self._edges()
        uniforms = rng.random((len(edges), size))
        points = np.array([np.interp(u, p, e) for u, e, p in zip(uniforms, edges, cumulative, strict=True)])
        return self.law.parameters(points[..., None])[..., 0]

    def _edges(self) -> tuple[Floats, Floats]:
        middles = (self.grid[:, 1:] + self.grid[:, :-1]) / 2.0
        edges = np.hstack([self.grid[:, :1], middles, self.grid[:, -1:]])
        cumulative = np.hstack([np.zeros((len(edges), 1)), np.cumsum(self.weights, axis=1)])
        return edges, cumulative / cumulative[:, -1:]
