"""Convex losses of a linear predictor t; privacy rests on the bounds on their slope and curvature."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbayes_cli.privacy.lazy_numpy import np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_LEGENDRE_NODES = 24
_LARGEST_LOG_RATE = 30.0
_FEW_COUNTS = 20
"""Up to this bound, sums over counts do not overflow at the largest rate."""


class Loss(ABC):
    """A loss l(t; y), convex and differentiable in t.

    Privacy: for every record whose row has norm c, the gradient in the coefficients has norm at most ``slope_bound`` *
        c, and the Hessian has norm at most ``curvature_bound`` * c^2.
    Source: derived here.
    """

    @property
    @abstractmethod
    def slope_bound(self) -> float:
        """An upper bound of |dl/dt|."""

    @property
    @abstractmethod
    def curvature_bound(self) -> float:
        """An upper bound of d2l/dt2."""

    @abstractmethod
    def value(self, t: Floats, y: Floats) -> Floats:
        """Return l(t; y), elementwise."""

    @abstractmethod
    def slope(self, t: Floats, y: Floats) -> Floats:
        """Return dl/dt, elementwise."""


class CurvedLoss(Loss):
    """The loss A(t) - y t of an outcome y in 0..largest_outcome with mean A'(t); its curvature does not depend on y.

    At the coefficients from which records were drawn, the expected slope is zero. So coefficients can be inferred even
    if the loss is no log likelihood.

    Attributes:
        largest_outcome: the largest outcome.
    """

    largest_outcome: int = 1

    @abstractmethod
    def mean(self, t: Floats) -> Floats:
        """Return the mean of the outcome, which increases with t, elementwise."""

    @abstractmethod
    def curvature(self, t: Floats) -> Floats:
        """Return the derivative of the mean, elementwise."""

    def slope(self, t: Floats, y: Floats) -> Floats:
        """Return the mean minus the outcome."""
        return self.mean(t) - y

    def moments(self, t: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return mean and variance of the outcome, and their derivatives; of an outcome of 0 or 1 unless overridden."""
        mean, curvature = self.mean(t), self.curvature(t)
        return mean, mean * (1.0 - mean), curvature, curvature * (1.0 - 2.0 * mean)

    def start(self) -> float:
        """Return the intercept at the first point: a public guess that needs no data."""
        return 0.0


