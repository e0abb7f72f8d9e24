"""Priors of regression coefficients: a normal law with any covariance, or independent Student-t or Laplace laws."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from dpbayes_cli.privacy.lazy_numpy import np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.core.design import Design

LawName = Literal["normal", "student-t", "laplace"]
_KINK = 0.01
"""The absolute value in the Laplace density is smoothed within about this many scales of its kink."""


@dataclass(frozen=True)
class CoefficientLaw:
    """The prior of all coefficients of a design.

    Attributes:
        means: the location of each coefficient.
        scales: the scale of each coefficient: of a normal law its standard deviation, of a Laplace law the mean
            distance from its location.
        name: the family of the laws.
        freedom: the degrees of freedom of Student-t laws.
        correlations: the correlation matrix of a normal law; empty for independent coefficients.
        tau: the precision of every coefficient, if they are independent and normal with mean 0.
    """

    means: tuple[float, ...]
    scales: tuple[float, ...]
    name: LawName = "normal"
    freedom: float = 4.0
    correlations: tuple[tuple[float, ...], ...] = ()
    tau: float | None = None

    @classmethod
    def common(cls, width: int, tau: float) -> Self:
        """Return independent normal laws with mean 0 and precision tau."""
        return cls((0.0,) * width, (tau**-0.5,) * width, tau=tau)

    @cached_property
    def location(self) -> Floats:
        """The means as an array, shape (width,)."""
        return np.array(self.means)

    @cached_property
    def precision(self) -> Floats:
        """The inverse of the covariance of the normal law with these scales, shape (width, width)."""
        scales = np.array(self.scales)
        if not self.correlations:
            return np.diag(scales**-2.0)
        return np.asarray(np.linalg.inv(np.array(self.correlations)) / np.outer(scales, scales))

    @property
    def covariance(self) -> Floats:
        """The covariance, shape (width, width); of Student-t laws with at most 2 degrees of freedom that of 2.1."""
        factor = {"normal": 1.0, "laplace": 2.0}.get(self.name) or 1.0 + 2.0 / max(self.freedom - 2.0, 0.1)
        return np.asarray(factor * np.linalg.inv(self.precision))

    @property
    def is_normal(self) -> bool:
        """Whether the law is normal."""
        return self.name == "normal"

    def log_density(self, beta: Floats) -> tuple[Floats, Floats]:
        """Return log densities up to a constant, shape (n,), and their gradients, shape (n, width)."""
        away = beta - self.location
        if self.is_normal:
            pulled = away @ self.precision
            return -0.5 * (pulled * away).sum(axis=1), -pulled
        scales = np.array(self.scales)
        z = away / scales
        if self.name == "student-t":
            value = -0.5 * (self.freedom + 1.0) * np.log1p(z**2 / self.freedom).sum(axis=1)
            return value, -(self.freedom + 1.0) * z / (self.freedom + z**2) / scales
        size = np.sqrt(z**2 + _KINK**2)
        return -size.sum(axis=1), -z / size / scales

    def mixing_precisions(self, beta: Floats, rng: np.random.Generator) -> Floats:
        """Draw the precision of each coefficient given its value; given these, Student-t and Laplace laws are normal.

        Source: Andrews and Mallows 1974 (scale mixtures of normal laws).
        """
        z = (beta - self.location) / np.array(self.scales)
        if self.name == "student-t":
            shares = rng.gamma(0.5 * (self.freedom + 1.0), 2.0 / (self.freedom + z**2))
        else:
            shares = rng.wald(1.0 / np.maximum(np.abs(z), 1e-6), 1.0)
        return np.asarray(shares / np.array(self.scales) ** 2)

    def draw(self, size: int, rng: np.random.Generator) -> Floats:
        """Return draws, shape (size, width)."""
        shape = size, len(self.means)
        if self.is_normal:
            root = np.linalg.cholesky(np.linalg.inv(self.precision))
            return np.asarray(self.location + rng.standard_normal(shape) @ root.T)
        standard = rng.laplace(size=shape) if self.name == "laplace" else rng.standard_t(self.freedom, shape)
        return np.asarray(self.location + standard * np.array(self.scales))

    def quantiles(self, levels: Floats) -> Floats:
        """Return quantiles of each coefficient, shape (width, n_levels)."""
        from scipy.special import ndtri, stdtrit

        if self.is_normal:
            standard: Floats = np.asarray(ndtri(levels))
        elif self.name == "student-t":
            standard = np.asarray(stdtrit(self.freedom, levels))
        else:
            standard = np.asarray(-np.sign(levels - 0.5) * np.log1p(-2.0 * np.abs(levels - 0.5)))
        return np.asarray(self.location[:, None] + np.array(self.scales)[:, None] * standard)


class HasCoefficients:
    """A model whose parameters are the coefficients of a design.

    Attributes:
        design: the map from a record's features to a row of bounded norm.
        prior: the prior of the coefficients.
    """

    design: Design
    prior: CoefficientLaw
    has_likelihood: ClassVar[bool] = False
    """Whether estimates converge to the coefficients from which records are simulated."""
    accepts_posteriors: ClassVar[bool] = False
    """Whether the prior may be the posterior of another release of the same regression."""
