"""What each method draws from at a price: temperature and prior precision, and the chain where one is released."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.experiments.logistic_regression.study import Method
from dpbayes_cli.mechanisms.samplers.langevin_calibration import (
    BELOW_TARGET,
    UNTEMPERED,
    CalibratedChain,
    Calibrator,
    LangevinOptions,
)
from dpbayes_cli.privacy.conversions import pure_rdp
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.privacy.noisy_descent import (
    concentrated_precision,
    diffuse_likelihood_power,
    minami_likelihood_power,
    mu_of_statement,
)

if TYPE_CHECKING:
    from dpbayes_cli.models.families.convex_loss import ConvexLossModel

POLICY = RecordPolicy(Neighbors.REPLACE_ONE)
"""Every column has a stand-in, so that records are complete and their number is public."""
_SLOPE = 1.0
"""The largest gradient of a record's loss, whose row has the norm one."""


@dataclass(frozen=True)
class Price:
    """A price: epsilon of Renyi divergence at an order, or epsilon at a delta.

    Attributes:
        epsilon: exact.
        order: the order, or None.
        delta: delta, or None.
    """

    epsilon: str
    order: str | None = None
    delta: str | None = None

    @property
    def family(self) -> str:
        """What is the same along an axis of epsilon."""
        return f"order {self.order}" if self.order is not None else f"delta {self.delta}"


@dataclass(frozen=True)
class Tempered:
    """The law of a draw: proportional to exp(-rho sum of losses - (tau / 2) |w|^2), or what a chain makes of it.

    Attributes:
        rho, tau: temperature and prior precision.
        radius: of the ball to which the coefficients are restricted, or None.
        step, steps: of the Langevin chain whose last iterate is drawn, or None: the law itself.
    """

    rho: float
    tau: float
    radius: float | None = None
    step: float | None = None
    steps: int | None = None

    def definition(self) -> dict[str, Any]:
        """Return the law as a document."""
        return asdict(self)


@dataclass(frozen=True)
class CappedChains(Calibrator):
    """Chains of no more than so many steps.

    Attributes:
        most_steps: the cap.
    """

    most_steps: int = 1 << 30

    def horizon(self, step: float, tau: float) -> int:
        """Return the default horizon, or the cap where that is shorter."""
        return min(super().horizon(step, tau), self.most_steps)


def tempered(method: Method, price: Price | None, model: ConvexLossModel, n_records: int, most_steps: int) -> Tempered:
    """Return what a method draws from at a price.

    Args:
        method: the method.
        price: the price; None: nothing is private.
        model: rows of norm one, and the prior precision n beta.
        n_records: the public number of records.
        most_steps: of a Langevin chain.

    Raises:
        SpecError: the price is too small for any draw.
        ValueError: the method has no such price.

    Source: Geumlek, Song and Chaudhuri 2017, Algorithms 4 and 5, and Figure 3; Minami et al. 2016, Theorem 7;
        mechanisms, posteriors of convex losses.
    """
    tau = model.precision
    if method == "true-posterior" or price is None:
        return Tempered(UNTEMPERED, tau)
    epsilon = float(price.epsilon)
    if method in {"gdp-langevin", "minami-langevin"}:
        options = LangevinOptions(epsilon=Decimal(price.epsilon))
        chains = CappedChains(model, options, n_records, model.curvature(n_records, 2), most_steps)
        chain = _gdp(chains, price) if method == "gdp-langevin" else _minami(chains, price)
        return Tempered(chain.likelihood_power, chain.tau, None, chain.step_size, chain.n_steps)
    if price.order is None:
        raise ValueError(f"{method} has a price at an order")
    order = float(price.order)
    if method == "rdp-diffuse":
        return Tempered(min(UNTEMPERED, diffuse_likelihood_power(order, epsilon, _SLOPE, tau)), tau)
    if method == "rdp-concentrated":
        return Tempered(UNTEMPERED, max(tau, concentrated_precision(order, epsilon, _SLOPE, UNTEMPERED)))
    radius = n_records / tau  # c / beta, the smallest ball that is known to hold the most probable coefficients
    return Tempered(min(UNTEMPERED, restricted_range(epsilon, order) / (2.0 * radius)), tau, radius)


def _gdp(chains: Calibrator, price: Price) -> CalibratedChain:
    """Return the chain of the largest temperature whose divergence, or whose delta, is within the price."""
    epsilon = float(price.epsilon)
    if price.delta is not None:
        return chains.with_largest_power(mu_of_statement(epsilon, float(price.delta)) * BELOW_TARGET)
    return chains.with_largest_power(math.sqrt(2.0 * epsilon / float(str(price.order))) * BELOW_TARGET)


def _minami(chains: Calibrator, price: Price) -> CalibratedChain:
    """Return the chain at the temperature of Theorem 7."""
    if price.delta is None:
        raise ValueError("the rule of Minami et al. has a price at a delta")
    tau = chains.model.precision
    rho = minami_likelihood_power(float(price.epsilon), float(price.delta), _SLOPE, tau) * BELOW_TARGET
    return chains.chain(min(UNTEMPERED, rho), tau)


def divergences_of_range(range_: float, order: float) -> tuple[float, float]:
    """Return the Renyi divergences that follow from pure epsilon-DP and from epsilon-bounded range, for one epsilon.

    Both hold for a draw of a restricted posterior, whose log likelihood ratios have a range of epsilon.

    Source: at order 1 the limits: epsilon tanh(epsilon / 2), and epsilon^2 / 8 (Cesar and Rogers 2021).
    """
    pure = range_ * math.tanh(range_ / 2.0) if order == 1.0 else pure_rdp(range_, order)
    return pure, order * range_**2 / 8.0


def restricted_range(epsilon: float, order: float) -> float:
    """Return the largest range whose divergence at an order is within epsilon: the safe end of a bisection."""
    low, high = 0.0, 4.0 * epsilon + 4.0 * math.sqrt(epsilon) + 4.0
    for _ in range(200):
        middle = (low + high) / 2.0
        if min(divergences_of_range(middle, order)) <= epsilon:
            low = middle
        else:
            high = middle
    return low
