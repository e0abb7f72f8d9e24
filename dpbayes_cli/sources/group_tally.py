"""Counts and sums of the records of each group, for keys that the spec lists and for keys that are found in the data.

An engine returns a row (key, level, number of records, sum of codes, sum of their squares) for each key and level. The
key is a code or, if keys are found in the data, a text in normal form. The level is the code of a category, or 0 for a
valid number. Both are NULL if the cell is invalid.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes_cli.base.cell_grammar import is_publishable_key
from dpbayes_cli.core.columns import AnyColumn, NumericColumn, RecordPolicy, n_codes
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence, Statistic, SumsByGroup
from dpbayes_cli.sources.code_readers import imputed_codes
from dpbayes_cli.sources.imputation import impute_code, with_stand_in
from dpbayes_cli.sources.reader import Records
from dpbayes_cli.sources.tally import Tally
from dpbayes_cli.sources.text_keys import TextKeys

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers
    from dpbayes_cli.sources.expressions import Statements

Row = tuple[Any, ...]
_LOW_BITS = (1 << 30) - 1
"""Codes are summed in two parts, each below 2^31, so that the sum of a block is below 2^53."""


class GroupTally(Tally):
    """Sums of the numbers of each listed key, and counts of its valid records.

    The columns are that of the keys, that of larger groups if there are any, and that of the numbers.
    """

    def __init__(self, columns: Sequence[AnyColumn], statistic: Statistic, policy: RecordPolicy) -> None:
        super().__init__(columns, policy)
        self._sums = require_type(statistic.expressions[0], SumsByGroup)
        self._totals = np.zeros((3, n_codes(columns[0])), dtype=np.int64)

    def read(self, blocks: Iterable[Records]) -> None:
        """Read all records; see ``Reader``."""
        n_keys = self._totals.shape[1]
        for records, (key, *_, code) in imputed_codes(blocks, self.columns, self._policy):
            self.records += records.n_records
            valid = (key >= 0) & (code >= 0)
            keys, numbers = key[valid], code[valid]
            self._totals[0] += np.bincount(keys, minlength=n_keys)
            self._totals[1] += _sums_by_key(keys, numbers, n_keys)
            if self._sums.squares:
                self._totals[2] += _sums_by_key(keys, numbers * numbers, n_keys)

    def query(self, statements: Statements) -> str:
        """Return a query of the rows of this module."""
        return statements.group_query(self._policy, squares=self._sums.squares)

    def add(self, rows: Iterable[Row]) -> None:
        """Add the rows of the query."""
        self._totals = self._totals.astype(object)  # sums may exceed 64 bits
        for key, level, count, *totals in rows:
            self.records += int(count)
            if key is not None and level is not None:
                self._totals[: 1 + len(totals), key] += [int(count), *map(int, totals)]

    def statistics(self) -> ExactEvidence:
        """Return the components of the statistic, group by group."""
        values = self._sums.components(n_codes(self.columns[-1]) - 1, *self._totals)
        return ExactEvidence(tuple(values.ravel().tolist()), self.records)


class KeyTally(Tally):
    """Counts of the records of each key in the data in each category, or sums of their numbers.

    Privacy: a key has components if and only if it has a valid record. Whether a text can be a key depends on the text
        alone. So a record changes the components of its own key only, and adds or removes no other key.
    Source: derived here.

    Args:
        columns: the column of keys, and the column of values.
        policy: states the stand-in for an invalid value.
    """

    def __init__(self, columns: Sequence[AnyColumn], policy: RecordPolicy) -> None:
        super().__init__(columns, policy)
        self._size, self._are_numbers = n_codes(columns[1]), isinstance(columns[1], NumericColumn)
        self._groups: dict[str, list[int]] = {}

    def read(self, blocks: Iterable[Records]) -> None:
        """Count the records; see ``Reader``."""
        stand_in = impute_code(self.columns[1], self._policy)
        for records in blocks:
            keys = TextKeys()  # of this block alone, because texts that are no keys may be long
            distinct, key = np.unique(records.keys(0, keys), return_inverse=True)
            texts = [text.decode() for text in keys.texts(distinct)]
            code = with_stand_in(records.codes(1), stand_in)
            self.records += int(np.count_nonzero(code < 0))
            key, code = key[code >= 0], code[code >= 0]
            if self._are_numbers:
                counts, totals = np.bincount(key), _sums_by_key(key, code, len(texts))
                rows: Iterable[Row] = zip(texts, itertools.repeat(0), counts.tolist(), totals.tolist(), strict=False)
            else:
                counts = np.bincount(key * self._size + code)
                cells = np.flatnonzero(counts)
                rows = ((texts[cell // self._size], cell % self._size, counts[cell], 0) for cell in cells.tolist())
            self.add(row for row in rows if row[2])

    def query(self, statements: Statements) -> str:
        """Return a query of the rows of this module."""
        return statements.group_query(self._policy)

    def add(self, rows: Iterable[Row]) -> None:
        """Add the rows of the query."""
        for key, level, count, total in rows:
            self.records += int(count)
            if level is None or key is None or not is_publishable_key(key):
                continue
            values = self._groups.setdefault(key, [0] * (2 if self._are_numbers else self._size))
            if self._are_numbers:
                steps = self._size - 1
                values[0] += 2 * int(total or 0) - steps * int(count)
                values[1] += steps * int(count)
            else:
                values[int(level)] += int(count)

    def statistics(self) -> ExactEvidence:
        """Return the keys in order, and their components, key by key."""
        keys = tuple(sorted(self._groups))
        return ExactEvidence(tuple(value for key in keys for value in self._groups[key]), self.records, keys=keys)


def _sums_by_key(keys: Integers, values: Integers, n_keys: int) -> Integers:
    """Return the exact sum of the values of each key, shape (n_keys,)."""
    total = np.zeros(n_keys, dtype=np.int64)
    for part, shift in ((values & _LOW_BITS, 0), (values >> _LOW_BITS.bit_length(), _LOW_BITS.bit_length())):
        if part.any():  # the sums of both parts are exact in doubles
            total += np.bincount(keys, part.astype(np.float64), n_keys).astype(np.int64) << shift
    return total
