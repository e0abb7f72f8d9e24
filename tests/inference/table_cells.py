"""Tables for tests: brute-force posteriors of tiny ones, and networks drawn from their prior."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from dpbayes_cli.core.noisy_observation import NoisyTable, NoisyTables, RecordCount
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.noise import NoiseLaw
from tests.statistical import chi_square_p_value

Array = NDArray[np.float64]
Exact = list[tuple[Array, Array]]

SQUARE = (np.array([[0.5, 2.0], [1.0, 3.0]]), np.array([1.0, 0.7]), np.array([[3.0, 1.0], [-1.0, 2.5]]))
ROW = (np.array([[0.5, 2.0, 1.0]]), np.array([1.3]), np.array([[3.0, 1.0, -2.0]]))
NETWORK = [(1, 3), (2, 3), (4, 2)]
LAPLACE, GAUSSIAN = DiscreteLaplace(1.5), DiscreteGaussian(2.0)
NOISES: tuple[NoiseLaw, ...] = (LAPLACE, GAUSSIAN)
TOTALS = (RecordCount("known", 7), RecordCount("at-most", 8), RecordCount("unbounded"))
UNBOUNDED_MOST = 30
"""Of larger totals the noise is exp(-15) times as probable at most: they are left out."""


def tiny_tables() -> list[NoisyTable]:
    """Return 2x2 and 1x3 tables: all totals, both laws of noise, with margins and without."""
    tables = []
    for total, noise, seen in itertools.product(TOTALS, NOISES, (False, True)):
        for (concentration, rows, observed), margin, variance in (
            (SQUARE, np.array([3.0, 2.0]), np.array([2.0, np.inf])),
            (ROW, np.array([3.0]), np.array([1.5])),
        ):
            known = (margin, variance) if seen else (None, None)
            tables.append(NoisyTable(concentration, rows, observed, noise, total, *known))
    return tables


def log_weights(counts: Array, table: NoisyTable) -> Array:
    """Return log p(counts, observed, margin) up to a constant, the shares of rows and theta integrated out, shape (n,).

    Args:
        counts: shape (n, n_rows, n_values).
        table: what was observed, and the prior.
    """
    a, b = table.concentration, table.row_concentration
    rows, m = counts.sum(axis=2), counts.sum(axis=(1, 2))
    value = gammaln(m + 1) - gammaln(b.sum() + m)  # the rows: Dirichlet-multinomial
    value += (gammaln(b + rows) - gammaln(rows + 1)).sum(axis=1)
    value += (gammaln(rows + 1) - gammaln(a.sum(axis=1) + rows)).sum(axis=1)  # and the counts of each
    value += (gammaln(a + counts) - gammaln(counts + 1)).sum(axis=(1, 2))
    value += table.noise.log_pmf(np.asarray(table.observed - counts)).sum(axis=(1, 2))
    if table.margin is not None and table.margin_variance is not None:
        value -= ((rows - table.margin) ** 2 / table.margin_variance).sum(axis=1) / 2.0
    return np.asarray(value)


def enumerate_table(table: NoisyTable) -> tuple[Array, Array]:
    """Return all possible counts, shape (n, n_rows, n_values), and their posterior probabilities."""
    shape = table.concentration.shape
    kind, n = table.total.kind, table.total.n
    most = UNBOUNDED_MOST if kind == "unbounded" else n
    grid = np.indices((most + 1,) * math.prod(shape)).reshape(math.prod(shape), -1).T
    sums = grid.sum(axis=1)
    counts = grid[sums == n if kind == "known" else sums <= most].reshape(-1, *shape).astype(np.float64)
    weights = log_weights(counts, table)
    weights = np.exp(weights - weights.max())
    return counts, weights / weights.sum()


def theta_moments(table: NoisyTable) -> tuple[Array, Array]:
    """Return the exact posterior means and standard deviations of theta, cells in C order."""
    counts, weights = enumerate_table(table)
    shape = counts + table.concentration
    total = shape.sum(axis=2, keepdims=True)
    mean = shape / total
    square = mean * (shape + 1.0) / (total + 1.0)
    first, second = (np.tensordot(weights, each, 1).ravel() for each in (mean, square))
    return first, np.sqrt(second - first**2)


def draw_network(
    shapes: list[tuple[int, int]],
    total: RecordCount,
    noise: NoiseLaw,
    rng: np.random.Generator,
    concentration: float = 1.0,
) -> tuple[Array, NoisyTables]:
    """Draw theta, row probabilities, data and noise; return theta, with cells in order, and the observation."""
    thetas, tables = [], []
    for n_rows, n_values in shapes:
        a, b = np.full((n_rows, n_values), concentration), np.ones(n_rows)
        m = total.n if total.kind == "known" else int(rng.integers(0, total.n, endpoint=True))
        rows = rng.multinomial(m, rng.dirichlet(b))
        theta = rng.dirichlet(a[0], n_rows)
        counts = np.array([rng.multinomial(rows[j], theta[j]) for j in range(n_rows)])
        observed = (counts + noise.simulate(rng, counts.shape)).astype(np.float64)
        tables.append(NoisyTable(a, b, observed, noise, total))
        thetas.append(theta.ravel())
    return np.concatenate(thetas), NoisyTables(tuple(tables))


def largest_z(drawn: list[Array], exact: Exact) -> float:
    """Return how many standard errors the worst mean of a count, a row total, a total or one of their squares is off.

    Args:
        drawn: independent draws of the counts of each table, shape (n, n_rows, n_values).
        exact: what ``enumerate_table`` returns for each table.
    """

    def features(counts: Array) -> Array:
        rows = counts.sum(axis=2)
        columns = [counts.reshape(len(counts), -1), rows, rows.sum(axis=1, keepdims=True)]
        return np.concatenate([*columns, *(column**2 for column in columns)], axis=1)

    worst = 0.0
    for counts, (states, weights) in zip(drawn, exact, strict=True):
        values = features(states)
        mean = weights @ values
        error = np.sqrt(np.maximum(weights @ values**2 - mean**2, 1e-12) / len(counts))
        worst = max(worst, float(np.max(np.abs(features(counts).mean(axis=0) - mean) / error)))
    return worst


def assert_joint_law(drawn: list[Array], exact: Exact) -> None:
    """Test the 30 most probable states of each table by chi-square; false-fail 1e-9 per table."""
    for counts, (states, weights) in zip(drawn, exact, strict=True):
        base = int(states.max()) + 2
        digits = base ** np.arange(states[0].size)
        inside = np.minimum(counts, base - 1).reshape(len(counts), -1) @ digits
        chosen = np.argsort(-weights)[:30]
        keys = states.reshape(len(states), -1) @ digits
        chosen = chosen[np.argsort(keys[chosen])]
        assert chi_square_p_value(inside, keys[chosen], weights[chosen]) > 1e-9
