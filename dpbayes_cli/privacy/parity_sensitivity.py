"""The sensitivity of the parities of tables: a maximum over the sets of variables in which two records may differ.

Let z be the variables in which two records differ, and d the bits in which they differ. The number of patterns that
are odd in exactly one of the two records depends on z alone:

    f(z) = sum over sets A of variables inside a family of (prod_A m_v - prod_A e_v) / 2,

with m_v = 2^b - 1, and e_v = -1 for v in z, e_v = m_v for other v. The patterns of A are non-zero on each variable of
A. Over these patterns the sum of (-1)^{<gamma, d>} is a product over v in A of sums over gamma_v != 0. If the codes of
v are equal, the sum over gamma_v is m_v. Otherwise it is -1, because the sum over all gamma_v, 0 included, vanishes.

Source: Barak et al. 2007 and Zhang, Rubinstein and Dimitrakakis 2016, Alg. 2, which charge for all patterns. The
    maximum over z is computed by bucket elimination (Dechter 1999) or bounded by mini-buckets (Dechter and Rish 2003).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpbayes_cli.base.numeric import Integers
from dpbayes_cli.privacy.dag import min_fill_elimination
from dpbayes_cli.privacy.lazy_numpy import np
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.privacy.parities import Parities

Factor = tuple[tuple[int, ...], Integers]

LARGEST_EXACT = 18
"""The largest number of variables of a table (2^18 entries) in the computation of an exact maximum."""
_LARGEST_BOUND = 12
"""The largest number of variables of a table in the computation of an upper bound."""


@dataclass(frozen=True)
class ParitySensitivity:
    """The largest L1 change of parities between neighbors, or a bound on it, and two records with a large change.

    Attributes:
        value: an upper bound on the L1 change between neighbors.
        attained: the L1 change between the two records.
        record: the codes of one record, for each variable.
        neighbor: the codes of the other record; None for the null or absent record.
    """

    value: int
    attained: int
    record: tuple[int, ...]
    neighbor: tuple[int, ...] | None

    @property
    def exact(self) -> bool:
        """Whether the value is the maximum, because the two records attain it."""
        return self.value == self.attained


def sensitivity_l1(parities: Parities, neighbors: Neighbors, *, complete: bool) -> ParitySensitivity:
    """Return the L1 sensitivity of T if ``complete``, otherwise that of H including H_0; see ``parities`` for both.

    Privacy: let d be the bits in which a replaced record and its replacement differ. T_gamma changes by 1 if gamma is
        odd in d, and by 0 otherwise, so that T changes by at most max f. If a valid record replaces a valid record, H
        changes by at most 2 max f, and H_0 stays. If a valid record is added, removed or exchanged with a null record,
        each of the numbers H changes by 1. Let N be the set of all patterns, the pattern 0 included: the L1 change is
        |N|. If a variable has two values or more, |N| <= 2 max f. The reason is that every gamma != 0 is odd in 2^(B-1)
        of the 2^B - 1 patterns d != 0 of B bits, so that the mean of 2 f over d exceeds |N| - 1. Hence its maximum, an
        integer, is at least |N|.
    Source: derived here; f as defined in this module.
    """
    nothing = (0,) * len(parities.sizes)
    if neighbors is Neighbors.ADD_REMOVE:
        return ParitySensitivity(1 + parities.count, 1 + parities.count, nothing, None)
    largest = maximize_odd_patterns(parities)
    if complete:
        return largest
    if 2 * largest.value < 1 + parities.count:  # no variable varies: N holds only the pattern 0
        return ParitySensitivity(1 + parities.count, 1 + parities.count, nothing, None)
    return ParitySensitivity(2 * largest.value, 2 * largest.attained, largest.record, largest.neighbor)


def maximize_odd_patterns(parities: Parities) -> ParitySensitivity:
    """Return the maximum of f, or an upper bound on it if the network is densely connected.

    Variables are eliminated one after another: the sum of all tables that contain a variable is maximized over this
    variable. If the table of this sum would be too large, the sum is split into parts that are maximized separately.

    Privacy: splitting never lowers the value, because max (a + b) <= max a + max b. The two records have the codes 0
        and 1 in the variables z, and otherwise equal codes. If f(z) equals the value, the value is the maximum.
    Source: Dechter 1999; Dechter and Rish 2003.
    """
    factors = [_family_factor(parities, i) for i in range(len(parities.families))]
    scopes = [scope for scope, _ in factors]
    varying = {v for scope in scopes for v in scope}
    elimination = min_fill_elimination(len(parities.sizes), scopes, LARGEST_EXACT - 1)
    complete = len(elimination.order) == len(parities.sizes)
    order = [*elimination.order, *sorted(varying.difference(elimination.order))]
    # a sum may be as large as the table of one family, which exists anyway
    room = max(LARGEST_EXACT if complete else _LARGEST_BOUND, *map(len, scopes), 0)
    rank = {v: place for place, v in enumerate(order)}
    value, changed = _maximize([_sort_axes(factor, rank) for factor in factors], order, room)
    attained = sum(int(table[tuple(int(v in changed) for v in scope)]) for scope, table in factors)
    record = tuple(int(v in changed) for v in range(len(parities.sizes)))
    return ParitySensitivity(value, attained, record, (0,) * len(record))


def _family_factor(parities: Parities, i: int) -> Factor:
    """Return the terms of f from the patterns of family i, as a table over z: axis v has index 1 if v is in z."""
    family = parities.families[i]
    table = (parities.owners[i] == i).astype(np.int64)
    for axis in range(len(family)):
        without, with_v = np.split(table, 2, axis=axis)
        patterns = parities.padded_shape(i)[axis] - 1
        table = np.concatenate([without + patterns * with_v, without - with_v], axis=axis)
    table = (table[(0,) * len(family)] - table) // 2
    fixed = tuple(0 if parities.sizes[v] == 1 else slice(None) for v in family)
    return tuple(v for v in family if parities.sizes[v] > 1), table[fixed]


def _sort_axes(factor: Factor, rank: dict[int, int]) -> Factor:
    scope, table = factor
    axes = sorted(range(len(scope)), key=lambda axis: rank[scope[axis]])
    return tuple(scope[axis] for axis in axes), table.transpose(axes)


def _maximize(factors: Sequence[Factor], order: Sequence[int], room: int) -> tuple[int, set[int]]:
    """Return an upper bound on the sum of the factors, and the variables that are 1 at a point where the sum is large.

    Factors are tables over variables in the order of elimination, shape (2, .., 2); a sum of factors has at most
    ``room`` variables.
    """
    rank = {v: place for place, v in enumerate(order)}
    waiting: dict[int, list[Factor]] = {v: [] for v in order}
    value = 0
    for scope, table in factors:
        if scope:
            waiting[scope[0]].append((scope, table))
        else:
            value += int(table)
    gains: dict[int, list[Factor]] = {}
    for v in order:
        groups = _pack(waiting.pop(v), room)
        gains[v] = []
        for group in groups:
            scope = tuple(sorted({u for factor_scope, _ in group for u in factor_scope}, key=rank.__getitem__))
            joined = sum(
                (table.reshape([2 if u in factor_scope else 1 for u in scope]) for factor_scope, table in group),
                start=np.zeros((2,) * len(scope), dtype=np.int64),
            )
            gain = joined[1] - joined[0]
            # if there is one group, only the sign matters, and it takes an eighth of the memory
            gains[v].append((scope[1:], np.sign(gain).astype(np.int8) if len(groups) == 1 else gain))
            message = joined.max(axis=0)
            if len(scope) > 1:
                waiting[scope[1]].append((scope[1:], message))
            else:
                value += int(message)
    changed: set[int] = set()
    for v in reversed(order):
        if sum(int(gain[tuple(int(u in changed) for u in scope)]) for scope, gain in gains[v]) > 0:
            changed.add(v)
    return value, changed


def _pack(factors: list[Factor], room: int) -> list[list[Factor]]:
    groups: list[tuple[set[int], list[Factor]]] = []
    for factor in sorted(factors, key=lambda candidate: (-len(candidate[0]), candidate[0])):
        for variables, group in groups:
            if len(variables.union(factor[0])) <= room:
                variables.update(factor[0])
                group.append(factor)
                break
        else:
            groups.append((set(factor[0]), [factor]))
    return [group for _, group in groups]
