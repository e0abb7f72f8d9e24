"""Linear algebra of many small symmetric matrices at once."""

from __future__ import annotations

import numpy as np

from dpbayes_cli.base.numeric import Booleans, Floats

_MAX_ELIMINATED_SIZE = 8
"""Up to this size, Gaussian elimination in all matrices at once is faster than one LAPACK call for each matrix."""
_MIN_RELATIVE_PIVOT = 1e-13
"""A pivot smaller than this share of its diagonal entry is treated as zero (rounding error)."""


def plus_diagonal(matrices: Floats, diagonals: Floats) -> Floats:
    """Add diagonals, shape (..., k), to matrices, shape (..., k, k)."""
    index = np.arange(matrices.shape[-1])
    shape = np.broadcast_shapes(matrices.shape[:-2], diagonals.shape[:-1])
    result = np.broadcast_to(matrices, (*shape, len(index), len(index))).copy()
    result[..., index, index] += diagonals
    return result


def square_and_determinant(matrices: Floats, vectors: Floats) -> tuple[Floats, Floats]:
    """Return v' M^-1 v and log det M of symmetric matrices M, shape (..., k, k), and vectors v, shape (..., k).

    Both results are NaN if M is not positive definite, but only the first if k > ``_MAX_ELIMINATED_SIZE``.
    """
    size = vectors.shape[-1]
    if size > _MAX_ELIMINATED_SIZE:
        scale = np.sqrt(np.diagonal(matrices, axis1=-2, axis2=-1))
        factor, definite = cholesky(np.nan_to_num(matrices / (scale[..., :, None] * scale[..., None, :])))
        solved = np.linalg.solve(factor, np.nan_to_num(vectors / scale)[..., None])[..., 0]
        diagonal = np.log(np.diagonal(factor, axis1=-2, axis2=-1)) + np.log(scale)
        return np.where(definite, (solved**2).sum(axis=-1), np.nan), 2.0 * diagonal.sum(axis=-1)
    entries = np.ascontiguousarray(np.moveaxis(matrices, (-2, -1), (0, 1)))
    rows = [[entries[i, j] for j in range(i + 1)] for i in range(size)]
    reduced = list(np.ascontiguousarray(np.moveaxis(vectors, -1, 0)))
    square, log_determinant = np.zeros(vectors.shape[:-1]), np.zeros(vectors.shape[:-1])
    for i in range(size):
        pivot = np.where(rows[i][i] > _MIN_RELATIVE_PIVOT * entries[i, i], rows[i][i], np.nan)
        square += reduced[i] ** 2 / pivot
        log_determinant += np.log(pivot)
        for j in range(i + 1, size):
            ratio = rows[j][i] / pivot
            reduced[j] = reduced[j] - ratio * reduced[i]
            for k in range(i + 1, j + 1):
                rows[j][k] = rows[j][k] - ratio * rows[k][i]
    return square, log_determinant


def cholesky(matrices: Floats) -> tuple[Floats, Booleans]:
    """Return lower Cholesky factors, and which matrices are positive definite; others have the factor 1."""
    try:
        return np.asarray(np.linalg.cholesky(matrices)), np.ones(matrices.shape[:-2], dtype=np.bool_)
    except np.linalg.LinAlgError:
        definite = np.linalg.eigvalsh(matrices)[..., 0] > 1e-13
        safe = np.where(definite[..., None, None], matrices, np.eye(matrices.shape[-1]))
        return np.asarray(np.linalg.cholesky(safe)), np.asarray(definite)
