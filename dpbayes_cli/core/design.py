"""Design matrices from columns with public domains: numbers are scaled, levels become indicators, rows are clipped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dpbayes_cli.core.columns import Column, NumericColumn
from dpbayes_cli.privacy.lazy_numpy import np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

INTERCEPT = "intercept"
_CLIPPING_MARGIN = 1.0 - 1e-6
"""The clipped norm as a fraction of the norm bound; the margin covers rounding, even to single precision."""
_MIN_DENSE_SHARE = 0.4
"""A design matrix is stored dense if the share of its entries that can be nonzero is larger than this."""
_MAX_DOUBLE_ENTRIES = 1 << 25
"""A dense design matrix with more entries than this is stored in single precision; sums use double precision."""


@dataclass(frozen=True)
class Feature:
    """A column of the file, which becomes one or more columns of the design matrix.

    A number x becomes (x - origin) / reach, in [-1, 1], where reach is the distance from the origin to the farther
    bound. A text becomes one indicator for each level.

    Attributes:
        origin: the public number that is scaled to 0; None for the middle of the bounds. A column of texts has none.
    """

    column: Column | NumericColumn
    origin: float | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the feature's columns in the design."""
        name = self.column.role
        if isinstance(self.column, NumericColumn):
            return (name,)
        return tuple(f"{name}={level}" for level in self.column.levels)

    def scaled(self, codes: Integers) -> Floats:
        """Return the numbers that codes stand for, scaled to [-1, 1], shape (n_records,)."""
        column, origin = self.numbers, self.zero
        scaled = (column.lower + codes * column.step - origin) / self.reach
        return np.asarray(np.clip(scaled, -1.0, 1.0), dtype=np.float64)

    @property
    def numbers(self) -> NumericColumn:
        """The column of numbers; a column of texts is a ``TypeError``."""
        if not isinstance(self.column, NumericColumn):
            raise TypeError("levels become indicators, not scaled numbers")
        return self.column

    @property
    def zero(self) -> float:
        """The number that is scaled to 0."""
        return (self.numbers.lower + self.numbers.upper) / 2.0 if self.origin is None else self.origin

    @property
    def reach(self) -> float:
        """The distance from ``zero`` to the farther bound, which is scaled to 1."""
        return max(self.numbers.upper - self.zero, self.zero - self.numbers.lower)


@dataclass(frozen=True)
class Contrast:
    """A change of one feature whose effect a result states: a number that is higher by a round step, or another text.

    Attributes:
        feature: the name of the feature.
        change: the step of a number, or the text.
        base: the text that it is compared with; empty for a number.
        columns: the columns of the design that belong to the feature.
        raised: the column whose coefficient is added.
        lowered: the column whose coefficient is subtracted; None for a number.
        factor: what the coefficient of a number is multiplied by.
    """

    feature: str
    change: str
    base: str
    columns: slice
    raised: int
    lowered: int | None
    factor: float

    @property
    def name(self) -> str:
        """The change, such as ``age + 10``, or ``arm=new against standard``."""
        return f"{self.feature}={self.change} against {self.base}" if self.base else f"{self.feature} + {self.change}"

    @property
    def is_from_end_to_end(self) -> bool:
        """Whether a number changes from its lower to its upper bound, such as from 0 for no to 1 for yes."""
        return self.lowered is None and self.factor >= 2.0

    def of_coefficients(self, beta: Floats) -> Floats:
        """Return the change of the linear predictor, shape (...,), for coefficients of shape (..., width)."""
        below = 0.0 if self.lowered is None else beta[..., self.lowered]
        return np.asarray(self.factor * (beta[..., self.raised] - below))

    def variance(self, covariance: Floats) -> float:
        """Return the variance of the change of the linear predictor, for a covariance of shape (width, width)."""
        return float(self.of_coefficients(self.of_coefficients(covariance)))


