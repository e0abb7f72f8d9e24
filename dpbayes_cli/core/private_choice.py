"""The interface of private first steps: what the data choose, at a cost, before the statistics are released."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, TypeAlias

from dpbayes_cli.core.columns import AnyColumn, RecordPolicy
from dpbayes_cli.core.statistic import ExactEvidence, Statistic
from dpbayes_cli.privacy.kinds import BoundedRange
from dpbayes_cli.privacy.step_law import StepLaw

Bounds: TypeAlias = tuple[float, float]
Parents: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
"""The name of each variable of a network with the names of its parents, in the order of the spec."""
Chosen: TypeAlias = Bounds | Parents


def parents_in(chosen: Chosen) -> Parents:
    """Return the parents of variables, or nothing if bounds were chosen."""
    return tuple(each for each in chosen if isinstance(each, tuple))


def bounds_in(chosen: Chosen) -> Bounds | None:
    """Return the lower and the upper bound; None if something else was chosen."""
    numbers = [each for each in chosen if isinstance(each, float)]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else None


class PrivateChoice(StepLaw, ABC):
    """The law of a plan's first step, which chooses privately what the spec of other releases states.

    One pass over the data reads the statistic of the choice. The values of the chosen statistic are computed from the
    same numbers, so that both steps see the same data.
    """

    key: ClassVar[str]
    """The section of the spec that asks for the choice."""
    keeps_parameters: ClassVar[bool] = True
    """Whether the parameters and the statistics have the same names whatever is chosen."""

    @property
    @abstractmethod
    def guarantee(self) -> BoundedRange:
        """The guarantee of the choice."""

    @property
    def least_records(self) -> int:
        """The smallest number of records with which an audit sees a typical choice; 0 if any number does."""
        return 0

    @property
    def most_parameters(self) -> int:
        """The largest number of parameters of a model with a choice; 0 if all choices have equally many."""
        return 0

    @abstractmethod
    def described(self) -> str:
        """Return a noun phrase that says what is chosen."""

    @abstractmethod
    def extremes(self) -> Sequence[Chosen]:
        """Return possible choices between whose statistics the cost would differ, if it depended on the choice."""

    @abstractmethod
    def first_statistic(self, columns: Sequence[AnyColumn], policy: RecordPolicy) -> Statistic:
        """Return what is read from the data; it never leaves the process."""

    @abstractmethod
    def draw(self, evidence: ExactEvidence) -> Chosen:
        """Choose, with the operating system's randomness."""

    @abstractmethod
    def final_values(
        self, evidence: ExactEvidence, chosen: Chosen, columns: Sequence[AnyColumn], statistic: Statistic
    ) -> tuple[int, ...]:
        """Return the exact values of the chosen statistic, given what the first step read.

        Args:
            columns: the columns of the model with what was chosen.
            statistic: the statistic of that model.
        """
