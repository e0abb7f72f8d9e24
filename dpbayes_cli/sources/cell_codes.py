"""Codes of the cells of lines of text: usual spellings by NumPy, any other text by the public grammar of cells.

Texts are compared as integers of eight bytes, and plain decimals are computed from their digits. Whether a cell is read
in one way or the other changes the time, but not its code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from dpbayes_cli.base.cell_grammar import NumberMarks, normal_cell, parse_number
from dpbayes_cli.core.columns import AnyColumn, Column, CutColumn, NumericColumn
from dpbayes_cli.sources.cell_blocks import IS_BLANK, CellBlock
from dpbayes_cli.sources.lines import clean_cell
from dpbayes_cli.sources.reader import MISSING, OUT_OF_BOUNDS
from dpbayes_cli.sources.text_keys import TextKeys, short_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpbayes_cli.base.numeric import Booleans, Floats, Integers

    Words = NDArray[np.uint64]

_T = TypeVar("_T")

_UNKNOWN = -3
"""Marks a cell whose text must be looked at."""
_USUAL_MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?", ".", "-")
"""Common spellings of a missing value, which are recognized faster than other invalid texts."""
_MAX_WORDS = 8
"""If a declared text has more than eight times as many bytes, unusual cells are compared one by one."""
_MAX_SLOTTED = 512
_LAST_BYTES = np.array([((1 << 64) - 1) ^ ((1 << 8 * (8 - n)) - 1) for n in range(9)], dtype=np.uint64)
"""Masks of the last 0 to 8 bytes of a word."""
_EACH_BYTE = 0x0101010101010101
_BEGINS_NUMBER = np.isin(np.arange(256), list(b"+-0123456789"))
"""The first bytes of texts that may be numbers: the normal form of any other text is itself."""
_TEN = 10.0 ** np.arange(23)
"""Powers of ten that are exact doubles."""
_TENS = 10 ** np.arange(17, dtype=np.uint64)
_MAX_EXACT = 1 << 53
_MAX_ABOVE = {8: 10**8, 16: 1000}
"""With larger leading digits, the digits of a number could be an integer beyond 64 bits."""


class TextRecords:
    """A block of records whose cells are texts; see ``Records``."""

    def __init__(self, block: CellBlock, coders: Sequence[Coder]) -> None:
        self.n_records, self._block, self._coders = block.n_records, block, coders
        self._codes: dict[int, Integers] = {}

    def codes(self, i: int) -> Integers:
        """See ``Records.codes``."""
        if i not in self._codes:
            self._codes[i] = self._coders[i].codes(self._block, i)
        return self._codes[i]

    def numbers(self, i: int) -> Floats:
        """See ``Records.numbers``."""
        coder = self._coders[i]
        if not isinstance(coder, NumberCoder):
            raise TypeError("the column is not numeric")
        return coder.numbers(self._block, i)

    def keys(self, i: int, keys: TextKeys) -> Words:
        """See ``Records.keys``."""
        return keys.of_cells(self._block, *self._block.edges(i))


class LevelCoder:
    """Finds declared texts."""

    def __init__(self, texts: dict[str, int]) -> None:
        self._normal = {normal_cell(text): code for text, code in texts.items()}
        known = dict.fromkeys(_USUAL_MISSING, MISSING) | self._normal | texts
        known |= {f"{text}.0": code for text, code in self._normal.items() if normal_cell(f"{text}.0") == text}
        groups: dict[int, dict[bytes, int]] = {0: {}}
        for text, code in known.items():
            cell = text.encode()
            groups.setdefault(0 if len(cell) < 8 else -(-len(cell) // 8), {})[cell] = code
        self._all_known = max(groups) <= _MAX_WORDS
        self._tables = {n: _TextTable(cells, n) for n, cells in groups.items() if n <= _MAX_WORDS}
        shortest = [*(bytes([byte]) for byte in range(256)), b""]
        self._of_byte = np.array([groups[0].get(cell, _UNKNOWN) for cell in shortest])

    def codes(self, block: CellBlock, i: int) -> Integers:
        """Return the codes of the cells of a column, shape (n_records,)."""
        begins, stops = block.trimmed(*block.edges(i))
        lengths = stops - begins
        longest = lengths.max(initial=0)
        if longest > 1:
            codes = self._tables[0].find(block.words, begins, lengths)
        else:
            codes = self._of_byte.take(np.where(lengths == 1, block.bytes.take(begins), np.uint16(256)))
        for n_words, table in self._tables.items():
            if n_words and longest > 7:
                rows = np.flatnonzero((lengths + 7) >> 3 == n_words)
                rows = rows[lengths.take(rows) > 7]
                codes[rows] = table.find(block.words, begins.take(rows), lengths.take(rows))
        unknown = codes == _UNKNOWN
        if unknown.any():
            rows = np.flatnonzero(unknown)
            if self._all_known:
                codes[rows] = MISSING
                first, last = block.bytes.take(begins.take(rows)), block.bytes.take(stops.take(rows) - 1)
                rows = rows[_BEGINS_NUMBER[first] | IS_BLANK[first] | IS_BLANK[last]]
            codes[rows] = _of_each(
                lambda text: self._normal.get(normal_cell(text), MISSING),
                block.cells(begins.take(rows), stops.take(rows)),
            )
        return codes


class PairCoder:
    """Finds declared pairs of texts of a column and the next one; see ``Column.within``."""

    def __init__(self, column: Column) -> None:
        levels, within = ([normal_cell(text) for text in texts] for texts in (column.levels, column.within))
        names, others = ({text: code for code, text in enumerate(dict.fromkeys(each))} for each in (levels, within))
        self._coders, self._n_others = [LevelCoder(names), LevelCoder(others)], len(others)
        pairs = [names[name] * len(others) + others[other] for name, other in zip(levels, within, strict=True)]
        self._order = np.argsort(pairs)
        self._pairs = np.array(pairs)[self._order]

    def codes(self, block: CellBlock, i: int) -> Integers:
        """Return the codes of the cells of a column, shape (n_records,)."""
        name, other = (coder.codes(block, i + k) for k, coder in enumerate(self._coders))
        pair = np.where((name >= 0) & (other >= 0), name * self._n_others + other, -1)
        place = np.minimum(np.searchsorted(self._pairs, pair), len(self._pairs) - 1)
        return np.where(self._pairs[place] == pair, self._order[place], MISSING)


class NumberCoder:
    """Reads numbers, and rounds them to a grid or cuts them into intervals."""

    def __init__(self, column: NumericColumn | CutColumn, marks: NumberMarks) -> None:
        self._column, self._marks = column, marks
        self._integers = isinstance(column, NumericColumn) and column.integers

    def codes(self, block: CellBlock, i: int) -> Integers:
        """Return the codes of the cells of a column, shape (n_records,)."""
        numbers, column = self.numbers(block, i), self._column
        invalid = np.isnan(numbers)
        if isinstance(column, CutColumn):
            return np.where(invalid, MISSING, np.searchsorted(column.cuts, numbers, side="right"))
        codes, inside = column.codes(np.where(invalid, column.lower, numbers))
        codes = codes if inside.all() else np.where(inside, codes, OUT_OF_BOUNDS)
        return np.where(invalid, MISSING, codes)

    def numbers(self, block: CellBlock, i: int) -> Floats:
        """Return the numbers of a column, NaN if they are invalid, shape (n_records,)."""
        return self.of_cells(block, *block.trimmed(*block.edges(i)))

    def of_cells(self, block: CellBlock, begins: Integers, stops: Integers) -> Floats:
        """Return the numbers of cells without blanks around them, NaN if they are invalid, shape (n_cells,)."""
        numbers, known = _plain_decimals(block, begins, stops, ord(self._marks.decimal), integers=self._integers)
        if not known.all():
            rows = np.flatnonzero(~known)
            parse = partial(parse_number, integers=self._integers, marks=self._marks)
            numbers[rows] = np.array(_of_each(parse, block.cells(begins.take(rows), stops.take(rows))), dtype=float)
        return numbers


def _of_each(function: Callable[[str], _T], cells: Sequence[bytes]) -> list[_T]:
    """Return a function of the text of each cell; it is called once for equal cells."""
    values = {cell: function(clean_cell(cell)) for cell in set(cells)}
    return [values[cell] for cell in cells]


Coder = LevelCoder | PairCoder | NumberCoder


def coder_of(column: AnyColumn, marks: NumberMarks) -> Coder:
    """Return what computes the codes of a column; ``marks`` are those of its numbers."""
    if not isinstance(column, Column):
        return NumberCoder(column, marks)
    return PairCoder(column) if column.within else LevelCoder(column.texts)


class _TextTable:
    """Finds texts with the same number of words among known ones; 0 words stand for texts of up to 7 bytes.

    Texts are found by an integer key. That of a short text determines the text; longer texts with equal keys are
    compared word by word.

    Args:
        cells: the known texts with their codes.
        n_words: their number of words.
    """

    def __init__(self, cells: Mapping[bytes, int], n_words: int) -> None:
        self._n_words = n_words
        data = b"".join(cells) + bytes(8)
        words: Words = np.ndarray((len(data) - 7,), np.dtype("<u8"), buffer=data, strides=(1,))
        lengths = np.array([len(cell) for cell in cells], dtype=np.int64)
        n_bits = 12 if len(cells) <= _MAX_SLOTTED // 8 else 16
        self._shift = 64 - n_bits if len(cells) <= _MAX_SLOTTED else 0
        multipliers = np.random.default_rng(0).integers(1 << 62, 1 << 63, 1 << 10, dtype=np.uint64)
        for multiplier in multipliers | np.uint64(1):
            self._multiplier = multiplier
            keys, parts = self._keys(words, np.cumsum(lengths) - lengths, lengths)
            self._sorted = np.sort(keys)
            place = self._place(keys)
            if len(np.unique(place)) == len(cells):
                break
        size = 1 << n_bits if self._shift else len(cells)
        self._codes = np.zeros(size, dtype=np.int64)
        self._known = np.zeros((1 + len(parts), size), dtype=np.uint64)
        self._codes[place], self._known[:, place] = [*cells.values()], [keys, *parts]

    def find(self, words: Words, begins: Integers, lengths: Integers) -> Integers:
        """Return the codes of cells, given where they begin in ``words``; ``_UNKNOWN`` for an unknown text."""
        keys, parts = self._keys(words, begins, lengths)
        place = self._place(keys)
        is_known = self._known[0].take(place) == keys
        for known, part in zip(self._known[1:], parts, strict=True):
            is_known &= known.take(place) == part
        return np.where(is_known, self._codes.take(place), _UNKNOWN)

    def _keys(self, words: Words, begins: Integers, lengths: Integers) -> tuple[Words, list[Words]]:
        """Return the keys of texts, and what must be compared besides the keys: lengths and words."""
        if not self._n_words:
            return short_keys(words, begins, lengths), []
        offsets = (np.minimum(8 * k, lengths - 8) for k in range(self._n_words))
        parts = [lengths.astype(np.uint64), *(words[begins + offset] for offset in offsets)]
        keys = np.zeros(len(begins), dtype=np.uint64)
        for part in parts:
            keys = (keys ^ part) * self._multiplier
        return keys, parts

    def _place(self, keys: Words) -> Integers:
        if self._shift:
            place: Integers = (keys * self._multiplier >> np.uint64(self._shift)).astype(np.int64)
        else:
            place = np.searchsorted(self._sorted, keys).clip(max=len(self._sorted) - 1)
        return place


def _plain_decimals(
    block: CellBlock, begins: Integers, stops: Integers, point: int, *, integers: bool
) -> tuple[Floats, Booleans]:
    """Return the numbers in plain cells, and whether each cell is plain: an optional sign, up to 24 digits, a point.

    An empty cell is NaN. The digits are an integer, which is divided by a power of ten. If both are exact doubles, the
    quotient is the double nearest to the decimal.

    Args:
        block, begins, stops: the cells.
        point: the byte that stands before the decimals.
        integers: whether numbers with decimals other than zeros are left out.
    """
    first = block.bytes.take(begins)
    is_negative = first == ord("-")
    lengths = stops - begins
    empty = lengths == 0
    lengths = lengths - (is_negative | (first == ord("+")))
    values, decimals, simple = _digits(block.words[stops - 8], np.minimum(lengths, 8), point)
    for n_before in (8, 16):
        rows = np.flatnonzero(lengths > n_before)
        if len(rows):
            some = lengths.take(rows)
            ends = stops.take(rows) - n_before
            above, more, is_simple = _digits(block.words[ends - 8], np.minimum(some - n_before, 8), point)
            has_point = decimals.take(rows) >= 0
            simple[rows] &= is_simple & (some <= 24) & (above <= _MAX_ABOVE[n_before]) & ~(has_point & (more >= 0))
            values[rows] += above * _TENS.take(n_before - has_point)
            decimals[rows] = np.where(more >= 0, more + n_before, decimals.take(rows))
    has_point = decimals >= 0
    simple &= lengths > has_point
    decimals = np.maximum(decimals, 0)
    if integers:
        simple &= ~has_point | ((values % _TENS.take(decimals, mode="clip") == 0) & (lengths > decimals + 1))
    numbers = values / _TEN.take(decimals, mode="clip") if has_point.any() else values.astype(np.float64)
    rows = np.flatnonzero(simple & ((values > _MAX_EXACT) | (decimals >= len(_TEN))))
    if len(rows):
        numbers[rows], simple[rows] = _long_quotients(values.take(rows), decimals.take(rows))
    numbers = np.where(is_negative, -numbers, numbers)
    if empty.any():
        numbers[empty] = np.nan
    return numbers, simple | empty


def _long_quotients(values: Words, decimals: Integers) -> tuple[Floats, Booleans]:
    """Return integers divided by powers of ten, and whether each quotient is surely the nearest double.

    A quotient with a mantissa of 64 bits is rounded again to 53 bits. The result may be wrong only if the first
    quotient lies in the middle between two doubles.
    """
    if np.finfo(np.longdouble).nmant != 63:  # other processors have other long doubles
        return np.zeros(len(values)), np.zeros(len(values), dtype=bool)
    quotients = values.astype(np.longdouble) / np.cumprod([1, *[10] * 24], dtype=np.longdouble).take(decimals)
    mantissas = quotients.view(np.uint64)[::2]
    return quotients.astype(np.float64), (mantissas & 0x7FF) != 0x400


def _digits(words: Words, n: Integers, point: int) -> tuple[Words, Integers, Booleans]:
    """Return the integer that the last n bytes of each word spell without their point, and the number of its decimals.

    The number of decimals is -1 if there is no point. The last result is false if there is another byte than digits
    and one point.
    """
    digits = (words ^ np.uint64(0x30 * _EACH_BYTE)) & _LAST_BYTES.take(np.maximum(n, 0))
    others = ((digits + 0x76 * _EACH_BYTE) | digits) & np.uint64(0x80 * _EACH_BYTE)  # the high bit of other bytes
    simple = others == 0
    decimals = np.full(len(words), -1)
    if not simple.all():
        rows = np.flatnonzero(~simple)
        some, unit = digits.take(rows), others.take(rows) >> np.uint64(7)  # 1 in the byte that holds the point
        below = unit - np.uint64(1)
        simple[rows] = ((unit & below) == 0) & (some & (unit * np.uint64(0xFF)) == unit * np.uint64(point ^ 0x30))
        digits[rows] = (some & ~(below | unit * np.uint64(0xFF))) | ((some & below) << np.uint64(8))
        decimals[rows] = 7 - (np.bitwise_count(below) >> 3)
    digits = (digits * 10 + (digits >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    digits = (digits * 100 + (digits >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    return (digits * 10_000 + (digits >> np.uint64(32))) & np.uint64(0xFFFFFFFF), decimals, simple
