"""Groups whose keys are found in the data: each engine counts the records of each key, in one query.

An engine returns a row (key, level, number of records, sum of codes) for each key in normal form and each level. The
level is the code of a category, or 0 for a valid number; it is NULL if the value is invalid.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from dpbayes_cli.base.cell_grammar import is_publishable_key
from dpbayes_cli.core.columns import AnyColumn, NumericColumn, RecordPolicy, n_codes
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.sources.code_sums import sums_by_key
from dpbayes_cli.sources.imputation import impute_code, with_stand_in
from dpbayes_cli.sources.reader import Records
from dpbayes_cli.sources.text_keys import TextKeys

KeyRow = tuple[str | None, int | None, int, int | None]


class KeyTally:
    """Counts the records of each key, or sums up their numbers; the results of all files add up.

    Privacy: a key has components if and only if it has a valid record. Whether a text can be a key depends on the text
        alone. So a record changes the components of its own key only, and adds or removes no other key.
    Source: derived here.

    Args:
        columns: the column of keys, and the column of values.
        policy: states the stand-in for an invalid value.
    """

    def __init__(self, columns: Sequence[AnyColumn], policy: RecordPolicy) -> None:
        self.columns, self.records, self._policy = columns, 0, policy
        self._size = n_codes(columns[1])
        self._groups: dict[str, list[int]] = {}

    def read(self, blocks: Iterable[Records]) -> None:
        """Count the records; see ``Reader``."""
        stand_in = impute_code(self.columns[1], self._policy)
        for records in blocks:
            keys = TextKeys()  # of this block alone, because texts that are no keys may be long
            found, key = np.unique(records.keys(0, keys), return_inverse=True)
            code = with_stand_in(records.codes(1), stand_in)
            texts = [text.decode() for text in keys.texts(found)]
            self.records += int(np.count_nonzero(code < 0))
            key, code = key[code >= 0], code[code >= 0]
            if self._sums:
                counts, totals = np.bincount(key), sums_by_key(key, code, len(texts))
                rows: Iterable[KeyRow] = zip(texts, itertools.repeat(0), counts.tolist(), totals.tolist(), strict=False)
            else:
                counts = np.bincount(key * self._size + code)
                cells = np.flatnonzero(counts)
                rows = ((texts[cell // self._size], cell % self._size, counts[cell], 0) for cell in cells.tolist())
            self.add(row for row in rows if row[2])

    @property
    def _sums(self) -> bool:
        return isinstance(self.columns[1], NumericColumn)

    def add(self, rows: Iterable[KeyRow]) -> None:
        """Add the rows of one query."""
        for key, level, count, total in rows:
            self.records += int(count)
            if level is None or key is None or not is_publishable_key(key):
                continue
            values = self._groups.setdefault(key, [0] * (2 if self._sums else self._size))
            if self._sums:
                steps = self._size - 1
                values[0] += 2 * int(total or 0) - steps * int(count)
                values[1] += steps * int(count)
            else:
                values[int(level)] += int(count)

    def statistics(self) -> ExactEvidence:
        """Return the keys in order, and their components, key by key."""
        keys = tuple(sorted(self._groups))
        return ExactEvidence(tuple(value for key in keys for value in self._groups[key]), self.records, keys=keys)
