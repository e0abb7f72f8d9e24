"""Lower bounds of the privacy loss from two samples: choose an event on half of the draws, count it on the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from dpbayes_cli.base.numeric import Floats

CONFIDENCE = 1.0 - 5e-7
"""Confidence that all lower bounds of an audit hold; the tests of draws use the rest of the false-alarm rate."""
_THRESHOLDS = 400
_MAX_SCORES = 64
_MAX_EXPONENT = 700.0


@dataclass(frozen=True)
class Event:
    """The outcomes whose score is at least, or at most, a threshold."""

    score: int  # the index of the score
    threshold: float
    above: bool  # whether the event is a score at or above the threshold
    swapped: bool  # whether the event is more likely under the second data set

    def count(self, scores: Floats) -> int:
        """Return the number of draws in which the event happened."""
        score = scores[:, self.score]
        return int(((score >= self.threshold) if self.above else (score <= self.threshold)).sum())


@dataclass(frozen=True)
class Bound:
    """A lower bound of the privacy loss, from one event."""

    delta: float  # the delta at which epsilon is bounded
    epsilon: float  # the lower bound of epsilon at this delta; 0 if nothing is proved
    often: int  # the number of draws in the event, for the data set that makes the event more likely
    seldom: int  # the number of draws in the event, for the other data set
    draws: int  # the number of draws of each data set

    def delta_at(self, epsilon: float, n_bounds: int) -> float:
        """Return the lower bound of delta at an epsilon; 0 if nothing is proved."""
        low = clopper_pearson(self.often, self.draws, n_bounds)[0]
        high = clopper_pearson(self.seldom, self.draws, n_bounds)[1]
        return max(0.0, low - math.exp(min(epsilon, _MAX_EXPONENT)) * high)


def event_scores(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Return scores of the draws of two data sets, shape (n_draws, n_scores) each.

    An event compares one score with a threshold. Most scores are single numbers of a draw. The last but one is the
    projection of the draw on the difference of the two means. The last, which suits Laplace noise, is the L1 distance
    from the second median minus the L1 distance from the first median. Means, medians and scales are estimated from the
    first half of the draws.
    """
    half = len(one) // 2
    first, second = one[:half], other[:half]
    center_one, center_other = np.median(first, axis=0), np.median(second, axis=0)
    spread = np.concatenate([first - center_one, second - center_other]).std(axis=0)
    spread = np.where(spread > 0.0, spread, 1.0)
    direction = (first.mean(axis=0) - second.mean(axis=0)) / spread**2
    chosen = np.argsort(-np.abs(center_one - center_other) / spread, kind="stable")[:_MAX_SCORES]

    def scores(draws: Floats) -> Floats:
        away = (np.abs(draws - center_other) - np.abs(draws - center_one)) / spread
        return np.column_stack([draws[:, chosen], draws @ direction, away.sum(axis=1)])

    return scores(one), scores(other)


def best_event(one: Floats, other: Floats, *, delta: float = 0.0, epsilon: float | None = None) -> Event:
    """Return the event with the best lower bound: of epsilon at ``delta`` or, if stated, of delta at ``epsilon``.

    The scores are those of the first half of the draws of each data set, shape (n_draws, n_scores).
    """
    best_value, best = -math.inf, Event(0, -math.inf, True, False)
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
                # only to choose an event: the bound by a normal approximation, if the other half has the same counts
                low = often / n_a - 5.0 * np.sqrt(often + 1.0) / n_a - delta
                high = seldom / n_b + 5.0 * np.sqrt(seldom + 1.0) / n_b + 5.0 / n_b
                value = np.where(low > 0.0, np.log(np.maximum(low, 1e-300) / high), -math.inf)
                if epsilon is not None:
                    value = low - math.exp(min(epsilon, _MAX_EXPONENT)) * high
                i = int(value.argmax())
                if value[i] > best_value:
                    best_value, best = float(value[i]), Event(k, float(cuts[i]), above, swapped)
    return best


def bound_loss(event: Event, one: Floats, other: Floats, delta: float, n_bounds: int) -> Bound:
    """Return the lower bound that an event proves; the event must have been chosen on other draws.

    Privacy: the data are made up and need no protection. The Clopper-Pearson bounds of all ``n_bounds`` events hold
        together with probability ``CONFIDENCE``.
    Source: Clopper and Pearson 1934; Jagielski, Ullman and Oprea 2020.
    """
    happened = event.count(one), event.count(other)
    often, seldom = happened[::-1] if event.swapped else happened
    n = len(one)
    low, high = clopper_pearson(often, n, n_bounds)[0], clopper_pearson(seldom, n, n_bounds)[1]
    epsilon = math.log((low - delta) / high) if low > delta and high > 0.0 else 0.0
    return Bound(delta, max(0.0, epsilon), often, seldom, n)


def clopper_pearson(successes: int, n: int, n_bounds: int) -> tuple[float, float]:
    """Return a lower and an upper bound of a probability; all of ``n_bounds`` such pairs hold with ``CONFIDENCE``."""
    alpha = (1.0 - CONFIDENCE) / (2.0 * n_bounds)
    low = 0.0 if successes == 0 else float(betaincinv(successes, n - successes + 1, alpha))
    high = 1.0 if successes == n else float(betaincinv(successes + 1, n - successes, 1.0 - alpha))
    return low, high
