"""The maximum mean discrepancy of two samples under the kernel exp(-|x - y|^2 / 2), for many trials at once.

Sums of the kernel over all pairs need no pairs where the samples lie close together: around a common centre

    exp(-|x - y|^2 / 2) = sum over multi-indices a of f_a(x) f_a(y),  f_a(x) = exp(-|x|^2 / 2) x^a / sqrt(a!),

whose terms of total degree k are at most reach^(2 k) / k!, so that a dozen degrees give all digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_NEGLIGIBLE = 1e-17


def squared_mmds(draws: Floats, reference: Floats) -> Floats:
    """Return for every trial an unbiased estimate of the squared maximum mean discrepancy of two posteriors.

    The mean of k(x_i, x_j) + k(y_i, y_j) - k(x_i, y_j) - k(x_j, y_i) over i != j is exactly zero for identical samples,
    and can be negative.

    Args:
        draws: independent draws, shape (n_trials, n_draws, n_parameters).
        reference: the other posterior's; of the longer one only as many draws are used as the shorter has.

    Source: Gretton et al. 2012, eq. 4; Bernstein and Sheldon 2018, sec. 4 (the kernel).
    """
    size = min(draws.shape[1], reference.shape[1])
    x, y = draws[:, :size], reference[:, :size]
    degree = _degree(x, y)
    n_terms = math.comb(degree + x.shape[2], x.shape[2])
    total = _by_series(x, y, degree) if n_terms <= 4 * size else _by_pairs(x, y)
    paired = 2.0 * size - 2.0 * np.exp(-0.5 * np.square(x - y).sum(axis=2)).sum(axis=1)
    return np.asarray((total - paired) / (size * (size - 1)))


def _degree(x: Floats, y: Floats) -> int:
    """Return the total degree at which the terms of the series become negligible."""
    centre = _centre(x, y)
    reach = max(float(np.square(part - centre).sum(axis=2).max()) for part in (x, y))
    degree, term = 0, 1.0
    while term > _NEGLIGIBLE and degree < 1000:
        degree += 1
        term *= reach / degree
    return degree


def _centre(x: Floats, y: Floats) -> Floats:
    return np.asarray((x.mean(axis=1, keepdims=True) + y.mean(axis=1, keepdims=True)) / 2.0)


def _by_series(x: Floats, y: Floats, degree: int) -> Floats:
    """Return the sums of k(x, x) + k(y, y) - 2 k(x, y) over all pairs, shape (n_trials,)."""
    centre, total = _centre(x, y), np.zeros(len(x))
    both = np.moveaxis(np.stack([x - centre, y - centre]), 3, 0).copy()
    for sums in _feature_sums(np.exp(-0.5 * np.square(both).sum(axis=0)), both, degree):
        total += np.square(sums[0] - sums[1])
    return total


def _feature_sums(feature: Floats, coordinates: Floats, degree: int) -> Iterator[Floats]:
    """Return the sums over the draws of every f_a up to a total degree.

    Args:
        feature: what the earlier coordinates contribute, shape (2, n_trials, n_draws).
        coordinates: the coordinates that are left, shape (n_left, 2, n_trials, n_draws).
        degree: the degree that is left.
    """
    for power in range(degree + 1):
        if len(coordinates) > 1:
            yield from _feature_sums(feature, coordinates[1:], degree - power)
        else:
            yield feature.sum(axis=2)
        feature = feature * coordinates[0] / math.sqrt(power + 1.0)


def _by_pairs(x: Floats, y: Floats) -> Floats:
    """Return the same as ``_by_series``, pair by pair: for draws that lie far apart."""
    return np.array([(_kernel(a, a) + _kernel(b, b) - 2.0 * _kernel(a, b)).sum() for a, b in zip(x, y, strict=True)])


def _kernel(x: Floats, y: Floats) -> Floats:
    distance = np.zeros((len(x), len(y)))
    for k in range(x.shape[1]):
        distance += np.square(np.subtract.outer(x[:, k], y[:, k]))
    return np.asarray(np.exp(-0.5 * distance))
