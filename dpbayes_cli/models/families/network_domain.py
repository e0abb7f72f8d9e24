"""Variables of a network in a spec: their columns, their graph, and the priors of their tables."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta

from dpbayes_cli.base.cell_grammar import check_levels
from dpbayes_cli.base.errors import SpecError, nearest
from dpbayes_cli.core.columns import Column, CutColumn
from dpbayes_cli.core.section import Level, Positive, Section
from dpbayes_cli.models.families.domain_types import StandIn
from dpbayes_cli.privacy.dag import MAX_CELLS, Network, cell_names

_MAX_CUT = 1e100
_SEPARATORS = "=|,"
"""The characters that join the parts of a cell's name."""

Concentrations = Annotated[
    Positive | dict[str, Positive | dict[str, Positive]],
    Meta(
        description="prior concentration of each value, in every row of a table: one number, or for each variable a "
        "number or a mapping from value to number"
    ),
]


class VariableSection(Section, frozen=True, kw_only=True):
    """A variable: a column of texts with public values, or of numbers with public cut points."""

    values: Annotated[tuple[Level, ...], Meta(description="the valid texts, in order")] = ()
    cuts: Annotated[
        tuple[Annotated[float, Meta(ge=-_MAX_CUT, le=_MAX_CUT)], ...],
        Meta(description="ascending cut points of a number, instead of values"),
    ] = ()
    impute: StandIn = None
    weight: Annotated[
        Annotated[float, Meta(ge=1e-3, le=1e3)],
        Meta(description="weight of the variable's table; tables share the noise budget in proportion to weights"),
    ] = 1.0

    def __post_init__(self) -> None:
        if bool(self.values) == bool(self.cuts):
            raise ValueError("a variable must have values or cuts, not both")
        if self.values:
            if len(self.values) < 2:
                raise ValueError("a variable must have at least two values")
            check_levels(self.values)
        if any(low >= high for low, high in itertools.pairwise(self.cuts)):
            raise ValueError("cuts must ascend")

    def column(self, name: str) -> Column | CutColumn:
        """Return the column of the variable."""
        if self.values:
            return Column(name, self.values, self.impute)
        return CutColumn(name, self.cuts, self.impute)


def check_variables(
    variables: Mapping[str, VariableSection], parents: Sequence[Sequence[str]], target: str | None
) -> Network:
    """Return the graph of the variables in a spec; see ``check_network``.

    Raises:
        ValueError: the target is not a variable, or the graph is invalid.
    """
    if target is not None and target not in variables:
        raise ValueError(f"target is {target!r}, which is not a variable; {nearest(target, variables)}")
    return check_network([variable.column(name) for name, variable in variables.items()], parents)


def check_network(columns: Sequence[Column | CutColumn], parents: Sequence[Sequence[str]]) -> Network:
    """Return the graph of variables.

    Args:
        columns: the columns of the variables.
        parents: the names of the parents of each variable.

    Raises:
        ValueError: a parent does not exist, the graph has a cycle, there are too many cells, or two cells have the same
            name.
    """
    names = [column.role for column in columns]
    index = {name: i for i, name in enumerate(names)}
    for name, own_parents in zip(names, parents, strict=True):
        for parent in own_parents:
            if parent not in index:
                raise ValueError(f"{name!r} has a parent {parent!r} that is not a variable; {nearest(parent, names)}")
    indices = tuple(tuple(index[parent] for parent in own_parents) for own_parents in parents)
    network = Network(tuple(names), tuple(column.levels for column in columns), indices)
    cells = sum(network.n_cells)
    if cells > MAX_CELLS:
        largest = max(range(len(names)), key=lambda i: network.n_cells[i])
        raise ValueError(
            f"the tables have {cells:,} cells, expected at most {MAX_CELLS:,}; the largest is the table of "
            f"{names[largest]!r} with {network.n_cells[largest]:,}"
        )
    if any(mark in text for texts in (network.names, *network.levels) for text in texts for mark in _SEPARATORS):
        counts = Counter(cell_names(network, "theta"))
        repeated = next((name for name, count in counts.items() if count > 1), None)
        if repeated is not None:
            raise ValueError(
                f"two cells would have the name {repeated!r}; avoid the characters {_SEPARATORS} in names and values"
            )
    return network


def concentrations_by_variable(stated: Any, network: Network) -> tuple[tuple[float, ...], ...]:
    """Return the prior concentrations of the values of each variable.

    Raises:
        SpecError: the prior names an unknown variable or value, or leaves one out.
    """
    by_variable = by_key(stated, network.names, "prior.concentration", "variable")
    return tuple(
        by_key(concentrations, levels, f"prior.concentration.{name}", "value")
        for name, levels, concentrations in zip(network.names, network.levels, by_variable, strict=True)
    )


def by_key(stated: Any, keys: Sequence[str], where: str, what: str) -> tuple[Any, ...]:
    """Return one entry for each key; if ``stated`` is not a mapping, it is the entry of every key.

    Raises:
        SpecError: the mapping has an unknown key, or lacks one.
    """
    if not isinstance(stated, Mapping):
        return (stated,) * len(keys)
    for key in stated:
        if key not in keys:
            raise SpecError(f"there is no {what} {key!r}", where=where, hint=nearest(key, keys))
    if missing := [key for key in keys if key not in stated]:
        raise SpecError(f"there is no concentration for {', '.join(map(repr, missing[:20]))}", where=where)
    return tuple(stated[key] for key in keys)
