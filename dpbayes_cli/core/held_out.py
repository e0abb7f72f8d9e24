"""How likely whole new records are under a release, for models that predict no single column."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers


@dataclass(frozen=True)
class HeldOutScore:
    """How likely held-out records are.

    Attributes:
        records: how many there were.
        scored: how many belong to a sequence and a step, and have a valid feature.
        log_likelihood: the mean over scored records, in nats; NaN where there are none.
        without_states: the same where every record has the features that all have on average: what states are worth.
    """

    records: int
    scored: int
    log_likelihood: float
    without_states: float


class HeldOutLikelihood(ABC):
    """Takes in new records, then tells how likely they are."""

    @abstractmethod
    def take(self, codes: Integers) -> None:
        """Take in a block of records, shape (n_records, n_columns), -1 for an invalid cell."""

    @abstractmethod
    def score(self, draws: Floats, states: Floats) -> HeldOutScore:
        """Return how likely the records are that were taken in.

        Args:
            draws: of the reported parameters, shape (n_draws, n_parameters).
            states: how likely each sequence is in each state at each step, shape (n_sequences, n_steps, n_states).
        """
