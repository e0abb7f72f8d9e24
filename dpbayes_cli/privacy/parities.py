"""Parities of bits: the Walsh coefficients of overlapping tables, each counted once, from the tables and back.

A variable of r values is coded by b bits, its code 0..r-1 in binary; codes beyond are cells that no record is in. For a
record x and a pattern gamma of bits, gamma is odd in x where <gamma, x> is. What a set of tables has to say is

    T_gamma = the number of records in which gamma is odd,   or   H_gamma = valid records - 2 T_gamma,

for all patterns whose variables lie inside one table: tables rebuilt from the same numbers agree with each other.

Source: Barak et al. 2007; Zhang, Rubinstein and Dimitrakakis 2016, Alg. 2, with integers in place of coefficients that
are scaled by 2^(-bits/2), and any number of values in place of two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers


def n_bits(size: int) -> int:
    """Return how many bits code a variable of so many values."""
    return (size - 1).bit_length()


@dataclass(frozen=True)
class Parities:
    """The patterns of bits that lie inside a family of variables, each attributed to the first family that has it.

    A table has one axis a variable of its family, in their order; a padded table has 2^b entries on each. A pattern is
    an index into the padded tables of all families that have its variables, 0 on the axes of the others. The set of a
    pattern's variables decides which family it belongs to; the pattern 0 belongs to none.

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
        """Return the shape of table i with all codes of its variables' bits, also those that stand for no value."""
        return tuple(1 << n_bits(self.sizes[v]) for v in self.families[i])

    @cached_property
    def owners(self) -> tuple[Integers, ...]:
        """For each family and each subset of its variables the first family that contains the subset.

        Shape (2, .., 2), one axis a variable, 1 where it is in the subset; -1 where no pattern has these variables: at
        the empty subset, and where one of them has a single value.
        """
        import numpy as np

        first: dict[int, int] = {}
        found = []
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
            found.append(owner)
        return tuple(found)

    @cached_property
    def members(self) -> tuple[Integers, ...]:
        """For each family the patterns attributed to it: flat indices (C order) into its padded table, ascending."""
        import numpy as np

        return tuple(
            np.flatnonzero(owner.reshape(-1)[_supports(self.padded_shape(i))] == i)
            for i, owner in enumerate(self.owners)
        )

    @cached_property
    def count(self) -> int:
        """The number of patterns, without the pattern 0."""
        return sum(len(each) for each in self.members)

    @cached_property
    def positions(self) -> tuple[Integers, ...]:
        """For each family and each entry of its padded table, flat, the place of that pattern among all; -1 for 0."""
        import numpy as np

        shapes = [self.padded_shape(i) for i in range(len(self.families))]
        starts = np.cumsum([0, *map(math.prod, shapes)])
        place = np.full(int(starts[-1]), -1, dtype=np.int64)
        at = 0
        for start, members in zip(starts, self.members, strict=False):
            place[start + members] = np.arange(at, at + len(members))
            at += len(members)
        strides = [
            dict(zip(family, _strides(shape), strict=True)) for family, shape in zip(self.families, shapes, strict=True)
        ]
        found = []
        for family, shape, owner in zip(self.families, shapes, self.owners, strict=True):
            support = _supports(shape)
            # The same pattern in the table of the family that owns it, whose axes have an order of their own.
            steps = np.array([[strides[j].get(v, 0) if j >= 0 else 0 for v in family] for j in owner.reshape(-1)])
            index = (_digits(shape) * steps.reshape(-1, len(family))[support]).sum(axis=1)
            owned = owner.reshape(-1)[support]
            found.append(np.where(owned < 0, -1, place[starts[np.maximum(owned, 0)] + index]))
        return tuple(found)

    def coefficients(self, tables: Sequence[Integers], *, signed: bool = False) -> Integers:
        """Return what is released before noise, from exact tables of the same records.

        Args:
            tables: one integer table a family, of ``shape``; all must count the same records.
            signed: whether to return sums of signs in place of numbers of records.

        Returns:
            T of every pattern, family by family and member by member, shape (count,); signed: H_0, the number of
            records counted, and then H of every pattern, shape (1 + count,).

        Privacy: exact integers; their sensitivity is that of ``parity_sensitivity``.
        Source: H is the Walsh-Hadamard transform of the padded table, T = (H_0 - H) / 2.
        """
        import numpy as np

        parts = []
        for i, members in enumerate(self.members):
            padded = np.zeros(self.padded_shape(i), dtype=np.int64)
            padded[tuple(map(slice, self.shape(i)))] = tables[i]
            spectrum = _walsh(padded.reshape(-1))
            if signed and i == 0:
                parts.append(spectrum[:1])
            found = spectrum[members]
            parts.append(found if signed else (spectrum[0] - found) // 2)
        return np.concatenate(parts)

    def tables(self, values: Integers | Floats, total: float | None, *, padded: bool = False) -> tuple[Floats, ...]:
        """Rebuild every family's table from the numbers of all patterns.

        A padded table is the inverse transform of the coefficients of all patterns inside the family, whoever they are
        attributed to; the cells of codes that stand for no value are then left out. Tables rebuilt from noisy numbers
        agree on what they share only with those cells: noise puts mass there, too.

        Args:
            values: T of every pattern, or H_0 and H of every pattern, as ``coefficients`` returns them.
            total: the number of records, where values are T; None: values are H.
            padded: whether to keep the cells that no record is in.

        Returns:
            One table a family, of ``shape``; padded: of ``padded_shape``.
        """
        import numpy as np

        numbers = np.asarray(values, dtype=np.float64)
        # The pattern 0 is at the place -1, the last.
        signed = np.append(numbers[1:], numbers[0]) if total is None else np.append(total - 2.0 * numbers, total)
        found = []
        for i, place in enumerate(self.positions):
            table = (_walsh(signed[place]) / len(place)).reshape(self.padded_shape(i))
            found.append(table if padded else table[tuple(map(slice, self.shape(i)))])
        return tuple(found)


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return how far apart neighbors along each axis of a table are, in C order."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _digits(shape: tuple[int, ...]) -> Integers:
    """Return the index along each axis of every entry of a table, shape (n_entries, n_axes)."""
    import numpy as np

    return np.indices(shape, dtype=np.int64).reshape(len(shape), -1).T


def _supports(shape: tuple[int, ...]) -> Integers:
    """Return for every pattern of a padded table the flat index of the subset of axes on which it is not 0."""
    return (_digits(shape) > 0) @ _powers(len(shape))


def _powers(count: int) -> Integers:
    """Return descending powers of two."""
    import numpy as np

    return 1 << np.arange(count - 1, -1, -1, dtype=np.int64)


def _walsh(vector: Any) -> Any:
    """Return the Walsh-Hadamard transform of a vector of 2^b numbers; exact on integers, its inverse times 2^b."""
    import numpy as np

    half, count = 1, len(vector)
    while half < count:
        pairs = vector.reshape(-1, 2, half)
        vector = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1)
        half *= 2
    return vector.reshape(count)
