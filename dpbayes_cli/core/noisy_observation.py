"""What inference is asked: a latent statistic with a prior, seen through public noise, whatever the mechanism was."""

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
    """What is known about the number of records that count.

    Attributes:
        kind: ``known`` (exactly n), ``at-most`` (uniform on 0..n a priori) or ``unbounded`` (uniform on 0, 1, 2, ...).
        n: the public number of records; 0 for ``unbounded``.
    """

    kind: Literal["known", "at-most", "unbounded"]
    n: int = 0


@dataclass(frozen=True)
class NoisyCounts:
    """A latent-count observation: category counts c with a Dirichlet prior on theta, seen through integer noise.

    The joint law is theta ~ Dirichlet(concentration), c | theta, m ~ Multinomial(m, theta), m as ``total`` says, and
    observed_k = c_k + noise independently for each observed k. Inference conditions on ``observed`` alone.

    Attributes:
        concentration: K positive prior parameters.
        observed: K privatized counts; None where a count was not released.
        noise: the law of the noise.
        total: what is known about m = sum of c.
    """

    concentration: tuple[float, ...]
    observed: tuple[int | None, ...]
    noise: NoiseLaw
    total: RecordCount


class RecordLaw(ABC):
    """The law of what one record contributes to a statistic, given the parameters.

    Parameters are handled in free coordinates, any point of R^p being allowed; the prior is given in them, its Jacobian
    included. Arrays of points have any leading shape ``...`` and p last.
    """

    @property
    @abstractmethod
    def dimension(self) -> int:
        """p, the number of coordinates."""

    @abstractmethod
    def draw_prior(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw points from the prior, shape (size, p)."""

    @abstractmethod
    def log_prior(self, points: Floats) -> Floats:
        """Return the log density of the prior in these coordinates, up to a constant, shape (...)."""

    @abstractmethod
    def moments(self, points: Floats) -> tuple[Floats, Floats]:
        """Return mean and covariance of one record's contribution, in units of the integer statistic.

        A record that contributes nothing, because it is out of bounds, counts as zero.

        Returns:
            Means, shape (..., k), and covariances, shape (..., k, k), k the number of components.
        """

    def mean(self, points: Floats) -> Floats:
        """Return the mean of one record's contribution, as ``moments`` does; worth overriding where that costs less."""
        return self.moments(points)[0]

    @abstractmethod
    def parameters(self, points: Floats) -> Floats:
        """Return the reported parameters, shape (..., n_parameters)."""

    @abstractmethod
    def complete_data_sd(self, points: Floats, n_records: Floats) -> Floats:
        """Return the posterior sd of each reported parameter that data of known, typical sums would leave.

        Args:
            points: the parameters that the data come from.
            n_records: how many records, of the leading shape of ``points``.
        """

    def warning(self, points: Floats) -> str:
        """Return what a reader of a posterior must know about the law's own approximations; empty if nothing.

        Args:
            points: draws from the posterior, shape (n_draws, p).
        """
        return ""

    @abstractmethod
    def draw_plug_in(self, observed: Floats, n_records: float, size: int, rng: np.random.Generator) -> Floats:
        """Draw reported parameters from the conjugate posterior of a statistic that is taken for the exact one.

        Args:
            observed: the privatized statistic; it is first brought to the nearest possible one.
            n_records: the number of records that is taken for the exact one.
            size: how many draws.
            rng: the generator.
        """


class ScalarLaw(RecordLaw):
    """A record law of one parameter and one number a record, whose characteristic function is known."""

    @property
    def dimension(self) -> int:
        """One coordinate."""
        return 1

    @property
    @abstractmethod
    def counts_all(self) -> bool:
        """Whether the total is that of the records that contribute, none being out of bounds."""

    @abstractmethod
    def log_shares(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the log probabilities that a record contributes, and that it is out of bounds, shape (n_points, 1)."""

    @property
    @abstractmethod
    def spacing(self) -> int:
        """The distance between possible sums where they form a coarse lattice, else 0."""

    @property
    @abstractmethod
    def span(self) -> float:
        """The largest contribution to the sum."""

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
    """A latent-sum observation: a statistic summed over m records of a known law, seen through integer noise.

    The joint law is theta ~ prior, contributions t_1..t_m independent given theta, m as ``total`` says, and
    observed = sum of t + noise, independently for each component. Inference conditions on ``observed`` alone.

    Attributes:
        law: the prior and the law of one record's contribution.
        observed: the privatized components.
        noise: the law of the noise on each.
        total: what is known about m.
        valid: what a record adds to the last component where that counts the valid records, else 0.
    """

    law: RecordLaw
    observed: tuple[int, ...]
    noise: NoiseLaw
    total: RecordCount
    valid: int = 0


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """One table of a network: how often each value of a variable occurs with each configuration of its parents.

    The joint law is theta_j ~ Dirichlet(concentration_j) for each row j, row shares phi ~ Dirichlet(row_concentration),
    m as ``total`` says, row totals N | phi, m ~ Multinomial(m, phi), counts c_j | theta_j, N_j ~ Multinomial(N_j,
    theta_j), and observed = c + noise, independently for each cell. Where ``margin`` is given, N_j was observed with
    independent normal noise, too: other tables of the same records tell about it.

    Attributes:
        concentration: positive, shape (n_rows, n_values).
        row_concentration: positive, shape (n_rows,).
        observed: the privatized counts, shape (n_rows, n_values); real numbers where they were rebuilt from others.
        noise: the law of the noise on each.
        total: what is known about m, the sum of all counts.
        margin: observed row totals, shape (n_rows,), or None.
        margin_variance: the variance of their noise, shape (n_rows,); infinite where there is none; or None.
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
    """What noisy tables are tables of, where they were rebuilt from the same numbers and can be made to agree.

    Attributes:
        sizes: the number of values of each variable.
        families: for each table the variables of its axes.
        total: the number of records that they count, known or estimated.
    """

    sizes: tuple[int, ...]
    families: tuple[tuple[int, ...], ...]
    total: float


@dataclass(frozen=True, eq=False)
class NoisyTables:
    """The tables of a network, each an observation of its own; the reported parameters are the rows of all, in order.

    Attributes:
        tables: one a variable.
        scope: what they are tables of, where a naive reader would first make them agree; None: they stand alone.
    """

    tables: tuple[NoisyTable, ...]
    scope: Scope | None = None


@dataclass(frozen=True, eq=False)
class NoisySequences:
    """How often each value of each feature occurred in each sequence at each time step, seen through integer noise.

    The joint law is emission_fk ~ Dirichlet(emission_f) for each state k, transition_k ~ Dirichlet(transition[k]),
    first ~ Dirichlet(initial), states z_s1 ~ first and z_st ~ transition[z_s,t-1], counts c_stf | N_stf, z_st ~
    Multinomial(N_stf, emission_f[z_st]), and observed = c + noise, independently for each cell. Nothing is known about
    the totals N but that they are alike in sequences and steps: gamma shapes with a vague prior.

    Attributes:
        emission: for each feature the concentrations of its values, positive.
        transition: the concentrations of each state's successor, shape (n_states, n_states).
        initial: those of the first state, shape (n_states,).
        observed: for each feature the privatized counts, shape (n_sequences, n_steps, n_values).
        noises: for each feature the law of the noise on each count; None where there is none.
        complete: whether every record counts for all features, so that the totals of all are those of one.
    """

    emission: tuple[Floats, ...]
    transition: Floats
    initial: Floats
    observed: tuple[Integers, ...]
    noises: tuple[NoiseLaw | None, ...]
    complete: bool


NoisyObservation = NoisyCounts | NoisySums | NoisyTables | NoisySequences
