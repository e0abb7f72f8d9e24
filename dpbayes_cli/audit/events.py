"""What two samples prove about the loss of privacy: an event fixed on one half of the draws, counted on the other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

CONFIDENCE = 1.0 - 5e-7
"""Of all events of an audit together; the other half of its false alarms is for the laws of draws."""
_THRESHOLDS = 400
_MAX_SCORES = 64
_LARGEST = 700.0


@dataclass(frozen=True)
class Event:
    """The outcomes whose score is at least, or at most, a threshold.

    Attributes:
        score: the index of the score.
        threshold: the threshold.
        above: whether the event is at or above it.
        swapped: whether it is the second data set that makes it more likely.
    """

    score: int
    threshold: float
    above: bool
    swapped: bool

    def count(self, scores: Floats) -> int:
        """Return in how many draws it happened."""
        score = scores[:, self.score]
        return int(((score >= self.threshold) if self.above else (score <= self.threshold)).sum())


@dataclass(frozen=True)
class Bound:
    """What an event proves.

    Attributes:
        delta: the delta at which epsilon is bounded.
        epsilon: every epsilon below it is disproved at delta, at the confidence; 0 where nothing is.
        often, seldom: how often the event happened under the data set that makes it likelier, and under the other.
        draws: of how many.
    """

    delta: float
    epsilon: float
    often: int
    seldom: int
    draws: int

    def delta_at(self, epsilon: float, n_bounds: int) -> float:
        """Return the delta below which every one is disproved at an epsilon; 0 where none is."""
        low = clopper_pearson(self.often, self.draws, n_bounds)[0]
        high = clopper_pearson(self.seldom, self.draws, n_bounds)[1]
        return max(0.0, low - math.exp(min(epsilon, _LARGEST)) * high)


def event_scores(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Return scores of the draws of two data sets, shape (n_draws, n_scores): what events are made of.

    Each number that was drawn, its logarithm's order being its own; the direction in which the means of the first
    halves differ, in units of what all vary by; and how far a draw is from all of one mean, in absolute values, where
    that of noise falls off.
    """
    import numpy as np

    half = len(one) // 2
    first, second = one[:half], other[:half]
    centre_one, centre_other = np.median(first, axis=0), np.median(second, axis=0)
    spread = np.concatenate([first - centre_one, second - centre_other]).std(axis=0)
    spread = np.where(spread > 0.0, spread, 1.0)
    direction = (first.mean(axis=0) - second.mean(axis=0)) / spread**2
    chosen = np.argsort(-np.abs(centre_one - centre_other) / spread, kind="stable")[:_MAX_SCORES]

    def scores(draws: Floats) -> Floats:
        away = (np.abs(draws - centre_other) - np.abs(draws - centre_one)) / spread
        return np.column_stack([draws[:, chosen], draws @ direction, away.sum(axis=1)])

    return scores(one), scores(other)


def best_event(one: Floats, other: Floats, *, delta: float = 0.0, epsilon: float | None = None) -> Event:
    """Choose the event that would prove most, on the first half of the draws: shape (n_draws, n_scores) each.

    Args:
        one, other: the scores under each data set.
        delta: where epsilon is to be bounded.
        epsilon: where delta is to be bounded instead; None: it is epsilon that is.
    """
    import numpy as np

    best, found = -math.inf, Event(0, -math.inf, True, False)
    for k in range(one.shape[1]):
        a, b = np.sort(one[:, k]), np.sort(other[:, k])
        cuts = np.unique(np.quantile(np.concatenate([a, b]), np.linspace(0.0, 1.0, _THRESHOLDS)))
        n_a, n_b = len(a), len(b)
        for above in (True, False):
            if above:
                p, q = n_a - np.searchsorted(a, cuts, "left"), n_b - np.searchsorted(b, cuts, "left")
            else:
                p, q = np.searchsorted(a, cuts, "right"), np.searchsorted(b, cuts, "right")
            for swapped, often, seldom in ((False, p, q), (True, q, p)):
                # what a count would prove if it came out the same again, by the normal law: cheap, and only a choice
                low = often / n_a - 5.0 * np.sqrt(often + 1.0) / n_a - delta
                high = seldom / n_b + 5.0 * np.sqrt(seldom + 1.0) / n_b + 5.0 / n_b
                value = np.where(low > 0.0, np.log(np.maximum(low, 1e-300) / high), -math.inf)
                if epsilon is not None:
                    value = low - math.exp(min(epsilon, _LARGEST)) * high
                i = int(value.argmax())
                if value[i] > best:
                    best, found = float(value[i]), Event(k, float(cuts[i]), above, swapped)
    return found


def bound_loss(event: Event, one: Floats, other: Floats, delta: float, n_bounds: int) -> Bound:
    """Return what an event proves on draws that it was not chosen on.

    Privacy: none is needed; no person is in the data. Both probabilities lie within their Clopper-Pearson bounds with
        ``CONFIDENCE`` over all ``n_bounds`` events together.
    Source: Clopper and Pearson 1934; Jagielski, Ullman and Oprea 2020.
    """
    happened = event.count(one), event.count(other)
    often, seldom = happened[::-1] if event.swapped else happened
    n = len(one)
    low, high = clopper_pearson(often, n, n_bounds)[0], clopper_pearson(seldom, n, n_bounds)[1]
    epsilon = math.log((low - delta) / high) if low > delta and high > 0.0 else 0.0
    return Bound(delta, max(0.0, epsilon), often, seldom, n)


def clopper_pearson(successes: int, n: int, n_bounds: int) -> tuple[float, float]:
    """Return bounds of a probability; those of so many events, two each, fail with 1 - ``CONFIDENCE`` together."""
    from scipy.special import betaincinv

    alpha = (1.0 - CONFIDENCE) / (2.0 * n_bounds)
    low = 0.0 if successes == 0 else float(betaincinv(successes, n - successes + 1, alpha))
    high = 1.0 if successes == n else float(betaincinv(successes + 1, n - successes, 1.0 - alpha))
    return low, high
