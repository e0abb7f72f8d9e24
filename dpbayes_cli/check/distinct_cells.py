"""The distinct cells of a column in a block of records, told apart by hashes. NOT PRIVATE: for ``dpbayes check``."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.sources.cell_blocks import CellBlock

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers
    from dpbayes_cli.sources.text_keys import Words

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(9)], dtype=np.uint64)
"""Masks of the first 0 to 8 bytes of a word."""


def distinct_cells(block: CellBlock, i: int) -> tuple[Words, Integers, Integers, Integers]:
    """Return the hashes of the distinct cells of a column, where one of each begins and ends, and their counts."""
    begins, stops = (edges[block.is_whole] for edges in block.trimmed(*block.edges(i)))
    hashes, first, counts = np.unique(_hashes(block.words, begins, stops), return_index=True, return_counts=True)
    return hashes, begins[first], stops[first], counts


def _hashes(words: Words, begins: Integers, stops: Integers) -> Words:
    """Return 64 bits of each cell, by which cells are told apart in a profile, shape (n_cells,)."""
    lengths = stops - begins
    hashes = lengths.astype(np.uint64)
    for start in range(0, max(1, int(lengths.max(initial=0))), 8):
        rows = np.flatnonzero(lengths > start)
        own = words[begins[rows] + start] & _FIRST_BYTES.take(np.minimum(lengths[rows] - start, 8))
        mixed = (hashes[rows] ^ own) * _MULTIPLIER
        hashes[rows] = mixed ^ mixed >> np.uint64(32)
    return hashes


@cache
def hashes_of(texts: tuple[str, ...]) -> Words:
    """Return the hashes of cells that hold these texts of at most eight bytes."""
    words = np.frombuffer(b"".join(text.encode().ljust(8, b"\0") for text in texts), "<u8")
    begins = np.arange(len(texts))
    return _hashes(words, begins, begins + np.array([len(text) for text in texts]))
