"""The law of a record given each posterior draw: a network of discrete variables, some of which may be hidden.

Synthetic records are drawn from this law, and analyses are computed on its margins.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import Column, CutColumn
from dpbayes_cli.privacy.dag import Network
from dpbayes_cli.privacy.lazy_numpy import np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_MAX_CELLS = 1 << 20
"""The largest number of cells of a table that a margin needs."""
_BLOCK_NUMBERS = 1 << 23
"""The largest number of numbers in the table of a block of draws."""


@dataclass(frozen=True)
class JointLaw:
    """The law of a record given each posterior draw.

    Attributes:
        network: the graph of all variables: the columns, in their order, then the hidden variables.
        columns: the columns of a record.
        tables: for each variable, the probability of its value given its parents, shape (n_draws, *network.shape(i)).
        unknown_shares: the columns that the posterior has no law of; their values are equally frequent in ``tables``.
    """

    network: Network
    columns: tuple[Column | CutColumn, ...]
    tables: tuple[Floats, ...]
    unknown_shares: tuple[int, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.network.names[: len(self.columns)]

    @property
    def n_draws(self) -> int:
        """The number of posterior draws."""
        return len(self.tables[0])

    def records(self, draw: int, n_records: int, rng: np.random.Generator) -> Integers:
        """Return codes of independent records from the law of one draw, shape (n_records, n_columns)."""
        codes = np.empty((n_records, len(self.network)), dtype=np.int64)
        for i in self.network.order:
            table, size = self.tables[i][draw], self.network.sizes[i]
            row = np.zeros(n_records, dtype=np.int64)
            for parent in self.network.parents[i]:
                row = row * self.network.sizes[parent] + codes[:, parent]
            cumulative = np.cumsum(table.reshape(-1, size), axis=1)
            cumulative /= cumulative[:, -1:]
            ends = (cumulative + np.arange(len(cumulative))[:, None]).ravel()  # row r ends at r + 1
            drawn = np.searchsorted(ends, rng.random(n_records) + row, side="right") - row * size
            codes[:, i] = np.clip(drawn, 0, size - 1)
        return codes[:, : len(self.columns)]

    def margin(self, wanted: Sequence[int]) -> Floats:
        """Return the joint probabilities of some variables given each draw, shape (n_draws, *sizes).

        Raises:
            SpecError: a table of the computation would have too many cells.
        """
        steps, largest = self._eliminations(wanted)
        if largest > _MAX_CELLS:
            raise SpecError(
                f"the joint law of {', '.join(repr(self.network.names[i]) for i in wanted)} needs a table of "
                f"{largest:,} cells; the limit is {_MAX_CELLS:,}",
                where="analysis",
                hint="analyze fewer columns",
            )
        size = max(_BLOCK_NUMBERS // largest, 1)
        blocks = [self._block(wanted, steps, slice(k, k + size)) for k in range(0, self.n_draws, size)]
        return np.concatenate(blocks)

    def _eliminations(self, wanted: Sequence[int]) -> tuple[list[int], int]:
        """Return the variables that are summed out, in order, and the number of cells of the largest table."""
        scopes = [set(self.network.families[i]) for i in self._ancestors(wanted)]
        left, order = set().union(*scopes) - set(wanted), []
        largest = max(map(self._n_cells, (*scopes, wanted)))
        while left:
            unions = {i: set().union(*(scope for scope in scopes if i in scope)) for i in sorted(left)}
            chosen = min(unions, key=lambda i: self._n_cells(unions[i]))
            largest = max(largest, self._n_cells(unions[chosen]))
            scopes = [scope for scope in scopes if chosen not in scope] + [unions[chosen] - {chosen}]
            order.append(chosen)
            left.remove(chosen)
        return order, largest

    def _block(self, wanted: Sequence[int], steps: Sequence[int], draws: slice) -> Floats:
        factors: list[tuple[Sequence[int], Floats]] = [
            (self.network.families[i], self.tables[i][draws]) for i in self._ancestors(wanted)
        ]
        for step in steps:
            members = [factor for factor in factors if step in factor[0]]
            rest = tuple(sorted(set().union(*(scope for scope, _ in members)) - {step}))
            factors = [factor for factor in factors if step not in factor[0]] + [(rest, _product(members, rest))]
        return _product(factors, wanted)

    def _n_cells(self, scope: Iterable[int]) -> int:
        return math.prod(self.network.sizes[i] for i in scope)

    def _ancestors(self, variables: Iterable[int]) -> list[int]:
        """Return the variables with all their ancestors, parents first."""
        needed = set(variables)
        for i in reversed(self.network.order):
            if i in needed:
                needed.update(self.network.parents[i])
        return [i for i in self.network.order if i in needed]

    def missing_edges(self, wanted: Sequence[int]) -> list[tuple[int, int]]:
        """Return the pairs of variables whose missing edge restricts the joint law of some variables.

        If there are none, the network can hold every joint law of these variables: they are in one table, and so are,
        in turn, the parents of each variable on which that table depends.
        """
        groups = [tuple(wanted), *(self.network.parents[i] for i in self._ancestors(wanted))]
        pairs = {(min(pair), max(pair)) for group in groups for pair in combinations(group, 2)}
        families = enumerate(map(set, self.network.families))
        adjacent = {(min(i, j), max(i, j)) for i, family in families for j in family - {i}}
        return sorted(pairs - adjacent)

    def are_separated(self, first: int, second: int, given: Iterable[int] = ()) -> bool:
        """Return whether two variables are independent given others, whatever the probabilities in the tables.

        Source: Lauritzen, Dawid, Larsen and Leimer 1990 (separation in the moral graph of the ancestors).
        """
        closed = {i for i, size in enumerate(self.network.sizes) if size == 1} | set(given)
        reached, front = {first}, [first]
        families = [set(self.network.families[i]) for i in self._ancestors({first, second, *given})]
        while front:
            i = front.pop()
            near = set().union(*(family for family in families if i in family)) - reached
            reached |= near
            front += near - closed
        return second not in reached


def hidden_name(name: str, taken: Sequence[str]) -> str:
    """Return a name for a hidden variable that no column has."""
    while name in taken:
        name = f"hidden {name}"
    return name


def _product(factors: Sequence[tuple[Sequence[int], Floats]], kept: Sequence[int]) -> Floats:
    """Multiply tables whose first axis is the draw; sum over all variables that are not kept."""
    axes = {i: k + 1 for k, i in enumerate(dict.fromkeys([*kept, *(i for scope, _ in factors for i in scope)]))}
    operands: list[Any] = [part for scope, table in factors for part in (table, [0, *(axes[i] for i in scope)])]
    return np.asarray(np.einsum(*operands, [0, *(axes[i] for i in kept)], optimize=len(factors) > 2))
