"""The exact probability of what was released, given the parameter, for one sum and what is known about its records.

The number of records is known, or it is summed over, with the weights that its own noisy count and its own law give it.

Source: mechanisms, noise-aware inference (p(statistic | theta) by the characteristic function).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.core.noisy_observation import NoisySums, ScalarLaw
from dpbayes_cli.inference.sums.record_numbers import numbers_of_records
from dpbayes_cli.inference.sums.sum_table import SumTable, frequencies_for, moments_of_one, used
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_PAIRS = 1 << 9
"""So many pairs of a point and an observation at a time stay in the processor's cache."""


def log_likelihoods(
    observation: NoisySums,
    law: ScalarLaw,
    observed: Floats,
    points: Floats,
    pairs: tuple[Integers, Integers],
    effort: float = 1.0,
) -> Floats:
    """Return log p(observed | theta), up to one constant, for chosen pairs.

    Args:
        observation: the law, the noise and the total; its own observation is not looked at.
        law: a scalar law.
        observed: privatized statistics, shape (n_observed, n_components).
        points: parameters, shape (n_points, 1).
        pairs: indices of a point and of an observation, each of shape (n_pairs,).
        effort: a factor on the number of frequencies.

    Returns:
        Shape (n_pairs,).
    """
    which, release = pairs
    if observation.total.kind == "known" and law.counts_all:
        n_records = np.full(len(points), float(observation.total.n))
        cases = _Cases(observation.noise, law, points, np.arange(len(points)), n_records, effort)
        return cases.log_likelihoods(which, observed[release, 0])
    result, order = np.empty(len(which)), np.argsort(which, kind="stable")
    typical = moments_of_one(law, points, observation.noise)
    for start in range(0, len(which), _PAIRS):
        some = order[start : start + _PAIRS]
        numbers = numbers_of_records(
            observation, law, points[which[some]], typical[which[some]], observed[release[some]]
        )
        result[some] = _summed_over(observation, law, points, which[some], observed[release[some], 0], numbers, effort)
    return result


def _summed_over(
    observation: NoisySums,
    law: ScalarLaw,
    points: Floats,
    which: Integers,
    y: Floats,
    numbers: tuple[Floats, Floats],
    effort: float,
) -> Floats:
    """Sum the likelihoods of pairs over numbers of records with their log weights; equal cases are computed once."""
    n_records, log_terms = numbers
    (pair, _) = kept = np.nonzero(log_terms > -np.inf)
    order = np.lexsort((n_records[kept], which[pair]))
    of_point, of_number = which[pair][order], n_records[kept][order]
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
    """Many cases, each a point and a number of records, in tables of like numbers.

    Attributes:
        noise: the law of the noise.
        law: the law of a record.
        points: shape (n_points, 1).
        of_point: the point of each case, shape (n_cases,).
        n_records: of each case, shape (n_cases,).
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
        for like in np.unique(octave):
            rows = octave == like
            chosen = rows[case]
            if not chosen.any():
                continue
            index = (np.cumsum(rows) - 1)[case[chosen]]
            count = round(frequencies_for(float(self.n_records[rows].min())) * self.effort)
            occurring, of_point = used(self.of_point[rows], len(self.points))
            table = SumTable(self.noise, self.law, self.points[occurring], of_point, self.n_records[rows], count)
            result[chosen] = table.log_likelihoods(index, y[chosen])
        return result
