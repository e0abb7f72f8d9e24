"""The likelihood of the noisy sums of squares of all groups, given their noisy sums and noisy sizes.

Of the sums of squares, only one weighted total over the groups is used; its weights depend on the noisy sizes alone.
Given the sums, the sizes and the hyperparameters, groups are independent, so that the total is nearly normal. Its mean
and its variance are those of its parts, averaged over each group's posterior given its noisy sum and size. Given its
number of records and its parameter, the sum and the sum of squares of a group are taken as jointly normal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.core.noisy_observation import GroupedMoments, NoisyGroups

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.inference.groups.sum_likelihood import ChunkTerms
    from dpbayes_cli.inference.groups.sum_summaries import SumFit

_LEAST_VARIANCE = 1e-16
"""Of numbers with a smaller variance, nearly all are clamped to one bound; squares then have no variance either."""
_TYPICAL_VARIANCE = 0.05
"""The assumed variance of the square of a number, if the bounds are -1 and 1; it affects the weights of groups only."""


class SquareTotal:
    """The law of the weighted total of the noisy sums of squares, in squared grid steps."""

    def __init__(self, observation: NoisyGroups, outcome: GroupedMoments, sd: float, fit: SumFit) -> None:
        """Compute the weights.

        Args:
            observation: the noisy sums, sums of squares and sizes.
            outcome: the law of a record.
            sd: the standard deviation of a number in a group.
            fit: the posterior of the groups given their noisy sums and sizes, and this standard deviation.
        """
        self._outcome, self._sd, self._fit = outcome, sd, fit
        self._unit = float(outcome.column.steps) ** 2
        squares, sizes = observation.observed[:, 1:].T / self._unit
        self._noise_variance = observation.noise.variance / self._unit**2
        near = np.maximum(sizes, 1.0)
        self._weights = near / (self._noise_variance + _TYPICAL_VARIANCE * near)
        self._weights /= self._weights.sum()
        self._observed = float(self._weights @ squares)
        means, self._place = np.unique(fit.likelihood.coordinates, return_inverse=True)
        self._records = self._record_moments(means)

    def log_density(self, mean: Floats, variance: Floats) -> Floats:
        """Return the log density of the total, up to a constant, given its mean and variance without noise."""
        variance = variance + self._noise_variance * (self._weights**2).sum()
        return np.asarray(-0.5 * ((self._observed - mean) ** 2 / variance + np.log(variance)))

    def moments(self, terms: ChunkTerms) -> tuple[Floats, Floats]:
        """Return what some groups add to the mean and the variance of the total without noise, shape (n_points,)."""
        weights = self._weights[terms.groups]
        first, second = (
            (((terms.density * part).swapaxes(1, 2) @ terms.sizes) * terms.population).sum(axis=1) / terms.evidence
            for part in self._given_sums(terms)
        )
        return weights @ first, weights**2 @ np.maximum(second - first**2, 0.0)

    def _given_sums(self, terms: ChunkTerms) -> tuple[Floats, Floats]:
        """Return E[squares] and E[squares^2] given size, coordinate and noisy sum, (n, n_sizes, n_coordinates)."""
        n = self._fit.likelihood.numbers[terms.groups, :, None]
        square, variance, slope, rest = self._records[:, self._place[terms.groups]][:, :, None, :]
        away, share = terms.normal
        first = n * square + slope * away
        return first, first**2 + n * np.maximum(rest + slope**2 * variance * share, 0.0)

    def _record_moments(self, means: Floats) -> Floats:
        """Return moments of a record: of its number, of its square, and of the regression of the square on the number.

        Args:
            means: the means of the numbers, shape (n,).

        Returns:
            The mean of the square, the variance of the number, the slope of the regression, and the variance of the
            square that it leaves, shape (4, n); squares are in squared grid steps.
        """
        with np.errstate(all="ignore"):  # a mean so far out of bounds that no number is inside has no moments
            known = self._outcome.moments_at(means, self._sd)
        mean, covariance = (np.nan_to_num(each, nan=0.0, posinf=0.0, neginf=0.0) for each in known)
        variance, both = covariance[:, 0, 0], covariance[:, 0, 1]
        least = _LEAST_VARIANCE * self._unit**2
        slope = np.where(variance > least, both, 0.0) / np.maximum(variance, least)
        rest = covariance[:, 1, 1] - slope * both
        square, slope, rest = mean[:, 1] / self._unit, slope / self._unit, rest / self._unit**2
        return np.array([square, np.maximum(variance, 1e-300), slope, rest])
