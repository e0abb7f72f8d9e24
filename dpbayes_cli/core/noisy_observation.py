"""The input of inference: a latent statistic with a prior, observed with noise of a public law."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.coefficient_law import CoefficientLaw
from dpbayes_cli.core.columns import NumericColumn, RecordPolicy
from dpbayes_cli.core.design import Design
from dpbayes_cli.core.losses import CurvedLoss
from dpbayes_cli.core.record_law import LatentSums, RecordLaw, ScalarLaw
from dpbayes_cli.privacy.key_threshold import KeyThreshold
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers


CountPrior = Literal["mostly-valid", "perhaps-valid", "uniform"]
"""The priors of a number of valid records that is at most n."""
_IN_WORDS: dict[CountPrior, str] = {
    "mostly-valid": "a priori all n records are valid with probability 1/2; else log(1 + invalid records) is uniform",
    "perhaps-valid": "a priori the number of valid records is uniform, but n is as probable as min(n, s) other numbers "
    "together, where s is the standard deviation of the noise on the number",
    "uniform": "",
}


@dataclass(frozen=True)
class RecordCount:
    """What is publicly known about the number of records that contribute to a statistic.

    Attributes:
        kind: ``known`` (exactly n), ``at-most`` (0..n) or ``unbounded`` (uniform on 0, 1, 2, ... a priori).
        n: the public number of records, or its upper limit; 0 for ``unbounded``.
        prior: the prior of a number of kind ``at-most``. ``uniform``: all numbers 0..n have the same probability.
            ``mostly-valid``: with probability 1/2 the number is n; else log(1 + n - number) is uniform. Under a uniform
            prior nearly all of the posterior lies below n, even if the number is n. ``perhaps-valid``: uniform on
            0..n + s with larger numbers replaced by n, where s is the standard deviation of the noise on the number,
            or n if that is smaller. It is less wrong than ``mostly-valid`` if the noise hides a few invalid records.
    """

    kind: Literal["known", "at-most", "unbounded"]
    n: int = 0
    prior: CountPrior = "uniform"

    @property
    def is_mostly_n(self) -> bool:
        """Whether the prior gives probability 1/2 to n."""
        return self.kind == "at-most" and self.prior == "mostly-valid"

    @property
    def prior_in_words(self) -> str:
        """A prior that is not uniform, in words after a semicolon; otherwise empty."""
        words = _IN_WORDS[self.prior] if self.kind == "at-most" else ""
        return words and f"; {words}"


@dataclass(frozen=True)
class NoisyCounts:
    """Noisy category counts: exact counts c with a Dirichlet prior on theta, observed with integer noise.

    The joint law is theta ~ Dirichlet(concentration), c | theta, m ~ Multinomial(m, theta), and observed_k = c_k +
    noise, independently for each observed k. ``total`` states the law of m, the sum of c. Inference conditions on
    ``observed`` alone.

    Attributes:
        concentration: K positive prior parameters.
        observed: K privatized counts; None for a count that was not released.
    """

    concentration: tuple[float, ...]
    observed: tuple[int | None, ...]
    noise: NoiseLaw
    total: RecordCount


@dataclass(frozen=True)
class NoisySums:
    """A noisy sum: a statistic summed over m records of a known law, observed with integer noise.

    The joint law is theta ~ prior, contributions t_1..t_m independent given theta, and observed = sum of t + noise,
    with independent noise on each component. ``total`` states the law of m. Inference conditions on ``observed`` alone.

    Attributes:
        law: the prior and the law of one record's contribution, or of the sum itself.
        valid: the amount that each valid record adds to the last component; 0 if the last component does not count
            valid records.
    """

    law: RecordLaw | LatentSums
    observed: tuple[int, ...]
    noise: NoiseLaw
    total: RecordCount
    valid: int = 0


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """The noisy counts of one network table, for each value of a variable and each configuration of its parents.

    The rows have probabilities phi ~ Dirichlet(row_concentration), and the values in row j have probabilities theta_j ~
    Dirichlet(concentration_j). ``total`` states the law of m, the number of records. Row totals are N | phi, m ~
    Multinomial(m, phi), counts are c_j | theta_j, N_j ~ Multinomial(N_j, theta_j), and observed = c + noise, with
    independent noise on each cell. If ``margin`` is given, it holds the row totals N with independent normal noise,
    from other tables of the same records.

    Attributes:
        concentration: positive, shape (n_rows, n_values).
        row_concentration: positive, shape (n_rows,).
        observed: the privatized counts, shape (n_rows, n_values). Counts that were rebuilt from other statistics are
            real numbers.
        margin: the observed row totals, shape (n_rows,), or None if there are none.
        margin_variance: the noise variances of the row totals, shape (n_rows,), infinite for totals that are not
            observed; None if ``margin`` is None.
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
    """The variables of noisy tables that were rebuilt from the same released numbers, and can thus be made consistent.

    Attributes:
        sizes: the number of values of each variable.
        families: for each table the indices of the variables on its axes.
        total: the known or estimated number of records in the tables.
    """

    sizes: tuple[int, ...]
    families: tuple[tuple[int, ...], ...]
    total: float


