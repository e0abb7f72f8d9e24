"""The distribution of sums plus noise in many cases at once, by inversion of characteristic functions.

If the noise is Laplace with a scale b of at least the standard deviation of the sum S, the likelihood is a sum of two
terms, one for S <= y and one for S > y:

    p(y | theta) = P(noise = 0) * (exp(-y/b) E[exp(S/b) 1(S <= y)] + exp(y/b) E[exp(-S/b) 1(S > y)]).

Each expectation is an exponential moment of S times a probability under an exponentially tilted law of S. The formula
of Gil-Pelaez computes this probability from a few hundred frequencies, however wide the noise is. In all other cases
the product of the characteristic functions of sum and noise is inverted directly.

Source: Gil-Pelaez 1951; the rest is derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from dpbayes_cli.base.numeric import Booleans, Complexes, Floats, Integers
from dpbayes_cli.core.record_law import ScalarLaw
from dpbayes_cli.privacy.noise import NoiseLaw

_FREQUENCIES = 192
_MANY_RECORDS = 100.0
_MAX_FREQUENCIES = 2048
_MAX_TILT_EXPONENT = 60.0
"""The largest product of a tilt and the contribution of one record to the sum."""
_MIN_PROBABILITY = 1e-12
_TAIL_SDS, _TAIL_JUMPS = 9.0, 12.0
"""The tails of a sum are cut off 9 standard deviations plus 12 times the largest jump away from its mean."""
_BATCH_PAIRS = 1 << 14
"""The number of pairs of a case and an angle computed at a time; their arrays fit into the processor's cache."""
_BATCH_CASES = 512
"""The number of cases computed at a time; their terms take at most 16 MB."""
_NEGLIGIBLE_NATS = 36.0
"""Terms whose modulus is below exp(-36) are left out."""


def frequencies_for(n_records: float) -> int:
    """Return the number of frequencies for sums of so many records; sums of few records need more."""
    if n_records >= _MANY_RECORDS:
        return _FREQUENCIES // 2
    return int(max(_FREQUENCIES, min(4096 / max(n_records, 1.0), 1024)))


@dataclass(frozen=True)
class _Tilted:
    """The exponentially tilted distributions of one record's contribution s, by point, and of the sum S, by case.

    Attributes:
        tilt: the tilt t, which multiplies densities by exp(t s).
        log_mass_of_one, mean_of_one: log E[exp(t s)] and the tilted mean of s, shape (n_points,).
        log_mass: log E[exp(t S)], shape (n_cases,).
        mean, sd: the mean and the standard deviation of the tilted sum, shape (n_cases,).
        reach: the distance from the mean at which the tails are cut off, shape (n_cases,).
    """

    tilt: float
    log_mass_of_one: Floats
    mean_of_one: Floats
    log_mass: Floats
    mean: Floats
    sd: Floats
    reach: Floats


