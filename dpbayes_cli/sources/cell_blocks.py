"""Cells of lines of text: NumPy finds where the cells of a block of records begin and end.

A line without quotes is split at every delimiter. In a line with quotes, a delimiter after an odd number of quotes
belongs to a text. If the only quotes of a line are those around its quoted texts, its cells are found like those of a
plain line. Any other line is split by ``split_record``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.base.cell_grammar import BLANKS, MAX_CELL_BYTES
from dpbayes_cli.sources.lines import BOM, clean_cell, clean_line
from dpbayes_cli.sources.records import Dialect, split_record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpbayes_cli.base.numeric import Integers

    Mask = NDArray[np.bool_]

_PAD = bytes(32)
"""Zeros before and after the records, so that some bytes before and after each cell can be read."""
_LINE_FEED, _CARRIAGE_RETURN = b"\n\r"
_MAX_BLANKS = 8
"""If a cell has more blanks than this at one end, the others are removed from its text."""
IS_BLANK = np.isin(np.arange(256), list(BLANKS.encode("ascii")))


class CellBlock:
    """The cells of some columns in a block of records; a cell is empty if it is too long or its record is malformed.

    Args:
        lines: the records, each ended by a line feed.
        dialect: the layout.
        width: the number of fields that a record must have.
        wanted: the indices of the columns.
        are_lines: whether a byte-order mark at the beginning of a record, and a carriage return at its end, belong to
            no cell.

    Attributes:
        n_records: the number of records.
        is_whole: whether each record is well-formed, shape (n_records,).
        data, bytes: the bytes of the records, followed by the texts of lines that were split one by one.
    """

    def __init__(
        self, lines: bytes, dialect: Dialect, width: int, wanted: Sequence[int], *, are_lines: bool = True
    ) -> None:
        self._width, self._clean = width, clean_line if are_lines else clean_cell
        self.data = b"".join((_PAD, lines, _PAD))
        self.bytes: NDArray[np.uint8] = np.frombuffer(self.data, np.uint8)
        delimiter, quote = ord(dialect.delimiter), ord(dialect.quote)
        is_mark = self.bytes == _LINE_FEED
        self.n_records = int(np.count_nonzero(is_mark))
        n_quotes: Integers | None = None
        may_be_whole = np.ones(self.n_records, dtype=bool)
        for byte in (delimiter, quote):
            if byte in lines:
                is_mark |= self.bytes == byte
        marks = np.flatnonzero(is_mark)
        if quote in lines:
            marks, n_quotes = _outside_quotes(marks, self.bytes.take(marks), quote)
            may_be_whole = n_quotes % 2 == 0
        last = self._last_marks(marks, width)
        ends = marks[last]
        starts = np.concatenate(([len(_PAD)], ends[:-1] + 1))
        rows, fields = self._fields(marks, last, width, may_be_whole)
        self.is_whole = np.zeros(self.n_records, dtype=bool)
        self.is_whole[rows] = True
        starts, ends = starts[rows], ends[rows]
        first, last = starts, ends
        if are_lines and BOM[0] in lines and BOM in lines:
            is_marked = self.bytes[starts[:, None] + np.arange(len(BOM))] == np.frombuffer(BOM, np.uint8)
            first = starts + len(BOM) * is_marked.all(axis=1)
        if are_lines and _CARRIAGE_RETURN in lines:
            last = ends - (self.bytes.take(ends - 1) == _CARRIAGE_RETURN)
        if n_quotes is None:
            begins = [fields[:, i - 1] + 1 if i else first for i in wanted]
            stops = [fields[:, i] if i < width - 1 else last for i in wanted]
            odd = starts[:0]
        else:
            inner = fields.T[:-1]
            begin, stop, n_around = self._without_quotes(
                np.vstack((first, inner + 1)), np.vstack((inner, last)), dialect.quote
            )
            begins, stops = [begin[i] for i in wanted], [stop[i] for i in wanted]
            odd = np.flatnonzero(n_around != n_quotes[rows])
        if len(odd):
            split = self._split(odd, starts, ends, dialect, wanted, begins, stops)
            self.is_whole[np.arange(self.n_records)[rows][odd]] = split
        if not isinstance(rows, slice):
            begins, stops = ([_placed(each, rows, self.n_records) for each in edges] for edges in (begins, stops))
        self._begins, self._stops = begins, stops

    def edges(self, i: int) -> tuple[Integers, Integers]:
        """Return where the cells of a wanted column begin and end, shape (n_records,)."""
        begins, stops = self._begins[i], self._stops[i]
        too_long = stops - begins > MAX_CELL_BYTES
        return begins, np.where(too_long, begins, stops) if too_long.any() else stops

    def trimmed(self, begins: Integers, stops: Integers) -> tuple[Integers, Integers]:
        """Return where cells begin and end without the blanks around them."""
        if not any(blank in self.data for blank in BLANKS.encode("ascii")):
            return begins, stops
        for _ in range(_MAX_BLANKS):
            before = IS_BLANK[self.bytes.take(begins)] & (begins < stops)
            begins = begins + before
            after = IS_BLANK[self.bytes.take(stops - 1)] & (begins < stops)
            stops = stops - after
            if not (before.any() or after.any()):
                break
        return begins, stops

    @cached_property
    def words(self) -> NDArray[np.uint64]:
        """The eight bytes from each position, the first one lowest, shape (n_bytes - 7,)."""
        shape, kind = (len(self.data) - 7,), np.dtype("<u8")
        words: NDArray[np.uint64] = np.ndarray(shape, kind, buffer=self.data, strides=(1,))
        few = len(words) > 6 * self.n_records * len(self._begins)
        return words if few else words.copy()  # aligned words are read faster

    def cells(self, begins: Integers, stops: Integers) -> list[bytes]:
        """Return the bytes of cells, given where they begin and end."""
        data = self.data
        return [data[begin:stop] for begin, stop in zip(begins.tolist(), stops.tolist(), strict=True)]

    def _last_marks(self, marks: Integers, width: int) -> slice | Integers:
        """Return the places of the line feeds among the marks; a slice if they are ``width`` marks apart."""
        usual = slice(width - 1, None, width)
        if len(marks) == self.n_records * width and (width == 1 or (self.bytes[marks[usual]] == _LINE_FEED).all()):
            return usual
        return np.flatnonzero(self.bytes.take(marks) == _LINE_FEED)

    def _fields(
        self, marks: Integers, last: slice | Integers, width: int, whole: Mask
    ) -> tuple[slice | Integers, Integers]:
        """Return the rows of the records with as many fields as they must have, and where each field ends.

        Args:
            marks: the positions of the delimiters and line feeds.
            last: the places of the line feeds among them.
            width: the number of fields.
            whole: false for records that are malformed, whatever their number of fields.
        """
        if not isinstance(last, slice):
            whole &= np.diff(last, prepend=-1) == width
        if whole.all():
            return slice(None), marks.reshape(-1, width)
        rows = np.flatnonzero(whole)
        if isinstance(last, slice):
            return rows, marks.reshape(-1, width)[rows]
        return rows, marks[last[rows, None] + np.arange(1 - width, 1)]

    def _without_quotes(self, begins: Integers, stops: Integers, quote: str) -> tuple[Integers, Integers, Integers]:
        """Return where the texts of fields begin and end, and how many quotes of each record stand around its texts.

        The fields are rows of ``begins`` and ``stops``, shape (width, n_records).
        """
        begin, stop = self.trimmed(begins, stops)
        quoted = (self.bytes.take(begin) == ord(quote)) & (self.bytes.take(stop - 1) == ord(quote))
        quoted &= (stop - begin >= 2) & (quote not in BLANKS)
        return np.where(quoted, begin + 1, begins), np.where(quoted, stop - 1, stops), 2 * quoted.sum(axis=0)

    def _split(
        self,
        rows: Integers,
        starts: Integers,
        ends: Integers,
        dialect: Dialect,
        wanted: Sequence[int],
        begins: list[Integers],
        stops: list[Integers],
    ) -> list[bool]:
        """Split lines one by one, and append the texts of their cells to the data; return whether each one is whole."""
        texts, size, are_whole = [self.data], len(self.data), []
        for row, start, end in zip(rows.tolist(), starts[rows].tolist(), ends[rows].tolist(), strict=True):
            fields = split_record(self._clean(self.data[start:end]), dialect)
            are_whole.append(fields is not None and len(fields) == self._width)
            for i, begin, stop in zip(wanted, begins, stops, strict=True):
                texts.append(fields[i].encode("utf-8") if fields and are_whole[-1] else b"")
                begin[row], stop[row] = size, size + len(texts[-1])
                size += len(texts[-1])
        self.data = b"".join([*texts, _PAD])
        self.bytes = np.frombuffer(self.data, np.uint8)
        return are_whole


def _outside_quotes(marks: Integers, kinds: NDArray[np.uint8], quote: int) -> tuple[Integers, Integers]:
    """Return the marks that follow an even number of quotes in their record, and the number of quotes of each record.

    A record with an odd number of quotes is malformed; its quotes are ignored.

    Args:
        marks: the positions of quotes, delimiters and line feeds.
        kinds: the bytes at these positions.
        quote: the quote.
    """
    is_quote = kinds == quote
    last = np.flatnonzero(kinds == _LINE_FEED)
    so_far = np.cumsum(is_quote, dtype=np.int32)
    n_quotes = np.diff(so_far.take(last), prepend=0)
    odd = n_quotes % 2 == 1
    if odd.any():
        so_far = np.cumsum(is_quote & np.repeat(~odd, np.diff(last, prepend=-1)), dtype=np.int32)
    return marks[~is_quote & (so_far & 1 == 0)], n_quotes


def _placed(edges: Integers, rows: Integers, n_records: int) -> Integers:
    whole = np.zeros(n_records, dtype=np.int64)
    whole[rows] = edges
    return whole
