"""The interface of models: columns, parameters, an exact integer statistic, and its observation through noise."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from dpbayes_cli.core.columns import AnyColumn, RecordPolicy
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.inference_options import InferenceOptions
from dpbayes_cli.core.model_defaults import DataCheck, ModelDefaults
from dpbayes_cli.core.noisy_observation import NoisyObservation
from dpbayes_cli.core.section import Section
from dpbayes_cli.core.statistic import Statistic
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class MethodInfo:
    """What ``dpbayes explain NAME`` prints about a model or a mechanism; every field holds whole sentences."""

    releases: str
    guarantee: str
    assumptions: str
    source: str
    corrections: str
    prefer_when: str


class Model(ModelDefaults):
    """A statistical model with a public domain and prior; the capabilities that it inherits say what it can do."""

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
