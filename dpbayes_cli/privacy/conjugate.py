"""Conjugate posteriors under Renyi DP: the largest divergence between neighbors, and draws on a public grid.

Every family raises the likelihood to the power r and divides the prior's parameters by m. It states the supremum of the
Renyi divergence over neighboring complete data sets, and the order at which the divergence becomes infinite. It draws
from the posterior on a public grid of a coordinate y (see ``coordinate``). The grid adds at most ``curve_slack(order)``
to the divergence of a draw; the cost includes this.

Source: Geumlek, Song and Chaudhuri 2017, Theorems 12-15; the rest is derived here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dpbayes_cli.base.numeric import log_gamma_ratio_at
from dpbayes_cli.privacy.coordinate import Lattice, LogitBeta, expit, logit_reach, spacing_for
from dpbayes_cli.privacy.grid import EXACT, sum_exact

LARGEST_ORDER = 256.0
"""Renyi curves are stored up to this order, and the grid is fine enough for the natural parameters in the divergence of
this order."""

DIFFERENCE_ERROR = 4e-15
"""Bound on the rounding error of a difference of two logarithms, relative to the sum of their sizes."""

MIN_RELATIVE_GAP = 1e-6
"""If x - (order - 1) r is a smaller fraction of x than this, the divergence counts as infinite. Such orders are close
to lambda*, where the difference of nearly equal numbers has too large a rounding error."""


def curve_slack(order: float) -> float:
    """Return a bound on how much the grid, its ends, and the rounding of weights add to a divergence of this order."""
    return 1e-16 * (2.0 * order - 1.0) / (order - 1.0)


class ConjugateFamily(ABC):
    """A conjugate family for complete records under replace-one neighbors."""

    @abstractmethod
    def order_max(self, r: float, m: float) -> float:
        """Return lambda*, the smallest order at which the divergence is infinite for some neighbors."""

    @abstractmethod
    def divergence(self, order: float, r: float, m: float) -> float:
        """Return the supremum of the Renyi divergence over pairs of neighbors; infinite at orders >= lambda*."""

    @property
    def n_coordinates(self) -> int:
        """The number of independent coordinates of a draw; each of them adds ``curve_slack`` to the divergence."""
        return 1

    @abstractmethod
    def lattice(self, r: float, m: float) -> Lattice:
        """Return the public lattice on which every posterior of this family is drawn."""

    @abstractmethod
    def draw(self, sums: Sequence[Fraction], r: float, m: float, size: int) -> list[tuple[float, ...]]:
        """Draw ``size`` independent points of the posterior on the public grid.

        Args:
            sums: the sums of the records' sufficient statistics, in the units of the data.
            r: the power of the likelihood.
            m: the divisor of the prior's parameters.
        """

    @abstractmethod
    def moments(self, sums: Sequence[Fraction], r: float, m: float) -> tuple[float, float]:
        """Return the posterior mean and standard deviation of the first parameter, for planning."""

    def moments_by_row(self, sums: Sequence[Fraction], r: float, m: float) -> list[tuple[float, float]]:
        """Return the moments of the first parameter for each row of a network's tables, or for the only row."""
        return [self.moments(sums, r, m)]


