"""What a mechanism plans before it sees data, and what it lets out afterwards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from dpbayes_cli.core.design import DesignRows
from dpbayes_cli.core.encoded_records import CodedColumns
from dpbayes_cli.core.private_quantile import PrivateBounds
from dpbayes_cli.core.released import Draws
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence, Statistic
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.noise import NoiseLaw
from dpbayes_cli.privacy.step_law import StepLaw


class DrawLaw(StepLaw, ABC):
    """A calibrated law that draws parameters from exact statistics, or from records, as a plan holds it."""

    @abstractmethod
    def run(self, evidence: ExactEvidence, size: int) -> Draws:
        """Draw from exact evidence, with the operating system's randomness."""


class Sampler(DrawLaw):
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

    def nonprivate_sd(self, values: Sequence[int]) -> float | None:
        """Return the standard deviation that it would have without privacy; None: its model tells."""
        return None

    def run(self, evidence: ExactEvidence, size: int) -> Draws:
        """Draw from exact statistics."""
        return Draws(tuple(self.draw(evidence.values, size)))


class Chain(DrawLaw):
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
    rows: DesignRows | CodedColumns | None = None

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
        return require_type(self.law, Sampler)

    def drawn(self, evidence: ExactEvidence) -> Draws:
        """Draw as many as are planned.

        Raises:
            TypeError: the step does not draw from evidence alone.
        """
        return require_type(self.law, DrawLaw).run(evidence, self.draws)


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
    def final_step(self) -> Step:
        """The last step; those before it choose what it needs."""
        return self.steps[-1]
