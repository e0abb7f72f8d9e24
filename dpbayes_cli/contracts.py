"""What the parts of dpbayes promise each other: models, mechanisms, statistics, evidence and inference problems.

A model says what a record contributes to an integer statistic, a source evaluates that statistic, a mechanism
privatizes it, and inference sees only the latent-count problem that the model states about the privatized numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, cast

import msgspec

from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.privacy.noise import NoiseLaw

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


@dataclass(frozen=True)
class RecordPolicy:
    """How neighbours are defined and what an invalid record counts as.

    Attributes:
        neighbors: the neighbour relation.
        impute: the public value that stands for an invalid cell, or None when invalid records are dropped
            (a dropped record is the null record: it contributes zero and has likelihood one).
    """

    neighbors: Neighbors
    impute: str | None = None

    @property
    def complete(self) -> bool:
        """Whether every record is valid, so that under replace-one the number of valid records is public."""
        return self.impute is not None


@dataclass(frozen=True)
class Column:
    """One column that a model reads, with its public domain.

    Attributes:
        role: what the column is to the model, e.g. ``outcome``.
        levels: the texts that are valid, in the order of their codes; everything else is invalid.
    """

    role: str
    levels: tuple[str, ...]


@dataclass(frozen=True)
class CountAt:
    """The expression that is 1 for a record whose column has the given level, else 0.

    Attributes:
        role: the column's role.
        level: the code of the level.
    """

    role: str
    level: int


Expression = CountAt  # the union of expression kinds that an engine can evaluate


@dataclass(frozen=True)
class Witness:
    """A pair of neighbouring records that attains a sensitivity.

    Attributes:
        record: the cell of one record; None is the absent record (add-remove); an invalid text is the null record.
        neighbor: the cell of the other, in the same form.
    """

    record: str | None
    neighbor: str | None


@dataclass(frozen=True)
class Statistic:
    """A public integer statistic: a sum over records of integer expressions.

    Attributes:
        names: the names of its components.
        expressions: one integer expression a component.
        sensitivity_l1: the largest L1 change between neighbours, in counts.
        witness: two records that attain it.
    """

    names: tuple[str, ...]
    expressions: tuple[Expression, ...]
    sensitivity_l1: int
    witness: Witness


@dataclass(frozen=True)
class Statistics:
    """The exact evidence: what a source hands to a mechanism and nobody else ever sees.

    Attributes:
        values: the exact integer components, in the order of the statistic.
        n_records: the number of records read; public under replace-one, private under add-remove.
    """

    values: tuple[int, ...]
    n_records: int


@dataclass(frozen=True)
class Total:
    """What is known about the number of valid records.

    Attributes:
        kind: ``known`` (exactly n), ``at-most`` (uniform on 0..n a priori) or ``unbounded`` (uniform on 0, 1, 2, ...).
        n: the public number of records; 0 for ``unbounded``.
    """

    kind: Literal["known", "at-most", "unbounded"]
    n: int = 0


@dataclass(frozen=True)
class NoisyCounts:
    """A latent-count problem: category counts c with a Dirichlet prior on theta, seen through integer noise.

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
    total: Total


class Model(ABC):
    """A statistical model with a public domain and prior; its powers are the capabilities that it also inherits."""

    name: ClassVar[str]
    summary: ClassVar[str]
    card: ClassVar[Card]
    domain_type: ClassVar[type[Section]]
    prior_type: ClassVar[type[Section]]

    @classmethod
    @abstractmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        """Build the model from its parts of a spec.

        Raises:
            SpecError: the parts do not fit each other.
        """

    @property
    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """The columns that the model reads, with their public domains."""

    @property
    @abstractmethod
    def parameters(self) -> tuple[str, ...]:
        """The names of the reported parameters."""

    @abstractmethod
    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return the posterior predictive probability of each level for one new record.

        Args:
            mean: the posterior means of the reported parameters.
        """


class BoundedStatistics(Model):
    """The capability of models with an exact integer statistic of bounded sensitivity."""

    @abstractmethod
    def statistic(self, policy: RecordPolicy) -> Statistic:
        """Return the minimal sufficient integer statistic under a policy, with its sensitivity and a witness."""


class LatentCounts(BoundedStatistics):
    """The capability of models whose data are category counts with a Dirichlet prior on their probabilities."""

    @property
    @abstractmethod
    def categories(self) -> tuple[int, ...]:
        """For each reported parameter, the category of ``noisy_counts`` whose probability it is."""

    @abstractmethod
    def noisy_counts(
        self, policy: RecordPolicy, released: Sequence[int], noise: NoiseLaw, n_records: int | None
    ) -> NoisyCounts:
        """State the latent-count problem behind privatized statistics.

        Args:
            policy: the policy under which they were released.
            released: the privatized integers, in the order of ``statistic``.
            noise: the law of their noise.
            n_records: the public number of records; None where it is private.
        """


@dataclass(frozen=True)
class Request:
    """What a mechanism needs to know to price a release; public inputs only.

    Attributes:
        policy: neighbours and the treatment of invalid records.
        epsilon: the exact epsilon asked for.
    """

    policy: RecordPolicy
    epsilon: Decimal


@dataclass(frozen=True)
class Step:
    """One priced step of a plan.

    Attributes:
        statistic: what is read from the data.
        noise: the calibrated law.
        guarantee: the price of this step.
    """

    statistic: Statistic
    noise: NoiseLaw
    guarantee: Guarantee


@dataclass(frozen=True)
class Plan:
    """An ordered list of priced steps, made without data; the total is charged once.

    Attributes:
        steps: the steps in the order of their execution.
        guarantee: the guarantee of the whole.
    """

    steps: tuple[Step, ...]
    guarantee: Guarantee


@dataclass(frozen=True)
class Payload:
    """What a mechanism lets out of the data: one privatized integer a component, with the law of its noise.

    Attributes:
        names: the components' names.
        values: the privatized integers.
        noise: the law of the noise that was added.
    """

    names: tuple[str, ...]
    values: tuple[int, ...]
    noise: NoiseLaw

    def described(self) -> list[dict[str, Any]]:
        """Return the components as (name, value, noise_scale) objects."""
        return [
            {"name": name, "value": value, "noise_scale": self.noise.scale}
            for name, value in zip(self.names, self.values, strict=True)
        ]


class Mechanism(ABC):
    """A privacy mechanism: prices a question without data, then privatizes exact evidence."""

    name: ClassVar[str]
    summary: ClassVar[str]
    card: ClassVar[Card]
    requires: ClassVar[type]
    needs_n: ClassVar[bool]

    @abstractmethod
    def plan(self, model: Model, request: Request) -> Plan:
        """Price a release; never sees data.

        Raises:
            SpecError: no guarantee can be given.
        """

    @abstractmethod
    def release(self, plan: Plan, evidence: Statistics) -> Payload:
        """Privatize the exact evidence; the only step that draws secret randomness."""
