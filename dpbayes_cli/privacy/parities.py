"""Parities of bits: the Walsh coefficients of overlapping tables, each counted once, and the tables rebuilt from them.

A variable with r values is coded by b bits, as its code 0..r-1 in binary; larger codes are cells without records. A
pattern gamma selects some of the bits; it is odd in a record if an odd number of the selected bits are 1. Let T_gamma
be the number of records in which gamma is odd, and H_gamma the number of valid records minus 2 T_gamma. A set of tables
is determined by T_gamma, or by H_gamma, for all patterns gamma whose variables lie inside one table. Tables that are
rebuilt from these numbers agree with each other.

Source: Barak et al. 2007; Zhang, Rubinstein and Dimitrakakis 2016, Alg. 2, with integers instead of coefficients scaled
    by 2^(-bits/2), and any number of values instead of two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.privacy.lazy_numpy import np


def n_bits(size: int) -> int:
    """Return the number of bits that code a variable with this many values."""
    return (size - 1).bit_length()


@dataclass(frozen=True)
class Parities:
    """The patterns of bits of all families of variables; each pattern belongs to the first family that contains it.

    A table has one axis per variable of its family, in order; a padded table has 2^b entries on each axis. A pattern is
    an index into the padded table of any family that contains its variables; the index is 0 on the axes of other
    variables. Patterns with the same variables belong to the same family; the pattern 0 belongs to no family.

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
        """Return the shape of padded table i, in which a variable of b bits has 2^b codes."""
        return tuple(1 << n_bits(self.sizes[v]) for v in self.families[i])

    @cached_property
    def owners(self) -> tuple[Integers, ...]:
        """For each family and each subset of its variables, the index of the first family that contains the subset.

        Each array has shape (2, .., 2), with index 1 on the axes of the variables in the subset. Entries are -1 for
        subsets without a pattern: the empty subset, and subsets with a variable that has a single value.
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
        """For each family the patterns that belong to it, as ascending flat indices (C order) into its padded table."""
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
        """For each family and each pattern in its padded table, the position among all patterns; -1 for pattern 0."""
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
            # the index of the pattern in the table of its owner, whose axes may be in another order
            axis_strides = np.array(
                [[strides[j].get(v, 0) if j >= 0 else 0 for v in family] for j in owner.reshape(-1)]
            )
            index = (_digits(shape) * axis_strides.reshape(-1, len(family))[support]).sum(axis=1)
            owned = owner.reshape(-1)[support]
            positions.append(np.where(owned < 0, -1, place[starts[np.maximum(owned, 0)] + index]))
        return tuple(positions)

    def coefficients(self, tables: Sequence[Integers], *, signed: bool = False) -> Integers:
        """Return the exact coefficients that mechanisms release with noise, given exact tables of the same records.

        Returns:
            T of every pattern, family by family, shape (count,). If ``signed``, H_0, the number of counted records,
            followed by H of every pattern, shape (1 + count,).

        Privacy: the result is exact and not private; ``parity_sensitivity`` computes its sensitivity.
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

    def tables(self, values: Integers | Floats, total: float | None) -> tuple[Floats, ...]:
        """Return every family's table, rebuilt from the coefficients of all patterns.

        A padded table is the inverse transform of the coefficients of all patterns of the family's variables, including
        patterns that belong to another family. If the coefficients are noisy, the cells of codes without a value are
        not zero. The tables lack these cells, and therefore need not agree on the margins that they share.

        Args:
            values: T or H of every pattern, as ``coefficients`` returns them.
            total: the number of records if ``values`` are T; None if they are H.
        """
        numbers = np.asarray(values, dtype=np.float64)
        # the pattern 0 has position -1, which is the last
        signed = np.append(numbers[1:], numbers[0]) if total is None else np.append(total - 2.0 * numbers, total)
        padded = [_walsh(signed[position]) / len(position) for position in self.positions]
        return tuple(
            table.reshape(self.padded_shape(i))[tuple(map(slice, self.shape(i)))] for i, table in enumerate(padded)
        )


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _digits(shape: tuple[int, ...]) -> Integers:
    """Return the index along each axis of every entry of a table, shape (n_entries, n_axes)."""
    return np.indices(shape, dtype=np.int64).reshape(len(shape), -1).T


def _supports(shape: tuple[int, ...]) -> Integers:
    """Return for each cell of a padded table the set of axes with a code other than 0, as a flat index."""
    return (_digits(shape) > 0) @ (1 << np.arange(len(shape), dtype=np.int64)[::-1])


def _walsh(vector: Any) -> Any:
    """Return the Walsh-Hadamard transform of 2^b numbers; it is exact on integers, and 2^b times its own inverse."""
    half, count = 1, len(vector)
    while half < count:
        pairs = vector.reshape(-1, 2, half)
        vector = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1)
        half *= 2
    return vector.reshape(count)
