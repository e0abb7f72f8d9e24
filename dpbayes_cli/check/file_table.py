"""One file as a table of texts, whose layout is guessed. NOT PRIVATE: for ``dpbayes check``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dpbayes_cli.base.cell_grammar import POINT, NumberMarks
from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.check.column_profile import (
    ColumnProfile,
    Scan,
    all_texts,
    profile_columns,
    text_scan,
)
from dpbayes_cli.check.file_layout import UTF8, WINDOWS, guess_layout
from dpbayes_cli.sources.location import Location
from dpbayes_cli.sources.parquet import parquet_blocks, parquet_columns
from dpbayes_cli.sources.text_keys import TextKeys
from dpbayes_cli.spec.source_section import SourceSection


class Table:
    """One file as a table of texts.

    Attributes:
        path: the file.
        layout: the guessed layout of the file; None for Parquet. For a file without a header, it has the names that the
            user stated.
        names: the names of the columns.

    Raises:
        SourceError: the location is not one file.
    """

    def __init__(self, location: Location, stated: SourceSection | None = None) -> None:
        self.path = only_file(location)
        self.layout = None if location.format == "parquet" else guess_layout(self.path)
        if self.layout is None:
            self._are_texts = parquet_columns(self.path)
            self.names = tuple(self._are_texts)
            return
        if stated is not None and stated.quoted_newlines:
            self.layout = self.layout.with_quoted_newlines(self.path)
        if stated is not None and not stated.header and len(stated.columns) == len(self.layout.names):
            self.layout = replace(self.layout, header=False, names=stated.columns)
        self._are_texts, self.names = {}, self.layout.names

    def scan(self) -> Scan:
        """Return what reads the cells of the file."""
        if self.layout is None:
            return lambda indices: parquet_blocks(self.path, [self.names[i] for i in indices])
        return text_scan(self.path, self.layout)

    def scan_as_released(self, quote: str) -> Scan:
        """Return what reads the cells as a release does: with the stated quote character, and in UTF-8."""
        if self.layout is None:
            return self.scan()
        encoding = UTF8 if self.layout.encoding == WINDOWS else self.layout.encoding
        return text_scan(self.path, replace(self.layout, quote=quote, encoding=encoding))

    def profiles(self) -> list[ColumnProfile]:
        """Return the profiles of the columns."""
        return profile_columns(self.scan(), self.names, POINT if self.layout is None else self.layout.marks)

    def texts(self, name: str) -> list[str]:
        """Return all distinct texts of a column, sorted."""
        return all_texts(self.scan(), self.names.index(name))

    def largest_group(self, index: int) -> int:
        """Return the largest number of records with the same text in a column; empty cells do not count."""
        texts, keys = TextKeys(), [np.empty(0, np.uint64)]
        for block in self.scan()([index]):
            begins, stops = block.edges(0)
            keys.append(texts.of_cells(block, begins, stops)[block.is_whole & (begins < stops)])
        return int(np.unique(np.concatenate(keys), return_counts=True)[1].max(initial=0))

    def marks(self, name: str, stated: NumberMarks) -> NumberMarks:
        """Return the marks with which a release reads a column: the stated ones, if the column holds texts."""
        return stated if self._are_texts.get(name, True) else POINT


def only_file(location: Location) -> Path:
    """Return the path of a location that is one file.

    Raises:
        SourceError: it is not.
    """
    if len(location.paths) != 1 or location.is_stream:
        raise SourceError("only a single file can be checked", hint="dpbayes check FILE")
    return location.paths[0]
