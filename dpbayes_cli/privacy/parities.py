"""Parities of bits: the Walsh coefficients of overlapping tables, each counted once, from the tables and back.

A variable with r values is coded by b bits, as its code 0..r-1 in binary; larger codes are cells without records. A
pattern gamma of bits is odd in a record x if <gamma, x> is odd. A set of tables is determined by

    T_gamma = the number of records in which gamma is odd,   or   H_gamma = valid records - 2 T_gamma,

for all patterns whose variables lie inside one table: tables rebuilt from the same numbers agree with each other.

Source: Barak et al. 2007; Zhang, Rubinstein and Dimitrakakis 2016, Alg. 2, with integers instead of coefficients scaled
    by 2^(-bits/2), and any number of values instead of two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dpbayes_cli.privacy.lazy_numpy import np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers


def n_bits(size: int) -> int:
    """Return the number of bits that code a variable with this many values."""
    return (size - 1).bit_length()


@dataclass(frozen=True)
class Parities:
    """The patterns of bits that lie inside a family of variables, each attributed to the first family that contains it.

    A table has one axis per variable of its family, in order; a padded table has 2^b entries on each axis. A pattern is
    an index into the padded tables of all families that contain its variables, 0 on the axes of the others. The set of
    a pattern's variables decides which family it belongs to; the pattern 0 belongs to none.

    Attributes:
        sizes: the number of values of each variable, at least 1.
        families: for each table the indices of its variables, in the order of its axes.

    Source: Barak et al. 2007, the downward closure of the marginals' bits.
    """

    sizes: tuple[int, ...]
    families: tuple[tuple[int, ...], ...]

    def shape(self, i: int) -> tuple[int, ...]:
        """Return the shape of table i."""
        return tuple(self.sizes[v] for v in self.families[i])

    def padded_shape(self, i: int) -> tuple[int, ...]:
        """Return the shape of table i with all codes of its variables' bits, also those without a value."""
        return tuple(1 << n_bits(self.sizes[v]) for v in self.families[i])

    @cached_property
    def owners(self) -> tuple[Integers, ...]:
        """For each family and each subset of its variables the first family that contains the subset.

        Shape (2, .., 2), one axis per variable, 1 if it is in the subset. -1 if no pattern has these variables: for the
        empty subset, and if one of them has a single value.
        """
        first: dict[int, int] = {}
        owners = []
        for i, family in enumerate(self.families):
            subsets = [0]
            for v in reversed(family):  # the last axis runs fastest; a subset is the bits of an integer
                subsets += [subset | 1 << v for subset in subsets]
            owner = np.array([first.setdefault(subset, i) for subset in subsets], dtype=np.int64)
            owner = owner.reshape((2,) * len(family))
            owner[(0,) * len(family)] = -1
            for axis, v in enumerate(family):
                if self.sizes[v] == 1:
                    owner[(slice(None),) * axis + (1,)] = -1
            owners.append(owner)
        return tuple(owners)

    @cached_property
    def members(self) -> tuple[Integers, ...]:
        """For each family its patterns: ascending flat indices (C order) into its padded table."""
        return tuple(
            np.flatnonzero(owner.reshape(-1)[_supports(self.padded_shape(i))] == i)
            for i, owner in enumerate(self.owners)
        )

    @cached_property
    def count(self) -> int:
        """The number of patterns, without the pattern 0."""
        return sum(len(patterns) for patterns in self.members)

    @cached_property
    def positions(self) -> tuple[Integers, ...]:
        """For each family and each flat entry of its padded table the position of that pattern among all; -1 for 0."""
        shapes = [self.padded_shape(i) for i in range(len(self.families))]
        starts = np.cumsum([0, *map(math.prod, shapes)])
        place = np.full(int(starts[-1]), -1, dtype=np.int64)
        n_placed = 0
        for start, members in zip(starts, self.members, strict=False):
            place[start + members] = np.arange(n_placed, n_placed + len(members))
            n_placed += len(members)
        strides = [
            dict(zip(family, _strides(shape), strict=True)) for family, shape in zip(self.families, shapes, strict=True)
        ]
        positions = []
        for family, shape, owner in zip(self.families, shapes, self.owners, strict=True):
            support = _supports(shape)
            # The same pattern in the table of the family that owns it, whose axes may be in another order.
            axis_strides = np.array(
                [[strides[j].get(v, 0) if j >= 0 else 0 for v in family] for j in owner.reshape(-1)]
            )
            index = (_digits(shape) * axis_strides.reshape(-1, len(family))[support]).sum(axis=1)
            owned = owner.reshape(-1)[support]
            positions.append(np.where(owned < 0, -1, place[starts[np.maximum(owned, 0)] + index]))
        return tuple(positions)

    def coefficients(self, tables: Sequence[Integers], *, signed: bool = False) -> Integers:
        """Return the exact numbers that are released with noise, from exact tables of the same records.

        Returns:
            T of every pattern, family by family and member by member, shape (count,); signed: H_0, the number of
            counted records, and then H of every pattern, shape (1 + count,).

        Privacy: exact integers; their sensitivity is that of ``parity_sensitivity``.
        Source: H is the Walsh-Hadamard transform of the padded table, T = (H_0 - H) / 2.
        """
        parts = []
        for i, members in enumerate(self.members):
            padded = np.zeros(self.padded_shape(i), dtype=np.int64)
            padded[tuple(map(slice, self.shape(i)))] = tables[i]
            spectrum = _walsh(padded.reshape(-1))
            if signed and i == 0:
                parts.append(spectrum[:1])
            coefficients = spectrum[members]
            parts.append(coefficients if signed else (spectrum[0] - coefficients) // 2)
        return np.concatenate(parts)

    def tables(self, values: Integers | Floats, total: float | None, *, padded: bool = False) -> tuple[Floats, ...]:
        """Return every family's table, rebuilt from the numbers of all patterns.

        A padded table is the inverse transform of the coefficients of all patterns inside the family, whichever family
        they belong to. The cells of codes without a value get noise, too: tables rebuilt from noisy numbers have equal
        shared margins only if these cells are kept.

        Args:
            values: T or H of every pattern, as ``coefficients`` returns them.
            total: the number of records if values are T; None: values are H.
            padded: whether to keep the cells of codes without a value.
        """
        numbers = np.asarray(values, dtype=np.float64)
        # Position -1, the last, is that of the pattern 0.
        signed = np.append(numbers[1:], numbers[0]) if total is None else np.append(total - 2.0 * numbers, total)
        tables = []
        for i, position in enumerate(self.positions):
            table = (_walsh(signed[position]) / len(position)).reshape(self.padded_shape(i))
            tables.append(table if padded else table[tuple(map(slice, self.shape(i)))])
        return tuple(tables)


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return how far apart adjacent entries along each axis of a table are, in C order."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _digits(shape: tuple[int, ...]) -> Integers:
    """Return the index along each axis of every entry of a table, shape (n_entries, n_axes)."""
    return np.indices(shape, dtype=np.int64).reshape(len(shape), -1).T


def _supports(shape: tuple[int, ...]) -> Integers:
    """Return for every cell of a padded table the flat index of the set of axes whose code is not 0."""
    return (_digits(shape) > 0) @ _powers(len(shape))


def _powers(count: int) -> Integers:
    return 1 << np.arange(count - 1, -1, -1, dtype=np.int64)


def _walsh(vector: Any) -> Any:
    """Return the Walsh-Hadamard transform of a vector of 2^b numbers; exact on integers, its inverse times 2^b."""
    half, count = 1, len(vector)
    while half < count:
        pairs = vector.reshape(-1, 2, half)
        vector = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1)
        half *= 2
    return vector.reshape(count)
