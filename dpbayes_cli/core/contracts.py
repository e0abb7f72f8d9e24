"""What the parts of dpbayes promise each other: models, mechanisms, statistics, evidence and inference problems.

A model says what a record contributes to an integer statistic, a source evaluates that statistic, a mechanism
privatizes it, and inference sees only the latent-count problem that the model states about the privatized numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar, cast

import msgspec

from dpbayes_cli.core.columns import AnyColumn, RecordPolicy
from dpbayes_cli.core.design import Rows
from dpbayes_cli.core.encoded_records import Codes
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.model_uses import DataCheck, ModelUses
from dpbayes_cli.core.options import Options
from dpbayes_cli.core.private_quantile import PrivateBounds
from dpbayes_cli.core.problems import Problem
from dpbayes_cli.core.released import Draws, Payload
from dpbayes_cli.core.statistic import Statistic, Statistics, for_units
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.noise import NoiseLaw
from dpbayes_cli.privacy.step_law import StepLaw

if TYPE_CHECKING:
    import numpy as np

Kind = TypeVar("Kind")


def expect(value: object, kind: Callable[..., Kind]) -> Kind:
    """Return a value that must be of a kind.

    Raises:
        TypeError: it is not; two parts of the program do not fit each other.
    """
    if not isinstance(kind, type) or not isinstance(value, kind):
        raise TypeError(f"expected {kind}, got {type(value).__name__}")
    return cast(Kind, value)


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of a spec: typed, frozen, and an unknown key is an error; ``__post_init__`` raises ValueError."""


WRITTEN_FREELY = {"format": "written freely"}
"""Marks a text that a YAML file may also write as a number or a truth value; the schema of specs allows all three."""

Level = Annotated[str, msgspec.Meta(min_length=1, max_length=1000, extra_json_schema=WRITTEN_FREELY)]
"""The text of a valid cell, as a spec declares it; see ``grammar.check_levels``."""

Positive = Annotated[float, msgspec.Meta(ge=1e-6, le=1e9)]
"""A parameter of a prior: positive, and within what the inference is tested for."""


@dataclass(frozen=True)
class Card:
    """What ``dpbayes explain NAME`` tells about a model or a mechanism; every field is a sentence or more."""

    releases: str
    guarantee: str
    assumptions: str
    source: str
    corrections: str
    prefer_when: str


class Model(ModelUses):
    """A statistical model with a public domain and prior; its powers are the capabilities that it also inherits."""

    name: ClassVar[str]
    summary: ClassVar[str]
    card: ClassVar[Card]
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
    inference_options: ClassVar[type[Options]] = Options
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
    def problem(self, policy: RecordPolicy, released: Sequence[int], noise: NoiseLaw, n_records: int | None) -> Problem:
        """State the inference problem behind privatized statistics.

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
        """For each reported parameter, the component of the problem's posterior that it is."""
        return tuple(range(len(self.parameters)))


class DrawingLaw(StepLaw, ABC):
    """A calibrated law that draws parameters from exact statistics, or from records, as a plan holds it."""

    @abstractmethod
    def run(self, evidence: Statistics, size: int) -> Draws:
        """Draw from exact evidence, with the operating system's randomness."""


class Sampler(DrawingLaw):
    """A calibrated law of posterior draws, or of point estimates, that exact statistics determine."""

    has_moments: ClassVar[bool] = True
    draws_at_once: ClassVar[bool] = True

    @abstractmethod
    def draw(self, values: Sequence[int], size: int) -> list[tuple[float, ...]]:
        """Draw from the law that exact integer statistics determine, with the operating system's randomness."""

    @abstractmethod
    def moments(self, values: Sequence[int]) -> tuple[float, float]:
        """Return mean and standard deviation of that law for the first parameter, in floats: for planning."""

    def moments_by_row(self, values: Sequence[int]) -> list[tuple[float, float]]:
        """Return those of the first parameter of every row of a network's tables; of other models ``moments`` alone."""
        return [self.moments(values)]

    def plain_sd(self, values: Sequence[int]) -> float | None:
        """Return the standard deviation that it would have without privacy; None: its model tells."""
        return None

    def run(self, evidence: Statistics, size: int) -> Draws:
        """Draw from exact statistics."""
        return Draws(tuple(self.draw(evidence.values, size)))


class Chain(DrawingLaw):
    """A planned Markov chain every update of which is priced; it returns its last points."""

    draws_exactly: ClassVar[bool] = False


