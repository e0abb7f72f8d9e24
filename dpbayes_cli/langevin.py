"""Unadjusted Langevin chains on the potential of a convex loss: full gradients, a public start, step and horizon."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpbayes_cli.losses import Loss
from dpbayes_cli.privacy.secret_normals import secret_normals

if TYPE_CHECKING:
    from dpbayes_cli.design import DesignMatrix
    from dpbayes_cli.numeric import Floats

Normals = Callable[[tuple[int, ...]], "Floats"]

_DENSE_PIECE, _SPARSE_PIECE = 1 << 12, 1 << 17
"""Records whose gradients are computed at once: dense ones small enough for the caches."""
_ROOM = 1 << 24
"""Linear predictors that are held at once, of all chains together: 128 MB a thread."""
_THREADS = 2
_MANY = 1 << 22
"""Designs of more entries are worked on by several threads."""


@dataclass(frozen=True)
class Langevin:
    """The chain w <- w - h grad U(w) + sqrt(2 h) N(0, I) from w = 0, T steps; only the last iterate gets out, rounded.

    U(w) = rho sum_i loss(x_i'w; y_i) + (tau / 2) |w|^2. Several draws are as many independent chains.

    Privacy: see ``descent_mu``; start, step and horizon are public. That floats stand in for real numbers inside the
        chain is an assumption that the bundle states; the gradient's sum is taken in double precision.
    Source: Bok, Su and Altschuler 2024; mechanisms, posteriors of convex losses.

    Attributes:
        loss: of the linear predictor.
        width: the number of coefficients.
        rho, tau: temperature and prior precision.
        step, steps: h and T.
        grid: released coefficients are multiples of it, a power of two.
    """

    loss: Loss
    width: int
    rho: float
    tau: float
    step: float
    steps: int
    grid: float

    def draw(self, matrix: DesignMatrix, size: int, normals: Normals = secret_normals) -> Floats:
        """Run independent chains and return their last iterates, shape (size, width).

        Args:
            matrix: rows and targets.
            size: how many chains.
            normals: returns standard normal numbers of a shape; only simulations state another than the secret one.
        """
        import numpy as np

        for iterate in self.iterates(matrix, size, normals):  # noqa: B007 - the last one
            pass
        return np.asarray(np.round(iterate / self.grid) * self.grid).T

    def iterates(self, matrix: DesignMatrix, size: int, normals: Normals) -> Iterator[Floats]:
        """Yield the iterates of independent chains, shape (width, size); only the last may be released."""
        import numpy as np

        w = np.zeros((self.width, size))
        noise = math.sqrt(2.0 * self.step)
        with ExitStack() as stack:
            gradient = Gradient(matrix, self.loss, stack, size)
            for _ in range(self.steps):
                drift = self.rho * gradient(w) + self.tau * w
                w = w - self.step * drift + noise * normals(w.shape)
                yield w


class Gradient:
    """The gradient of the sum of losses, computed piece by piece and added up in the order of the pieces.

    Args:
        matrix: rows and targets.
        loss: of the linear predictor.
        stack: closes the threads.
        chains: for how many points at once.
    """

    def __init__(self, matrix: DesignMatrix, loss: Loss, stack: ExitStack, chains: int = 1) -> None:
        import numpy as np

        self._loss = loss
        dense = matrix.rows.design.dense
        entries = sum(len(y) for _, y in matrix.blocks) * matrix.rows.design.entries_per_row
        size = min(_DENSE_PIECE if dense else _SPARSE_PIECE, max(1, _ROOM // chains))
        pieces = [(x, x.T if dense else x.T.tocsr(), y) for x, y in matrix.pieces(size)]
        threads = _THREADS if entries > _MANY else 1
        self._map: Any = map
        if threads > 1:
            from concurrent.futures import ThreadPoolExecutor

            self._map = stack.enter_context(ThreadPoolExecutor(threads)).map
        ends = np.linspace(0, len(pieces), threads + 1).astype(int)
        self._groups = [pieces[start:end] for start, end in itertools.pairwise(ends)]

    def __call__(self, w: Floats) -> Floats:
        """Return the gradient at points, shape (width, size) as the points."""
        import numpy as np

        one = w.shape[1] == 1
        point = w[:, 0] if one else w

        def part(pieces: list[tuple[Any, Any, Floats]]) -> Floats:
            total = np.zeros(point.shape)
            for x, across, y in pieces:
                wide, narrow = (x, across) if x.dtype == np.float64 else _widened(x)
                total += narrow @ self._loss.slope(wide @ point, y if one else y[:, None])
            return total

        total = np.zeros(point.shape)
        for found in self._map(part, self._groups):
            total += found
        return total[:, None] if one else total


def _widened(x: Any) -> tuple[Any, Any]:
    """Return a dense array in double precision, and its transpose."""
    import numpy as np

    wide = x.astype(np.float64)
    return wide, wide.T
