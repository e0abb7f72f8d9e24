"""Profile the columns of a file: their kinds, ranges and most common texts. NOT PRIVATE: for ``dpbayes check``."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.base.cell_grammar import BLANKS, MAX_KEY_BYTES, POINT, NumberMarks
from dpbayes_cli.check.distinct_cells import distinct_cells, hashes_of
from dpbayes_cli.check.file_layout import MISSING, FileLayout, layout_lines
from dpbayes_cli.core.columns import AnyColumn, Column, CutColumn, NumericColumn
from dpbayes_cli.sources.cell_blocks import CellBlock
from dpbayes_cli.sources.cell_codes import NumberCoder, coder_of
from dpbayes_cli.sources.lines import clean_cell
from dpbayes_cli.sources.records import Dialect
from dpbayes_cli.sources.text_keys import TextKeys

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Booleans, Floats, Integers
    from dpbayes_cli.sources.text_keys import Words

_SAMPLE = 100_000
MANY_NUMBERS = 100
"""If a column has more distinct numbers than this, the profile does not list the most common ones."""
COMMONEST = 8
"""The number of most common texts in a profile."""
_MAX_COUNTED = 1 << 17
"""If a column has more distinct texts than this, the rarest are forgotten, and the most common ones counted anew."""
_MAX_SAMPLED = 1 << 16
_GROUPED = re.compile(rb"[+-]?[1-9][0-9]{0,2}\.[0-9]{3}")

_FEWEST_UNITS, _MOST_PER_UNIT = 10, 100
"""A column with fewer distinct texts, or with more records of each on average, does not hold IDs of units."""
_UNIT_NAME = re.compile(
    r"(^|[\W_])id$|^(client|customer|employee|household|individual|member|participant|patient|person|pupil|respondent"
    r"|student|subject|user)s?([\W_]?(id|no|nr|number|code))?$",
    re.IGNORECASE,
)

Scan = Callable[[Sequence[int]], Generator[CellBlock]]
"""Reads a file: yields blocks of the cells of the columns with the given indices."""


@dataclass(frozen=True)
class ColumnProfile:
    """A summary of the cells of a column.

    Attributes:
        name: the name of the column.
        records: the number of cells.
        missing: the number of cells that are empty or a common spelling of a missing value.
        numbers: the number of cells that are numbers.
        whole: the number of cells that are whole numbers.
        lowest, highest: the range of the numbers; NaN if there are none.
        distinct: the number of distinct texts that are not missing values; approximate if there are ``COMMONEST`` or
            more.
        commonest: the most common of these texts with their frequencies; empty for a column with more than
            ``MANY_NUMBERS`` distinct numbers.
    """

    name: str
    records: int
    missing: int
    numbers: int
    whole: int
    lowest: float
    highest: float
    distinct: int
    commonest: tuple[tuple[str, int], ...]

    @property
    def may_be_id(self) -> bool:
        """Whether nearly every cell has a text of its own, as in a column of IDs; numbers with decimals are no IDs.

        One cell may be missing, such as that of a second header line.
        """
        return self.whole == self.numbers and self.missing <= 1 and self.distinct > 0.9 * self.records

    @property
    def may_be_unit(self) -> bool:
        """Whether the column may hold IDs of people or other units, each perhaps in several records."""
        is_code = self.whole == self.numbers and self.distinct >= _FEWEST_UNITS
        return is_code and self.records <= _MOST_PER_UNIT * self.distinct and bool(_UNIT_NAME.search(self.name))

    @property
    def is_numeric(self) -> bool:
        """Whether nearly all cells that are not missing are numbers."""
        return 0 < self.records - self.missing <= 1.05 * self.numbers


def text_scan(path: Path, layout: FileLayout) -> Scan:
    """Return the scan of a text file, whose records are those that a release reads."""
    dialect, n_above = Dialect(layout.delimiter, layout.quote), layout.skipped + layout.header

    def blocks(indices: Sequence[int]) -> Generator[CellBlock]:
        above = n_above
        for lines in layout_lines(path, layout):
            start = 0
            while above and start < len(lines):
                start, above = lines.index(b"\n", start) + 1, above - 1
            if start < len(lines):
                yield CellBlock(lines[start:], dialect, len(layout.names), indices, are_lines=False)

    return blocks


def profile_columns(scan: Scan, names: Sequence[str], marks: NumberMarks = POINT) -> list[ColumnProfile]:
    """Return the profile of each column, in one pass or, if a column has very many distinct texts, in two.

    Args:
        scan: reads the file.
        names: the names of the columns.
        marks: the decimal and thousands marks of the numbers.
    """
    tallies = [_ColumnTally(marks) for _ in names]
    for block in scan(range(len(names))):
        for i, tally in enumerate(tallies):
            tally.add(block, i)
    commonest = [tally.commonest() for tally in tallies]
    if pruned := [i for i, tally in enumerate(tallies) if tally.is_pruned and not tally.is_measure]:
        again: list[Counter[bytes]] = [Counter() for _ in pruned]
        for block in scan(pruned):
            for k, i in enumerate(pruned):
                _, begins, stops, counts = distinct_cells(block, k)
                for cell, count in zip(block.cells(begins, stops), counts.tolist(), strict=True):
                    if cell in commonest[i]:
                        again[k][cell] += count
        for i, totals in zip(pruned, again, strict=True):
            commonest[i] = dict(totals)
    profiles = zip(names, tallies, commonest, strict=True)
    return [tally.profile(name, _ordered(counts)) for name, tally, counts in profiles]


class _ColumnTally:
    """Counts the cells of a column, the distinct ones of each block at once.

    Attributes:
        is_pruned: whether rare texts were forgotten.
        is_measure: whether the column has so many distinct numbers that its texts are no longer counted.
    """

    def __init__(self, marks: NumberMarks) -> None:
        self.is_pruned = self.is_measure = False
        self._numbers = NumberCoder(CutColumn("", (0.0,)), marks)
        self._counts: Counter[bytes] = Counter()
        self._sampled: set[int] = set()
        self._n_bits = 0
        self._totals: Integers = np.zeros(4, dtype=np.int64)
        self._range = math.inf, -math.inf

    def add(self, block: CellBlock, i: int) -> None:
        """Count the cells of a block."""
        hashes, begins, stops, counts = distinct_cells(block, i)
        numbers = self._numbers.of_cells(block, begins, stops)
        is_number, is_missing = ~np.isnan(numbers), np.isin(hashes, hashes_of(MISSING))
        masks = (is_missing & ~is_number, is_number, numbers == np.floor(numbers))
        self._totals += [counts.sum(), *(counts[mask].sum() for mask in masks)]
        if is_number.any():
            self._range = min(self._range[0], np.nanmin(numbers)), max(self._range[1], np.nanmax(numbers))
        self._sample(hashes[~is_missing])
        self.is_measure |= self._distinct > _MAX_COUNTED and self._all("").is_numeric
        if self.is_measure:
            return
        rows = np.flatnonzero(~is_missing)
        for cell, count in zip(block.cells(begins[rows], stops[rows]), counts[rows].tolist(), strict=True):
            self._counts[cell] += count
        if len(self._counts) > _MAX_COUNTED:
            self.is_pruned = True
            self._counts = Counter(dict(self._counts.most_common(_MAX_COUNTED // 2)))

    def commonest(self) -> dict[bytes, int]:
        """Return the most common texts that are not missing values, with their frequencies."""
        return dict(self._counts.most_common(COMMONEST))

    def profile(self, name: str, commonest: tuple[tuple[str, int], ...]) -> ColumnProfile:
        """Return the profile of the column."""
        profile = self._all(name)
        is_measure = profile.is_numeric and profile.distinct > MANY_NUMBERS
        return profile if is_measure else replace(profile, commonest=commonest)

    def _all(self, name: str) -> ColumnProfile:
        """Return the profile without the most common texts."""
        records, missing, numbers, whole = self._totals.tolist()
        lowest, highest = map(float, self._range) if numbers else (math.nan, math.nan)
        distinct = min(self._distinct, records - missing)
        return ColumnProfile(name, records, missing, numbers, whole, lowest, highest, distinct, ())

    @property
    def _distinct(self) -> int:
        return len(self._sampled) << self._n_bits

    def _sample(self, hashes: Words) -> None:
        """Remember the hashes of the distinct texts, or a random part of them whose size is bounded."""
        self._sampled.update(hashes[hashes & np.uint64((1 << self._n_bits) - 1) == 0].tolist())
        while len(self._sampled) > _MAX_SAMPLED:
            self._n_bits += 1
            self._sampled = {code for code in self._sampled if not code & ((1 << self._n_bits) - 1)}


def are_grouped(scan: Scan, index: int) -> bool:
    """Return whether each point in the first 100,000 cells of a column may separate thousands, as in 1.234."""
    with closing(scan([index])) as blocks:
        cells = itertools.islice((cell for block in blocks for cell in _cells(block, 0) if b"." in cell), _SAMPLE)
        first = next(cells, b"")
        return all(map(_GROUPED.fullmatch, itertools.chain([first], cells)))


def all_texts(scan: Scan, index: int) -> list[str]:
    """Return all distinct texts of a column that are not missing values, sorted."""
    cells = {cell for block in scan([index]) for cell in _cells(block, 0)}
    return sorted(set(map(_text, cells)) - set(MISSING))


def first_rows(scan: Scan, n_columns: int, n_rows: int) -> list[tuple[str, ...]]:
    """Return the first rows, without blanks around their texts."""
    with closing(scan(range(n_columns))) as blocks:
        rows = (
            map(_text, row)
            for block in blocks
            for row in zip(*(_cells(block, i) for i in range(n_columns)), strict=True)
        )
        return [tuple(row) for row in itertools.islice(rows, n_rows)]


def count_rows(scan: Scan, texts: Sequence[str]) -> int:
    """Return the number of rows that hold these texts, one in each column."""
    row = tuple(text.encode() for text in texts)
    blocks = (block for block in scan(range(len(row))) if max(row, key=len) in block.data)
    return sum(
        each == row for block in blocks for each in zip(*(_cells(block, i) for i in range(len(row))), strict=True)
    )


def commonest_invalid(
    scan: Scan, index: int, column: AnyColumn, marks: NumberMarks = POINT
) -> tuple[int, tuple[tuple[str, int], ...]]:
    """Return the number of cells that are invalid under the column's domain, and the most common of their texts.

    Args:
        scan: reads the file.
        index: the index of the column.
        column: the column's domain.
        marks: the decimal and thousands marks that the user stated.
    """
    if isinstance(column, Column):
        column = replace(column, within=())
    codes_of, counts = _codes_of(column, marks), Counter[bytes]()
    for block in scan([index]):
        counts.update(itertools.compress(_cells(block, 0), codes_of(block, 0)[block.is_whole] < 0))
    return counts.total(), _ordered(counts)[:COMMONEST]


def count_beyond(
    scan: Scan, index: int, column: NumericColumn, marks: NumberMarks = POINT
) -> tuple[int, int, float, int]:
    """Return how many cells are numbers below and above the bounds, and the commonest of these with its frequency.

    See ``commonest_invalid``.
    """
    counts = Counter[float]()
    for numbers in _numbers(scan, index, column, marks):
        counts.update(numbers[(numbers < column.lower) | (numbers > column.upper)].tolist())
    below = sum(n for number, n in counts.items() if number < column.lower)
    commonest, count = min(counts.items(), key=lambda pair: (-pair[1], pair[0]), default=(math.nan, 0))
    return below, counts.total() - below, commonest, count


def mean_and_variance(
    scan: Scan, index: int, column: NumericColumn, marks: NumberMarks = POINT
) -> tuple[float, float] | None:
    """Return the mean and the variance of the numbers of a column after clamping; None if there are too few."""
    n, total, squares, center = 0, 0.0, 0.0, (column.lower + column.upper) / 2
    for numbers in _numbers(scan, index, column, marks):
        clamped = np.clip(numbers, column.lower, column.upper) - center
        n, total, squares = n + len(clamped), total + float(clamped.sum()), squares + float(clamped @ clamped)
    return None if n < 2 else (center + total / n, (squares - total**2 / n) / (n - 1))


def count_valid_records(scan: Scan, columns: Sequence[tuple[int, AnyColumn, NumberMarks]]) -> int:
    """Return the number of records that are valid in all columns; each has its index, domain and marks."""
    return sum(int(valid.sum()) for _, valid in _valid_records(scan, columns))


def count_keys(scan: Scan, columns: Sequence[tuple[int, AnyColumn, NumberMarks]], least: float) -> tuple[int, int]:
    """Return the number of keys with a valid record, and of those with at least ``least`` valid records.

    The first column is that of the keys; see ``count_valid_records``.
    """
    texts = TextKeys()
    keys = [texts.of_cells(block, *block.edges(0))[valid] for block, valid in _valid_records(scan, columns)]
    _, counts = np.unique(np.concatenate([np.empty(0, np.uint64), *keys]), return_counts=True)
    return len(counts), int((counts >= least).sum())


def _valid_records(
    scan: Scan, columns: Sequence[tuple[int, AnyColumn, NumberMarks]]
) -> Iterator[tuple[CellBlock, Booleans]]:
    """Yield blocks of records, and whether each record is valid in all columns."""
    coders = [_codes_of(column, marks) for _, column, marks in columns]
    for block in scan([index for index, *_ in columns]):
        codes = [codes_of(block, k) for k, codes_of in enumerate(coders)]
        yield block, block.is_whole & (np.stack(codes) >= 0).all(axis=0)


def _codes_of(column: AnyColumn, marks: NumberMarks) -> Callable[[CellBlock, int], Integers]:
    """Return a function of a block and the place of the column in it; codes of invalid cells are negative."""
    if not isinstance(column, Column) or not column.finds_keys:
        return coder_of(column, marks).codes

    def codes(block: CellBlock, i: int) -> Integers:
        begins, stops = block.trimmed(*block.edges(i))
        return np.where((begins < stops) & (stops - begins <= MAX_KEY_BYTES), 0, -1)

    return codes


def _numbers(scan: Scan, index: int, column: NumericColumn, marks: NumberMarks) -> Iterator[Floats]:
    """Yield the numbers of a column, neither clamped nor rounded, block by block."""
    coder = NumberCoder(column, marks)
    for block in scan([index]):
        numbers = coder.numbers(block, 0)
        yield numbers[~np.isnan(numbers)]


def _cells(block: CellBlock, i: int) -> list[bytes]:
    """Return the cells of the well-formed records."""
    begins, stops = block.trimmed(*block.edges(i))
    return block.cells(begins[block.is_whole], stops[block.is_whole])


def _text(cell: bytes) -> str:
    return clean_cell(cell).strip(BLANKS)


def _ordered(counts: Mapping[bytes, int]) -> tuple[tuple[str, int], ...]:
    """Return texts with their frequencies, the most common ones first."""
    return tuple(sorted(((_text(cell), n) for cell, n in counts.items()), key=lambda pair: (-pair[1], pair[0])))
