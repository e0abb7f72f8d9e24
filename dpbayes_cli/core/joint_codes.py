"""Products with the rows of a sparse design: texts of several columns are looked up together, by their joint code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.design import Design
from dpbayes_cli.privacy.lazy_numpy import np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_MAX_JOINT_LEVELS = 1 << 11
"""A table of so many numbers fits into the processor's caches."""


class JointCodes:
    """The rows of a sparse design, with a joint code for each group of columns of texts.

    A row is ``numbers`` in the design's columns ``places``, and ``factor`` at one level of each column of texts. So the
    product with a vector takes one number for each group, from a table of the sums of the vector's entries.

    Args:
        design: the design.
        rows: the rows in CSR form, in blocks; each row has ``entries_per_row`` entries, in the order of the features.
    """

    def __init__(self, design: Design, rows: Sequence[Any]) -> None:
        shape = (-1, design.entries_per_row)
        values = np.concatenate([block.data.reshape(shape) for block in rows])
        positions = np.concatenate([block.indices.reshape(shape) for block in rows])
        sizes = [len(feature.names) for feature in design.features]
        starts = np.cumsum([int(design.intercept), *sizes[:-1]])
        are_texts = [not isinstance(feature.column, NumericColumn) for feature in design.features]
        texts = [i for i, is_text in enumerate(are_texts) if is_text]
        dense = np.append(np.zeros(int(design.intercept), dtype=bool), are_texts) == 0
        self._width, self.places = design.width, positions[0, dense]
        self.numbers = np.asfortranarray(values[:, dense])
        self.factor = values[:, int(design.intercept) + texts[0]]
        self._groups: list[tuple[Any, list[slice]]] = []
        joint, spans = np.zeros(len(values), dtype=np.intp), list[slice]()
        for i in texts:
            if spans and _n_joint(spans) * sizes[i] > _MAX_JOINT_LEVELS:
                self._groups.append((joint, spans))
                joint, spans = np.zeros(len(values), dtype=np.intp), []
            joint = joint * sizes[i] + (positions[:, int(design.intercept) + i] - starts[i])
            spans.append(slice(starts[i], starts[i] + sizes[i]))
        self._groups.append((joint, spans))

    def times(self, vector: Floats) -> Floats:
        """Return the products of the rows with vectors, shape (n_rows, ...); ``vector`` has shape (width, ...)."""
        if vector.ndim > 1:
            return np.stack([self.times(column) for column in vector.T], axis=1)
        total = None
        for joint, spans in self._groups:
            table = vector[spans[0]]
            for span in spans[1:]:
                table = np.add.outer(table, vector[span]).ravel()
            term = table.take(joint)
            total = term if total is None else np.add(total, term, out=total)
        total *= self.factor
        total += self.numbers @ vector[self.places]
        return np.asarray(total)

    def sums(self, weights: Floats) -> Floats:
        """Return the sums of the rows times their weights, shape (width, ...); ``weights`` has shape (n_rows, ...)."""
        if weights.ndim > 1:
            return np.stack([self.sums(column) for column in weights.T], axis=1)
        result, weighted = np.zeros(self._width), weights * self.factor
        result[self.places] = weights @ self.numbers
        for joint, spans in self._groups:
            sizes = [span.stop - span.start for span in spans]
            cells = np.bincount(joint, weighted, _n_joint(spans)).reshape(sizes)
            for axis, span in enumerate(spans):
                result[span] = cells.sum(axis=tuple(k for k in range(len(spans)) if k != axis))
        return result


def _n_joint(spans: Sequence[slice]) -> int:
    return int(np.prod([span.stop - span.start for span in spans]))