@dataclass(frozen=True)
class SumTable:
    """The distribution of a noisy sum in many cases; a case is a parameter value together with a number of records.

    Attributes:
        noise: the law of the noise.
        law: the law of a record.
        points: coordinates of parameters, shape (n_points, 1).
        of_point: the index of the point of each case, shape (n_cases,).
        n_records: the number of records of each case, which should be similar, shape (n_cases,).
        frequencies: the usual number of frequencies.
    """

    noise: NoiseLaw
    law: ScalarLaw
    points: Floats
    of_point: Integers
    n_records: Floats
    frequencies: int

    def _subset(self, rows: Booleans) -> tuple[SumTable, Booleans]:
        """Return the table of some cases, and which points occur in it."""
        occurs, of_point = reindex(self.of_point[rows], len(self.points))
        table = replace(self, points=self.points[occurs], of_point=of_point, n_records=self.n_records[rows])
        return table, occurs

    def log_likelihoods(self, case: Integers, y: Floats) -> Floats:
        """Return the log likelihood of each observed sum ``y`` under its case, shape (n_pairs,)."""
        noise, decay = self.noise, self.noise.decay
        if decay is None:
            return self._by_batches(case, y)
        untilted = self._tilted(0.0)
        if not decay.exponential:
            return self._direct(case, y, untilted)
        wide = np.asarray(noise.scale >= untilted.sd)
        result, split = np.empty(len(case)), wide[case]
        if split.any():
            index = (np.cumsum(wide) - 1)[case[split]]
            result[split] = self._subset(wide)[0]._split(index, y[split], noise, untilted.sd[wide])
        if not split.all():
            result[~split] = self._direct(case[~split], y[~split], untilted)
        return result

    def _by_batches(self, case: Integers, y: Floats) -> Floats:
        """Return the log likelihoods if nothing is known about the shape of the noise, some cases at a time.

        The probabilities of such noise may jump, and its characteristic function need not decay. The grid must
        therefore contain all frequencies at which the characteristic function of the sum is not negligible.
        """
        result = np.empty(len(case))
        for start in range(0, len(self.n_records), _BATCH_CASES):
            rows = np.arange(len(self.n_records)) // _BATCH_CASES == start // _BATCH_CASES
            pairs = rows[case]
            if pairs.any():
                table = self._subset(rows)[0]
                untilted = table._tilted(0.0)
                reach = float(untilted.reach.max()) + _TAIL_SDS * math.sqrt(self.noise.variance)
                count = int(min(4.0 * reach / float(untilted.sd.min()), _MAX_FREQUENCIES))
                table = replace(table, frequencies=max(self.frequencies, count))
                result[pairs] = table._direct(case[pairs] - start, y[pairs], untilted)
        return result

    @property
    def _offset(self) -> Floats:
        """The smallest possible sum, modulo the spacing of the lattice of sums, shape (n_cases,)."""
        return np.asarray((self.n_records * self.law.span) % max(self.law.spacing, 1))

    def _grid(self, reach: Floats, d: int) -> tuple[Floats, Floats]:
        """Return midpoints of frequency intervals, shape (n_points, n_frequencies), and their spacing for each point.

        The spacing is so small that sums within ``reach`` of their mean do not alias with each other. If the sums form
        a lattice of spacing d > 0, frequencies beyond pi / d are not needed; for sums of few records the grid extends
        up to pi / d.
        """
        farthest = np.zeros(len(self.points))
        np.maximum.at(farthest, self.of_point, reach)
        count = self.frequencies
        if d and self.n_records.max(initial=0.0) < _MANY_RECORDS:
            count = int(min(max(count, np.ceil(2.0 * farthest.max() / d)), _MAX_FREQUENCIES))
        spacing = np.pi / (2.0 * farthest)
        if d:
            spacing = np.minimum(spacing, np.pi / d / count)
        return spacing[:, None] * (np.arange(count) + 0.5), spacing

    def _log_characteristic(self, frequencies: Any) -> Complexes:
        """Return log E[exp(i u s)] of one record's contribution s at each point, up to multiples of 2 pi i."""
        value = self.law.characteristic(self.points, frequencies)
        return np.asarray(np.log(np.where(np.abs(value) < 1e-300, 1e-300, value)))

    def _tilted(self, tilt: float) -> _Tilted:
        """Return the tilted distributions, by central differences of the log moment generating function.

        Means and standard deviations are used only for scaling; errors of a percent do not change a likelihood.
        """
        span, n, case = self.law.span, self.n_records, self.of_point
        step, wide = 1e-3 / span, 1e-2 / span
        offsets = np.array([[-2 * wide, -wide, -step, 0.0, step, wide, 2 * wide]])
        logs = self._log_characteristic(-1j * (tilt + offsets)).real
        first = (logs[:, 4] - logs[:, 2]) / (2.0 * step)
        second = (logs[:, 4] - 2.0 * logs[:, 3] + logs[:, 2]) / step**2
        third = (logs[:, 6] - 2.0 * logs[:, 5] + 2.0 * logs[:, 1] - logs[:, 0]) / (2.0 * wide**3)
        rounding = 1e-15 * np.abs(logs).max(axis=1)
        variance = np.maximum(second, rounding / step**2) + 1e-18 * span**2
        jump = np.minimum((np.abs(third) + rounding / wide**3) / variance, span)
        sd = np.sqrt(n * variance[case] + 1e-18 * span**2)
        reach = _TAIL_SDS * sd + _TAIL_JUMPS * np.where(n > 0, jump[case], 0.0)
        return _Tilted(tilt, logs[:, 3], first, n * logs[:, 3][case], n * first[case], sd, reach)

    def _terms(self, tilted: _Tilted, points: Booleans, u: Floats, weights: Floats) -> Complexes:
        """Return weights times the characteristic functions of centered tilted sums, shape (n_cases, n_frequencies).

        Args:
            tilted: the distributions of a larger table, of which this table is a subset.
            points: which points of the larger table occur in this one.
            u, weights: frequencies and weights, shape (n_points, n_frequencies).
        """
        one = self._log_characteristic(u - 1j * tilted.tilt)
        one -= tilted.log_mass_of_one[points, None] + 1j * u * tilted.mean_of_one[points, None]
        relevant = (float(self.n_records.min()) * one.real > -_NEGLIGIBLE_NATS).any(axis=0)
        count = int(np.flatnonzero(relevant)[-1]) + 1 if relevant.any() else 1
        terms = one[self.of_point, :count]
        terms *= self.n_records[:, None]
        np.exp(terms, out=terms)
        terms *= weights[self.of_point, :count]
        return np.asarray(terms)

    def _split(self, case: Integers, y: Floats, noise: NoiseLaw, sd: Floats) -> Floats:
        """Return the log likelihoods under Laplace noise of scale b, as sums of one term for S <= y and one for S > y.

        The first term is at most P(S <= y), and the second at most P(S > y). Both are capped at the Chernoff bound on
        this probability, because tilts amplify the errors of small tail probabilities.
        """
        sides = []
        for sign in (1.0, -1.0):
            tilted = self._tilted(sign / noise.scale)
            below = self._probability_below(case, y, tilted)
            share = np.clip(below if sign > 0 else 1.0 - below, _MIN_PROBABILITY, 1.0)
            side = tilted.log_mass[case] - sign * y / noise.scale + np.log(share)
            sides.append(np.minimum(side, self._chernoff(case, y, sign, noise.scale, sd)))
        return np.asarray(np.logaddexp(*sides) + noise.log_pmf(np.array(0)))

    def _chernoff(self, case: Integers, y: Floats, sign: float, scale: float, sd: Floats) -> Floats:
        """Return the best Chernoff bound on log P(sign * (S - y) <= 0) from several exponential moments."""
        widest = np.zeros(len(self.points))
        np.maximum.at(widest, self.of_point, sd)
        by_noise = np.broadcast_to(np.array([1.0, 2.0, 4.0, 8.0]) / scale, (len(widest), 4))
        tilts = np.concatenate([by_noise, np.array([1.5, 3.0, 6.0]) / widest[:, None]], axis=1)
        tilts = np.minimum(tilts, _MAX_TILT_EXPONENT / self.law.span)
        logs = self._log_characteristic(1j * sign * tilts).real
        bound, point, n_records = np.zeros(len(case)), self.of_point[case], self.n_records[case]
        for log, tilt in zip(logs.T, tilts.T, strict=True):
            bound = np.minimum(bound, n_records * log[point] + sign * y * tilt[point])
        return bound

    def _probability_below(self, case: Integers, y: Floats, tilted: _Tilted) -> Floats:
        """Return P(S <= y) under the tilted distribution, by the formula of Gil-Pelaez at midpoints.

        With frequencies of spacing h, the distribution is repeated with period 2 pi / h, which is so long that only one
        period matters at y. If the sums form a lattice of spacing d, all frequencies are below pi / d, and y is moved
        to the middle between two lattice points.
        """
        d = self.law.spacing
        offset = self._offset[case]
        cut = d * np.floor((y - offset) / d) + offset + d / 2.0 if d else y + 0.5
        away = cut - tilted.mean[case]
        near = np.abs(away) < tilted.reach[case]
        result = np.where(away > 0, 1.0, 0.0)
        if not near.any():
            return result
        rows, index = reindex(case[near], len(self.n_records))
        part, points = self._subset(rows)
        u, spacing = part._grid(tilted.reach[rows], d)
        kernel = np.sin(u * d / 2.0) * (2.0 / d) if d else u
        terms = part._terms(tilted, points, u, (spacing[:, None] / np.pi) / kernel)
        result[near] = 0.5 - _series_at(terms, index, spacing[part.of_point[index]] * away[near]).imag
        return result

    def _direct(self, case: Integers, y: Floats, untilted: _Tilted) -> Floats:
        """Return the log likelihoods by inverting the characteristic function of the sum plus noise.

        Far from the mean no digits are accurate, because of cancellation. There the sum is treated as normal, and the
        tail is that of a normal variable plus Laplace noise, or that of a normal variable with the same variance as the
        sum plus noise. Too light a tail would mislead the search for the posterior, which compares densities far from
        the mode.
        """
        noise = self.noise
        sd, away = np.sqrt(untilted.sd**2 + noise.variance), y - untilted.mean[case]
        reach = np.hypot(untilted.reach, _TAIL_SDS * math.sqrt(noise.variance))
        log_mass = untilted.log_mass[case]
        result = np.asarray(log_mass - 0.5 * (away / sd[case]) ** 2 - np.log(sd[case] * math.sqrt(2.0 * math.pi)))
        if noise.decay is not None and noise.decay.exponential:  # its tails are much heavier than normal ones
            spread, b = untilted.sd[case], noise.scale
            sides = [sign * away / b + log_ndtr(-sign * away / spread - spread / b) for sign in (1.0, -1.0)]
            result = log_mass + 0.5 * (spread / b) ** 2 + np.logaddexp(*sides) + noise.log_pmf(np.array(0))
        if noise.decay is None:  # its tails may be heavier than normal ones
            result = np.maximum(result, log_mass + noise.log_pmf(np.rint(away).astype(np.int64)))
        near = np.abs(away) < reach[case]
        if not near.any():
            return result
        rows, index = reindex(case[near], len(self.n_records))
        part, points = self._subset(rows)
        u, spacing = part._grid(reach[rows], max(self.law.spacing, 1))
        angles, width = spacing[part.of_point[index]] * away[near], spacing[:, None] / np.pi
        density = _series_at(part._terms(untilted, points, u, noise.characteristic(u) * width), index, angles).real
        if self.law.spacing == 2:  # frequencies beyond pi / 2 repeat those below, up to the sign (-1)^(y - sum)
            other = part._terms(untilted, points, u, noise.characteristic(np.pi - u) * width)
            even = (y[near] - self._offset[case[near]]) % 2 == 0
            density = density + np.where(even, 1.0, -1.0) * _series_at(other, index, angles).real
        accurate = density > _MIN_PROBABILITY / sd[case[near]]
        result[near] = np.where(accurate, log_mass[near] + np.log(np.where(accurate, density, 1.0)), result[near])
        return result


