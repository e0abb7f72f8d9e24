"""The exact posterior of one parameter from one noisy sum: on a grid that follows the posterior.

The likelihood is that of ``inversion``. The grid starts from the whole prior and closes in on where the posterior is;
between grid points the log density is made of monotone cubic pieces.

Source: mechanisms, noise-aware inference (p(statistic | theta) on a grid of theta); Bernstein and Sheldon 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.interpolate import PchipInterpolator

from dpbayes_cli.core.noisy_observation import NoisySums, ScalarLaw
from dpbayes_cli.inference.posterior import QUANTILES, Marginal, Posterior
from dpbayes_cli.inference.sums.inversion import log_likelihoods

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpbayes_cli.base.numeric import Floats, Integers

    Rows = NDArray[np.bool_]

_COARSE = 5
"""The first grid divides the range of the prior into 2^5 parts, finer ones into more."""
_FINEST = 48
_ENOUGH = 20
"""So many coarse points where the posterior is suffice to tell where that is."""
_GRID = 256
"""Parts of the last grid, at least half of them where the posterior is; a power of two, or it could leave the prior."""
_FINE = 2049
_HASTE = 0.5
"""Frequencies, in parts of the usual number, where the likelihood only tells where to look."""
_NATS = 16.0
"""Points whose density is below exp(-16) = 1e-7 of the largest are left out."""
_IMPOSSIBLE = -1e300
"""The log density of a parameter so extreme that floats hold no likelihood of it."""
_UNEXPLAINED = "no parameter explains what was released: this is the prior; are the bounds and the prior right?"


@dataclass(frozen=True)
class GridDensity:
    """Posterior densities of one coordinate on fine grids, one row an observation.

    Attributes:
        law: the record law.
        grid: ascending coordinates, shape (n_problems, n_points).
        weights: the probability of the cell around each, rows adding up to one.
        explained: whether any parameter explains what was released, as far as floats can tell; where none does, the
            densities are those of the prior.
    """

    law: ScalarLaw
    grid: Floats
    weights: Floats
    explained: Rows

    def cdf(self, coordinates: Floats) -> Floats:
        """Return for each observation the probability below a coordinate, shape (n_problems,)."""
        edges, cumulative = self._edges()
        return np.array([np.interp(c, e, p) for c, e, p in zip(coordinates, edges, cumulative, strict=True)])

    def cdf_of_first(self, coordinates: Floats) -> Floats:
        """Return the probabilities below many coordinates in the first observation."""
        edges, cumulative = self._edges()
        return np.asarray(np.interp(coordinates, edges[0], cumulative[0]))

    def quantiles(self, probabilities: Floats) -> Floats:
        """Return parameters, shape (n_problems, n_probabilities)."""
        edges, cumulative = self._edges()
        points = np.array([np.interp(probabilities, p, e) for e, p in zip(edges, cumulative, strict=True)])
        found = self.law.parameters(points[..., None])[..., 0]
        return np.sort(found, axis=1) if np.all(np.diff(probabilities) >= 0) else found

    def draw(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw parameters, shape (n_problems, size)."""
        edges, cumulative = self._edges()
        uniforms = rng.random((len(edges), size))
        points = np.array([np.interp(u, p, e) for u, e, p in zip(uniforms, edges, cumulative, strict=True)])
        return self.law.parameters(points[..., None])[..., 0]

    def _edges(self) -> tuple[Floats, Floats]:
        """Return the edges of the cells and the probability below each."""
        middles = (self.grid[:, 1:] + self.grid[:, :-1]) / 2.0
        edges = np.hstack([self.grid[:, :1], middles, self.grid[:, -1:]])
        cumulative = np.hstack([np.zeros((len(edges), 1)), np.cumsum(self.weights, axis=1)])
        return edges, cumulative / cumulative[:, -1:]


def grid_density(observation: NoisySums, law: ScalarLaw, observed: Floats) -> GridDensity:
    """Solve observations that differ in their observations alone.

    All grids are parts of one, the range of the prior halved again and again: points that several observations need
    are computed once.

    Args:
        observation: law, noise and total.
        law: its law, a scalar one.
        observed: shape (n_problems, n_components).
    """
    shared = _Shared(observation, law, observed)
    level = np.full(len(observed), _COARSE)
    first, last = np.zeros_like(level), np.full_like(level, 1 << _COARSE)
    open_ones = np.arange(len(observed))
    while len(open_ones):
        rows = shared.log_densities(open_ones, first[open_ones], last[open_ones], level[open_ones], _HASTE)
        for i, row in zip(open_ones, rows, strict=True):
            begin, end = _relevant(row)
            first[i], last[i] = first[i] + begin, first[i] + end
        few = (last - first)[open_ones] < _ENOUGH
        open_ones = open_ones[few & (level[open_ones] < _FINEST)]
        finer = _halvings((last - first)[open_ones], 2 << _COARSE)
        level[open_ones] += finer
        first[open_ones] <<= finer
        last[open_ones] <<= finer
    finer = _halvings(last - first, _GRID)
    level, first = level + finer, first << finer
    first = np.minimum(first, (1 << level) - _GRID)
    last = first + _GRID
    densities = np.array(shared.log_densities(np.arange(len(observed)), first, last, level, 1.0))
    return _refined(law, np.stack([shared.coordinate(end, level) for end in (first, last)], axis=1), densities)