@dataclass(frozen=True)
class Design:
    """A public map from the codes of a record to a row of bounded norm.

    Privacy: the norm of a row is at most ``row_norm`` for every possible record: the features' part is clipped to
        ``norm``, and the intercept adds the constant 1.
    Source: derived here (a loss with an intercept has L = sqrt(1 + r^2)).

    Attributes:
        features: the columns of the file.
        intercept: whether a column of ones comes first.
        norm: the public norm to which the features' part of a row is clipped; None if rows are not clipped.
    """

    features: tuple[Feature, ...]
    intercept: bool = True
    norm: float | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the design's columns."""
        names = (name for feature in self.features for name in feature.names)
        return (*([INTERCEPT] if self.intercept else []), *names)

    @cached_property
    def ones(self) -> Floats:
        """A combination of columns that is 1 in every row, shape (width,); zeros if none is known."""
        ones, first = np.zeros(self.width), int(self.intercept)
        ones[:first] = 1.0
        texts = not self.intercept and self.radius == self.largest  # indicators are clipped otherwise
        for feature in self.features:
            if texts and not isinstance(feature.column, NumericColumn):
                ones[first : first + len(feature.names)] = 1.0
                break
            first += len(feature.names)
        return ones

    @cached_property
    def contrasts(self) -> tuple[Contrast, ...]:
        """The changes whose effects a result states; texts are compared with their first value.

        If rows are clipped there are none, because a coefficient then means something else for a clipped row.
        """
        contrasts: list[Contrast] = []
        first = int(self.intercept) if self.radius >= self.largest else self.width
        for feature in self.features if first < self.width else ():
            column, own = feature.column, slice(first, first + len(feature.names))
            if isinstance(column, NumericColumn):
                step = 10.0 ** round(math.log10((column.upper - column.lower) / 10.0))
                is_whole = column.lower.is_integer() and column.upper.is_integer()
                if (column.lower, column.upper) == (0.0, 1.0) or (is_whole and column.upper - column.lower >= 3.0):
                    step = max(step, 1.0)  # most likely no and yes, or a count
                contrasts.append(Contrast(column.role, f"{step:g}", "", own, first, None, step / feature.reach))
            else:
                for i in range(1, len(column.levels)):
                    texts = column.levels[i], column.levels[0]
                    contrasts.append(Contrast(column.role, *texts, own, first + i, first, 1.0))
            first = own.stop
        return tuple(contrasts)

    @property
    def width(self) -> int:
        """The number of columns of the design."""
        return len(self.names)

    @property
    def largest(self) -> float:
        """The largest norm of the features' part of a row before clipping."""
        return math.sqrt(len(self.features))  # a scaled number or one indicator per feature, at most 1

    @property
    def radius(self) -> float:
        """The largest norm of the features' part of a row after clipping."""
        return self.largest if self.norm is None else min(self.norm, self.largest)

    @property
    def row_norm(self) -> float:
        """The largest norm of a row, the intercept included."""
        return math.hypot(self.radius, 1.0 if self.intercept else 0.0)

    @property
    def entries_per_row(self) -> int:
        """The number of entries of a row that can differ from zero."""
        return len(self.features) + self.intercept

    @property
    def dense(self) -> bool:
        """Whether rows are stored dense."""
        return self.entries_per_row > _MIN_DENSE_SHARE * self.width

    def memory(self, n_records: int) -> int:
        """Return how many bytes the design matrix and the targets of ``n_records`` records take."""
        if not self.dense:
            return n_records * (12 * self.entries_per_row + 16)
        return n_records * (8 + self.width * (8 if n_records * self.width <= _MAX_DOUBLE_ENTRIES else 4))

    def rows(self, codes: Integers, n_records: int | None = None) -> Any:
        """Return the rows of valid records.

        Args:
            codes: shape (n, n_features), every code valid.
            n_records: the number of all records, on which the precision depends; None if ``codes`` holds all records.

        Returns:
            A dense array or a sparse matrix in CSR form, shape (n, width).
        """
        if self.dense:
            return self._dense_rows(codes, len(codes) if n_records is None else n_records)
        return self._sparse_rows(codes)

    def _dense_rows(self, codes: Integers, n_records: int) -> Any:
        precision = np.float64 if n_records * self.width <= _MAX_DOUBLE_ENTRIES else np.float32
        rows = np.zeros((len(codes), self.width), dtype=precision)
        squared_norms = np.zeros(len(codes))
        first = int(self.intercept)
        rows[:, :first] = 1.0
        for i, feature in enumerate(self.features):
            if isinstance(feature.column, NumericColumn):
                scaled = feature.scaled(codes[:, i])
                rows[:, first] = scaled
                squared_norms += scaled**2
            else:
                rows[np.arange(len(codes)), first + codes[:, i]] = 1.0
                squared_norms += 1.0
            first += len(feature.names)
        if self.radius < self.largest:
            rows[:, int(self.intercept) :] *= self._clipping_factors(squared_norms)[:, None].astype(precision)
        return rows

    def _sparse_rows(self, codes: Integers) -> Any:
        from scipy.sparse import csr_array

        n = len(codes)
        values = np.ones((n, self.entries_per_row))
        positions = np.zeros((n, self.entries_per_row), dtype=np.int32)
        first = int(self.intercept)
        for entry, feature in enumerate(self.features, start=first):
            if isinstance(feature.column, NumericColumn):
                values[:, entry] = feature.scaled(codes[:, entry - int(self.intercept)])
                positions[:, entry] = first
            else:
                positions[:, entry] = first + codes[:, entry - int(self.intercept)]
            first += len(feature.names)
        if self.radius < self.largest:
            features = values[:, int(self.intercept) :]
            features *= self._clipping_factors(np.square(features).sum(axis=1))[:, None]
        starts = np.arange(0, values.size + 1, self.entries_per_row, dtype=np.int32)
        return csr_array((values.ravel(), positions.ravel(), starts), shape=(n, self.width))

    def _clipping_factors(self, squared_norms: Floats) -> Floats:
        factors = self.radius * _CLIPPING_MARGIN / np.maximum(np.sqrt(squared_norms), 1e-300)
        return np.asarray(np.minimum(1.0, factors), dtype=np.float64)


