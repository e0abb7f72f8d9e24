"""What networks of discrete variables share: their tables as a statistic, as a conjugate family, and as a problem."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from dpbayes_cli.capabilities import ConjugatePosterior, total_of
from dpbayes_cli.contracts import WRITTEN_FREELY, Level, NoisyStatistics, Positive, Section
from dpbayes_cli.errors import SpecError, nearest
from dpbayes_cli.grammar import check_levels
from dpbayes_cli.network import Network
from dpbayes_cli.privacy.conjugate import NetworkFamily
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.privacy.noise import NoiseLaw
from dpbayes_cli.privacy.part_noise import law_of_component
from dpbayes_cli.problems import NoisyTable, NoisyTables, Total
from dpbayes_cli.statistic import (
    Column,
    CutColumn,
    Part,
    RecordPolicy,
    Statistic,
    TableCounts,
    Witness,
    count_cells,
    has_stand_in,
)

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.numeric import Floats, Integers

MOST_CELLS = 1 << 18
"""All tables together may have so many cells: each is a number that is noised, summarized and written."""
_BLOCK = 1 << 17
_LARGEST_CUT = 1e100

Concentrations = Annotated[
    Positive | dict[str, Positive | dict[str, Positive]],
    Meta(
        description="a number for all tables, or by variable a number or a mapping from value to number; alike in "
        "every row of a table"
    ),
]


class VariableSection(Section, frozen=True, kw_only=True):
    """A variable: a column of the file with its public values, or a number cut at public points."""

    values: Annotated[tuple[Level, ...], Meta(description="the valid texts, in order")] = ()
    cuts: Annotated[
        tuple[Annotated[float, Meta(ge=-_LARGEST_CUT, le=_LARGEST_CUT)], ...],
        Meta(description="in place of values: ascending points at which a number is cut"),
    ] = ()
    impute: Annotated[
        Annotated[str, Meta(extra_json_schema=WRITTEN_FREELY)] | None,
        Meta(description="the public value that an invalid cell counts as; default: on_invalid says"),
    ] = None
    weight: Annotated[
        Annotated[float, Meta(ge=1e-3, le=1e3)],
        Meta(description="the table's share of the budget for noise, relative to other tables"),
    ] = 1.0

    def __post_init__(self) -> None:
        if bool(self.values) == bool(self.cuts):
            raise ValueError("a variable has values, or cuts")
        if self.values:
            if len(self.values) < 2:
                raise ValueError("a variable has at least two values")
            check_levels(self.values)
        if any(low >= high for low, high in itertools.pairwise(self.cuts)):
            raise ValueError("cuts must ascend")

    def column(self, name: str) -> Column | CutColumn:
        """Return the column that a variable reads."""
        if self.values:
            return Column(name, self.values, self.impute)
        return CutColumn(name, self.cuts, self.impute)


def check_network(columns: Sequence[Column | CutColumn], parents: Sequence[Sequence[str]]) -> Network:
    """Return the graph of variables.

    Args:
        columns: the variables.
        parents: the names of the parents of each.

    Raises:
        ValueError: a parent does not exist, the variables depend on each other in a circle, or there are too many
            cells.
    """
    names = [column.role for column in columns]
    place = {name: i for i, name in enumerate(names)}
    for name, each in zip(names, parents, strict=True):
        for parent in each:
            if parent not in place:
                raise ValueError(f"{name!r} has a parent {parent!r} that is no variable; {nearest(parent, names)}")
    indices = tuple(tuple(place[parent] for parent in each) for each in parents)
    network = Network(tuple(names), tuple(column.levels for column in columns), indices)
    cells = sum(network.n_cells)
    if cells > MOST_CELLS:
        largest = max(range(len(names)), key=lambda i: network.n_cells[i])
        raise ValueError(
            f"the tables have {cells:,} cells; allowed: {MOST_CELLS:,}; that of {names[largest]!r} is the largest, "
            f"with {network.n_cells[largest]:,}"
        )
    return network


def stated_concentrations(stated: Any, network: Network) -> tuple[tuple[float, ...], ...]:
    """Return the concentration of each value of each variable.

    Raises:
        SpecError: a variable or a value is not in the domain, or one is left out.
    """
    if not isinstance(stated, Mapping):
        return tuple((float(stated),) * size for size in network.sizes)
    _check_keys(stated, network.names, "prior.concentration", "variable")
    found = []
    for name, levels in zip(network.names, network.levels, strict=True):
        own = stated[name]
        if isinstance(own, Mapping):
            _check_keys(own, levels, f"prior.concentration.{name}", "value")
            found.append(tuple(float(own[level]) for level in levels))
        else:
            found.append((float(own),) * len(levels))
    return tuple(found)


def _check_keys(stated: Mapping[str, Any], allowed: Sequence[str], where: str, what: str) -> None:
    for key in stated:
        if key not in allowed:
            raise SpecError(f"there is no {what} {key!r}", where=where, hint=nearest(key, allowed))
    if missing := [key for key in allowed if key not in stated]:
        raise SpecError(f"no concentration for {', '.join(map(repr, missing[:20]))}", where=where)


@lru_cache(maxsize=8)
def cell_names(network: Network, kind: str) -> tuple[str, ...]:
    """Return the names of all cells of all tables, e.g. ``theta[child=value|parent=value]``."""
    return tuple(
        f"{kind}[{variable}={value}{'|' if given else ''}{','.join(f'{name}={level}' for name, level in given)}]"
        for variable, value, given in network.cells()
    )


@dataclass(frozen=True)
class DiscreteNetwork(NoisyStatistics, ConjugatePosterior):
    """The capability of models that are networks of discrete variables with a Dirichlet prior on each row of a table.

    Attributes:
        network: the graph.
        variables: the columns.
        concentrations: for each variable, of each of its values; alike in all rows of its table.
        weights: for each variable, the share of its table in a budget for noise, relative to others.
        target: the index of the variable that predictions are of, or None.
    """

    network: Network
    variables: tuple[Column | CutColumn, ...]
    concentrations: tuple[tuple[float, ...], ...]
    weights: tuple[Fraction, ...]
    target: int | None

    @property
    def columns(self) -> tuple[Column | CutColumn, ...]:
        """The variables."""
        return self.variables

    @property
    def column_names(self) -> tuple[str, ...]:
        """The variables' names are those of the columns."""
        return self.network.names

    @property
    def parameters(self) -> tuple[str, ...]:
        """One parameter a cell, ``theta[child=value|parent=value]``."""
        return cell_names(self.network, "theta")

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return the probabilities of the target's values where it has no parents, else nothing; see ``predict``."""
        if self.target is None or self.network.parents[self.target]:
            return {}
        first = sum(self.network.n_cells[: self.target])
        levels = self.network.levels[self.target]
        return {level: mean[first + k] for k, level in enumerate(levels)}

    def statistic(self, policy: RecordPolicy) -> Statistic:
        """Return the counts of every cell of every table.

        Privacy: a record adds a unit vector to each table all of whose own cells are valid in it, zero to others.
            replace-one: each table changes by at most 2 in L1 and sqrt 2 in L2 (two cells, or one and none: less), so
            that |I| tables change by 2 |I| and sqrt(2 |I|); attained by records that differ in every variable.
            add-remove: each by 1; attained by any valid record.
        Source: Zhang, Rubinstein and Dimitrakakis 2016, Alg. 1; mechanisms, discrete Bayes nets.
        """
        network = self.network
        each = 1 if policy.neighbors is Neighbors.ADD_REMOVE else 2
        expressions = tuple(
            TableCounts(tuple(network.names[j] for j in family), network.shape(i))
            for i, family in enumerate(network.families)
        )
        parts = tuple(
            Part(name, size, each, each, weight)
            for name, size, weight in zip(network.names, network.n_cells, self.weights, strict=True)
        )
        total = each * len(network)
        return Statistic(cell_names(network, "count"), expressions, total, self._witness(policy), total, parts=parts)

    def _witness(self, policy: RecordPolicy) -> Witness:
        """Return two valid records that differ in every variable."""
        record, neighbor = (tuple(cell_of(column, code) for column in self.variables) for code in (0, 1))
        return Witness(record, None if policy.neighbors is Neighbors.ADD_REMOVE else neighbor)

    def problem(
        self, policy: RecordPolicy, released: Sequence[int], noise: NoiseLaw, n_records: int | None
    ) -> NoisyTables:
        """State the problem: each table with its own noise, and what other tables tell of its row totals.

        Tables count the same records where none is dropped; then the row totals of one are margins of others.
        """
        import numpy as np

        counts = self.split(np.asarray(released, dtype=np.float64))
        total = total_of(policy, n_records)
        complete = [has_stand_in(policy, column) for column in self.variables]
        firsts = itertools.accumulate((count.size for count in counts[:-1]), initial=0)
        laws = [law_of_component(noise, first) for first in firsts]
        margins = _Margins(self.network, counts, [law.variance for law in laws], complete)
        tables = []
        for i, count in enumerate(counts):
            whole = all(complete[j] for j in self.network.families[i])
            known = Total("known", total.n) if whole and total.kind != "unbounded" else total
            margin, variance = margins.of(i) if whole else (None, None)
            tables.append(self.table(i, count, laws[i], known, margin, variance))
        return NoisyTables(tuple(tables))

    def table(
        self,
        i: int,
        observed: Floats,
        noise: NoiseLaw,
        total: Total,
        margin: Floats | None = None,
        margin_variance: Floats | None = None,
    ) -> NoisyTable:
        """State the problem of one table."""
        import numpy as np

        rows = math.prod(self.network.shape(i)[:-1])
        parents = self.network.parents[i]
        shares = np.ones(rows)
        if not parents:
            shares = np.array([math.fsum(self.concentrations[i])])
        elif len(parents) == 1 and not self.network.parents[parents[0]]:
            shares = np.array(self.concentrations[parents[0]])
        concentration = np.tile(self.concentrations[i], (rows, 1))
        return NoisyTable(concentration, shares, observed.reshape(rows, -1), noise, total, margin, margin_variance)

    def split(self, values: Any) -> list[Any]:
        """Return an array of all cells, along its last axis, as one array a table, each in the table's shape."""
        import numpy as np

        parts = np.split(values, np.cumsum(self.network.n_cells)[:-1], axis=-1)
        return [part.reshape(*part.shape[:-1], *self.network.shape(i)) for i, part in enumerate(parts)]

    def simulated(
        self, policy: RecordPolicy, n_records: int, rng: np.random.Generator
    ) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Draw the tables from the prior and the exact counts; see ``NoisyStatistics``."""
        return self.simulated_statistic(self.statistic(policy), n_records, rng)

    def simulated_statistic(
        self, statistic: Statistic, n_records: int, rng: np.random.Generator
    ) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Draw the tables from the prior and the exact value of a statistic of theirs, all records valid."""
        import numpy as np

        theta = self.draw_tables(rng)
        values = np.zeros(len(statistic.names), dtype=np.int64)
        for block in self.draw_records(theta, n_records, rng):
            values += np.array(count_cells(statistic, self.network.names, block), dtype=np.int64)
        return tuple(float(x) for table in theta for x in table.ravel()), tuple(values.tolist())

    def simulate(self, n_records: int, rng: np.random.Generator) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Draw the tables from the prior and the exact counts; see ``ConjugatePosterior``."""
        return self.simulated(RecordPolicy(Neighbors.REPLACE_ONE), n_records, rng)

    def draw_tables(self, rng: np.random.Generator) -> list[Floats]:
        """Draw every table from the prior, each in its shape."""
        return [
            rng.dirichlet(self.concentrations[i], size=self.network.shape(i)[:-1]) for i in range(len(self.network))
        ]

    def draw_records(self, theta: Sequence[Floats], n_records: int, rng: np.random.Generator) -> Iterator[Integers]:
        """Draw records from tables, in blocks of codes, shape (n_block, n_variables), variables in their order."""
        import numpy as np

        size = max(1, _BLOCK * 16 // len(self.network))
        cumulative = [np.cumsum(table, axis=-1) for table in theta]
        for first in range(0, n_records, size):
            count = min(size, n_records - first)
            codes = np.empty((count, len(self.network)), dtype=np.int64)
            for i in self.network.order:
                parents = self.network.parents[i]
                rows = cumulative[i][tuple(codes[:, j] for j in parents)] if parents else cumulative[i][None, :]
                drawn = (rng.random(count)[:, None] > rows).sum(axis=1)
                codes[:, i] = np.minimum(drawn, self.network.sizes[i] - 1)
            yield codes

    def family(self, n_records: int) -> NetworkFamily:
        """Return the conjugate posterior of all tables."""
        rows = tuple(math.prod(self.network.shape(i)[:-1]) for i in range(len(self.network)))
        return NetworkFamily(self.concentrations, rows, n_records)

    def sums(self, values: Sequence[int], n_records: int) -> tuple[Fraction, ...]:
        """Return the counts."""
        return tuple(map(Fraction, values))


def cell_of(column: Column | CutColumn, code: int) -> str:
    """Return a text that has a code."""
    if isinstance(column, Column):
        return column.levels[code]
    return repr(column.cuts[0] - max(1.0, abs(column.cuts[0]))) if code == 0 else repr(column.cuts[code - 1])


class _Margins:
    """What all tables together tell about the joint counts of a set of variables: precision-weighted noisy sums."""

    def __init__(
        self, network: Network, counts: Sequence[Floats], variances: Sequence[float], complete: Sequence[bool]
    ) -> None:
        self._network, self._counts, self._variances = network, counts, variances
        self._whole = [all(complete[j] for j in family) for family in network.families]
        self._holding: dict[int, list[int]] = {}
        for i, family in enumerate(network.families):
            for j in family:
                self._holding.setdefault(j, []).append(i)
        self._found: dict[frozenset[int], tuple[Floats, float]] = {}

    def of(self, i: int) -> tuple[Floats | None, Floats | None]:
        """Return what the other tables tell about the row totals of a table, and the variance; None for nothing."""
        import numpy as np

        parents = self._network.parents[i]
        if not parents:
            return None, None
        weighted, precision = self._all(frozenset(parents))
        own, own_precision = self._one(i, sorted(parents))
        left = precision - own_precision
        if left <= 1e-9 * precision:
            return None, None
        order = np.argsort(np.argsort(parents))
        margin = np.transpose((weighted - own * own_precision) / left, order)
        return margin.ravel(), np.full(margin.size, 1.0 / left)

    def _all(self, variables: frozenset[int]) -> tuple[Floats, float]:
        """Return the sum over tables of precision times margin, and of precisions; axes in ascending order."""
        if variables not in self._found:
            axes = sorted(variables)
            tables = [i for i in self._holding[axes[0]] if variables <= set(self._network.families[i])]
            margins = [self._one(i, axes) for i in tables if self._whole[i]]
            total: Any = sum(margin * precision for margin, precision in margins)
            self._found[variables] = total, math.fsum(precision for _, precision in margins)
        return self._found[variables]

    def _one(self, i: int, axes: Sequence[int]) -> tuple[Floats, float]:
        """Return the margin of a table on variables in ascending order, and the precision of each of its cells."""
        import numpy as np

        family = self._network.families[i]
        summed = tuple(k for k, j in enumerate(family) if j not in axes)
        kept = [j for j in family if j in axes]
        margin = np.transpose(self._counts[i].sum(axis=summed), np.argsort(kept))
        return margin, 1.0 / (self._variances[i] * self._counts[i].size / margin.size)
