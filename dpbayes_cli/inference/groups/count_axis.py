"""Sum a smooth function of a count over the noise of an observed count, from its values at few counts.

The functions that inference sums over a count s have features of width sqrt(s) or wider (see ``count_tables``). So they
are evaluated only at nodes: all counts below 10, and then counts whose square roots are 0.16 apart. Between the nodes
they are interpolated by polynomials through the 8 nearest nodes. The interpolation error of a normal density with
standard deviation sqrt(s) is below 3e-5 of its maximum, and changes its sign from node to node. If the noise is wide,
it averages over these errors, and the roots are 0.24 apart. Sums over all counts of noise probability times
interpolated function are then products with fixed weights, one row for each observed count.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array, vstack

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.inference.groups.component_noise import ComponentNoise


STEP, _WIDE_STEP = 0.16, 0.24
_WIDE_REACH = 100
_DEGREE = 8
_CHUNK = 1 << 22
_SPARSE = 0.1


@dataclass(frozen=True, eq=False)
class CountAxis:
    """The counts at which functions are evaluated, and the weights of their sums.

    Attributes:
        nodes: ascending counts, shape (n_nodes,).
        basis: the interpolation of all counts from the first to the last node, shape (n_counts, n_nodes).
        observed: distinct observed counts, ascending, shape (n_observed,).
        kernel: sums over counts s of P(noise = observed - s) f(s) are ``kernel @ f(nodes)``, shape (n_observed,
            n_nodes). Each row is divided by the largest probability of the noise, which is a constant of the row.
        noise: the law of the noise. Counts further than its reach from the observed count, and from 0 if that is
            negative, are neglected.
    """

    nodes: Integers
    basis: csr_array
    observed: Integers
    kernel: csr_array
    noise: ComponentNoise

    @cached_property
    def weights(self) -> Floats:
        """The kernel as a dense matrix."""
        return np.asarray(self.kernel.toarray())

    @cached_property
    def sums(self) -> Floats | csr_array:
        """The kernel in the form with the faster products."""
        return self.kernel if self.kernel.nnz < _SPARSE * np.prod(self.kernel.shape) else self.weights

    def cut(self, n_nodes: int) -> CountAxis:
        """Return the axis with its first nodes only, at least as many as an interpolation needs."""
        n_nodes = max(n_nodes, 2 * _DEGREE)
        nodes = self.nodes[:n_nodes]
        basis = self.basis[: int(nodes[-1] - nodes[0]) + 1, :n_nodes]
        return CountAxis(nodes, basis, self.observed, self.kernel[:, :n_nodes], self.noise)


def make_axis(observed: Integers, noise: ComponentNoise) -> CountAxis:
    """Return the axis of a component of the observation.

    Args:
        observed: distinct observed counts, ascending.
        noise: the law of the noise.
    """
    reach = noise.reach
    step = STEP if reach < _WIDE_REACH else _WIDE_STEP
    nodes = spaced_counts(max(int(observed[0]) - reach, 0), max(int(observed[-1]), 0) + reach, step)
    basis = interpolation(nodes)
    rows = max(1, _CHUNK // (2 * reach + 1))
    pieces = [observed[i : i + rows] for i in range(0, len(observed), rows)]
    kernel = vstack([_kernel_rows(piece, noise, nodes) @ basis for piece in pieces], format="csr")
    return CountAxis(nodes, basis, observed, csr_array(kernel), noise)


def spaced_counts(smallest: int, largest: int, step: float) -> Integers:
    """Return ascending counts that enclose a range: all small counts, then counts with equally spaced roots."""
    n_steps = int(np.ceil(np.sqrt(max(largest, 2 * _DEGREE)) / step)) + 1
    squares = np.rint((step * np.arange(n_steps)) ** 2).astype(np.int64)
    counts = np.unique(np.concatenate([np.arange(_DEGREE), squares]))
    first = int(np.searchsorted(counts, smallest, side="right")) - _DEGREE // 2
    return np.asarray(counts[max(min(first, len(counts) - 2 * _DEGREE), 0) :])


def interpolation(nodes: Integers, degree: int = _DEGREE) -> csr_array:
    """Return the matrix that interpolates all counts from the first to the last node from the values at the nodes.

    Args:
        nodes: ascending counts.
        degree: the number of nodes that each polynomial goes through.
    """
    counts = np.arange(int(nodes[0]), int(nodes[-1]) + 1)
    right = np.searchsorted(nodes, counts)
    first = np.clip(right - degree // 2, 0, len(nodes) - degree)
    columns = first[:, None] + np.arange(degree)
    near = nodes[columns].astype(np.float64)
    gaps = counts[:, None] - near
    values = np.ones(near.shape)
    for i in range(degree):
        for j in range(degree):
            if i != j:
                values[:, i] *= gaps[:, j] / (near[:, i] - near[:, j])
    starts = np.arange(0, values.size + 1, degree)
    matrix = csr_array((values.ravel(), columns.ravel(), starts), shape=(len(counts), len(nodes)))
    matrix.eliminate_zeros()
    return matrix


def _kernel_rows(observed: Integers, noise: ComponentNoise, nodes: Integers) -> csr_array:
    """Return the noise probabilities of observed counts given all counts, each row divided by its maximum."""
    low = np.maximum(observed - noise.reach, 0)
    high = np.minimum(np.maximum(observed, 0) + noise.reach, nodes[-1])
    lengths = high - low + 1
    starts = np.concatenate([[0], np.cumsum(lengths)])
    rows = np.repeat(np.arange(len(observed)), lengths)
    counts = np.arange(starts[-1]) - starts[rows] + low[rows]
    logs = noise.log_pmf(observed[rows] - counts)
    values = np.exp(logs - np.maximum.reduceat(logs, starts[:-1])[rows])
    shape = (len(observed), int(nodes[-1] - nodes[0]) + 1)
    return csr_array((values, counts - nodes[0], starts), shape=shape)