def _halvings(parts: Integers, most: int) -> Integers:
    """Return how often parts can be halved without becoming more than that."""
    return np.asarray(np.floor(np.log2(most / parts)), dtype=np.int64)


@dataclass(frozen=True)
class _Shared:
    """Log posterior densities of observations on parts of one grid."""

    observation: NoisySums
    law: ScalarLaw
    observed: Floats

    def coordinate(self, index: Integers, level: Integers) -> Floats:
        """Return the coordinates of points of the grid of a level, elementwise."""
        low, high = self.law.prior_range
        return np.asarray(low + (high - low) * np.ldexp(index.astype(np.float64), -level))

    def log_densities(
        self, chosen: Integers, first: Integers, last: Integers, level: Integers, effort: float
    ) -> list[Floats]:
        """Return unnormalized log densities of chosen observations, each from a first to a last point of its level."""
        parts = last - first + 1
        release = np.repeat(chosen, parts)
        starts = np.repeat(np.cumsum(parts) - parts, parts)
        index = np.arange(len(release)) - starts + np.repeat(first, parts)
        finest = int(level.max())
        coordinates, which = np.unique(index << np.repeat(finest - level, parts), return_inverse=True)
        points = self.coordinate(coordinates, np.full_like(coordinates, finest))[:, None]
        with np.errstate(all="ignore"):
            found = log_likelihoods(self.observation, self.law, self.observed, points, (which, release), effort)
            found = found + self.law.log_prior(points)[which]
        found = np.nan_to_num(found, nan=_IMPOSSIBLE, neginf=_IMPOSSIBLE, posinf=_IMPOSSIBLE)
        return np.split(found, np.cumsum(parts)[:-1])


def _relevant(log_density: Floats) -> tuple[int, int]:
    """Return the first and the last grid point that matter, and one more on each side."""
    (above,) = np.nonzero(log_density >= log_density.max() - _NATS)
    return max(int(above[0]) - 1, 0), min(int(above[-1]) + 1, len(log_density) - 1)


def _refined(law: ScalarLaw, ends: Floats, log_densities: Floats) -> GridDensity:
    """Interpolate log densities to fine grids by monotone cubics, which do not overshoot at kinks."""
    fine = np.linspace(0.0, 1.0, _FINE)
    coarse = np.linspace(0.0, 1.0, log_densities.shape[1])
    explained = log_densities.max(axis=1) > _IMPOSSIBLE
    if not explained.all():
        points = ends[~explained, :1] + (ends[~explained, 1:] - ends[~explained, :1]) * coarse
        log_densities[~explained] = law.log_prior(points[..., None])
    log_fine = PchipInterpolator(coarse, log_densities, axis=1)(fine)
    weights = np.exp(log_fine - log_fine.max(axis=1, keepdims=True))
    weights[:, [0, -1]] /= 2.0
    weights /= weights.sum(axis=1, keepdims=True)
    points = ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * fine
    return GridDensity(law, points, weights, explained)


def scalar_posterior(observation: NoisySums, law: ScalarLaw, n_draws: int, rng: np.random.Generator) -> Posterior:
    """Return the posterior of the one parameter of an observation."""
    found = grid_density(observation, law, np.array([observation.observed], dtype=np.float64))
    weights, points = found.weights[0], found.grid[0][:, None]
    values = law.parameters(points)[:, 0]
    mean = float(weights @ values)
    variance = float(weights @ (values - mean) ** 2)
    n = float(observation.total.n)
    if observation.valid:
        n = max(observation.observed[-1] / observation.valid, 0.0)
        n = n if observation.total.kind == "unbounded" else min(n, float(observation.total.n))
    data = min(float(weights @ law.complete_data_sd(points, np.full(len(points), n))[:, 0] ** 2), variance)
    quantiles = found.quantiles(np.array(list(QUANTILES.values())))[0]
    marginal = Marginal(
        mean,
        variance**0.5,
        dict(zip(QUANTILES, map(float, quantiles), strict=True)),
        data**0.5,
        (variance - data) ** 0.5,
    )
    how = {"known": "", "at-most": "; prior on the number of valid records: uniform on 0..n"}
    law_of_total = how.get(observation.total.kind, "; prior on the number of records: uniform")
    return Posterior(
        (marginal,),
        found.draw(n_draws, rng)[0][:, None],
        f"exact likelihood by inversion of characteristic functions, on a grid of the parameter{law_of_total}",
        exact=True,
        warnings=() if found.explained[0] else (_UNEXPLAINED,),
    )
