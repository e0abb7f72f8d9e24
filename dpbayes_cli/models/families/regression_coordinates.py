"""The columns, the prior and the coordinates of the second moments of a regression."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.models.families.slope_prior import HIDDEN_VARIANCE

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers


@dataclass(frozen=True)
class ConjugatePrior:
    """The stated prior of a regression of scaled numbers; see ``LinearRegressionPrior``.

    Attributes:
        mean: the prior means of the target and of the features.
        strength: the weight of the level at the prior means, in records.
        slope_scale: the prior standard deviation of each slope, in units of the residual standard deviation.
        freedom, scatter: the variance is ``scatter`` / chi-square(``freedom``).
    """

    mean: tuple[float, ...]
    strength: float
    slope_scale: tuple[float, ...]
    freedom: float
    scatter: float


class Slices(NamedTuple):
    """The places of the coordinates of ``RegressionMoments``, in their order."""

    mean: slice
    sd: slice
    pivots: slice
    r: slice
    variance: slice
    rows: slice
    slopes: slice
    errors: slice
    scale: slice

    @property
    def normal(self) -> slice:
        """The coordinates that have standard normal priors."""
        return slice(self.rows.start, self.scale.stop)


@dataclass(frozen=True)
class RegressionCoordinates:
    """The places and units of the coordinates of ``RegressionMoments``.

    Attributes:
        columns: the columns, target first.
        counted: whether the statistic includes the number of valid records.
        spread: see above; None if the prior is conjugate.
        conjugate: the conjugate prior, else None.
        variance: the known variance of the scaled target given the features, else None.
        texts: for each column of texts its number of indicators, which are the last columns, and are not scaled.
    """

    columns: tuple[NumericColumn, ...]
    counted: bool
    spread: float | None = 1.0
    conjugate: ConjugatePrior | None = None
    variance: float | None = None
    texts: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """The number of columns."""
        return len(self.columns)

    @cached_property
    def slices(self) -> Slices:
        """The places of the coordinates."""
        d = self.size - 1
        scales = self.conjugate is None and d > HIDDEN_VARIANCE
        sizes = d + 1, d, d, 1, int(self.variance is None), d * (d - 1) // 2, d, d, int(scales)
        ends = np.cumsum(sizes).tolist()
        return Slices(*(slice(end - size, end) for end, size in zip(ends, sizes, strict=True)))

    @cached_property
    def is_indicator(self) -> Integers:
        """Whether a column is an indicator, as 0 or 1, features first."""
        indicators = sum(self.texts)
        return np.array([0] * (self.size - 1 - indicators) + [1] * indicators + [0])

    @property
    def dimension(self) -> int:
        return int(self.slices.scale.stop)

    @property
    def unit(self) -> float:
        """The square of a scaled number of 1, in units of the integer statistic."""
        return float(self.columns[0].steps) ** 2

    @cached_property
    def _pairs(self) -> tuple[tuple[int, int, float], ...]:
        """For each component the numbers of its two factors, features first and the constant 1 last, and its weight."""
        order, one = [self.size - 1, *range(self.size - 1)], self.size
        pairs = []
        for i, first in enumerate(order):
            pairs.append((one, first, 2.0))
            others = order[i + self.is_indicator[first] :]  # the square of an indicator is the indicator
            pairs += [(first, second, 1.0 if first == second else 2.0) for second in others]
        return (*pairs, *([(one, one, 1.0)] if self.counted else []))

    @cached_property
    def entries(self) -> Integers:
        """The places of the components in the flat matrix of moments, with the constant 1 as its last number."""
        return np.array([first * (self.size + 1) + second for first, second, _ in self._pairs])

    @cached_property
    def weights(self) -> Floats:
        """The components of a record whose numbers are 1."""
        return self.unit * np.array([weight for _, _, weight in self._pairs])

    @cached_property
    def below(self) -> Integers:
        """The places of the entries below the diagonal of a flat matrix of the features."""
        row, column = np.tril_indices(self.size - 1, -1)
        return row * (self.size - 1) + column

    @cached_property
    def pivot_powers(self) -> Floats:
        """The powers of the pivots in the density of vectors whose directions make all correlation matrices equally
        likely."""
        return np.arange(self.size - 1.0, 0.0, -1.0)

    @cached_property
    def typical_pivots(self) -> Floats:
        """The logits for which the pivots are typical of their prior."""
        return np.asarray(np.log(np.expm1(np.sqrt(self.pivot_powers))))

    @cached_property
    def half_and_middle(self) -> tuple[Floats, Floats]:
        """Half the range of each column, and its middle, target first."""
        ends = np.array([(column.lower, column.upper) for column in self.columns])
        return (ends[:, 1] - ends[:, 0]) / 2.0, ends.mean(axis=1)

    @property
    def typical_slope(self) -> float:
        """The prior scale of a slope of scaled numbers, by default."""
        return 1.0 / math.sqrt(self.size - 1)

    def with_squares(self, observed: Floats) -> Floats:
        """Return components with those of the squares of indicators, as if these were released."""
        values: list[float] = []
        for (first, second, _), value in zip(self._pairs, observed.tolist(), strict=True):
            values.append(value)
            if first == self.size and second < self.size and self.is_indicator[second]:
                values.append(value / 2.0)
        return np.array(values)

    def tightness(self, mean: Floats) -> Floats:
        """Return 1 / a^2, given means of the target; 0 if the prior is conjugate."""
        if self.spread is None:
            return np.zeros_like(mean)
        return np.asarray((3.0 / (self.spread * (1.0 - mean**2))) ** 2)

    def reported(self, level: Floats, slopes: Floats, variance: Floats) -> Floats:
        """Convert parameters of scaled numbers to the units of the columns."""
        half, middle = self.half_and_middle
        slopes = slopes * (half[0] / half[1:])
        intercept = middle[0] + half[0] * level - slopes @ middle[1:]
        last = () if self.variance is not None else (variance[..., None] * half[0] ** 2,)
        return np.concatenate([intercept[..., None], slopes, *last], axis=-1)
