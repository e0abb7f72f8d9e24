"""Functions of many numbers, computed several times faster than SciPy does, from tables that fit in a CPU's cache."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.interpolate import CubicHermiteSpline
from scipy.special import erfcx

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_EXP_CELLS, _MOST_NATS = 64, 744.0
_ERFC_CELLS = 1024
_EXP = np.exp(-np.arange(_EXP_CELLS * _MOST_NATS + 1.0) / _EXP_CELLS)


def exp_minus(x: Floats) -> Floats:
    """Return exp(-x) of non-negative numbers, elementwise; the relative error is below 3e-9.

    A value of the table is multiplied by a polynomial for the rest of the exponent.
    """
    rest = np.minimum(x, _MOST_NATS)
    rest *= _EXP_CELLS
    cell = rest.astype(np.intp)
    rest -= cell
    rest *= -1.0 / _EXP_CELLS
    result = rest * (1.0 / 6.0)
    result += 0.5
    result *= rest
    result += 1.0
    result *= rest
    result += 1.0
    result *= _EXP.take(cell)
    return result


def scaled_erfc(x: Floats) -> Floats:
    """Return exp(x^2) erfc(x) of non-negative numbers, elementwise; the relative error is below 1e-10.

    It is a smooth function of 1 / (1 + x), interpolated by cubics.
    """
    place = x + 1.0
    np.divide(_ERFC_CELLS, place, out=place)
    cell = place.astype(np.intp)
    place -= cell
    result = _ERFC[0].take(cell)
    for coefficients in _ERFC[1:]:
        result *= place
        result += coefficients.take(cell)
    return result


def _erfc_table() -> list[Floats]:
    """Return the coefficients of the cubics in each cell, the highest power first."""
    x = np.maximum(_ERFC_CELLS / np.arange(1.0, _ERFC_CELLS + 2.0) - 1.0, 0.0)
    values = np.concatenate([[0.0], erfcx(x)])
    slopes = (2.0 / math.sqrt(math.pi) - 2.0 * x * values[1:]) * (x + 1.0) ** 2
    slopes = np.concatenate([[1.0 / math.sqrt(math.pi)], slopes]) / _ERFC_CELLS
    return list(CubicHermiteSpline(np.arange(float(len(values))), values, slopes).c)


_ERFC = _erfc_table()
