"""The plan of a release, which a mechanism makes before it sees data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

from dpbayes_cli.core.design import DesignRows
from dpbayes_cli.core.encoded_records import CodedColumns
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.private_choice import PrivateChoice
from dpbayes_cli.core.released import Draws
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence, Statistic
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.key_threshold import KeyThreshold
from dpbayes_cli.privacy.noise import NoiseLaw
from dpbayes_cli.privacy.step_law import StepLaw


class DrawLaw(StepLaw, ABC):
    """The calibrated law of a plan's step that draws parameters, given exact statistics or records."""

    @abstractmethod
    def run(self, evidence: ExactEvidence, size: int) -> Draws:
        """Draw the parameters, given exact values from the data, with the operating system's randomness."""


class Sampler(DrawLaw):
    """A calibrated law of posterior draws or point estimates, which depends on the data through exact statistics."""

    has_moments: ClassVar[bool] = True
    draws_at_once: ClassVar[bool] = True

    @abstractmethod
    def draw(self, values: Sequence[int], size: int) -> list[tuple[float, ...]]:
        """Draw from the law given exact integer statistics, with the operating system's randomness."""

    @abstractmethod
    def moments(self, values: Sequence[int]) -> tuple[float, float]:
        """Return the mean and the standard deviation of a draw's first parameter, which plans show."""

    def moments_by_row(self, values: Sequence[int]) -> list[tuple[float, float]]:
        """Return the ``moments`` of the first entry of each row of a network's tables; one element without tables."""
        return [self.moments(values)]

    def nonprivate_sd(self, values: Sequence[int]) -> float | None:
        """Return the first parameter's standard deviation without privacy; None if the model itself computes it."""
        return None

    def run(self, evidence: ExactEvidence, size: int) -> Draws:
        """Draw from exact statistics."""
        return Draws(tuple(self.draw(evidence.values, size)))


class Chain(DrawLaw):
    """A planned Markov chain that releases its last iterates; the privacy cost covers every update."""

    draws_exactly: ClassVar[bool] = False


@dataclass(frozen=True)
class Step:
    """One priced step of a plan, which adds noise to a statistic, draws parameters, or makes a private choice.

    Attributes:
        statistic: what is read from the data.
        law: the calibrated law of the noise, of the draws or of the choice.
        draws: the number of draws; 0 if the step draws no parameters.
        rows: the rows of a design or the codes of records, if a chain reads these instead of a statistic.
    """

    statistic: Statistic
    law: StepLaw
    guarantee: Guarantee
    draws: int = 0
    rows: DesignRows | CodedColumns | None = None

    @property
    def noise(self) -> NoiseLaw:
        """The law of the noise.

        Raises:
            TypeError: the step adds no noise.
        """
        if not self.law.adds_noise:
            raise TypeError("this step adds no noise")
        return cast(NoiseLaw, self.law)

    @property
    def sampler(self) -> Sampler:
        """The law of the draws given exact statistics.

        Raises:
            TypeError: the step does not draw from exact statistics.
        """
        return require_type(self.law, Sampler)

    def drawn(self, evidence: ExactEvidence) -> Draws:
        """Return the planned number of draws.

        Raises:
            TypeError: the step does not draw parameters.
        """
        return require_type(self.law, DrawLaw).run(evidence, self.draws)


@dataclass(frozen=True)
class Plan:
    """An ordered list of priced steps, made without data; their total cost is charged once.

    Attributes:
        guarantee: the guarantee of the whole plan.
        parameters: the calibrated parameters by name.
        how: a text for reports that explains how draws are made; may be empty.
        warnings: public warnings about the quality of the draws or of the intervals.
        note: what is known about the intervals and is no reason to worry; may be empty.
        choice: the law of the first step, if it chooses bounds or a structure for the last step; else None.
        threshold: the rule that decides which keys of groups are published; None if no keys are found in the data.
    """

    steps: tuple[Step, ...]
    guarantee: Guarantee
    parameters: Mapping[str, Any] = field(default_factory=dict)
    how: str = ""
    warnings: tuple[str, ...] = ()
    note: str = ""
    choice: PrivateChoice | None = None
    threshold: KeyThreshold | None = None

    def at_cost(self, charged: Guarantee) -> Plan:
        """Return the plan at the cost that an earlier version charged for it.

        Args:
            charged: the ``former`` guarantee of the plan.
        """
        steps = tuple(replace(step, guarantee=step.guarantee.former) for step in self.steps)
        return replace(self, steps=steps, guarantee=charged)

    def all_warnings(self, model: Model, n_records: int | None) -> tuple[str, ...]:
        """Return the public warnings of the mechanism, and those of the model about the noise of the last step."""
        if not self.final_step.law.adds_noise:
            return self.warnings
        return self.warnings + model.known_miscalibration(self.final_step.noise, n_records)

    @property
    def final_step(self) -> Step:
        """The last step; an earlier step can only choose something for it."""
        return self.steps[-1]
