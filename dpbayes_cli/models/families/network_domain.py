"""Variables of a network as a spec states them: their columns, their graph, and the priors of their tables."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta

from dpbayes_cli.base.cell_grammar import check_levels
from dpbayes_cli.base.errors import SpecError, nearest
from dpbayes_cli.core.columns import Column, CutColumn
from dpbayes_cli.core.section import WRITTEN_FREELY, Level, Positive, Section
from dpbayes_cli.privacy.dag import Network, cell_names

MOST_CELLS = 1 << 18
"""All tables together may have so many cells: each is a number that is noised, summarized and written."""
_LARGEST_CUT = 1e100
_MARKS = "=|,"
"""What the names of cells are put together with."""

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


def check_variables(
    variables: Mapping[str, VariableSection], parents: Sequence[Sequence[str]], target: str | None
) -> Network:
    """Return the graph of the variables that a spec states; see ``check_network``.

    Raises:
        ValueError: the target is no variable, or the graph is none.
    """
    if target is not None and target not in variables:
        raise ValueError(f"target is {target!r}, which is no variable; {nearest(target, variables)}")
    return check_network([part.column(name) for name, part in variables.items()], parents)


def check_network(columns: Sequence[Column | CutColumn], parents: Sequence[Sequence[str]]) -> Network:
    """Return the graph of variables.

    Args:
        columns: the variables.
        parents: the names of the parents of each.

    Raises:
        ValueError: a parent does not exist, the variables form a cycle, or there are too many
            cells, or two of one name.
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
    if any(mark in text for texts in (network.names, *network.levels) for text in texts for mark in _MARKS):
        named = Counter(cell_names(network, "theta"))
        twice = next((name for name, count in named.items() if count > 1), None)
        if twice is not None:
            raise ValueError(
                f"two cells would have the name {twice!r}: use fewer of the marks {_MARKS} in names, values"
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
