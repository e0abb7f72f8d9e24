"""The quantities that the spec of a published table asks for, as functions of its cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.inference.cells.draw_cells import KnownTotal, Links
from dpbayes_cli.inference.cells.quantities import (
    Quantity,
    Transform,
    difference,
    probabilities,
    proportions,
    rate,
    unchanged,
)
from dpbayes_cli.spec.table_spec import Cells, CellsSection, RateSection, ShareSection
from dpbayes_cli.workflow.table_cells import TableCells

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers

Kind = Literal["count", "rate", "share", "sum", "difference"]


@dataclass(frozen=True, eq=False)
class NamedQuantity:
    """A quantity with its names.

    Attributes:
        name: its name in the spec.
        kind: what it is.
        by: the keys that distinguish its groups.
        groups: the values of these keys, for each group.
        results: the names of its results: the categories of a share, otherwise one empty text.
        quantity: how to compute it.
        n_left_out: the number of groups that are left out because rows that they need are missing.
        is_pooled: whether its groups share a law whose parameters are inferred.
    """

    name: str
    kind: Kind
    by: tuple[str, ...]
    groups: list[tuple[str, ...]]
    results: tuple[str, ...]
    quantity: Quantity
    n_left_out: int
    is_pooled: bool = False


def quantities_of(cells: TableCells) -> Iterator[NamedQuantity]:
    """Yield the quantities in the order of the spec.

    Raises:
        SpecError: the table lacks what a quantity needs.
    """
    build = _QuantityBuilder(cells)
    infer = cells.spec.infer
    for column in infer.counts:
        yield build.quantity(column, "count", None, [_columns(column)], unchanged)
    for each in infer.rates:
        yield build.rate(each)
    for share in infer.shares:
        yield build.share(share)
    for total in infer.sums:
        part = CellsSection(columns=total.columns, where=total.where)
        yield build.quantity(total.name, "sum", total.by, [part], unchanged)
    for change in infer.differences:
        terms = [_columns(change.plus), _columns(change.minus)]
        yield build.quantity(change.name, "difference", change.by, terms, difference)


def _columns(cells: Cells) -> CellsSection:
    return CellsSection(columns=(cells,)) if isinstance(cells, str) else cells


class _QuantityBuilder:
    def __init__(self, cells: TableCells) -> None:
        self._cells = cells
        self._totals = cells.known_totals

    def rate(self, section: RateSection) -> NamedQuantity:
        shares = probabilities if section.target == "probability" else proportions
        terms = [_columns(section.successes), _columns(section.failures or section.of or "")]
        transform = rate(shares, of_whole=section.of is not None)
        pairs = None
        if section.of is not None:
            rows = np.arange(self._cells.n_rows)
            pairs = self._cells.index(str(section.successes), rows), self._cells.index(str(section.of), rows)
        return self.quantity(
            section.name, "rate", section.by, terms, transform, pairs=pairs, is_pooled=section.pooling == "partial"
        )

    def share(self, section: ShareSection) -> NamedQuantity:
        transform = probabilities if section.target == "probability" else proportions
        by, names = section.by, section.columns
        terms = [CellsSection(columns=(column,), where=section.where) for column in names]
        if section.over is not None:
            rows = self._cells.rows(section.where)
            values = np.array(self._cells.table.columns[section.over], dtype=object)[rows]
            names = tuple(dict.fromkeys(values.tolist()))
            terms = [
                CellsSection(columns=section.columns, where={**section.where, section.over: name}) for name in names
            ]
            by = tuple(key for key in self._cells.spec.keys if key != section.over) if by is None else by
        if len(names) < 2:
            raise SpecError("a share needs at least two categories", where=f"infer.shares: {section.name}")
        return self.quantity(
            section.name, "share", by, terms, transform, results=names, is_pooled=section.pooling == "partial"
        )

    def quantity(
        self,
        name: str,
        kind: Kind,
        by: Sequence[str] | None,
        terms: Sequence[CellsSection],
        transform: Transform,
        *,
        results: tuple[str, ...] = ("",),
        pairs: tuple[Integers, Integers] | None = None,
        is_pooled: bool = False,
    ) -> NamedQuantity:
        """Return a quantity for each group that has rows for all its terms; ``by`` is None if each row is a group."""
        by, group, keys = self._groups(by)
        members, slots = [], []
        for k, term in enumerate(terms):
            rows = np.flatnonzero(self._cells.rows(term.where))
            for column in term.columns:
                members.append(self._cells.index(column, rows))
                slots.append(group[rows] * len(terms) + k)
        cells, slot = np.concatenate(members), np.concatenate(slots)
        filled = np.bincount(slot, minlength=len(keys) * len(terms)).reshape(len(keys), len(terms)) > 0
        kept = np.asarray(filled.all(axis=1))
        if not kept.any():
            raise SpecError(
                "no group has all the rows that this quantity needs", where=f"infer: {name}", hint="check by and where"
            )
        number = np.cumsum(kept) - 1
        inside = kept[slot // len(terms)]
        slot = number[slot // len(terms)] * len(terms) + slot % len(terms)
        links = self._links(name, pairs)
        quantity = Quantity(transform, int(kept.sum()), len(terms), cells[inside], slot[inside], links)
        groups = [key for key, is_kept in zip(keys, kept, strict=True) if is_kept]
        return NamedQuantity(
            name, kind, by, groups, results, quantity, int((filled.any(axis=1) & ~kept).sum()), is_pooled
        )

    def _groups(self, by: Sequence[str] | None) -> tuple[tuple[str, ...], Integers, list[tuple[str, ...]]]:
        keys = self._cells.spec.keys
        if by is None and not keys:
            return ("row",), np.arange(self._cells.n_rows), [(place,) for place in self._cells.table.places]
        by = keys if by is None else tuple(by)
        return (by, *self._cells.groups(by))

    def _links(self, name: str, pairs: tuple[Integers, Integers] | None) -> Links:
        parts, wholes = pairs or (np.array([], dtype=np.int64), np.array([], dtype=np.int64))
        totals: Sequence[KnownTotal] = self._totals
        if pairs is not None and any(np.isin(each.cells, [*parts, *wholes]).any() for each in totals):
            raise SpecError(
                "a rate with `of` cannot use columns of a known total",
                where=f"infer.rates: {name}",
                hint="state failures in place of `of`",
            )
        return Links(tuple(totals), parts, wholes)
