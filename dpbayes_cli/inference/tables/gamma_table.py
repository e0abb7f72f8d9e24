"""Log ratios of Gamma functions at many counts at once: a table for small counts, and a series for large ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.base.numeric import log_gamma_ratio

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_MAX_TABLE_ENTRIES = 1 << 22


class GammaRatios:
    """The function log Gamma(base + shift + x) - log Gamma(base + x), for columns with different bases and shifts.

    With z = x + base + (shift - 1) / 2 the log ratio is shift log z + shift (1 - shift^2) / (24 z^2) up to about
    shift^5 / (960 z^4), which is below 1e-10 beyond the table.

    Source: Tricomi and Erdelyi 1951, the asymptotic expansion of a ratio of Gamma functions (in even powers of z).

    Attributes:
        flat: whether every ratio is 1.
    """

    def __init__(self, base: Floats, shift: Floats) -> None:
        kinds, kind = np.unique(np.column_stack([base, shift]), axis=0, return_inverse=True)
        self._base, self._shift, self._kind = base, shift, kind.ravel()
        self.flat = not shift.any()
        largest = float(np.abs(kinds[:, 1]).max(initial=0.0))
        length = 64.0 + 60.0 * largest**1.25
        self._table: Floats | None = None
        if not self.flat and length * len(kinds) <= _MAX_TABLE_ENTRIES:
            counts = np.arange(int(length) + 1)
            self._table = log_gamma_ratio(kinds[:, :1] + counts, kinds[:, 1:])

    def __call__(self, x: Floats, columns: Integers) -> Floats:
        """Return the log ratios.

        Args:
            x: non-negative whole numbers, shape (..., n).
            columns: the column of each, shape (n,).
        """
        if self._table is None:
            return log_gamma_ratio(x + self._base[columns], self._shift[columns])
        length = self._table.shape[1]
        offset = self._kind[columns] * length
        near = np.asarray(self._table.take(np.minimum(x, length - 1.0).astype(np.int64) + offset))
        if not x.size or x.max() < length:
            return near
        shift = self._shift[columns]
        z = x + (self._base[columns] + 0.5 * (shift - 1.0))
        far = shift * np.log(np.maximum(z, 1.0)) + shift * (1.0 - shift * shift) / 24.0 / np.maximum(z * z, 1.0)
        return np.where(x < length, near, far)
