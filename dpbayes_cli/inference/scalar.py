"""The exact posterior of one parameter from one noisy sum: on a grid that follows the posterior, problem by problem.

The likelihood is that of ``inversion``. The grid starts from the whole prior and closes in on where the posterior is;
between grid points the log density is made of monotone cubic pieces.

Source: mechanisms, noise-aware inference (p(statistic | theta) on a grid of theta); Bernstein and Sheldon 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.interpolate import PchipInterpolator

from dpbayes_cli.inference.inversion import log_likelihoods
from dpbayes_cli.inference.posterior import QUANTILES, Marginal, Posterior
from dpbayes_cli.problems import NoisySums, ScalarLaw

if TYPE_CHECKING:
    from dpbayes_cli.numeric import Floats

_COARSE = 33
_GRID = 129
_FINE = 2049
_COMMON = 641
"""Grid points that many problems share, their characteristic functions being computed once for all of them."""
_MANY = 8
_ENOUGH = 40
"""So many points of the common grid inside the relevant part make a closer look needless."""
_HASTE = 0.5
"""Frequencies, in parts of the usual number, where the likelihood only tells where to look."""
_NATS = 16.0
"""Points whose density is below exp(-16) = 1e-7 of the largest are left out."""
_ROUNDS = 12
_IMPOSSIBLE = -1e300
"""The log density of a parameter so extreme that floats hold no likelihood of it."""


@dataclass(frozen=True)
class GridPosterior:
    """Posterior densities of one coordinate on fine grids, one row a problem.

    Attributes:
        law: the record law.
        grid: ascending coordinates, shape (n_problems, n_points).
        weights: the probability of the cell around each, rows adding up to one.
    """

    law: ScalarLaw
    grid: Floats
    weights: Floats

    def cdf(self, coordinates: Floats) -> Floats:
        """Return for each problem the probability below a coordinate, shape (n_problems,)."""
        edges, cumulative = self._edges()
        return np.array([np.interp(c, e, p) for c, e, p in zip(coordinates, edges, cumulative, strict=True)])

    def cdf_of_first(self, coordinates: Floats) -> Floats:
        """Return the probabilities below many coordinates in the first problem."""
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


def grid_posterior(problem: NoisySums, law: ScalarLaw, observed: Floats) -> GridPosterior:
    """Solve problems that differ in their observations alone.

    Args:
        problem: law, noise and total.
        law: its law, a scalar one that clamps.
        observed: shape (n_problems, n_components).
    """
    low, high = law.prior_range
    many = problem.total.kind == "known" and len(observed) >= _MANY
    common = np.linspace(low, high, _COMMON if many else _COARSE)
    log_density = _log_posteriors(problem, law, observed, common, 1.0 if many else _HASTE)
    grids = np.empty((len(observed), _GRID))
    densities = np.empty_like(grids)
    for i, column in enumerate(log_density.T):
        first, last = _relevant(column, _NATS)
        if many and last - first >= _ENOUGH:
            grids[i] = np.linspace(common[first], common[last], _GRID)
            densities[i] = PchipInterpolator(common[first : last + 1], column[first : last + 1])(grids[i])
        else:
            grids[i], densities[i] = _closed_in(problem, law, observed[i : i + 1], common[first], common[last])
    return _refined(law, grids, densities)


def _closed_in(problem: NoisySums, law: ScalarLaw, observed: Floats, low: float, high: float) -> tuple[Floats, Floats]:
    """Close in on where one posterior is; return its grid and log density there."""
    for _ in range(_ROUNDS):
        grid = np.linspace(low, high, _COARSE)
        first, last = _relevant(_log_posteriors(problem, law, observed, grid, _HASTE)[:, 0], _NATS)
        low, high = grid[first], grid[last]
        if last - first > 0.6 * _COARSE:
            break
    grid = np.linspace(low, high, _GRID)
    return grid, _log_posteriors(problem, law, observed, grid, 1.0)[:, 0]


def _relevant(log_density: Floats, nats: float) -> tuple[int, int]:
    """Return the first and the last grid point that matter, and one more on each side."""
    (above,) = np.nonzero(log_density > log_density.max() - nats)
    return max(int(above[0]) - 1, 0), min(int(above[-1]) + 1, len(log_density) - 1)


def _log_posteriors(problem: NoisySums, law: ScalarLaw, observed: Floats, grid: Floats, effort: float) -> Floats:
    """Return the unnormalized log posteriors on one grid, shape (n_points, n_problems)."""
    points = grid[:, None]
    with np.errstate(all="ignore"):
        found = log_likelihoods(problem, law, observed, points, effort) + law.log_prior(points)[:, None]
    return np.nan_to_num(found, nan=_IMPOSSIBLE, neginf=_IMPOSSIBLE, posinf=_IMPOSSIBLE)


def _refined(law: ScalarLaw, grid: Floats, log_density: Floats) -> GridPosterior:
    """Interpolate the log density to a fine grid by monotone cubics, which do not overshoot at kinks."""
    share = np.linspace(0.0, 1.0, grid.shape[1])
    fine = np.linspace(0.0, 1.0, _FINE)
    log_fine = PchipInterpolator(share, log_density, axis=1)(fine)
    weights = np.exp(log_fine - log_fine.max(axis=1, keepdims=True))
    weights[:, [0, -1]] /= 2.0
    weights /= weights.sum(axis=1, keepdims=True)
    points = grid[:, :1] + (grid[:, -1:] - grid[:, :1]) * fine
    return GridPosterior(law, points, weights)


def scalar_posterior(problem: NoisySums, law: ScalarLaw, n_draws: int, rng: np.random.Generator) -> Posterior:
    """Return the posterior of the one parameter of a problem."""
    found = grid_posterior(problem, law, np.array([problem.observed], dtype=np.float64))
    weights, points = found.weights[0], found.grid[0][:, None]
    values = law.parameters(points)[:, 0]
    mean = float(weights @ values)
    variance = float(weights @ (values - mean) ** 2)
    n = float(problem.total.n)
    if problem.valid:
        n = max(problem.observed[-1] / problem.valid, 0.0)
        n = min(n, float(problem.total.n)) if problem.total.kind == "at-most" else n
    data = min(float(weights @ law.known_sd(points, np.full(len(points), n))[:, 0] ** 2), variance)
    quantiles = found.quantiles(np.array(list(QUANTILES.values())))[0]
    marginal = Marginal(
        mean,
        variance**0.5,
        dict(zip(QUANTILES, map(float, quantiles), strict=True)),
        data**0.5,
        (variance - data) ** 0.5,
    )
    how = {"known": "", "at-most": "; prior on the number of valid records: uniform on 0..n"}
    law_of_total = how.get(problem.total.kind, "; prior on the number of records: uniform")
    return Posterior(
        (marginal,),
        found.draw(n_draws, rng)[0][:, None],
        f"exact likelihood by inversion of characteristic functions, on a grid of the parameter{law_of_total}",
        exact=True,
    )
