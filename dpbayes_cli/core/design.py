"""Design matrices from public columns: numbers scaled by public bounds, indicators of public lists, clipped rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dpbayes_cli.core.columns import Column, NumericColumn

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

INTERCEPT = "intercept"
_INSIDE = 1.0 - 1e-6
"""Rows that are clipped are made this much shorter than the norm, for the rounding of floats, single ones included."""
_DENSE = 0.4
"""Designs with a larger share of nonzero entries are held dense."""
_SMALL = 1 << 25
"""Dense designs of more entries are held in single precision, and widened block by block where they are used."""


@dataclass(frozen=True)
class Feature:
    """A column of the file as columns of the design.

    A number x becomes (x - origin) / reach, in [-1, 1], with reach the larger distance from the origin to a bound; a
    text becomes the indicators of all its levels.

    Attributes:
        column: the column, with its public domain.
        origin: of a number, the public value that is coded 0; None: the middle of its bounds.
    """

    column: Column | NumericColumn
    origin: float | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns in the design."""
        name = self.column.role
        if isinstance(self.column, NumericColumn):
            return (name,)
        return tuple(f"{name}={level}" for level in self.column.levels)

    def scaled(self, codes: Integers) -> Floats:
        """Return the scaled numbers of codes, shape (n_records,)."""
        import numpy as np

        column = self.column
        if not isinstance(column, NumericColumn):
            raise TypeError("levels have indicators")
        origin = (column.lower + column.upper) / 2.0 if self.origin is None else self.origin
        reach = max(column.upper - origin, origin - column.lower)
        return np.asarray(np.clip((column.lower + codes * column.step - origin) / reach, -1.0, 1.0), dtype=np.float64)


@dataclass(frozen=True)
class Design:
    """A public map from the codes of a record to a row of bounded norm.

    Privacy: every row, whatever the record, has the norm ``row_norm`` at most: the features' part is clipped to
        ``norm``, and the intercept adds a constant 1.
    Source: mechanisms, posteriors of convex losses (a loss with an intercept has L = sqrt(1 + r^2)).

    Attributes:
        features: the columns of the file.
        intercept: whether a column of ones comes first.
        norm: the public norm to which the features' part of a row is clipped; None: the largest there is, so that none
            is clipped.
    """

    features: tuple[Feature, ...]
    intercept: bool = True
    norm: float | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the design's columns."""
        own = tuple(name for feature in self.features for name in feature.names)
        return ((INTERCEPT,) if self.intercept else ()) + own

    @property
    def width(self) -> int:
        """The number of columns of the design."""
        return len(self.names)

    @property
    def largest(self) -> float:
        """The norm of the features' part of a row at most, before it is clipped."""
        return math.sqrt(len(self.features))  # a scaled number, or the one indicator that is on: at most 1 each

    @property
    def radius(self) -> float:
        """The norm of the features' part of a row at most."""
        return self.largest if self.norm is None else min(self.norm, self.largest)

    @property
    def row_norm(self) -> float:
        """The norm of a whole row at most."""
        return math.hypot(self.radius, 1.0 if self.intercept else 0.0)

    @property
    def entries_per_row(self) -> int:
        """The number of entries of a row that can differ from zero."""
        return len(self.features) + self.intercept

    @property
    def dense(self) -> bool:
        """Whether rows are held dense."""
        return self.entries_per_row > _DENSE * self.width

    def memory(self, n_records: int) -> int:
        """Return the bytes that the design matrix of so many records takes, with their targets."""
        if not self.dense:
            return n_records * (12 * self.entries_per_row + 16)
        return n_records * (8 + self.width * (8 if n_records * self.width <= _SMALL else 4))

    def rows(self, codes: Integers, n_records: int | None = None) -> Any:
        """Return the rows of valid records.

        Args:
            codes: shape (n, n_features), every code valid.
            n_records: the number of all records, which decides the precision; None: few.

        Returns:
            A dense array or a sparse matrix in CSR form, shape (n, width).
        """
        if self.dense:
            return self._dense_rows(codes, len(codes) if n_records is None else n_records)
        return self._sparse_rows(codes)

    def _dense_rows(self, codes: Integers, n_records: int) -> Any:
        import numpy as np

        precision = np.float64 if n_records * self.width <= _SMALL else np.float32
        whole = np.zeros((len(codes), self.width), dtype=precision)
        lengths = np.zeros(len(codes))
        first = int(self.intercept)
        whole[:, :first] = 1.0
        for i, feature in enumerate(self.features):
            if isinstance(feature.column, NumericColumn):
                scaled = feature.scaled(codes[:, i])
                whole[:, first] = scaled
                lengths += scaled**2
            else:
                whole[np.arange(len(codes)), first + codes[:, i]] = 1.0
                lengths += 1.0
            first += len(feature.names)
        if self.radius < self.largest:
            whole[:, int(self.intercept) :] *= self._shrinking(lengths)[:, None].astype(precision)
        return whole

    def _sparse_rows(self, codes: Integers) -> Any:
        import numpy as np
        from scipy.sparse import csr_array

        n = len(codes)
        values = np.ones((n, self.entries_per_row))
        places = np.zeros((n, self.entries_per_row), dtype=np.int32)
        first = int(self.intercept)
        for entry, feature in enumerate(self.features, start=first):
            if isinstance(feature.column, NumericColumn):
                values[:, entry] = feature.scaled(codes[:, entry - int(self.intercept)])
                places[:, entry] = first
            else:
                places[:, entry] = first + codes[:, entry - int(self.intercept)]
            first += len(feature.names)
        if self.radius < self.largest:
            own = values[:, int(self.intercept) :]
            own *= self._shrinking(np.square(own).sum(axis=1))[:, None]
        starts = np.arange(0, values.size + 1, self.entries_per_row, dtype=np.int32)
        return csr_array((values.ravel(), places.ravel(), starts), shape=(n, self.width))

    def _shrinking(self, squares: Floats) -> Floats:
        """Return by what the features' part of rows of given squared norms is multiplied."""
        import numpy as np

        inside = self.radius * _INSIDE / np.maximum(np.sqrt(squares), 1e-300)
        return np.asarray(np.minimum(1.0, inside), dtype=np.float64)


