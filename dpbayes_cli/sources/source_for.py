"""The source for a location: text files, Parquet files, a data frame, a PostgreSQL table, or Spark."""

from __future__ import annotations

from dpbayes_cli.base.cell_grammar import POINT, NumberMarks
from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.sources.location import FrameLocation, Location, RemoteLocation
from dpbayes_cli.sources.reader import UnitBound
from dpbayes_cli.sources.records import Dialect
from dpbayes_cli.sources.source import Source


def source_for(
    location: Location,
    dialect: Dialect,
    form: str | None,
    unit: UnitBound | None = None,
    master: str | None = None,
    marks: NumberMarks = POINT,
) -> Source:
    """Return the source that reads a location.

    Args:
        location: the files or the table to read.
        dialect: the layout of text files.
        form: ``csv`` or ``parquet``; None if the file names decide.
        unit: the contribution bound; None if each record is a privacy unit.
        master: the master of the Spark session that reads the data; None for any other engine.
        marks: the decimal and thousands marks of numbers that are stored as texts.
    """
    if master is not None:
        from dpbayes_cli.sources.spark import SparkSource

        return SparkSource(location, master, unit, marks)
    if isinstance(location, FrameLocation):
        from dpbayes_cli.sources.frame import FrameSource

        if marks != POINT:
            raise SourceError("a data frame has no decimal mark", hint="omit decimal and thousands")
        return FrameSource(location.frame, unit)
    if isinstance(location, RemoteLocation) and location.address is not None:
        from dpbayes_cli.sources.postgres import PostgresSource

        return PostgresSource(location.address, unit, marks)
    if (form or location.format) == "parquet":
        from dpbayes_cli.sources.parquet import ParquetSource

        return ParquetSource(location, unit, marks)
    from dpbayes_cli.sources.delimited import DelimitedSource

    return DelimitedSource(location, dialect, unit, marks)
