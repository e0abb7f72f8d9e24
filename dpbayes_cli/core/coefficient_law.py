"""Priors of regression coefficients: a normal law with any covariance, or independent Student-t or Laplace laws.

The scale of a coefficient may refer to the standard deviation of its column, and the law of the intercept to the means
of columns; these are not known beforehand.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from dpbayes_cli.privacy.lazy_numpy import np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.core.design import Design

LawName = Literal["normal", "student-t", "laplace"]
_KINK = 0.01
"""The absolute value in the Laplace density is smoothed within about this many scales of its kink."""
_LEAST_SD = 0.2
"""The variance of a column is increased by the square of this, a tenth of the range between the bounds of a number.
Otherwise priors would be very wide where the noise hides the standard deviation."""


@dataclass(frozen=True)
class CoefficientLaw:
    """The prior of all coefficients of a design.

    Attributes:
        means: the location of each coefficient; of an intercept with centered columns, that of the linear predictor
            at their means.
        scales: the scale of each coefficient: of a normal law its standard deviation, of a Laplace law the mean
            distance from its location.
        name: the family of the laws.
        freedom: the degrees of freedom of Student-t laws.
        correlations: the correlation matrix of a normal law; empty for independent coefficients.
        tau: the precision of every coefficient, if they are independent and normal with mean 0.
        per_sd: whether the scale of each coefficient is divided by the standard deviation of its column; empty if the
            law does not depend on the columns. Otherwise it is known only ``at`` given means and standard deviations.
        about_zero: whether standard deviations are about 0, because the design does not tell the means.
        centered: whether the law of the intercept, the first coefficient, is that of the linear predictor where this
            column has its mean; empty if ``per_sd`` is.
        centers: once the means are known, those of such columns, and 0 for others.
    """

    means: tuple[float, ...]
    scales: tuple[float, ...]
    name: LawName = "normal"
    freedom: float = 4.0
    correlations: tuple[tuple[float, ...], ...] = ()
    tau: float | None = None
    per_sd: tuple[bool, ...] = ()
    about_zero: bool = False
    centered: tuple[bool, ...] = ()
    centers: tuple[float, ...] = ()

    @classmethod
    def common(cls, width: int, tau: float) -> Self:
        """Return independent normal laws with mean 0 and precision tau."""
        return cls((0.0,) * width, (tau**-0.5,) * width, tau=tau)

    def at(self, means: Floats, squares: Floats) -> CoefficientLaw:
        """Return the law given the means of the columns and of their squares, shape (width,) each."""
        if not self.per_sd:
            return self
        scales = np.where(self.per_sd, self.scales / self.sds(means, squares), self.scales)
        centers = tuple(np.where(self.centered, means, 0.0).tolist()) if any(self.centered) else ()
        return replace(self.of_effects, scales=tuple(scales.tolist()), centers=centers)

    def given(self, rows: Any) -> CoefficientLaw:
        """Return the law given the rows of the design, shape (n, width), which may be sparse."""
        if not self.per_sd:
            return self
        return self.at(*(np.asarray(each.mean(axis=0)) for each in (rows, rows * rows)))

    def sds(self, means: Floats, squares: Floats) -> Floats:
        """Return the standard deviations to which scales refer, given means and mean squares of the columns."""
        return np.asarray(np.sqrt(np.maximum(squares - (not self.about_zero) * means**2, 0.0) + _LEAST_SD**2))

    @cached_property
    def of_effects(self) -> CoefficientLaw:
        """The law of the coefficients of standardized columns: centered, and divided by standard deviations."""
        return replace(self, per_sd=(), centered=())

    @property
    def wider(self) -> str:
        """The key of a prior with twice the scale."""
        if self.tau is not None:
            return f"precision={self.tau / 4.0:.3g}"
        own = [scale for scale, each in zip(self.scales, self.per_sd, strict=True) if each] if self.per_sd else []
        return f"effect={2.0 * max(own):.3g}" if own else f"spread={2.0 * max(self.scales):.3g}"

    @cached_property
    def _known_scales(self) -> Floats:
        if self.per_sd:
            raise ValueError("the law depends on means and standard deviations of columns that are not known")
        return np.array(self.scales)

    @cached_property
    def location(self) -> Floats:
        """The location of the coefficients, shape (width,)."""
        return np.asarray(np.linalg.solve(self._centering, self.means))

    @cached_property
    def _centering(self) -> Floats:
        """The matrix from coefficients to those of centered columns, shape (width, width)."""
        matrix = np.eye(len(self.means))
        if self.centers:
            matrix[0] += self.centers
        return matrix

    @cached_property
    def precision(self) -> Floats:
        """The inverse of the covariance of the normal law with these scales, shape (width, width)."""
        scales = self._known_scales
        precision = np.diag(scales**-2.0)
        if self.correlations:
            precision = np.linalg.inv(np.array(self.correlations)) / np.outer(scales, scales)
        return np.asarray(self._centering.T @ precision @ self._centering)

    @property
    def covariance(self) -> Floats:
        """The covariance, shape (width, width); of Student-t laws with at most 2 degrees of freedom that of 2.1."""
        return np.asarray(self._spread**2 * np.linalg.inv(self.precision))

    @property
    def as_normal(self) -> CoefficientLaw:
        """The normal law with this covariance."""
        return replace(self, name="normal", scales=tuple(self._spread * scale for scale in self.scales))

    @property
    def _spread(self) -> float:
        """How many scales the standard deviation is."""
        factor = {"normal": 1.0, "laplace": 2.0}.get(self.name) or 1.0 + 2.0 / max(self.freedom - 2.0, 0.1)
        return float(factor**0.5)

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
        scales = self._known_scales
        z = away @ self._centering.T / scales
        if self.name == "student-t":
            value = -0.5 * (self.freedom + 1.0) * np.log1p(z**2 / self.freedom).sum(axis=1)
            slopes = -(self.freedom + 1.0) * z / (self.freedom + z**2)
        else:
            size = np.sqrt(z**2 + _KINK**2)
            value, slopes = -size.sum(axis=1), -z / size
        return value, slopes / scales @ self._centering

    def draw(self, size: int, rng: np.random.Generator) -> Floats:
        """Return draws, shape (size, width)."""
        shape = size, len(self.means)
        if self.is_normal:
            root = np.linalg.cholesky(np.linalg.inv(self.precision))
            return np.asarray(self.location + rng.standard_normal(shape) @ root.T)
        standard = rng.laplace(size=shape) if self.name == "laplace" else rng.standard_t(self.freedom, shape)
        return np.asarray(self.location + np.linalg.solve(self._centering, (standard * self._known_scales).T).T)

    def quantiles(self, levels: Floats) -> Floats:
        """Return quantiles of each coefficient, shape (width, n_levels); NaN if means or scales are not known.

        If the intercept is a sum of Student-t or Laplace variables, they are those of such a law with its variance.
        """
        from scipy.special import ndtri, stdtrit

        if self.is_normal:
            standard: Floats = np.asarray(ndtri(levels))
        elif self.name == "student-t":
            standard = np.asarray(stdtrit(self.freedom, levels))
        else:
            standard = np.asarray(-np.sign(levels - 0.5) * np.log1p(-2.0 * np.abs(levels - 0.5)))
        if self.per_sd:
            unknown = np.array(self.per_sd) | (np.arange(len(self.means)) == 0) & any(self.centered)
            scales = np.where(unknown, np.nan, self.scales)
        else:
            scales = np.sqrt(np.diag(np.linalg.inv(self.precision)))
        return np.asarray(self.location[:, None] + scales[:, None] * standard)


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

    @abstractmethod
    def simulated_features(self, n_records: int, rng: np.random.Generator) -> Integers:
        """Draw codes of the features from a law that is drawn, too, shape (n_records, n_features)."""

    @abstractmethod
    def simulated_targets(self, scores: Floats, rng: np.random.Generator) -> Integers:
        """Draw a code of the target for each linear predictor, shape (n_records,).

        Their law is proportional to exp(-loss), unless the model has probabilities of classes.
        """
