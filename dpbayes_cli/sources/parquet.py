"""Parquet files; every column is read as text, as in any other source."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from dpbayes_cli.base.cell_grammar import MAX_CELL_BYTES, POINT, NumberMarks, normal_cell
from dpbayes_cli.base.duck import cursor, rows_as_csv, use_one_thread
from dpbayes_cli.base.errors import SourceError, SpecError
from dpbayes_cli.core.columns import AnyColumn, Column
from dpbayes_cli.sources.cell_blocks import CellBlock
from dpbayes_cli.sources.location import Location, open_bytes
from dpbayes_cli.sources.parquet_pages import TextColumn, copy_text_column, text_column
from dpbayes_cli.sources.reader import UnitBound
from dpbayes_cli.sources.source import Source, cell_blocks, check_boolean, unreadable

if TYPE_CHECKING:
    import duckdb

_LONG = ("VARCHAR", "ENUM")
_MARK = b"PAR1"
"""A Parquet file begins and ends with these bytes."""
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
"""Types whose values are written as integers in normal form."""
_TEXTUAL = (*_LONG, *_INTEGERS, "HUGEINT", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL", '"NULL"')
_EXACT_INTEGERS = {"FLOAT": 1 << 24, "DOUBLE": 1 << 53}
_PART_ROWS = 8_000_000
_VECTOR_ROWS = 2048
"""The engine reads this many rows at once."""
_MAX_VECTOR_BYTES = 16 << 20
"""A column is read page by page if it may have more bytes than this in the rows that are read at once."""
_REPAGED_ROWS = 1_000_000
"""About this many rows with long cells are copied at a time; they stay compressed."""


class ParquetSource(Source):
    """Parquet files whose records are rows."""

    def __init__(self, location: Location, unit: UnitBound | None = None, marks: NumberMarks = POINT) -> None:
        super().__init__(unit, marks)
        if location.is_stream:
            raise SourceError("Parquet cannot be read from a stream", hint="name a file")
        self._location, self._file = location, str(location.paths[0])
        self._schemas: list[dict[str, str]] = []
        self._types: list[str] = []

    @property
    def parts(self) -> int:
        """See ``Source.parts``."""
        return (self.count_records() or 0) // _PART_ROWS + 1

    def _header(self) -> list[str]:
        """Read the schemas, which are public."""
        self._schemas, self._types = [_schema(path) for path in self._location.paths], []
        return list(self._schemas[0])

    def _check_type(self, name: str, column: AnyColumn | None) -> None:
        """See ``Source._check_type``; IDs of privacy units may have another type in each file."""
        kinds = {schema.get(name, "") for schema in self._schemas}
        if len(kinds) > 1 and column is not None:
            raise SourceError("the files have different schemas", hint="write all files with the same schema")
        for kind in kinds:
            _check_type(kind, column)
        self._types.append(max(kinds, key=lambda kind: kind.startswith(_LONG)))

    def count_records(self) -> int | None:
        """Count the rows, from the footer of each file."""
        with cursor(unreadable()) as engine, ExitStack() as files:
            relations = [_relation(files.enter_context(open_bytes(path)).fileno()) for path in self._location.paths]
            return sum(int(engine.execute(f"SELECT count(*) FROM {r}").fetchall()[0][0]) for r in relations)

    def _blocks(self) -> Generator[CellBlock]:
        """See ``Source._blocks``; more threads of the engine would take memory, and wait for the reader."""
        cells = ", ".join(_text(_quoted(name), kind) for name, kind in zip(self._names, self._types, strict=True))
        with cursor(unreadable()) as engine, use_one_thread(engine):
            for path in self._location.paths:
                with open_bytes(path) as file, ExitStack() as parts:
                    for relation in self._parts_of(engine, file.fileno(), parts):
                        with rows_as_csv(engine, f"SELECT {cells} FROM {relation}") as stream:
                            yield from cell_blocks(stream, len(self._names))
                        parts.close()

    def _marks_of(self, i: int) -> NumberMarks:
        """Return the marks of the numbers of a column: only texts have stated marks."""
        return self._marks if self._types[i].startswith(_LONG) else POINT

    def _parts_of(self, engine: duckdb.DuckDBPyConnection, file: int, files: ExitStack) -> Iterator[str]:
        """Yield one relation of all records of an open file or, if cells are long, one relation per group of rows.

        Args:
            file: the file's descriptor.
            files: an ``ExitStack``; closing it closes the temporary files of a relation.
        """
        wanted = dict.fromkeys(self._names)
        texts = {name: text_column(engine, _literal(file), name) for name in wanted}
        long = {name: column for name, column in texts.items() if column and _is_long(engine, file, name, column)}
        if not long:
            yield _relation(file)
            return
        sizes = [chunk.n_rows for chunk in next(iter(long.values())).chunks]
        first, others = 0, ", ".join(_quoted(name) for name in wanted if name not in long)
        for groups in _batches(sizes):
            end = first + sum(sizes[group] for group in groups)
            parts = []
            if others:
                rows = f"file_row_number BETWEEN {first} AND {end - 1}"
                parts.append(f"(SELECT {others} FROM {_relation(file, ', file_row_number=true')} WHERE {rows})")
            for name, column in long.items():
                paged = copy_text_column(file, column, groups)
                files.callback(os.close, paged)
                parts.append(f"(SELECT {_text('cell', 'VARCHAR')} AS {_quoted(name)} FROM {_relation(paged)})")
            yield f"(SELECT * FROM {' POSITIONAL JOIN '.join(parts)})"
            first = end

    def close(self) -> None:
        """Do nothing: no file stays open."""


def parquet_columns(path: Path) -> dict[str, bool]:
    """Return for each column of a Parquet file whether it holds texts."""
    return {name: kind.startswith(_LONG) for name, kind in _schema(path).items()}


def _schema(path: Path) -> dict[str, str]:
    """Return the type of each column of a Parquet file."""
    with cursor(unreadable()) as engine, open_bytes(path) as file:
        _check_marks(file.fileno(), str(path))
        rows = engine.execute(f"DESCRIBE SELECT * FROM {_relation(file.fileno())}").fetchall()
    return {str(name): str(kind) for name, kind, *_ in rows}


def parquet_blocks(path: Path, names: Sequence[str]) -> Generator[CellBlock]:
    """Yield blocks of the cells of columns, for looking at a file before a release."""
    cells = ", ".join(_text(_quoted(name), "VARCHAR") for name in names)
    with (
        cursor(unreadable()) as engine,
        open_bytes(path) as file,
        rows_as_csv(engine, f"SELECT {cells} FROM {_relation(file.fileno())}") as stream,
    ):
        yield from cell_blocks(stream, len(names))


def _literal(descriptor: int) -> str:
    """Return an SQL literal that names an open file by its descriptor, so that no file name acts as a pattern."""
    return f"'/dev/fd/{descriptor}'"


def _check_marks(file: int, name: str) -> None:
    """Refuse a file that does not begin and end as a Parquet file does.

    Raises:
        SourceError: the file has another format, or is not complete.
    """
    size = os.fstat(file).st_size
    if os.pread(file, len(_MARK), 0) != _MARK:
        raise SourceError(f"{name!r} is not a Parquet file", hint="for a text file: --input-format csv")
    if os.pread(file, len(_MARK), max(0, size - len(_MARK))) != _MARK:
        raise SourceError(f"the Parquet file {name!r} is not complete", hint="copy or export it again")


def _relation(descriptor: int, options: str = "") -> str:
    return f"read_parquet({_literal(descriptor)}, utf8_validation='replace'{options})"


def _is_long(engine: duckdb.DuckDBPyConnection, file: int, name: str, column: TextColumn) -> bool:
    """Return whether a column may have too many bytes in the rows that the engine reads at once.

    The query needs only the lengths of the texts, so the engine does not copy the texts. The result changes how the
    file is read, but not what is counted.
    """
    largest = max((chunk.unpacked for chunk in column.chunks), default=0)
    if largest * _VECTOR_ROWS <= _MAX_VECTOR_BYTES:
        return False
    vectors = f"SELECT sum(strlen({_quoted(name)})) AS n FROM {_relation(file, ', file_row_number=true')}"
    query = f"SELECT coalesce(max(n), 0) FROM ({vectors} GROUP BY file_row_number // {_VECTOR_ROWS})"
    with rows_as_csv(engine, query) as stream:
        return int(stream.read()) > _MAX_VECTOR_BYTES


def _batches(sizes: Sequence[int]) -> Iterator[range]:
    """Yield consecutive row groups that have about a million rows together."""
    first = n_rows = 0
    for group, size in enumerate(sizes):
        n_rows += size
        if n_rows >= _REPAGED_ROWS or group == len(sizes) - 1:
            yield range(first, group + 1)
            first, n_rows = group + 1, 0


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(name: str, kind: str) -> str:
    cell = f"CAST({name} AS VARCHAR)"
    return f"CASE WHEN strlen({cell}) <= {MAX_CELL_BYTES} THEN {cell} END" if kind.startswith(_LONG) else cell


def _check_type(name: str, column: AnyColumn | None) -> None:
    """Refuse a type without a text form, or a type that the declared domain cannot match.

    Args:
        name: the name of the type.
        column: the column's domain; None if the column holds the privacy units.

    Raises:
        SourceError: the column is nested, binary, a date, or holds privacy units as booleans.
        SpecError: the column is boolean and the domain is not, or floats cannot distinguish the declared levels.
    """
    if name == "BOOLEAN" and column is not None:
        check_boolean(column)
        return
    levels = column.levels if isinstance(column, Column) else ()
    if name in _EXACT_INTEGERS and any(_is_larger(level, _EXACT_INTEGERS[name]) for level in levels):
        raise SpecError(
            f"the column has type {name}, which cannot distinguish integers as large as the declared values",
            where="domain",
            hint="write the column as integers or as text",
        )
    if not name.startswith(_TEXTUAL) or name.endswith("]"):
        raise SourceError(f"a column of type {name} cannot be read as text", hint="cast it to VARCHAR")


def _is_larger(level: str, limit: int) -> bool:
    text = normal_cell(level).removeprefix("-")
    return text.isdecimal() and text.isascii() and int(text) > limit