@dataclass(frozen=True)
class DesignRows:
    """The data that a sampler of a convex loss reads: the design row and the target of each valid record.

    Rows need no sensitivity, because the loss bounds the influence of a record.

    Attributes:
        max_records: only the first ``max_records`` records are read; None if all are read.
    """

    design: Design
    target: Column | NumericColumn
    max_records: int | None = None

    @property
    def columns(self) -> tuple[Column | NumericColumn, ...]:
        """The columns to read: the features, then the target."""
        return (*(feature.column for feature in self.design.features), self.target)

    def hold(self, expected: int) -> DesignMatrix:
        """Return an empty matrix that collects rows; ``expected`` is the record count, 0 if it is private."""
        return DesignMatrix(self, expected or self.max_records or 0)


@dataclass
class DesignMatrix:
    """The rows and targets of the valid records, in blocks, and the number of all records.

    Attributes:
        rows: the map from records to rows and targets.
        expected: the expected number of records, on which the precision of rows depends.
        n_records: the number of records taken in so far, valid or not.
        blocks: rows and targets of valid records.
    """

    rows: DesignRows
    expected: int
    n_records: int = 0
    blocks: list[tuple[Any, Floats]] = field(default_factory=list)

    def take(self, codes: Integers) -> None:
        """Add a block of records: codes of the features, then of the target, -1 for an invalid cell."""
        if self.rows.max_records is not None:
            codes = codes[: max(self.rows.max_records - self.n_records, 0)]
        self.n_records += len(codes)
        valid = codes[(codes >= 0).all(axis=1)]
        if len(valid):
            self.blocks.append((self.rows.design.rows(valid[:, :-1], self.expected), self.targets(valid[:, -1])))

    def targets(self, codes: Integers) -> Floats:
        """Return the target of each record: the code of its level, a count, or a number scaled to [-1, 1]."""
        target = self.rows.target
        if isinstance(target, NumericColumn) and not target.integers:
            return Feature(target).scaled(codes)
        return np.asarray(codes, dtype=np.float64)


def check_names(names: Sequence[str]) -> None:
    """Refuse a design in which two columns have the same name.

    Raises:
        ValueError: two columns have the same name.
    """
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise ValueError(f"two columns of the design would have the name {repeated!r}; rename a feature or a value")
