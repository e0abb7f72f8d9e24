"""The parts of a model with hidden states that a private Gibbs chain uses.

A site is a place with one hidden state: a time step of a sequence, or a record. All records of a site share its state,
and a record is at one site. Given the state, the features of a record are independent; the emission of a state is the
vector of a feature's probabilities. The prior of the states depends on transition probabilities or class probabilities
(``StateProbabilities``), and not on the records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.encoded_records import CodedColumns
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.statistic import ExactEvidence, Statistic

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats, Integers

StateProbabilities = tuple[Any, ...]
"""Arrays of probabilities, either of transitions and first states or of classes."""


class SiteEvidence(ABC):
    """The exact evidence at every site; only the updates of a chain read it."""

    @abstractmethod
    def scores(self, tables: Sequence[Integers], sites: Integers) -> Integers:
        """Return, for each site and state, the sum of the table entries of the site's records over all features.

        Args:
            tables: for each feature, integers of shape (n_states, n_values).
            sites: the indices of the sites to return, shape (n_some,).

        Returns:
            Shape (n_some, n_states).
        """

    @abstractmethod
    def counts(self, states: Integers, n_states: int) -> list[Integers]:
        """Count, for each feature, the records with each state and value, shape (n_states, n_values).

        Args:
            states: the state of every site.
            n_states: the number of states.
        """


@dataclass(frozen=True)
class LatentStructure(ABC):
    """The public structure of a model with hidden states.

    Attributes:
        n_states: the number of states.
        emissions: for each feature the prior concentration of each of its values, the same in every state.
    """

    n_states: int
    emissions: tuple[tuple[float, ...], ...]

    releases_states: ClassVar[bool] = False
    """Whether the states of all sites are released with the parameters."""

    @abstractmethod
    def n_sites(self, n_records: int) -> int:
        """Return the public number of sites."""

    @abstractmethod
    def update_blocks(self, n_records: int) -> tuple[Integers, ...]:
        """Return the sites in blocks, in the order of a sweep.

        The states of a block are independent given all other states, so that they can be drawn together.
        """

    @abstractmethod
    def draw_state_probabilities(self, states: Integers | None, rng: np.random.Generator) -> StateProbabilities:
        """Draw the probabilities of states given the states of all sites; if these are None, draw from the prior."""

    @abstractmethod
    def draw_states(self, probabilities: StateProbabilities, n_records: int, rng: np.random.Generator) -> Integers:
        """Draw the states of all sites from their prior, shape (n_sites,)."""

    @abstractmethod
    def log_prior(self, probabilities: StateProbabilities, states: Integers, sites: Integers) -> Floats:
        """Return the log prior of each state at sites of one block, given all other sites, shape (n_some, n_states)."""

    @abstractmethod
    def relabeled(self, probabilities: StateProbabilities, order: Integers) -> Sequence[Floats]:
        """Return the reported probabilities of states, with the states in a new order."""

    @abstractmethod
    def sites(self, evidence: ExactEvidence) -> SiteEvidence:
        """Return the exact evidence at all sites."""


class LatentVariables(Model):
    """The capability of models with hidden states, on which a private Gibbs chain can run.

    The reported parameters are the emissions (by feature, state and value), then the ``StateProbabilities``.
    """

    not_simulated: ClassVar[str] = (
        "Posteriors of hidden states need long Markov chains, so they are not simulated for plans and reports."
    )

    @property
    @abstractmethod
    def structure(self) -> LatentStructure:
        """The public structure of the model."""

    @abstractmethod
    def chain_input(self, policy: RecordPolicy) -> Statistic | CodedColumns:
        """Return the statistic, or the columns of codes, that a chain reads from the data."""
