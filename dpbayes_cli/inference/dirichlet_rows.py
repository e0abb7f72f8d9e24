"""Draw and summarize parameters, in particular many rows of Dirichlet-distributed probabilities in flat arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.inference.posterior import QUANTILES, Marginal

_BATCH_CELLS = 1 << 20


class DirichletRows:
    """The cells of many rows of probabilities, concatenated; each row has a Dirichlet prior.

    Arrays of counts have shape (n, n_cells), where the first axis is over draws or chains.

    Attributes:
        concentration: the prior concentration of each cell, shape (n_cells,).
        row: the row of each cell, shape (n_cells,).
        row_start, row_size: the first cell and the number of cells of each row, shape (n_rows,).
        row_sums: the sum of the concentrations of each row, shape (n_rows,).
    """

    def __init__(self, concentration: Floats, row_size: Integers) -> None:
        self.concentration, self.row_size = concentration, row_size
        self.row_start = starts_of(row_size)
        self.row = np.repeat(np.arange(len(row_size)), row_size)
        self.row_sums = np.add.reduceat(concentration, self.row_start)

    def row_totals(self, counts: Floats) -> Floats:
        """Return the sum of the counts of each row, shape (n, n_rows)."""
        return np.asarray(np.add.reduceat(counts, self.row_start, axis=1))

    def conditional_moments(self, counts: Floats) -> tuple[Floats, Floats]:
        """Return the mean and the variance of theta given counts, shape (n, n_cells) each."""
        totals = (self.row_totals(counts) + self.row_sums)[:, self.row]
        return dirichlet_moments(counts + self.concentration, totals)


def dirichlet_moments(shape: Floats, total: Floats) -> tuple[Floats, Floats]:
    """Return the mean and the variance of Dirichlet-distributed shares, given the parameters and their row sums."""
    mean = shape / total
    return mean, mean * (1.0 - mean) / (total + 1.0)


def starts_of(sizes: Integers) -> Integers:
    """Return the index at which each group starts if groups of these sizes are concatenated."""
    return np.asarray(np.cumsum(sizes) - sizes)


def ranks_within(sizes: Integers) -> Integers:
    """Return the indices 0, 1, ... within each of several groups of these sizes, concatenated."""
    return np.arange(sizes.sum()) - np.repeat(starts_of(sizes), sizes)


def draw_log_gammas(shape: Floats, rng: np.random.Generator) -> Floats:
    """Draw the logarithms of gamma variables of given shapes; unlike the variables they do not underflow."""
    small = shape < 1.0
    logs = np.log(rng.standard_gamma(np.where(small, shape + 1.0, shape)))
    if small.any():
        logs[small] += np.log1p(-rng.random(int(small.sum()))) / shape[small]
    return np.asarray(logs)


def draw_theta(counts: Integers, concentration: Sequence[float], rng: np.random.Generator) -> Floats:
    """Draw theta ~ Dirichlet(concentration + counts) for each row of counts, shape (n_draws, n_categories)."""
    logs = draw_log_gammas(np.asarray(counts + np.asarray(concentration), dtype=np.float64), rng)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def draw_rows(counts: Floats, rows: DirichletRows, rng: np.random.Generator) -> Floats:
    """Draw theta ~ Dirichlet(concentration + counts) for each of ``rows``; theta and counts have shape (n, n_cells)."""
    theta = np.empty(counts.shape)
    step = max(_BATCH_CELLS // counts.shape[1], 1)
    for i in range(0, len(counts), step):
        shape = counts[i : i + step] + rows.concentration
        if (shape < 1.0).any():
            logs = draw_log_gammas(shape, rng)
            weights = np.exp(logs - np.maximum.reduceat(logs, rows.row_start, axis=1)[:, rows.row])
        else:
            weights = rng.standard_gamma(shape)
        theta[i : i + step] = weights / rows.row_totals(weights)[:, rows.row]
    return theta


def row_moments(counts: Floats, rows: DirichletRows) -> tuple[Floats, Floats, Floats]:
    """Return E[theta], E[Var(theta | counts)] and Var(E[theta | counts]), averaged over draws of the counts."""
    step = max(_BATCH_CELLS // counts.shape[1], 1)
    center = rows.conditional_moments(counts[:1])[0][0]
    first, second, data = (np.zeros(counts.shape[1]) for _ in range(3))
    for i in range(0, len(counts), step):
        mean, variance = rows.conditional_moments(counts[i : i + step])
        mean -= center
        first += mean.sum(axis=0)
        second += (mean * mean).sum(axis=0)
        data += variance.sum(axis=0)
    n = len(counts)
    return center + first / n, data / n, np.maximum(second / n - (first / n) ** 2, 0.0)


def marginals_of(
    mean: Floats, variance: Floats, data: Floats, noise: Floats, quantiles: Floats
) -> tuple[Marginal, ...]:
    """Return the summaries of all parameters.

    Arrays have shape (n_parameters,), except ``quantiles``, which has shape (n_levels, n_parameters). ``data`` is the
    part of the variance that would remain without noise, and ``noise`` is the part that the noise adds.
    """
    columns = (mean, np.sqrt(variance), np.sqrt(data), np.sqrt(noise), *quantiles)
    return tuple(
        Marginal(m, sd, dict(zip(QUANTILES, q, strict=True)), sd_data, sd_noise)
        for m, sd, sd_data, sd_noise, *q in zip(*(column.tolist() for column in columns), strict=True)
    )


def row_marginals(mean: Floats, data: Floats, noise: Floats, theta: Floats) -> tuple[Marginal, ...]:
    """Return the summary of each cell, given the results of ``row_moments`` and draws of theta, shape (n, n_cells)."""
    step = max(_BATCH_CELLS // len(theta), 1)
    levels = list(QUANTILES.values())
    quantiles = [
        np.quantile(np.ascontiguousarray(theta[:, i : i + step].T), levels, axis=1) for i in range(0, len(mean), step)
    ]
    return marginals_of(mean, data + noise, data, noise, np.concatenate(quantiles, axis=1))


def summarize_draws(values: Floats, data: Floats) -> tuple[Marginal, ...]:
    """Return the summary of each parameter from draws, shape (n_draws, n_parameters).

    ``data`` is the part of each variance that would remain without noise, shape (n_parameters,); it is capped at the
    variance.
    """
    variance = values.var(axis=0)
    data = np.minimum(data, variance)
    quantiles = np.quantile(values, list(QUANTILES.values()), axis=0)
    return marginals_of(values.mean(axis=0), variance, data, variance - data, quantiles)


def summarize_count_draws(
    counts: Integers, concentration: Sequence[float], theta: Floats
) -> tuple[tuple[Marginal, ...], float]:
    """Return the summary of each category's probability, and the largest Monte Carlo standard error of a mean.

    The standard error is a fraction of the posterior standard deviation. Means and standard deviations are averages of
    conjugate moments over independent draws of the counts (Rao-Blackwell). Quantiles are those of ``theta``, which has
    one draw of the probabilities for each draw of the counts; both have shape (n_draws, n_categories).
    """
    shape = np.asarray(counts + np.asarray(concentration), dtype=np.float64)
    conditional_mean, conditional_variance = dirichlet_moments(shape, shape.sum(axis=1, keepdims=True))
    data, noise = conditional_variance.mean(axis=0), conditional_mean.var(axis=0)
    quantiles = np.quantile(theta, list(QUANTILES.values()), axis=0)
    marginals = marginals_of(conditional_mean.mean(axis=0), data + noise, data, noise, quantiles)
    return marginals, float(np.max(np.sqrt(noise) / np.sqrt(data + noise)) / np.sqrt(len(counts)))
