"""Exact draws of a probability vector from the lattice {k / G : sum k = G, k_j >= least}.

The weight of a lattice point is the product of one positive number from each coordinate's table. The numbers are
decimals of 38 digits with unlimited exponents. Each operation is on positive numbers and has a relative error of 1e-37,
however small they are. So unlikely points stay possible without an added constant. The law of a sum of coordinates is a
convolution of tables. Coordinates are drawn one after the other, with probabilities exactly proportional to decimals.
"""

from __future__ import annotations

import secrets
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, DivisionByZero, InvalidOperation, Overflow, localcontext
from itertools import accumulate
from operator import mul

from dpbayes_cli.privacy.grid import EXACT

WIDE = Context(prec=38, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[InvalidOperation, DivisionByZero, Overflow])
"""The arithmetic of tables and of their convolutions: a sum or product of positive numbers has a relative error of at
most 5e-38."""

LATTICE_SLACK = Decimal("1e-20")
"""Bound on how much rounding adds to the range of the log ratio of a point's probabilities under two data sets.

With K <= 64 coordinates, each with at most 1024 possible counts, a convolution adds 1e3 rounding errors of 5e-38, so
that a sum over coordinates has a relative error below 4e-33. A point's probability is a product of K quotients of such
sums, with a relative error below 1e-30. The range of a log ratio depends on four such probabilities, so that its error
is below 4e-30. Entries of tables have relative errors of 1e-37, and exponents up to 1e16 have errors of 1e-43.
"""

_HEAD_DIGITS = 60
"""A weight becomes an integer if it is at most this many decimal digits below the largest. A coin with the exact
probability decides whether one of the smaller weights is drawn."""


@dataclass(frozen=True)
class SimplexLattice:
    """A law on the lattice {k / G : sum k = G, k_j >= least}, with weights that are products of table entries.

    Attributes:
        resolution: G.
        least: the smallest k_j.
        tables: for each coordinate j the positive weights of k_j = least, least + 1, ...; all tables have the same
            length.
    """

    resolution: int
    least: int
    tables: tuple[tuple[Decimal, ...], ...]

    def draw(self, size: int) -> list[tuple[int, ...]]:
        """Draw lattice points independently; each is a tuple of integers k_j that add up to G."""
        suffixes = self._suffixes()
        return [self._point(suffixes) for _ in range(size)]

    @property
    def _free(self) -> int:
        return self.resolution - self.least * len(self.tables)

    def _suffixes(self) -> list[list[Decimal]]:
        """Return, for each coordinate, the weights of the sum of (k_j - least) over all later coordinates."""
        free = self._free
        suffixes = [list(self.tables[-1][: free + 1])]
        with localcontext(WIDE):
            for table in reversed(self.tables[1:-1]):
                last = suffixes[-1][::-1]
                suffixes.append([sum(map(mul, table, last[free - r :]), Decimal(0)) for r in range(free + 1)])
        return suffixes[::-1]

    def _weights(self, place: int, suffix: Sequence[Decimal], rest: int) -> list[Decimal]:
        """Return the weights of one k_j, given the total of this coordinate and all later ones."""
        with localcontext(WIDE):
            return list(map(mul, self.tables[place], suffix[rest::-1]))

    def _point(self, suffixes: list[list[Decimal]]) -> tuple[int, ...]:
        rest = self._free
        counts = []
        for place, suffix in enumerate(suffixes):
            k = choose_index(self._weights(place, suffix, rest))
            counts.append(self.least + k)
            rest -= k
        return (*counts, self.least + rest)


def share_table(
    resolution: int, least: int, most: int, log_weight: Callable[[Decimal], Decimal]
) -> tuple[Decimal, ...]:
    """Return one coordinate's weights exp(log_weight(k / G)) for k from least to most, with the largest scaled to one.

    Privacy: a common factor of a whole table leaves the law unchanged. The relative rounding error of each entry and of
        each sum is below 1e-37, so that log ratios between neighbors vary as they do for real weights, up to
        ``LATTICE_SLACK``.
    Source: derived here.
    """
    logs = [log_weight(EXACT.divide(Decimal(k), Decimal(resolution))) for k in range(least, most + 1)]
    largest = max(logs)
    return tuple(WIDE.exp(EXACT.subtract(log, largest)) for log in logs)


def choose_index(weights: Sequence[Decimal]) -> int:
    """Choose an index with the operating system's randomness, exactly in proportion to positive decimals.

    First a coin decides whether to choose among the indices with very small weights, those more than 60 digits below
    the largest. The coin's probability has a relative error of 1e-36, however small it is. Otherwise integer weights
    decide among the other indices.
    """
    indices = list(range(len(weights)))
    while True:
        largest_exponent = max(weights[i].adjusted() for i in indices)
        head = [i for i in indices if weights[i].adjusted() > largest_exponent - _HEAD_DIGITS]
        if len(head) < len(indices):
            tail = sorted(set(indices) - set(head))
            with localcontext(WIDE):
                sums = [sum((weights[i] for i in part), Decimal(0)) for part in (tail, head)]
                tail_probability = sums[0] / (sums[0] + sums[1])
            if _coin(tail_probability):
                indices = tail
                continue
        shift = _HEAD_DIGITS + WIDE.prec - largest_exponent
        cumulative = list(accumulate(int(weights[i].scaleb(shift, WIDE)) for i in head))
        return head[bisect_right(cumulative, secrets.randbelow(cumulative[-1]))]


def _coin(probability: Decimal) -> bool:
    """Return True with exactly this probability, which is below one."""
    _, digits, exponent = probability.as_tuple()
    places = -int(exponent)
    while places > 2 * WIDE.prec:  # the leading digits of a uniform number must all be zero
        if secrets.randbelow(10**WIDE.prec):
            return False
        places -= WIDE.prec
    return secrets.randbelow(10**places) < int("".join(map(str, digits)))
