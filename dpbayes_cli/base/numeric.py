"""Exact decimals, and the log-space functions that must stay accurate at 1e8 records."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

# types only; as texts, so that commands without computations need not import NumPy
Floats: TypeAlias = "NDArray[np.float64]"
Integers: TypeAlias = "NDArray[np.int64]"
Complexes: TypeAlias = "NDArray[np.complex128]"
Booleans: TypeAlias = "NDArray[np.bool_]"

_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,3})?|\.[0-9]+([eE][+-]?[0-9]{1,3})?", re.ASCII)
_EXACT = Context(prec=1000, traps=[Inexact])

Number = Decimal | str | float  # an exact number as users of the library state it

LEAST_DIVISOR = 1e-300  # divisors are at least this, because a drawn parameter may be 0 or as small as a double can be


def parse_decimal(text: str) -> Decimal:
    """Parse a non-negative decimal number exactly; any other text is a ValueError.

    The text has ASCII digits, and may have one point and an exponent. Unlike ``Decimal``, this function refuses signs,
    NaN, infinities, underscores, digits of other scripts, and more than 40 digits.
    """
    stripped = text.strip(" ")
    if stripped.startswith("-") and _NUMBER.fullmatch(stripped[1:]):
        raise ValueError("a negative number; expected one without a sign, such as 0.5")
    if len(stripped) > 60 or not _NUMBER.fullmatch(stripped):
        raise ValueError("not a plain decimal number, such as 0.5")
    value = Decimal(stripped)
    if len(value.as_tuple().digits) > 40:
        raise ValueError("more than 40 digits")
    return value


def as_decimal(value: Number) -> Decimal:
    """Return an exact number, see ``parse_decimal``; a float is its shortest decimal text, so that 0.1 is one tenth."""
    return value if isinstance(value, Decimal) else parse_decimal(str(value))


def decimal_text(value: Decimal) -> str:
    """Return a decimal as plain text: no exponent, no trailing zeros, never '-0'."""
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in {"", "-0"} else text


def short_text(value: Decimal, *, up: bool = False, digits: int = 6) -> str:
    """Return a decimal with at most this many digits, rounded down or, if ``up``, which suits a cost, rounded up."""
    return decimal_text(Context(prec=digits, rounding=ROUND_CEILING if up else ROUND_FLOOR).create_decimal(value))


def cost_text(value: float) -> str:
    """Return a privacy cost as text: as it is if it has at most nine digits, else rounded up to six digits.

    A cost that a user stated has few digits. A cost that was computed, or that follows from what was stated, has many,
    the last of which only show the margin of the computation.
    """
    exact = Decimal(repr(value))
    return short_text(exact, up=True) if len(exact.as_tuple().digits) > 9 else decimal_text(exact)


def float_text(value: float) -> str:
    """Return a float as the shortest plain text that reads back as the same float."""
    return decimal_text(Decimal(repr(value)))


def exact_sum(values: Iterable[Decimal]) -> Decimal:
    """Add decimals without rounding; raise ``decimal.Inexact`` if the sum needs more than 1,000 digits."""
    return reduce(_EXACT.add, values, Decimal(0))


def exact_multiple(value: Decimal, times: int) -> Decimal:
    """Return a multiple without rounding; raise ``decimal.Inexact`` if it needs more than 1,000 digits."""
    return _EXACT.multiply(value, Decimal(times))


def exact_difference(left: Decimal, right: Decimal) -> Decimal:
    """Subtract without rounding; raise ``decimal.Inexact`` if the difference needs more than 1,000 digits."""
    return _EXACT.subtract(left, right)


def log_gamma_ratio(x: ArrayLike, shift: ArrayLike) -> Floats:
    """Return log Gamma(x + shift) - log Gamma(x) for positive x and x + shift, also if the two terms nearly cancel.

    At x = 1e8, log Gamma(x) is near 1.7e9, and plain subtraction of the two terms would be wrong by 1e-7. The relative
    error of this function stays near 1e-15.

    Source: Stirling's series with its Bernoulli terms, after moving x beyond 16 by the recurrence.
    """
    import numpy as np

    x, shift = np.broadcast_arrays(np.asarray(x, dtype=np.float64), np.asarray(shift, dtype=np.float64))
    result = np.zeros(x.shape)
    if not shift.any():
        return result
    # Gamma(x + s) / Gamma(x) = [Gamma(x + s + k) / Gamma(x + k)] * prod (x + i) / (x + s + i), i < k.
    steps = np.maximum(0.0, np.ceil(16.0 - np.minimum(x, x + shift)))
    small = steps > 0
    if small.any():
        base, moved, count = x[small], x[small] + shift[small], steps[small]
        correction = np.zeros_like(base)
        for i in range(int(count.max())):
            correction += np.where(i < count, np.log(base + i) - np.log(moved + i), 0.0)
        result[small] = correction
    low = x + steps
    high = low + shift
    result += shift * (np.log(low) - 1.0) + (high - 0.5) * np.log1p(shift / low)
    return np.asarray(result + _stirling(high) - _stirling(low))


def log_gamma_ratio_at(x: float, shift: float) -> float:
    """Return ``log_gamma_ratio`` of two numbers, a hundred times as fast as for arrays."""
    result, low = 0.0, x
    while min(low, low + shift) < 16.0:
        result += math.log(low / (low + shift))
        low += 1.0
    high = low + shift
    result += shift * (math.log(low) - 1.0) + (high - 0.5) * math.log1p(shift / low)
    return float(result + _stirling(high) - _stirling(low))


def _stirling(x: Any) -> Any:
    """Return the tail of Stirling's series, sum of B_2k / (2k (2k - 1) x^(2k-1)), for x >= 16."""
    inverse = 1.0 / x
    square = inverse * inverse
    return inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square * (1 / 1188)))))


def normalize_rows(log_weights: Floats) -> Floats:
    """Return exp(log_weights) with every row scaled to sum to one."""
    import numpy as np

    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def normalize(log_weights: Floats) -> Floats:
    """Return exp(log_weights) scaled to sum to one; the largest weight must be finite."""
    import numpy as np

    weights = np.exp(log_weights - log_weights.max())
    return np.asarray(weights / weights.sum())
