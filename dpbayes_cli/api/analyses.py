"""Synthetic tables and analyses of a bundle in Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dpbayes_cli.api.released import Released, load_release
from dpbayes_cli.synthesis.analyses import analyze as analyze_bundle
from dpbayes_cli.synthesis.analysis_result import AnalysisRequest, Analyzed
from dpbayes_cli.synthesis.files import TableFormat, write_tables
from dpbayes_cli.synthesis.records import SyntheticTables
from dpbayes_cli.synthesis.records import synthesize as synthesize_bundle

if TYPE_CHECKING:
    from dpbayes_cli.inference.estimands.cell_regression import Family
    from dpbayes_cli.synthesis.cut_numbers import Bounds


def synthesize(
    release: Released,
    *,
    rows: int | None = None,
    datasets: int | None = None,
    seed: int = 0,
    bounds: Bounds | None = None,
    out: str | Path | None = None,
    table_format: TableFormat = "csv",
) -> SyntheticTables:
    """Draw synthetic tables, each from another posterior draw of a release; they cost nothing more.

    >>> tables = dpb.synthesize("adult", datasets=20, bounds={"age": (17, 90)})
    >>> ages = [table["age"] for table in tables]
    >>> mean_age = dpb.combine([age.mean() for age in ages], [age.var() / len(age) for age in ages])

    Args:
        release: a release, or the directory of a bundle.
        rows: the number of records of each table; by default, that of the release.
        datasets: the number of tables, 10 by default.
        seed: equal seeds give equal tables.
        bounds: the lower and the upper bound of columns with cuts that hold numbers; without bounds, such a column
            holds the intervals between cuts as texts. Two whole numbers give whole numbers if the cuts are whole.
        out: a new directory for the tables as files, with a README.md; None writes no files.
        table_format: the format of the files, ``csv`` or ``parquet``.

    Raises:
        SpecError: the bundle holds no joint posterior of columns with public values, or has fewer draws than tables.
        OutputError: the directory exists, or cannot be written.
    """
    tables = synthesize_bundle(load_release(release).contents, rows, datasets, seed, bounds)
    if out is not None:
        write_tables(tables, Path(out), table_format)
    return tables


def analyze(
    release: Released,
    formula: str | None = None,
    *,
    family: Family | None = None,
    success: str | None = None,
    mean: str | None = None,
    by: str | Sequence[str] = (),
    table: str | Sequence[str] = (),
    correlation: Sequence[str] = (),
    bounds: Bounds | None = None,
    interval: float = 0.9,
) -> Analyzed:
    """Compute a regression, a mean, a table or a correlation on the joint law of every posterior draw of a release.

    >>> regression = dpb.analyze("adult", "income ~ age + sex", bounds={"age": (17, 90)})
    >>> shares = dpb.analyze("adult", mean="income", by="sex").to_pandas()

    Args:
        release: a release, or the directory of a bundle.
        formula: a regression; its columns of texts are categories, with the first value of the spec as the base.
        family: ``logistic``, ``linear`` or ``poisson``; None: logistic for an outcome with two values, else linear.
        success: the value whose probability a logistic regression models; by default the second of two.
        mean: a column; the result is its mean, or the shares of its values if they are not numbers.
        by: the columns given whose values the mean is computed.
        table: the columns whose joint shares are computed.
        correlation: two columns.
        bounds: the lower and the upper bound of columns with cuts, whose intervals then enter as their middles.
        interval: the probability of the intervals.

    Raises:
        SpecError: the bundle holds no joint posterior, the analysis does not fit it, or the network makes the columns
            independent whatever the data say.
    """
    request = AnalysisRequest(
        formula=formula,
        family=family,
        success=success,
        mean=mean,
        by=_names(by),
        table=_names(table),
        correlation=_names(correlation),
        bounds=bounds,
        interval=interval,
    )
    return analyze_bundle(load_release(release).contents, request)


def _names(stated: str | Sequence[str]) -> tuple[str, ...]:
    return (stated,) if isinstance(stated, str) else tuple(stated)
