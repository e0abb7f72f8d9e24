"""The source for a location: text files, Parquet files, a PostgreSQL table, or Spark."""

from __future__ import annotations

from dpbayes_cli.sources.location import Location, RemoteLocation
from dpbayes_cli.sources.reader import UnitBound
from dpbayes_cli.sources.records import Dialect
from dpbayes_cli.sources.source import Source


def source_for(
    location: Location, dialect: Dialect, form: str | None, unit: UnitBound | None = None, master: str | None = None
) -> Source:
    """Return the source that reads a location.

    Args:
        location: the files or the table to read.
        dialect: the layout of text files.
        form: ``csv`` or ``parquet``; None if the file names decide.
        unit: the contribution bound; None if each record is a privacy unit.
        master: the master of the Spark session that reads the data; None for any other engine.
    """
    if master is not None:
        from dpbayes_cli.sources.spark import SparkSource

        return SparkSource(location, master, unit)
    if isinstance(location, RemoteLocation) and location.address is not None:
        from dpbayes_cli.sources.postgres import PostgresSource

        return PostgresSource(location.address, unit)
    if (form or location.format) == "parquet":
        from dpbayes_cli.sources.parquet import ParquetSource

        return ParquetSource(location, unit)
    from dpbayes_cli.sources.delimited import DelimitedSource

    return DelimitedSource(location, dialect, unit)
