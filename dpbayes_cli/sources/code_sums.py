"""Exact sums and counts of codes, by NumPy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers

_MAX_COUNTED = 1 << 16
"""More codes than this are counted by sorting them."""
_HALF_BITS = 32
_LOW_BITS = (1 << 30) - 1
"""Codes are summed in two parts, each below 2^31, so that the sum of a block is below 2^53."""


def counts_of_codes(codes: Integers, size: int) -> Iterator[tuple[int | None, int]]:
    """Yield each code from 0 to size - 1 that occurs with its number of records; None stands for negative codes."""
    if size <= _MAX_COUNTED:
        numbers = np.bincount(np.maximum(codes, -1) + 1, minlength=size + 1)
        distinct = np.flatnonzero(numbers) - 1
        numbers = numbers[distinct + 1]
    else:
        distinct, numbers = np.unique(np.maximum(codes, -1), return_counts=True)
    for code, number in zip(distinct.tolist(), numbers.tolist(), strict=True):
        yield None if code < 0 else code, number


def sums_of_products(codes: Sequence[Integers], products: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the number of records, that of valid ones, and exact sums of products of their codes.

    Args:
        codes: the codes of each column, negative if invalid; a record is valid if none is negative.
        products: the indices of the columns whose codes are multiplied.
    """
    n_records, valid = len(codes[0]), np.ones(len(codes[0]), dtype=bool)
    for each in codes:
        valid &= each >= 0
    if not valid.all():
        codes = [each[valid] for each in codes]
    return n_records, int(np.count_nonzero(valid)), *(_sum_of_product([codes[i] for i in each]) for each in products)


def _sum_of_product(factors: Sequence[Integers]) -> int:
    largest = math.prod(int(factor.max(initial=0)) for factor in factors)
    if largest >> 62:  # the product may be beyond 64 bits
        factors = [factor.astype(object) for factor in factors]
    product = factors[0]
    for factor in factors[1:]:
        product = product * factor
    if largest * len(product) >> 62:
        return (int((product >> _HALF_BITS).sum()) << _HALF_BITS) + int((product & ((1 << _HALF_BITS) - 1)).sum())
    return int(product.sum())


def sums_by_key(keys: Integers, values: Integers, n_keys: int) -> Integers:
    """Return the exact sum of the values of each key, shape (n_keys,)."""
    total = np.zeros(n_keys, dtype=np.int64)
    for part, shift in ((values & _LOW_BITS, 0), (values >> _LOW_BITS.bit_length(), _LOW_BITS.bit_length())):
        if part.any():  # the sums of both parts are exact in doubles
            total += np.bincount(keys, part.astype(np.float64), n_keys).astype(np.int64) << shift
    return total