@dataclass(frozen=True)
class DirichletFamily(ConjugateFamily):
    """Category counts with a Dirichlet prior; the counts add up to n.

    Privacy: the posteriors of neighbors have the parameters a + r (c + e_i) and a + r (c + e_j), where c >= 0 and sum c
        = n - 1. Their divergence is g(a_i + r c_i) + h(a_j + r c_j), and g and h are convex and decreasing. Let K be
        the number of categories. The maximum is at c_i = c_j = 0 if K >= 3, and at c_i = 0 or c_j = 0 if K = 2.
    Source: Geumlek et al. 2017 Thm. 15, corrected: neighbors share n - 1 records.
    """

    concentration: tuple[float, ...]
    n: int

    @property
    def n_coordinates(self) -> int:
        """The number of categories minus one, which is the number of Beta variables in a draw by stick-breaking."""
        return len(self.concentration) - 1

    def order_max(self, r: float, m: float) -> float:
        return 1.0 + min(self.concentration) / (m * r)

    def divergence(self, order: float, r: float, m: float) -> float:
        """Compute the maximum over all pairs of categories from the two smallest concentrations."""
        if order >= self.order_max(r, m):
            return math.inf
        first, second = (a / m for a in sorted(self.concentration)[:2])
        pairs = [(first, second), (second, first)]
        if len(self.concentration) == 2:
            full = r * (self.n - 1)
            pairs = [(x + up, y + full - up) for x, y in pairs for up in (0.0, full)]
        return max(gain_term(x, order, r) + loss_term(y, order, r) for x, y in pairs)

    def lattice(self, r: float, m: float) -> Lattice:
        least, most = min(self.concentration) / m, sum(self.concentration) / m + r * self.n
        return logit_lattice(least, most, r, self.order_max(r, m))

    def draw(self, sums: Sequence[Fraction], r: float, m: float, size: int) -> list[tuple[float, ...]]:
        shape = [prior_plus_data(a, m, r, count) for a, count in zip(self.concentration, sums, strict=True)]
        return _sticks(self.lattice(r, m), shape, size)

    def moments(self, sums: Sequence[Fraction], r: float, m: float) -> tuple[float, float]:
        a = self.concentration[0] / m + r * float(sums[0])
        total = sum(self.concentration) / m + r * float(sum(sums))
        return a / total, math.sqrt(a * (total - a) / (total + 1.0)) / total


@dataclass(frozen=True)
class NetworkFamily(ConjugateFamily):
    """The tables of a network of discrete variables, each row with a Dirichlet prior.

    Privacy: if a record is replaced, its count moves from one cell of each table to another cell, or stays. If both
        cells are in one row, ``DirichletFamily`` states the divergence of the table. If they are in two rows, the total
        of each row changes. Then, with the g and h of ``DirichletFamily``, the divergence is the sum of g(x) - g(total)
        for one row and h(x) - h(total) for the other. This is at most g + h at the smallest concentrations. The rows
        are drawn independently, so that the divergences of the tables add up.
    Source: Geumlek, Song and Chaudhuri 2017, Theorem 15, corrected; the rest is derived here.

    Attributes:
        concentrations: for each table the concentrations of the prior of each of its rows.
        rows: the number of rows of each table.
        n: the public number of complete records.
    """

    concentrations: tuple[tuple[float, ...], ...]
    rows: tuple[int, ...]
    n: int

    @property
    def n_coordinates(self) -> int:
        """The number of Beta variables in a draw by stick-breaking: for each row its number of values minus one."""
        return sum(rows * (len(row) - 1) for rows, row in zip(self.rows, self.concentrations, strict=True))

    @property
    def _least(self) -> float:
        return min(map(min, self.concentrations))

    def order_max(self, r: float, m: float) -> float:
        return 1.0 + self._least / (m * r)

    def divergence(self, order: float, r: float, m: float) -> float:
        if order >= self.order_max(r, m):
            return math.inf
        table_kinds = Counter((row, rows > 1) for rows, row in zip(self.rows, self.concentrations, strict=True))

        def of_table(row: tuple[float, ...], several: bool) -> float:
            if not several:
                return DirichletFamily(row, self.n).divergence(order, r, m)
            least = min(row) / m  # the smallest concentration occurs in both rows
            return gain_term(least, order, r) + loss_term(least, order, r)

        return sum(count * of_table(*kind) for kind, count in table_kinds.items())

    def lattice(self, r: float, m: float) -> Lattice:
        least, most = self._least / m, max(map(sum, self.concentrations)) / m + r * self.n
        return logit_lattice(least, most, r, self.order_max(r, m))

    def draw(self, sums: Sequence[Fraction], r: float, m: float, size: int) -> list[tuple[float, ...]]:
        lattice = self.lattice(r, m)
        columns = [
            _sticks(lattice, [prior_plus_data(a, m, r, c) for a, c in zip(row, counts, strict=True)], size)
            for row, counts in self._split(sums)
        ]
        return [tuple(share for column in columns for share in column[i]) for i in range(size)]

    def moments(self, sums: Sequence[Fraction], r: float, m: float) -> tuple[float, float]:
        return self.moments_by_row(sums, r, m)[0]

    def moments_by_row(self, sums: Sequence[Fraction], r: float, m: float) -> list[tuple[float, float]]:
        return [DirichletFamily(row, self.n).moments(counts, r, m) for row, counts in self._split(sums)]

    def _split(self, sums: Sequence[Fraction]) -> Iterator[tuple[tuple[float, ...], Sequence[Fraction]]]:
        first = 0
        for rows, row in zip(self.rows, self.concentrations, strict=True):
            for _ in range(rows):
                yield row, sums[first : first + len(row)]
                first += len(row)