@dataclass(frozen=True)
class SharedColumn:
    """A variable of a tree that its own table and the tables of its children hold.

    Attributes:
        table: the index of the variable's own table.
        parent: the index of the parent's table; None for a variable without parents.
        totals: the noisy totals of the variable's values by all of these tables, as a table with one row.
    """

    table: int
    parent: int | None
    totals: NoisyTable


@dataclass(frozen=True, eq=False)
class NoisyTables:
    """The noisy tables of a network, inferred one by one; the reported parameters are all their cells, table by table.

    Attributes:
        tables: one table for each variable.
        scope: the variables, if plug-in inference first makes the tables consistent with each other; else None.
        shared: the variables on whose totals the draws of several tables must agree.
    """

    tables: tuple[NoisyTable, ...]
    scope: Scope | None = None
    shared: tuple[SharedColumn, ...] = ()


@dataclass(frozen=True, eq=False)
class NoisySequences:
    """Noisy counts of each value of each feature at each time step of each sequence.

    For feature f and state k the emission probabilities are E_fk ~ Dirichlet(emission_f). The rows of the transition
    matrix are T_k ~ Dirichlet(transition_k), and the first state has probabilities p ~ Dirichlet(initial). The states
    of sequence s are z_s1 ~ p and z_st ~ T_k with k = z_s,t-1. The counts are c_stf | N_stf, z_st = k ~
    Multinomial(N_stf, E_fk), and observed = c + noise, with independent noise on each cell. The totals N are assumed to
    be similar across sequences and steps: their rates have a gamma law, whose shape has a vague prior.

    Attributes:
        emission: for each feature the prior concentrations of its values, positive.
        transition: the prior concentrations of the rows of the transition matrix, shape (n_states, n_states).
        initial: the prior concentrations of the first state, shape (n_states,).
        observed: for each feature the privatized counts, shape (n_sequences, n_steps, n_values).
        noises: for each feature the law of the noise on each count, None if the counts are exact.
        complete: whether every record is valid in all features, so that all features have the same totals.
    """

    emission: tuple[Floats, ...]
    transition: Floats
    initial: Floats
    observed: tuple[Integers, ...]
    noises: tuple[NoiseLaw | None, ...]
    complete: bool


@dataclass(frozen=True)
class GroupedCounts:
    """Records that fall into categories: a group's statistic is the number of its records in each category.

    Attributes:
        concentration: the stated Dirichlet prior of a group's probabilities, or of their overall mean.
    """

    concentration: tuple[float, ...]


@dataclass(frozen=True)
class GroupedSums:
    """Records that are one number each: a group's statistic is the sum of its numbers, and their number.

    Attributes:
        law: the law of a number in a group, with the stated prior.
        steps: the number of steps of the public grid; a number with the code c adds 2 * c - steps to the first
            component, and ``steps`` to the second one.
        sum_unit, size_unit: factors of the two components.
    """

    law: ScalarLaw
    steps: int
    sum_unit: int = 1
    size_unit: int = 1


