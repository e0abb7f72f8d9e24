"""Models of records whose features depend on hidden states: what a private Gibbs chain on them needs to know.

A site is where one state lives: a time step of a sequence, or a record. The records of a site share its state, and a
record is at one site. Given its state, the features of a record are independent, and what a state says about a feature
is a vector of shares, its emission. How states hang together, the links, is between states alone: it touches no data
once states are public.
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
"""Arrays of probabilities: of transitions and of first states, or of classes."""


class SiteEvidence(ABC):
    """The exact evidence at every site; nobody but the chain's updates sees it."""

    @abstractmethod
    def scores(self, tables: Sequence[Integers], sites: Integers) -> Integers:
        """Return for each state the sum over the records of a site of what tables say of their values.

        Args:
            tables: for each feature, integers of shape (n_states, n_values).
            sites: which, shape (n_some,).

        Returns:
            Shape (n_some, n_states).
        """

    @abstractmethod
    def counts(self, states: Integers, n_states: int) -> list[Integers]:
        """Return for each feature how many records of each state have each value, shape (n_states, n_values).

        Args:
            states: the state of every site.
            n_states: how many there are.
        """


@dataclass(frozen=True)
class LatentStructure(ABC):
    """The public side of a model with hidden states.

    Attributes:
        n_states: K.
        emissions: for each feature the concentration of each of its values, in every state alike.
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
        """Return the sites in groups: given the others' states, those of a group are independent."""

    @abstractmethod
    def draw_state_probabilities(self, states: Integers | None, rng: np.random.Generator) -> StateProbabilities:
        """Draw the links given the states of all sites, or (None) from the prior."""

    @abstractmethod
    def draw_states(self, probabilities: StateProbabilities, n_records: int, rng: np.random.Generator) -> Integers:
        """Draw the states of all sites from their prior, shape (n_sites,)."""

    @abstractmethod
    def log_prior(self, probabilities: StateProbabilities, states: Integers, sites: Integers) -> Floats:
        """Return what links and the other sites' states say of some sites of one group, shape (n_some, n_states)."""

    @abstractmethod
    def relabeled(self, probabilities: StateProbabilities, order: Integers) -> Sequence[Floats]:
        """Return the links as they are reported, states in a new order."""

    @abstractmethod
    def sites(self, evidence: ExactEvidence) -> SiteEvidence:
        """Return the evidence at the sites."""


class LatentVariables(Model):
    """The capability of models of which a private Gibbs chain can be run on hidden states.

    Their reported parameters are the emissions, feature by feature, state by state, value by value, then the links.
    """

    not_simulated: ClassVar[str] = (
        "Posteriors of hidden states take long Markov chains, and are not simulated for a page."
    )

    @property
    @abstractmethod
    def structure(self) -> LatentStructure:
        """The public side of the model."""

    @abstractmethod
    def chain_input(self, policy: RecordPolicy) -> Statistic | CodedColumns:
        """Return what a chain reads from the data: a statistic, or the codes of the records."""
