"""The latent counts of several categories in each group, given noisy counts and hyperparameters.

Let a = phi kappa, c the counts of a group, n their sum, and r and q the parameters of the size law (``count_tables``):

  p(c) = [product over k of G(a_k + c_k) / (G(a_k) c_k!)] [G(kappa) / G(r)] (1 - q)^r q^n w(n)

with w(n) = G(r + n) / G(kappa + n). If kappa is larger than r, w(n) is the integral of u^(r + n - 1)
(1 - u)^(kappa - r - 1) / G(kappa - r) for u from 0 to 1, so that the counts are independent given u. The integrals for
w(n) / (kappa + n) and w(n) / ((kappa + n) (kappa + n + 1)), which give the means of the probabilities and of their
squares, have the additional factors (1 - u) / (kappa - r) and (1 - u)^2 / ((kappa - r) (kappa - r + 1)). If kappa is
below r + 1, sums over the counts are convolutions (``convolved_counts``).

The integral is a trapezoid sum over log(-log u): with a step of one standard deviation, the error for a normal density
is 3e-9. All terms are positive, so that no digits are lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln

from dpbayes_cli.base.numeric import normalize_rows
from dpbayes_cli.inference.groups.category_law import CategoryLaw
from dpbayes_cli.inference.groups.convolved_counts import ConvolvedCounts
from dpbayes_cli.inference.groups.count_axis import make_axis
from dpbayes_cli.inference.groups.draws import choose, draw_dirichlet, noise_windows
from dpbayes_cli.inference.groups.grouped_posterior import WORKERS

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.inference.groups.component_noise import ComponentNoise

_LARGEST_STEP, _TAIL_NATS, _TAIL_SDS, _SIZES = 0.5, 20.0, 7.0, 32
_CHUNK = 1 << 21
_FLOOR = 1e-280


class CategoryCounts:
    """Groups with noisy counts of all categories, shape (n_groups, n_categories), and the law of their noise."""

    def __init__(self, observed: Integers, noise: ComponentNoise) -> None:
        self._observed, self._noise = observed, noise
        columns = [np.unique(column, return_inverse=True) for column in observed.T]
        self._axes, self._row_of = [make_axis(values, noise) for values, _ in columns], [rows for _, rows in columns]

    def __len__(self) -> int:
        return len(self._observed)

    def parts(self) -> Iterator[tuple[slice, CategoryCounts]]:
        """Yield chunks of the groups, ordered as they are, an even number of them."""
        most = max(1, _CHUNK // ((2 * self._noise.reach + 1) * self._observed.shape[1]))
        ends = np.linspace(0, len(self), 1 + WORKERS * -(-len(self) // (WORKERS * most))).astype(np.int64).tolist()
        for chosen in map(slice, ends[:-1], ends[1:]):
            yield chosen, CategoryCounts(self._observed[chosen], self._noise)

    @cached_property
    def _convolved(self) -> ConvolvedCounts:
        return ConvolvedCounts(self._observed, self._noise)

    def log_likelihood(self, law: CategoryLaw) -> float:
        """Return the log probability of all observations, up to a constant."""
        if law.is_overdispersed:
            return self._convolved.log_likelihood(law)
        logs, _ = self._terms(law, self._nodes(law), 0)
        largest = logs.max(axis=1)
        return float((largest + np.log(np.exp(logs - largest[:, None]).sum(axis=1))).sum())

    def moments(self, law: CategoryLaw) -> Floats:
        """Return means of the probabilities, of their squares, of the size and of its square.

        The last two are the last rows of the second axis, in the first and second place, so that the shape is (2,
        n_groups, n_categories + 1).
        """
        if law.is_overdispersed:
            return self._convolved.moments(law)
        nodes = self._nodes(law)
        logs, rising = self._terms(law, nodes, 2)
        mass = normalize_rows(logs)
        share = -np.expm1(nodes[0] - law.log_q)  # 1 - u
        first, second = share / (law.kappa - law.shape), share / (law.kappa - law.shape + 1.0)
        result = np.empty((2, len(mass), len(rising) + 1))
        size, variance = np.zeros(mass.shape), np.zeros(mass.shape)
        for k, (rows, (once, twice)) in enumerate(zip(self._row_of, rising, strict=True)):
            result[0, :, k] = np.einsum("gu,gu->g", mass, (once * first)[rows])
            result[1, :, k] = np.einsum("gu,gu->g", mass, (twice * first * second)[rows])
            size += (once - law.a[k])[rows]
            variance += (twice - once - once**2)[rows]
        result[:, :, -1] = (mass * size).sum(axis=1), (mass * (size**2 + variance)).sum(axis=1)
        # the trapezoid sums have tiny errors, but the probabilities of a group add up to one
        result[:, :, :-1] = np.clip(result[:, :, :-1] / result[0, :, :-1].sum(axis=1)[:, None], 0.0, 1.0)
        return result

    def draw(self, law: CategoryLaw, rng: np.random.Generator) -> Floats:
        """Draw the category probabilities of all groups, shape (n_groups, n_categories)."""
        counts = self._convolved.draw_counts(law, rng) if law.is_overdispersed else self._draw_counts(law, rng)
        return draw_dirichlet(law.a + counts, rng)

    def _draw_counts(self, law: CategoryLaw, rng: np.random.Generator) -> Integers:
        nodes = self._nodes(law)
        node = choose(normalize_rows(self._terms(law, nodes, 0)[0]), rng)
        counts = np.empty_like(self._observed)
        for k, observed in enumerate(self._observed.T):
            window, log_mass = noise_windows(observed, self._noise)
            log_mass += nodes[0][node, None] * window + gammaln(law.a[k] + window) - gammaln(window + 1.0)
            counts[:, k] = window[:, 0] + choose(normalize_rows(log_mass), rng)
        return counts

    def _terms(self, law: CategoryLaw, nodes: tuple[Floats, Floats], order: int) -> tuple[Floats, list[list[Floats]]]:
        """Return the log joint density of u and the observations, shape (n_groups, n_nodes), and rising factorials.

        The latter are, for each category, the means of (a_k + c_k)_j given u and each observed count, for j = 1..order.
        """
        log_x, log_weights = nodes
        logs, rising = np.tile(log_weights, (len(self._observed), 1)), []
        for k, (axis, rows) in enumerate(zip(self._axes, self._row_of, strict=True)):
            counts, a, sums = axis.nodes[:, None], law.a[k], axis.sums
            log_terms = gammaln(a + counts) - gammaln(a) - gammaln(counts + 1.0) + counts * log_x
            scale = log_terms.max(axis=0)
            terms = np.exp(log_terms - scale)
            total = np.maximum(sums @ terms, _FLOOR)
            logs += (np.log(total) + scale)[rows]
            means, factor = [], np.ones(counts.shape)
            for j in range(order):
                factor = factor * (a + counts + j)
                mean = sums @ (terms * factor) / total
                means.append(np.clip(mean, factor[0], factor[-1]))  # if interpolated sums are far in the tails
            rising.append(means)
        return logs, rising

    def _nodes(self, law: CategoryLaw) -> tuple[Floats, Floats]:
        """Return log(q u) at the nodes of u, and the logs of their weights."""
        excess = law.kappa - law.shape
        most = sum(float(axis.nodes[-1]) for axis in self._axes)
        size = law.shape + np.expm1(np.linspace(0.0, np.log1p(most), _SIZES))
        center = np.log1p(excess / size)  # of -log u, for this value of r + n
        sd = np.sqrt(excess / size / (size + excess)) / center
        step = min(_LARGEST_STEP, float(sd.min()))
        low = np.log(center[-1]) - max(_TAIL_NATS / excess, _TAIL_SDS * float(sd[-1]))
        w = np.arange(low, np.log(center[0] + _TAIL_NATS / law.shape) + step, step)
        log_u = -np.exp(w)
        weights = law.shape * log_u + (excess - 1.0) * np.log(-np.expm1(log_u)) + w + np.log(step)
        weights += gammaln(law.kappa) - gammaln(law.shape) - gammaln(excess)
        return law.log_q + log_u, weights + law.shape * np.log(-np.expm1(law.log_q))
