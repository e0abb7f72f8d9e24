"""The interface of models: columns, parameters, an exact integer statistic, and the noisy observation of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import AnyColumn, Column, CutColumn, LargerGroups, NumericColumn, RecordPolicy
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.findings import Effect, Fact, Findings
from dpbayes_cli.core.held_out import HeldOutLikelihood
from dpbayes_cli.core.inference_options import InferenceOptions
from dpbayes_cli.core.model_sections import ModelSection
from dpbayes_cli.core.noisy_observation import GroupedCounts, GroupedMoments, GroupedSums, NoisyObservation
from dpbayes_cli.core.private_choice import Parents
from dpbayes_cli.core.section import Section
from dpbayes_cli.core.statistic import Statistic
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    from decimal import Decimal

    import numpy as np

    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.core.joint_law import JointLaw
    from dpbayes_cli.core.predictor import Predictor
    from dpbayes_cli.privacy.key_threshold import KeyThreshold


@dataclass(frozen=True)
class MethodInfo:
    """What ``dpbayes explain NAME`` prints about a model or a mechanism; every field holds whole sentences."""

    prefer_when: str
    releases: str
    guarantee: str
    assumptions: str
    source: str
    corrections: str


class Model(ABC):
    """A statistical model with a public domain and prior; its base classes say what it can do.

    Each model overrides the defaults that do not suit it, so that no code outside ``models/`` treats one model
    specially.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    info: ClassVar[MethodInfo]
    domain_type: ClassVar[type[Section]]
    prior_type: ClassVar[type[Section]]
    examples: ClassVar[tuple[Example, ...]] = ()
    """Small instances for the tests, at least one. The first one is the quickest to draw from."""
    first_spec: ClassVar[Mapping[str, str]] = {}
    """The YAML values that ``spec init`` writes, one for each key of the spec that a user must or should state.

    A key in a section of the domain begins with the section's name, as in ``time.column``. A value of several lines
    begins with a line break. Stand-ins (``, impute: X``) are written only if the mechanism releases draws.
    """
    first_spec_drawn: ClassVar[Mapping[str, str]] = {}
    """The YAML values that ``spec init`` adds if the mechanism needs complete records, such as a stand-in."""
    inference_options: ClassVar[type[InferenceOptions]] = InferenceOptions
    """The options that the model's inference reads."""
    default_mechanism: ClassVar[str] = "laplace"
    """The mechanism for requests that do not name one."""
    default_with_delta: ClassVar[str] = ""
    """The mechanism for requests that name none, if they or their account state a delta; empty if it is the same."""
    former_default: ClassVar[str] = ""
    """The default mechanism before version 0.4, if it was another one; it is still meant by an option of its own."""
    suggested_for: ClassVar[str] = ""
    suggested_for_target: ClassVar[str] = ""
    """The kind of column, or of a regression's target, for which ``dpbayes check`` suggests the model."""
    bound_keys: ClassVar[tuple[str, ...]] = ()
    """The domain keys of the bounds that can be chosen privately; without ``lower``, the lower bound is 0."""
    has_private_trees: ClassVar[bool] = False
    """Whether the spec may ask for a tree of the variables that is chosen privately."""
    whole_numbers: ClassVar[bool] = False
    """Whether records and bounds are whole numbers."""
    counts_incomplete_records: ClassVar[bool] = False
    """Whether the record count of a plan includes records with an invalid cell, which add nothing to the statistic."""
    not_simulated: ClassVar[str] = "The model cannot simulate data sets."
    """The reason why plans and pages cannot simulate data sets of this model; empty if they can."""
    has_groups: ClassVar[bool] = False
    """Whether the records may be divided into groups, with a parameter for each group; see ``grouped``."""
    sums_squares: ClassVar[bool] = False
    """Whether the statistic of a group of numbers holds the sum of their squares."""
    has_larger_groups: ClassVar[bool] = False
    """Whether groups may learn from each other within larger groups."""
    has_one_unit: ClassVar[bool] = False
    """Whether all reported parameters have the same unit, so that one axis fits all of them."""

    @classmethod
    @abstractmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        """Build the model from its sections of a spec.

        Raises:
            SpecError: the sections do not fit each other.
        """

    @classmethod
    def complete_prior(cls, domain: Section, prior: Section) -> Section:
        """Return the prior with a default, derived from the public domain, for each key that is None.

        A model overrides this if no constant is a weak prior for every domain.
        """
        return prior

    @classmethod
    def complete_prior_of_draws(cls, domain: Section, prior: Section) -> Section:
        """Return the prior with its defaults for mechanisms that release draws of a posterior; see ``complete_prior``.

        Raises:
            SpecError: such mechanisms do not support this prior.
        """
        return cls.complete_prior(domain, prior)

    @classmethod
    def tree_variables(cls, domain: Section) -> tuple[tuple[Column | CutColumn, ...], str]:
        """Return the columns of a domain whose tree is to be chosen privately, and the name of the tree's root.

        Raises:
            SpecError: the domain states a structure.
        """
        raise TypeError(f"{cls.name} has no trees that can be chosen privately")

    @classmethod
    def with_parents(cls, domain: Section, parents: Parents) -> Section:
        """Return a domain with the privately chosen parents of its variables."""
        raise TypeError(f"{cls.name} has no trees that can be chosen privately")

    @property
    def components(self) -> tuple[int, ...]:
        """For each reported parameter, the index of its component in the inferred posterior."""
        return tuple(range(len(self.parameters)))

    @property
    @abstractmethod
    def columns(self) -> tuple[AnyColumn, ...]:
        """The columns that the model reads, with their public domains."""

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns in the file; empty if the model reads one column, which the spec names."""
        return ()

    @property
    @abstractmethod
    def parameters(self) -> tuple[str, ...]:
        """The names of the reported parameters."""

    def grouped(
        self,
        key_column: str,
        value_column: str | None,
        keys: tuple[str, ...],
        key_delta: Decimal | None = None,
        parents: LargerGroups | None = None,
    ) -> Model:
        """Return the model of groups whose records follow this model.

        Args:
            key_column: the name of the column that holds the keys.
            value_column: the name of the column that this model reads; None if it is the only other column.
            keys: the public keys of the groups; or the published keys if the keys are found in the data, none before.
            key_delta: the delta of the keys that are found in the data; None if the keys are listed.
            parents: the larger groups that contain the groups; None if there are none.
        """
        raise TypeError(f"the records of {self.name} cannot be divided into groups")

    def key_threshold(self, noise: NoiseLaw, policy: RecordPolicy) -> KeyThreshold | None:
        """Return the rule that decides which keys found in the data are published; None if no keys are found."""
        return None

    def draw_outcomes(self, parameter: float, common: Sequence[float], size: int, rng: np.random.Generator) -> Floats:
        """Draw numbers of records of one group, shape (size,), before they are clamped or dropped.

        Args:
            parameter: the parameter of the group.
            common: what the groups have in common, in the order of the parameters of the model of groups.
        """
        raise TypeError(f"a record of {self.name} is no number in a group")

    def group_outcome(self) -> GroupedCounts | GroupedSums | GroupedMoments | None:
        """Return what is observed of each record of a group, with the stated prior; None if there are no groups."""
        return None

    @property
    def group_keys(self) -> tuple[str, ...]:
        """The keys of the groups that have a posterior; empty if the records are not divided into groups."""
        return ()

    @property
    def group_parameters(self) -> tuple[str, ...]:
        """The names of the parameters of one group; empty if the records are not divided into groups."""
        return ()

    @property
    def can_be_hidden(self) -> tuple[bool, ...]:
        """For each parameter, whether its interval begins at 0 if this is shorter; noise may hide positive ones."""
        return (False,) * len(self.parameters)

    @abstractmethod
    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return the law of a new record at posterior means: a probability by level, or the ``mean`` of a number."""

    def findings(self, column: str, estimates: Sequence[float]) -> Findings:
        """Return the most important results, as clauses for a reader who knows no statistics.

        Args:
            column: the name of the only column that the model reads; empty if it has no name, or if there are several.
            estimates: an estimate of each reported parameter.
        """
        return Findings((Fact(f"{self.parameters[0]}{f' of {column}' * bool(column)} is about", 0),))

    def variance_at(self, mean: float) -> float | None:
        """Return the variance of a record whose mean is known, under the model; None if the model estimates it."""
        return None

    @property
    def effects(self) -> tuple[Effect, ...]:
        """Numbers in the units of the data that follow from several parameters, such as odds ratios."""
        return ()

    @property
    def main_fact(self) -> Fact:
        """The first clause of a result if all estimates are 0; other estimates may lead to another clause."""
        return self.findings("", [0.0] * len(self.parameters)).facts[0]

    def prior_quantiles(self, levels: Floats) -> Floats | None:
        """Return quantiles of the prior of each reported parameter, or None if they have no closed form.

        Returns:
            Shape (n_parameters, n_levels), where the levels are probabilities; NaN for unknown quantiles.
        """
        return None

    def known_miscalibration(self, noise: NoiseLaw, n_records: int | None) -> tuple[str, ...]:
        """Return a warning if intervals miss true parameters too often; the number of records may be unknown."""
        return ()

    @property
    def compared(self) -> tuple[int, ...]:
        """The indices of the parameters for which a simulation compares the posteriors with and without noise."""
        return (0,)

    def exact_moments(self, values: Sequence[int], n_records: int) -> list[tuple[float, float]]:
        """Return the posterior mean and sd of each ``compared`` parameter given the exact statistic ``values``.

        All records are complete. The result is empty if the moments are unknown.
        """
        return []

    def simulated_histogram(
        self, column: NumericColumn, n_records: int, rng: np.random.Generator
    ) -> tuple[tuple[float, ...], dict[int, int]]:
        """Draw parameters from the prior, and numbers; return the parameters and a histogram of the numbers' codes.

        Args:
            column: the column; its bounds are the public range in which private bounds are chosen.
        """
        raise TypeError(f"{self.name} has no bounds that can be chosen privately")

    def simulated_records(
        self, parameters: Sequence[float], n_records: int, rng: np.random.Generator
    ) -> Integers | None:
        """Draw codes of valid records given reported parameters, shape (n_records, n_columns), to test predictions.

        The result is None if the model cannot simulate records, or if a user must name the column to predict.
        """
        return None

    def sections(self) -> tuple[ModelSection, ...]:
        """Return the sections in which pages show the parameters; if empty, pages show one plot for each parameter."""
        return ()

    def predicted_column(self, requested: str | None) -> int:
        """Return the index of the column that is predicted from the others; ``requested`` is the value of ``--target``.

        Raises:
            SpecError: the model predicts no column, there is no such column, or a column must be named.
        """
        raise SpecError(
            f"model {self.name!r} does not predict one column from others",
            where="model",
            hint="for the predictive distribution of a new record, see posterior_predictive in release.json"
            if self.held_out() is None
            else "dpbayes evaluate scores held-out records",
        )

    def predictor(self, column: int, draws: Floats) -> Predictor:
        """Return the predictor of the column with this index; ``draws`` has the shape (n_draws, n_parameters)."""
        raise TypeError(f"{self.name} predicts no column")

    def joint_law(self, column: str, draws: Floats, states: Integers | None) -> JointLaw | None:
        """Return the law of a record given each draw; None if there is no discrete law of all columns.

        Args:
            column: the name of the column, for a model that reads one column without a name of its own.
            draws: draws from the joint posterior of the parameters, shape (n_draws, n_parameters).
            states: the hidden states of each draw, shape (n_draws, n_sequences, n_steps); None without hidden states.
        """
        return None

    def held_out(self) -> HeldOutLikelihood | None:
        """Return the scorer of whole held-out records, None if the model does not score them."""
        return None


class BoundedStatistics(Model):
    """The capability of models with an exact integer statistic of bounded sensitivity."""

    @abstractmethod
    def statistic(self, policy: RecordPolicy) -> Statistic:
        """Return the minimal sufficient statistic in integers, with its sensitivity and two records that attain it."""


class NoisyStatistics(BoundedStatistics):
    """The capability of models whose posterior can be inferred from their privatized statistic."""

    not_simulated: ClassVar[str] = ""

    @abstractmethod
    def observation(
        self, policy: RecordPolicy, released: Sequence[int], noise: NoiseLaw, n_records: int | None
    ) -> NoisyObservation:
        """Return the noisy observation from which the posterior is inferred.

        Args:
            released: the privatized components of the statistic, with ``noise``.
            n_records: the public number of records; None if it is private.
        """

    @abstractmethod
    def simulated(
        self, policy: RecordPolicy, n_records: int, rng: np.random.Generator
    ) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Draw parameters from the prior and ``n_records`` valid records; return reported parameters and statistic."""

    def simulated_statistic(
        self, statistic: Statistic, policy: RecordPolicy, n_records: int, rng: np.random.Generator
    ) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Draw parameters and records; return the parameters and the values of the given statistic."""
        return self.simulated(policy, n_records, rng)
