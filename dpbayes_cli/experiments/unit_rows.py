"""Rows of logistic regression as the paper makes them: of norm one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.design import Design

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers


@dataclass(frozen=True)
class UnitRows(Design):
    """Rows of norm one: all entries are scaled to [-0.5, 0.5], then a row is divided by its norm.

    Privacy: a map of one record at a time, whose rows have norm one whatever the record.
    Source: Geumlek, Song and Chaudhuri 2017, sec. 5.2.
    """

    intercept: bool = False

    @property
    def row_norm(self) -> float:
        """One."""
        return 1.0

    @property
    def entries_per_row(self) -> int:
        """All: an indicator that is off is -0.5."""
        return self.width

    @property
    def dense(self) -> bool:
        """Rows are dense."""
        return True

    def rows(self, codes: Integers, n_records: int | None = None) -> Floats:
        """Return the rows of valid records, shape (n, width); see ``Design.rows``."""
        whole = np.full((len(codes), self.width), -0.5)
        first = 0
        for i, feature in enumerate(self.features):
            if isinstance(feature.column, NumericColumn):
                whole[:, first] = feature.scaled(codes[:, i]) / 2.0
                first += 1
            else:
                whole[np.arange(len(codes)), first + codes[:, i]] = 0.5
                first += len(feature.column.levels)
        lengths = np.sqrt(np.square(whole).sum(axis=1, keepdims=True))
        return np.asarray(whole / np.maximum(lengths, 1e-300))
