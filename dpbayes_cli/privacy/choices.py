"""Exact choices among a few outcomes at many places at once: integer utilities, integer weights, uniform integers.

Utilities are integers in units of 2^-bits nats. They are cut at a public window below the largest of their place, and
exp of what is left is a product of tabulated doubles: tables are rounded correctly, products as IEEE 754 prescribes,
and no library's exp is trusted. A uniform integer below the sum of the weights then decides.
"""

from __future__ import annotations

import os
import secrets
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

from dpbayes_cli.privacy.grid import EXACT

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats, Integers

MAX_OUTCOMES = 60
"""Their weights, at most 2^57 each, add up to less than 2^63."""
MAX_FRACTION_BITS = 40
MIN_FRACTION_BITS = 16
WINDOW_NATS = 16
"""Nats below the largest utility of a place; what lies lower counts as that, with a probability of 1e-7."""
_TOP = 57
_DIGIT = 12

CHOICE_SLACK = Decimal("5e-10")
"""More than what weights can add to the log ratio of two data sets' probabilities of an outcome at one place.

A double that stands for exp errs by less than 8 2^-53 of itself (four table entries, three products), and flooring
takes less than one from a weight of at least floor(2^57 exp(-16)) > 1.6e10: a log weight errs within an interval of
6.4e-11. Over two data sets that is a range of 1.3e-10.
"""


def choose_outcomes(utilities: Integers, bits: int) -> Integers:
    """Choose an outcome at every place, independently, with probability nearly proportional to exp(utility).

    Args:
        utilities: shape (n_places, n_outcomes), in units of 2^-bits nats, of size below 2^62.
        bits: of the fraction.

    Returns:
        The indices of the outcomes, shape (n_places,).

    Privacy: let u, u' be the utilities of a place under two neighbors, and u' - u lie in [a, b]. The window cuts at
        max u - w: v = max(u, max u - w). As max u' <= max u + b, v' <= max(u + b, max u + b - w) = v + b, and v' >= v +
        a alike: cutting keeps the range b - a. The log ratio of the probabilities of an outcome then varies by at most
        b - a + ``CHOICE_SLACK``; places are independent, and those of equal utilities have equal laws.
    Source: McSherry and Talwar 2007; mechanisms, sampling in finite precision.
    """
    import numpy as np

    cumulative = np.cumsum(choice_weights(utilities, bits), axis=1)
    points = _uniform_below(cumulative[:, -1], utilities.shape[1])
    return np.asarray((points[:, None] >= cumulative).sum(axis=1), dtype=np.int64)


def choice_weights(utilities: Integers, bits: int) -> Integers:
    """Return the integer weights of the outcomes, positive, shape (n_places, n_outcomes)."""
    import numpy as np

    if not MIN_FRACTION_BITS <= bits <= MAX_FRACTION_BITS or utilities.shape[1] > MAX_OUTCOMES:
        raise ValueError("more bits or outcomes than weights are proved for")
    below = np.minimum(utilities.max(axis=1, keepdims=True) - utilities, WINDOW_NATS << bits)
    found = np.ones(below.shape)
    for place, table in enumerate(_tables(bits)):
        found *= table[(below >> (_DIGIT * place)) & ((1 << _DIGIT) - 1)]
    return (found * 2.0**_TOP).astype(np.int64)


@lru_cache(maxsize=8)
def _tables(bits: int) -> tuple[Floats, ...]:
    """Return exp(-digit 2^(12 place - bits)) for every digit of a distance of at most the window, rounded correctly."""
    import numpy as np

    tables = []
    for place in range(-(-((WINDOW_NATS << bits).bit_length()) // _DIGIT)):
        unit = EXACT.divide(Decimal(1 << (_DIGIT * place)), Decimal(1 << bits))
        powers = [EXACT.multiply(unit, Decimal(digit)) for digit in range(1 << _DIGIT)]
        tables.append(np.array([float(EXACT.exp(-power)) if power <= WINDOW_NATS else 0.0 for power in powers]))
    return tuple(tables)


def _uniform_below(totals: Integers, n_outcomes: int) -> Integers:
    """Return a uniform integer of 0..total - 1 for each total, from the operating system's randomness."""
    import numpy as np

    mask = np.uint64((1 << (n_outcomes << _TOP).bit_length()) - 1)
    found = np.empty(len(totals), dtype=np.int64)
    left = np.arange(len(totals))
    while len(left):
        words = (np.frombuffer(os.urandom(8 * len(left)), dtype=np.uint64) & mask).astype(np.int64)
        inside = words < totals[left]
        found[left[inside]] = words[inside]
        left = left[~inside]
    return found


def public_generator() -> np.random.Generator:
    """Return a generator that starts from the operating system's randomness, for draws that touch no data."""
    import numpy as np

    return np.random.default_rng(secrets.randbits(256))
