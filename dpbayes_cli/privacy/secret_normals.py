"""Rounded normal numbers from the operating system's randomness, of exactly their law."""

from __future__ import annotations

import math
import os
from decimal import ROUND_FLOOR, Context, Decimal, localcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpbayes_cli.base.numeric import Floats

    Words = NDArray[np.uint64]
    Flags = NDArray[np.bool_]

_BITS = 64
_AT_ONCE = 1 << 10
_PROPOSALS = 1.4
"""Proposals for each number that is wanted; 0.76 of them are kept."""
LOG_ERROR = 2.0**-49
"""What a logarithm x in double precision, of a number that was rounded, may be off in units of 1 + x."""


class RoundedNormals:
    """round(scale N) for independent standard normal N, as floats that are whole.

    Privacy: the law is exactly that of rounded normal numbers: every whole number is possible, whatever its size. A
        number in double precision decides only where its error, ``LOG_ERROR`` and the bits that were not drawn, cannot
        matter; else more bits are drawn, and decimals of as many digits as it takes decide. That logarithms in double
        precision keep ``LOG_ERROR``, 8 times the rounding of a correct one, is an assumption.
    Source: von Neumann 1951: an exponential number x is kept where another one exceeds (x - 1)^2 / 2; what is kept has
        a density proportional to exp(-x^2 / 2). Karney 2016 (exact sampling by bits that are drawn as needed).

    Args:
        scale: at least 1, and so small that no number of interest exceeds 2^53.
    """

    def __init__(self, scale: float) -> None:
        import numpy as np

        self._scale, self._ready = scale, np.zeros(0)

    def __call__(self, shape: tuple[int, ...]) -> Floats:
        """Return numbers of a shape."""
        import numpy as np

        count = math.prod(shape)
        while len(self._ready) < count:
            size = int(_PROPOSALS * max(count - len(self._ready), _AT_ONCE))
            words = np.frombuffer(os.urandom(16 * size), dtype=np.uint64)
            self._ready = np.concatenate([self._ready, accepted_normals(words[:size], words[size:], self._scale)])
        taken, self._ready = self._ready[:count], self._ready[count:]
        return taken.reshape(shape)


def accepted_normals(first: Words, second: Words, scale: float) -> Floats:
    """Return the rounded normal numbers of proposals that are kept, in their order.

    Args:
        first: words whose negative logarithms are proposals.
        second: words that decide; the last bit is the sign.
        scale: what normal numbers are multiplied with before they are rounded.
    """
    import numpy as np

    kept, unsure, numbers = decide_in_floats(first, second, scale)
    for at in np.flatnonzero(unsure):
        number = decide_with_more_bits(int(first[at]), int(second[at]), scale)
        kept[at] = number is not None
        numbers[at] = 0 if number is None else number
    return np.asarray(numbers[kept])


def decide_in_floats(first: Words, second: Words, scale: float, bits: int = _BITS) -> tuple[Flags, Flags, Floats]:
    """Decide in double precision which proposals are kept, which it cannot tell, and what the kept ones are rounded to.

    A word w of b bits stands for any u in [w, w + 1) / 2^b: -log u is within 1 / 2w of that of the middle.
    """
    import numpy as np

    with np.errstate(divide="ignore"):
        size, error = _exponential(first, bits)
        other, other_error = _exponential(second >> np.uint64(1), bits - 1)
    excess = 2.0 * other - (size - 1.0) ** 2
    doubt = 1.25 * (2.0 * other_error + 2.0 * error * (1.0 + size) + error * error)  # and what is rounded off here
    scaled = scale * size
    whole = np.rint(scaled)
    near_half = np.abs(scaled - whole) >= 0.5 - 1.25 * scale * error
    unsure = (np.abs(excess) <= doubt) | ((excess > 0.0) & near_half)
    kept = (excess > 0.0) & ~unsure
    return kept, unsure, np.asarray(np.where(second & np.uint64(1), whole, -whole))


def _exponential(words: Words, bits: int) -> tuple[Floats, Floats]:
    """Return the negative logarithms of words, and what they may be off, infinite where a word is 0."""
    import numpy as np

    wide = words.astype(np.float64)
    size = -np.log((wide + 0.5) * 2.0**-bits)
    return size, LOG_ERROR * (1.0 + size) + 0.5 / wide


def decide_with_more_bits(first: int, second: int, scale: float, bits: int = _BITS) -> int | None:
    """Decide one proposal, and return its rounded number or None, drawing more bits for as long as it takes."""
    sign, second = (1 if second & 1 else -1), second >> 1
    extra = 0
    while True:
        if first and second:
            number, sure = _decided_exactly(first, second, scale, bits + extra)
            if sure:
                return None if number is None else sign * number
        more = int.from_bytes(os.urandom(_BITS // 4), "little")
        first, second = first << _BITS | more >> _BITS, second << _BITS | more & (1 << _BITS) - 1
        extra += _BITS


def _decided_exactly(first: int, second: int, scale: float, bits: int) -> tuple[int | None, bool]:
    """Return the whole number of a proposal, None if it is not kept, and whether these bits decide it."""
    with localcontext(Context(prec=bits // 3 + 20)):
        low, high = _between(first, bits)
        other_low, other_high = _between(second, bits - 1)
        near, far = sorted([(low - 1) ** 2, (high - 1) ** 2])
        if 2 * other_high < (0 if low <= 1 <= high else near):
            return None, True
        number = _rounded(low, scale)
        return number, 2 * other_low > far and number == _rounded(high, scale)


def _between(word: int, bits: int) -> tuple[Decimal, Decimal]:
    """Return limits of -log u for u in [word, word + 1) / 2^bits; log(1 + 1 / w) < 1 / w.

    The logarithm is correctly rounded, to so many digits that a thousandth of a bit is more than all rounding here.
    """
    slack = Decimal(10) ** -(bits // 3 + 2)
    low = -(Decimal(word + 1) / 2**bits).ln() - slack
    return low, low + 3 * slack + Decimal(1) / word


def _rounded(size: Decimal, scale: float) -> int:
    return int((Decimal(scale) * size + Decimal("0.5")).to_integral_value(ROUND_FLOOR))
