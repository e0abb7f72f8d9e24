"""Infer what the spec of a published table asks for: read, compute and collect the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes_cli.inference.cells.count_lattices import NoisyCells
from dpbayes_cli.inference.cells.draw_cells import KnownTotal
from dpbayes_cli.inference.cells.quantities import Summary, summarize
from dpbayes_cli.sources.published_table import read_published_table
from dpbayes_cli.spec.table_spec import TableSpec
from dpbayes_cli.workflow.pooled_table import infer_pooled
from dpbayes_cli.workflow.table_cells import TableCells, columns_of
from dpbayes_cli.workflow.table_quantities import NamedQuantity, quantities_of

if TYPE_CHECKING:
    import pandas as pd

_MOST_SDS = 10.0
"""A known total is called implausible if the sum of the noisy counts is this many standard deviations from it."""
_IMPLAUSIBLE = 1e-6
"""A table is called implausible if noise of the stated law gives negative counts like these with this probability."""


@dataclass(frozen=True)
class TableRow:
    """The posterior of one quantity of one group.

    Attributes:
        quantity: the name of the quantity.
        kind: count, rate, share, sum, difference or hyperparameter.
        keys: the values of the keys of the group, by key.
        category: the category of a share; empty otherwise.
        estimate: posterior mean; NaN if the quantity is not defined.
        sd: posterior standard deviation.
        low, high: the ends of the central interval.
    """

    quantity: str
    kind: str
    keys: dict[str, str]
    category: str
    estimate: float
    sd: float
    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class InferredTable:
    """The posterior of a published table.

    Attributes:
        rows: the posteriors of all quantities.
        methods: how the quantities were computed, by name.
        n_rows, n_cells: the size of the table.
        level: the probability of the intervals.
        warnings: what a reader must know before using the posterior.
    """

    rows: list[TableRow]
    methods: dict[str, str]
    n_rows: int
    n_cells: int
    level: float
    warnings: tuple[str, ...]

    def to_pandas(self) -> pd.DataFrame:
        """Return one row for each quantity of each group; the keys are columns."""
        import pandas as pd

        return pd.DataFrame(
            {"quantity": row.quantity, **row.keys, "category": row.category}
            | {name: getattr(row, name) for name in ("estimate", "sd", "low", "high")}
            for row in self.rows
        )

    def __repr__(self) -> str:
        """Return the posterior as text."""
        return str(self.to_pandas())

    def _repr_html_(self) -> str:
        texts = "".join(f"<p><b>Warning:</b> {escape(text)}</p>" for text in self.warnings)
        return f"{self.to_pandas().to_html(float_format='%.4g')}{texts}"


def infer_table(path: Path, spec: TableSpec, samples: int, level: float, seed: int) -> InferredTable:
    """Return the posterior of the quantities that a spec names, given a table of noisy counts.

    Args:
        path: a CSV or Parquet file.
        samples: the number of posterior draws of a quantity that is not computed exactly.
        level: the probability of the intervals.
        seed: the seed of the draws.

    Raises:
        SpecError, SourceError: spec or table are wrong, or do not fit each other.
    """
    table = TableCells(spec, read_published_table(path, columns_of(spec), spec.separator))
    table.check_keys()
    noisy = table.noisy
    warnings = [*_implausible(noisy, table.known_totals)]
    rows: list[TableRow] = []
    methods = dict(_priors(table))
    for k, each in enumerate(quantities_of(table)):
        rng = np.random.default_rng([seed, k])
        if each.is_pooled:
            pooled = infer_pooled(table, each, samples, level, rng)
            shared = pooled.hyperparameters.items()
            rows += [TableRow(f"{each.name}: {name}", "hyperparameter", {}, "", *four) for name, four in shared]
            rows += _rows(each, pooled.summary)
            methods[each.name] = pooled.method
            warnings += [f"{each.name}: {warning}" for warning in pooled.warnings]
        else:
            summary = summarize(noisy, each.quantity, samples, level, rng)
            rows += _rows(each, summary)
            methods[each.name] = "exact" if summary.is_exact else f"{samples:,} independent draws"
        if each.n_left_out:
            warnings.append(f"{each.name}: groups left out because rows that they need are missing: {each.n_left_out}")
    return InferredTable(rows, methods, table.n_rows, len(noisy.observed), level, tuple(warnings))


def _priors(table: TableCells) -> Iterator[tuple[str, str]]:
    """Yield the columns with a power-law prior, with this prior in words."""
    for k, (column, prior) in enumerate(zip(table.spec.counts, table.noisy.priors, strict=False)):
        if (table.noisy.prior == k).any():
            exponent = f"a = {prior.mean:.2f} (sd {prior.sd:.2f})"
            yield f"prior of {column}", f"P(c) proportional to (c + 1)^-a; {exponent} is inferred"


def _rows(named: NamedQuantity, summary: Summary) -> Iterator[TableRow]:
    numbers: Any = np.stack([summary.mean, summary.sd, summary.low, summary.high], axis=-1).tolist()
    for key, of_group in zip(named.groups, numbers, strict=True):
        keys = dict(zip(named.by, key, strict=True))
        for category, four in zip(named.results, of_group, strict=True):
            yield TableRow(named.name, named.kind, keys, category, *four)


def _implausible(cells: NoisyCells, totals: Sequence[KnownTotal]) -> Iterator[str]:
    """Yield a warning if noise of the stated law can hardly explain noisy counts below 0, or known totals."""
    sd = np.zeros(len(cells.observed))
    for k, law in enumerate(cells.laws):
        sd = np.where(cells.law == k, law.sd(cells.scale), sd)
    for each in totals:
        distance = abs(float(cells.observed[each.cells].sum()) - each.total)
        if distance > _MOST_SDS * float(np.sqrt((sd[each.cells] ** 2).sum())):
            yield f"{each.name} is {distance:,.0f} away from the sum of its noisy counts; check it and the stated noise"
    if not cells.non_negative:
        return
    for k, law in enumerate(cells.laws):
        below = (cells.law == k) & (cells.observed < 0)
        log_tail = law.log_upper_tail(-cells.observed[below], cells.scale[below])
        number = int((log_tail < np.log(_IMPLAUSIBLE / len(cells.observed))).sum())
        if number:
            yield (
                f"noisy counts too far below 0 for noise of the stated law: {number}; check its scale (a variance is "
                "the square of a Gaussian scale), and whether counts may be negative"
            )
