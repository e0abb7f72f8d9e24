"""The input of inference: a latent statistic with a prior, observed with noise of a public law."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Complexes, Floats, Integers


@dataclass(frozen=True)
class RecordCount:
    """The public knowledge about the number of records that contribute to a statistic.

    Attributes:
        kind: ``known`` (exactly n), ``at-most`` (uniform on 0..n a priori) or ``unbounded`` (uniform on 0, 1, 2, ...).
        n: the public number of records, or its upper limit; 0 for ``unbounded``.
    """

    kind: Literal["known", "at-most", "unbounded"]
    n: int = 0


@dataclass(frozen=True)
class NoisyCounts:
    """Noisy category counts: exact counts c with a Dirichlet prior on theta, observed with integer noise.

    The joint law is theta ~ Dirichlet(concentration), c | theta, m ~ Multinomial(m, theta), m as ``total`` says, and
    observed_k = c_k + noise independently for each observed k. Inference conditions on ``observed`` alone.

    Attributes:
        concentration: K positive prior parameters.
        observed: K privatized counts; None for a count that was not released.
        noise: the law of the noise.
        total: what is known about m = sum of c.
    """

    concentration: tuple[float, ...]
    observed: tuple[int | None, ...]
    noise: NoiseLaw
    total: RecordCount


class RecordLaw(ABC):
    """The law of one record's contribution to a statistic, given the parameters.

    Parameters are handled in unconstrained coordinates: every point of R^p is allowed. The prior density is that of the
    coordinates, Jacobian included. Arrays of points have any leading shape ``...`` and p last.
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
        """Return the log density of the prior in these coordinates, up to a constant, shape (...)."""

    @abstractmethod
    def moments(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the mean and the covariance of one record's contribution, in units of the integer statistic.

        A record that contributes nothing, because it is out of bounds, counts as zero.

        Returns:
            Means, shape (..., k), and covariances, shape (..., k, k), k the number of components.
        """

    def mean(self, points: Floats) -> Floats:
        """Return the mean of one record's contribution; a subclass may override it if it can avoid the work of
        ``moments``."""
        return self.moments(points)[0]

    @abstractmethod
    def parameters(self, points: Floats) -> Floats:
        """Return the reported parameters, shape (..., n_parameters)."""

    @abstractmethod
    def complete_data_sd(self, points: Floats, n_records: Floats) -> Floats:
        """Return the sd of each reported parameter in the complete-data posterior, after records with typical sums.

        Args:
            points: the parameters that generate the data.
            n_records: the number of records, in the leading shape of ``points``.
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
            observed: the privatized statistic; the nearest possible statistic is used in its place.
            n_records: the record count that is treated as exact.
            size: the number of samples.
            rng: the random number generator.
        """


class ScalarLaw(RecordLaw):
    """A law with one parameter, of records with one number each, whose characteristic function is known."""

    @property
    def dimension(self) -> int:
        """One coordinate."""
        return 1

    @property
    @abstractmethod
    def counts_all(self) -> bool:
        """Whether every counted record contributes: none of them is out of bounds."""

    @abstractmethod
    def log_shares(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the log probabilities that a record contributes and that it is out of bounds, shape (n_points, 1)."""

    @property
    @abstractmethod
    def spacing(self) -> int:
        """The distance between possible sums if they form a coarse lattice, else 0."""

    @property
    @abstractmethod
    def span(self) -> float:
        """The largest contribution of a record to the sum."""

    @property
    @abstractmethod
    def prior_range(self) -> tuple[float, float]:
        """An interval of the coordinate that holds all but 1e-12 of the prior."""

    @abstractmethod
    def characteristic(self, points: Floats, frequencies: Floats | Complexes) -> Complexes:
        """Return E[exp(i u t)] of one contributing record's addition t to the sum.

        Args:
            points: shape (n_points, 1).
            frequencies: u, per unit of the integer statistic, shape (1 or n_points, n_frequencies); complex ones give
                exponential moments.

        Returns:
            Shape (n_points, n_frequencies).
        """


@dataclass(frozen=True)
class NoisySums:
    """A noisy sum: a statistic summed over m records of a known law, observed with integer noise.

    The joint law is theta ~ prior, contributions t_1..t_m independent given theta, m as ``total`` says, and
    observed = sum of t + noise, independently for each component. Inference conditions on ``observed`` alone.

    Attributes:
        law: the prior and the law of one record's contribution.
        observed: the privatized components.
        noise: the law of the noise on each component.
        total: what is known about m.
        valid: the amount that each valid record adds to the last component, if that component counts valid records;
            else 0.
    """

    law: RecordLaw
    observed: tuple[int, ...]
    noise: NoiseLaw
    total: RecordCount
    valid: int = 0


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """The noisy counts of one network table: each value of a variable with each configuration of its parents.

    The joint law is theta_j ~ Dirichlet(concentration_j) for each row j, row shares phi ~ Dirichlet(row_concentration),
    m as ``total`` says, row totals N | phi, m ~ Multinomial(m, phi), counts c_j | theta_j, N_j ~ Multinomial(N_j,
    theta_j), and observed = c + noise, independently for each cell. If ``margin`` is given, other tables of the same
    records also observe N_j, with independent normal noise.

    Attributes:
        concentration: positive, shape (n_rows, n_values).
        row_concentration: positive, shape (n_rows,).
        observed: the privatized counts, shape (n_rows, n_values); real numbers if rebuilt from other statistics.
        noise: the law of the noise on each count.
        total: what is known about m, the sum of all counts.
        margin: observed row totals, shape (n_rows,), or None.
        margin_variance: the noise variance of the row totals, shape (n_rows,), infinite for one not observed; or None.
    """

    concentration: Floats
    row_concentration: Floats
    observed: Floats
    noise: NoiseLaw
    total: RecordCount
    margin: Floats | None = None
    margin_variance: Floats | None = None


@dataclass(frozen=True)
class Scope:
    """The variables of noisy tables that were rebuilt from the same released numbers, and so can be made consistent.

    Attributes:
        sizes: the number of values of each variable.
        families: for each table the variables of its axes.
        total: the number of records that the tables count, known or estimated.
    """

    sizes: tuple[int, ...]
    families: tuple[tuple[int, ...], ...]
    total: float


@dataclass(frozen=True, eq=False)
class NoisyTables:
    """The noisy tables of a network, inferred one by one; the reported parameters are the rows of all, in order.

    Attributes:
        tables: one for each variable.
        scope: the variables, if plug-in inference makes the tables consistent first; None: each table stands alone.
    """

    tables: tuple[NoisyTable, ...]
    scope: Scope | None = None


@dataclass(frozen=True, eq=False)
class NoisySequences:
    """Noisy counts of each value of each feature, by sequence and time step.

    The joint law is emission_fk ~ Dirichlet(emission_f) for each state k, transition_k ~ Dirichlet(transition[k]),
    first ~ Dirichlet(initial), states z_s1 ~ first and z_st ~ transition[z_s,t-1], counts c_stf | N_stf, z_st ~
    Multinomial(N_stf, emission_f[z_st]), and observed = c + noise, independently for each cell. About the totals N only
    this is assumed: they are similar across sequences and steps (gamma shapes with a vague prior).

    Attributes:
        emission: for each feature the prior concentrations of its values, positive.
        transition: the prior concentrations of each state's successor, shape (n_states, n_states).
        initial: the prior concentrations of the first state, shape (n_states,).
        observed: for each feature the privatized counts, shape (n_sequences, n_steps, n_values).
        noises: for each feature the law of the noise on each count; None if there is no noise.
        complete: whether every record counts for all features, so that all features have the same totals.
    """

    emission: tuple[Floats, ...]
    transition: Floats
    initial: Floats
    observed: tuple[Integers, ...]
    noises: tuple[NoiseLaw | None, ...]
    complete: bool


NoisyObservation = NoisyCounts | NoisySums | NoisyTables | NoisySequences
