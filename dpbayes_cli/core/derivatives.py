"""Exact integer gradients and Hessians of a log likelihood at public points, summed over the records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dpbayes_cli.core.coefficient_law import CoefficientLaw
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.design import DesignMatrix, DesignRows
from dpbayes_cli.core.losses import CurvedLoss
from dpbayes_cli.core.noisy_observation import NoisyDerivatives, record_count
from dpbayes_cli.privacy.lazy_numpy import np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

Point = tuple[int, ...]  # coefficients, in units of 1 / ONE

ONE = 1 << 10
"""The integer that stands for 1 in rows and points."""
TOP = 1 << 15
"""The integer that stands for the largest slope and for the largest curvature of any record at a point."""
_LARGEST_COEFFICIENT = 32 * ONE
_LARGEST_PREDICTOR = 16 * ONE
"""Slopes and curvatures are tabulated for linear predictors of this size; beyond, they are those at the end."""
_LEAST_CURVATURE = 1e-4
"""The integer ``TOP`` stands for at least this fraction of the largest curvature at any point."""
_CHUNK = 1 << 14
"""The number of records whose products are added in doubles: integers below 2^53, so that every sum is exact."""


def point_of(coefficients: Floats) -> Point:
    """Return coefficients rounded to the grid of points, and limited to -32..32."""
    limited = np.clip(np.rint(np.asarray(coefficients) * ONE), -_LARGEST_COEFFICIENT, _LARGEST_COEFFICIENT)
    return tuple(limited.astype(np.int64).tolist())


@dataclass(frozen=True, kw_only=True)
class DerivativeRows(DesignRows):
    """The rows and targets from which gradients and Hessians are computed.

    A row of the design becomes a row X of integers: its entries times ``ONE``, truncated. The slope and the curvature
    of a record's loss are integers at most ``TOP``, which come from public tables that are read at the rounded linear
    predictor. So a record's gradient and Hessian are integers that depend on the record and the public point alone.

    Privacy: X'X is at most ``squared_norm``; a row with a larger norm becomes 0. Hence a gradient has a squared norm of
        at most ``squared_norm`` * TOP^2. A Hessian is curvature * X X', of rank one and positive semidefinite, with a
        Frobenius norm of at most ``squared_norm`` * TOP. Two such matrices have an inner product of at least 0, so
        their difference has at most sqrt(2) times this norm.
    Source: derived here.

    Attributes:
        loss: the negative log likelihood, as a function of the linear predictor.
        prior: the prior of the coefficients, on which the choice of points depends.
        policy: the neighbors, and the treatment of invalid records.
    """

    loss: CurvedLoss
    prior: CoefficientLaw
    policy: RecordPolicy

    @property
    def width(self) -> int:
        """The number of coefficients."""
        return self.design.width

    @cached_property
    def squared_norm(self) -> int:
        """The largest squared norm of a row of integers."""
        radius = Fraction(self.design.radius) ** 2
        if self.design.radius == self.design.largest:
            radius = Fraction(len(self.design.features))
        return ONE**2 * self.design.intercept + math.floor(radius * ONE**2)

    def hold(self, expected: int) -> DerivativeMatrix:
        """Return an empty matrix that collects integer rows."""
        return DerivativeMatrix(self, expected)

    @property
    def first_point(self) -> Point:
        """The point of the first round, which is public before any data are read."""
        start = [self.loss.start()] if self.design.intercept else []
        return point_of(np.array(start + [0.0] * (self.width - len(start))))

    def predictors(self, point: Point) -> tuple[int, int]:
        """Return the smallest and the largest tabulated predictor of any record at a point, in units of 1 / ONE."""
        first = int(self.design.intercept)
        middle, rest = sum(point[:first]), point[first:]
        length = math.isqrt((self.squared_norm - ONE**2 * first) * sum(b * b for b in rest)) + 1
        sizes = iter(map(abs, rest))
        largest = sum(max(next(sizes) for _ in feature.names) for feature in self.design.features) * ONE
        reach = -(-min(length, largest) // ONE)
        limit = _LARGEST_PREDICTOR
        return min(max(middle - reach, -limit), limit), min(max(middle + reach, -limit), limit)

    def largest_slope(self, point: Point) -> float:
        """Return the largest size of a slope of any record at a point; ``TOP`` stands for it."""
        lowest, highest = self.loss.mean(np.array(self.predictors(point)) / ONE)
        return float(max(self.loss.largest_outcome - lowest, highest))

    def largest_curvature(self, point: Point) -> float:
        """Return the largest curvature of any record at a point; ``TOP`` stands for it."""
        return float(max(self._curvatures(point).max(), _LEAST_CURVATURE * self.loss.curvature_bound))

    def _curvatures(self, point: Point) -> Floats:
        lowest, highest = self.predictors(point)
        return self.loss.curvature(np.arange(lowest, highest + 1) / ONE)

    def tables(self, point: Point) -> tuple[Integers, Integers, Integers]:
        """Return the outcomes from 0 to the largest one, the means and the curvatures of the predictors, as integers.

        Outcomes and means are in units in which ``TOP`` is the largest slope; a slope is a mean minus an outcome.
        """
        lowest, highest = self.predictors(point)
        unit = TOP / self.largest_slope(point)
        outcomes = np.rint(np.arange(self.loss.largest_outcome + 1) * unit)
        means = np.rint(self.loss.mean(np.arange(lowest, highest + 1) / ONE) * unit)
        curvatures = np.rint(self._curvatures(point) * (TOP / self.largest_curvature(point)))
        return outcomes.astype(np.int64), means.astype(np.int64), np.clip(curvatures, 0, TOP).astype(np.int64)

    def names(self, n_rounds: int) -> tuple[str, ...]:
        """Return the names of the released numbers of all rounds."""
        columns = self.design.names
        pairs = [(columns[i], columns[j]) for i, j in zip(*self._upper, strict=True)]
        return tuple(
            name
            for t in range(1, n_rounds + 1)
            for name in (
                *(f"gradient[{t},{column}]" for column in columns),
                *(f"curvature[{t},{column}]" for column in columns),
                *(f"curvature[{t},{first},{second}]" for first, second in pairs),
            )
        )

    def limits(self, n_records: float, n_values: int) -> Iterator[tuple[float, float]]:
        """Return the least and the largest value of each of the released numbers without noise.

        Args:
            n_records: the largest number of records; may be infinite.
            n_values: the number of released numbers of all rounds.
        """
        d = self.width
        slope, curvature = n_records * ONE * TOP, n_records * ONE**2 * TOP
        above = d * (d - 1) // 2
        one_round = [(-slope, slope)] * d + [(0.0, curvature)] * d + [(-curvature, curvature)] * above
        return iter(one_round * (n_values // len(one_round)))

    def are_points(self, points: Sequence[Sequence[int]], n_values: int) -> bool:
        """Return whether there is a point for each round, the first is public, and all are within the limits."""
        of_width = all(len(point) == self.width for point in points)
        within = all(abs(b) <= _LARGEST_COEFFICIENT for point in points for b in point)
        n_rounds = n_values // len(self.names(1))
        return of_width and within and 0 < len(points) == n_rounds and tuple(points[0]) == self.first_point

    @cached_property
    def _upper(self) -> tuple[Integers, Integers]:
        rows, columns = np.triu_indices(self.width, 1)
        return rows, columns

    def parts(self, gradient: Any, hessian: Any) -> tuple[Any, ...]:
        """Return the numbers of one round in the order of their names."""
        return (*gradient, *np.diagonal(hessian), *hessian[self._upper])

    def observation(
        self, values: Sequence[int], scales: Sequence[float], points: Sequence[Point], n_records: int | None
    ) -> NoisyDerivatives:
        """Return the released derivatives in the units of the design.

        Args:
            values: the noisy integers of each round.
            scales: the standard deviation of the noise on each of them.
            points: the point of each round.
            n_records: the public number of records; None if it is private.
        """
        d, n_rounds = self.width, len(points)
        shape = (n_rounds, d + d * (d + 1) // 2)
        noisy, sds = (np.asarray(each, dtype=np.float64).reshape(shape) for each in (values, scales))
        slopes = np.array([self.largest_slope(point) for point in points]).reshape(n_rounds, 1) / (ONE * TOP)
        curvatures = np.array([self.largest_curvature(point) for point in points]).reshape(n_rounds, 1) / (ONE**2 * TOP)
        hessians = np.zeros((n_rounds, d, d))
        hessians[:, *self._upper] = noisy[:, 2 * d :] * curvatures
        hessians += hessians.transpose(0, 2, 1)
        hessians[:, range(d), range(d)] = noisy[:, d : 2 * d] * curvatures
        return NoisyDerivatives(
            self.design,
            self.loss,
            self.prior,
            np.asarray(points, dtype=np.float64).reshape(n_rounds, d) / ONE,
            noisy[:, :d] * slopes,
            hessians,
            sds[:, 0] * slopes[:, 0],
            sds[:, [d, min(2 * d, shape[1] - 1)]] * curvatures,
            record_count(self.policy, n_records),
        )


class DerivativeMatrix(DesignMatrix):
    """The integer rows and the targets of the valid records."""

    rows: DerivativeRows

    def take(self, codes: Integers) -> None:
        """Add a block of records: codes of the features, then of the target, -1 for an invalid cell."""
        before = len(self.blocks)
        super().take(codes)
        for i in range(before, len(self.blocks)):
            x, y = self.blocks[i]
            if not self.rows.design.dense:
                x.data = np.trunc(x.data * ONE)
                norms = np.asarray(x.multiply(x).sum(axis=1)).ravel()
            else:
                x = np.trunc(x * ONE).astype(np.int16)
                norms = np.einsum("ij,ij->i", x, x, dtype=np.int64)
            kept = norms <= self.rows.squared_norm  # always true; the bound does not rest on floating point
            self.blocks[i] = (x if kept.all() else x[kept], y[kept].astype(np.int32))

    def derivatives(self, point: Point) -> list[int]:
        """Return the sums of the records' gradients and Hessians at a point; the exact integers of one round."""
        outcomes, means, curvatures = self.rows.tables(point)
        (lowest, highest), d = self.rows.predictors(point), self.rows.width
        gradient, hessian = np.zeros(d, dtype=object), np.zeros((d, d), dtype=object)  # integers of any size
        b = np.array(point, dtype=np.float64)
        for x, y in self._chunks():
            predictor = (np.asarray(x @ b).astype(np.int64) + ONE // 2) >> ONE.bit_length() - 1
            at = np.clip(predictor, lowest, highest) - lowest
            slopes = np.clip(outcomes[y] - means[at], -TOP, TOP).astype(np.float64)  # minus the slopes of the loss
            gradient += np.asarray(x.T @ slopes).astype(np.int64).astype(object)
            weighted = x.T * curvatures[at].astype(np.float64)
            product = weighted @ x
            whole = product if isinstance(product, np.ndarray) else product.toarray()
            hessian += whole.astype(np.int64).astype(object)
        return [int(value) for value in self.rows.parts(gradient, hessian)]

    def _chunks(self) -> Iterator[tuple[Any, Integers]]:
        for x, y in self.blocks:
            for start in range(0, len(y), _CHUNK):
                yield x[start : start + _CHUNK].astype(np.float64), y[start : start + _CHUNK].astype(np.int64)
