"""The interface of models: columns, parameters, an exact integer statistic, and its observation through noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import AnyColumn, NumericColumn, RecordPolicy
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.held_out import HeldOutLikelihood
from dpbayes_cli.core.inference_options import InferenceOptions
from dpbayes_cli.core.model_sections import ModelSection
from dpbayes_cli.core.noisy_observation import NoisyObservation
from dpbayes_cli.core.section import Section
from dpbayes_cli.core.statistic import Statistic
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.core.predictor import Predictor


DataCheck = Literal["statistic", "levels", "cells"]
"""What a data check counts: the model's statistic, the records at each level of each column, or the valid and the
invalid cells of each column."""


@dataclass(frozen=True)
class MethodInfo:
    """What ``dpbayes explain NAME`` prints about a model or a mechanism; every field holds whole sentences."""

    releases: str
    guarantee: str
    assumptions: str
    source: str
    corrections: str
    prefer_when: str


class Model(ABC):
    """A statistical model with a public domain and prior; the capabilities that it inherits say what it can do.

    A model overrides a default that does not suit it, so that no code outside ``models/`` depends on which model it is.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    info: ClassVar[MethodInfo]
    domain_type: ClassVar[type[Section]]
    prior_type: ClassVar[type[Section]]
    examples: ClassVar[tuple[Example, ...]] = ()
    """Small instances for the tests, at least one; the first is the quickest of those with posterior draws."""
    first_spec: ClassVar[Mapping[str, str]] = {}
    """The YAML values that ``spec init`` writes, by key of the spec: values that must be stated, or should be.

    A key that only one section of the domain has is written with that section: ``time.column``. A value of several
    lines begins with a line break. Stand-ins (``, impute: X``) are left out unless the mechanism releases draws.
    """
    first_spec_drawn: ClassVar[Mapping[str, str]] = {}
    """More values for mechanisms that need complete records: a stand-in, and the public range of a parameter."""
    inference_options: ClassVar[type[InferenceOptions]] = InferenceOptions
    """The options that the model's inference reads beside the common keys."""
    default_mechanism: ClassVar[str] = "laplace"
    """The mechanism for requests that name none."""
    data_check: ClassVar[DataCheck] = "cells"
    bound_keys: ClassVar[tuple[str, ...]] = ()
    """The domain keys of bounds that can be chosen privately instead of stated; the lower bound is 0 if ``lower`` is
    not among them. If empty, the bounds must be stated."""
    whole_numbers: ClassVar[bool] = False
    """Whether records and bounds are whole numbers."""
    counts_incomplete_records: ClassVar[bool] = False
    """Whether a record with an invalid cell belongs to the record count of a plan although it contributes nothing."""
    not_simulated: ClassVar[str] = "The model cannot simulate data sets."
    """The reason why plans and pages cannot simulate data sets of this model; empty if they can."""

    @classmethod
    @abstractmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        """Build the model from its parts of a spec.

        Raises:
            SpecError: the parts do not fit each other.
        """

    @property
    @abstractmethod
    def columns(self) -> tuple[AnyColumn, ...]:
        """The columns that the model reads, with their public domains."""

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns in the file if the domain states them; else empty: the spec names the one column."""
        return ()

    @property
    @abstractmethod
    def parameters(self) -> tuple[str, ...]:
        """The names of the reported parameters."""

    @abstractmethod
    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return the posterior predictive law of a new record: the probability of each level or, for a number, its
        ``mean``.

        Args:
            mean: the posterior means of the reported parameters.
        """

    @property
    def compared(self) -> tuple[int, ...]:
        """The indices of the parameters whose posteriors a simulation compares."""
        return (0,)

    def simulation_trials(self, trials: int) -> int:
        """Return the number of data sets to simulate, given the number ``trials`` for a model of one parameter."""
        return trials

    def exact_moments(self, values: Sequence[int], n_records: int) -> list[tuple[float, float]]:
        """Return the posterior mean and sd of each ``compared`` parameter given the exact statistic; empty if unknown.

        Args:
            values: the statistic of complete records.
            n_records: the number of records.
        """
        return []

    def simulated_histogram(
        self, column: NumericColumn, n_records: int, rng: np.random.Generator
    ) -> tuple[tuple[float, ...], dict[int, int]]:
        """Draw the reported parameters from the prior; return them and a histogram of drawn numbers by code.

        Args:
            column: the column, on the public range in which private bounds are chosen.
            n_records: the number of numbers to draw.
            rng: the random number generator.
        """
        raise TypeError(f"{self.name} has no bounds that can be chosen privately")

    def sections(self) -> tuple[ModelSection, ...]:
        """Return the sections that pages show in place of one plot a parameter; empty: they show plots."""
        return ()

    def predicted_column(self, requested: str | None) -> int:
        """Return the index of the column that is predicted from the others.

        Args:
            requested: the name that ``--target`` gives, or None.

        Raises:
            SpecError: the model predicts no column, there is no such column, or none is named.
        """
        raise SpecError(
            f"model {self.name!r} does not predict one column from others",
            where="model",
            hint="release.json holds the predictive distribution of a new record: posterior_predictive"
            if self.held_out() is None
            else "dpbayes evaluate scores held-out records",
        )

    def predictor(self, column: int, draws: Floats) -> Predictor:
        """Return the predictor of a column of new records.

        Args:
            column: the index that ``predicted_column`` returned.
            draws: draws of the reported parameters, shape (n_draws, n_parameters).
        """
        raise TypeError(f"{self.name} predicts no column")

    def held_out(self) -> HeldOutLikelihood | None:
        """Return the scorer of whole held-out records; None: the model predicts one column, or nothing."""
        return None


class BoundedStatistics(Model):
    """The capability of models with an exact integer statistic of bounded sensitivity."""

    data_check: ClassVar[DataCheck] = "statistic"

    @abstractmethod
    def statistic(self, policy: RecordPolicy) -> Statistic:
        """Return the minimal sufficient integer statistic under a policy, with its sensitivity and a witness."""


class NoisyStatistics(BoundedStatistics):
    """The capability of models whose posterior can be inferred from their privatized statistic."""

    not_simulated: ClassVar[str] = ""

    @abstractmethod
    def observation(
        self, policy: RecordPolicy, released: Sequence[int], noise: NoiseLaw, n_records: int | None
    ) -> NoisyObservation:
        """Return the noisy observation from which the posterior is inferred.

        Args:
            policy: the policy under which the statistics were released.
            released: the privatized integers, in the order of ``statistic``.
            noise: the law of their noise.
            n_records: the public number of records; None if it is private.
        """

    @abstractmethod
    def simulated(
        self, policy: RecordPolicy, n_records: int, rng: np.random.Generator
    ) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Draw the reported parameters from the prior, and the exact statistic of ``n_records`` valid records."""

    def simulated_statistic(
        self, statistic: Statistic, policy: RecordPolicy, n_records: int, rng: np.random.Generator
    ) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Draw the parameters and the statistic that a mechanism reads instead of the model's; see ``simulated``."""
        return self.simulated(policy, n_records, rng)

    @property
    def components(self) -> tuple[int, ...]:
        """For each reported parameter, the index of its component in the inferred posterior."""
        return tuple(range(len(self.parameters)))
