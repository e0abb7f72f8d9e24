"""The exact likelihood of a released sum as a function of the parameter.

The number of records is known, or it is summed out with weights: its probability given the parameter, times that of its
own noisy count.

Source: design notes, noise-aware inference (p(statistic | theta) by the characteristic function).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.core.noisy_observation import NoisySums, ScalarLaw
from dpbayes_cli.inference.sums.record_numbers import numbers_of_records
from dpbayes_cli.inference.sums.sum_table import SumTable, frequencies_for, moments_of_one, reindex
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_BATCH_PAIRS = 1 << 9
"""Pairs of a point and an observation that are computed at a time, so that they stay in the processor's cache."""


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
        observation: the noise and the record count; its own observed values are not reindex.
        law: the law of a record.
        observed: noisy statistics, shape (n_observed, n_components).
        points: parameters, shape (n_points, 1).
        pairs: the index of the point and the index of the observation, each of shape (n_pairs,).
        effort: a factor on the number of frequencies.
    """
    point, release = pairs
    if observation.total.kind == "known" and law.counts_all:
        n_records = np.full(len(points), float(observation.total.n))
        cases = _Cases(observation.noise, law, points, np.arange(len(points)), n_records, effort)
        return cases.log_likelihoods(point, observed[release, 0])
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
    cases = _Cases(observation.noise, law, points, of_point[new], of_number[new], effort)
    log_terms[kept] += cases.log_likelihoods(case, y[pair])
    largest = log_terms.max(axis=1)
    return np.asarray(largest + np.log(np.exp(log_terms - largest[:, None]).sum(axis=1)))


@dataclass(frozen=True)
class _Cases:
    """Cases, each a point and a number of records; cases with similar numbers share a table.

    Attributes:
        points: parameters, shape (n_points, 1).
        of_point: the index of the point of each case, shape (n_cases,).
        n_records: the number of records of each case, shape (n_cases,).
        effort: a factor on the number of frequencies.
    """

    noise: NoiseLaw
    law: ScalarLaw
    points: Floats
    of_point: Integers
    n_records: Floats
    effort: float

    def log_likelihoods(self, case: Integers, y: Floats) -> Floats:
        """Return the log likelihood of each observed sum in its case, shape (n_pairs,)."""
        result = np.empty(len(case))
        octave = np.floor(np.log2(np.maximum(self.n_records, 1.0)))
        for value in np.unique(octave):
            cases = octave == value
            pairs = cases[case]
            if not pairs.any():
                continue
            index = (np.cumsum(cases) - 1)[case[pairs]]
            n_frequencies = round(frequencies_for(float(self.n_records[cases].min())) * self.effort)
            occurs, of_point = reindex(self.of_point[cases], len(self.points))
            points, n_records = self.points[occurs], self.n_records[cases]
            table = SumTable(self.noise, self.law, points, of_point, n_records, n_frequencies)
            result[pairs] = table.log_likelihoods(index, y[pairs])
        return result
