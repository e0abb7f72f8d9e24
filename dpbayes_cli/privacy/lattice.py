"""Exact draws of a vector of shares on the lattice {k / G : sum k = G, k_j >= least}, in proportion to a product.

The weight of a lattice point is the product of one positive number from each coordinate's table. Numbers are decimals
of 38 digits with exponents that never run out: every operation is on positive numbers and errs by a part of 1e-37,
however small the number. So no constant has to keep the unlikely points possible, and a mode is found at any depth of
the tables. Sums of the last coordinates are a convolution, and the coordinates are drawn one after the other, exactly
in proportion to the decimals.
"""

from __future__ import annotations

import secrets
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, DivisionByZero, InvalidOperation, Overflow, localcontext
from fractions import Fraction
from itertools import accumulate
from operator import mul

from dpbayes_cli.privacy.grid import EXACT

WIDE = Context(prec=38, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[InvalidOperation, DivisionByZero, Overflow])
"""The arithmetic of tables and of their convolutions; positive sums and products err by 5e-38 of themselves."""

LATTICE_SLACK = Decimal("1e-20")
"""More than what rounding can add to a log ratio of two data sets' probabilities of a point.

With K <= 64 coordinates of at most 1024 counts a convolution adds 1e3 rounding errors of 5e-38, so that a sum over
coordinates errs by less than 4e-33 of itself. A point's probability is a product of K quotients of such sums: less than
1e-30, over two data sets and both ends of a range 4e-30. Tables err by 1e-37, and exponents up to 1e16 by 1e-43.
"""

_HEAD = 60
"""Digits below the largest weight down to which weights are compared as integers; coins tell those beyond from them."""


@dataclass(frozen=True)
class SimplexLattice:
    """The law of a product of tables on the simplex lattice.

    Attributes:
        resolution: G.
        least: the smallest count of a coordinate.
        tables: for each coordinate the positive weights of the counts least, least + 1, ..., all of equal length.
    """

    resolution: int
    least: int
    tables: tuple[tuple[Decimal, ...], ...]

    def draw(self, size: int) -> list[tuple[int, ...]]:
        """Draw lattice points independently; the counts of each add up to G."""
        suffixes = self._suffixes()
        return [self._point(suffixes) for _ in range(size)]

    def probability(self, point: Sequence[int]) -> Fraction:
        """Return the probability of a lattice point, exactly as it is drawn."""
        rest, result = self._free, Fraction(1)
        for place, suffix in enumerate(self._suffixes()):
            weights = list(map(Fraction, self._weights(place, suffix, rest)))
            result *= weights[point[place] - self.least] / sum(weights)
            rest -= point[place] - self.least
        return result

    @property
    def _free(self) -> int:
        return self.resolution - self.least * len(self.tables)

    def _suffixes(self) -> list[list[Decimal]]:
        """Return for each j the weights of the sum of coordinates j + 1.. above their least."""
        suffixes = [list(self.tables[-1][: self._free + 1])]
        with localcontext(WIDE):
            for table in reversed(self.tables[1:-1]):
                last = suffixes[-1][::-1]
                most = self._free
                suffixes.append([sum(map(mul, table, last[most - r :]), Decimal(0)) for r in range(most + 1)])
        return suffixes[::-1]

    def _weights(self, place: int, suffix: Sequence[Decimal], rest: int) -> list[Decimal]:
        """Return the weights of a coordinate's counts, given what it and all later ones add up to."""
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
    """Return one coordinate's weights exp(log_weight), scaled to a largest value of one.

    Args:
        resolution: G.
        least, most: the range of the coordinate's count.
        log_weight: of the share k / G, in ``EXACT`` arithmetic.

    Privacy: a factor of a whole table leaves the law as it is, and rounding is a part of less than 1e-37 of each entry
        and of each sum: neighbors' log ratios vary as those of the real weights do, but for ``LATTICE_SLACK``.
    Source: mechanisms, truncated Dirichlet.
    """
    logs = [log_weight(EXACT.divide(Decimal(k), Decimal(resolution))) for k in range(least, most + 1)]
    largest = max(logs)
    return tuple(WIDE.exp(EXACT.subtract(log, largest)) for log in logs)


def choose_index(weights: Sequence[Decimal]) -> int:
    """Choose an index exactly in proportion to positive decimals, by the operating system's randomness.

    Weights within 60 digits of the largest are compared as integers. Whether it is one of the others is told first,
    by a coin whose probability errs by a part of 1e-36, however small it is.
    """
    indices = list(range(len(weights)))
    while True:
        top = max(weights[i].adjusted() for i in indices)
        head = [i for i in indices if weights[i].adjusted() > top - _HEAD]
        if len(head) < len(indices):
            tail = sorted(set(indices) - set(head))
            with localcontext(WIDE):
                both = [sum((weights[i] for i in part), Decimal(0)) for part in (tail, head)]
                rare = both[0] / (both[0] + both[1])
            if _coin(rare):
                indices = tail
                continue
        shift = _HEAD + WIDE.prec - top
        cumulative = list(accumulate(int(weights[i].scaleb(shift, WIDE)) for i in head))
        return head[bisect_right(cumulative, secrets.randbelow(cumulative[-1]))]


def _coin(probability: Decimal) -> bool:
    """Return True with a probability below one, exactly; a small one costs no more than another."""
    _, digits, exponent = probability.as_tuple()
    places = -int(exponent)
    while places > 2 * WIDE.prec:  # the leading digits of a uniform number must all be zero
        if secrets.randbelow(10**WIDE.prec):
            return False
        places -= WIDE.prec
    return secrets.randbelow(10**places) < int("".join(map(str, digits)))
