"""Infer the category probabilities of groups from noisy counts of several categories.

Model: phi has the stated Dirichlet prior, and 1 / (1 + kappa) has the prior of the correlation with two categories
(``binary``). The probabilities of a group are Dirichlet(phi kappa). Without pooling, they have the stated prior. The
latent counts of all categories are summed out (``category_counts``). The coordinates of a point of hyperparameters are
log phi plus an arbitrary number s, logit 1 / (1 + kappa), log mean and log shape of the sizes; without pooling, the
last two. So that the density is proper, s is normal.

Moments of groups are averages over draws of the hyperparameters, which are inferred from all groups, or from 2,000
evenly chosen ones. Quantiles are those of Beta laws with these means and standard deviations. If the noise is not small
compared with the counts of a group, they are corrected: the correction is that of the posterior of one category given
its count and the sum of all others (``pair_summary``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax

from dpbayes_cli.inference.groups.binary import LARGEST, log_correlation_prior
from dpbayes_cli.inference.groups.category_counts import CategoryCounts
from dpbayes_cli.inference.groups.category_law import CategoryLaw
from dpbayes_cli.inference.groups.component_noise import component_noise
from dpbayes_cli.inference.groups.count_tables import CountLaw
from dpbayes_cli.inference.groups.draws import draw_dirichlet
from dpbayes_cli.inference.groups.group_blocks import group_blocks
from dpbayes_cli.inference.groups.grouped_counts import counts_method, hyperparameter_names, spread_of_groups
from dpbayes_cli.inference.groups.grouped_posterior import GroupedPosterior, Pooling, map_parts
from dpbayes_cli.inference.groups.hyperparameters import WeightedPoints, ess_warnings, find_mode, sample_density
from dpbayes_cli.inference.groups.pair_summary import (
    DistributionFunctions,
    PairSummary,
    beta_cdf,
    join_summaries,
    moment_rows,
    quantile_places,
    summarize_rows,
)
from dpbayes_cli.inference.groups.rate_cells import distribution_functions
from dpbayes_cli.inference.groups.selection import PublishedSizes, mean_of_nonempty
from dpbayes_cli.inference.groups.size_law import guess_size_law, log_size_prior

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.core.noisy_observation import GroupedCounts, NoisyGroups

_MOST_GROUPS, _PILOT_GROUPS = 2000, 100
"""The search for the hyperparameters begins with an eighth of the groups, if these are at least 100."""
_FEWEST_POINTS, _MOST_POINTS, _EVALUATIONS = 96, 512, 40_000
"""Each round of importance sampling computes about ``_EVALUATIONS`` pairs of a group and a point."""
_LEAST_ESS_SHARE, _FEW_ESS = 1.17, 100.0
_START_KAPPAS = (3.0, 30.0, 300.0)
_SHIFT_SD = 0.2
_MOST_KAPPA = 2000.0
"""A larger kappa is taken as this number."""
_FIRST_DRAWS, _MOST_DRAWS, _MONTE_CARLO = 32, 512, 0.02
_CDF_DRAWS, _CDF_MONTE_CARLO = (8, 32), 0.03
_NEARLY_EXACT = 20.0
"""Counts above this multiple of the variance of their noise are nearly exact: a Beta law needs no correction."""
_GROUP_DRAWS = 100_000
"""Moments are computed for about this many pairs of a group and a draw, or for ``_FIRST_DRAWS``."""


@dataclass(frozen=True, eq=False)
class CategoryPrior:
    """The prior of the category probabilities.

    Attributes:
        concentration: the parameters of the stated Dirichlet prior.
        pooled: whether this is the prior of phi; if not, it is that of each group.
        spread: see ``NoisyGroups``.
    """

    concentration: Floats
    pooled: bool
    spread: float

    def laws(self, points: Floats) -> list[CategoryLaw]:
        """Return the hyperparameters at points."""
        return [CategoryLaw(*each) for each in zip(*self.values(points), strict=True)]

    def values(self, points: Floats) -> tuple[Floats, Floats, Floats]:
        """Return ``CategoryLaw.a`` at points, shape (n, n_categories), and the means and shapes of the sizes."""
        mean, shape = np.exp(np.clip(points[:, -2:], -LARGEST[2:], LARGEST[2:])).T
        if not self.pooled:
            return np.tile(self.concentration, (len(points), 1)), mean, shape
        kappa = np.minimum(np.exp(-np.clip(points[:, -3], -LARGEST[1], LARGEST[1])), _MOST_KAPPA)
        return np.maximum(softmax(points[:, :-3], axis=1) * kappa[:, None], 1e-10), mean, shape

    def log_density(self, points: Floats) -> Floats:
        """Return the log prior density of points, up to a constant."""
        result = log_size_prior(points[:, -2], points[:, -1])
        if self.pooled:
            shift = logsumexp(points[:, :-3], axis=1)
            result = result + log_softmax(points[:, :-3], axis=1) @ self.concentration
            result = result + log_correlation_prior(points[:, -3], self.spread) - (shift / _SHIFT_SD) ** 2 / 2.0
        return np.asarray(result)

    def starts(self, observed: Integers, variance: float) -> Floats:
        """Return rough guesses of the mode."""
        size = guess_size_law(observed.sum(axis=1), variance)
        if not self.pooled:
            return np.array([size])
        shares = np.maximum(observed.mean(axis=0), 0.0) + 0.05
        return np.array([(*np.log(shares / shares.sum()), -np.log(kappa), *size) for kappa in _START_KAPPAS])


def infer_categories(
    observation: NoisyGroups, outcome: GroupedCounts, pooling: Pooling, samples: int, rng: np.random.Generator
) -> GroupedPosterior:
    """Return the posterior of the category probabilities of each group; see ``infer_groups``."""
    prior = CategoryPrior(np.array(outcome.concentration), pooling == "partial", observation.spread)
    observed = np.asarray(observation.observed, dtype=np.int64)
    counts = CategoryCounts(observed, component_noise(observation.noise, 1))
    published = None if observation.threshold is None else PublishedSizes(observation.threshold)
    sample = _sample(observation, observed, prior, published, rng)
    laws = prior.laws(rng.permutation(sample.thin(_MOST_DRAWS, rng)))
    moments, n_draws, n_few = _moments(counts, laws)
    names = range(observed.shape[1] if observed.shape[1] > 2 else 1)
    joined = join_summaries(
        map_parts(lambda k: _summarize(observation, observed, k, moments, n_draws, laws[:n_few]), names)
    )
    draws, new_group = _hyperparameters(
        prior, sample, joined["means"], joined["sds"], published is not None, samples, rng
    )

    def draw(size: int, generator: np.random.Generator) -> Floats:
        result = np.empty((size, len(observed), len(names)))
        drawn = prior.laws(sample.resample(size, generator))
        for groups, part in counts.parts():
            for i, law in enumerate(drawn):
                result[i, groups] = part.draw(law, generator)[:, : len(names)]
        return result

    return GroupedPosterior(
        **joined,
        hyperparameters=hyperparameter_names(len(names)),
        draws=draws,
        new_group=new_group,
        method=counts_method(pooled=prior.pooled, are_found=published is not None),
        sampler=draw,
        warnings=ess_warnings(sample.ess, _FEW_ESS),
    )


def _sample(
    observation: NoisyGroups,
    observed: Integers,
    prior: CategoryPrior,
    published: PublishedSizes | None,
    rng: np.random.Generator,
) -> WeightedPoints:
    """Return weighted draws of the hyperparameters."""
    some = np.unique(np.linspace(0, len(observed) - 1, min(len(observed), _MOST_GROUPS)).astype(np.int64))

    def log_density(points: Floats, counts: CategoryCounts) -> Floats:
        result = prior.log_density(points) + map_parts(counts.log_likelihood, prior.laws(points))
        if published is not None:
            result = result - len(counts) * published.log_probability(*prior.values(points)[1:])
        return np.nan_to_num(result, nan=-1e300, neginf=-1e300)

    starts = prior.starts(observed[some], observed.shape[1] * observation.noise.variance)
    few, counts = (CategoryCounts(observed[each], component_noise(observation.noise, 1)) for each in (some[::8], some))
    if len(few) >= _PILOT_GROUPS:
        starts = find_mode(partial(log_density, counts=few), starts)[0][None]
    n_points = int(np.clip(_EVALUATIONS // len(some), _FEWEST_POINTS, _MOST_POINTS))
    return sample_density(partial(log_density, counts=counts), starts, n_points, _LEAST_ESS_SHARE * n_points, rng)


def _moments(counts: CategoryCounts, laws: list[CategoryLaw]) -> tuple[Floats, int, int]:
    """Return means of theta, theta^2 and E[theta | hyperparameters]^2 over draws, (3, n_groups, n_categories + 1).

    The last rows of the last axis are those of the numbers of records.
    If the means vary much with the hyperparameters, more draws are used. Their number is returned, too, and the number
    of draws that corrections of quantiles need.
    """
    parts = [part for _, part in counts.parts()]

    def total(some: list[CategoryLaw]) -> Floats:
        def of_part(part: CategoryCounts) -> Floats:
            each = np.array([part.moments(law) for law in some])
            return np.stack([each[:, 0].sum(axis=0), each[:, 1].sum(axis=0), (each[:, 0] ** 2).sum(axis=0)])

        return np.concatenate(map_parts(of_part, parts), axis=1)

    sums, n_draws = total(laws[:_FIRST_DRAWS]), _FIRST_DRAWS
    mean, square, of_squares = sums / n_draws
    spread = np.sqrt(np.maximum(of_squares - mean**2, 0.0) / np.maximum(square - mean**2, 1e-30)).max()
    most = min(_MOST_DRAWS, _GROUP_DRAWS // mean.shape[0])
    if (wanted := min(most, int((spread / _MONTE_CARLO) ** 2))) > n_draws:
        sums, n_draws = sums + total(laws[n_draws:wanted]), wanted
    return sums / n_draws, n_draws, int(np.clip((spread / _CDF_MONTE_CARLO) ** 2, *_CDF_DRAWS))


def _summarize(
    observation: NoisyGroups,
    observed: Integers,
    category: int,
    moments: Floats,
    n_draws: int,
    laws: list[CategoryLaw],
) -> PairSummary:
    """Return the summaries of the probabilities of one category; moments are those of ``_moments``."""
    noises = component_noise(observation.noise, 1), component_noise(observation.noise, observed.shape[1] - 1)
    pairs = np.stack([observed[:, category], observed.sum(axis=1) - observed[:, category]], axis=1)
    rows = np.concatenate([moments[:, :, category], moments[:2, :, -1]])
    a, kappa = np.array([(law.a[category], law.kappa) for law in laws]).T
    is_rough = np.any(pairs < _NEARLY_EXACT * np.array([noise.variance for noise in noises]), axis=1)
    if not is_rough.any():
        return summarize_rows(rows, n_draws, a / kappa)
    law = CountLaw(a, kappa - a, *np.array([(law.mean, law.shape) for law in laws]).T)
    blocks = group_blocks(pairs[is_rough], noises, may_be_empty=observation.threshold is None).trimmed(law)
    few = blocks.gather([moment_rows(each, law).T for each in blocks.pairs]).T
    places = quantile_places(few)
    cdf = [
        distribution_functions(each, law, places, a / kappa)[0]
        if each.grid.is_small
        else beta_cdf(moment_rows(each, law), places)
        for each in blocks.pairs
    ]
    functions = DistributionFunctions(few, places, blocks.gather([each.T for each in cdf]).T)
    return summarize_rows(rows, n_draws, a / kappa, functions, is_rough)


def _hyperparameters(
    prior: CategoryPrior,
    sample: WeightedPoints,
    means: Floats,
    sds: Floats,
    are_found: bool,
    size: int,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Return draws of the means, the standard deviations and the mean size, and the probabilities of a new group."""
    a, mean, shape = prior.values(sample.resample(size, rng))
    n_parts = means.shape[1]
    records = (mean_of_nonempty(mean, shape) if are_found else mean)[:, None]
    if not prior.pooled:
        new = rng.dirichlet(prior.concentration, size)[:, :n_parts]
        return np.concatenate([*spread_of_groups(means, sds, size, rng), records], axis=1), new
    kappa = a.sum(axis=1, keepdims=True)
    phi = (a / kappa)[:, :n_parts]
    draws = np.concatenate([phi, np.sqrt(phi * (1.0 - phi) / (1.0 + kappa)), records], axis=1)
    return draws, draw_dirichlet(a, rng)[:, :n_parts]
