"""The discrete staircase law: steps of equal width, each a plateau and a landing, that fall by one factor a step."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.kinds import PureDP
from dpbayes_cli.privacy.noise import NoiseLaw, check_scale, clamp_to_int64, round_up_fraction

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers


@dataclass(frozen=True)
class Staircase(NoiseLaw):
    """P(z) proportional to exp(-epsilon g(z)) on the integers, g(z) = floor((|z| + step - plateau) / step).

    Privacy: added to one integer that a record moves by at most ``step`` it gives pure epsilon-DP; a shift s of a
        component costs epsilon ceil(|s| / step), and shifts of independent components add up.
    Source: Geng and Viswanath 2016, The optimal noise-adding mechanism in differential privacy, integer queries.

    Attributes:
        scale: step / epsilon.
        step: the width of a step, at least 1.
        plateau: how many integers 0, 1, ... have the largest probability, at most ``step``.
        epsilon: by how many nats the law falls a step.
    """

    kind: ClassVar[str] = "staircase"
    scale: float
    step: int
    plateau: int
    epsilon: Decimal

    def __post_init__(self) -> None:
        if not (1 <= self.plateau <= self.step and self.epsilon > 0 and self.scale == self.step / float(self.epsilon)):
            raise ValueError("no staircase has these numbers")

    @classmethod
    def of(cls, step: int, epsilon: Decimal) -> Staircase:
        """Return the staircase of a step's width and cost, with about the plateau whose noise is smallest."""
        scale = step / float(epsilon)
        check_scale(scale)
        plateau = round(step / (1.0 + math.exp(min(float(epsilon), 700.0) / 2.0)))
        return cls(scale, step, max(1, plateau), epsilon)

    @classmethod
    def parse(cls, scale: float, parameters: Mapping[str, Any]) -> Staircase:
        try:
            return cls(scale, int(parameters["step"]), int(parameters["plateau"]), Decimal(parameters["epsilon"]))
        except (KeyError, ArithmeticError) as error:
            raise ValueError("malformed staircase") from error

    @classmethod
    def examples(cls) -> tuple[Staircase, ...]:
        """Return laws that tests look at: steep, with a landing, and one whose plateau is the whole step."""
        return cls.of(1, Decimal("0.7")), cls.of(7, Decimal("0.9")), cls(40.0, 10, 10, Decimal("0.25"))

    def serialize(self) -> dict[str, Any]:
        parameters = {"step": self.step, "plateau": self.plateau, "epsilon": str(self.epsilon)}
        return {**super().serialize(), "parameters": parameters}

    def privacy(self, shifts: Sequence[Sequence[int]]) -> Guarantee:
        """Return the pure epsilon of the dearest shift."""
        steps = max(sum(-(-abs(s) // self.step) for s in shift) for shift in shifts)
        return PureDP(round_up_fraction(Fraction(self.epsilon) * steps))

    def release(self, values: Sequence[int]) -> list[int]:
        """Add independent exact noise to an integer statistic.

        Privacy: see the class; whole numbers and coins alone, from the operating system's randomness.
        Source: Canonne, Kamath and Steinke 2020, Algorithms 1 and 2 (coins of probability exp(-x), geometric draws).
        """
        return [value + self._draw() for value in clamp_to_int64(values)]

    def _draw(self) -> int:
        cost = Fraction(self.epsilon)
        while True:
            size = _geometric(cost) * self.step + self._place(cost)
            negative = secrets.randbelow(2)
            if size or not negative:  # zero has one sign
                return -size if negative else size

    def _place(self, cost: Fraction) -> int:
        """Draw a place within a step: on the landing it is less likely by the factor of a step."""
        while True:
            place = secrets.randbelow(self.step)
            if place < self.plateau or _coin(cost):
                return place

    @property
    def _fall(self) -> float:
        return math.exp(-float(self.epsilon))

    @property
    def _total(self) -> float:
        """The sum of exp(-epsilon g)."""
        weight = self.plateau + self._fall * (self.step - self.plateau)
        return 2.0 * weight / -math.expm1(-float(self.epsilon)) - 1.0

    def log_pmf(self, z: Integers) -> Floats:
        steps = np.floor((np.abs(z) + (self.step - self.plateau)) / self.step)
        return np.asarray(-float(self.epsilon) * steps - math.log(self._total))

    def radius(self, nats: float) -> int:
        steps = math.ceil(nats / float(self.epsilon))
        return 0 if steps < 1 else self.plateau + (steps - 1) * self.step

    @property
    def excess(self) -> float:
        """At the end of a plateau the law is so far above what falls a nat a scale."""
        return float(self.epsilon) * self.plateau / self.step

    def largest_ratio(self, distance: int) -> float:
        return float(self.epsilon) * -(-distance // self.step)

    @property
    def variance(self) -> float:
        b, above = self._fall, -math.expm1(-float(self.epsilon))
        whole, inner = _powers(self.step), _powers(self.plateau)
        zeroth, first, second = (b * w + (1.0 - b) * i for w, i in zip(whole, inner, strict=True))
        squares = zeroth * self.step**2 * b * (1.0 + b) / above**3 + 2.0 * first * self.step * b / above**2
        return 2.0 * (squares + second / above) / self._total

    def characteristic(self, u: Floats) -> Floats:
        """Return E[cos(u noise)], a geometric series of the steps' sums."""
        b = self._fall
        within = b * _waves(u, self.step) + (1.0 - b) * _waves(u, self.plateau)
        series = within / (1.0 - b * np.exp(1j * np.asarray(u) * self.step))
        return np.asarray((2.0 * series.real - 1.0) / self._total)

    def simulate(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> Integers:
        b = self._fall
        steps = rng.geometric(-math.expm1(-float(self.epsilon)), size) - 1
        landing = b * (self.step - self.plateau) / (self.plateau + b * (self.step - self.plateau))
        below = np.where(rng.random(size) < landing, self.plateau, 0)
        place = below + rng.integers(np.where(below > 0, self.step - self.plateau, self.plateau))
        noise = np.asarray((steps * self.step + place) * rng.choice([-1, 1], size), dtype=np.int64)
        redrawn = np.asarray(noise == 0) & np.asarray(rng.random(size) < 0.5)  # zero was drawn with both signs
        if redrawn.any():
            noise[redrawn] = self.simulate(rng, (int(redrawn.sum()),))
        return noise


def _coin(x: Fraction) -> bool:
    """Return true with probability exp(-x), x >= 0, exactly."""
    while x > 1:
        if not _coin(Fraction(1)):
            return False
        x -= 1
    k = 1
    while secrets.randbelow(x.denominator * k) < x.numerator:
        k += 1
    return k % 2 == 1


def _geometric(x: Fraction) -> int:
    """Return k with probability proportional to exp(-x k), exactly, in a time that does not grow with 1 / x."""
    while True:
        low = secrets.randbelow(x.denominator)
        if _coin(Fraction(low, x.denominator)):
            break
    high = 0
    while _coin(Fraction(1)):
        high += 1
    return (low + x.denominator * high) // x.numerator


def _powers(n: int) -> tuple[int, int, int]:
    """Return the sums of the powers 0, 1 and 2 of 0..n-1."""
    return n, n * (n - 1) // 2, (n - 1) * n * (2 * n - 1) // 6


def _waves(u: Floats, n: int) -> Any:
    """Return the sums of exp(i u k) over k = 0..n-1."""
    half = np.asarray(u, dtype=np.float64) / 2.0
    flat = np.abs(np.sin(half)) < 1e-12
    ratio = np.where(flat, float(n), np.sin(n * half) / np.where(flat, 1.0, np.sin(half)))
    return ratio * np.exp(1j * half * (n - 1))
