"""The statistic of second moments: sums of numbers and of indicators of levels, of their squares and products."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from dpbayes_cli.core.columns import AnyColumn, NumericColumn, RecordPolicy
from dpbayes_cli.core.statistic import Cells, ProductOf, Statistic, Witness, can_be_null
from dpbayes_cli.privacy.lazy_numpy import np
from dpbayes_cli.privacy.neighbors import Neighbors

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers


@dataclass(frozen=True)
class Factor:
    """A factor of a product: the code of a number, or the indicator of a level.

    Attributes:
        role: the role of the column, or ``role=level``.
        column: the index of the column.
        level: the code of the level; None for a number.
        steps: the largest value.
    """

    role: str
    column: int
    level: int | None
    steps: int

    def of_codes(self, codes: Sequence[Integers]) -> Integers:
        """Return the factor of each record, negative if the cell is invalid; ``codes`` are those of each column."""
        own = codes[self.column]
        return own if self.level is None else np.where(own < 0, own, own == self.level)


def factors_of(columns: Sequence[AnyColumn]) -> tuple[Factor, ...]:
    """Return the factors of columns: every number, and for texts an indicator of each level but the first."""
    factors: list[Factor] = []
    for i, column in enumerate(columns):
        if isinstance(column, NumericColumn):
            factors.append(Factor(column.role, i, None, column.steps))
        else:
            levels = enumerate(column.levels[1:], 1)
            factors += [Factor(f"{column.role}={level}", i, code, 1) for code, level in levels]
    return tuple(factors)


def second_moments(columns: Sequence[AnyColumn], policy: RecordPolicy) -> Statistic:
    """Return the sums of numbers with S grid steps each and of indicators, of their squares and products.

    Let u be the vector of S, of 2 * code - S for each of the p numbers, and of S times the indicators of q columns of
    texts; see ``factors_of``. A record contributes the squares of numbers, and twice the products of two different
    entries. The square of S counts valid records; it is left out if their number is public.

    Privacy: let a and b be the vectors u / S of two records. An entry of a number is in [-1, 1]. Say that h and k of
        the q columns have an indicator in a and in b, that c have the same one, and let x = h - c, y = k - c.
        L1, in units of S^2: the change is the entrywise L1 norm of aa' - bb', without the diagonal of indicators. With
        s = |a + b| and r = |a - b|, a pair of entries i, j contributes s_i r_j + s_j r_i if a_i^2 - b_i^2 and a_j^2 -
        b_j^2 have the same sign, and |s_i r_j - s_j r_i| if not. In a number's entry the change is convex where |a_i|
        >= |b_i|, so that one of them may be taken to be 1: s_i + r_i = 2. Let x >= y; then |a_i| >= |b_i| in all
        numbers is best. With R the sum of r over numbers the change is (2 + 2c + x + 2p - R)(R + x) - x + y (2 + 2c +
        sum |s - r|) + y^2 - y. Between integers it is linear or concave in R with the maximum at an integer, and sum
        |s - r| is at most 2p, or 2p - 2 if R is odd. Without texts this is (p + 1)^2. A null record differs by at most
        (p + h + 1)^2 - h.
        L2: the squared change is 2 |aa' - bb'|_F^2 - sum of (a_i^2 - b_i^2)^2 over numbers - 2 (x + y). It is convex in
        a number's entry (its second derivative is 12 a_i^2 - 4 b_i^2 + 8 t with t >= 1), so that numbers may be at
        their bounds: 2 (1 + p + h)^2 + 2 (1 + p + k)^2 - 4 (a'b)^2 - 2 (x + y), where a'b = 1 + c plus p signs. A null
        record differs by at most 2 (1 + p + h)^2 - 1 - p - 2h.
        Both maxima are attained by the witnesses. A component changes by at most 4, or by 2 if one record is null.
    Source: derived here.
    """
    factors, scale = factors_of(columns), columns[0].steps  # type: ignore[union-attr] # the first column has numbers
    names, expressions = [], []
    for i, first in enumerate(factors):
        unit = 1 if first.level is None else scale
        names.append(f"sum[{first.role}]")
        expressions.append(ProductOf((first.role,), 2 * scale * unit, centered=True))
        for second in factors[i if first.level is None else i + 1 :]:
            names.append(f"product[{first.role},{second.role}]")
            weight = unit * (1 if second.level is None else scale) * (1 if first == second else 2)
            expressions.append(ProductOf((first.role, second.role), weight, centered=True))
    if can_be_null(policy, *columns):
        names.append("valid")
        expressions.append(ProductOf((), scale**2))
    removed = policy.neighbors is Neighbors.ADD_REMOVE
    (l1, witness), (squared, witness_l2) = (
        _worst(columns, change, with_pairs=not removed, with_null=can_be_null(policy, *columns))
        for change in (_change_l1, _change_l2)
    )
    largest = (2 if removed else 4) * scale**2
    return Statistic(
        tuple(names), tuple(expressions), l1 * scale**2, witness, squared * scale**4, witness_l2, largest_change=largest
    )


Pattern = tuple[int, int, int, int]
"""x, y and c of ``second_moments``, and the sum over the numbers of (a - b) when all numbers of a are 1."""
Change = Callable[[int, int, Pattern | None], int]
"""The change for p numbers, q texts and a pattern, or when a record with all indicators becomes null."""


def _change_l1(p: int, q: int, pattern: Pattern | None) -> int:
    if pattern is None:
        return (p + q + 1) ** 2 - q
    x, y, c, apart = pattern
    extremes = 2 * (p - apart % 2)
    return (2 + 2 * c + x + 2 * p - apart) * (apart + x) - x + y * (2 + 2 * c + extremes) + y**2 - y


def _change_l2(p: int, q: int, pattern: Pattern | None) -> int:
    if pattern is None:
        return 2 * (1 + p + q) ** 2 - 1 - p - 2 * q
    x, y, c, apart = pattern
    if apart % 2:
        return 0  # numbers are at bounds
    of_a, of_b = 1 + p + x + c, 1 + p + y + c
    return 2 * of_a**2 + 2 * of_b**2 - 4 * (1 + c + p - apart) ** 2 - 2 * (x + y)


def _worst(columns: Sequence[AnyColumn], change: Change, *, with_pairs: bool, with_null: bool) -> tuple[int, Witness]:
    """Return the largest change in units of S^2, and two records that attain it."""
    texts = [column for column in columns if not isinstance(column, NumericColumn)]
    p, q, longer = len(columns) - len(texts), len(texts), sum(len(column.levels) > 2 for column in texts)
    pair, pattern = _worst_pattern(p, q, longer, change)
    null = change(p, q, None)
    if not with_pairs or (with_null and null > pair):
        return null, Witness(_cells(columns, 0, dict.fromkeys(range(len(columns)), 1)), None)
    x, y, c, apart = pattern
    both = min(x, y, longer)
    states = [(1, 2)] * both + [(1, 1)] * c + [(1, 0)] * (x - both) + [(0, 1)] * (y - both)
    places = sorted(
        (i for i, column in enumerate(columns) if not isinstance(column, NumericColumn)),
        key=lambda i: -len(columns[i].levels),  # type: ignore[union-attr]
    )
    first, second = (dict(zip(places, (state[k] for state in states), strict=False)) for k in (0, 1))
    return pair, Witness(_cells(columns, 0, first), _cells(columns, apart, second))


@lru_cache(maxsize=64)
def _worst_pattern(p: int, q: int, longer: int, change: Change) -> tuple[int, Pattern]:
    """Return the largest change and its pattern; ``longer`` texts have more than two levels."""
    best, worst = -1, (0, 0, 0, 0)
    for c in range(q + 1):
        for x in range(q - c + 1):
            for y in range(x + 1):
                if c + x + y - min(x, y, longer) > q:
                    break
                peak = 1 + c + p
                for apart in {min(max(peak + sign * y + step, 0), 2 * p) for sign in (-1, 0, 1) for step in (-1, 0, 1)}:
                    value = change(p, q, (x, y, c, apart))
                    if value > best:
                        best, worst = value, (x, y, c, apart)
    return best, worst


def _cells(columns: Sequence[AnyColumn], apart: int, levels: Mapping[int, int]) -> Cells:
    """Return a record whose first numbers are at their lower bounds, so that they are ``apart`` from all upper ones."""
    cells = []
    for i, column in enumerate(columns):
        if isinstance(column, NumericColumn):
            own = min(apart, 2)
            cells.append(column.cell(1.0 - own / 2.0))
            apart -= own
        else:
            cells.append(column.levels[levels.get(i, 0)])
    return tuple(cells)
