"""The likelihood of whole held-out records under a release, for models that predict no single column."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers


@dataclass(frozen=True)
class HeldOutScore:
    """The log likelihood of held-out records.

    Attributes:
        records: the number of held-out records.
        scored: how many of them belong to a known sequence and time step, and have a valid feature.
        log_likelihood: the mean over scored records, in nats; NaN if there are none.
        without_states: the same mean if every cell is predicted by the emissions averaged over all states; how much
            lower it is shows what the states add.
    """

    records: int
    scored: int
    log_likelihood: float
    without_states: float


class HeldOutLikelihood(ABC):
    """Collects held-out records, then scores them."""

    @abstractmethod
    def take(self, codes: Integers) -> None:
        """Add a block of records, shape (n_records, n_columns), -1 for an invalid cell."""

    @abstractmethod
    def score(self, draws: Floats, states: Floats) -> HeldOutScore:
        """Return the log likelihood of the collected records.

        Args:
            draws: draws of the reported parameters, shape (n_draws, n_parameters).
            states: the posterior probability of each state, shape (n_sequences, n_steps, n_states).
        """
