"""Learn the prior of counts of which small ones are not published.

If noisy counts below a threshold are missing, the table holds more counts that noise has raised than counts that noise
has lowered, because most tables have many more small counts than large ones. A flat prior ignores this, so that
published counts are biased upward. So the counts of such a column have the prior P(c) proportional to (c + 1)^-a, and
the exponent a is inferred. Its likelihood is that of the noisy counts given that they are published,

    product over published y of  sum_c P(c) P(noise = y - c) / sum_c P(c) P(noise >= threshold - c),

or, if suppressed cells are listed, that of published and suppressed cells without this denominator.

Source: Yekutieli 2012, Adjusted Bayesian inference for selected parameters (parameters drawn before the selection).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp, zeta

from dpbayes_cli.base.numeric import normalized
from dpbayes_cli.inference.cells.count_lattices import EXPONENTS, NoisyCells, log_masses

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_SMOOTH = 30.0
"""A count of more than so many scales has the marginal likelihood (count + 1)^-a, up to a factor near 1."""


def learn_priors(cells: NoisyCells) -> NoisyCells:
    """Return the cells with the posterior weights of the exponents of their priors."""
    n_priors = int(cells.prior.max(initial=-1)) + 1
    weights = np.zeros((n_priors, len(EXPONENTS)))
    for k in set(cells.prior[cells.prior >= 0].tolist()):
        weights[k] = normalized(_log_likelihood(cells, np.flatnonzero(cells.prior == k)))
    return replace(cells, exponent_weights=weights)


def _log_likelihood(cells: NoisyCells, index: Integers) -> Floats:
    """Return the log likelihood of each exponent, given the cells of one prior."""
    observed = np.nan_to_num(cells.observed[index], nan=-np.inf)
    distinct = np.column_stack([observed, cells.scale[index], cells.suppressed_below[index]])
    _, first, number = np.unique(distinct, axis=0, return_index=True, return_counts=True)
    unique = index[first]
    flat = replace(cells, prior=np.full(len(cells.prior), -1))
    total = -np.outer(number, np.log(zeta(EXPONENTS)) if cells.lists_suppressed else np.zeros(len(EXPONENTS)))
    smooth = cells.observed[unique] > _SMOOTH * cells.scale[unique]
    total[smooth] -= number[smooth, None] * np.log1p(cells.observed[unique][smooth, None]) * EXPONENTS
    for batch in cells.batches(unique):
        rows = batch[~smooth[batch]]
        if len(rows):
            step = cells.steps(unique[rows])
            start, log_mass = log_masses(flat, unique[rows], cells.windows(unique[rows]), step, relative=False)
            middle = start[:, None] + step[:, None] * np.arange(log_mass.shape[1]) + (step[:, None] - 1) / 2.0
            for k, exponent in enumerate(EXPONENTS):
                marginal = logsumexp(log_mass - exponent * np.log1p(middle), axis=1) + np.log(step)
                total[rows, k] += number[rows] * marginal
    if not cells.lists_suppressed:
        total -= number[:, None] * _log_published(cells, unique)
    return np.asarray(total.sum(axis=0))


def _log_published(cells: NoisyCells, index: Integers) -> Floats:
    """Return the log probability that a cell is published, up to log zeta(a), shape (len(index), n_exponents)."""
    result = np.empty((len(index), len(EXPONENTS)))
    kinds = np.column_stack([cells.law[index], cells.scale[index], cells.suppressed_below[index]])
    kinds, position = np.unique(kinds, axis=0, return_inverse=True)
    for k, (law, scale, least) in enumerate(kinds):
        reach = cells.laws[int(law)].reach(40.0, np.array(scale))
        end = max(math.ceil(least + reach), 1)
        counts = np.arange(float(end))
        log_tail = cells.laws[int(law)].log_upper_tail(least - counts, np.full(end, scale))
        sums = logsumexp(log_tail[:, None] - np.log1p(counts)[:, None] * EXPONENTS, axis=0)
        result[position.ravel() == k] = np.logaddexp(sums, np.log(zeta(EXPONENTS, end + 1.0)))
    return result
