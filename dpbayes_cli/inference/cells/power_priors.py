"""Learn the prior of the counts of a column, P(c) proportional to (c + 1)^-a, from the noisy counts.

If a table has many small counts, a flat prior on 0, 1, 2, ... makes their sum too large: each posterior is cut at 0. If
noisy counts below a threshold are missing, the table holds more counts that noise has raised than counts that noise
has lowered, because most tables have many more small counts than large ones. A flat prior ignores this, so that
published counts are biased upward. So the exponent a is inferred. Its likelihood is the probability of the noisy
counts given that they are published:

    product over published y of  sum_c P(c) P(noise = y - c) / sum_c P(c) P(noise >= threshold - c).

If suppressed cells are listed, the likelihood is the probability of the published and of the suppressed cells, without
this denominator. Without a threshold, nothing is suppressed.

Source: Yekutieli 2012, Adjusted Bayesian inference for selected parameters (parameters drawn before the selection).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp, zeta

from dpbayes_cli.base.numeric import normalize
from dpbayes_cli.inference.cells.count_lattices import NoisyCells, PowerPrior, log_masses

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_RANGE = (1.05, 6.0)
"""The exponents that have positive, and equal, prior probability."""
_POINTS = 41
_REFINEMENTS = 4
_SMOOTH = 30.0
"""A count of more than this many scales has the marginal likelihood (count + 1)^-a, up to a factor near 1."""


def learn_priors(cells: NoisyCells) -> NoisyCells:
    """Return the cells with the priors of their columns, whose exponents have their posterior probabilities."""
    priors = []
    for k in range(int(cells.prior.max(initial=-1)) + 1):
        index = np.flatnonzero(cells.prior == k)
        grid = np.linspace(*_RANGE, _POINTS)
        for _ in range(_REFINEMENTS):
            prior = PowerPrior(grid, normalize(_log_likelihood(cells, index, grid)))
            spacing = float(grid[1] - grid[0])
            if prior.sd > 2.0 * spacing:
                break
            half = max(6.0 * prior.sd, 2.0 * spacing)
            low, high = np.clip([prior.mean - half, prior.mean + half], *_RANGE)
            grid = np.linspace(low, high, _POINTS)
        priors.append(prior)
    return replace(cells, priors=tuple(priors))


def _log_likelihood(cells: NoisyCells, index: Integers, exponents: Floats) -> Floats:
    observed = np.nan_to_num(cells.observed[index], nan=-np.inf)
    distinct = np.column_stack([observed, cells.scale[index], cells.suppressed_below[index]])
    _, first, number = np.unique(distinct, axis=0, return_index=True, return_counts=True)
    unique = index[first]
    flat = replace(cells, prior=np.full(len(cells.prior), -1))
    total = -np.outer(number, np.log(zeta(exponents)) if cells.lists_suppressed else np.zeros(len(exponents)))
    smooth = cells.observed[unique] > _SMOOTH * cells.scale[unique]
    total[smooth] -= number[smooth, None] * np.log1p(cells.observed[unique][smooth, None]) * exponents
    for batch in cells.batches(unique):
        rows = batch[~smooth[batch]]
        if len(rows):
            step = cells.steps(unique[rows])
            start, log_mass = log_masses(flat, unique[rows], cells.windows(unique[rows]), step, relative=False)
            middle = start[:, None] + step[:, None] * np.arange(log_mass.shape[1]) + (step[:, None] - 1) / 2.0
            for k, exponent in enumerate(exponents):
                marginal = logsumexp(log_mass - exponent * np.log1p(middle), axis=1) + np.log(step)
                total[rows, k] += number[rows] * marginal
    if not cells.lists_suppressed:
        total -= number[:, None] * _log_published(cells, unique, exponents)
    return np.asarray(total.sum(axis=0))


def _log_published(cells: NoisyCells, index: Integers, exponents: Floats) -> Floats:
    """Return the log probability that a cell is published, up to log zeta(a), shape (len(index), n_exponents)."""
    result = np.empty((len(index), len(exponents)))
    kinds = np.column_stack([cells.law[index], cells.scale[index], cells.suppressed_below[index]])
    kinds, position = np.unique(kinds, axis=0, return_inverse=True)
    for k, (law, scale, least) in enumerate(kinds):
        if not np.isfinite(least):
            result[position.ravel() == k] = np.log(zeta(exponents))
            continue
        reach = cells.laws[int(law)].reach(40.0, np.array(scale))
        end = max(math.ceil(least + reach), 1)
        counts = np.arange(float(end))
        log_tail = cells.laws[int(law)].log_upper_tail(least - counts, np.full(end, scale))
        sums = logsumexp(log_tail[:, None] - np.log1p(counts)[:, None] * exponents, axis=0)
        result[position.ravel() == k] = np.logaddexp(sums, np.log(zeta(exponents, end + 1.0)))
    return result
