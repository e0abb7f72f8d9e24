"""How uncertain the mean over groups would be without noise, so that a result can say what the noise adds.

The estimate of a group's mean is its parameter plus the error of a sample of n_g records plus the error by noise. About
the mean over groups it has the variance sd^2 + V / n_g + N_g / n_g^2, where sd is the standard deviation of the groups'
parameters, V the variance of a record, and N_g that of the noise on the group's sum, given what is known about n_g. The
mean over groups then has the variance 1 / sum_g 1 / (sd^2 + V / n_g + N_g / n_g^2), averaged over what the posterior
knows about sd. Larger groups are combined in the same way. The result is the ratio of the standard deviations with
N_g = 0 and with N_g.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.core.noisy_observation import GroupedCounts, GroupedMoments, GroupedSums, NoisyGroups
from dpbayes_cli.inference.groups.record_moments import RecordMoments

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.inference.groups.grouped_posterior import GroupedPosterior

_MOST_DRAWS = 100
_MOST_GROUPS = 500
"""More groups than this are represented by an even choice of their sizes, unless they are within larger groups."""
_GRID_POINTS = 2049
_LEAST_RECORDS, _LEAST_SLOPE, _TINY = 1e-6, 1e-9, 1e-300
_WIDTH_IN_SDS = 3.29
"""The width of a 90 % interval of a normal law."""


def remaining_shares(groups: GroupedPosterior, observation: NoisyGroups) -> list[float]:
    """Return, for each parameter's mean over pooled groups, the share of its sd that would remain without noise."""
    draws, sizes, parents = groups.draws[:: -(-len(groups.draws) // _MOST_DRAWS)], groups.sizes, observation.parents
    if parents is None and len(sizes) > _MOST_GROUPS:
        places = np.linspace(0, len(sizes) - 1, _MOST_GROUPS).astype(np.int64)
        sizes = sizes[np.argsort(sizes[:, 0], kind="stable")[places]]
    records, of_size = np.maximum(sizes[:, 0], _LEAST_RECORDS), ((sizes[:, 2] - sizes[:, 1]) / _WIDTH_IN_SDS) ** 2
    n_parameters, shares = groups.means.shape[1], list[float]()
    for k in range(n_parameters):
        mean, between = draws[:, k], draws[:, n_parameters + k, None] ** 2
        of_record, of_noise, slope = (x[:, None] for x in _variances(groups, observation, mean, between[:, 0]))
        variances = []
        for noise in (0.0, (of_noise + slope * of_size) / records):
            precisions = 1.0 / (between + (of_record + noise) / records + _TINY)
            if parents is not None:
                of_larger = np.array([np.bincount(parents, weights=row) for row in precisions])
                precisions = 1.0 / (draws[:, 2 * n_parameters + k, None] ** 2 + 1.0 / of_larger)
            variances.append(float((1.0 / precisions.sum(axis=1)).mean()))
        shares.append((variances[0] / variances[1]) ** 0.5)
    return shares


def _variances(
    groups: GroupedPosterior, observation: NoisyGroups, mean: Floats, between: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return what determines the variance of a group's estimate, in units of the parameter, each of shape (n_draws,).

    Returns:
        The variance of a record, that of the noise given the number of records, and what an error in this number adds,
        as a multiple of its square.
    """
    outcome, noise = observation.outcome, observation.noise.variance
    if isinstance(outcome, GroupedCounts):  # s - mean * n, where n has the noise of all counts
        even = 1.0 / len(outcome.concentration)
        of_record = np.maximum(mean * (1.0 - mean) - between, 0.0)
        return of_record, np.full_like(mean, noise * (1.0 - even)), (even - mean) ** 2
    if isinstance(outcome, GroupedMoments):
        within = float(groups.draws[:, groups.hyperparameters.index("sd within")].mean())
        steps = outcome.column.steps
        outcome = GroupedSums(outcome.law_at(within), steps, 2 * steps, steps)
    moments = RecordMoments(outcome)
    grid = np.linspace(*moments.domain, _GRID_POINTS)
    parameters = outcome.law.parameters(grid[:, None])[:, 0]
    center, sd = moments.at(grid)
    slopes = np.abs(moments.slope(grid))
    factor = (np.gradient(parameters, grid) / np.maximum(slopes, _LEAST_SLOPE * slopes.max())) ** 2
    order = np.argsort(parameters, kind="stable")
    of_record, of_noise, slope = (
        np.interp(mean, parameters[order], each[order]) for each in (sd**2 * factor, noise * factor, center**2 * factor)
    )
    return of_record, of_noise, slope
