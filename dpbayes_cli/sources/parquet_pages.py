"""Copies a text column of a Parquet file into a new file, in which each page of the original is a row group.

DuckDB reads 2,048 rows at once. If these rows lie in several pages, DuckDB copies an entry of the dictionary for every
cell: from a file of a few kilobytes, 2,048 cells of 1 MiB become 2 GiB. But DuckDB never reads across row groups. So
each page becomes a row group of its own, after a copy of the dictionary. Pages are copied unchanged, still compressed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpbayes_cli.base.errors import SourceError

if TYPE_CHECKING:
    import duckdb

_MAGIC = b"PAR1"
_CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "LZO": 3, "BROTLI": 4, "LZ4": 5, "ZSTD": 6, "LZ4_RAW": 7}
_DICTIONARY_PAGE, _DATA_PAGES = 2, {0: 5, 3: 8}
"""The type of dictionary pages; and for each type of data pages, the header field that holds the number of values."""
_MAX_HEADER_BYTES = 1 << 20
_BYTE_ARRAY, _UTF8, _OPTIONAL, _ENCODINGS = 6, 0, 1, [0, 2, 3, 6, 7, 8]


@dataclass(frozen=True)
class _Page:
    start: int
    length: int
    header: dict[int, Any]


@dataclass(frozen=True)
class Chunk:
    """A column chunk: its codec, start and size in the file, unpacked size in bytes, and number of rows."""

    codec: str
    start: int
    size: int
    unpacked: int
    n_rows: int


@dataclass(frozen=True)
class TextColumn:
    """A column of variable-length texts in an open Parquet file; ``required`` means that no value may be null."""

    required: bool
    chunks: tuple[Chunk, ...]


def text_column(engine: duckdb.DuckDBPyConnection, file: str, name: str) -> TextColumn | None:
    """Return a column of variable-length texts; None if the column is nested or has another type.

    Args:
        engine: an open cursor.
        file: the file as an SQL literal.
        name: the name of the column.
    """
    query = f"SELECT name, type, repetition_type, num_children FROM parquet_schema({file})"
    inside = leaf = 0
    for field, kind, repetition, children in engine.execute(query).fetchall()[1:]:
        if not inside and field == name:
            texts = not children and kind == "BYTE_ARRAY"
            return TextColumn(repetition == "REQUIRED", _chunks(engine, file, leaf)) if texts else None
        leaf += not children
        inside = max(inside - 1, 0) + (children or 0)
    return None


def _chunks(engine: duckdb.DuckDBPyConnection, file: str, leaf: int) -> tuple[Chunk, ...]:
    query = (
        "SELECT compression, dictionary_page_offset, data_page_offset, total_compressed_size, total_uncompressed_size, "
        f"row_group_num_rows FROM parquet_metadata({file}) WHERE column_id = {leaf} ORDER BY row_group_id"
    )
    return tuple(
        Chunk(codec, min(dictionary or data, data), size, unpacked, n_rows)
        for codec, dictionary, data, size, unpacked, n_rows in engine.execute(query).fetchall()
    )


def copy_text_column(source: int, column: TextColumn, groups: range) -> int:
    """Copy row groups of a text column to a file in memory with the only column ``cell``; return the file's descriptor.

    Args:
        source: the descriptor of the original file.
        column: the column to copy.
        groups: the indices of the row groups to copy.

    Raises:
        SourceError: the header of a page cannot be read, or a page is missing.
    """
    target = os.memfd_create("column", os.MFD_CLOEXEC)
    try:
        _write(target, _MAGIC)
        written: list[bytes] = []
        for group in groups:
            chunk = column.chunks[group]
            dictionary: _Page | None = None
            n_rows = 0
            for page in _pages(source, chunk.start, chunk.start + chunk.size):
                if page.header[1] == _DICTIONARY_PAGE:
                    dictionary = page
                elif page.header[1] in _DATA_PAGES:
                    content, rows = _copy_page(source, target, dictionary, page, _CODECS[chunk.codec])
                    written.append(content)
                    n_rows += rows
            if n_rows != chunk.n_rows:
                raise _unreadable_page()
        _write(target, _footer(column, written, sum(column.chunks[group].n_rows for group in groups)))
    except BaseException:
        os.close(target)
        raise
    return target


def _footer(column: TextColumn, groups: list[bytes], n_rows: int) -> bytes:
    repetition = 0 if column.required else _OPTIONAL
    cell = [(1, _integer(_BYTE_ARRAY)), (3, _integer(repetition)), (4, _binary(b"cell")), (6, _integer(_UTF8))]
    schema = [_struct((4, _binary(b"root")), (5, _integer(1))), _struct(*cell)]
    footer = _struct((1, _integer(1)), (2, _listed(_STRUCT, schema)), (3, _long(n_rows)), (4, _listed(_STRUCT, groups)))
    return footer + len(footer).to_bytes(4, "little") + _MAGIC


def _copy_page(source: int, target: int, dictionary: _Page | None, page: _Page, codec: int) -> tuple[bytes, int]:
    """Copy a page and the dictionary before it; return the metadata and the number of rows of the new row group."""
    begin = os.lseek(target, 0, os.SEEK_END)
    parts = [page] if dictionary is None else [dictionary, page]
    for part in parts:
        _write(target, os.pread(source, part.length, part.start))
    n_rows = int(page.header[_DATA_PAGES[page.header[1]]][1])
    unpacked = sum(part.length + int(part.header[2]) for part in parts)
    size = sum(part.length for part in parts)
    fields = [
        (1, _integer(_BYTE_ARRAY)), (2, _listed(_I32, [_varint(2 * encoding) for encoding in _ENCODINGS])),
        (3, _listed(_BINARY, [_varint(4) + b"cell"])), (4, _integer(codec)), (5, _long(n_rows)),
        (6, _long(unpacked)), (7, _long(size)), (9, _long(begin + size - page.length)),
        *([] if dictionary is None else [(11, _long(begin))]),
    ]  # fmt: skip
    chunk = _struct((2, _long(begin)), (3, (_STRUCT, _struct(*fields))))
    return _struct((1, _listed(_STRUCT, [chunk])), (2, _long(unpacked)), (3, _long(n_rows))), n_rows


def _pages(source: int, position: int, end: int) -> Iterator[_Page]:
    """Yield the pages of a column chunk; their lengths include the headers."""
    while position < end:
        try:
            header, length = _read_struct(os.pread(source, min(_MAX_HEADER_BYTES, end - position), position), 0)
            length += int(header[3])
        except (IndexError, KeyError, ValueError, RecursionError):
            raise _unreadable_page() from None
        yield _Page(position, length, header)
        position += length


def _unreadable_page() -> SourceError:
    return SourceError("the Parquet file is damaged: the header of a page cannot be read", hint="is the file complete?")


def _write(target: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(target, rest) :]


# Thrift's compact protocol, the format of Parquet's headers and footers.

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)


def _read_struct(content: bytes, position: int) -> tuple[dict[int, Any], int]:
    """Return the fields of a struct by number, and the position after the struct; binaries and doubles become None."""
    fields: dict[int, Any] = {}
    number = 0
    while kind := content[position]:
        position += 1
        if kind >> 4:
            number += kind >> 4
        else:
            number, position = _read_integer(content, position)
        fields[number], position = _read_value(content, position, kind & 15)
    return fields, position + 1


def _read_value(content: bytes, position: int, kind: int) -> tuple[Any, int]:
    if kind in {_TRUE, _FALSE}:
        return kind == _TRUE, position
    if kind == _BYTE:
        return content[position], position + 1
    if kind in {_I16, _I32, _I64}:
        return _read_integer(content, position)
    if kind == _DOUBLE:
        return None, position + 8
    if kind == _BINARY:
        length, position = _read_varint(content, position)
        return None, position + length
    if kind == _STRUCT:
        return _read_struct(content, position)
    raise ValueError  # page headers hold no lists, sets or maps


def _read_varint(content: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[position]
        value |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return value, position


def _read_integer(content: bytes, position: int) -> tuple[int, int]:
    value, position = _read_varint(content, position)
    return (value >> 1) ^ -(value & 1), position


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes([*written, value])


def _integer(value: int) -> tuple[int, bytes]:
    return _I32, _varint(2 * value)


def _long(value: int) -> tuple[int, bytes]:
    return _I64, _varint(2 * value)


def _binary(value: bytes) -> tuple[int, bytes]:
    return _BINARY, _varint(len(value)) + value


def _listed(kind: int, values: list[bytes]) -> tuple[int, bytes]:
    head = bytes([len(values) << 4 | kind]) if len(values) < 15 else bytes([0xF0 | kind]) + _varint(len(values))
    return _LIST, head + b"".join(values)


def _struct(*fields: tuple[int, tuple[int, bytes]]) -> bytes:
    """Return an encoded struct; the numbers of its fields must ascend by less than 16."""
    written, last = b"", 0
    for number, (kind, value) in fields:
        written += bytes([(number - last) << 4 | kind]) + value
        last = number
    return written + b"\0"
