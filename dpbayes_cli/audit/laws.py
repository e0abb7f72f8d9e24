"""The laws of a release's draws: the privacy loss between neighbors, and streams of draws to be tested."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.privacy.conversions import ORDERS
from dpbayes_cli.privacy.noise import NoiseLaw

_POINTS_PER_SCALE = 200.0
"""Number of points per noise scale at which a wide law is evaluated; Renyi divergences are accurate to 1e-5."""
_SUPPORT_SCALES = 60.0
SHARES = np.linspace(0.0, 1.0, 27)[1:-1]  # draws are tested at the quantiles of their law for these probabilities
_MAX_COMPONENTS = 32
RENYI_ORDERS = tuple(float(order) for order in ORDERS if order <= 256)


@dataclass(frozen=True)
class PrivacyLoss:
    """The privacy loss between two data sets, computed from the laws of all draws."""

    up: float = 0.0  # the largest log ratio of an outcome's two probabilities
    down: float = 0.0  # the largest negative log ratio
    spread: float = 0.0  # the largest log ratio minus the smallest log ratio, for choices; unused and 0 for noise
    renyi: Any = 0.0  # Renyi divergences at ``RENYI_ORDERS``, in both directions, shape (2, n_orders)

    def __add__(self, other: PrivacyLoss) -> PrivacyLoss:
        """Return the privacy loss of two draws together."""
        return PrivacyLoss(
            self.up + other.up, self.down + other.down, self.spread + other.spread, self.renyi + other.renyi
        )


@dataclass(frozen=True)
class Stream:
    """Numbers that can be drawn repeatedly and independently, and their law."""

    name: str  # what is drawn
    again: Callable[[], Sequence[float]]  # draws one row, with the same code as a real release
    thresholds: Floats  # numbers with which each number of a row is compared, shape (n_numbers, n_thresholds)
    below: Floats  # for each threshold the probability that the drawn number is at most the threshold


@dataclass(frozen=True)
class Choices:
    """Independent choices, which all have the same number of outcomes."""

    name: str  # what is chosen
    logs: Floats  # log probabilities, shape (n_places, n_outcomes)
    again: Callable[[], Sequence[int]] | None  # repeats the choices, and returns the indices of outcomes, if known
    times: int = 1  # how many times the choices are made
    whole: bool = True  # whether ``logs`` holds all outcomes; if not, only the ranges of log ratios are known

    @property
    def shape(self) -> tuple[object, ...]:
        """The properties that must not depend on the data."""
        return (self.name, *self.logs.shape, self.times)

    def loss(self, other: Choices) -> PrivacyLoss:
        """Return the privacy loss between the choices on two data sets."""
        if self.logs is other.logs or np.array_equal(self.logs, other.logs):
            return PrivacyLoss()
        with np.errstate(invalid="ignore"):
            ratios = self.logs - other.logs
        ratios = np.where(np.isfinite(ratios), ratios, 0.0)
        high, low = ratios.max(axis=1).sum() * self.times, ratios.min(axis=1).sum() * self.times
        if not self.whole:
            return PrivacyLoss(0.0, 0.0, float(high - low), np.full((2, len(RENYI_ORDERS)), -math.inf))
        directions = ((self.logs, ratios), (other.logs, -ratios))
        renyi = np.array([_divergences(*direction) for direction in directions]) * self.times
        return PrivacyLoss(float(high), float(-low), float(high - low), renyi)

    def stream(self) -> Stream | None:
        """Return a stream that repeats these choices; None if they cannot be repeated."""
        choose = self.again
        if choose is None:
            return None
        below = np.cumsum(np.exp(self.logs[:_MAX_COMPONENTS]), axis=1)
        places = np.array([np.searchsorted(row, SHARES) for row in below]).clip(0, below.shape[1] - 1)
        below = np.take_along_axis(below, places, axis=1)
        return Stream(self.name, lambda: choose()[:_MAX_COMPONENTS], places, below)


@dataclass(frozen=True)
class AddedNoise:
    """Independent noise on integers."""

    law: NoiseLaw  # the noise law, the same for all integers
    values: tuple[int, ...]  # the integers to which the noise is added

    @property
    def shape(self) -> tuple[object, ...]:
        """The properties that must not depend on the data."""
        return self.law, len(self.values)

    def loss(self, other: AddedNoise) -> PrivacyLoss:
        """Return the privacy loss between the noisy values of two data sets."""
        distances = [abs(a - b) for a, b in zip(self.values, other.values, strict=True) if a != b]
        return sum((_shift_loss(self.law, distance) for distance in distances), PrivacyLoss())

    def stream(self) -> Stream:
        """Return a stream that repeats the noise."""
        support, masses, step = _support(self.law)
        sums = np.cumsum(masses)
        places = np.unique(np.searchsorted(sums, SHARES))
        n = min(len(self.values), _MAX_COMPONENTS)
        chosen = [*range(n - 1), len(self.values) - 1]
        values = np.array(self.values, dtype=object)

        def again() -> Sequence[float]:
            noise = np.array(self.law.release(self.values), dtype=object) - values
            return [float(noise[i]) for i in chosen]

        name = f"{self.law.kind} noise of scale {self.law.scale:.6g}"
        rows = (support[places] + step - 1, sums[places])
        return Stream(name, again, *(np.tile(row.astype(np.float64), (n, 1)) for row in rows))


Element = Choices | AddedNoise


def privacy_loss(one: Sequence[Element], other: Sequence[Element]) -> PrivacyLoss | None:
    """Return the privacy loss between the draws of two data sets; None if the kinds or the order of draws differ."""
    if [element.shape for element in one] != [element.shape for element in other]:
        return None
    pairs = zip(one, other, strict=True)  # elements of one shape have one type
    return sum((mine.loss(theirs) for mine, theirs in pairs), PrivacyLoss())  # type: ignore[arg-type]


def _divergences(logs: Floats, ratios: Floats) -> Floats:
    """Return Renyi divergences, summed over independent choices, from log probabilities and log ratios."""
    orders = np.array(RENYI_ORDERS)
    terms = logs + (orders - 1.0)[:, None, None] * ratios
    largest = np.maximum(terms.max(axis=2), -1e300)
    sums = largest + np.log(np.exp(terms - largest[:, :, None]).sum(axis=2))
    return np.asarray(np.maximum(sums.sum(axis=1) / (orders - 1.0), 0.0))


@lru_cache(maxsize=256)
def _support(law: NoiseLaw) -> tuple[Integers, Floats, int]:
    """Return equally spaced integers that represent a law, their masses, and their spacing (above 1 for a wide law)."""
    step = max(1, math.floor(law.scale / _POINTS_PER_SCALE))
    reach = math.ceil(_SUPPORT_SCALES * law.scale / step) + 2
    support = np.arange(-reach, reach + 1) * step
    masses = np.exp(law.log_pmf(support + step // 2))
    return support, masses / masses.sum(), step


@lru_cache(maxsize=4096)
def _shift_loss(law: NoiseLaw, distance: int) -> PrivacyLoss:
    support, masses, step = _support(law)
    largest = law.largest_ratio(distance)
    with np.errstate(divide="ignore"):
        logs = np.log(masses)
    middles = support + step // 2
    ratios: Floats = law.log_pmf(middles) - law.log_pmf(middles - distance)
    inside = masses > 0.0
    renyi = _divergences(logs[inside][None, :], ratios[inside][None, :])
    return PrivacyLoss(largest, largest, 0.0, np.array([renyi, renyi]))  # noise is symmetric
