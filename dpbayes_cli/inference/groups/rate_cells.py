"""Distribution functions of the success probability theta of each pair of observed counts, averaged over parameters.

A negative binomial number of records is Poisson with a rate that has a gamma law. Given theta and the rate, successes
and failures are then independent Poisson counts with means rate * theta and rate * (1 - theta). So the probability of a
pair of observed counts given (theta, rate) is a product of two factors, and does not depend on the hyperparameters. It
is computed once, in the middle of cells of (theta, rate) that are narrow compared with its width. If groups without
records are impossible, the probability that both counts are zero is subtracted. Each value of the
hyperparameters gives the cells their Beta and gamma probabilities, and sums over the cells are matrix products.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import betainc, betaincc, gammainc, gammaincc, gammaln, xlogy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.inference.groups.count_axis import CountAxis
    from dpbayes_cli.inference.groups.count_tables import CountLaw
    from dpbayes_cli.inference.groups.noisy_pairs import NoisyPairs

_STEP = 0.4
"""The width of a cell, as a multiple of the standard deviation of an estimate from the pair with the most records."""
_BAND = 8.0
"""Pairs whose numbers of records have similar square roots share cells."""
_PAIRS, _CHUNK = 1024, 1 << 21


def distribution_functions(pairs: NoisyPairs, law: CountLaw, places: Floats, overall: Floats) -> tuple[Floats, Floats]:
    """Return P(theta <= place), shape (n_places, n_pairs), and P(theta > overall), shape (n_pairs,).

    Args:
        pairs: the observed counts.
        law: equally probable values of the parameters.
        places: ascending logits.
        overall: the mean over all groups for each value, shape (len(law),).
    """
    cdf, above = np.empty((len(places), len(pairs.numbers))), np.empty(len(pairs.numbers))
    seen = pairs.successes.observed[pairs.first] + pairs.failures.observed[pairs.second]
    band = (np.sqrt(np.maximum(seen, 0)) / _BAND).astype(np.int64)
    for k in range(int(band.max()) + 1):
        members = np.flatnonzero(band == k)
        for start in range(0, len(members), _PAIRS):
            part = members[start : start + _PAIRS]
            cdf[:, part], above[part] = _similar(pairs, part, law, places, overall, seen[part])
    return np.clip(cdf, 0.0, 1.0), np.clip(above, 0.0, 1.0)


def _similar(
    pairs: NoisyPairs, part: Integers, law: CountLaw, places: Floats, overall: Floats, seen: Integers
) -> tuple[Floats, Floats]:
    """Return the same for some of the pairs, which have similar numbers of observed records ``seen``."""
    angles, roots = _edges(pairs, seen)
    at = np.arctan(np.exp(places / 2.0))
    angles = np.unique(np.concatenate([angles, at]))
    theta, middle, rates = np.sin(angles) ** 2, (angles[1:] + angles[:-1]) / 2.0, roots**2
    a, b, shape = law.a[:, None], law.b[:, None], law.shape[:, None]
    by_theta = _masses(betainc(a, b, theta), betaincc(a, b, theta)).T
    scaled = rates * shape / law.mean[:, None]
    by_rate = _masses(gammainc(shape, scaled), gammaincc(shape, scaled)).T
    centers = ((roots[1:] + roots[:-1]) / 2.0) ** 2
    (firsts, first), (seconds, second) = (
        np.unique(each[part], return_inverse=True) for each in (pairs.first, pairs.second)
    )
    left = _factors(pairs.successes, firsts, np.multiply.outer(np.sin(middle) ** 2, centers))
    right = _factors(pairs.failures, seconds, np.multiply.outer(np.cos(middle) ** 2, centers))
    nobody = np.zeros(len(part))
    if pairs.grid.least == 0 and not pairs.may_be_empty:
        nobody = pairs.successes.weights[pairs.first[part], 0] * pairs.failures.weights[pairs.second[part], 0]
    shares = _shares_above(theta, by_theta.T, a, b, overall)
    rows = max(1, _CHUNK // (len(middle) * max(len(centers), len(law))))
    masses, above = np.zeros((len(part), len(angles))), np.empty(len(part))
    for start in range(0, len(part), rows):
        some = slice(start, start + rows)
        factors = left[first[some]] * right[second[some]] - nobody[some, None, None] * np.exp(-centers)
        terms = (factors @ by_rate) * by_theta
        terms /= np.maximum(terms.sum(axis=1, keepdims=True), 1e-280)
        masses[some, 1:] = terms.mean(axis=2)
        above[some] = terms.reshape(len(terms), -1) @ shares.ravel() / len(law)
    return np.cumsum(masses, axis=1)[:, np.searchsorted(angles, at)].T, above


def _edges(pairs: NoisyPairs, seen: Integers) -> tuple[Floats, Floats]:
    """Return the ends of cells of arcsin(sqrt(theta)) and of the square root of the rate."""
    variance = pairs.successes.noise.variance + pairs.failures.noise.variance
    reach = pairs.successes.noise.reach + pairs.failures.noise.reach
    records = max(float(seen.max()), 4.0)
    n_angles = int(np.ceil(0.5 * np.pi / (_STEP * np.sqrt(0.25 / records + 0.25 * variance / records**2))))
    low = max(np.sqrt(max(float(seen.min()) - reach, 0.0)) - 4.0, 0.0)
    high = np.sqrt(min(float(pairs.grid.n[-1, -1]), records + reach)) + 4.0
    n_roots = int(np.ceil((high - low) / (_STEP * np.sqrt(0.25 + 0.25 * variance / records))))
    return np.linspace(0.0, np.pi / 2.0, n_angles + 1), np.linspace(low, high, n_roots + 1)


def _factors(axis: CountAxis, observed: Integers, means: Floats) -> Floats:
    """Return the probabilities of some of the observed counts given Poisson means, shape (n, *means.shape)."""
    counts = axis.nodes[:, None]
    logs = xlogy(counts, means.ravel()) - means.ravel() - gammaln(counts + 1.0)
    return np.asarray(np.maximum(axis.weights[observed] @ np.exp(logs), 0.0).reshape(-1, *means.shape))


def _masses(below: NDArray[np.floating[Any]], above: NDArray[np.floating[Any]]) -> Floats:
    """Return the probabilities of cells, given those below and above their ends, shape (n_values, n_cells)."""
    return np.asarray(np.where(below[:, 1:] < 0.5, np.diff(below), -np.diff(above)))


def _shares_above(theta: Floats, masses: Floats, a: Floats, b: Floats, overall: Floats) -> Floats:
    """Return which share of each cell is above the overall mean, shape (n_cells, n_values)."""
    cell = np.clip(np.searchsorted(theta, overall), 1, len(theta) - 1) - 1
    result = (np.arange(len(theta) - 1) > cell[:, None]).astype(np.float64)
    rows = np.arange(len(overall))
    upper = betainc(a[:, 0], b[:, 0], theta[cell + 1]) - betainc(a[:, 0], b[:, 0], overall)
    result[rows, cell] = np.clip(upper / np.maximum(masses[rows, cell], 1e-300), 0.0, 1.0)
    return result.T