@dataclass(frozen=True)
class Step:
    """One priced step of a plan; it adds noise to its statistic, draws from a posterior, or chooses bounds.

    Attributes:
        statistic: what is read from the data.
        law: the calibrated law of the noise, of the draws, of the bounds, or the chain that draws.
        guarantee: the price of this step.
        draws: how many draws, where it draws.
        rows: the rows of a design, or the codes of records, where a chain reads these in place of a statistic.
    """

    statistic: Statistic
    law: StepLaw
    guarantee: Guarantee
    draws: int = 0
    rows: Rows | Codes | None = None

    @property
    def noise(self) -> NoiseLaw:
        """The law of the noise.

        Raises:
            TypeError: the step draws from a posterior, or chooses bounds.
        """
        if not self.law.adds_noise:
            raise TypeError("this step adds no noise")
        return cast(NoiseLaw, self.law)

    @property
    def sampler(self) -> Sampler:
        """The law of the draws, where statistics determine it.

        Raises:
            TypeError: they do not.
        """
        return expect(self.law, Sampler)

    def drawn(self, evidence: Statistics) -> Draws:
        """Draw as many as are planned.

        Raises:
            TypeError: the step does not draw from evidence alone.
        """
        return expect(self.law, DrawingLaw).run(evidence, self.draws)


@dataclass(frozen=True)
class Plan:
    """An ordered list of priced steps, made without data; the total is charged once.

    Attributes:
        steps: the steps in the order of their execution.
        guarantee: the guarantee of the whole.
        parameters: what calibration found, by its name in the field.
        how: of draws that need more words, how they are made.
        warnings: what is public about how good they are.
        bounds: the law of the bounds that the first step chooses for the last, or None.
    """

    steps: tuple[Step, ...]
    guarantee: Guarantee
    parameters: Mapping[str, Any] = field(default_factory=dict)
    how: str = ""
    warnings: tuple[str, ...] = ()
    bounds: PrivateBounds | None = None

    @property
    def answer(self) -> Step:
        """The last step; those before it choose what it needs."""
        return self.steps[-1]


class Mechanism(ABC):
    """A privacy mechanism: prices a question without data, then privatizes exact evidence."""

    name: ClassVar[str]
    summary: ClassVar[str]
    card: ClassVar[Card]
    requires: ClassVar[tuple[type, ...]]
    example: ClassVar[Mapping[str, Mapping[str, Any]]] = {"privacy": {"epsilon": "1"}}
    """What the tests ask of it, by the sections of a spec; a model is asked for what is read of it."""
    first_spec: ClassVar[Mapping[str, str]] = {"privacy.epsilon": "1"}
    """What ``spec init`` states for it, by the key of the spec."""
    options_type: ClassVar[type[Options]]
    """What it reads of a question beside the common keys; where that depends on the model, see ``options_for``."""
    needs_n: ClassVar[bool] = False
    post_processing: ClassVar[bool] = True
    """Whether prior and inference come after privacy, so that changing them is free."""
    estimates: ClassVar[bool] = False
    """Whether what is drawn are point estimates, whose spread says nothing about the width of a posterior."""

    @classmethod
    def options_for(cls, _model: type[Model]) -> type[Options]:
        """Return what it reads of a question about a model."""
        return cls.options_type

    def statistic(self, model: Model, policy: RecordPolicy) -> Statistic:
        """Return the statistic that is read from the data."""
        return for_units(expect(model, BoundedStatistics).statistic(policy), policy)

    def problem(
        self, model: Model, policy: RecordPolicy, released: Sequence[int], noise: NoiseLaw, n_records: int | None
    ) -> Problem:
        """State the inference problem behind what was released; see ``NoisyStatistics.problem``."""
        return expect(model, NoisyStatistics).problem(policy, released, noise, n_records)

    @abstractmethod
    def plan(self, model: Model, policy: RecordPolicy, options: Options, n_records: int | None = None) -> Plan:
        """Price a release; never sees data.

        Args:
            model: what is asked about.
            policy: neighbors, and the treatment of invalid records.
            options: what is asked, of the type that ``options_for`` names.
            n_records: the public number of records, where it is known beforehand.

        Raises:
            SpecError: no guarantee can be given.
        """

    @abstractmethod
    def release(self, plan: Plan, evidence: Statistics) -> Payload | Draws:
        """Privatize the exact evidence; the only step that draws secret randomness."""
