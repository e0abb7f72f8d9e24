"""The tempered posterior of one parameter on a public grid, and its exact Renyi curve."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import Floats, normalize
from dpbayes_cli.core.options import PowerTarget
from dpbayes_cli.core.plan import Sampler
from dpbayes_cli.mechanisms.samplers.tempering import (
    UP,
    DrawRequest,
    Tempering,
    calibrate_power,
    public_support,
    weighted_moments,
)
from dpbayes_cli.models.families.capabilities import DECIMALS, OneParameterFamily, floats
from dpbayes_cli.privacy.conjugate import curve_slack
from dpbayes_cli.privacy.conversions import round_up
from dpbayes_cli.privacy.grid import EXACT, GRID_SLACK, CellWeights, cell_weights, uniform_fraction
from dpbayes_cli.privacy.kinds import Points
from dpbayes_cli.privacy.lazy_numpy import np

_CURVE_ORDERS = (2, 4, 8, 16, 32, 64)
_CURVE_WORK = 1 << 26
"""The largest number of density evaluations for an exact Renyi curve, which take about a second. If a curve needs more,
the general bound is charged."""
MAX_LOG_TERMS = 1e14
"""If the terms of a log density are at most this large, floats find the likely cells, because their rounding error is
below half a nat."""


@dataclass(frozen=True)
class ScalarSampler(Sampler):
    """The tempered posterior of one parameter on the midpoints of equal cells of its public support.

    Privacy: let t be the sum of the records' statistics. The weight of cell i is exp(T (t a(theta_i) + n b(theta_i)))
        times a base measure that does not depend on the data. Replacing a record changes t by at most ``width``, the
        range of a record's statistic. So the log ratio of two neighbors' laws varies over the cells by at most T R,
        where R = width * |a(high) - a(low)|. The rounding of weights to integers adds less than ``GRID_SLACK``.
    Source: Wang, Fienberg and Smola 2015; Foulds et al. 2016 sec. 3.1; Zhang et al. 2016 sec. 4.
    """

    model: OneParameterFamily
    n_records: int
    likelihood_power: Decimal
    power_applies_to: PowerTarget
    support: tuple[float, float]
    n_cells: int

    @property
    def _width(self) -> Decimal:
        low, high = map(Decimal, self.support)
        return EXACT.divide(EXACT.subtract(high, low), Decimal(self.n_cells))

    @property
    def magnitude(self) -> float:
        """A bound, for any data, on the sum of the absolute terms of a log density.

        The rounding error of the log density is 2^-50 of this bound. Theta itself is rounded, which matters if the
        density is steep, for example at a probability close to one. So for each term the bound includes the change of
        the term when theta changes by a factor 1 + 2^-40, divided by 2^-40.
        """
        theta = np.linspace(*self.support, 1001)
        least, width, steps = self.model.grid
        largest_value = max(abs(float(least)), abs(float(least + width * steps)))
        power = float(self.likelihood_power)
        terms, shifted_terms = (
            np.stack([*self.model.natural(x, floats()), self.model.log_prior(x, floats())])
            for x in (theta, theta * (1.0 - 2.0**-40))
        )
        a, b, prior = (np.abs(terms) + 2.0**40 * np.abs(terms - shifted_terms)).max(axis=1)
        if self.power_applies_to == "joint":  # the power of a mode estimate may exceed one; it applies to the prior too
            prior *= max(1.0, power)
        return float(2.0 * (power * self.n_records * (largest_value * a + b) + prior))

    def log_density(self, theta: Any, total: Any, *, exact: bool) -> Any:
        """Return the unnormalized log density at theta, in floats or in exact decimals."""
        arithmetic = DECIMALS if exact else floats()
        power: Any = self.likelihood_power if exact else float(self.likelihood_power)
        a, b = self.model.natural(theta, arithmetic)
        prior = self.model.log_prior(theta, arithmetic)
        return prior * (power if self.power_applies_to == "joint" else 1) + (a * total + b * self.n_records) * power

    @property
    def cells(self) -> Floats:
        """The midpoints of the cells in floats, shape (n_cells,)."""
        return np.asarray(self.support[0] + float(self._width) * (np.arange(self.n_cells) + 0.5))

    def logs(self, values: Sequence[int]) -> Floats:
        """Return the unnormalized log densities of the cells in floats, shape (n_cells,)."""
        total = self.model.total(values, self.n_records)
        return np.asarray(self.log_density(self.cells, float(total), exact=False))

    def exact_log(self, values: Sequence[int]) -> Callable[[int], Decimal]:
        """Return a function from a cell to its unnormalized log density in ``EXACT`` arithmetic."""
        total = self.model.total(values, self.n_records)
        exact_total = EXACT.divide(Decimal(total.numerator), Decimal(total.denominator))
        low, width = Decimal(self.support[0]), self._width

        def exact(cell: int) -> Decimal:
            with localcontext(EXACT):
                middle = low + width * (Decimal(cell) + Decimal("0.5"))
                return Decimal(self.log_density(middle, exact_total, exact=True))

        return exact

    def weights(self, values: Sequence[int]) -> CellWeights:
        """Return the integer weights of the cells, computed from exact integer statistics."""
        return cell_weights(self.logs(values), self.exact_log(values))

    def draw(self, values: Sequence[int], size: int) -> list[tuple[float, ...]]:
        """Draw cells exactly, then a uniform point in each drawn cell."""
        low, width = self.support[0], float(self._width)
        return [(low + width * (cell + uniform_fraction()),) for cell in self.weights(values).draw(size)]

    def is_possible(self, draw: Sequence[float]) -> bool:
        return len(draw) == 1 and self.support[0] <= draw[0] <= self.support[1]

    def moments(self, values: Sequence[int]) -> tuple[float, float]:
        """Return the mean and standard deviation of a drawn cell's midpoint."""
        return weighted_moments(normalize(self.logs(values)), self.cells)


