"""What a model promises: columns, parameters, an exact integer statistic, and the observation behind its noisy form."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from dpbayes_cli.core.columns import AnyColumn, RecordPolicy
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.model_defaults import DataCheck, ModelDefaults
from dpbayes_cli.core.noisy_observation import NoisyObservation
from dpbayes_cli.core.options import InferenceOptions
from dpbayes_cli.core.section import Section
from dpbayes_cli.core.statistic import Statistic
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class MethodInfo:
    """What ``dpbayes explain NAME`` tells about a model or a mechanism; every field is a sentence or more."""

    releases: str
    guarantee: str
    assumptions: str
    source: str
    corrections: str
    prefer_when: str


class Model(ModelDefaults):
    """A statistical model with a public domain and prior; its powers are the capabilities that it also inherits."""

    name: ClassVar[str]
    summary: ClassVar[str]
    info: ClassVar[MethodInfo]
    domain_type: ClassVar[type[Section]]
    prior_type: ClassVar[type[Section]]
    examples: ClassVar[tuple[Example, ...]] = ()
    """Small instances for the tests, at least one; the first is the quickest of those that draws serve."""
    first_spec: ClassVar[Mapping[str, str]] = {}
    """What ``spec init`` writes where a value must be stated, or better is: YAML by the key of the spec.

    A key of one section alone is written with the section's: ``time.column``. A value of several lines begins with an
    empty one. What stands in for an invalid cell (``, impute: X``) is left out where draws are not asked for.
    """
    first_spec_drawn: ClassVar[Mapping[str, str]] = {}
    """What it writes beside where a mechanism needs complete records: a stand-in, and a public range of a parameter."""
    inference_options: ClassVar[type[InferenceOptions]] = InferenceOptions
    """What its inference reads beside the common keys."""
    default_mechanism: ClassVar[str] = "laplace"
    """The mechanism that answers where a question names none."""

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
        """The names of the columns in the file, where the domain states them; else the spec names the one column."""
        return ()

    @property
    @abstractmethod
    def parameters(self) -> tuple[str, ...]:
        """The names of the reported parameters."""

    @abstractmethod
    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return the posterior predictive probability of each level of a new record, or ``mean`` for a number.

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
        """State the inference observation behind privatized statistics.

        Args:
            policy: the policy under which they were released.
            released: the privatized integers, in the order of ``statistic``.
            noise: the law of their noise.
            n_records: the public number of records; None where it is private.
        """

    @abstractmethod
    def simulated(
        self, policy: RecordPolicy, n_records: int, rng: np.random.Generator
    ) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Draw the reported parameters from the prior and the exact statistic of that many valid records."""

    def simulated_statistic(
        self, statistic: Statistic, policy: RecordPolicy, n_records: int, rng: np.random.Generator
    ) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Draw the parameters and what a mechanism reads in place of the model's own statistic; see ``simulated``."""
        return self.simulated(policy, n_records, rng)

    @property
    def components(self) -> tuple[int, ...]:
        """For each reported parameter, the component of the observation's posterior that it is."""
        return tuple(range(len(self.parameters)))
