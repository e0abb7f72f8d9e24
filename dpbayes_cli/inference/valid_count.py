"""The posterior of the number of valid records, given released counts and the law of their noise.

No records are read here: that no record is valid shows only in released counts near zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.noisy_observation import (
    GroupedMoments,
    GroupedSums,
    NoisyCounts,
    NoisyDerivatives,
    NoisyGroups,
    NoisyObservation,
    NoisySequences,
    NoisySums,
    RecordCount,
)
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.noise import NoiseLaw

_TAIL_NATS = 40.0
_TAIL_SDS = 12.0
_MAX_HALF_GRID = 1 << 14
"""The law of the summed noise is computed at no more than about this many points on each side of zero."""
_MAX_GRID_COUNTS = 1 << 14
"""The posterior is computed at no more than this many counts."""
_TINY = 1e-300


@dataclass(frozen=True)
class CountSummary:
    """The mean and the 5 % and 95 % quantiles of a number of records.

    If the largest possible number is likelier than the 10 % quantile, the interval is from there to this number: else
    it would never hold the number of valid records if all are valid.
    """

    mean: float
    q05: float
    q95: float


@dataclass(frozen=True)
class _NoisyTotal:
    """A released number of valid records.

    Attributes:
        observed: the released value.
        law: the law of each noise variable in it.
        terms: the number of independent noise variables in it.
        weight: what each valid record adds to it.
    """

    observed: float
    law: NoiseLaw
    terms: int = 1
    weight: int = 1


def count_valid_records(observation: NoisyObservation, total: RecordCount) -> CountSummary | None:
    """Return the posterior of the number of valid records; None if no released value counts them.

    The prior is uniform on 0..n, or on all whole numbers if n is private. If several tables count records that are
    valid in different columns, the result is the posterior of the smallest of their record counts, which has this
    prior. Given the smallest count, each of the other tables counts all n records with probability 1/2; otherwise its
    record count is uniform between the smallest count and n. If n is private, the median of the released numbers
    replaces n in the first case.

    Args:
        observation: the released statistics and the law of their noise; invalid cells must not have been replaced by
            stand-ins.
        total: what is publicly known about the number of records.

    Privacy: post-processing of released values and public numbers.
    """
    totals = _noisy_totals(observation)
    if not totals:
        return None
    laws = [_law_of_sum(noisy.law, noisy.terms) for noisy in totals]
    least = [(noisy.observed - law.reach) / noisy.weight for noisy, law in zip(totals, laws, strict=True)]
    most = [(noisy.observed + law.reach) / noisy.weight for noisy, law in zip(totals, laws, strict=True)]
    largest = float(total.n) if total.kind != "unbounded" else max(0.0, *most)
    low, high = (min(max(min(ends), 0.0), largest) for ends in (least, most))
    counts = np.unique(np.linspace(np.floor(low), np.ceil(high), int(min(high - low + 2.0, _MAX_GRID_COUNTS))).round())
    usual = (
        largest if total.kind != "unbounded" else float(np.median([noisy.observed / noisy.weight for noisy in totals]))
    )
    weights = _weights_as_smallest(counts, largest, usual, totals, laws)
    below = np.cumsum(weights) / weights.sum()
    q05, q10, q95 = (min(int(np.searchsorted(below, p)), len(counts) - 1) for p in (0.05, 0.1, 0.95))
    is_one_sided = total.kind != "unbounded" and counts[-1] == largest and weights[-1] > weights[q10]
    low, high = (counts[q10], largest) if is_one_sided else (counts[q05], counts[q95])
    mean = float(weights @ counts / weights.sum())
    return CountSummary(*(float(f"{value:.9g}") for value in (mean, low, high)))


def _noisy_totals(observation: NoisyObservation) -> list[_NoisyTotal]:
    if isinstance(observation, NoisyCounts):
        values = [value for value in observation.observed if value is not None]
        return [_NoisyTotal(float(sum(values)), observation.noise, len(values))]
    if isinstance(observation, NoisySums):
        last = len(observation.observed) - 1
        counted = _NoisyTotal(float(observation.observed[last]), observation.noise.at(last), 1, observation.valid)
        return [counted] if observation.valid else []
    if isinstance(observation, NoisySequences):
        return [
            _NoisyTotal(float(counts.sum()), noise, counts.size)
            for counts, noise in zip(observation.observed, observation.noises, strict=True)
            if noise is not None
        ]
    if isinstance(observation, NoisyGroups):
        observed, weight = observation.observed, 1
        if isinstance(observation.outcome, GroupedSums):
            observed, weight = observed[:, 1:], observation.outcome.steps
        elif isinstance(observation.outcome, GroupedMoments):
            observed, weight = observed[:, 2:], observation.outcome.column.steps**2
        return [_NoisyTotal(float(observed.sum()), observation.noise, observed.size, weight)]
    if isinstance(observation, NoisyDerivatives):
        return _counted_by_curvature(observation)
    # tables that share a scope were rebuilt from the same valid records
    tables = observation.tables if observation.scope is None else observation.tables[:1]
    return [_NoisyTotal(float(table.observed.sum()), table.noise, table.observed.size) for table in tables]


def _counted_by_curvature(observation: NoisyDerivatives) -> list[_NoisyTotal]:
    """Return the count in the Hessian of the first round: if its point is an intercept, all curvatures are equal.

    If the number of records is private, there is none: its noise may be as large as the number.
    """
    point = observation.points[0]
    if not observation.design.intercept or point[1:].any() or observation.total.kind == "unbounded":
        return []
    curvature = float(observation.loss.curvature(point[:1])[0])
    noise = DiscreteGaussian(float(observation.hessian_sds[0, 0]) / curvature)
    return [_NoisyTotal(float(observation.hessians[0, 0, 0]) / curvature, noise)]


@dataclass(frozen=True, eq=False)
class _SumLaw:
    """The law of a sum of independent noise variables, on a grid that is symmetric about zero.

    Attributes:
        points: the grid, ascending.
        mass: the probability of the integer at each point.
        below: the probability of all values up to each point.
    """

    points: Floats
    mass: Floats
    below: Floats

    @property
    def reach(self) -> float:
        """The largest point."""
        return float(self.points[-1])


@lru_cache(maxsize=16)
def _law_of_sum(law: NoiseLaw, terms: int) -> _SumLaw:
    reach = law.radius(_TAIL_NATS) + _TAIL_SDS * (terms * law.variance) ** 0.5 + 1.0
    stride = max(1, int(np.ceil(reach / _MAX_HALF_GRID)))
    half = int(reach / stride) + 1
    size = 1 << (4 * half).bit_length()
    points = np.arange(-half, half + 1, dtype=np.int64) * stride
    single = np.exp(law.log_pmf(points))
    circular = np.zeros(size)
    circular[np.arange(-half, half + 1) % size] = single / single.sum()
    mass = np.fft.irfft(np.fft.rfft(circular) ** terms, size)[np.arange(-half, half + 1) % size]
    mass = single / single.sum() if terms == 1 else np.maximum(mass, 0.0) / np.maximum(mass, 0.0).sum()
    return _SumLaw(points.astype(np.float64), mass / stride, np.cumsum(mass))


def _weights_as_smallest(
    counts: Floats, largest: float, usual: float, totals: Sequence[_NoisyTotal], laws: Sequence[_SumLaw]
) -> Floats:
    """Return the posterior weight of each count as the smallest of several record counts.

    Args:
        counts: the possible smallest counts, ascending.
        largest: the largest possible record count.
        usual: the record count that each table has with probability 1/2 unless it has the smallest one.
        totals, laws: the released numbers and the laws of their noise.
    """
    at_count, at_least = [], []
    for noisy, law in zip(totals, laws, strict=True):
        at_usual = np.interp(noisy.observed - noisy.weight * usual, law.points, law.mass, left=0.0, right=0.0)
        noise, least_noise = noisy.observed - noisy.weight * counts, noisy.observed - noisy.weight * largest - 1.0
        at_count.append(np.interp(noise, law.points, law.mass, left=0.0, right=0.0))
        above = np.interp(noise, law.points, law.below, left=0.0, right=1.0)
        above = above - np.interp(least_noise, law.points, law.below, left=0.0, right=1.0)
        at_least.append(
            np.maximum(above, at_count[-1]) / (largest - counts + 1.0) + np.where(counts <= usual, at_usual, 0.0)
        )
    equal, more = (np.log(np.maximum(each, _TINY)) for each in (at_count, at_least))
    log_weight = np.logaddexp.reduce(equal - more, axis=0) + more.sum(axis=0)
    return np.asarray(np.exp(log_weight - log_weight.max()))
