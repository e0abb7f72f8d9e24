"""The cells of a published table, and the quantities that its spec asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.base.errors import SourceError, SpecError
from dpbayes_cli.inference.cells.cell_laws import CELL_LAWS
from dpbayes_cli.inference.cells.count_lattices import NoisyCells
from dpbayes_cli.inference.cells.draw_cells import KnownTotal
from dpbayes_cli.inference.cells.power_priors import learn_priors
from dpbayes_cli.sources.published_table import PublishedTable
from dpbayes_cli.spec.table_spec import TableSpec, TotalSection

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Booleans, Floats, Integers

Where = Mapping[str, str | tuple[str, ...]]


def columns_of(spec: TableSpec) -> list[str]:
    """Return the columns of the table that a spec names."""
    noises = [spec.noise_at(column) for column in spec.counts]
    sizes = [name for noise in noises for name in (noise.scale_column, noise.variance_column) if name]
    totals = [total.column for total in spec.totals if total.column]
    return [*dict.fromkeys([*spec.keys, *spec.counts, *sizes, *totals])]


@dataclass(frozen=True, eq=False)
class TableCells:
    """A published table with its spec. Cell ``column * n_rows + row`` is the count of a row in a column."""

    spec: TableSpec
    table: PublishedTable

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.table.places)

    def index(self, column: str, rows: Integers) -> Integers:
        """Return the cells of a column in some rows."""
        return np.asarray(self.spec.counts.index(column) * self.n_rows + rows)

    def rows(self, where: Where) -> Booleans:
        """Return which rows have the stated values of keys; raise ``SpecError`` if none has."""
        chosen = np.ones(self.n_rows, dtype=bool)
        for key, stated in where.items():
            values = {stated} if isinstance(stated, str) else {*stated}
            chosen &= np.array([cell in values for cell in self.table.columns[key]])
        if not chosen.any():
            raise SpecError("no row of the table has these keys", where=f"where: {dict(where)}")
        return chosen

    def groups(self, by: Sequence[str]) -> tuple[Integers, list[tuple[str, ...]]]:
        """Return the index of each row's group, and the keys of the groups in the order of the table."""
        keys = list(zip(*(self.table.columns[key] for key in by), strict=True)) if by else [()] * self.n_rows
        number: dict[tuple[str, ...], int] = {}
        return np.array([number.setdefault(key, len(number)) for key in keys]), list(number)

    def check_keys(self) -> None:
        """Refuse two rows with the same keys."""
        if not self.spec.keys:
            return
        group, _ = self.groups(self.spec.keys)
        first: dict[int, int] = {}
        for row, each in enumerate(group.tolist()):
            if first.setdefault(each, row) != row:
                raise SourceError(
                    f"{self.table.places[row]} has the same keys as {self.table.places[first[each]]}",
                    hint="state under keys all columns that tell rows apart",
                )

    @cached_property
    def noisy(self) -> NoisyCells:
        """The noisy counts and the laws of their noise.

        Raises:
            SourceError: a cell does not fit the stated noise.
        """
        kinds = sorted({self.spec.noise_at(column).law for column in self.spec.counts} - {"none"})
        parts = [self._column(column) for column in self.spec.counts]
        observed, scale, least = (np.concatenate(part) for part in zip(*parts, strict=True))
        laws = [self.spec.noise_at(column).law for column in self.spec.counts]
        law = [-1 if kind == "none" else kinds.index(kind) for kind in laws]
        column = np.repeat(np.arange(len(laws)), self.n_rows)
        cells = NoisyCells(
            observed,
            tuple(CELL_LAWS[kind] for kind in kinds),
            np.array(law)[column],
            scale,
            least,
            np.where(np.isfinite(least) | (self.spec.prior == "power-law"), column, -1),
            self.spec.non_negative,
            self.spec.suppressed_cells == "empty",
        )
        return learn_priors(cells)

    def _column(self, column: str) -> tuple[Floats, Floats, Floats]:
        """Return the noisy counts of a column, the scales of their noise, and the threshold of publication."""
        noise = self.spec.noise_at(column)
        least = -np.inf if noise.suppressed_below is None else noise.suppressed_below
        may_be_empty = np.isfinite(least) and self.spec.suppressed_cells == "empty"
        whole = noise.law == "none" or CELL_LAWS[noise.law].is_discrete
        observed = self.table.numbers(column, whole=bool(whole), may_be_empty=bool(may_be_empty))
        for wrong, reason in (
            (observed < least, f"is below the stated suppressed_below, {least:g}"),
            ((observed < 0) & (noise.law == "none") & self.spec.non_negative, "is negative, but has no noise"),
        ):
            if wrong.any():
                raise SourceError(
                    f"{self.table.places[int(np.argmax(wrong))]}: the count of column {column!r} {reason}"
                )
        return observed, self._scale(column), np.full(self.n_rows, least)

    def _scale(self, column: str) -> Floats:
        noise = self.spec.noise_at(column)
        if noise.law == "none":
            return np.zeros(self.n_rows)
        if noise.stated_scale is not None:
            return np.full(self.n_rows, noise.stated_scale)
        name = noise.scale_column or noise.variance_column or ""
        sizes = self.table.numbers(name, whole=False)
        if not (sizes >= 1e-3).all():
            place = self.table.places[int(np.argmin(sizes))]
            raise SourceError(
                f"{place}: column {name!r} holds {sizes.min():g}; expected a size of the noise above 0.001"
            )
        unique, position = np.unique(sizes, return_inverse=True)
        return unique[position] if noise.scale_column else np.array([*map(noise.scale_of, unique)])[position]

    @cached_property
    def known_totals(self) -> tuple[KnownTotal, ...]:
        """The known totals as totals of disjoint cells: a total within another one is subtracted from it.

        Raises:
            SpecError, SourceError: totals overlap or contradict each other.
        """
        stated = [each for total in self.spec.totals for each in self._totals(total)]
        owner = np.full(self.n_rows * len(self.spec.counts), -1)
        known, used = [], sorted(stated, key=lambda each: len(each.cells))
        for k, each in enumerate(used):
            inner, shared = np.unique(owner[each.cells], return_counts=True)
            rest, remaining = each.cells[owner[each.cells] < 0], each.total
            for i, n_shared in zip(inner[inner >= 0].tolist(), shared[inner >= 0].tolist(), strict=True):
                if n_shared != len(used[i].cells):
                    raise SpecError(
                        f"{each.name} and {used[i].name} share some cells, but neither contains the other",
                        where="totals",
                        hint="leave one of them out",
                    )
                remaining -= used[i].total
            if (self.spec.non_negative and remaining < 0) or (not len(rest) and remaining):
                raise SourceError(f"{each.name}, {each.total}, contradicts the totals within it", hint="leave one out")
            if len(rest):
                known.append(KnownTotal(rest, remaining, each.name))
            owner[each.cells] = k
        return tuple(known)

    def _totals(self, section: TotalSection) -> list[KnownTotal]:
        group, keys = self.groups(section.by)
        chosen = self.rows(section.where)
        columns = section.columns or self.spec.counts
        values = None if section.column is None else self.table.numbers(section.column, whole=True)
        totals = []
        order = np.argsort(group[chosen], kind="stable")
        starts = np.searchsorted(group[chosen][order], np.arange(len(keys) + 1))
        for k, key in enumerate(keys):
            rows = np.flatnonzero(chosen)[order[starts[k] : starts[k + 1]]]
            if not len(rows):
                continue
            of = ", ".join(f"{name} {value}" for name, value in zip(section.by, key, strict=True))
            name = f"the known total of {', '.join(columns)}" + (f" in {of}" if of else "")
            if values is not None and (values[rows] != values[rows[0]]).any():
                other = rows[int(np.argmax(values[rows] != values[rows[0]]))]
                raise SourceError(
                    f"{self.table.places[other]}: {name} differs from that in {self.table.places[rows[0]]}"
                )
            total = section.total if values is None else int(values[rows[0]])
            cells = np.concatenate([self.index(column, rows) for column in columns])
            totals.append(KnownTotal(cells, int(total or 0), name))
        return totals