class GroupedMoments(ABC):
    """Records that are one number each: a group's statistic is the sum, the sum of squares, and their number.

    The numbers of all groups have the same standard deviation. A number with the code c adds 2 * steps * u, u^2 and
    steps^2 to the statistic, where u = 2 * c - steps.
    """

    column: NumericColumn

    @abstractmethod
    def law_at(self, sd: float) -> ScalarLaw:
        """Return the law of (u, steps) with the stated prior of a group's mean, given the standard deviation."""

    @abstractmethod
    def moments_at(self, mean: Floats, sd: float) -> tuple[Floats, Floats]:
        """Return means, shape (..., 2), and covariances, shape (..., 2, 2), of what a valid number adds to the sums."""

    @abstractmethod
    def sd_quantiles(self, levels: Floats) -> Floats:
        """Return quantiles of the stated prior of the standard deviation."""

    @abstractmethod
    def log_sd_prior(self, log_sd: Floats) -> Floats:
        """Return the log prior density of the log of the standard deviation, up to a constant, elementwise."""


@dataclass(frozen=True, eq=False)
class NoisyGroups:
    """Noisy statistics of groups: a row of privatized integers for each group.

    Attributes:
        outcome: what is observed of each record, with the stated prior.
        observed: the privatized integers, shape (n_groups, n_components).
        noise: the law of the noise, which is independent and the same on each integer.
        threshold: the rule by which these groups were published; None if all groups were.
        parents: for each group the index of the larger group that contains it, from 0, shape (n_groups,); None if there
            are no larger groups.
        spread: how much the groups' parameters may differ a priori, as a multiple of the default.
    """

    outcome: GroupedCounts | GroupedSums | GroupedMoments
    observed: Integers
    noise: NoiseLaw
    threshold: KeyThreshold | None = None
    parents: Integers | None = None
    spread: float = 1.0


@dataclass(frozen=True, eq=False)
class NoisyDerivatives:
    """Noisy gradients and Hessians of a log likelihood at public points, of a regression with a linear predictor.

    Attributes:
        design: the map from a record's features to a row x of the design.
        loss: the negative log likelihood of a record, as a function of the linear predictor.
        prior: the prior of the coefficients.
        points: the coefficients at which derivatives were released, shape (n_rounds, width).
        gradients: noisy sums of -slope * x, shape (n_rounds, width).
        hessians: noisy sums of curvature * x x', symmetric, shape (n_rounds, width, width).
        gradient_sds: the standard deviation of the noise on each gradient, shape (n_rounds,).
        hessian_sds: the standard deviations of the noise on the diagonal and off it, shape (n_rounds, 2).
        total: what is known about the number of records in the sums.
    """

    design: Design
    loss: CurvedLoss
    prior: CoefficientLaw
    points: Floats
    gradients: Floats
    hessians: Floats
    gradient_sds: Floats
    hessian_sds: Floats
    total: RecordCount


NoisyObservation = NoisyDerivatives | NoisyCounts | NoisySums | NoisyTables | NoisySequences | NoisyGroups


def record_count(policy: RecordPolicy, n_records: int | None) -> RecordCount:
    """Return what is known about the number of valid records.

    Args:
        policy: the neighbors, and the number of records that a privacy unit may have.
        n_records: the public number of privacy units; None if this number is private.

    Raises:
        SpecError: ``n_records`` is None under replace-one neighbors, where it must be public.
    """
    if policy.neighbors is Neighbors.ADD_REMOVE or (policy.contributions > 1 and n_records is None):
        return RecordCount("unbounded")
    if n_records is None:
        raise SpecError(
            "the number of records is public under replace-one neighbors, and must be stated", hint="--records N"
        )
    return RecordCount("known" if policy.complete else "at-most", n_records * policy.contributions)


def with_count_prior(observation: NoisyObservation, prior: CountPrior | None) -> NoisyObservation:
    """Return an observation with the stated prior of the number of valid records in place of ``mostly-valid``."""
    if prior is None or not isinstance(observation, NoisySums) or not observation.total.is_mostly_n:
        return observation
    return replace(observation, total=replace(observation.total, prior=prior))


def valid_count(policy: RecordPolicy, n_records: int | None, *columns: NumericColumn) -> RecordCount:
    """Return what is known about the number of records in a sum of numbers; see ``record_count``.

    A priori all n records are valid with probability 1/2. If a privacy unit may have several records, or if numbers out
    of bounds are dropped, n is only an upper limit instead.
    """
    total = record_count(policy, n_records)
    is_limit = policy.contributions > 1 or any(column.outside == "drop" for column in columns)
    return total if is_limit else replace(total, prior="mostly-valid")
