"""Products with the rows of a sparse design: texts of several columns are looked up together, by their joint code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.design import Design
from dpbayes_cli.privacy.lazy_numpy import np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_MAX_JOINT_LEVELS = 1 << 12
"""A table of so many numbers fits into the processor's caches."""


class JointCodes:
    """The rows of a sparse design, with a joint code for each group of columns of texts.

    A row is ``numbers`` in the design's columns ``places``, and ``factor`` at one level of each column of texts. So the
    product with a vector takes one number for each group, from a table of the sums of the vector's entries. A table
    holds only the joint levels that occur. The rows are sorted by the first group, whose levels then need no lookup.

    Args:
        design: the design.
        rows: the rows in CSR form, in blocks; each row has ``entries_per_row`` entries, in the order of the features.

    Attributes:
        order: the index of each row among ``rows``, because they are sorted.
    """

    def __init__(self, design: Design, rows: Sequence[Any]) -> None:
        shape = (-1, design.entries_per_row)
        values = np.concatenate([block.data.reshape(shape) for block in rows])
        positions = np.concatenate([block.indices.reshape(shape) for block in rows])
        texts = np.array([not isinstance(feature.column, NumericColumn) for feature in design.features])
        is_text = np.append(np.zeros(int(design.intercept), dtype=bool), texts)
        groups: list[tuple[Any, list[Any]]] = []
        for places in positions.T[is_text]:
            codes, columns = groups.pop() if groups else (np.zeros(len(places), dtype=np.intp), [])
            joint, inverse = np.unique(codes * design.width + places, return_inverse=True)
            if columns and len(joint) > _MAX_JOINT_LEVELS:
                groups.append((codes, columns))
                inverse, columns = np.unique(places, return_inverse=True)[1], []
            groups.append((inverse, [*columns, places]))
        order = np.argsort(groups[0][0], kind="stable")
        self.order, self._width, self.places = order, design.width, positions[0, ~is_text]
        self.numbers = np.asfortranarray(values[:, ~is_text][order])
        self.factor = values[order, int(is_text.argmax())]
        self._groups = []
        for codes, columns in groups:
            first = np.unique(codes, return_index=True)[1]
            self._groups.append((codes[order], np.stack([places[first] for places in columns])))
        self._repeats = np.bincount(groups[0][0])
        self._starts = np.cumsum(self._repeats) - self._repeats

    def times(self, vector: Floats) -> Floats:
        """Return the products of the rows with vectors, shape (n_rows, ...); ``vector`` has shape (width, ...)."""
        if vector.ndim > 1:
            return np.stack([self.times(column) for column in vector.T], axis=1)
        tables = [vector[levels].sum(axis=0) for _, levels in self._groups]
        total = np.repeat(tables[0], self._repeats)
        for (codes, _), table in zip(self._groups[1:], tables[1:], strict=True):
            total += table.take(codes)
        total *= self.factor
        total += self.numbers @ vector[self.places]
        return np.asarray(total)

    def sums(self, weights: Floats) -> Floats:
        """Return the sums of the rows times their weights, shape (width, ...); ``weights`` has shape (n_rows, ...)."""
        if weights.ndim > 1:
            return np.stack([self.sums(column) for column in weights.T], axis=1)
        weighted = weights * self.factor
        result = np.zeros(self._width)
        result[self.places] = weights @ self.numbers
        cells = [np.bincount(codes, weighted) for codes, _ in self._groups[1:]]
        for (_, levels), sums in zip(self._groups, [np.add.reduceat(weighted, self._starts), *cells], strict=True):
            for places in levels:
                result += np.bincount(places, sums, self._width)
        return result
