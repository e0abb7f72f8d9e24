"""Numbers of records, with weights, over which a likelihood is summed if the number of records is not known.

A noisy record count was observed together with the noisy sum, and both depend on the number of records. The law of this
number may depend on the parameter, because records out of bounds are not counted. The sum is not over all possible
numbers but over a few nodes, with the weights of the trapezoidal rule. Nodes lie close together where the terms of the
sum vary fast: near kinks of Laplace noise, and near the mean of a binomial law.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betainc, digamma, gammaln, log_ndtr

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.noisy_observation import NoisySums
from dpbayes_cli.core.record_law import ScalarLaw

_WINDOW_NATS = 30.0
_NEGLIGIBLE_NATS = 20.0
"""A number of records is left out if its term is smaller than exp(-20) times the largest term."""
_MAX_ENUMERATED, _MAX_ENUMERATED_SHAPELESS = 128, 2048
"""The sum is over all possible numbers if they are at most this many; for noise of unknown shape, whose probabilities
may jump, the second limit holds."""
_BISECTIONS = 30


def numbers_of_records(
    observation: NoisySums, law: ScalarLaw, points: Floats, typical: Floats, observed: Floats
) -> tuple[Floats, Floats]:
    """Return numbers of counted records, ascending, and their log weights, shape (n_pairs, n_nodes) each.

    The weight of a number is the product of its probability given the parameter, the likelihood of the noisy record
    count, and the width of the interval around the number. If the number is left out, its weight is zero.

    Args:
        observation: the noise and the record count; its observed values are not read.
        law: the law of a record.
        points: the parameter of each pair of a parameter and an observation, shape (n_pairs, 1).
        typical: mean and standard deviation of what a counted record adds to the sum, shape (n_pairs, 2).
        observed: the noisy sum and the noisy record count of each pair, shape (n_pairs, 2).
    """
    summand = _Summand(observation, law, points, typical, observed)
    numbers = summand.nodes()
    gaps = np.diff(numbers, axis=1) / 2.0
    half = np.full((len(numbers), 1), 0.5)
    widths = np.hstack([half, gaps]) + np.hstack([gaps, half])
    if summand.is_mostly_n:
        widths = summand.prior_masses(numbers, widths)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_weights = summand.log_weights(numbers) + np.log(widths)
    log_weights = np.where(np.isnan(log_weights), -np.inf, log_weights)
    log_term = log_weights + summand.log_density(numbers)
    largest = log_term.max(axis=1, keepdims=True)
    return numbers, np.where(log_term >= largest - _NEGLIGIBLE_NATS, log_weights, -np.inf)


class _Summand:
    """The terms of the sum over numbers of records; given the number, the sum over records is treated as normal."""

    def __init__(
        self, observation: NoisySums, law: ScalarLaw, points: Floats, typical: Floats, observed: Floats
    ) -> None:
        self._observation, self._law, self._noise = observation, law, observation.noise
        self._mean, self._sd = typical[:, :1], typical[:, 1:]
        self._y, self._noisy_number = observed[:, :1], observed[:, 1:]
        self._observed_number = self._noisy_number / observation.valid
        self._scale = self._noise.scale / observation.valid  # of the noise of the number, in records
        # nodes are placed as for Laplace noise if the shape of the noise is not known, too
        self._laplace = self._noise.decay is None or self._noise.decay.exponential
        self._is_known = observation.total.kind == "known"
        self._max_number = math.inf if observation.total.kind == "unbounded" else float(observation.total.n)
        self.is_mostly_n = law.counts_all and observation.total.is_mostly_n
        self._shares = (np.zeros(1), np.zeros(1)) if law.counts_all else law.log_shares(points)

    def log_weights(self, numbers: Floats) -> Floats:
        """Return the log of p(number | parameter) * p(noisy record count | number)."""
        decay = self._noise.decay
        if decay is None or not decay.exact:
            away = numbers * self._observation.valid - self._noisy_number
            noise = self._noise.log_pmf(np.rint(away).astype(np.int64))
        else:
            away = (numbers - self._observed_number) / self._scale
            noise = -np.abs(away) if self._laplace else -0.5 * away**2
        if self._law.counts_all:
            return np.asarray(noise)
        n, (inside, outside) = self._max_number, self._shares
        if self._is_known:
            chosen = gammaln(n + 1.0) - gammaln(numbers + 1.0) - gammaln(n - numbers + 1.0)
            inside_terms = np.where(numbers > 0, numbers * inside, 0.0)
            return np.asarray(noise + chosen + inside_terms + np.where(numbers < n, (n - numbers) * outside, 0.0))
        # Binomial(m, p) with m uniform on 0..n: P(Binomial(n + 1, p) > number) / ((n + 1) p)
        tail = np.where(numbers < n + 1, betainc(numbers + 1.0, n + 1.0 - numbers, np.exp(inside)), 0.0)
        return np.asarray(noise + np.log(tail) - inside)

    def prior_masses(self, numbers: Floats, widths: Floats) -> Floats:
        """Return the prior probabilities, up to a factor, of intervals of given widths around ascending numbers."""
        missing = self._max_number - numbers
        masses = widths / (1.0 + missing)
        at_most = missing[:, -1] == 0.0
        masses[at_most, -1] += digamma(self._max_number + 2.0) + np.euler_gamma  # half of the prior probability is at n
        return np.asarray(masses)

    def log_density(self, numbers: Floats) -> Floats:
        """Return log p(noisy sum | number), up to a constant."""
        b = self._noise.scale
        away, spread = np.abs(self._y - numbers * self._mean), self._sd * np.sqrt(numbers) + 1e-9 * b
        if not self._laplace:
            variance = spread**2 + b**2
            return np.asarray(-0.5 * away**2 / variance - 0.5 * np.log(variance))
        sides = [sign * away / b + log_ndtr(-sign * away / spread - spread / b) for sign in (1.0, -1.0)]
        return np.asarray(0.5 * (spread / b) ** 2 + np.logaddexp(*sides))

    def _slope(self, numbers: Floats) -> Floats:
        """Return the approximate derivative of the log term with respect to the number, shape (n_pairs, 1)."""
        away = numbers - self._observed_number
        variance = numbers * self._sd**2
        b, residual = self._noise.scale, self._y - numbers * self._mean
        if self._laplace:
            slope = -np.sign(away) / self._scale
            pull = np.clip(residual / (variance + 1e-9 * b**2), -1.0 / b, 1.0 / b)
        else:
            slope, pull = -away / self._scale**2, residual / (variance + b**2)
        slope = slope + pull * self._mean
        if self._law.counts_all:
            return np.asarray(slope)
        inside, outside = self._shares
        odds = np.log((self._max_number - numbers + 0.5) / (numbers + 0.5)) + inside - outside
        return np.asarray(slope + (odds if self._is_known else np.minimum(odds, 0.0)))

    def _mode(self, high: Floats) -> Floats:
        """Return the number with the approximately largest term, by bisection of 0..``high``, shape (n_pairs, 1)."""
        low, high = np.zeros_like(high), high.copy()
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2.0
            up = self._slope(middle) > 0
            low, high = np.where(up, middle, low), np.where(up, high, middle)
        return (low + high) / 2.0

    def nodes(self) -> Floats:
        """Return the nodes, ascending, shape (n_pairs, n_nodes); repeated nodes have intervals of width zero."""
        radius = self._noise.radius(_WINDOW_NATS) / self._observation.valid + 1.0
        high = np.minimum(np.maximum(np.ceil(self._observed_number + radius), 0.0), self._max_number)
        if self._law.counts_all:
            low = np.minimum(np.maximum(np.floor(self._observed_number - radius), 0.0), high)
        else:
            low, high = np.zeros_like(high), np.full_like(high, min(self._max_number, float(high.max())))
        width = float((high - low).max())
        if width < (_MAX_ENUMERATED if self._noise.decay is not None else _MAX_ENUMERATED_SHAPELESS):
            return np.asarray(np.minimum(low + np.arange(width + 1.0), high))
        mode = self._mode(high)
        parts = [low, high, mode]
        if self.is_mostly_n:
            parts.append(np.clip(self._max_number + 1.0 - np.exp(_LOG_MISSING), low, high))
        near_observed, near_kink = (_LAPLACE, _LAPLACE_KINK) if self._laplace else (_GAUSSIAN, _NO_OFFSETS)
        if not self._law.counts_all:
            binomial, widest = self._binomial(mode)
            parts.append(binomial)
            if not self._is_known:
                parts.append(self._binomial(self._max_number * np.exp(self._shares[0]))[0])
            elif self._scale >= widest:  # over the binomial law such wide noise is smooth
                near_observed = near_kink = _NO_OFFSETS
        parts.append(np.clip(self._observed_number, low, high) + self._scale * near_observed)
        with np.errstate(divide="ignore", invalid="ignore"):
            kink = np.clip(self._y / self._mean, low, high)
            kink_width = np.hypot(self._noise.scale, self._sd * np.sqrt(kink)) / np.abs(self._mean)
            kink_width = np.minimum(kink_width, 1e18)
        parts.append(np.nan_to_num(kink) + np.nan_to_num(kink_width) * near_kink)
        nodes = np.rint(np.clip(np.concatenate(parts, axis=1), low, high))
        return np.sort(nodes, axis=1)

    def _binomial(self, mean: Floats) -> tuple[Floats, float]:
        """Return evenly spaced numbers around the means of binomial laws, and the largest of their standard deviations.

        With even spacing the trapezoidal rule is nearly exact for a bell curve; three nodes per standard deviation
        suffice.
        """
        n = self._max_number
        sd = np.sqrt(np.maximum(mean, 1.0) * (n - mean + 1.0) / n)
        step = np.maximum(np.floor((sd + 1.0) / 3.0), 1.0)
        return np.rint(mean) + step * np.arange(-32.0, 33.0), float(sd.max())


def _symmetric_offsets(*steps: tuple[float, float]) -> Floats:
    """Return ascending offsets, symmetric around zero; each (end, step) extends them on both sides up to ``end``."""
    parts: list[Floats] = [np.zeros(1)]
    start = 0.0
    for end, step in steps:
        parts.append(np.arange(1.0, round((end - start) / step) + 1) * step + start)
        start = end
    positive = np.concatenate(parts)
    return np.concatenate([-positive[:0:-1], positive])


_LAPLACE = _symmetric_offsets((2.0, 1 / 6), (8.0, 0.5), (30.0, 2.0))
_LAPLACE_KINK = _symmetric_offsets((2.0, 0.25), (8.0, 1.0))
_GAUSSIAN = _symmetric_offsets((8.0, 0.25))
_NO_OFFSETS = np.zeros(1)
_LOG_MISSING = np.arange(0.0, 25.0, 0.25)
"""Values of log(1 + n - number) at nodes near n, where a prior that is uniform in this logarithm varies fast."""
