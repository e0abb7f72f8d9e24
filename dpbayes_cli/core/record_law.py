"""The law of one record's contribution to a statistic of sums, given the parameters of a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Complexes, Floats


class RecordLaw(ABC):
    """The law of one record's contribution to a statistic, given the parameters.

    The parameters are transformed to unconstrained coordinates, so that every point of R^p is allowed. The prior
    density is the density of these coordinates, with the Jacobian. Arrays of points have the shape (..., p).
    """

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The number p of coordinates."""

    @abstractmethod
    def draw_prior(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw points from the prior, shape (size, p)."""

    @abstractmethod
    def log_prior(self, points: Floats) -> Floats:
        """Return the log prior density of the unconstrained coordinates, up to a constant, shape (...)."""

    @abstractmethod
    def moments(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the mean and the covariance of one record's contribution, in units of the integer statistic.

        A record that contributes nothing, because it is out of bounds, counts as zero.

        Returns:
            Means, shape (..., k), and covariances, shape (..., k, k), where k is the number of components.
        """

    def mean(self, points: Floats) -> Floats:
        """Return the mean of one record's contribution; a subclass may override this with a cheaper computation."""
        return self.moments(points)[0]

    @abstractmethod
    def parameters(self, points: Floats) -> Floats:
        """Return the reported parameters, shape (..., n_parameters)."""

    @abstractmethod
    def complete_data_sd(self, points: Floats, n_records: Floats) -> Floats:
        """Return the posterior sd of each reported parameter given exact data with typical sums.

        Args:
            points: the parameters that generate the data, shape (..., p).
            n_records: the number of records, shape (...).
        """

    def warning(self, points: Floats) -> str:
        """Return a warning about the law's approximations for readers of the posterior; empty if there is none.

        Args:
            points: posterior samples, shape (n_samples, p).
        """
        return ""

    @abstractmethod
    def draw_plug_in(self, observed: Floats, n_records: float, size: int, rng: np.random.Generator) -> Floats:
        """Draw the reported parameters from the plug-in posterior: the conjugate posterior that ignores the noise.

        Args:
            observed: the privatized statistic; if no data set has this statistic, the nearest possible one is used.
            n_records: the record count that is treated as exact.
        """


class LatentSums(ABC):
    """The prior law of sums over all records, and the law of the parameters given these sums.

    Points are unconstrained coordinates, shape (n, dimension). The number of records is one more coordinate.
    """

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The number of coordinates."""

    @abstractmethod
    def evaluate(
        self, points: Floats, totals: Floats
    ) -> tuple[Floats, Floats, Callable[[Floats], tuple[Floats, Floats]]]:
        """Return the log prior density of points, the sums, and a function that returns gradients.

        Args:
            points: shape (n, dimension).
            totals: the numbers of records, shape (n,).

        Returns:
            The log density of the coordinates given the number of records, shape (n,); the sums, in units of the
            integer statistic, shape (n, n_components); and a function of a gradient by the sums that returns the
            gradient of the log density plus the sums times that gradient, by coordinates and by totals.
        """

    @abstractmethod
    def draw_parameters(self, points: Floats, totals: Floats, rng: np.random.Generator) -> Floats:
        """Draw the reported parameters given the sums, shape (n, n_parameters)."""

    @abstractmethod
    def data_variance(self, points: Floats, totals: Floats, rng: np.random.Generator) -> Floats:
        """Return the variance of each reported parameter given the sums, averaged over points, (n_parameters,)."""

    @abstractmethod
    def draw_plug_in(self, observed: Floats, n_records: float, size: int, rng: np.random.Generator) -> Floats:
        """Draw the reported parameters from the plug-in posterior; see ``RecordLaw.draw_plug_in``."""

    def warning(self, points: Floats) -> str:
        """Return a warning about the law's approximations for readers of the posterior; empty if there is none."""
        return ""


class ScalarLaw(RecordLaw):
    """The law of the number that a record contributes, with one parameter and a known characteristic function."""

    @property
    def dimension(self) -> int:
        """One coordinate."""
        return 1

    @property
    @abstractmethod
    def counts_all(self) -> bool:
        """Whether every counted record contributes, because no record can be out of bounds."""

    @abstractmethod
    def log_shares(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the log probabilities, shape (n_points, 1), that a record contributes and that it is out of bounds."""

    @property
    @abstractmethod
    def spacing(self) -> int:
        """The spacing of the lattice on which all possible sums lie, or 0 if inference may ignore the lattice."""

    @property
    @abstractmethod
    def span(self) -> float:
        """The largest contribution of a record to the sum."""

    @property
    @abstractmethod
    def prior_range(self) -> tuple[float, float]:
        """An interval of the coordinate outside which the prior probability is at most 1e-12."""

    @property
    @abstractmethod
    def public_range(self) -> tuple[float, float]:
        """The coordinates, ascending, at which the mean of a number is a tenth of the range above its lower bound and
        a tenth below its upper bound.
        """

    @abstractmethod
    def characteristic(self, points: Floats, frequencies: Floats | Complexes) -> Complexes:
        """Return E[exp(i u t)], where t is what one contributing record adds to the sum.

        Args:
            points: shape (n_points, 1).
            frequencies: the values of u, per unit of the integer statistic, shape (1 or n_points, n_frequencies);
                complex values give exponential moments.

        Returns:
            Shape (n_points, n_frequencies).
        """
