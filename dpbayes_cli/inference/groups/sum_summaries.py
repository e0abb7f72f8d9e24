"""Summaries and draws of the groups' posteriors, given weighted points of hyperparameters and nodes of each group."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.core.noisy_observation import GroupedSums
from dpbayes_cli.inference.groups.grouped_counts import spread_of_many
from dpbayes_cli.inference.groups.grouped_posterior import LEVELS, DrawGroups, GroupedPosterior, Pooling, map_parts
from dpbayes_cli.inference.groups.hyperparameters import WeightedPoints, ess_warnings
from dpbayes_cli.inference.groups.population import draw_coordinates, parameter_moments
from dpbayes_cli.inference.groups.record_moments import RecordMoments
from dpbayes_cli.inference.groups.selection import mean_of_nonempty
from dpbayes_cli.inference.groups.sum_likelihood import ChunkTerms, SumLikelihood
from dpbayes_cli.inference.groups.sum_nodes import interpolate_rows

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_FEWEST_POINTS, _MOST_POINTS = 16, 1024
_PAIRS = 20_000
"""Summaries average over about this many pairs of a group and a point of hyperparameters."""
_OVERALL_DRAWS = 400
_DRAWS_AT_ONCE = 64
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

    def parameters(self, coordinates: Floats) -> Floats:
        """Return the parameters at coordinates, elementwise."""
        return self.outcome.law.parameters(coordinates[..., None])[..., 0]

    def draw_records(self, size: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw points of hyperparameters, and the mean number of records of a group."""
        points = self._smooth_draws(size, rng)
        sizes = np.exp(points[:, -2:].T)
        published = self.likelihood.published
        return points, sizes[0] if published is None else mean_of_nonempty(*sizes)

    def draw_population(self, size: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw the mean and the sd of the groups' parameter with the mean size, and the parameter of a new group."""
        points, records = self.draw_records(size, rng)
        center, spread, domain = points[:, 0], np.exp(points[:, 1]), self.moments.domain
        mean, sd = parameter_moments(self.outcome.law, domain, center, spread)
        return np.stack([mean, sd, records], axis=1), self.parameters(draw_coordinates(domain, center, spread, rng))

    def overall_coordinates(self, points: Floats) -> Floats:
        """Return the coordinates at which the parameter is its mean over groups, shape (n_points,)."""
        mean, _ = parameter_moments(self.outcome.law, self.moments.domain, points[:, 0], np.exp(points[:, 1]))
        grid = np.linspace(*self.moments.domain, _TABLE_POINTS)
        return np.interp(mean, self.parameters(grid), grid)

    def _smooth_draws(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw points of hyperparameters that are all different, with the mean and the covariance of the sample.

        Resampled points are moved by small normal steps, after they are shrunk toward the mean.

        Source: Liu and West 2001, sec. 10.3 (kernel smoothing with shrinkage).
        """
        center, root = self.sample.moments
        d = len(center)
        width = _BANDWIDTH * self.sample.ess ** (-1.0 / (d + 4.0))
        kept = center + math.sqrt(1.0 - width**2) * (self.sample.resample(size, rng) - center)
        return np.asarray(kept + width * rng.standard_normal((size, d)) @ root.T)

    def result(self, summaries: Summaries, draws: Floats, new_group: Floats, sampler: DrawGroups) -> GroupedPosterior:
        """Return the posterior, given its parts."""
        laws = "the law of the groups and the law of their sizes" if self.pooling == "partial" else "the law of sizes"
        laws += ", restricted to groups that are published," if self.likelihood.published is not None else ""
        return GroupedPosterior(
            summaries.means[:, None],
            summaries.sds[:, None],
            summaries.quantiles[:, None, :],
            summaries.sizes,
            summaries.above[:, None],
            ("mean", "sd", "records"),
            draws,
            new_group[:, None],
            "sums of a group's records taken as normal given their number and the parameter, plus noise; "
            f"{laws} drawn by importance sampling, and each group's parameter and number of records on a grid",
            float((summaries.errors / np.maximum(summaries.sds, 1e-300)).max()),
            sampler,
            ess_warnings(self.sample.ess, _LEAST_ESS),
        )


@dataclass(frozen=True, eq=False)
class Summaries:
    """Summaries of groups: see ``GroupedPosterior``; ``errors`` are Monte Carlo errors of the means."""

    means: Floats
    sds: Floats
    quantiles: Floats
    sizes: Floats
    above: Floats
    errors: Floats


def summary_points(sample: WeightedPoints, n_groups: int, rng: np.random.Generator) -> Floats:
    """Return points of hyperparameters over which the posteriors of the groups are averaged, with equal weights.

    They are points of the sample, moved a little so that they have the mean and the covariance of the sample.
    """
    points = sample.thin(int(np.clip(_PAIRS // n_groups, _FEWEST_POINTS, _MOST_POINTS)), rng)
    if sample.ess < _LEAST_ESS:  # a warning is given then
        return points
    center, root = sample.moments
    rest = points - points.mean(axis=0)
    own = np.linalg.cholesky(rest.T @ rest / len(rest) + 1e-14 * np.eye(rest.shape[1]))
    return np.asarray(center + np.linalg.solve(own, rest.T).T @ root.T)


class SumPosterior:
    """The posterior of groups on their nodes."""

    def __init__(self, fit: SumFit, rng: np.random.Generator, points: Floats | None = None) -> None:
        """Average the posteriors of coordinates and sizes over points of hyperparameters.

        Args:
            fit: the nodes, and the points.
            rng: the generator.
            points: equally weighted points, if they are chosen already; nothing is drawn then.
        """
        self._fit = fit
        likelihood, nodes = fit.likelihood, fit.likelihood.coordinates
        middles = (nodes[:, 1:] + nodes[:, :-1]) / 2.0
        self._edges = np.concatenate([nodes[:, :1], middles, nodes[:, -1:]], axis=1)
        self._values = fit.parameters(nodes)
        points = summary_points(fit.sample, len(nodes), rng) if points is None else points
        thresholds = fit.overall_coordinates(points) if fit.pooling == "partial" else None
        self._masses, self._size_masses = np.empty_like(nodes), np.empty_like(likelihood.numbers)
        self._above, errors = np.zeros(len(nodes)), np.empty(len(nodes))

        def average(each: ChunkTerms) -> None:
            rows, masses = each.groups, each.masses
            self._masses[rows] = masses.mean(axis=2)
            self._size_masses[rows] = each.size_masses.mean(axis=2)
            errors[rows] = (self._values[rows, None, :] @ masses)[:, 0].std(axis=1)
            if thresholds is not None:
                beyond = self._shares_above(rows, thresholds)
                self._above[rows] = (masses * beyond).sum(axis=(1, 2)) / len(points)

        likelihood.map_terms(average, points)
        self._errors = errors / math.sqrt(fit.sample.ess)  # the points have the moments of the sample
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

    def _shares_above(self, rows: slice, thresholds: Floats) -> Floats:
        """Return how much of the interval around each node is above each threshold, shape (n, n_nodes, n_points)."""
        edges = self._edges[rows, :, None]
        return np.clip((edges[:, 1:] - thresholds) / np.diff(edges, axis=1), 0.0, 1.0)

    def summarize(self, samples: int, rng: np.random.Generator) -> GroupedPosterior:
        """Return the posterior with draws of the hyperparameters."""
        draws, new_group = self.draw_hyperparameters(samples, rng)
        if self._fit.pooling == "none":
            self._above = self._above_others(rng)
        return self._fit.result(self.summaries(), draws, new_group, self.draw)

    def summaries(self) -> Summaries:
        """Return the summaries of all groups."""
        means = (self._masses * self._values).sum(axis=1)
        sds = np.sqrt((self._masses * (self._values - means[:, None]) ** 2).sum(axis=1))
        ends = interpolate_rows(np.array(LEVELS), self._cumulative, self._edges)
        quantiles = self._fit.parameters(ends)
        return Summaries(means, sds, quantiles, self._sizes(), self._above, self._errors)

    def _sizes(self) -> Floats:
        """Return the mean, the 5 % and the 95 % quantile of each group's number of records, shape (n_groups, 3)."""
        numbers = self._fit.likelihood.numbers
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
        if self._fit.pooling == "partial":
            return self._fit.draw_population(size, rng)
        _, records = self._fit.draw_records(size, rng)
        first, second = np.zeros(size), np.zeros(size)
        for row in range(len(self._edges)):
            values = self._draw_group(row, size, rng)
            first += values / len(self._edges)
            second += values**2 / len(self._edges)
        draws = np.stack([first, np.sqrt(np.maximum(second - first**2, 0.0)), records], axis=1)
        return draws, draw_stated(self._fit, size, rng)

    def _draw_group(self, row: int, size: int, rng: np.random.Generator) -> Floats:
        return self._fit.parameters(np.interp(rng.random(size), self._cumulative[row], self._edges[row]))

    def _above_others(self, rng: np.random.Generator) -> Floats:
        """Return the probability that a group's parameter is above the mean over the groups, if they are independent.

        This is the probability of being above the mean of the other groups.
        """
        n_groups = len(self._edges)
        values = np.array([self._draw_group(row, _OVERALL_DRAWS, rng) for row in range(n_groups)])
        if n_groups == 1:
            return np.full(1, 0.5)
        others = (values.sum(axis=0) - values) / (n_groups - 1)
        return 1.0 - self.shares_below(others)

    def shares_below(self, values: Floats) -> Floats:
        """Return the probability that each group's parameter is below a random value, shape (n_groups,).

        Args:
            values: draws of the value, shape (n_draws,) or (n_groups, n_draws).
        """
        ends = self._fit.parameters(self._edges)
        values = np.broadcast_to(values, (len(ends), np.shape(values)[-1]))
        return np.array([np.interp(v, e, c).mean() for v, e, c in zip(values, ends, self._cumulative, strict=True)])

    def draw(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw the parameters of all groups, jointly with the hyperparameters, shape (size, n_groups, 1)."""
        return self.draw_given(self._fit.sample.resample(size, rng), rng)

    def draw_given(self, points: Floats, rng: np.random.Generator) -> Floats:
        """Draw the parameters of all groups once for each point of hyperparameters, shape (n_points, n_groups, 1)."""
        result = np.empty((len(points), len(self._edges), 1))
        for start in range(0, len(points), _DRAWS_AT_ONCE):
            some = points[start : start + _DRAWS_AT_ONCE]
            for each in self._fit.likelihood.terms(some):
                cumulative = np.cumsum(each.masses, axis=1)
                level = rng.random((len(cumulative), 1, len(some))) * cumulative[:, -1:]
                node = np.minimum((cumulative < level).sum(axis=1), cumulative.shape[1] - 1)
                edges = self._edges[each.groups]
                low, high = (np.take_along_axis(edges, node + side, axis=1) for side in (0, 1))
                coordinates = low + (high - low) * rng.random(low.shape)
                result[start : start + len(some), each.groups, 0] = self._fit.parameters(coordinates).T
        return result


def draw_stated(fit: SumFit, size: int, rng: np.random.Generator) -> Floats:
    """Draw the parameter of a new group from the stated prior, shape (size,)."""
    return fit.outcome.law.parameters(fit.outcome.law.draw_prior(size, rng))[:, 0]


def summarize_parts(
    fit: SumFit, parts: Sequence[Callable[[], SumFit]], samples: int, rng: np.random.Generator
) -> GroupedPosterior:
    """Return the posterior of very many groups, computed part by part.

    Args:
        fit: the fit to some of the groups.
        parts: functions that return the fit extended to a part of the groups.
        samples: how many draws of the hyperparameters to return.
        rng: the generator.
    """
    points = summary_points(fit.sample, len(fit.likelihood.numbers), rng)
    several = map_parts(lambda part: SumPosterior(part(), rng, points).summaries(), parts)
    summaries = Summaries(*(np.concatenate(each) for each in zip(*map(astuple, several), strict=True)))
    if fit.pooling == "partial":
        draws, new_group = fit.draw_population(samples, rng)
    else:
        _, records = fit.draw_records(samples, rng)
        spread = spread_of_many(summaries.means[:, None], summaries.sds[:, None], samples, rng)
        draws = np.column_stack([*spread, records])
        new_group = draw_stated(fit, samples, rng)
        below = map_parts(lambda part: SumPosterior(part(), rng, points).shares_below(draws[:_OVERALL_DRAWS, 0]), parts)
        summaries = replace(summaries, above=1.0 - np.concatenate(below))

    def draw(size: int, generator: np.random.Generator) -> Floats:
        chosen = fit.sample.resample(size, generator)
        each = [SumPosterior(part(), generator, points[:1]).draw_given(chosen, generator) for part in parts]
        return np.concatenate(each, axis=1)

    return fit.result(summaries, draws, new_group, draw)
