"""Summaries and draws of the groups' posteriors, given weighted points of hyperparameters and nodes of each group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.core.noisy_observation import GroupedSums
from dpbayes_cli.inference.groups.grouped_posterior import LEVELS, GroupedPosterior, Pooling
from dpbayes_cli.inference.groups.hyperparameters import WeightedPoints, ess_warnings
from dpbayes_cli.inference.groups.population import draw_coordinates, parameter_moments
from dpbayes_cli.inference.groups.record_moments import RecordMoments
from dpbayes_cli.inference.groups.selection import mean_of_nonempty
from dpbayes_cli.inference.groups.sum_likelihood import SumLikelihood

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_FEWEST_POINTS, _MOST_POINTS = 16, 1024
_PAIRS = 20_000
"""Summaries average over about this many pairs of a group and a point of hyperparameters."""
_OVERALL_DRAWS = 400
_TABLE_POINTS = 16385
_LEAST_ESS = 30.0
_BANDWIDTH = 0.5


@dataclass(frozen=True, eq=False)
class SumFit:
    """The nodes of the groups, and weighted points of hyperparameters; see ``SumLikelihood``."""

    likelihood: SumLikelihood
    outcome: GroupedSums
    moments: RecordMoments
    pooling: Pooling
    sample: WeightedPoints


class SumPosterior:
    """The posterior of groups on their nodes."""

    def __init__(self, fit: SumFit, sample: WeightedPoints, rng: np.random.Generator) -> None:
        """Average the posteriors of coordinates and sizes over points of hyperparameters.

        Args:
            fit: the nodes.
            sample: the points; those of the fit, unless more is known about them.
            rng: the generator.
        """
        self._likelihood, self._law, self._moments = fit.likelihood, fit.outcome.law, fit.moments
        self._pooling = pooling = fit.pooling
        self._sample = sample
        likelihood, nodes = fit.likelihood, fit.likelihood.coordinates
        middles = (nodes[:, 1:] + nodes[:, :-1]) / 2.0
        self._edges = np.concatenate([nodes[:, :1], middles, nodes[:, -1:]], axis=1)
        self._values = self._parameters(nodes)
        count = int(np.clip(_PAIRS // len(nodes), _FEWEST_POINTS, _MOST_POINTS))
        points = sample.thin(count, rng)
        thresholds = self._overall_coordinates(points) if pooling == "partial" else None
        self._masses, self._size_masses = np.empty_like(nodes), np.empty_like(likelihood.numbers)
        self._above, errors = np.empty(len(nodes)), np.empty(len(nodes))
        for each in likelihood.terms(points):
            rows, masses = each.groups, each.masses
            self._masses[rows] = masses.mean(axis=2)
            self._size_masses[rows] = each.size_masses.mean(axis=2)
            errors[rows] = (self._values[rows, None, :] @ masses)[:, 0].std(axis=1)
            if thresholds is not None:
                beyond = self._shares_above(rows, thresholds)
                self._above[rows] = (masses * beyond).sum(axis=(1, 2)) / count
        self._errors = errors / math.sqrt(min(count, sample.ess))
        self._cumulative = np.concatenate([np.zeros((len(nodes), 1)), np.cumsum(self._masses, axis=1)], axis=1)
        self._cumulative /= self._cumulative[:, -1:]

    def combine(self, others: Sequence[SumPosterior], weights: Floats) -> None:
        """Replace by the average with other posteriors of the same groups.

        Args:
            others: posteriors on nodes of the same numbers, and on any nodes of coordinates.
            weights: the weight of this posterior, then those of the others; they add up to one.
        """
        parts = [self, *others]
        rows = range(len(self._edges))
        self._cumulative = np.array(
            [
                sum(
                    w * np.interp(self._edges[g], p._edges[g], p._cumulative[g])
                    for w, p in zip(weights, parts, strict=True)
                )
                for g in rows
            ]
        )
        self._masses = np.diff(self._cumulative, axis=1)
        for name in ("_size_masses", "_above", "_errors"):
            setattr(self, name, sum(w * getattr(p, name) for w, p in zip(weights, parts, strict=True)))

    def _parameters(self, coordinates: Floats) -> Floats:
        return self._law.parameters(coordinates[..., None])[..., 0]

    def _overall_coordinates(self, points: Floats) -> Floats:
        """Return the coordinates at which the parameter is its mean over groups, shape (n_points,)."""
        mean, _ = parameter_moments(self._law, self._moments.domain, points[:, 0], np.exp(points[:, 1]))
        grid = np.linspace(*self._moments.domain, _TABLE_POINTS)
        return np.interp(mean, self._parameters(grid), grid)

    def _shares_above(self, rows: slice, thresholds: Floats) -> Floats:
        """Return how much of the interval around each node is above each threshold, shape (n, n_nodes, n_points)."""
        edges = self._edges[rows, :, None]
        return np.clip((edges[:, 1:] - thresholds) / np.diff(edges, axis=1), 0.0, 1.0)

    def summarize(self, samples: int, rng: np.random.Generator) -> GroupedPosterior:
        """Return the posterior with draws of the hyperparameters."""
        means = (self._masses * self._values).sum(axis=1)
        sds = np.sqrt((self._masses * (self._values - means[:, None]) ** 2).sum(axis=1))
        levels = np.array(LEVELS)
        ends = np.array([np.interp(levels, c, e) for c, e in zip(self._cumulative, self._edges, strict=True)])
        draws, new_group = self.draw_hyperparameters(samples, rng)
        above = self._above if self._pooling == "partial" else self._above_others(rng)
        return GroupedPosterior(
            means[:, None],
            sds[:, None],
            self._parameters(ends)[:, None, :],
            self._sizes(),
            above[:, None],
            ("mean", "sd", "records"),
            draws,
            new_group[:, None],
            self._method,
            float((self._errors / np.maximum(sds, 1e-300)).max()),
            self.draw,
            ess_warnings(self._sample.ess, _LEAST_ESS),
        )

    @property
    def _method(self) -> str:
        laws = "the law of the groups and the law of their sizes" if self._pooling == "partial" else "the law of sizes"
        laws += ", restricted to groups that are published," if self._likelihood.published is not None else ""
        return (
            f"sums of a group's records taken as normal given their number and the parameter, plus noise; {laws} "
            "drawn by importance sampling, and each group's parameter and number of records on a grid"
        )

    def _sizes(self) -> Floats:
        """Return the mean, the 5 % and the 95 % quantile of each group's number of records, shape (n_groups, 3)."""
        numbers = self._likelihood.numbers
        mean = (self._size_masses * numbers).sum(axis=1)
        cumulative = np.cumsum(self._size_masses, axis=1)
        cumulative /= cumulative[:, -1:]
        last = numbers.shape[1] - 1
        low, high = (
            np.take_along_axis(numbers, np.minimum((cumulative < level).sum(axis=1), last)[:, None], axis=1)[:, 0]
            for level in (LEVELS[0], LEVELS[-1])
        )
        return np.stack([mean, low, high], axis=1)

    def draw_hyperparameters(self, size: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw the mean and the sd of the groups' parameter with the mean size, and the parameter of a new group."""
        points = self._smooth_draws(size, rng)
        sizes = np.exp(points[:, -2:].T)
        records = sizes[0] if self._likelihood.published is None else mean_of_nonempty(*sizes)
        if self._pooling == "partial":
            center, spread, domain = points[:, 0], np.exp(points[:, 1]), self._moments.domain
            mean, sd = parameter_moments(self._law, domain, center, spread)
            new = self._parameters(draw_coordinates(domain, center, spread, rng))
        else:
            first, second = np.zeros(size), np.zeros(size)
            for row in range(len(self._edges)):
                values = self._draw_group(row, size, rng)
                first += values / len(self._edges)
                second += values**2 / len(self._edges)
            mean, sd = first, np.sqrt(np.maximum(second - first**2, 0.0))
            new = self._law.parameters(self._law.draw_prior(size, rng))[:, 0]
        return np.stack([mean, sd, records], axis=1), new

    def _smooth_draws(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw points of hyperparameters that are all different, with the mean and the covariance of the sample.

        Resampled points are moved by small normal steps, after they are shrunk toward the mean.

        Source: Liu and West 2001, sec. 10.3 (kernel smoothing with shrinkage).
        """
        points, weights = self._sample.points, self._sample.weights
        center, d = weights @ points, points.shape[1]
        rest = points - center
        root = np.linalg.cholesky((rest.T * weights) @ rest + 1e-14 * np.eye(d))
        width = _BANDWIDTH * self._sample.ess ** (-1.0 / (d + 4.0))
        kept = center + math.sqrt(1.0 - width**2) * (self._sample.resample(size, rng) - center)
        return np.asarray(kept + width * rng.standard_normal((size, d)) @ root.T)

    def _draw_group(self, row: int, size: int, rng: np.random.Generator) -> Floats:
        return self._parameters(np.interp(rng.random(size), self._cumulative[row], self._edges[row]))

    def _above_others(self, rng: np.random.Generator) -> Floats:
        """Return the probability that a group's parameter is above the mean over the groups, if they are independent.

        This is the probability of being above the mean of the other groups.
        """
        n_groups = len(self._edges)
        values = np.array([self._draw_group(row, _OVERALL_DRAWS, rng) for row in range(n_groups)])
        if n_groups == 1:
            return np.full(1, 0.5)
        others = (values.sum(axis=0) - values) / (n_groups - 1)
        ends = self._parameters(self._edges)
        below = [np.interp(o, e, c).mean() for o, e, c in zip(others, ends, self._cumulative, strict=True)]
        return 1.0 - np.array(below)

    def draw(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw the parameters of all groups, jointly with the hyperparameters, shape (size, n_groups, 1)."""
        points = self._sample.resample(size, rng)
        result = np.empty((size, len(self._edges), 1))
        for each in self._likelihood.terms(points):
            cumulative = np.cumsum(each.masses, axis=1)
            level = rng.random((len(cumulative), 1, size)) * cumulative[:, -1:]
            node = np.minimum((cumulative < level).sum(axis=1), cumulative.shape[1] - 1)
            edges = self._edges[each.groups]
            low, high = (np.take_along_axis(edges, node + side, axis=1) for side in (0, 1))
            coordinates = low + (high - low) * rng.random(low.shape)
            result[:, each.groups, 0] = self._parameters(coordinates).T
        return result
