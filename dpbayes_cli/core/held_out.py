"""The likelihood of whole held-out records under a released posterior, for models that predict no single column."""

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
        scored: the number of held-out records with a known sequence, a known time step and at least one valid feature.
        log_likelihood: the mean log likelihood of the scored records, in nats; NaN if no record is scored.
        without_states: the same mean, but every cell is predicted by the emissions averaged over all states. The
            difference from ``log_likelihood`` shows how much the states improve predictions.
    """

    records: int
    scored: int
    log_likelihood: float
    without_states: float


class HeldOutLikelihood(ABC):
    """A scorer that first collects held-out records, and then computes their log likelihood."""

    @abstractmethod
    def take(self, codes: Integers) -> None:
        """Add the codes of a block of records, shape (n_records, n_columns), -1 for an invalid cell."""

    @abstractmethod
    def score(self, draws: Floats, states: Floats) -> HeldOutScore:
        """Return the log likelihood of the collected records.

        Args:
            draws: draws of the reported parameters, shape (n_draws, n_parameters).
            states: the posterior probability of each state, shape (n_sequences, n_steps, n_states).
        """
