"""exp(x^2) erfc(x), computed several times faster than SciPy does, from tables that fit in a CPU's cache."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicHermiteSpline
from scipy.special import erfcx

Reals = NDArray[np.floating[Any]]
"""Numbers of double or of single precision."""
_CELLS = 1024


def scaled_erfc(x: Reals) -> Reals:
    """Return exp(x^2) erfc(x) of non-negative numbers, elementwise, with the precision of these.

    It is a smooth function of 1 / (1 + x), interpolated by cubics. The relative error is below 1e-10 if the numbers are
    doubles, and below 4e-7 if they have single precision.
    """
    place = x + 1.0
    np.divide(_CELLS, place, out=place)
    whole = np.floor(place)
    place -= whole
    cell = whole.astype(np.intp)
    highest, *others = _TABLES[x.dtype]
    result: Reals = highest.take(cell)
    for coefficients in others:
        result *= place
        result += coefficients.take(cell)
    return result


def _coefficients() -> NDArray[np.float64]:
    """Return the coefficients of the cubics in each cell, the highest power first."""
    x = np.maximum(_CELLS / np.arange(1.0, _CELLS + 2.0) - 1.0, 0.0)
    values = np.concatenate([[0.0], erfcx(x)])
    slopes = (2.0 / math.sqrt(math.pi) - 2.0 * x * values[1:]) * (x + 1.0) ** 2
    slopes = np.concatenate([[1.0 / math.sqrt(math.pi)], slopes]) / _CELLS
    return np.asarray(CubicHermiteSpline(np.arange(float(len(values))), values, slopes).c)


_TABLES = {np.dtype(kind): list(_coefficients().astype(kind)) for kind in (np.float32, np.float64)}
