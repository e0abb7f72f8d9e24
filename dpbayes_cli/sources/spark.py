"""Parquet files or a table that Spark reads; only integers leave the Spark session.

Text files are refused, because Spark splits them into lines differently from the embedded reader. Spark takes seconds
to start. Spark's messages on standard error could quote a cell, so its standard error is discarded until the process
ends.
"""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dpbayes_cli.base.cell_grammar import POINT, NumberMarks
from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.sources.engine import EngineSource, Kind, Rows, replaced_errors, short_text
from dpbayes_cli.sources.location import Location, RemoteLocation
from dpbayes_cli.sources.reader import UnitBound
from dpbayes_cli.sources.source import unreadable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DECIMAL = re.compile(r"decimal\([0-9]+,(-?[0-9]+)\)")
_KINDS: dict[str, Kind] = {
    "boolean": "boolean", "tinyint": "integer", "smallint": "integer", "int": "integer", "bigint": "integer",
    "double": "double",
}  # fmt: skip
_MAX_PLAIN_SCALE = 6
"""Spark may write decimals of a larger scale (digits after the point) with an exponent; the embedded reader never
does."""
_GLOB = set("*?[]{}\\,")
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
}
_LOCAL_SETTINGS = {
    "spark.sql.shuffle.partitions": "16",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.io.encryption.enabled": "true",
    "spark.driver.memory": "2g",
}
"""Settings of a local Spark: only this machine can reach it, and its temporary files are encrypted."""
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""These loggers of Spark write the text of every query error to standard error."""
_VIEW = "dpbayes_records"


class SparkSource(EngineSource):
    """Parquet files or a table that a Spark session reads; a record is a row."""

    dialect = "pyspark"

    def __init__(
        self, location: Location, master: str, unit: UnitBound | None = None, marks: NumberMarks = POINT
    ) -> None:
        super().__init__(unit, marks)
        if not isinstance(location, RemoteLocation) and (location.is_stream or location.format != "parquet"):
            raise SourceError(
                "Spark reads Parquet files and tables, not text files",
                hint="omit --engine, or convert the files to Parquet",
            )
        self._location, self._master = location, master

    def close(self) -> None:
        """Leave the session open until the process ends, because starting one takes seconds."""

    def _kinds(self) -> Mapping[str, Kind | str]:
        session = _session(self._master)
        with replaced_errors(unreadable()):
            frame = self._frame(session)
            frame.createOrReplaceTempView(_VIEW)
            types = {str(name): str(kind) for name, kind in frame.dtypes}
            if len(types) != len(frame.columns):
                raise SourceError("two columns have the same name", hint="rename one of them")
        return {name: _kind(kind) for name, kind in types.items()}

    def _frame(self, session: SparkSession) -> DataFrame:
        """Return the records as a data frame, without reading any record yet."""
        if isinstance(self._location, RemoteLocation):
            if self._location.table:
                return session.table(self._location.table)
            reader = session.read.option("mergeSchema", "true").option("recursiveFileLookup", "true")
            return reader.parquet(self._location.text)
        paths = [str(path.absolute()) for path in self._location.paths]
        if any(_GLOB & set(path) for path in paths):
            raise SourceError("the name of a file holds a character that Spark treats as a pattern", hint="rename it")
        if any(path.name.startswith(("_", ".")) for path in self._location.paths):
            raise SourceError("Spark skips files whose names begin with '_' or '.'", hint="rename them")
        reader = session.read.option("mergeSchema", "false").option("recursiveFileLookup", "true")
        frame = reader.parquet(*(f"file://{path}" for path in paths))
        if len(frame.inputFiles()) != len(paths):
            raise SourceError("Spark would not read all of the files", hint="read them without --engine")
        schemas = [reader.parquet(f"file://{path}").dtypes for path in paths] if len(paths) > 1 else []
        if any(dict(schema) != dict(schemas[0]) for schema in schemas):
            raise SourceError("the files have different schemas", hint="write all files with the same schema")
        return frame

    def _relation(self, named: Mapping[str, str]) -> str:
        texts = []
        for new, name in named.items():
            cell = f"CAST({_quoted(name)} AS STRING)"
            valid = f"make_valid_utf8(collate({cell}, 'UTF8_BINARY'))"  # may be longer than the cell
            texts.append(f"{short_text(cell, valid, valid)} AS {new}")
        return f"SELECT {', '.join(texts)} FROM {_VIEW}"

    def _rows(self, query: str) -> Rows:
        session = _session(self._master)
        with replaced_errors(unreadable()):
            return [tuple(row) for row in session.sql(query).collect()]


def _kind(name: str) -> Kind | str:
    decimal = _DECIMAL.fullmatch(name)
    if decimal is not None:
        return "decimal" if 0 <= int(decimal[1]) <= _MAX_PLAIN_SCALE else "double"
    if name.startswith(("string", "varchar", "char")):
        return "text"
    return _KINDS.get(name, name)


def _session(master: str) -> SparkSession:
    """Return the running Spark session, or start one.

    Raises:
        SourceError: Spark is not installed, or does not start.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Spark warns about versions of packages that are not used
            from pyspark.sql import SparkSession
    except ImportError:
        raise SourceError("Spark is not installed", hint="pip install 'dpbayes[spark]'") from None
    for name in _LOGGERS:
        logging.getLogger(name).disabled = True
    failure = SourceError("Spark does not start", hint="check that Java is installed and the master is right")
    with replaced_errors(failure), _silence():
        running = SparkSession.getActiveSession()
        if running is not None:
            return running
        builder = SparkSession.builder.master(master).appName("dpbayes")
        for name, value in {**_SETTINGS, **(_LOCAL_SETTINGS if master.startswith("local") else {})}.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        return session


@contextmanager
def _silence() -> Iterator[None]:
    """Redirect standard error to the null device, also for all processes that are started later."""
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
