"""The law of a normal vector's contribution to second moments, under a normal-inverse-Wishart prior."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from dpbayes_cli.base.eigen import eigh
from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.record_law import RecordLaw

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_MAX_LOG_CHI_SQUARE = 200.0
"""Logarithms of chi-square variables are limited to this, because a search may try values of negligible probability."""
_MAX_SHARE_OUT_OF_BOUNDS = 1e-3
"""Inference warns if it expects a larger share of a column's numbers to be out of bounds."""


@dataclass(frozen=True, eq=False)
class NormalInverseWishart:
    """A normal-inverse-Wishart posterior of scaled numbers.

    Attributes:
        n_records: the number of records on which the posterior is based.
        location: the posterior location of the mean vector, shape (D,).
        strength: the weight of the location, in records.
        scale: the scale matrix, positive definite up to rounding errors, shape (D, D).
    """

    n_records: float
    location: Floats
    strength: float
    scale: Floats


@dataclass(frozen=True)
class WishartRecords(RecordLaw):
    """The law of what a normal vector adds to sums, sums of squares, sums of products and the count of valid records.

    Numbers are scaled to [-1, 1]; the law ignores the bounds. Let L L' be the inverse of the prior scale matrix.
    Bartlett's decomposition writes the precision matrix as L A A' L', where A is lower triangular with independent
    entries. The squares of the diagonal entries of A are chi-square variables, and the entries below the diagonal are
    normal. The coordinates are (mean - prior mean) * sqrt(strength) / deviation, then the logarithms of the chi-square
    variables, then the normal entries.

    Attributes:
        prior_mean, deviation: prior mean and standard deviation of the scaled numbers.
        strength: the weight of the prior mean, in records.
        freedom: the prior degrees of freedom.
        counted: whether the statistic includes the number of valid records.
    """

    prior_mean: tuple[float, ...]
    deviation: tuple[float, ...]
    strength: float
    freedom: float
    columns: tuple[NumericColumn, ...]
    counted: bool

    @property
    def size(self) -> int:
        """The number of columns."""
        return len(self.columns)

    @property
    def dimension(self) -> int:
        """The number of coordinates: D for the mean, and D (D + 1) / 2 for the covariance."""
        return self.size * (self.size + 3) // 2

    @cached_property
    def _pairs(self) -> tuple[Integers, Integers, Floats]:
        """For each component of the statistic the indices of its two factors (0: the constant 1), and its weight."""
        pairs = []
        for i in range(1, self.size + 1):
            pairs.append((0, i, 2.0))
            pairs += [(i, j, 1.0 if i == j else 2.0) for j in range(i, self.size + 1)]
        if self.counted:
            pairs.append((0, 0, 1.0))
        first, second, weight = zip(*pairs, strict=True)
        return np.array(first), np.array(second), np.array(weight)

    @cached_property
    def half_and_middle(self) -> tuple[Floats, Floats]:
        """Half the range of each column, and its middle."""
        ends = np.array([(column.lower, column.upper) for column in self.columns])
        return (ends[:, 1] - ends[:, 0]) / 2.0, ends.mean(axis=1)

    @cached_property
    def _freedoms(self) -> Floats:
        return np.asarray(self.freedom - np.arange(self.size), dtype=np.float64)

    @cached_property
    def _scale(self) -> Floats:
        """The square roots of the diagonal prior scale matrix; the covariance has the expectation diag(deviation^2)."""
        return np.asarray(self.deviation) * float(np.sqrt(self.freedom - self.size - 1.0))

    @cached_property
    def _prior_scatter(self) -> Floats:
        return np.asarray(self.deviation) ** 2 * max(self.freedom - self.size - 1.0, 1e-3)

    def draw_prior(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw points from the prior: coordinates of the mean, of the diagonal of A, and of A below the diagonal."""
        d = self.size
        points = np.hstack([np.zeros((size, d)), self._draw_entries(size, rng)])
        points[:, :d] = (self._root(points) @ rng.standard_normal((size, d, 1)))[..., 0] / np.asarray(self.deviation)
        return points

    def _draw_entries(self, size: int, rng: np.random.Generator) -> Floats:
        d = self.size
        diagonal = np.log(rng.chisquare(self._freedoms, (size, d)))
        return np.hstack([diagonal, rng.standard_normal((size, d * (d - 1) // 2))])

    def _entries(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the logarithms of the squared diagonal of A, and the entries below the diagonal."""
        return points[..., self.size : 2 * self.size], points[..., 2 * self.size :]

    def log_prior(self, points: Floats) -> Floats:
        d = self.size
        diagonal, below = self._entries(points)
        # the precision of sqrt(strength) (mean - prior mean) is L A A' L', L = diag(1 / scale)
        offset = points[..., :d] * (np.asarray(self.deviation) / self._scale)
        standard = (np.swapaxes(self._lower(points), -1, -2) @ offset[..., None])[..., 0]
        chi = (0.5 * (self._freedoms + 1.0) * diagonal - 0.5 * np.exp(diagonal)).sum(axis=-1)
        return np.asarray(chi - 0.5 * (below**2).sum(axis=-1) - 0.5 * (standard**2).sum(axis=-1))

    def _lower(self, points: Floats) -> Floats:
        """Return Bartlett's lower triangular A."""
        d = self.size
        diagonal, below = self._entries(points)
        lower = np.zeros((*points.shape[:-1], d, d))
        index = np.arange(d)
        lower[..., index, index] = np.exp(0.5 * np.clip(diagonal, -_MAX_LOG_CHI_SQUARE, _MAX_LOG_CHI_SQUARE))
        rows, columns = np.tril_indices(d, -1)
        lower[..., rows, columns] = below
        return lower

    def _root(self, points: Floats) -> Floats:
        """Return R, the inverse of a factor of the precision; the covariance is R R'."""
        return np.swapaxes(inverse_factor(self._lower(points)), -1, -2) * self._scale[:, None]

    def scaled(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the mean and the covariance of the scaled numbers, shapes (..., D) and (..., D, D)."""
        root, unit = self._root(points), np.asarray(self.deviation) / self.strength**0.5
        return np.asarray(self.prior_mean) + unit * points[..., : self.size], root @ np.swapaxes(root, -1, -2)

    def parameters(self, points: Floats) -> Floats:
        """Return means, then variances and covariances row by row, in the units of the columns."""
        mean, covariance = self.scaled(points)
        half, middle = self.half_and_middle
        rows, columns = np.triu_indices(self.size)
        spread = covariance[..., rows, columns] * half[rows] * half[columns]
        return np.concatenate([middle + half * mean, spread], axis=-1)

    def moments(self, points: Floats) -> tuple[Floats, Floats]:
        """Return mean and covariance of the products of normal numbers (Isserlis), ignoring the bounds."""
        mu, sigma = self._extended(points)
        i, j, weight = self._pairs
        unit = float(self.columns[0].steps) ** 2
        square = sigma + mu[..., :, None] * mu[..., None, :]
        size = self.size + 1
        flat = square.reshape(*square.shape[:-2], size * size)
        ik, jl, il = (flat.take(a[:, None] * size + b, axis=-1) for a, b in ((i, i), (j, j), (i, j)))
        product = mu[..., i] * mu[..., j]
        second = ik
        second *= jl
        second += il * np.swapaxes(il, -1, -2)
        second -= 2.0 * product[..., :, None] * product[..., None, :]
        second *= weight[:, None] * weight * unit**2
        return flat.take(i * size + j, axis=-1) * (weight * unit), second

    def mean(self, points: Floats) -> Floats:
        mu, sigma = self._extended(points)
        i, j, weight = self._pairs
        return (sigma[..., i, j] + mu[..., i] * mu[..., j]) * (weight * float(self.columns[0].steps) ** 2)

    def _extended(self, points: Floats) -> tuple[Floats, Floats]:
        """Return mean and covariance of the vector (1, scaled numbers)."""
        mean, covariance = self.scaled(points)
        mu = np.concatenate([np.ones((*mean.shape[:-1], 1)), mean], axis=-1)
        sigma = np.zeros((*mean.shape[:-1], self.size + 1, self.size + 1))
        sigma[..., 1:, 1:] = covariance
        return mu, sigma

    def complete_data_sd(self, points: Floats, n_records: Floats) -> Floats:
        """Return the posterior sds after n records whose sums equal their expectations (normal-inverse-Wishart)."""
        d = self.size
        _, covariance = self.scaled(points)
        half, _ = self.half_and_middle
        n = n_records[..., None]
        variance = np.diagonal(covariance, axis1=-2, axis2=-1)
        rows, columns = np.triu_indices(d)
        slack = np.maximum(self.freedom + n - d - 1.0, 1e-3)
        of_mean = half * np.sqrt(variance / (self.strength + n) * (self.freedom + n) / slack)
        product = variance[..., rows] * variance[..., columns] + covariance[..., rows, columns] ** 2
        of_spread = half[rows] * half[columns] * np.sqrt(product / slack)
        return np.concatenate([of_mean, of_spread], axis=-1)

    def warning(self, points: Floats) -> str:
        """Return a warning if the posterior expects more than one number in a thousand out of bounds."""
        mean, covariance = self.scaled(points)
        sd = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
        outside = float((ndtr((-1.0 - mean) / sd) + ndtr((mean - 1.0) / sd)).mean(axis=0).max())
        if outside <= _MAX_SHARE_OUT_OF_BOUNDS:
            return ""
        return (
            f"a normal law with this mean and spread has {outside:.1%} of the numbers of a column beyond the bounds. "
            "If so many recorded numbers are at a bound, variances are underestimated, because inference ignores "
            "clamping: use wider bounds in another release, or a prior with smaller deviations"
        )

    def conjugate(self, observed: Floats, n_records: float) -> NormalInverseWishart:
        """Return the conjugate posterior given the nearest positive semidefinite second moments."""
        d, unit, n = self.size, float(self.columns[0].steps) ** 2, n_records
        if self.counted:
            n = min(max(observed[-1] / unit, 0.0), n_records)
        i, j, weight = self._pairs
        moments = np.zeros((d + 1, d + 1))
        moments[i, j] = moments[j, i] = observed / unit / weight / max(n, 1e-300)
        center = np.clip(moments[0, 1:], -1.0, 1.0) if n > 0 else np.zeros(d)
        values, vectors = eigh(moments[1:, 1:] - np.outer(center, center))
        scatter = (vectors * np.clip(values, 0.0, float(d))) @ vectors.T * n if n > 0 else np.zeros((d, d))
        prior_mean, strength = np.asarray(self.prior_mean), self.strength + n
        offset = center - prior_mean
        scale = np.diag(self._prior_scatter) + scatter + np.outer(offset, offset) * self.strength * n / strength
        location = (self.strength * prior_mean + n * center) / strength
        return NormalInverseWishart(n, location, strength, scale)

    def draw_plug_in(self, observed: Floats, n_records: float, size: int, rng: np.random.Generator) -> Floats:
        """Draw from the normal-inverse-Wishart posterior given the nearest positive semidefinite second moments."""
        d, posterior = self.size, self.conjugate(observed, n_records)
        root = np.linalg.cholesky(posterior.scale)
        lower = np.zeros((size, d, d))
        index = np.arange(d)
        lower[:, index, index] = np.sqrt(rng.chisquare(self.freedom + posterior.n_records - index, (size, d)))
        rows, columns = np.tril_indices(d, -1)
        lower[:, rows, columns] = rng.standard_normal((size, len(rows)))
        factor = root @ np.swapaxes(inverse_factor(lower), -1, -2)
        mean = posterior.location + (factor @ rng.standard_normal((size, d, 1)))[..., 0] / np.sqrt(posterior.strength)
        covariance = factor @ np.swapaxes(factor, -1, -2)
        half, middle = self.half_and_middle
        p, q = np.triu_indices(d)
        return np.hstack([middle + half * mean, covariance[:, p, q] * half[p] * half[q]])


def inverse_factor(lower: Floats) -> Floats:
    """Return inverses of lower triangular matrices by forward substitution, which is stable at all scales."""
    d = lower.shape[-1]
    result = np.zeros_like(lower)
    for i in range(d):
        row = -(lower[..., i : i + 1, :i] @ result[..., :i, :])
        row[..., 0, i] += 1.0
        result[..., i, :] = row[..., 0, :] / lower[..., i, i, None]
    return result
