"""The exact likelihood of a released sum as a function of the parameter.

The number of records is known, or summed over with weights: the probability of a number given the parameter, times
the likelihood of the noisy count of records.

Source: design notes, noise-aware inference (p(statistic | theta) by the characteristic function).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.core.noisy_observation import NoisySums, ScalarLaw
from dpbayes_cli.inference.sums.record_numbers import numbers_of_records
from dpbayes_cli.inference.sums.sum_table import SumTable, frequencies_for, moments_of_one, reindex
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_BATCH_PAIRS = 1 << 9
"""Pairs that are computed at a time, so that they stay in the processor's cache."""


def log_likelihoods(
    observation: NoisySums,
    law: ScalarLaw,
    observed: Floats,
    points: Floats,
    pairs: tuple[Integers, Integers],
    effort: float = 1.0,
) -> Floats:
    """Return log p(observed | theta) of pairs of a point and an observation, up to a constant, shape (n_pairs,).

    Args:
        observation: the noise and the record count; its observed values are not read.
        law: the law of a record.
        observed: noisy statistics, shape (n_observed, n_components).
        points: parameters, shape (n_points, 1).
        pairs: the indices of the point and of the observation of each pair, shape (n_pairs,) each.
        effort: a factor on the number of frequencies.
    """
    point, release = pairs
    if observation.total.kind == "known" and law.counts_all:
        n_records = np.full(len(points), float(observation.total.n))
        cases = points, np.arange(len(points)), n_records
        return _case_likelihoods(observation.noise, law, cases, effort, (point, observed[release, 0]))
    result, order = np.empty(len(point)), np.argsort(point, kind="stable")
    typical = moments_of_one(law, points, observation.noise)
    for start in range(0, len(point), _BATCH_PAIRS):
        batch = order[start : start + _BATCH_PAIRS]
        numbers = numbers_of_records(
            observation, law, points[point[batch]], typical[point[batch]], observed[release[batch]]
        )
        y = observed[release[batch], 0]
        result[batch] = _sum_over_numbers(observation, law, points, point[batch], y, numbers, effort)
    return result


def _sum_over_numbers(
    observation: NoisySums,
    law: ScalarLaw,
    points: Floats,
    point: Integers,
    y: Floats,
    numbers: tuple[Floats, Floats],
    effort: float,
) -> Floats:
    """Return the log likelihoods of pairs, summed over numbers of records with log weights.

    Pairs with the same point and number of records are one case, which is computed once.
    """
    n_records, log_terms = numbers
    (pair, _) = kept = np.nonzero(log_terms > -np.inf)
    order = np.lexsort((n_records[kept], point[pair]))
    of_point, of_number = point[pair][order], n_records[kept][order]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (np.diff(of_point) != 0) | (np.diff(of_number) != 0)
    case = np.empty(len(order), dtype=np.int64)
    case[order] = np.cumsum(new) - 1
    cases = points, of_point[new], of_number[new]
    log_terms[kept] += _case_likelihoods(observation.noise, law, cases, effort, (case, y[pair]))
    largest = log_terms.max(axis=1)
    return np.asarray(largest + np.log(np.exp(log_terms - largest[:, None]).sum(axis=1)))


def _case_likelihoods(
    noise: NoiseLaw,
    law: ScalarLaw,
    cases: tuple[Floats, Integers, Floats],
    effort: float,
    pairs: tuple[Integers, Floats],
) -> Floats:
    """Return the log likelihoods of observed sums, shape (n_pairs,); cases with similar record counts share a table.

    Cases are the points, shape (n_points, 1), and for each case the index of its point and its number of records; pairs
    are the case and the observed sum of each pair.
    """
    points, of_point, n_records = cases
    case, y = pairs
    result = np.empty(len(case))
    octave = np.floor(np.log2(np.maximum(n_records, 1.0)))
    for value in np.unique(octave):
        similar = octave == value
        within = similar[case]
        if within.any():
            frequencies = round(frequencies_for(float(n_records[similar].min())) * effort)
            occurs, index_of_point = reindex(of_point[similar], len(points))
            table = SumTable(noise, law, points[occurs], index_of_point, n_records[similar], frequencies)
            result[within] = table.log_likelihoods((np.cumsum(similar) - 1)[case[within]], y[within])
    return result
