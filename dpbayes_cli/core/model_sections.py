"""How a model's parameters are arranged on pages: as the tables of a network, or as hidden states over time.

A model returns the sections that fit it; the bundle package draws and writes them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from dpbayes_cli.core.columns import Column, CutColumn
from dpbayes_cli.privacy.dag import Network
from dpbayes_cli.privacy.lazy_numpy import np


@dataclass(frozen=True)
class ModelSection:
    """A section of a page that shows the reported parameters of a model, such as tables."""


Kind = TypeVar("Kind", bound=ModelSection)


def section_of(sections: Iterable[ModelSection], kind: type[Kind]) -> Kind | None:
    """Return the first section of a kind, None if there is none."""
    return next((section for section in sections if isinstance(section, kind)), None)


@dataclass(frozen=True)
class NetworkTables(ModelSection):
    """Parameters that are the cells of a network's conditional probability tables, table after table.

    ``target`` is the index of the variable to predict, or None.
    """

    network: Network
    target: int | None = None

    @property
    def row_heads(self) -> tuple[int, ...]:
        """The index of the first parameter of every row of every table."""
        firsts = itertools.accumulate(self.network.n_cells, initial=0)
        return tuple(
            first + k
            for first, cells, size in zip(firsts, self.network.n_cells, self.network.sizes, strict=False)
            for k in range(0, cells, size)
        )

    def split(self, values: Any) -> list[Any]:
        """Split an array of all cells along its last axis; return one array for each table, in the table's shape."""
        parts = np.split(values, np.cumsum(self.network.n_cells)[:-1], axis=-1)
        return [part.reshape(*part.shape[:-1], *self.network.shape(i)) for i, part in enumerate(parts)]


@dataclass(frozen=True)
class StatesOverTime(ModelSection):
    """Parameters of a hidden Markov model: emissions, transitions, and the distribution of the first state.

    Attributes:
        axes: the columns of the sequence and of the time step.
        features: the columns that depend on the state.
        states: the number of hidden states.
    """

    axes: tuple[Column, Column]
    features: tuple[Column | CutColumn, ...]
    states: int

    @property
    def state_names(self) -> tuple[str, ...]:
        """The names of the states: "1" for the most frequent state, "2" for the next, and so on."""
        return tuple(str(k + 1) for k in range(self.states))

    @property
    def shape(self) -> tuple[int, int, int]:
        """The numbers of sequences, of time steps and of states."""
        return len(self.axes[0].levels), len(self.axes[1].levels), self.states

    @property
    def n_sites(self) -> int:
        """The number of hidden states in all sequences: sequences times time steps."""
        return math.prod(self.shape[:-1])

    def split(self, values: Any) -> tuple[list[Any], Any, Any]:
        """Split parameters along the last axis into emissions, transitions and the distribution of the first state.

        Returns:
            The emissions of each feature, shape (..., n_states, n_values); the transition matrix, shape (..., n_states,
            n_states), whose rows add up to one; and the probabilities of the first state, shape (..., n_states).
        """
        k, sizes = self.states, [len(column.levels) for column in self.features]
        *emissions, transition, initial = np.split(values, np.cumsum([*(k * size for size in sizes), k * k]), axis=-1)
        lead = values.shape[:-1]
        shaped = [part.reshape(*lead, k, size) for part, size in zip(emissions, sizes, strict=True)]
        return shaped, transition.reshape(*lead, k, k), initial
