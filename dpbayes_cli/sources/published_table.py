"""Read a table of noisy counts that another tool published. It is public, so that messages may quote its cells."""

from __future__ import annotations

import csv
import gzip
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.base.cell_grammar import parse_number
from dpbayes_cli.base.duck import cursor
from dpbayes_cli.base.errors import SourceError, near_file, nearest

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_LARGEST = 1e15
_MOST_SHOWN = 40
_PARQUET = (".parquet", ".parq", ".pq")


@dataclass(frozen=True, eq=False)
class PublishedTable:
    """Some columns of a table, as texts.

    Attributes:
        columns: the cells of each column, without blanks at both ends; an empty text for a missing cell.
        places: the place of each row in the file, such as ``line 2``.
    """

    columns: dict[str, list[str]]
    places: Sequence[str]

    def numbers(self, column: str, *, whole: bool, may_be_empty: bool = False) -> Floats:
        """Return the numbers of a column, NaN for empty cells.

        Raises:
            SourceError: a cell holds no number, or one of a kind that is not allowed.
        """
        numbers = np.full(len(self.places), np.nan)
        kind = "whole number" if whole else "number"
        for row, text in enumerate(self.columns[column]):
            if not text and may_be_empty:
                continue
            number = parse_number(text)
            if number is None or abs(number) > _LARGEST or (whole and number != int(number)):
                content = f"holds {text[:_MOST_SHOWN]!r}" if text else "is empty"
                raise SourceError(f"{self.places[row]}: column {column!r} {content}; expected a {kind}")
            numbers[row] = number
        return numbers


def read_published_table(path: Path, columns: Sequence[str], delimiter: str = ",") -> PublishedTable:
    """Read some columns of a CSV or Parquet file; a CSV file has a header, and may be compressed (``.gz``).

    Raises:
        SourceError: the file cannot be read, or lacks a column.
    """
    try:
        is_regular = stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116 - an error of a path that holds NUL, too
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "the path holds a NUL character"
        raise SourceError(f"cannot read the table {str(path)!r}: {reason}", hint=near_file(path)) from None
    if not is_regular:
        raise SourceError(f"the table {str(path)!r} is not a regular file")
    if path.suffix.lower() in _PARQUET:
        return _read_parquet(path, columns)
    try:
        return _read_csv(path, columns, delimiter)
    except UnicodeDecodeError:
        raise SourceError(f"the table {str(path)!r} is not UTF-8 text", hint="save it as UTF-8") from None
    except (OSError, EOFError, csv.Error) as error:
        raise SourceError(f"cannot read the table {str(path)!r}: {error}") from None


def _read_csv(path: Path, columns: Sequence[str], delimiter: str) -> PublishedTable:
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        header = [name.strip() for name in next(reader, [])]
        index = [_position(header, name) for name in columns]
        cells: list[list[str]] = [[] for _ in columns]
        places = []
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise SourceError(
                    f"line {reader.line_num} has {len(row)} fields; the header has {len(header)}",
                    hint="if another character separates the fields, state it in the spec as delimiter",
                )
            places.append(f"line {reader.line_num}")
            for each, k in zip(cells, index, strict=True):
                each.append(row[k].strip())
    return _table(columns, cells, places)


def _read_parquet(path: Path, columns: Sequence[str]) -> PublishedTable:
    source = f"read_parquet({_quoted(str(path), chr(39))})"
    with cursor(SourceError(f"the table {str(path)!r} cannot be read as Parquet")) as engine:
        header = [str(row[0]) for row in engine.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()]
        names = [_quoted(header[_position(header, name)], '"') for name in columns]
        selected = ", ".join(f"trim(coalesce(CAST({name} AS VARCHAR), ''))" for name in names)
        rows = engine.execute(f"SELECT {selected} FROM {source}").fetchall()
    cells = [[str(row[k]) for row in rows] for k in range(len(columns))]
    return _table(columns, cells, [f"row {k + 1}" for k in range(len(rows))])


def _quoted(text: str, mark: str) -> str:
    return mark + text.replace(mark, 2 * mark) + mark


def _position(header: Sequence[str], name: str) -> int:
    if header.count(name) != 1:
        problem = "has no column" if name not in header else "has two columns"
        raise SourceError(f"the table {problem} {name!r}", hint=nearest(name, header) if name not in header else "")
    return header.index(name)


def _table(columns: Sequence[str], cells: Sequence[list[str]], places: Sequence[str]) -> PublishedTable:
    if not places:
        raise SourceError("the table has no rows")
    return PublishedTable(dict(zip(columns, cells, strict=True)), places)
