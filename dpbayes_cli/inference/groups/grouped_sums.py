"""Infer the parameters of groups from a noisy sum and a noisy number of records of each group.

The coordinate of group g, the parameter on the unconstrained scale of its law, is eta_g ~ Normal(center, spread^2); see
``population`` for the priors. The number of valid records is n_g ~ NegativeBinomial(mean, shape); see ``size_law``. The
center, the spread, the mean and the shape are drawn from their posterior by importance sampling, and the groups'
posteriors are averaged over these draws. Given the draws, groups are independent, and the posterior of each group is
computed on its own nodes of n and eta.

One step is approximate: given n and eta, the sum of n records is treated as a normal variable with the same mean and
variance, and the noise for continuous noise. The released sum also has the noise, which brings its law closer to the
assumed one. A record adds between -steps and steps, so the skewness of the noisy sum is at most 0.55 steps / scale for
Laplace noise of a given scale. With replace-one neighbors the scale is 4 steps / epsilon, with add-remove neighbors
half as much. Exact posteriors were enumerated for groups of up to six clamped counts with bounds from 1 to 8 and
replace-one neighbors. The total variation distance of a group's posterior from the exact one was below 0.003 at epsilon
1, 0.01 at epsilon 3, and 0.07 at epsilon 10.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.base.numeric import normalize_rows
from dpbayes_cli.core.noisy_observation import GroupedSums, NoisyGroups
from dpbayes_cli.inference.groups.grouped_posterior import WORKERS, GroupedPosterior, Pooling
from dpbayes_cli.inference.groups.hyperparameters import sample_density
from dpbayes_cli.inference.groups.record_moments import RecordMoments
from dpbayes_cli.inference.groups.size_law import guess_size_law, log_sizes
from dpbayes_cli.inference.groups.sum_likelihood import SumLikelihood
from dpbayes_cli.inference.groups.sum_nodes import (
    first_coordinates,
    log_size_weights,
    number_nodes,
    refined_coordinates,
    weighted_moments,
)
from dpbayes_cli.inference.groups.sum_summaries import SumFit, SumPosterior, summarize_parts

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_PILOT_GROUPS = 200
"""The first search for the hyperparameters reads at most this many groups."""
_PILOT_POINTS, _REFINING_POINTS = 64, 16
_MOST_FITTED, _ROUGH_STEP = 2000, 3
_BLOCK = 2048
"""The posteriors of many groups are computed for so many at once, because the nodes of all groups are large."""
_MAX_EVALUATIONS = 40_000
"""About this many pairs of a group and a point of hyperparameters are computed in each round of importance sampling."""
_FEWEST_POINTS, _MOST_POINTS = 64, 4096
_LEAST_ESS_SHARE = 0.5
_LEAST_SPREAD, _MOST_NATS = 1e-3, 50.0
"""The least spread that is drawn, in units of its root mean square, and the log of about the largest."""
_AROUND = np.array([[0.0, 0.0], [2.0, 0.0], [-2.0, 0.0], [0.0, -2.0]])
"""Added to the mean of (log mean, log shape) of the sizes, in standard deviations."""
_ROUGHLY = np.array([[0.0, 0.0], [1.0, -1.0]])
"""Added to a rough guess of (log mean, log shape) of the sizes, to get laws that are wide enough."""
_SMALLER = np.array([[-1.0, -1.0], [-2.5, -1.0], [-2.5, 1.0]])
"""Added to this guess if groups with few records are missing."""


def infer_grouped_sums(
    observation: NoisyGroups, outcome: GroupedSums, pooling: Pooling, samples: int, rng: np.random.Generator
) -> GroupedPosterior:
    """Return the posterior of the parameter of each group, given noisy sums; see ``infer_groups``."""
    return summarize_all(fit_sums(observation, outcome, pooling, rng), observation, samples, rng)


def summarize_all(fit: SumFit, observation: NoisyGroups, samples: int, rng: np.random.Generator) -> GroupedPosterior:
    """Return the posterior of all groups of a release, given a fit to some of them or to all."""
    n_groups = len(observation.observed)
    if len(fit.likelihood.numbers) == n_groups:
        return SumPosterior(fit, rng).summarize(samples, rng)
    points = fit.sample.thin(_REFINING_POINTS, rng)
    n_parts = WORKERS * -(-n_groups // (WORKERS * _BLOCK))
    parts = [replace(observation, observed=each) for each in np.array_split(observation.observed, n_parts)]
    return summarize_parts(fit, [partial(extend_fit, fit, part, points) for part in parts], samples, rng)


def fit_sums(
    observation: NoisyGroups, outcome: GroupedSums, pooling: Pooling, rng: np.random.Generator, share: float = 1.0
) -> SumFit:
    """Return the nodes of groups, and weighted draws of the hyperparameters; see ``infer_grouped_sums``.

    If there are more than 2,000 groups, 1,000 to 2,000 evenly chosen ones are used.

    Args:
        share: the share of the usual number of draws, if several posteriors will be averaged.
    """
    moments = RecordMoments(outcome)
    pilot = part_of(observation, _PILOT_GROUPS)
    size_laws = _size_laws(pilot, moments)
    numbers, coordinates = _place_nodes(pilot, moments, size_laws, moments.spread / 2.0)
    likelihood = SumLikelihood(pilot, outcome, moments, pooling, numbers, coordinates)
    starts = _starts(observation, moments, size_laws, pooling)
    sample = sample_density(likelihood.log_posterior, starts, _PILOT_POINTS, _PILOT_POINTS / 4, rng)
    return refit_sums(SumFit(likelihood, outcome, moments, pooling, sample), observation, rng, share)


def refit_sums(fit: SumFit, observation: NoisyGroups, rng: np.random.Generator, share: float) -> SumFit:
    """Return a fit, given one to fewer groups or for another law of a record; see ``fit_sums``."""
    some = part_of(observation, _MOST_FITTED)
    fit = extend_fit(fit, some, fit.sample.thin(_REFINING_POINTS, rng))
    size = int(np.clip(share * _MAX_EVALUATIONS // len(some.observed), _FEWEST_POINTS, _MOST_POINTS))
    log_posterior, least_ess = fit.likelihood.log_posterior, _LEAST_ESS_SHARE * size
    center = fit.sample.weights @ fit.sample.points
    if fit.pooling == "none":
        return replace(fit, sample=sample_density(log_posterior, center[None], size, least_ess, rng))
    # the spread may be nearly zero: the density of its log has a flat tail there, but that of plus or minus the spread
    # falls like a normal density
    unit = math.sqrt(float(fit.sample.weights @ np.exp(2.0 * fit.sample.points[:, 1])))

    def in_logs(points: Floats) -> Floats:
        spread = unit * np.maximum(np.sinh(np.minimum(np.abs(points[:, 1]), _MOST_NATS)), _LEAST_SPREAD)
        return np.column_stack([points[:, 0], np.log(spread), points[:, 2:]])

    def log_density(points: Floats) -> Floats:
        logs = in_logs(points)
        return log_posterior(logs) - logs[:, 1] + np.log(np.cosh(np.minimum(np.abs(points[:, 1]), _MOST_NATS)))

    start = np.array([[center[0], math.asinh(math.exp(center[1]) / unit), *center[2:]]])
    sample = sample_density(log_density, start, size, least_ess, rng)
    return replace(fit, sample=replace(sample, points=in_logs(sample.points)))


def part_of(observation: NoisyGroups, most: int) -> NoisyGroups:
    """Return evenly chosen groups, at least half as many as ``most``, or all groups if these are fewer."""
    return replace(observation, observed=observation.observed[:: -(-len(observation.observed) // most)])


def extend_fit(fit: SumFit, observation: NoisyGroups, points: Floats) -> SumFit:
    """Return the nodes of groups of a release, given a fit to others, and some draws of its hyperparameters.

    The nodes of the coordinates are placed twice: for a normal approximation of each group's posterior, and where the
    posterior on these first nodes is large. Three times as many nodes would move the ends of intervals by less than
    0.08 posterior standard deviations in any of 300 groups, and by less than 0.03 on average, at epsilon 0.1 to 5.
    """
    sizes = points[:, -2:].mean(axis=0) + points[:, -2:].std(axis=0) * _AROUND
    pooled = fit.pooling == "partial"
    spread = 2.0 * float(np.exp(points[:, 1].mean())) if pooled else fit.moments.spread / 2.0
    numbers, coordinates = _place_nodes(observation, fit.moments, sizes, spread)
    likelihood = SumLikelihood(observation, fit.outcome, fit.moments, fit.pooling, fewer_sizes(numbers), coordinates)
    coordinates = refined_coordinates(fit.moments, coordinates, likelihood.masses(points[::_ROUGH_STEP]))
    likelihood = SumLikelihood(observation, fit.outcome, fit.moments, fit.pooling, numbers, coordinates)
    return replace(fit, likelihood=likelihood)


def fewer_sizes(numbers: Floats) -> Floats:
    """Return a third of the nodes of the sizes, for a rough likelihood."""
    return numbers[:, [*range(0, numbers.shape[1] - 1, _ROUGH_STEP), -1]]


def _size_laws(observation: NoisyGroups, moments: RecordMoments) -> Floats:
    """Return rough guesses of (log mean, log shape) of the sizes, the best first, some of them wide enough."""
    sizes = observation.observed[:, 1] / moments.steps
    guess = np.array(guess_size_law(sizes, observation.noise.variance / moments.steps**2))
    roughly = _ROUGHLY if observation.threshold is None else np.concatenate([_ROUGHLY, _SMALLER])
    return np.asarray(guess + roughly)


def _starts(observation: NoisyGroups, moments: RecordMoments, size_laws: Floats, pooling: Pooling) -> Floats:
    """Return points of hyperparameters near which their mode may be."""
    if pooling == "none":
        return size_laws
    total = max(float(observation.observed[:, 1].sum()), moments.steps)
    center = float(moments.coordinate_of(np.array(moments.steps * observation.observed[:, 0].sum() / total)))
    low, high = moments.prior_range
    center = min(max(center, low + 1e-3 * (high - low)), high - 1e-3 * (high - low))
    spreads = [math.log(share * moments.spread) for share in (0.1, 0.4, 1.0)]
    return np.array([[center, spread, *law] for spread in spreads for law in size_laws])


def _place_nodes(
    observation: NoisyGroups, moments: RecordMoments, size_laws: Floats, spread: float
) -> tuple[Floats, Floats]:
    """Return nodes of the sizes and of the coordinates.

    Args:
        observation, moments: the groups.
        size_laws: probable values of (log mean, log shape) of the sizes, the most probable first.
        spread: the assumed standard deviation of the groups' coordinates.
    """
    noise, steps = observation.noise, moments.steps
    sums, sizes = observation.observed.T.astype(np.float64)
    numbers = number_nodes(noise, steps, sizes, size_laws, 0 if observation.threshold is None else 1)
    mass = normalize_rows(log_size_weights(noise, steps, sizes, numbers) + log_sizes(numbers, *np.exp(size_laws[0])))
    mean, sd = weighted_moments(numbers, mass)
    return numbers, first_coordinates(moments, noise, sums, mean, sd**2, spread)
