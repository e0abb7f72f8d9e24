"""Infer the means of groups of normal numbers of unknown variance, which is the same in all groups.

Given the standard deviation within groups, the noisy sums and sizes have the posterior of ``grouped_sums``. Their
evidence, the density of the total of the noisy sums of squares (``squares``) and the prior give the posterior density
of the standard deviation. It is computed at a few nodes that are evenly spaced on the log scale, and posteriors are
averaged over them. A node may take the nodes of sizes and coordinates of another one, and its draws of the
hyperparameters, with new weights.

If there are more than 1,000 groups, this is done for 500 to 1,000 evenly chosen ones. The posteriors of all groups are
then those given the most probable node, because the standard deviation within groups is well known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.interpolate import CubicSpline

from dpbayes_cli.base.numeric import normalize
from dpbayes_cli.core.noisy_observation import GroupedMoments, GroupedSums, NoisyGroups
from dpbayes_cli.inference.groups.grouped_posterior import GroupedPosterior, Pooling, map_parts
from dpbayes_cli.inference.groups.grouped_sums import fewer_sizes, fit_sums, part_of, refit_sums, summarize_all
from dpbayes_cli.inference.groups.hyperparameters import WeightedPoints
from dpbayes_cli.inference.groups.record_moments import RecordMoments
from dpbayes_cli.inference.groups.squares import SquareTotal
from dpbayes_cli.inference.groups.sum_likelihood import SumLikelihood
from dpbayes_cli.inference.groups.sum_summaries import SumFit, SumPosterior

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_POINTS, _FEWEST_POINTS, _PILOT_POINTS = 25_600, 48, 8
"""A node weights about ``_POINTS`` pairs of a group and a point of hyperparameters, and those of a pilot few points."""
_MOST_POINTS = 128
_SHARE = 0.25
"""The share of the usual number of draws of hyperparameters at each node."""
_MOST_GROUPS, _PILOT_GROUPS, _PILOT_NODES, _MAX_PILOTS = 1000, 100, 9, 6
_MORE_GROUPS = 300, _MOST_GROUPS
"""The search for the mode continues with so many groups."""
_MAX_SEARCHES, _WIDEST_GAP = 6, 2.0
"""The search for the mode ends if the nodes next to the best one are at most so many standard deviations away."""
_RANGE = np.array([1e-4, 1.0 - 1e-4])
"""The levels of the quantiles of the prior between which the standard deviation is searched."""
_SPACING, _REACH, _MOST_NODES = 1.25, 2.5, 24
"""The nodes are 1.25 posterior standard deviations apart, and reach to 2.5 of these; more are added while the last ones
matter."""
_NEAR, _LEAST_ESS_SHARE = 0.3, 0.4
"""A node takes the draws of the hyperparameters of another node, with new weights, if it is this near on the log scale
or if the effective sample size remains at least this share of the draws."""
_NEGLIGIBLE = 0.03
_GRID = 2001


@dataclass(frozen=True, eq=False)
class _Node:
    """The posterior given one standard deviation, and the log posterior density of its log, up to a constant."""

    fit: SumFit
    log_density: float


class _Groups:
    """The observation, seen as noisy sums given the standard deviation."""

    def __init__(self, observation: NoisyGroups, outcome: GroupedMoments, pooling: Pooling) -> None:
        self._observation, self._outcome, self.pooling = observation, outcome, pooling
        self._sums = replace(observation, observed=observation.observed[:, [0, 2]])

    def __len__(self) -> int:
        return len(self._observation.observed)

    def part(self, most: int) -> _Groups:
        """Return evenly chosen groups, at least half as many as ``most``, or all groups if these are fewer."""
        return _Groups(part_of(self._observation, most), self._outcome, self.pooling)

    @property
    def sums(self) -> NoisyGroups:
        return self._sums

    @property
    def range(self) -> Floats:
        """The range of the log of the standard deviation."""
        return np.log(self._outcome.sd_quantiles(_RANGE))

    def _given(self, sd: float) -> tuple[NoisyGroups, GroupedSums]:
        steps = self._outcome.column.steps
        outcome = GroupedSums(self._outcome.law_at(sd), steps, 2 * steps, steps)
        return replace(self._sums, outcome=outcome), outcome

    def fit(self, log_sd: float, start: SumFit | None, rng: np.random.Generator) -> SumFit:
        """Return the posterior given the noisy sums and sizes, and the standard deviation.

        Args:
            log_sd: the log of the standard deviation.
            start: the posterior given another standard deviation, or for fewer groups, where the search begins.
            rng: the generator.
        """
        observation, outcome = self._given(float(np.exp(log_sd)))
        if start is None:
            return fit_sums(observation, outcome, self.pooling, rng, _SHARE)
        return refit_sums(replace(start, outcome=outcome, moments=RecordMoments(outcome)), observation, rng, _SHARE)

    def log_density_near(self, log_sd: float, fit: SumFit, rng: np.random.Generator) -> Callable[[Floats], Floats]:
        """Return a rough log posterior density of the log standard deviation, given the fit at one value of it."""
        observation, outcome = self._given(float(np.exp(log_sd)))
        numbers, coordinates = fewer_sizes(fit.likelihood.numbers), fit.likelihood.coordinates
        likelihood = SumLikelihood(observation, outcome, fit.moments, self.pooling, numbers, coordinates)
        nodes = self.nodes_near(replace(fit, likelihood=likelihood), _PILOT_POINTS, rng)
        return lambda log_sds: np.array([node.log_density for node in nodes(log_sds)])

    def nodes_near(self, reference: SumFit, size: int, rng: np.random.Generator) -> Callable[[Floats], list[_Node]]:
        """Return a function that returns posteriors given everything that was released, and standard deviations.

        The function reads logs of standard deviations, and weights the same draws of hyperparameters for all of them.

        Args:
            reference: the posterior given sums and sizes, and a standard deviation near these.
            size: how many draws of its hyperparameters to weight.
            rng: the generator.
        """
        points = reference.sample.thin(size, rng)
        before = reference.likelihood.log_posterior(points) - reference.sample.log_mass + math.log(size)

        def nodes(log_sds: Floats) -> list[_Node]:
            return map_parts(lambda log_sd: self._node(log_sd, reference, points, before), log_sds.tolist())

        return nodes

    def _node(self, log_sd: float, reference: SumFit, points: Floats, before: Floats) -> _Node:
        _, outcome = self._given(float(np.exp(log_sd)))
        moments = RecordMoments(outcome)
        likelihood = reference.likelihood.given(outcome, moments)
        fit = replace(reference, likelihood=likelihood, outcome=outcome, moments=moments)
        squares = SquareTotal(self._observation, self._outcome, float(np.exp(log_sd)), fit)
        parts = likelihood.map_terms(lambda each: (each.log_evidence, *squares.moments(each)), points)
        log_evidence, mean, variance = np.sum(parts, axis=0)
        change = likelihood.log_density(points, log_evidence) - before + squares.log_density(mean, variance)
        change = np.nan_to_num(change, nan=-1e300, neginf=-1e300)
        fit = replace(fit, sample=WeightedPoints(points, normalize(change)))
        return _Node(fit, float(np.logaddexp.reduce(change)) + self._log_prior(log_sd, fit))

    def _log_prior(self, log_sd: float, fit: SumFit) -> float:
        """Return the log prior density, and the missing constant of the prior of the center given the deviation."""
        law = fit.outcome.law
        grid = np.linspace(*law.prior_range, _GRID)
        values = law.log_prior(grid[:, None])
        constant = np.logaddexp.reduce(values) + np.log(grid[1] - grid[0]) if self.pooling == "partial" else 0.0
        return float(self._outcome.log_sd_prior(np.array(log_sd)) - constant)


def infer_grouped_moments(
    observation: NoisyGroups, outcome: GroupedMoments, pooling: Pooling, samples: int, rng: np.random.Generator
) -> GroupedPosterior:
    """Return the posterior of the mean of each group; see ``infer_groups``."""
    groups = _Groups(observation, outcome, pooling)
    few = groups.part(_MOST_GROUPS)
    places, nodes = _nodes(few, rng)
    densities = np.array([node.log_density for node in nodes])
    weights = normalize(densities)
    order = np.argsort(-weights)
    best = nodes[int(order[0])].fit
    is_part = len(few) < len(groups)
    posteriors = [] if is_part and pooling == "partial" else [SumPosterior(node.fit, rng) for node in nodes]
    if not is_part:
        posteriors[int(order[0])].combine([posteriors[k] for k in order[1:]], weights[order])

    def choose(size: int, generator: np.random.Generator) -> tuple[Floats, list[np.ndarray]]:
        """Draw log standard deviations, and divide the draws among the nodes next to them."""
        log_sd = _draw(places, densities, size, generator)
        step = (places[1] - places[0]) if len(places) > 1 else 1.0
        near = np.clip(np.floor((log_sd - places[0]) / step + generator.random(size)), 0, len(places) - 1)
        return log_sd, [np.flatnonzero(near == k) for k in range(len(places))]

    def draw(size: int, generator: np.random.Generator) -> Floats:
        _, chosen = choose(size, generator)
        result: Floats = np.empty((size, len(groups), 1))
        for posterior, rows in zip(posteriors, chosen, strict=True):
            if len(rows):
                result[rows] = posterior.draw(len(rows), generator)
        return result

    if is_part:
        result = summarize_all(best, groups.sums, 1, rng)
    else:
        result = replace(posteriors[int(order[0])].summarize(1, rng), sampler=draw)
    log_sd, chosen = choose(samples, rng)
    draws, new_group = np.empty((samples, 4)), np.empty((samples, 1))
    draws[:, 2] = np.exp(log_sd)
    for k, rows in enumerate(chosen):
        if len(rows):
            source = posteriors[k].draw_hyperparameters if posteriors else nodes[k].fit.draw_population
            draws[rows[:, None], [0, 1, 3]], new_group[rows, 0] = source(len(rows), rng)
    return replace(
        result,
        hyperparameters=("mean", "sd", "sd within", "records"),
        draws=draws,
        new_group=new_group,
        method=f"{result.method}; one standard deviation within all groups, from the noisy sums of squares, on a grid",
    )


def _nodes(groups: _Groups, rng: np.random.Generator) -> tuple[Floats, list[_Node]]:
    """Return evenly spaced log standard deviations where their posterior is, and the posteriors given them."""
    low, high = groups.range
    center, sd, fit = _pilot(groups, rng)
    step, size = _SPACING * sd, int(np.clip(_POINTS // len(groups), _FEWEST_POINTS, _MOST_POINTS))
    near_fit = groups.nodes_near(fit, size, rng)

    def add(places: Floats) -> None:
        nodes.update(zip(places.tolist(), near_fit(places), strict=True))
        far = [place for place in places.tolist() if abs(place - center) > _NEAR]
        far = [place for place in far if nodes[place].fit.sample.ess < _LEAST_ESS_SHARE * size]
        nodes.update(zip(far, map_parts(anew, list(zip(far, rng.spawn(len(far)), strict=True))), strict=True))

    def anew(place_and_generator: tuple[float, np.random.Generator]) -> _Node:
        place, generator = place_and_generator
        (node,) = groups.nodes_near(groups.fit(place, fit, generator), size, generator)(np.array([place]))
        return node

    nodes: dict[float, _Node] = {}
    places = np.arange(-_REACH, _REACH + 0.1) * step + center
    add(places[(places >= low - step) & (places <= high + step)])
    while len(nodes) < _MOST_NODES:
        ends = np.array(sorted(nodes))
        weights = normalize(np.array([nodes[place].log_density for place in ends.tolist()]))
        more = np.array([ends[0] - step, ends[-1] + step])
        more = more[(weights[[0, -1]] > _NEGLIGIBLE) & (more > low - step) & (more < high + step)]
        if not len(more):
            break
        add(more)
    ends = np.array(sorted(nodes))
    return ends, [nodes[place] for place in ends.tolist()]


def _pilot(groups: _Groups, rng: np.random.Generator) -> tuple[float, float, SumFit]:
    """Return the approximate posterior mean and standard deviation of the log standard deviation, and a fit near."""
    few = groups.part(_PILOT_GROUPS)
    low, high = groups.range.tolist()
    center, reach, sd = (low + 3.0 * high) / 4.0, (high - low) / 2.0, high - low
    fit = few.fit(center, None, rng)
    for _ in range(_MAX_PILOTS if len(few) == len(groups) else 2):
        grid = np.linspace(max(low, center - reach), min(high, center + reach), _PILOT_NODES)
        weights = normalize(few.log_density_near(center, fit, rng)(grid))
        center, gap = float(weights @ grid), grid[1] - grid[0]
        sd = float(np.sqrt(weights @ (grid - center) ** 2))
        fit = few.fit(center, fit, rng)
        if sd > gap:
            break
        sd = max(sd, 0.5 * gap)
        reach = 3.5 * sd
    near = center
    for most in _MORE_GROUPS:
        if len(few) < len(groups):
            few, near = groups.part(most), center
            fit = few.fit(near, fit, rng)
            center, sd = _peak(few.log_density_near(near, fit, rng), near, sd)
    return center, sd, fit if abs(center - near) < _NEAR else groups.fit(center, fit, rng)


def _peak(log_density: Callable[[Floats], Floats], center: float, sd: float) -> tuple[float, float]:
    """Return the mode of a density and the standard deviation by its curvature there, by parabolas through three nodes.

    Args:
        log_density: the log density; each value takes long to compute, and two are computed at once.
        center, sd: rough guesses of the mode and of the standard deviation.
    """
    places = center + sd * np.array([-1.5, -0.5, 0.5, 1.5])
    values = log_density(places)
    for _ in range(_MAX_SEARCHES):
        best = int(np.argmax(values))
        if best in (0, len(places) - 1):
            more = places[best] + (places[best] - places[1 if best == 0 else -2]) * np.array([1.0, 2.0])
        else:
            three = slice(best - 1, best + 2)
            second, first, _ = np.polyfit(places[three] - center, values[three], 2)
            center, sd = float(center - first / (2.0 * second)), float((-2.0 * second) ** -0.5)
            if np.diff(places[three]).max() < _WIDEST_GAP * sd:
                break
            more = (places[three][1:] + places[three][:-1]) / 2.0
        places, values = np.append(places, more), np.append(values, log_density(more))
        order = np.argsort(places)
        places, values = places[order], values[order]
    return center, sd


def _draw(places: Floats, densities: Floats, size: int, rng: np.random.Generator) -> Floats:
    """Draw from the density whose logarithm is a cubic spline through given values, shape (size,)."""
    if len(places) == 1:
        return np.full(size, places[0])
    half = (places[1] - places[0]) / 2.0
    grid = np.linspace(places[0] - half, places[-1] + half, _GRID)
    spline = CubicSpline(places, densities, bc_type="natural")(grid)
    cumulative = np.concatenate([[0.0], np.cumsum(normalize(spline))])
    edges = np.concatenate([grid[:1], (grid[1:] + grid[:-1]) / 2.0, grid[-1:]])
    return np.asarray(np.interp(rng.random(size), cumulative / cumulative[-1], edges))
