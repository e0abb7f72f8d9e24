"""The exact probability of what was released, given the parameter, for one sum: by its characteristic function.

y is the sum of m independent contributions of one law, m known or itself seen through noise, plus noise. Where the
noise is Laplace and not narrower than the sum, p(y | theta) is split at y,

    p(y) = c [exp(-y/b) E[exp(S/b); S <= y] + exp(y/b) E[exp(-S/b); S > y]],

exponential moments times probabilities of a tilted law: smooth numbers in [0, 1], found by Gil-Pelaez' formula on some
hundred frequencies of the sum's own scale, however wide the noise. Elsewhere the product of both characteristic
functions is inverted directly. An unknown m is summed over, with the weights that its own noisy count gives it.

Source: Gil-Pelaez 1951; mechanisms, noise-aware inference (p(statistic | theta) by the characteristic function).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes_cli.privacy.noise import DiscreteLaplace, NoiseLaw
from dpbayes_cli.problems import NoisySums, ScalarLaw

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpbayes_cli.numeric import Complexes, Floats

    Rows = NDArray[np.bool_]

_FREQUENCIES = 192
_MANY = 100.0
_MOST_FREQUENCIES = 2048
_STEEPEST = 60.0
"""The largest exponent that a tilt gives to a record."""
_NATS = 30.0
_LEAST_SHARE = 1e-12
_REACH = 9.0
"""Standard deviations of a sum beyond which its tail is not looked at."""
_JUMPS = 12.0
"""As many of the largest jumps are looked at besides."""


def log_likelihoods(
    problem: NoisySums, law: ScalarLaw, observed: Floats, points: Floats, effort: float = 1.0
) -> Floats:
    """Return log p(observed | theta), up to one constant, for all pairs of points and observations.

    Args:
        problem: the law, the noise and the total; its own observation is not looked at.
        law: a scalar law that clamps.
        observed: privatized statistics, shape (n_observed, n_components).
        points: parameters, shape (n_points, 1).
        effort: a factor on the number of frequencies.

    Returns:
        Shape (n_points, n_observed).
    """
    if problem.total.kind == "known":
        n_records = np.full(len(points), float(problem.total.n))
        count = round(_frequencies(problem.total.n) * effort)
        return _Table(problem.noise, law, points, n_records, count).log_likelihoods(observed[:, 0])
    columns = []
    for y, valid in observed:
        numbers, log_weights = _numbers(problem, float(valid))
        rows, n_records = np.repeat(points, len(numbers), axis=0), np.tile(numbers, len(points))
        count = round(_frequencies(float(numbers[numbers > 0].min(initial=_MANY))) * effort)
        table = _Table(problem.noise, law, rows, n_records, count)
        terms = table.log_likelihoods(np.array([y])).reshape(len(points), -1) + log_weights
        largest = terms.max(axis=1, keepdims=True)
        columns.append(largest[:, 0] + np.log(np.exp(terms - largest).sum(axis=1)))
    return np.column_stack(columns)


def _frequencies(n_records: float) -> int:
    """Return how many frequencies a sum needs: the characteristic function of few clamped numbers decays slowly."""
    return _FREQUENCIES // 2 if n_records >= _MANY else int(max(_FREQUENCIES, min(4096 / max(n_records, 1.0), 1024)))


def _numbers(problem: NoisySums, observed: float) -> tuple[Floats, Floats]:
    """Return numbers of valid records and their log weights, given what was released about that number.

    Every number where they are few; else a trapezoidal rule that is finest next to the observation, where the law of
    Laplace noise has its kink.
    """
    centre, scale = observed / problem.valid, problem.noise.scale / problem.valid
    most = float(problem.total.n) if problem.total.kind == "at-most" else math.inf
    reach = problem.noise.radius(_NATS) / problem.valid
    middle = min(max(centre, 0.0), most)
    low, high = max(0.0, math.floor(middle - reach)), min(most, math.ceil(middle + reach))
    gaussian = not isinstance(problem.noise, DiscreteLaplace)
    steps = [(reach, scale / 4.0)] if gaussian else [(2.0 * scale, scale / 6.0), (8.0 * scale, scale / 2.0)]
    offsets, start = [np.zeros(1)], 0.0
    for stop, step in [*steps, (reach, 2.0 * scale)]:
        offsets.append(np.arange(start + step, stop + step, step))
        start = float(offsets[-1][-1]) if len(offsets[-1]) else start
    away = np.concatenate(offsets)
    nodes = np.concatenate([middle - away, middle + away, [low, high]])
    if high - low < len(nodes):
        nodes = np.arange(low, high + 1)
    numbers = np.unique(np.rint(nodes[(nodes >= low) & (nodes <= high)]))
    gaps = np.diff(numbers) / 2.0
    stands = np.concatenate([[0.5], gaps]) + np.concatenate([gaps, [0.5]])
    away = (numbers - centre) / scale
    log_noise = -0.5 * away**2 if gaussian else -np.abs(away)
    return numbers, np.asarray(log_noise + np.log(stands))


@dataclass(frozen=True)
class _Tilted:
    """A sum under an exponential tilt t: its log mass, mean and sd, for every point.

    Attributes:
        tilt: t.
        log_mass: log E[exp(t S)].
        mean, sd: of the tilted law.
        reach: how far from the mean its tails go: some sds, and some of the largest jumps that single records make.
    """

    tilt: float
    log_mass: Floats
    mean: Floats
    sd: Floats
    reach: Floats


@dataclass(frozen=True)
class _Table:
    """The law of what is observed in many cases, for any number of observations at once.

    Attributes:
        noise: the law of the noise.
        law: the law of a record.
        points: the parameter of each case, shape (n_cases, 1).
        n_records: the number of records of each, shape (n_cases,).
        frequencies: how many.
    """

    noise: NoiseLaw
    law: ScalarLaw
    points: Floats
    n_records: Floats
    frequencies: int

    def _only(self, rows: Rows) -> _Table:
        return replace(self, points=self.points[rows], n_records=self.n_records[rows])

    def log_likelihoods(self, y: Floats) -> Floats:
        """Return the log likelihoods of observed sums, shape (n_points, n_observed)."""
        plain, noise = self._tilted(0.0), self.noise
        result = self._direct(y, plain)
        if isinstance(noise, DiscreteLaplace):
            wide = np.asarray(noise.scale >= plain.sd)
            if wide.any():
                result[wide] = self._only(wide)._split(y, noise, plain.sd[wide])
        return result

    @property
    def _offset(self) -> Floats:
        """The smallest possible sum, up to multiples of the spacing of a lattice, shape (n_cases, 1)."""
        return np.asarray((self.n_records * self.law.span) % max(self.law.spacing, 1))[:, None]

    def _grid(self, reach: Floats, d: int) -> tuple[Floats, Floats]:
        """Return midpoints of frequencies, shape (n_cases, n_frequencies), and their spacing.

        Args:
            reach: half the range of sums that must not be folded onto each other.
            d: the spacing of the lattice of sums, 0 where there is none. It has no frequencies beyond pi / d, and few
                records get all of those.
        """
        count = self.frequencies
        if d and self.n_records.max(initial=0.0) < _MANY:
            count = int(min(max(count, np.ceil(2.0 * reach.max() / d)), _MOST_FREQUENCIES))
        spacing = np.pi / (2.0 * reach)
        if d:
            spacing = np.minimum(spacing, np.pi / d / count)
        return spacing[:, None] * (np.arange(count) + 0.5), spacing

    def _log_sum(self, frequencies: Any) -> Complexes:
        """Return log E[exp(i u S)], its imaginary part only up to multiples of 2 pi."""
        value = self.law.characteristic(self.points, frequencies)
        return np.asarray(self.n_records[:, None] * np.log(np.where(np.abs(value) < 1e-300, 1e-300, value)))

    def _tilted(self, tilt: float) -> _Tilted:
        """Return mass, mean and sd under a tilt, by central differences of the logarithm of the moment function.

        The differences only set scales: an error of a percent in them changes no result.
        """
        span = self.law.span
        step, wide = 1e-3 / span, 1e-2 / span
        logs = self._log_sum(-1j * (tilt + np.array([[-2 * wide, -wide, -step, 0.0, step, wide, 2 * wide]]))).real
        first = (logs[:, 4] - logs[:, 2]) / (2.0 * step)
        second = (logs[:, 4] - 2.0 * logs[:, 3] + logs[:, 2]) / step**2
        third = (logs[:, 6] - 2.0 * logs[:, 5] + 2.0 * logs[:, 1] - logs[:, 0]) / (2.0 * wide**3)
        rounding = 1e-15 * np.abs(logs).max(axis=1)
        variance = np.maximum(second, rounding / step**2) + 1e-18 * span**2
        jump = np.minimum((np.abs(third) + rounding / wide**3) / variance, span)
        return _Tilted(tilt, logs[:, 3], first, np.sqrt(variance), _REACH * np.sqrt(variance) + _JUMPS * jump)

    def _split(self, y: Floats, noise: DiscreteLaplace, sd: Floats) -> Floats:
        """Return the log likelihoods under Laplace noise by the split at y.

        A side is an expectation of exp(-distance / b) beyond y, at most the probability to be there, and so at most
        what Chernoff's bound says of it: an inaccurate probability of a tail is not multiplied by its tilt.
        """
        sides = []
        for sign in (1.0, -1.0):
            tilted = self._tilted(sign / noise.scale)
            below = self._probability_below(y, tilted)
            share = np.clip(below if sign > 0 else 1.0 - below, _LEAST_SHARE, 1.0)
            side = tilted.log_mass[:, None] - sign * y / noise.scale + np.log(share)
            sides.append(np.minimum(side, self._chernoff(y, sign, noise.scale, sd)))
        return np.asarray(np.logaddexp(*sides) + noise.log_pmf(np.array(0)))

    def _chernoff(self, y: Floats, sign: float, scale: float, sd: Floats) -> Floats:
        """Return a bound of log P(sign (S - y) <= 0), the best of several exponential moments."""
        by_noise = np.broadcast_to(np.array([1.0, 2.0, 4.0, 8.0]) / scale, (len(sd), 4))
        tilts = np.concatenate([by_noise, np.array([1.5, 3.0, 6.0]) / sd[:, None]], axis=1)
        tilts = np.minimum(tilts, _STEEPEST / self.law.span)
        logs = self._log_sum(1j * sign * tilts).real
        bounds = logs[:, None, :] + sign * y[None, :, None] * tilts[:, None, :]
        return np.asarray(np.minimum(bounds.min(axis=2), 0.0))

    def _probability_below(self, y: Floats, tilted: _Tilted) -> Floats:
        """Return P(S <= y) under the tilted law, by Gil-Pelaez' formula at midpoints.

        Midpoints of spacing h fold the law with period 2 pi / h, which is chosen so that nothing is folded onto y. A
        lattice of spacing d has all of its frequencies below pi / d, and y goes to the middle of its gap.
        """
        d = self.law.spacing
        ends = d * np.floor((y - self._offset) / d) + self._offset + d / 2.0 if d else y[None, :] + 0.5
        away = ends - tilted.mean[:, None]
        near = np.abs(away) < tilted.reach[:, None]
        result = np.where(away > 0, 1.0, 0.0)
        rows = np.asarray(near.any(axis=1))
        if not rows.any():
            return result
        u, spacing = self._grid(tilted.reach[rows], d)
        logs = self._only(rows)._log_sum(u - 1j * tilted.tilt)
        shift = 1j * u * tilted.mean[rows, None]
        kernel = np.sin(u * d / 2.0) * (2.0 / d) if d else u
        weights = (spacing[:, None] / np.pi) / kernel
        terms = np.asarray(np.exp(logs - tilted.log_mass[rows, None] - shift) * weights, dtype=np.complex128)
        inside = 0.5 - _series_at(terms, spacing[:, None] * away[rows]).imag
        result[rows] = np.where(near[rows], inside, result[rows])
        return result

    def _direct(self, y: Floats, plain: _Tilted) -> Floats:
        """Return the log likelihoods by inverting the characteristic function of the sum plus noise.

        Far from the mean, where a sum of terms of modulus one has lost its digits, a normal tail stands in.
        """
        noise = self.noise
        sd, away = np.sqrt(plain.sd**2 + noise.variance)[:, None], y - plain.mean[:, None]
        reach = np.hypot(plain.reach, _REACH * math.sqrt(noise.variance))
        result = plain.log_mass[:, None] - 0.5 * (away / sd) ** 2 - np.log(sd * math.sqrt(2.0 * math.pi))
        near = np.abs(away) < reach[:, None]
        if isinstance(noise, DiscreteLaplace):
            near &= (plain.sd > noise.scale)[:, None]
        rows = np.asarray(near.any(axis=1))
        if not rows.any():
            return result
        u, spacing = self._grid(reach[rows], max(self.law.spacing, 1))
        logs = self._only(rows)._log_sum(u)
        logs = logs - plain.log_mass[rows, None] - 1j * u * plain.mean[rows, None]
        terms = np.asarray(np.exp(logs) * (spacing[:, None] / np.pi), dtype=np.complex128)
        angles = spacing[:, None] * away[rows]
        density = _series_at(np.asarray(terms * noise.characteristic(u)), angles).real
        if self.law.spacing == 2:  # frequencies beyond pi / 2 repeat those below, up to the sign (-1)^(y - sum)
            mirrored = _series_at(np.asarray(terms * noise.characteristic(np.pi - u)), angles).real
            density = density + np.where((y - self._offset[rows]) % 2 == 0, 1.0, -1.0) * mirrored
        good = near[rows] & (density > _LEAST_SHARE / sd[rows])
        result[rows] = np.where(good, plain.log_mass[rows, None] + np.log(np.where(good, density, 1.0)), result[rows])
        return result


def _series_at(terms: Complexes, angles: Floats) -> Complexes:
    """Return sum_j terms[:, j] exp(-i (j + 1/2) angle) for every angle of a row, by Horner's rule.

    Args:
        terms: shape (n_rows, n_terms).
        angles: shape (n_rows, n_angles).
    """
    step = np.exp(-1j * angles)
    total = np.zeros_like(step)
    for column in terms.T[::-1]:
        total *= step
        total += column[:, None]
    return np.asarray(total * np.exp(-0.5j * angles))
