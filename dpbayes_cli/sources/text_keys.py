"""Integer keys of texts, by which equal texts are found without comparing them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.base.cell_grammar import MAX_CELL_BYTES, normal_cell
from dpbayes_cli.sources.cell_blocks import CellBlock
from dpbayes_cli.sources.lines import clean_cell

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpbayes_cli.base.numeric import Integers

    Words = NDArray[np.uint64]

_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(8)] + [0], dtype=np.uint64)
"""Masks of the first 0 to 7 bytes of a word."""
_LENGTH = np.array([n << 56 for n in range(8)] + [0xFF << 56], dtype=np.uint64)
"""The length of a text of up to 7 bytes, in the highest byte; the last entry stands for all longer texts."""
_IS_LONG = 1 << 63
"""Marks the key of a text of more than 7 bytes."""
_IS_SIGN = np.isin(np.arange(256), list(b"+-0"))
_IS_ODD = ~np.isin(np.arange(256), [byte for byte in range(33, 127) if byte != ord(".")])
"""Bytes without which a text that begins with no sign or zero is in normal form."""


class TextKeys:
    """Gives every text, in normal form, an integer of 64 bits; equal texts have equal keys.

    A text of up to 7 bytes is its own key, with its length in the highest byte. Longer texts are numbered.
    """

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._long: list[bytes] = []

    def of_cells(self, block: CellBlock, begins: Integers, stops: Integers) -> Words:
        """Return the keys of cells, shape (n_cells,)."""
        lengths, n_odd = stops - begins, np.cumsum(_IS_ODD.take(block.bytes))
        keys = short_keys(block.words, begins, lengths)
        odd = (
            (lengths > 7) | (n_odd.take(stops - 1) > n_odd.take(begins - 1)) | (_IS_SIGN.take(block.bytes.take(begins)))
        )
        rows = np.flatnonzero(odd & (lengths > 0))
        keys[rows] = self.of(block.cells(begins.take(rows), stops.take(rows)))
        return keys

    def of(self, cells: Iterable[bytes]) -> Words:
        """Return the keys of cells, shape (n_cells,)."""
        return np.array([self._numbers.get(cell) or self._key(cell) for cell in cells], dtype=np.uint64)

    def texts(self, keys: Words) -> list[bytes]:
        """Return the texts of keys, in UTF-8."""
        pairs = zip(keys.tolist(), (keys & _FIRST_BYTES[7]).view("S8").tolist(), strict=True)
        return [self._long[key ^ _IS_LONG] if key & _IS_LONG else short for key, short in pairs]

    def _key(self, cell: bytes) -> int:
        normal = _normal_bytes(cell)
        key = int.from_bytes(normal, "little") | len(normal) << 56
        if len(normal) > 7:
            key = self._numbers.get(normal) or _IS_LONG | len(self._long)
            if key == _IS_LONG | len(self._long):
                self._long.append(normal)
                self._numbers[normal] = key
        self._numbers[cell] = key
        return key


def _normal_bytes(cell: bytes) -> bytes:
    """Return the normal form of a cell in UTF-8; it is empty if the text is too long."""
    if cell.isalnum() and not cell.startswith(b"0"):
        return cell
    normal = normal_cell(text) if len((text := clean_cell(cell)).encode()) <= MAX_CELL_BYTES else ""
    return normal.encode()


def short_keys(words: Words, begins: Integers, lengths: Integers) -> Words:
    """Return the bytes of texts of up to 7 bytes as integers, with their lengths in the highest bytes."""
    limited = np.minimum(lengths, 8)
    return words[begins] & _FIRST_BYTES.take(limited) | _LENGTH.take(limited)