def logit_lattice(least: float, most: float, record_shift: float, order_max: float) -> Lattice:
    """Return a lattice of logits for all Beta(a, b) laws with a, b >= ``least`` and a + b <= ``most``."""
    spacing = spacing_for(2.0 / math.sqrt(most + 2.0 * min(LARGEST_ORDER, order_max) * record_shift))
    reach = logit_reach(least, most)
    return Lattice(-reach, reach, spacing, least)


def _sticks(lattice: Lattice, shape: Sequence[Decimal], size: int) -> list[tuple[float, ...]]:
    """Draw probability vectors by stick-breaking, from independent Beta variables, whose divergences add up."""
    laws = [LogitBeta(shape[k], sum_exact(shape[k + 1 :])) for k in range(len(shape) - 1)]
    sticks = [[expit(y) for y in lattice.draw(law, size)] for law in laws]
    points = []
    for i in range(size):
        rest, point = 1.0, []
        for stick in sticks:
            point.append(rest * stick[i])
            rest *= 1.0 - stick[i]
        points.append((*point, rest))
    return points


def to_decimal(number: Fraction) -> Decimal:
    """Return a rational number as a decimal of ``EXACT`` arithmetic."""
    return EXACT.divide(Decimal(number.numerator), Decimal(number.denominator))


def prior_plus_data(prior: float, m: float, r: float, total: Fraction) -> Decimal:
    """Return prior / m + r * total, a parameter of the posterior, in ``EXACT`` arithmetic."""
    return EXACT.add(EXACT.divide(Decimal(prior), Decimal(m)), EXACT.multiply(Decimal(r), to_decimal(total)))


def gain_term(x: float, order: float, r: float, *, at_least: bool = False) -> float:
    """Return [log G(x + order * r) - order * log G(x + r)] / (order - 1) + log G(x), where G is the gamma function.

    The term is convex and decreasing in x. The result is an upper bound, or a lower bound if ``at_least`` is set: a
    bound on the rounding error is added or subtracted.
    """
    first, second = log_gamma_ratio_at(x, order * r), order * log_gamma_ratio_at(x, r)
    error = -DIFFERENCE_ERROR if at_least else DIFFERENCE_ERROR
    return (first - second + error * (abs(first) + abs(second))) / (order - 1.0)


def loss_term(x: float, order: float, r: float, *, at_least: bool = False) -> float:
    """Return [log G(x - (order - 1) * r) - order * log G(x)] / (order - 1) + log G(x + r) for the gamma function G.

    The term is convex and decreasing in x; ``gain_term`` explains ``at_least``.
    """
    smallest = x - (order - 1.0) * r
    if smallest < MIN_RELATIVE_GAP * x:
        return math.inf
    first, second = log_gamma_ratio_at(x, -(order - 1.0) * r) / (order - 1.0), log_gamma_ratio_at(x, r)
    error = -DIFFERENCE_ERROR if at_least else DIFFERENCE_ERROR
    return first + second + error * (abs(first) + abs(second)) + error * x / (smallest * (order - 1.0))
