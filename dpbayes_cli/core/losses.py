"""Convex losses of a linear predictor t; privacy rests on the bounds on their slope and curvature."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbayes_cli.privacy.lazy_numpy import np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats


class Loss(ABC):
    """A loss l(t; y), convex and differentiable in t, never negative.

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
    """A loss with a second derivative that does not depend on y."""

    @abstractmethod
    def curvature(self, t: Floats) -> Floats:
        """Return d2l/dt2, elementwise."""


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

    def slope(self, t: Floats, y: Floats) -> Floats:
        """Return sigma(t) - y."""
        from scipy.special import expit

        return expit(t) - y

    def curvature(self, t: Floats) -> Floats:
        """Return sigma(t) (1 - sigma(t))."""
        from scipy.special import expit

        return np.asarray(expit(t) * expit(-t))


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
        from scipy.special import ndtr

        return t * ndtr(t) + np.exp(-0.5 * t * t) / math.sqrt(2.0 * math.pi) - y * t

    def slope(self, t: Floats, y: Floats) -> Floats:
        """Return Phi(t) - y."""
        from scipy.special import ndtr

        return ndtr(t) - y

    def curvature(self, t: Floats) -> Floats:
        """Return phi(t)."""
        return np.exp(-0.5 * t * t) / math.sqrt(2.0 * math.pi)


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