def reindex(chosen: Integers, size: int) -> tuple[Booleans, Integers]:
    """Return which of the indices 0..size-1 occur in ``chosen``, and the rank of each chosen index among these."""
    occurs = np.zeros(size, dtype=np.bool_)
    occurs[chosen] = True
    return occurs, np.asarray((np.cumsum(occurs) - 1)[chosen])


def _series_at(terms: Complexes, case: Integers, angles: Floats) -> Complexes:
    """Return sum_j terms[case, j] exp(-i (j + 1/2) angle) for pairs of a case and an angle, by Horner's rule."""
    columns = np.ascontiguousarray(terms.T[::-1])
    result = np.empty(len(case), dtype=np.complex128)
    for start in range(0, len(case), _BATCH_PAIRS):
        batch = slice(start, start + _BATCH_PAIRS)
        index, step = case[batch], np.exp(-1j * angles[batch])
        total = np.zeros_like(step)
        for column in columns:
            total *= step
            total += column[index]
        result[batch] = total * np.exp(-0.5j * angles[batch])
    return result


def moments_of_one(law: ScalarLaw, points: Floats, noise: NoiseLaw) -> Floats:
    """Return mean and standard deviation of what a counted record adds to the sum, shape (n_points, 2)."""
    one = SumTable(noise, law, points, np.arange(len(points)), np.ones(len(points)), _FREQUENCIES)._tilted(0.0)
    return np.column_stack([one.mean, one.sd])
