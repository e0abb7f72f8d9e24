"""The latent counts of several categories in each group, given noisy counts and hyperparameters.

Let a = phi kappa, c the counts of a group, n their sum, and r and q the parameters of the size law (``count_tables``):

  p(c) = [product over k of G(a_k + c_k) / (G(a_k) c_k!)] [G(kappa) / G(r)] (1 - q)^r q^n (kappa + n)_2 w(n)

with (x)_2 = x (x + 1) and w(n) = G(r + n) / G(kappa + 2 + n). If kappa is at least r - 1, w(n) is the integral of
u^(r + n - 1) (1 - u)^(kappa + 1 - r) / G(kappa + 2 - r) for u from 0 to 1. As kappa + n is the sum of all a_k + c_k,
(kappa + n)_2 is a sum over the ways to write 2 as a sum of numbers j_k, of 2 times the product of (a_k + c_k)_(j_k) /
j_k!. So the counts are independent given u and j. The j_k are the counts of two more records of the group. Their means,
and those of j_k (j_k - 1), give the means of the probabilities and of their squares. If kappa is smaller, sums over the
counts are convolutions (``convolved_counts``).

The integral is a trapezoid sum over log(-log u): with a step of one standard deviation, the error for a normal density
is 3e-9. All terms are positive, so that no digits are lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

from dpbayes_cli.inference.groups.category_law import CategoryLaw
from dpbayes_cli.inference.groups.convolved_counts import ConvolvedCounts, choose
from dpbayes_cli.inference.groups.count_axis import make_axis

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.inference.groups.component_noise import ComponentNoise

_LARGEST_STEP, _TAIL_NATS, _TAIL_SDS, _SIZES = 0.5, 20.0, 7.0, 32
_MORE = 2
_CHUNK = 1 << 21
_FLOOR = 1e-280


class _Terms(NamedTuple):
    """What each group needs at the nodes of u.

    Attributes:
        log_x: log(q u), shape (n_nodes,).
        logs: the log joint density of u and the observations without the factor (kappa + n)_2, (n_groups, n_nodes).
        ratios: for each category the means of (a_k + c_k)_j / j! given u and without this factor, for j = 0, 1, 2,
            shape (3, n_groups, n_nodes).
    """

    log_x: Floats
    logs: Floats
    ratios: list[Floats]


class CategoryCounts:
    """Groups with noisy counts of all categories, shape (n_groups, n_categories), and the law of their noise."""

    def __init__(self, observed: Integers, noise: ComponentNoise) -> None:
        self._observed, self._noise = observed, noise
        columns = [np.unique(column, return_inverse=True) for column in observed.T]
        self._axes, self._row_of = [make_axis(values, noise) for values, _ in columns], [rows for _, rows in columns]

    def parts(self) -> Iterator[tuple[slice, CategoryCounts]]:
        """Yield chunks of the groups, ordered as they are."""
        size = max(1, _CHUNK // ((2 * self._noise.reach + 1) * self._observed.shape[1]))
        for start in range(0, len(self._observed), size):
            chosen = slice(start, start + size)
            yield chosen, CategoryCounts(self._observed[chosen], self._noise)

    @cached_property
    def _convolved(self) -> ConvolvedCounts:
        return ConvolvedCounts(self._observed, self._noise)

    def log_likelihood(self, law: CategoryLaw) -> float:
        """Return the log probability of all observations, up to a constant."""
        if law.is_overdispersed:
            return self._convolved.log_likelihood(law)
        _, logs, ratios = self._terms(law)
        return float(logsumexp(logs + np.log(_last_coefficient(ratios)), axis=1).sum())

    def moments(self, law: CategoryLaw) -> Floats:
        """Return the means of the probabilities and of their squares, shape (2, n_groups, n_categories)."""
        if law.is_overdispersed:
            return self._convolved.moments(law)
        _, logs, ratios = self._terms(law)
        before, after, m = _products(ratios[:-1]), _products(ratios[:0:-1]), _MORE
        total = _last_coefficient(ratios)
        mass = _normalized(logs + np.log(total))
        result = np.empty((2, *self._observed.shape))
        for k, own in enumerate(ratios):
            sides = [side[n - 1] for side, n in ((before, k), (after, len(ratios) - 1 - k)) if n]
            others = sides[0] if len(sides) == 1 else _product(*sides)
            weights = own * others[::-1] * (mass / total)
            by_count = weights.sum(axis=2)
            j = np.arange(m + 1.0)
            result[:, :, k] = j / m @ by_count, j * (j - 1.0) / (m * (m - 1.0)) @ by_count
        return np.clip(result, 0.0, 1.0)

    def draw(self, law: CategoryLaw, rng: np.random.Generator) -> Floats:
        """Draw the category probabilities of all groups, shape (n_groups, n_categories)."""
        counts = self._convolved.draw_counts(law, rng) if law.is_overdispersed else self._draw_counts(law, rng)
        gammas = rng.standard_gamma(law.a + counts) + 1e-300
        return np.asarray(gammas / gammas.sum(axis=1, keepdims=True))

    def _draw_counts(self, law: CategoryLaw, rng: np.random.Generator) -> Integers:
        log_x, logs, ratios = self._terms(law)
        node = choose(_normalized(logs + np.log(_last_coefficient(ratios))), rng)
        groups = np.arange(len(node))
        here = [each[:, groups, node] for each in ratios]
        before, left, j = _products(here[:-1]), np.full(len(node), _MORE), np.arange(_MORE + 1)
        counts = np.empty_like(self._observed)
        for k in range(len(here) - 1, -1, -1):
            more = left
            if k:
                rest = left[:, None] - j
                others = np.take_along_axis(before[k - 1].T, np.maximum(rest, 0), axis=1) * (rest >= 0)
                more = choose(here[k].T * others, rng)
                left = left - more
            low = np.maximum(self._observed[:, k] - self._noise.reach, 0)
            width = int((np.maximum(self._observed[:, k], 0) + self._noise.reach - low).max(initial=0)) + 1
            window = low[:, None] + np.arange(width)
            log_mass = self._noise.log_pmf(self._observed[:, [k]] - window) + log_x[node, None] * window
            log_mass += gammaln(law.a[k] + more[:, None] + window) - gammaln(window + 1.0)
            counts[:, k] = low + choose(_normalized(log_mass), rng)
        return counts

    def _terms(self, law: CategoryLaw) -> _Terms:
        log_x, log_weights = self._nodes(law)
        logs, ratios = np.tile(log_weights, (len(self._observed), 1)), []
        for k, (axis, rows) in enumerate(zip(self._axes, self._row_of, strict=True)):
            counts, a = axis.nodes[:, None], law.a[k]
            log_terms = gammaln(a + counts) - gammaln(a) - gammaln(counts + 1.0) + counts * log_x
            scale = log_terms.max(axis=0)
            terms = np.exp(log_terms - scale)
            total = np.maximum(axis.weights @ terms, _FLOOR)
            logs += (np.log(total) + scale)[rows]
            each = np.empty((_MORE + 1, *total.shape))
            each[0] = 1.0
            factor = np.ones(counts.shape)
            for j in range(1, _MORE + 1):
                factor = factor * ((a + counts + (j - 1.0)) / j)
                mean = axis.weights @ (terms * factor) / total
                each[j] = np.clip(mean, factor[0], factor[-1])  # if interpolated sums are far in the tails
            ratios.append(each[:, rows])
        return _Terms(log_x, logs, ratios)

    def _nodes(self, law: CategoryLaw) -> tuple[Floats, Floats]:
        """Return log(q u) at the nodes of u, and the logs of their weights."""
        excess = law.kappa + _MORE - law.shape
        size = law.shape + np.geomspace(1.0, 1.0 + sum(float(axis.nodes[-1]) for axis in self._axes), _SIZES) - 1.0
        center = np.log1p(excess / size)  # of -log u, for this value of r + n
        sd = np.sqrt(excess / size / (size + excess)) / center
        step = min(_LARGEST_STEP, float(sd.min()))
        low = np.log(center[-1]) - max(_TAIL_NATS / excess, _TAIL_SDS * float(sd[-1]))
        w = np.arange(low, np.log(center[0] + _TAIL_NATS / law.shape) + step, step)
        log_u = -np.exp(w)
        weights = law.shape * log_u + (excess - 1.0) * np.log(-np.expm1(log_u)) + w + np.log(step)
        weights += gammaln(law.kappa) - gammaln(law.shape) - gammaln(excess) + gammaln(_MORE + 1.0)
        return law.log_q + log_u, weights + law.shape * np.log(-np.expm1(law.log_q))


def _products(factors: list[Floats]) -> list[Floats]:
    """Return the coefficients of the products of the first polynomials; the first axis holds the powers."""
    result = [factors[0]]
    for factor in factors[1:]:
        result.append(_product(result[-1], factor))
    return result


def _last_coefficient(factors: list[Floats]) -> Floats:
    """Return the coefficient of the highest power that all factors have, of the product of all polynomials."""
    return np.asarray(np.einsum("jgt,jgt->gt", _products(factors[:-1])[-1], factors[-1][::-1]))


def _product(first: Floats, second: Floats) -> Floats:
    result = np.zeros_like(first)
    for j, each in enumerate(second):
        result[j:] += first[: len(first) - j] * each
    return result


def _normalized(logs: Floats) -> Floats:
    mass = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))
