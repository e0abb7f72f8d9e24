"""Regressions by weighted maximum likelihood on cells, for many sets of weights at once.

A cell is a combination of the predictors' values. If the weights are the cells' probabilities under a joint law, the
result is the regression of the whole population; if they are counts of records, it is the regression of the records.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np

from dpbayes_cli.base.numeric import Booleans, Floats

Family = Literal["logistic", "linear", "poisson"]
FAMILIES: tuple[Family, ...] = get_args(Family)
_MAX_STEPS, _MAX_HALVINGS = 60, 40
_TOLERANCE, _ROUNDING = 1e-9, 1e-13
_FLAT = 1e-12
"""If the outcome of a cell has so small a variance, relative to other cells, some coefficient tends to infinity."""
_LARGEST_LOG_MEAN = 300.0  # beyond this, the exponential of a trial step would overflow


class Fits(NamedTuple):
    """Regressions for many sets of weights.

    Attributes:
        coefficients: shape (n_sets, n_coefficients).
        information: minus the second derivatives of the weighted log likelihood, shape (n_sets, n_coefficients,
            n_coefficients); for the family ``linear``, of minus half the weighted sum of squares.
        finite: whether there are finite coefficients that maximize the likelihood, shape (n_sets,).
    """

    coefficients: Floats
    information: Floats
    finite: Booleans


def fit_cells(design: Floats, weights: Floats, totals: Floats, family: Family) -> Fits:
    """Maximize the weighted likelihood of generalized linear models with canonical links, by Newton's method.

    Args:
        design: one row for each cell, shape (n_cells, n_coefficients), with linearly independent columns.
        weights: the weight of each cell, shape (n_sets, n_cells).
        totals: the weighted sum of the outcome in each cell, shape (n_sets, n_cells). For the family ``logistic``, the
            outcome is 0 or 1.
    """
    scale = np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    weights, totals = weights / scale, totals / scale
    target = totals @ design
    coefficients = np.zeros((len(weights), design.shape[1]))
    value = _likelihoods(design, weights, target, coefficients, family)
    left = np.arange(len(weights))
    for _ in range(_MAX_STEPS):
        means, slopes = _moments(design, coefficients[left], family)
        gradient = target[left] - (weights[left] * means) @ design
        step = _solve(_information(design, weights[left] * slopes), gradient)
        size, still = np.ones((len(left), 1)), np.ones(len(left), dtype=bool)
        for _ in range(_MAX_HALVINGS):
            tried = coefficients[left] + size * step
            tried_value = _likelihoods(design, weights[left], target[left], tried, family)
            better = still & (tried_value >= value[left] - _ROUNDING * (1.0 + np.abs(value[left])))
            coefficients[left[better]], value[left[better]] = tried[better], tried_value[better]
            still &= ~better
            if not still.any():
                break
            size[still] /= 2.0
        moved = np.abs(size * step).max(axis=1) > _TOLERANCE * (1.0 + np.abs(coefficients[left]).max(axis=1))
        left = left[moved]
        if not len(left):
            break
    _, slopes = _moments(design, coefficients, family)
    is_flat = (slopes < _FLAT * slopes.max(axis=1, keepdims=True)) & (weights > 0.0)
    finite = ~is_flat.any(axis=1)
    finite[left] = False
    return Fits(coefficients, _information(design, weights * slopes) * scale[:, :, None], finite)


def _moments(design: Floats, coefficients: Floats, family: Family) -> tuple[Floats, Floats]:
    """Return the mean of the outcome in each cell, and its derivative by the linear predictor."""
    linear = coefficients @ design.T
    if family == "linear":
        return linear, np.ones_like(linear)
    if family == "poisson":
        means = np.exp(np.minimum(linear, _LARGEST_LOG_MEAN))
        return means, means
    means = 0.5 * (1.0 + np.tanh(0.5 * linear))
    return means, means * (1.0 - means)


def _likelihoods(design: Floats, weights: Floats, target: Floats, coefficients: Floats, family: Family) -> Floats:
    linear = coefficients @ design.T
    if family == "linear":
        cumulants = 0.5 * linear**2
    elif family == "poisson":
        cumulants = np.exp(np.minimum(linear, _LARGEST_LOG_MEAN))
    else:
        cumulants = np.logaddexp(0.0, linear)
    return np.asarray((coefficients * target).sum(axis=1) - (weights * cumulants).sum(axis=1))


def _information(design: Floats, weights: Floats) -> Floats:
    size = design.shape[1]
    pairs = (design[:, :, None] * design[:, None, :]).reshape(len(design), -1)
    return (weights @ pairs).reshape(-1, size, size)


def _solve(information: Floats, gradient: Floats) -> Floats:
    """Return the Newton steps; a tiny ridge keeps the equations solvable if a coefficient tends to infinity."""
    ridge = 1e-13 * np.maximum(np.trace(information, axis1=1, axis2=2), 1e-300)
    return np.linalg.solve(information + ridge[:, None, None] * np.eye(gradient.shape[1]), gradient[..., None])[..., 0]
