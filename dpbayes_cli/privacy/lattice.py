"""Exact draws of a vector of shares on the lattice {k / G : sum k = G, k_j >= least}, in proportion to a product.

The weight of a lattice point is the product of one integer from each coordinate's table. Sums of the last coordinates
are a convolution in exact integers (two polynomials are multiplied as two long integers), and the coordinates are
drawn one after the other in exact proportion.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from dpbayes_cli.privacy.grid import EXACT

TABLE_SCALE = 1 << 90
TABLE_FLOOR = 1 << 44
LATTICE_SLACK = Decimal("1e-12")
"""More than what flooring can add to a log ratio: each of the two tables that differ between neighbours moves it by at
most eta = -ln(1 - 1 / TABLE_FLOOR) < 5.7e-14 a side, over both normalizers 8 eta < 4.6e-13, plus 1e-40 of decimals."""


@dataclass(frozen=True)
class SimplexLattice:
    """The law of a product of tables on the simplex lattice.

    Attributes:
        resolution: G.
        least: the smallest count of a coordinate.
        tables: for each coordinate the integer weights of the counts least, least + 1, ..., all of equal length.
    """

    resolution: int
    least: int
    tables: tuple[tuple[int, ...], ...]

    def draw(self, size: int) -> list[tuple[int, ...]]:
        """Draw lattice points independently; the counts of each add up to G."""
        suffixes = self._suffixes()
        return [self._point(suffixes) for _ in range(size)]

    def _suffixes(self) -> list[list[int]]:
        """Return for each j the weights of the sum of coordinates j.. above their least."""
        free = self.resolution - self.least * len(self.tables)
        suffixes = [list(self.tables[-1])]
        for table in reversed(self.tables[1:-1]):
            suffixes.append(multiplied(list(table), suffixes[-1])[: free + 1])
        return suffixes[::-1]

    def _point(self, suffixes: list[list[int]]) -> tuple[int, ...]:
        rest = self.resolution - self.least * len(self.tables)
        counts = []
        for table, suffix in zip(self.tables[:-1], suffixes, strict=True):
            weights = [table[k] * suffix[rest - k] for k in range(rest + 1)]
            point = secrets.randbelow(sum(weights))
            k = 0
            while point >= weights[k]:
                point -= weights[k]
                k += 1
            counts.append(self.least + k)
            rest -= k
        return (*counts, self.least + rest)


def share_table(resolution: int, least: int, most: int, log_weight: Callable[[Decimal], Decimal]) -> tuple[int, ...]:
    """Return one coordinate's integer weights floor(S u) + c, with u scaled to a largest value of one.

    Args:
        resolution: G.
        least, most: the range of the coordinate's count.
        log_weight: of the share k / G, in ``EXACT`` arithmetic.

    Privacy: if neighbours' unnormalized tables have ratios in [low, high], those of the integers lie in an interval no
        wider, but for ``LATTICE_SLACK``: scaling to the largest value keeps u' / u within [low / high, high / low], and
        adding a constant to both draws a ratio towards one.
    Source: mechanisms, truncated Dirichlet.
    """
    logs = [log_weight(EXACT.divide(Decimal(k), Decimal(resolution))) for k in range(least, most + 1)]
    largest = max(logs)
    scale = Decimal(TABLE_SCALE)
    return tuple(int(EXACT.multiply(EXACT.exp(EXACT.subtract(log, largest)), scale)) + TABLE_FLOOR for log in logs)


def multiplied(left: list[int], right: list[int]) -> list[int]:
    """Multiply two polynomials with non-negative integer coefficients, exactly (Kronecker substitution)."""
    bits = max(left).bit_length() + max(right).bit_length() + min(len(left), len(right)).bit_length()
    width = bits // 8 + 1

    def packed(terms: list[int]) -> int:
        return int.from_bytes(b"".join(term.to_bytes(width, "little") for term in terms), "little")

    count = len(left) + len(right) - 1
    product = (packed(left) * packed(right)).to_bytes(width * count + width, "little")
    return [int.from_bytes(product[i * width : (i + 1) * width], "little") for i in range(count)]