@dataclass(frozen=True)
class DesignRows:
    """What a sampler of a convex loss reads from the data: the rows of the design and the targets of valid records.

    Unlike a statistic it has no sensitivity of its own: the loss has.

    Attributes:
        design: the map from records to rows.
        target: the column of the target.
        max_records: only so many records are read, the first ones; None: all.
    """

    design: Design
    target: Column | NumericColumn
    max_records: int | None = None

    @property
    def columns(self) -> tuple[Column | NumericColumn, ...]:
        """What is read: the features, then the target."""
        return (*(feature.column for feature in self.design.features), self.target)

    def hold(self, expected: int) -> DesignMatrix:
        """Return where rows are collected, at first none; expected: the number of records, 0 where it is private."""
        return DesignMatrix(self, expected or self.max_records or 0)


@dataclass
class DesignMatrix:
    """The rows and targets of the valid records, block by block, and the number of all records: exact evidence.

    Attributes:
        rows: what is read.
        expected: the number of records that are expected, which decides the precision.
        n_records: the number of all records so far, valid or not.
        blocks: rows and targets of valid records.
    """

    rows: DesignRows
    expected: int
    n_records: int = 0
    blocks: list[tuple[Any, Floats]] = field(default_factory=list)

    def take(self, codes: Integers) -> None:
        """Add a block of records: their codes, -1 for an invalid cell, the target's last."""
        if self.rows.max_records is not None:
            codes = codes[: max(self.rows.max_records - self.n_records, 0)]
        self.n_records += len(codes)
        valid = codes[(codes >= 0).all(axis=1)]
        if len(valid):
            x = self.rows.design.rows(valid[:, :-1], self.expected)
            self.blocks.append((x, self.targets(valid[:, -1])))

    def targets(self, codes: Integers) -> Floats:
        """Return targets: the code of a level, or a number between its bounds scaled to [-1, 1]."""
        import numpy as np

        if isinstance(self.rows.target, NumericColumn):
            return Feature(self.rows.target).scaled(codes)
        return np.asarray(codes, dtype=np.float64)

    def pieces(self, size: int) -> Iterator[tuple[Any, Floats]]:
        """Yield rows and targets in pieces of at most so many records."""
        for x, y in self.blocks:
            for start in range(0, len(y), size):
                yield x[start : start + size], y[start : start + size]


def check_names(names: Sequence[str]) -> None:
    """Refuse columns of a design of which two would have one name.

    Raises:
        ValueError: two have.
    """
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"two columns of the design would have the name {twice!r}")
