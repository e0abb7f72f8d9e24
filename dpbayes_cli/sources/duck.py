"""One embedded DuckDB connection: no extensions from the network, no spilling to disk, no engine text in errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dpbayes_cli.errors import SourceError

if TYPE_CHECKING:
    import duckdb


@contextmanager
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a private in-memory DuckDB.

    Raises:
        SourceError: the engine failed; its text, which may quote a cell, is discarded.
    """
    import duckdb

    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "preserve_insertion_order": False,
        "temp_directory": "",
    }
    try:
        with duckdb.connect(":memory:", config=config) as engine:
            yield engine
    except duckdb.Error:
        raise SourceError("the engine could not read the data", hint="is the file complete?") from None
