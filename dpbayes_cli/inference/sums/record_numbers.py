"""Numbers of records to sum a likelihood over, where that number is not known: few of them, where they matter.

The number is seen through noise of its own, its law may depend on the parameter (records out of bounds do not count),
and it moves the other component. Sums over many numbers are trapezoidal rules whose nodes lie close together around
the kinks of Laplace noise and within the spread of a binomial law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betainc, gammaln, log_ndtr

from dpbayes_cli.core.noisy_observation import NoisySums, ScalarLaw
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_NATS = 30.0
_LEFT_OUT = 20.0
"""Numbers whose share is below exp(-20) of the largest are left out."""
_ALL = 128
"""As many numbers and fewer are all summed over."""
_ALL_OF_STEPS = 2048
"""The same for noise of no known shape, whose probabilities may jump."""
_HALVINGS = 30


def numbers_of_records(
    observation: NoisySums, law: ScalarLaw, points: Floats, typical: Floats, observed: Floats
) -> tuple[Floats, Floats]:
    """Return numbers of records that count and their log weights, for pairs of a point and an observation.

    Args:
        observation: the noise and the total.
        law: the law.
        points: shape (n_pairs, 1).
        typical: mean and sd of what a record that counts adds to the sum, shape (n_pairs, 2).
        observed: shape (n_pairs, 2).

    Returns:
        Ascending numbers and the logarithms of the weight of each, its probability given the point times that of its
        own observation times the width that it stands for, both of shape (n_pairs, n_nodes); -inf where it is left
        out.
    """
    target = _Target(observation, law, points, typical, observed)
    numbers = target.nodes()
    gaps = np.diff(numbers, axis=1) / 2.0
    half = np.full((len(numbers), 1), 0.5)
    widths = np.hstack([half, gaps]) + np.hstack([gaps, half])
    with np.errstate(divide="ignore", invalid="ignore"):
        log_weights = target.log_weights(numbers) + np.log(widths)
    log_weights = np.where(np.isnan(log_weights), -np.inf, log_weights)
    share = log_weights + target.log_density(numbers)
    largest = share.max(axis=1, keepdims=True)
    return numbers, np.where(share >= largest - _LEFT_OUT, log_weights, -np.inf)


@dataclass(frozen=True)
class _Target:
    """What is summed over the number of records, up to the exact law of the sum; see ``numbers_of_records``."""

    observation: NoisySums
    law: ScalarLaw
    points: Floats
    typical: Floats
    observed: Floats

    @property
    def _noise(self) -> NoiseLaw:
        return self.observation.noise

    @property
    def _scale(self) -> float:
        """The scale of the noise, in records."""
        return self._noise.scale / self.observation.valid

    @property
    def _laplace(self) -> bool:
        """Whether nodes lie as Laplace noise has them; so they do for laws of no known shape, which fall as fast."""
        return self._noise.decay is None or self._noise.decay.exponential

    @property
    def _centre(self) -> Floats:
        """The observed number of records, shape (n_pairs, 1)."""
        return self.observed[:, 1:] / self.observation.valid

    @cached_property
    def _shares(self) -> tuple[Floats, Floats]:
        return self.law.log_shares(self.points)

    @property
    def _most(self) -> float:
        return math.inf if self.observation.total.kind == "unbounded" else float(self.observation.total.n)

    def log_weights(self, numbers: Floats) -> Floats:
        """Return the log probability of numbers given the point, and of the observation of them."""
        if self._noise.decay is None:
            noise = self._noise.log_pmf(
                np.rint(numbers * self.observation.valid - self.observed[:, 1:]).astype(np.int64)
            )
        else:
            away = (numbers - self._centre) / self._scale
            noise = -np.abs(away) if self._laplace else -0.5 * away**2
        if self.law.counts_all:
            return np.asarray(noise)
        n, (inside, outside) = self._most, self._shares
        if self.observation.total.kind == "known":
            chosen = gammaln(n + 1.0) - gammaln(numbers + 1.0) - gammaln(n - numbers + 1.0)
            counting = np.where(numbers > 0, numbers * inside, 0.0)
            return np.asarray(noise + chosen + counting + np.where(numbers < n, (n - numbers) * outside, 0.0))
        # a binomial number out of m records, m uniform on 0..n: P(Binomial(n + 1, p) > number) / ((n + 1) p)
        tail = np.where(numbers < n + 1, betainc(numbers + 1.0, n + 1.0 - numbers, np.exp(inside)), 0.0)
        return np.asarray(noise + np.log(tail) - inside)

    def log_density(self, numbers: Floats) -> Floats:
        """Return log p(observed sum | number), taking the sum of the records for normal."""
        mean, sd = self.typical[:, :1], self.typical[:, 1:]
        away, spread = np.abs(self.observed[:, :1] - numbers * mean), sd * np.sqrt(numbers) + 1e-9 * self._noise.scale
        if not self._laplace:
            variance = spread**2 + self._noise.scale**2
            return np.asarray(-0.5 * away**2 / variance - 0.5 * np.log(variance))
        b = self._noise.scale
        sides = [sign * away / b + log_ndtr(-sign * away / spread - spread / b) for sign in (1.0, -1.0)]
        return np.asarray(0.5 * (spread / b) ** 2 + np.logaddexp(*sides))

    def _slope(self, numbers: Floats) -> Floats:
        """Return the derivative of all of this in the number, about; shape (n_pairs, 1)."""
        laplace, scale = self._laplace, self._scale
        away = numbers - self._centre
        slope = -np.sign(away) / scale if laplace else -away / scale**2
        mean, variance = self.typical[:, :1], numbers * self.typical[:, 1:] ** 2
        b, residual = self._noise.scale, self.observed[:, :1] - numbers * mean
        pull = (
            np.clip(residual / (variance + 1e-9 * b**2), -1.0 / b, 1.0 / b) if laplace else residual / (variance + b**2)
        )
        slope = slope + pull * mean
        if self.law.counts_all:
            return np.asarray(slope)
        inside, outside = self._shares
        odds = np.log((self._most - numbers + 0.5) / (numbers + 0.5)) + inside - outside
        return np.asarray(slope + (odds if self.observation.total.kind == "known" else np.minimum(odds, 0.0)))

    def _mode(self, high: Floats) -> Floats:
        """Return about the most probable number, by bisection between 0 and ``high``, shape (n_pairs, 1)."""
        low, high = np.zeros_like(high), high.copy()
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            up = self._slope(middle) > 0
            low, high = np.where(up, middle, low), np.where(up, high, middle)
        return (low + high) / 2.0

    def nodes(self) -> Floats:
        """Return ascending numbers; those that stand twice stand for nothing the second time."""
        reach = self._noise.radius(_NATS) / self.observation.valid + 1.0
        high = np.minimum(np.maximum(np.ceil(self._centre + reach), 0.0), self._most)
        if self.law.counts_all:
            low = np.minimum(np.maximum(np.floor(self._centre - reach), 0.0), high)
        else:
            low, high = np.zeros_like(high), np.full_like(high, min(self._most, float(high.max())))
        width = float((high - low).max())
        if width < (_ALL if self._noise.decay is not None else _ALL_OF_STEPS):
            return np.asarray(np.minimum(low + np.arange(width + 1.0), high))
        mode = self._mode(high)
        parts = [low, high, mode]
        fine, few = (_LAPLACE, _FEW) if self._laplace else (_GAUSSIAN, _NONE)
        if not self.law.counts_all:
            binomial, widest = self._binomial(mode)
            parts.append(binomial)
            if self.observation.total.kind != "known":
                parts.append(self._binomial(self._most * np.exp(self._shares[0]))[0])
            elif self._scale >= widest:  # next to the law's own spread, noise is smooth but for its kinks
                fine = few = _NONE
        parts.append(np.clip(self._centre, low, high) + self._scale * fine)
        mean, sd = self.typical[:, :1], self.typical[:, 1:]
        with np.errstate(divide="ignore", invalid="ignore"):
            kink = np.clip(self.observed[:, :1] / mean, low, high)
            wide = np.minimum(np.hypot(self._noise.scale, sd * np.sqrt(kink)) / np.abs(mean), 1e18)
        parts.append(np.nan_to_num(kink) + np.nan_to_num(wide) * few)
        nodes = np.rint(np.clip(np.concatenate(parts, axis=1), low, high))
        return np.sort(nodes, axis=1)

    def _binomial(self, mean: Floats) -> tuple[Floats, float]:
        """Return evenly spaced numbers around the mean of a binomial law, and the largest standard deviation.

        Even spaces make the trapezoidal rule of a bell exact to its tails; three to a standard deviation are enough.
        """
        n = self._most
        sd = np.sqrt(np.maximum(mean, 1.0) * (n - mean + 1.0) / n)
        step = np.maximum(np.floor((sd + 1.0) / 3.0), 1.0)
        return np.rint(mean) + step * np.arange(-32.0, 33.0), float(sd.max())


def _spread(*steps: tuple[float, float]) -> Floats:
    """Return offsets on both sides of zero, zero included: up to each end at its step."""
    found: list[Floats] = [np.zeros(1)]
    start = 0.0
    for end, step in steps:
        found.append(np.arange(1.0, round((end - start) / step) + 1) * step + start)
        start = end
    away = np.concatenate(found)
    return np.concatenate([-away[:0:-1], away])


_LAPLACE = _spread((2.0, 1 / 6), (8.0, 0.5), (30.0, 2.0))
_FEW = _spread((2.0, 0.25), (8.0, 1.0))
_GAUSSIAN = _spread((8.0, 0.25))
_NONE = np.zeros(1)