def grid_sampler(
    model: OneParameterFamily, request: DrawRequest, most: Decimal | None
) -> tuple[ScalarSampler, Tempering]:
    """Return the tempered posterior of a family on a public grid, and its tempering; see ``calibrate_power``."""
    n = request.n_records
    low, high = support = public_support(model, request.support)
    _, width, steps = model.grid
    with localcontext(EXACT):
        (a_low, _), (a_high, _) = (model.natural(Decimal(end), DECIMALS) for end in (low, high))
        exact = abs(a_high - a_low) * width.numerator * steps / width.denominator
    spread = UP.multiply(exact, Decimal("1") + Decimal("1e-25"))
    tempering = calibrate_power(request, spread, GRID_SLACK, most)
    n_cells = min(1 << 20, max(1 << 10, 1 << math.ceil(math.log2(64.0 * math.sqrt(n)))))
    sampler = ScalarSampler(model, n, tempering.likelihood_power, request.power_applies_to, support, n_cells)
    if not sampler.magnitude <= MAX_LOG_TERMS:
        raise SpecError(
            "the log density on this support is too large for double precision",
            where="sampling.support",
            hint="state bounds, a prior and a support closer to zero, relative to the width of the bounds",
        )
    return sampler, tempering


@lru_cache(maxsize=64)
def exact_curve(sampler: ScalarSampler) -> Points:
    """Return the Renyi curve of one draw: the maximum over all neighbors; empty if computing it takes too long.

    Privacy: the laws on the grid for two sums S and S' of the statistic are in one exponential family with natural
        statistic T a(theta). Let C(S) be the log of the sum of the cells' weights. The Renyi divergence of the two laws
        at order l is [C(l S + (1 - l) S') - l C(S)] / (l - 1) + C(S'). For a fixed S it grows with |S - S'|. So only
        sums that differ by the full range of one record are compared, in both directions. The result is rounded up, and
        the effect of integer weights is added.
    Source: Geumlek et al. 2017 (the formula); the rest is derived here.
    """
    _, _, steps = sampler.model.grid
    pairs = (sampler.n_records - 1) * steps + 1
    if 2 * pairs * len(_CURVE_ORDERS) * sampler.n_cells > _CURVE_WORK:
        return ()
    error = 1e-10 + 2.0**-46 * sampler.magnitude  # bounds the error of a log-partition; multiplied by the order below
    return tuple(
        (
            Decimal(order),
            round_up(_largest_divergence(sampler, order, pairs) * (1 + 1e-9) + order * error + curve_slack(order)),
        )
        for order in _CURVE_ORDERS
    )


def _largest_divergence(sampler: ScalarSampler, order: int, pairs: int) -> float:
    least, width, steps = sampler.model.grid
    unit, (low, high) = float(width), sampler.support
    theta = low + (high - low) / sampler.n_cells * (np.arange(sampler.n_cells) + 0.5)
    base = sampler.log_density(theta, 0.0, exact=False)
    tilt = float(sampler.likelihood_power) * sampler.model.natural(theta, floats())[0]

    def log_partition(totals: Floats) -> Floats:
        """Return the log of the sum of the cells' weights for each total."""
        result, size = [], max(1, (1 << 21) // len(base))
        for start in range(0, len(totals), size):
            logs = base + np.multiply.outer(totals[start : start + size], tilt)
            largest = logs.max(axis=1)
            result.append(largest + np.log(np.exp(logs - largest[:, None]).sum(axis=1)))
        return np.concatenate(result)

    lower = sampler.n_records * float(least) + unit * np.arange(pairs, dtype=np.float64)
    upper = lower + unit * steps
    at_lower, at_upper = log_partition(lower), log_partition(upper)
    up = (log_partition(order * upper + (1 - order) * lower) - order * at_upper) / (order - 1) + at_lower
    down = (log_partition(order * lower + (1 - order) * upper) - order * at_lower) / (order - 1) + at_upper
    return float(max(up.max(), down.max(), 0.0))
