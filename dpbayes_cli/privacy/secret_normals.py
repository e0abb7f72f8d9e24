"""Exact draws of normal numbers rounded to integers, with the operating system's randomness."""

from __future__ import annotations

import math
import os
from decimal import ROUND_FLOOR, Context, Decimal, localcontext
from typing import TYPE_CHECKING

from dpbayes_cli.base.numeric import Booleans, Floats
from dpbayes_cli.privacy.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint64]

_BITS = 64
_MIN_BATCH = 1 << 10
_PROPOSALS_PER_NUMBER = 1.4
"""The number of proposals that are made for each requested number; each is accepted with probability 0.76."""
_LARGEST_FLOAT_SCALE = 2.0**40
"""At this scale, a draw is too large for a float only if it is 2^13 standard deviations from the mean."""
LOG_ERROR = 2.0**-49
"""A logarithm x of a rounded number, computed in double precision, has an error of at most (1 + x) * LOG_ERROR."""


class RoundedNormals:
    """Draws of round(scale * N) as floats, where N is standard normal and 0 < scale << 2^53.

    Privacy: the law is exactly that of rounded normal numbers: every whole number is possible, whatever its size.
        Double precision decides only if neither its error nor bits not yet drawn can change the decision. Otherwise
        more bits are drawn, and decimals with enough digits decide. It is assumed that logarithms in double precision
        have errors of at most ``LOG_ERROR``, 8 times the error of correct rounding.
    Source: von Neumann 1951: an exponential number x is kept if another one exceeds (x - 1)^2 / 2; the kept numbers
        have a density proportional to exp(-x^2 / 2). Karney 2016 (exact sampling by bits that are drawn as needed).
    """

    def __init__(self, scale: float) -> None:
        self._scale, self._ready = scale, np.zeros(0)

    def __call__(self, shape: tuple[int, ...]) -> Floats:
        """Return an array of this shape with independent draws."""
        count = math.prod(shape)
        while len(self._ready) < count:
            size = int(_PROPOSALS_PER_NUMBER * max(count - len(self._ready), _MIN_BATCH))
            words = np.frombuffer(os.urandom(16 * size), dtype=np.uint64)
            self._ready = np.concatenate([self._ready, accepted_normals(words[:size], words[size:], self._scale)])
        numbers, self._ready = self._ready[:count], self._ready[count:]
        return numbers.reshape(shape)


def rounded_normals(scale: float, count: int) -> list[int]:
    """Return independent draws of round(scale * N) as integers, for any scale up to 2^50.

    Privacy: exactly the law of ``RoundedNormals``. If a draw might not fit into a float, decimals decide each of them.
    Source: see there.
    """
    if scale <= _LARGEST_FLOAT_SCALE:
        return [int(number) for number in RoundedNormals(scale)((count,)).tolist()]
    numbers: list[int] = []
    while len(numbers) < count:
        first, second = (int.from_bytes(os.urandom(_BITS // 8), "little") for _ in range(2))
        number = decide_with_more_bits(first, second, scale)
        numbers += [] if number is None else [number]
    return numbers


def accepted_normals(first: Words, second: Words, scale: float) -> Floats:
    """Return the rounded normal numbers of the proposals that are accepted, in order.

    Proposals are the negative logarithms of the first random words; the second words decide whether a proposal is
    accepted, and their last bit is the sign.
    """
    kept, unsure, numbers = decide_in_floats(first, second, scale)
    for place in np.flatnonzero(unsure):
        number = decide_with_more_bits(int(first[place]), int(second[place]), scale)
        kept[place] = number is not None
        numbers[place] = 0 if number is None else number
    return np.asarray(numbers[kept])


def decide_in_floats(first: Words, second: Words, scale: float, bits: int = _BITS) -> tuple[Booleans, Booleans, Floats]:
    """Return masks of the accepted and of the undecided proposals, and the rounded numbers of all proposals.

    A word w of b bits stands for a uniform u in [w / 2^b, (w + 1) / 2^b), whose further bits are not yet drawn. In this
    interval -log u differs by less than 1 / (2 w) from its value at the middle. Where a number is near a half, it is at
    least 1/2 before rounding, so that the error bound exceeds the rounding errors here at any scale.
    """
    with np.errstate(divide="ignore"):
        size, error = _exponential(first, bits)
        threshold, threshold_error = _exponential(second >> np.uint64(1), bits - 1)
    excess = 2.0 * threshold - (size - 1.0) ** 2
    error_bound = 1.25 * (2.0 * threshold_error + 2.0 * error * (1.0 + size) + error * error)  # 1.25: rounding here
    scaled = scale * size
    rounded = np.rint(scaled)
    near_half = np.abs(scaled - rounded) >= 0.5 - 1.25 * scale * error
    unsure = (np.abs(excess) <= error_bound) | ((excess > 0.0) & near_half)
    kept = (excess > 0.0) & ~unsure
    return kept, unsure, np.asarray(np.where(second & np.uint64(1), rounded, -rounded))


def _exponential(words: Words, bits: int) -> tuple[Floats, Floats]:
    """Return the negative logarithms of words, and bounds on their errors, infinite for the word 0."""
    wide = words.astype(np.float64)
    size = -np.log((wide + 0.5) * 2.0**-bits)
    return size, LOG_ERROR * (1.0 + size) + 0.5 / wide


def decide_with_more_bits(first: int, second: int, scale: float, bits: int = _BITS) -> int | None:
    """Draw more bits until one proposal is decided; return its rounded number, or None if it is rejected."""
    sign, second = (1 if second & 1 else -1), second >> 1
    extra = 0
    while True:
        if first and second:
            number, sure = _decide_exactly(first, second, scale, bits + extra)
            if sure:
                return None if number is None else sign * number
        more = int.from_bytes(os.urandom(_BITS // 4), "little")
        first, second = first << _BITS | more >> _BITS, second << _BITS | more & (1 << _BITS) - 1
        extra += _BITS


def _decide_exactly(first: int, second: int, scale: float, bits: int) -> tuple[int | None, bool]:
    """Return the rounded number of a proposal, None if it is rejected, and whether these bits suffice to decide."""
    with localcontext(Context(prec=bits // 3 + 20)):
        low, high = _log_bounds(first, bits)
        threshold_low, threshold_high = _log_bounds(second, bits - 1)
        least_square, largest_square = sorted([(low - 1) ** 2, (high - 1) ** 2])
        if 2 * threshold_high < (0 if low <= 1 <= high else least_square):
            return None, True
        number = _round_scaled(low, scale)
        return number, 2 * threshold_low > largest_square and number == _round_scaled(high, scale)


def _log_bounds(word: int, bits: int) -> tuple[Decimal, Decimal]:
    """Return bounds on -log u for u in [word / 2^bits, (word + 1) / 2^bits).

    They are at most 1 / word apart, up to rounding. The logarithm is correctly rounded to so many digits that all
    rounding errors here add up to less than a thousandth of the last bit.
    """
    slack = Decimal(10) ** -(bits // 3 + 2)
    low = -(Decimal(word + 1) / 2**bits).ln() - slack
    return low, low + 3 * slack + Decimal(1) / word


def _round_scaled(size: Decimal, scale: float) -> int:
    return int((Decimal(scale) * size + Decimal("0.5")).to_integral_value(ROUND_FLOOR))
