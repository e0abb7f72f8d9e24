"""The threshold for keys that are found in the data: a key is published if its noisy number of records reaches it.

Every key with at least one counting record gets the noisy integers that a listed key gets. Some of them add up to the
noisy number of the key's records. The key is published, with its noisy integers, if this sum is at least the threshold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.privacy.guarantee import check_delta
from dpbayes_cli.privacy.lazy_numpy import np
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers

MAX_KEYS = 1_000_000
"""At most this many keys are published, the first in order."""
_NATS = 110.0
"""Noise whose probability is smaller by more nats than this has, in all, a probability below 1e-46."""
_CELLS = 2048
"""If the scale of the noise is larger, the noise is rounded up to multiples of about this part of the scale."""
_LEAST_MASS = 1e-16
_ERROR = 1e-9
"""An upper bound on the relative error of tail probabilities, which is added to them."""
_MAX_PARTITIONS = 1024
_MOST_NATS = 600.0
_UNLIKELY = 0.05


@dataclass(frozen=True)
class KeyThreshold:
    """The rule that decides which keys are published.

    Privacy: let P and Q be the laws of the output under two neighbors. A key that has records of other units in the
        data is a key in both neighbors. Its noisy integers, and whether it is published, are computed from the noisy
        statistic alone. Let ``common`` be the laws of these keys' outputs, which have the guarantee of the noise. All
        other keys have records of the changed unit only, in one of the neighbors, at most k records together. Let A be
        the probability under P that none of these keys is published, and B that under Q. Noise is independent, so given
        that none of them is published, the output has exactly the law ``common``. With delta >= 1 - A and delta >= 1 -
        B, P = (1 - delta) common_P + delta R and Q = (1 - delta) common_Q + delta R' for some laws R and R'. So the
        output has the guarantee of the noise, outside an event of probability delta: if the noise is epsilon-DP, the
        output is (epsilon, delta)-DP in both directions. A key with m records of the unit is published with the
        probability p(m) that the noise is at least threshold - m. Hence 1 - A is at most the maximum, over all ways to
        divide k records among keys, of 1 - product of (1 - p(m)); see ``largest_failure``. This is attained: a unit
        with these keys appears in P, and Q has no such keys, so P shows them with this probability, and Q never.
    Source: Korolova, Kenthapadi, Mishra and Ntoulas 2009; Desfontaines, Voss, Gipson and Mandayam 2022 (several keys of
        one person). Here delta is exact for integer noise, and for all keys of a unit together.

    Attributes:
        value: the smallest noisy number of records of a published key, in units of the statistic.
        step: what one record adds to this number.
        n_counts: the number of noisy integers of a key, the last ones, that add up to this number.
        noise: the law of the noise on each of them.
        contributions: the largest number of records of a privacy unit.
        delta: the stated probability, which ``failure`` does not exceed.
    """

    value: int
    step: int
    n_counts: int
    noise: NoiseLaw
    contributions: int
    delta: Decimal

    @classmethod
    def calibrate(cls, noise: NoiseLaw, n_counts: int, step: int, contributions: int, delta: Decimal) -> KeyThreshold:
        """Return the rule with the smallest threshold whose failure probability is at most ``delta``.

        Raises:
            SpecError: delta is out of range.

        Privacy: the failure probability at the threshold, rounded up, is at most delta.
        Source: see the class.
        """
        check_delta(delta)
        value = _smallest(noise, n_counts, step, contributions, float(delta))
        return cls(value, step, n_counts, noise, contributions, delta)

    @property
    def failure(self) -> float:
        """The largest probability that a key is published because of one unit alone, rounded up."""
        tails = noise_tails(self.noise, self.n_counts, float(self.delta))
        return largest_failure(tails.above(self.value - self.step * np.arange(1, self.contributions + 1)))

    @property
    def records(self) -> float:
        """The number of records at which a key is as likely published as not."""
        return self.value / self.step

    @property
    def sure_records(self) -> int:
        """The number of records from which on a key is published with a probability of at least 95 %."""
        tails = noise_tails(self.noise, self.n_counts, _UNLIKELY)
        reach = (tails.first + int(np.argmax(tails.tails <= _UNLIKELY))) * tails.grain
        return max(1, -(-(self.value - 1 + reach) // self.step))

    def passes(self, counts: Integers) -> Integers:
        """Return the indices of the keys that are published, given all their noisy integers, shape (n_keys, n).

        Only the first ``MAX_KEYS`` are published, so that a draw is never too large to be sealed. This is a function of
        the published keys alone.
        """
        reach = counts[:, counts.shape[1] - self.n_counts :].sum(axis=1) >= self.value
        return np.asarray(np.flatnonzero(reach)[:MAX_KEYS])


@dataclass(frozen=True, eq=False)
class NoiseTails:
    """Upper bounds on P(sum of noises >= t), with relative errors below 1e-9 unless the noise is rounded up.

    Attributes:
        grain: t is rounded down to a multiple of this number.
        first: the smallest multiple for which a probability is known.
        tails: the probabilities for this and the following multiples.
    """

    grain: int
    first: int
    tails: Floats

    def above(self, t: Integers) -> Floats:
        """Return the probabilities, elementwise."""
        places = -(-np.asarray(t) // self.grain) - self.first
        known = self.tails[np.clip(places, 0, len(self.tails) - 1)]
        return np.asarray(np.where(places < 0, 1.0, np.where(places < len(self.tails), known, 0.0)))


@lru_cache(maxsize=32)
def noise_tails(noise: NoiseLaw, number: int, near: float) -> NoiseTails:
    """Return the upper tail of a sum of independent noises, accurate where it is about ``near`` or smaller.

    The law of each noise is tilted by exp(theta z), so that the sum has its mean where its tail is near the stated
    probability. The tilted laws are convolved by Fourier transforms, whose errors are small compared with the largest
    probability, which is near this mean. Then the tilt is removed. If the noise has a large scale, it is rounded up to
    a multiple of a grain, and the probability within a grain is taken to be the largest in it: both increase the tail.

    Args:
        number: how many noises are added.
        near: a probability, for example delta.
    """
    from scipy.fft import irfft, next_fast_len, rfft
    from scipy.optimize import minimize_scalar

    grain = max(1, int(noise.scale) // _CELLS)
    most = noise.radius(_NATS) // grain + 1
    cells = np.arange(-most, most + 1)
    likeliest = np.where(cells > 0, (cells - 1) * grain + 1, np.minimum(-cells * grain, most * grain))
    logs = noise.log_pmf(likeliest) + math.log(grain)

    def log_moment(theta: float) -> float:
        return float(np.logaddexp.reduce(logs + theta * cells))

    def chernoff(log_theta: float) -> float:
        theta = math.exp(log_theta)
        return (number * log_moment(theta) - math.log(near)) / theta

    unit = math.log(grain / noise.scale)
    best = minimize_scalar(chernoff, bounds=(unit - 8.0, unit + 8.0), method="bounded")
    theta, target = math.exp(best.x), int(best.fun) + 1
    tilted = logs + theta * cells - log_moment(theta)
    likely = np.flatnonzero(tilted > math.log(_LEAST_MASS / len(cells)))
    low, mass = int(cells[likely[0]]), np.exp(tilted[likely[0] : likely[-1] + 1])
    length = number * (len(mass) - 1) + 1
    size = next_fast_len(length, real=True)
    sums = np.maximum(irfft(rfft(mass, size) ** number, size)[:length], 0.0)
    places = number * low + np.arange(length)
    back = np.minimum(number * log_moment(theta) - theta * places, _MOST_NATS)
    tails = np.cumsum((sums * np.exp(back))[::-1])[::-1] * (1.0 + _ERROR)
    start = int(np.argmax(tails <= 0.5)) if target > 0 else 0
    return NoiseTails(grain, int(places[start]), np.minimum(tails[start:], 1.0))


def largest_failure(tails: Floats) -> float:
    """Return the largest probability that one of the keys of a unit is published, over all ways to divide its records.

    With k records, the maximum is over all m_1 + m_2 + .. <= k of 1 - product of (1 - tails[m_i - 1]). If k is large,
    an upper bound is returned: a record of a key with m records is given the m-th part of the key's -log(1 - tail).

    Args:
        tails: the probability that a key with 1, 2, .., k records of the unit, and no others, is published.
    """
    if (tails >= 1.0).any():
        return 1.0
    losses, k = -np.log1p(-tails), len(tails)
    if k > _MAX_PARTITIONS:
        return float(-np.expm1(-k * (losses / np.arange(1, k + 1)).max()))
    best = np.zeros(k + 1)
    for j in range(1, k + 1):
        best[j] = (losses[:j] + best[j - 1 :: -1]).max()
    return float(-np.expm1(-best[k]))


def _smallest(noise: NoiseLaw, n_counts: int, step: int, contributions: int, delta: float) -> int:
    """Return the smallest threshold whose failure probability is at most delta."""
    tails, own = noise_tails(noise, n_counts, delta), step * np.arange(1, contributions + 1)

    def holds(threshold: int) -> bool:
        return largest_failure(tails.above(threshold - own)) <= delta

    low, width = tails.first * tails.grain, 1
    while not holds(low + width):
        low, width = low + width, 2 * width
    high = low + width
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
