"""Synthetic tables: records drawn from the joint law of a bundle, one posterior draw for each table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dpbayes_cli.base.canonical import canonical_json, digest
from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.bundle.read import Bundle
from dpbayes_cli.bundle.report.wording import guarantee_text
from dpbayes_cli.privacy.lazy_numpy import np
from dpbayes_cli.synthesis.bundle_law import BundleLaw, law_of
from dpbayes_cli.synthesis.cut_numbers import Bounds, CutNumbers, cut_numbers

if TYPE_CHECKING:
    import pandas as pd

DATASETS = 10
"""The default number of tables."""
_MAX_CELLS = 1 << 27
"""The largest number of cells of a table, which is built in memory."""


@dataclass(frozen=True, repr=False)
class SyntheticTables:
    """Synthetic tables from a release; iterating over them yields pandas tables.

    Attributes:
        source: the joint law of the release.
        rows: the number of records of each table.
        draws: the index of the posterior draw of each table.
        seed: the stated seed.
        numbers: the numbers of columns with cuts and stated bounds, by the index of the column.
    """

    source: BundleLaw
    rows: int
    draws: tuple[int, ...]
    seed: int
    numbers: Mapping[int, CutNumbers]

    def __len__(self) -> int:
        """Return the number of tables."""
        return len(self.draws)

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Yield the tables, one after the other."""
        return map(self.to_pandas, range(len(self)))

    def __getitem__(self, table: int) -> pd.DataFrame:
        """Return a table by its index, from 0."""
        return self.to_pandas(range(len(self))[table])

    def to_pandas(self, table: int = 0) -> pd.DataFrame:
        """Return a table: categories in the order of the spec; numbers for columns with stated bounds."""
        import pandas as pd

        law = self.source.law
        rng = np.random.default_rng([self._entropy, table])
        codes = law.records(self.draws[table], self.rows, rng)
        columns = {}
        for i, (name, column) in enumerate(zip(law.names, law.columns, strict=True)):
            if i in self.numbers:
                columns[name] = self.numbers[i].draw(codes[:, i], rng)
            else:
                columns[name] = pd.Categorical.from_codes(codes[:, i], categories=list(column.levels), ordered=False)
        return pd.DataFrame(columns)

    @cached_property
    def _entropy(self) -> int:
        release_id = self.source.bundle.document.release_id
        return int(digest("synthetic records", canonical_json([release_id, str(self.seed)]))[:32], 16)

    @property
    def metadata(self) -> dict[str, str]:
        """What the metadata of each file state."""
        document = self.source.bundle.document
        return {
            "synthetic": "true",
            "description": "Synthetic records drawn from a private posterior; no row is a record of a person",
            "release_id": document.release_id,
            "model": document.model,
            "mechanism": document.mechanism,
            "guarantee": f"{guarantee_text(document.guarantee)} ({document.guarantee.neighbors} neighbors)",
            "seed": str(self.seed),
        }

    def __repr__(self) -> str:
        """Return the size of the tables."""
        names = ", ".join(self.source.law.names)
        return f"{len(self)} synthetic tables of {self.rows:,} records with the columns {names}"

    def _repr_html_(self) -> str:
        """Return the first rows of the first table as HTML, for notebooks."""
        return f"<p>{len(self)} synthetic tables of {self.rows:,} records; the first of them begins:</p>" + str(
            self.to_pandas().head().to_html()
        )


def synthesize(
    bundle: Bundle, rows: int | None = None, datasets: int | None = None, seed: int = 0, bounds: Bounds | None = None
) -> SyntheticTables:
    """Return synthetic tables, each from another posterior draw of a bundle.

    Args:
        rows: the number of records of each table; by default, that of the release.
        datasets: the number of tables; by default 10, or the number of posterior draws if it is smaller.
        seed: equal seeds give equal tables.
        bounds: the lower and the upper bound of columns with cuts that are written as numbers; see ``cut_numbers``.

    Raises:
        SpecError: the bundle holds no joint posterior of columns with public values, or an argument does not fit it.

    Privacy: post-processing of a posterior that was released; the tables have the guarantee of the release.
    Source: Raghunathan, Reiter and Rubin 2003 (fully synthetic data: another draw of the parameters for each table).
    """
    source = law_of(bundle)
    n_draws, n_columns = source.law.n_draws, len(source.law.columns)
    datasets = min(DATASETS, n_draws) if datasets is None else datasets
    if not 1 <= datasets <= n_draws:
        raise SpecError(
            f"{datasets:,} tables need as many posterior draws, and the bundle has {n_draws:,}: tables that share a "
            "draw would understate the uncertainty",
            where="datasets",
            hint=f"--datasets {n_draws}",
        )
    if rows is None:
        if source.n_records is None:
            raise SpecError("the number of records of the release is private", where="rows", hint="--rows N")
        rows = source.n_records[0]
    if not 1 <= rows <= _MAX_CELLS // n_columns:
        raise SpecError(
            f"a table of {n_columns} columns has 1 to {_MAX_CELLS // n_columns:,} rows",
            where="rows",
            hint="for more records, take more tables: --datasets",
        )
    draws = tuple(k * n_draws // datasets for k in range(datasets))  # neighbors in a chain would be alike
    return SyntheticTables(source, rows, draws, seed, cut_numbers(source.law, bounds or {}))
