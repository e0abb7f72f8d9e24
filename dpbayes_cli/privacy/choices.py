"""Random choices with exact probabilities: many independent choices at once, each among a few outcomes.

Each of the independent choices is called a place. Utilities are integers in units of 2^-bits nats. The distance of an
outcome is how far its utility lies below the largest utility of the same choice; distances beyond a public limit, the
window, count as the limit. The weight of an outcome is exp(-distance), computed as a product of tabulated doubles and
rounded down to an integer. The tables are correctly rounded and the products follow IEEE 754, so no library's exp has
to be trusted. A uniform integer below the sum of the weights chooses the outcome.
"""

from __future__ import annotations

import os
import secrets
from decimal import Decimal
from functools import lru_cache

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.privacy.grid import EXACT
from dpbayes_cli.privacy.lazy_numpy import np

MAX_OUTCOMES = 60
"""The largest number of outcomes of one choice: 60 weights of at most 2^57 add up to less than 2^63."""
MAX_BITS = 40
MIN_BITS = 16
WINDOW_NATS = 16
"""The window in nats: an outcome whose utility is this far below the largest has 1e-7 times the largest probability."""
_WEIGHT_BITS = 57
_DIGIT_BITS = 12

CHOICE_SLACK = Decimal("5e-10")
"""Bound on how much the rounding of weights changes the log ratio of an outcome's probabilities under two data sets.

The bound is for one choice. The computed exponential has a relative error below 8 * 2^-53, from four table entries and
three products. Rounding down subtracts less than one from a weight of at least floor(2^57 exp(-16)) > 1.6e10. So the
error of a log weight lies in an interval of length 6.4e-11, and the error of a difference of two log weights in an
interval of length 1.3e-10.
"""


def choose(utilities: Integers, bits: int) -> Integers:
    """Choose an outcome at every place, independently, with probability nearly proportional to exp(utility).

    Utilities are integers below 2^62 in size, in units of 2^-bits nats, shape (n_places, n_outcomes). The result holds
    the indices of the chosen outcomes, shape (n_places,).

    Privacy: let u and u' be the utilities of a place under two neighbors, with u' - u in [a, b]. The window w replaces
        u by v = max(u, max u - w). Because max u' <= max u + b, also v' <= max(u + b, max u + b - w) = v + b, and in
        the same way v' >= v + a. So v' - v is in [a, b], and the log ratio of the probabilities of an outcome varies by
        at most b - a + ``CHOICE_SLACK``. Places are independent, and a place with equal utilities under both neighbors
        has the same law under both.
    Source: McSherry and Talwar 2007; the rest is derived here.
    """
    cumulative = np.cumsum(choice_weights(utilities, bits), axis=1)
    points = _uniform_below(cumulative[:, -1], utilities.shape[1])
    return np.asarray((points[:, None] >= cumulative).sum(axis=1), dtype=np.int64)


def choice_weights(utilities: Integers, bits: int) -> Integers:
    """Return the integer weights of the outcomes, positive, shape (n_places, n_outcomes)."""
    if not MIN_BITS <= bits <= MAX_BITS or utilities.shape[1] > MAX_OUTCOMES:
        raise ValueError("the proof of the weights does not cover this many bits or outcomes")
    distances = np.minimum(utilities.max(axis=1, keepdims=True) - utilities, WINDOW_NATS << bits)
    weights = np.ones(distances.shape)
    for place, table in enumerate(_tables(bits)):
        weights *= table[(distances >> (_DIGIT_BITS * place)) & ((1 << _DIGIT_BITS) - 1)]
    return (weights * 2.0**_WEIGHT_BITS).astype(np.int64)


@lru_cache(maxsize=8)
def _tables(bits: int) -> tuple[Floats, ...]:
    """Return tables of exp(-d * 2^(12 k - bits)), correctly rounded, for the digits d of a distance to base 2^12."""
    tables = []
    for place in range(-(-((WINDOW_NATS << bits).bit_length()) // _DIGIT_BITS)):
        digit_unit = EXACT.divide(Decimal(1 << (_DIGIT_BITS * place)), Decimal(1 << bits))
        powers = [EXACT.multiply(digit_unit, Decimal(digit)) for digit in range(1 << _DIGIT_BITS)]
        tables.append(np.array([float(EXACT.exp(-power)) if power <= WINDOW_NATS else 0.0 for power in powers]))
    return tuple(tables)


def _uniform_below(totals: Integers, n_outcomes: int) -> Integers:
    """Draw a uniform integer of 0..total - 1 for each total, by rejection from the operating system's randomness."""
    mask = np.uint64((1 << (n_outcomes << _WEIGHT_BITS).bit_length()) - 1)
    drawn = np.empty(len(totals), dtype=np.int64)
    undecided = np.arange(len(totals))
    while len(undecided):
        candidates = (np.frombuffer(os.urandom(8 * len(undecided)), dtype=np.uint64) & mask).astype(np.int64)
        accepted = candidates < totals[undecided]
        drawn[undecided[accepted]] = candidates[accepted]
        undecided = undecided[~accepted]
    return drawn


def public_generator() -> np.random.Generator:
    """Return a generator seeded by the operating system; use it only for draws whose law does not depend on data."""
    return np.random.default_rng(secrets.randbits(256))
