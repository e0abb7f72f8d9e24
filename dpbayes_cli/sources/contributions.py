"""Bounded contributions: at most a stated number of records of each privacy unit is kept, chosen by a keyed hash.

The hash depends on the unit, on the codes of the record and on a secret key, never on the order of records. So every
engine keeps the same records, however the data are partitioned, and a unit with too many records affects no other unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.core.columns import Column, n_codes
from dpbayes_cli.sources.reader import MISSING, Reader, Records, UnitBound
from dpbayes_cli.sources.text_keys import TextKeys

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.core.columns import AnyColumn
    from dpbayes_cli.sources.text_keys import Words

_BLOCK_RECORDS = 1 << 20
_BLOCK_ITEMS = 1 << 16
MAX_DUPLICATES = 1 << 20
"""If a unit has more equal records than this, the surplus is ignored, which bounds the memory for the choice."""


class BoundedReader:
    """Hands the kept records to a reader.

    Privacy: whether a record is kept depends only on the key and on the records of its own unit. So replacing the
        records of one unit changes at most ``max_contributions`` kept records, all of which belong to this unit. If the
        hash acts as a random number, all subsets of ``max_contributions`` records of a unit are equally likely. Equal
        records are interchangeable, and at most ``MAX_DUPLICATES`` of them take part.
    Source: derived here.

    Args:
        reader: takes the kept records.
        bound: the unit's column, the contribution bound and the key.
        part, parts: the index of the part of the units to read, and the number of parts; memory holds one part at a
            time.
    """

    def __init__(self, reader: Reader, bound: UnitBound, part: int = 0, parts: int = 1) -> None:
        self._reader, self._bound, self.columns = reader, bound, reader.columns
        self._part, self._parts = part, parts

    @property
    def records(self) -> int:
        """The number of records that were kept."""
        return self._reader.records

    def read(self, blocks: Iterable[Records]) -> None:
        """Read the kept records; see ``Reader``."""
        self._reader.read(self._kept(blocks))

    def _kept(self, blocks: Iterable[Records]) -> Iterator[KeptRecords]:
        """Yield the kept records; the codes and the units of all records are held in memory."""
        texts = TextKeys()
        keyed = [i for i, each in enumerate(self.columns) if isinstance(each, Column) and each.is_key]
        kind = np.int32 if max(map(n_codes, self.columns), default=0) < 1 << 31 else np.int64
        codes, keys = [np.empty((len(self.columns), 0), kind)], [np.empty((1 + len(keyed), 0), np.uint64)]
        for records in blocks:
            units = records.keys(-1, texts)
            mine = slice(None) if self._parts == 1 else _hashed(units) % np.uint64(self._parts) == self._part
            keys.append(np.stack([units, *(records.keys(i, texts) for i in keyed)])[:, mine])
            codes.append(np.stack([records.codes(i) for i in range(len(self.columns))]).astype(kind)[:, mine])
        numbered = (np.unique(row, return_inverse=True) for row in np.concatenate(keys, axis=1))
        distinct, rows = zip(*numbered, strict=True)
        table = np.stack([rows[0], *np.concatenate(codes, axis=1), *rows[1:]])
        del keys, codes
        cells = [texts.texts(each) for each in distinct]
        is_kept = np.bincount(table[0])[table[0]] <= min(self._bound.max_contributions, MAX_DUPLICATES)
        chosen = self._chosen(table[:, ~is_kept], cells, keyed)
        for kept in (table[:, is_kept], chosen):
            for start in range(0, kept.shape[1], _BLOCK_RECORDS):
                block = kept[1:, start : start + _BLOCK_RECORDS]
                indices = zip(keyed, cells[1:], block[len(self.columns) :], strict=True)
                yield KeptRecords(block.shape[1], block, {i: (own, index) for i, own, index in indices})

    def _chosen(self, table: Integers, cells: Sequence[Sequence[bytes]], keyed: Sequence[int]) -> Integers:
        """Return the kept records of units with too many records, in the form of ``table``.

        Args:
            table: the unit, the codes and the keys of each record, shape (n_rows, n_records).
            cells: the texts of the units, and of the keys in each column of keys.
            keyed: the indices of the columns of keys.
        """
        table = table[:, np.lexsort(table[::-1])]
        first = np.flatnonzero((np.diff(table, axis=1, prepend=-3) != 0).any(axis=0))
        twins = np.minimum(np.diff(first, append=table.shape[1]), MAX_DUPLICATES)
        heads = [f"{self._bound.key},{twin},".encode() for twin in range(twins.max(initial=0))]
        hashes = np.empty(int(twins.sum()), dtype=np.uint64)
        end = 0
        for start in range(0, len(first), _BLOCK_ITEMS):
            some = slice(start, start + _BLOCK_ITEMS)
            items = zip(self._items(table[:, first[some]], cells, keyed), twins[some].tolist(), strict=True)
            digests = b"".join([sha256(head + item).digest() for item, number in items for head in heads[:number]])
            begin, end = end, end + len(digests) // 32
            hashes[begin:end] = np.frombuffer(digests, ">u8")[::4]
        record = np.repeat(first, twins)
        unit = table[0, record]
        order = np.lexsort((hashes, unit))
        place = np.arange(len(unit)) - np.searchsorted(unit, unit)  # units are in ascending order
        return table[:, record[order[place < self._bound.max_contributions]]]

    def _items(self, table: Integers, cells: Sequence[Sequence[bytes]], keyed: Sequence[int]) -> Iterator[bytes]:
        """Yield the text of each record that is hashed; records with the same text are interchangeable."""
        unit, *rows = table.tolist()
        n_columns = len(self.columns)
        texts = [[b"" if code == MISSING else b"%d" % code for code in row] for row in rows[:n_columns]]
        for i, own, row in zip(keyed, cells[1:], rows[n_columns:], strict=True):
            texts[i] = [sha256(own[index]).hexdigest().encode() for index in row]
        return map(b",".join, zip(*texts, map(cells[0].__getitem__, unit), strict=True))


def _hashed(keys: Words) -> Words:
    return (keys ^ keys >> np.uint64(32)) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)


@dataclass(frozen=True, eq=False)
class KeptRecords:
    """Kept records; see ``Records``."""

    n_records: int
    _codes: Integers
    _texts: Mapping[int, tuple[Sequence[bytes], Integers]]

    def codes(self, i: int) -> Integers:
        """See ``Records.codes``."""
        codes: Integers = self._codes[i]
        return codes

    def numbers(self, i: int) -> Floats:
        """Refuse: nothing reads plain numbers of privacy units."""
        raise TypeError("privacy units have no plain numbers")

    def keys(self, i: int, keys: TextKeys) -> Words:
        """See ``Records.keys``."""
        texts, index = self._texts[i]
        return keys.of(texts)[index]


class UnitCounter:
    """Counts the privacy units of all records, for guarantees under which the number of units is public."""

    columns: Sequence[AnyColumn] = ()

    def __init__(self) -> None:
        self.records = self.units = 0

    def read(self, blocks: Iterable[Records]) -> None:
        """Count; see ``Reader``."""
        texts, units = TextKeys(), np.empty(0, dtype=np.uint64)
        for records in blocks:
            self.records += records.n_records
            units = np.union1d(units, records.keys(-1, texts))
        self.units = len(units)