@dataclass(frozen=True)
class LogisticLoss(CurvedLoss):
    """The loss log(1 + exp(t)) - y t with y in {0, 1}, the negative log likelihood of logistic regression.

    The slope sigma(t) - y is in (-1, 1), and the curvature sigma(t) (1 - sigma(t)) is at most 1/4.
    """

    slope_bound = 1.0
    curvature_bound = 0.25

    def value(self, t: Floats, y: Floats) -> Floats:
        """Return log(1 + exp(t)) - y t."""
        return np.logaddexp(0.0, t) - y * t

    def mean(self, t: Floats) -> Floats:
        """Return sigma(t)."""
        from scipy.special import expit

        return np.asarray(expit(t))

    def curvature(self, t: Floats) -> Floats:
        """Return sigma(t) (1 - sigma(t))."""
        from scipy.special import expit

        return np.asarray(expit(t) * expit(-t))

    def moments(self, t: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """See ``CurvedLoss.moments``; the exponential of NumPy takes a third of the time of ``expit``."""
        odds = np.exp(np.minimum(-t, 700.0))
        mean = 1.0 / (1.0 + odds)
        rest = odds * mean
        variance = mean * rest
        return mean, variance, variance, variance * (rest - mean)


@dataclass(frozen=True)
class ProbitLoss(CurvedLoss):
    """The loss A(t) - y t with A(t) = t Phi(t) + phi(t) and y in {0, 1}, a pseudo-likelihood with canonical link.

    The slope Phi(t) - y is in (-1, 1), and the curvature phi(t) is at most phi(0). This is not the probit log
    likelihood, whose gradients are unbounded.
    """

    slope_bound = 1.0
    curvature_bound = 1.0 / math.sqrt(2.0 * math.pi) * (1.0 + 1e-15)  # phi(0), rounded up

    def value(self, t: Floats, y: Floats) -> Floats:
        """Return t Phi(t) + phi(t) - y t."""
        return t * self.mean(t) + self.curvature(t) - y * t

    def mean(self, t: Floats) -> Floats:
        """Return Phi(t)."""
        from scipy.special import ndtr

        return np.asarray(ndtr(t))

    def curvature(self, t: Floats) -> Floats:
        """Return phi(t)."""
        return np.exp(-0.5 * t * t) / math.sqrt(2.0 * math.pi)


@dataclass(frozen=True)
class CountLoss(CurvedLoss):
    """The loss A(t) - y t of a count y = min(Y, upper), where Y is Poisson with mean exp(t) and A'(t) = E[y].

    Clamped counts have the mean A'(t), so the expected slope is zero at the coefficients of the unclamped counts. The
    slope is in [-upper, upper], and the curvature exp(t) P(Y < upper) is at most ``upper``. If no count is clamped,
    the loss is the negative log likelihood of Poisson regression. Values are up to a constant, and may be negative.

    Attributes:
        upper: the public bound at which counts are clamped.
    """

    upper: int

    @property
    def largest_outcome(self) -> int:  # type: ignore[override]
        """The bound."""
        return self.upper

    @property
    def slope_bound(self) -> float:
        """The bound."""
        return float(self.upper)

    @property
    def curvature_bound(self) -> float:
        """The bound: exp(t) P(Y < upper) = E[Y; Y <= upper], and at most ``upper`` P(Y <= upper)."""
        return float(self.upper)

    def value(self, t: Floats, y: Floats) -> Floats:
        """Return A(t) - A(0) - y t, where A is integrated by quadrature."""
        nodes, weights = np.polynomial.legendre.leggauss(_LEGENDRE_NODES)
        means = (weight / 2.0 * self.mean(t * (1.0 + node) / 2.0) for node, weight in zip(nodes, weights, strict=True))
        return t * sum(means) - y * t

    def mean(self, t: Floats) -> Floats:
        """Return E[y]."""
        return self._moments(t, self._incomplete_gamma)[0]

    def curvature(self, t: Floats) -> Floats:
        """Return exp(t) P(Y < upper)."""
        return self._moments(t, self._incomplete_gamma)[2]

    def moments(self, t: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return mean and variance of the clamped count, and their derivatives, fast for small bounds."""
        return self._moments(t, self._sum if self.upper <= _FEW_COUNTS else self._incomplete_gamma)

    def _incomplete_gamma(self, rate: Floats) -> Floats:
        """Return P(Y < upper)."""
        from scipy.special import gammaincc

        return np.asarray(gammaincc(float(self.upper), rate))

    def _sum(self, rate: Floats) -> Floats:
        """Return P(Y < upper) as a sum of positive terms, which takes a fraction of the time."""
        total = np.ones_like(rate)
        for k in range(self.upper - 1, 0, -1):
            total *= rate / k
            total += 1.0
        return np.exp(-rate) * total

    def _moments(self, t: Floats, below_upper: Callable[[Floats], Floats]) -> tuple[Floats, Floats, Floats, Floats]:
        """Return what ``moments`` returns, given a function that returns P(Y < upper).

        They follow from E[Y; Y < upper] = rate P(Y < upper - 1) and E[Y (Y - 1); Y < upper] = rate^2 P(Y < upper - 2).
        """
        from scipy.special import gammaln

        t = np.clip(t, -_LARGEST_LOG_RATE, _LARGEST_LOG_RATE)
        rate, upper = np.exp(t), float(self.upper)
        below = below_upper(rate)
        at = np.exp((upper - 1.0) * t - rate - gammaln(upper))  # P(Y = upper - 1)
        first = rate * (below - at)
        mean = first + upper * (1.0 - below)
        square = rate * (first - at * (upper - 1.0)) + first + upper**2 * (1.0 - below)
        curvature = rate * below
        variance = np.asarray(np.maximum(square - mean**2, 0.0))
        return np.asarray(mean), variance, np.asarray(curvature), 2.0 * rate * first + curvature * (1.0 - 2.0 * mean)

    def start(self) -> float:
        """Return the log of a quarter of the bound, because most counts are below their bound."""
        return math.log(self.upper / 4.0)


@dataclass(frozen=True)
class HuberLoss(Loss):
    """Huber's loss of the residual r = (t - y) / scale: r^2 / 2 up to ``threshold``, linear beyond.

    The slope is clip(r, -threshold, threshold) / scale, and the curvature is at most 1 / scale^2.

    Attributes:
        threshold: the residual, in units of the scale, beyond which the loss is linear.
        scale: the scale of residuals, in units of y.
    """

    threshold: float
    scale: float

    @property
    def slope_bound(self) -> float:
        """threshold / scale."""
        return self.threshold / self.scale

    @property
    def curvature_bound(self) -> float:
        """1 / scale^2."""
        return 1.0 / self.scale**2

    def value(self, t: Floats, y: Floats) -> Floats:
        """Return the loss."""
        r = np.abs(t - y) / self.scale
        inside = np.minimum(r, self.threshold)
        return inside * (r - inside / 2.0)

    def slope(self, t: Floats, y: Floats) -> Floats:
        """Return the clipped residual, divided by the scale."""
        return np.clip((t - y) / self.scale, -self.threshold, self.threshold) / self.scale


@dataclass(frozen=True)
class QuantileLoss(Loss):
    """The mean pinball loss of r + U, where r = (t - y) / scale and U is uniform on [-smoothing, smoothing].

    The slope is (P(r + U > 0) - level) / scale; the curvature is at most 1 / (2 * smoothing * scale^2).

    Attributes:
        level: the quantile, in (0, 1).
        smoothing: half the width of the interval in which the kink is smoothed, in units of the scale.
        scale: the scale of residuals, in units of y.
    """

    level: float
    smoothing: float
    scale: float

    @property
    def slope_bound(self) -> float:
        """max(level, 1 - level) / scale."""
        return max(self.level, 1.0 - self.level) / self.scale

    @property
    def curvature_bound(self) -> float:
        """1 / (2 * smoothing * scale^2)."""
        return 1.0 / (2.0 * self.smoothing * self.scale**2)

    def value(self, t: Floats, y: Floats) -> Floats:
        """Return the mean pinball loss of r + U."""
        r = (t - y) / self.scale
        inside = np.clip(r, -self.smoothing, self.smoothing)
        positive = np.square(inside + self.smoothing) / (4.0 * self.smoothing) + np.maximum(r - self.smoothing, 0.0)
        return positive - self.level * r

    def slope(self, t: Floats, y: Floats) -> Floats:
        """Return (P(r + U > 0) - level) / scale, where U is uniform on [-smoothing, smoothing]."""
        share = np.clip(0.5 + (t - y) / (2.0 * self.smoothing * self.scale), 0.0, 1.0)
        return (share - self.level) / self.scale


@dataclass(frozen=True)
class SmoothHingeLoss(Loss):
    """The hinge loss max(0, 1 - m) of the margin m = (2 y - 1) t, smoothed for m between 1 - smoothing and 1.

    The slope in m is -clip((1 - m) / smoothing, 0, 1), and the curvature is at most 1 / smoothing.
    """

    smoothing: float
    slope_bound = 1.0

    @property
    def curvature_bound(self) -> float:
        """1 / smoothing."""
        return 1.0 / self.smoothing

    def value(self, t: Floats, y: Floats) -> Floats:
        """Return the loss."""
        shortfall = 1.0 - (2.0 * y - 1.0) * t
        inside = np.clip(shortfall, 0.0, self.smoothing)
        return inside * inside / (2.0 * self.smoothing) + np.maximum(shortfall - self.smoothing, 0.0)

    def slope(self, t: Floats, y: Floats) -> Floats:
        """Return the slope with respect to t."""
        sign = 2.0 * y - 1.0
        return -sign * np.clip((1.0 - sign * t) / self.smoothing, 0.0, 1.0)
