"""Sums over the latent counts of several categories as convolutions, by Fourier transforms.

See ``category_counts`` for the notation. The joint law of the counts is a product of K factors times

  D(n) = [G(kappa) / G(kappa + n)] [G(r + n) / G(r)] q^n (1 - q)^r,

so that sums over all counts are those of a convolution times D. All factors are tilted by exp(t c), and D by
exp(-t n), where t is the same for groups of similar size and makes D flat near a likely n. If kappa is at most r + 1, D
is nearly log-concave, so that rounding errors are small compared with the sums; for larger kappa they are not.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import gammaln

from dpbayes_cli.inference.groups.component_noise import REACH_NATS
from dpbayes_cli.inference.groups.draws import choose, noise_windows

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.inference.groups.category_law import CategoryLaw
    from dpbayes_cli.inference.groups.component_noise import ComponentNoise

_TILTS = 0.5
"""Groups whose square roots of sizes differ by less than about two have the same tilt."""
_LEAST, _CHUNK = 1e-15, 128


class _Transforms(NamedTuple):
    """What the groups have in common at one value of the hyperparameters.

    Attributes:
        rows: the tilted factors times noise probabilities in each window, shape (n_rows, width).
        log_scale: the logs of the numbers by which rows were divided, shape (n_rows,).
        factors: the Fourier transforms of the rows, shape (n_rows, n_frequencies).
        weights: D(n) times exp(-t n), divided by its largest value for the group, shape (n_groups, length).
        log_largest: the logs of these values, shape (n_groups,).
    """

    rows: Floats
    log_scale: Floats
    factors: np.ndarray
    weights: Floats
    log_largest: Floats


class ConvolvedCounts:
    """Groups with noisy counts of all categories, if kappa is at most r + 1; see ``CategoryCounts``."""

    def __init__(self, observed: Integers, noise: ComponentNoise) -> None:
        self._n_groups, self._k = observed.shape
        self._variance, self._most_tilt = self._k * noise.variance, REACH_NATS / 2.0 / max(noise.reach, 1)
        size = np.maximum(observed.sum(axis=1), 0)
        self._tilt_of = (_TILTS * np.sqrt(size)).astype(np.int64)
        self._sizes = (np.arange(int(self._tilt_of.max(initial=0)) + 1) + 0.5) ** 2 / _TILTS**2
        keys = [np.tile(np.arange(self._k), self._n_groups), observed.ravel(), np.repeat(self._tilt_of, self._k)]
        rows, place = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)
        self._row_of = place.reshape(observed.shape)
        self._category, values, self._row_tilt = rows.T
        self._counts, self._log_noise = noise_windows(values, noise)
        self._low = self._counts[:, 0]
        lengths = np.isfinite(self._log_noise).sum(axis=1)
        self._length = int((lengths[self._row_of].sum(axis=1) - self._k + 1).max())
        self._n_points = next_fast_len(self._length, real=True)
        self._chunks = [slice(start, start + _CHUNK) for start in range(0, self._n_groups, _CHUNK)]
        self._places = self._low[self._row_of].sum(axis=1)[:, None] + np.arange(self._length)

    def log_likelihood(self, law: CategoryLaw) -> float:
        """Return the log probability of all observations, up to a constant."""
        each = self._transforms(law)
        total = np.empty(self._n_groups)
        for some in self._chunks:
            sums = self._invert(self._products(each, self._row_of[some])[-1])
            total[some] = np.einsum("gn,gn->g", sums, each.weights[some])
        logs = np.log(np.maximum(total, _LEAST)) + each.log_largest + each.log_scale[self._row_of].sum(axis=1)
        return float(logs.sum())

    def moments(self, law: CategoryLaw) -> Floats:
        """Return means of the probabilities and sizes, and of their squares; see ``CategoryCounts``."""
        each = self._transforms(law)
        success, rows, raised = law.a[self._category, None] + self._counts, each.rows, []
        for i in range(2):
            rows = rows * (success + i)
            raised.append(rfft(rows, self._n_points))
        result = np.empty((2, self._n_groups, self._k + 1))
        for some in self._chunks:
            row_of, places, weights = self._row_of[some], self._places[some], each.weights[some]
            before, after = self._products(each, row_of), self._products(each, row_of, reverse=True)
            masses = self._invert(before[-1]) * weights
            for i in range(2):
                weights = weights / (law.kappa + places + i)
                tested = self._dual(weights)
                for j in range(self._k):
                    terms = raised[i][row_of[:, j]]
                    if j > 0:
                        terms *= before[j - 1]
                    if j < self._k - 1:
                        terms *= after[self._k - 2 - j]
                    result[i, some, j] = np.einsum("gw,gw->g", terms.real, tested.real)
                    result[i, some, j] += np.einsum("gw,gw->g", terms.imag, tested.imag)
                result[i, some, -1] = (masses * places ** (i + 1.0)).sum(axis=1)
            result[:, some] /= np.maximum(masses.sum(axis=1), _LEAST)[:, None]
        result[:, :, :-1] = np.clip(result[:, :, :-1], 0.0, 1.0)
        return result

    def draw_counts(self, law: CategoryLaw, rng: np.random.Generator) -> Integers:
        """Draw the latent counts: first their sum, then the last count given the sum, and so on."""
        each = self._transforms(law)
        sums, counts = self._products(each, self._row_of), np.empty(self._row_of.shape, dtype=np.int64)
        place = choose(each.weights * self._invert(sums[-1]), rng)
        for j in range(self._k - 1, 0, -1):
            rest, rows = self._invert(sums[j - 1]), self._row_of[:, j]
            left = place[:, None] - np.arange(self._counts.shape[1])
            masses = each.rows[rows] * np.take_along_axis(rest, np.maximum(left, 0), axis=1) * (left >= 0)
            chosen = choose(masses, rng)
            counts[:, j] = self._low[rows] + chosen
            place = place - chosen
        counts[:, 0] = self._low[self._row_of[:, 0]] + place
        return counts

    def _transforms(self, law: CategoryLaw) -> _Transforms:
        n = np.arange(int(self._places.max()) + 2.0)
        log_d = gammaln(law.kappa) - gammaln(law.kappa + n) + gammaln(law.shape + n) - gammaln(law.shape)
        log_d += n * law.log_q + law.shape * np.log(-np.expm1(law.log_q))
        noise, size = 1.0 / self._variance, 1.0 / (law.mean + law.mean**2 / law.shape)
        likely = (self._sizes * noise + law.mean * size) / (noise + size)
        likely = np.clip(likely, 1.0, len(n) - 2.0).astype(np.int64)
        # no less than the slope of log D far away, and less than the noise falls
        tilts = np.clip(log_d[likely + 1] - log_d[likely], law.log_q, self._most_tilt)
        counts, a = np.arange(int(self._counts.max()) + 1), law.a[:, None]
        factors = gammaln(a + counts) - gammaln(a) - gammaln(counts + 1.0)
        logs = self._log_noise + factors[self._category[:, None], self._counts]
        logs += tilts[self._row_tilt, None] * self._counts
        log_scale = logs.max(axis=1)
        rows = np.exp(logs - log_scale[:, None])
        weights = (log_d - tilts[:, None] * n)[self._tilt_of[:, None], self._places]
        log_largest = weights.max(axis=1)
        weights -= log_largest[:, None]
        np.exp(weights, out=weights)
        return _Transforms(rows, log_scale, rfft(rows, self._n_points), weights, log_largest)

    def _products(self, each: _Transforms, row_of: Integers, *, reverse: bool = False) -> list[np.ndarray]:
        """Return the products of the transforms of the first categories of groups, or of the last ones."""
        factors = [each.factors[rows] for rows in row_of.T]
        return list(accumulate(factors[::-1] if reverse else factors, np.multiply))

    def _invert(self, product: np.ndarray) -> Floats:
        return np.asarray(irfft(product, self._n_points)[:, : self._length])

    def _dual(self, weights: Floats) -> np.ndarray:
        """Return a transform whose product with that of a function adds up to the sum of weights times function."""
        result = rfft(weights, self._n_points) * (2.0 / self._n_points)
        result[:, 0] /= 2.0
        if self._n_points % 2 == 0:
            result[:, -1] /= 2.0
        return np.asarray(result)
