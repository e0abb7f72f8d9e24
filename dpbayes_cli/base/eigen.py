"""Eigenvalues of symmetric matrices, by a second method if the usual one fails on an ordinary matrix.

Some builds of LAPACK's divide-and-conquer method fail to converge on rare finite matrices of ordinary size. Inference
comes after the charge, so that it must not fail on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats


def eigh(matrices: Floats) -> tuple[Floats, Floats]:
    """Return eigenvalues, ascending, shape (..., n), and eigenvectors in columns, of matrices of shape (..., n, n).

    Where an entry is not finite, the result or the error is that of ``numpy.linalg.eigh``.
    """
    try:
        return np.linalg.eigh(matrices)
    except np.linalg.LinAlgError:
        if not np.isfinite(matrices).all():
            raise
    from scipy import linalg

    size = matrices.shape[-1]
    pairs = [linalg.eigh(matrix, driver="evr") for matrix in matrices.reshape(-1, size, size)]
    values, vectors = (np.array(each) for each in zip(*pairs, strict=True))
    return values.reshape(matrices.shape[:-1]), vectors.reshape(matrices.shape)
