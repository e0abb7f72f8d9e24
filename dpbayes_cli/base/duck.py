"""The embedded DuckDB: one in-memory engine per process. Its error texts are never shown, as they may quote a cell."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from threading import Thread
from typing import TYPE_CHECKING, BinaryIO

from dpbayes_cli.base.address_space import check_address_space
from dpbayes_cli.base.errors import DpbayesError

if TYPE_CHECKING:
    import duckdb

_INTERRUPT_SECONDS = 10.0  # longest time to wait for an interrupted query to end


@lru_cache(maxsize=1)
def _engine() -> duckdb.DuckDBPyConnection:
    """Start the engine; it loads no extensions from the network, and writes nothing to disk."""
    check_address_space()
    import _duckdb  # 0.08 s faster than its package duckdb

    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "temp_directory": "",
        "preserve_insertion_order": True,  # so that a limit on records keeps the first ones of the file
    }
    return _duckdb.connect(":memory:", config=config)


@contextmanager
def cursor(failure: DpbayesError) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a cursor; if the engine fails, raise ``failure`` in place of its error, whose text may quote a cell."""
    import _duckdb

    try:
        opened = _engine().cursor()
        try:
            yield opened
        finally:
            with suppress(_duckdb.Error):  # an error on closing must not replace the one that ended the block
                opened.close()
    except _duckdb.Error:
        raise failure from None


@contextmanager
def use_one_thread(engine: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Make the engine use one thread, which needs less memory."""
    import _duckdb

    engine.execute("SET threads = 1")
    try:
        yield
    finally:
        with suppress(_duckdb.Error):  # the block may have ended because the engine was interrupted
            engine.execute("RESET threads")


@contextmanager
def rows_as_csv(engine: duckdb.DuckDBPyConnection, query: str) -> Iterator[BinaryIO]:
    """Run a query in a thread, so that signals are handled meanwhile, and yield a stream of its rows as CSV.

    A cell with a line feed is quoted. An error of the engine is raised when the block ends, so the rows that were read
    must not be used before. If the block is left early, the query is interrupted.
    """
    reader, writer = os.pipe()
    errors: list[Exception] = []

    def write() -> None:
        try:
            engine.execute(f"COPY ({query}) TO '/dev/fd/{writer}' (FORMAT csv, HEADER false)")
        except Exception as error:  # noqa: BLE001 - raised again in the thread that reads
            errors.append(error)
        finally:
            os.close(writer)

    worker = Thread(target=write, name="engine", daemon=True)
    try:
        with open(reader, "rb") as stream:  # noqa: PTH123 - a descriptor
            worker.start()
            yield stream
    except BaseException:
        engine.interrupt()
        raise
    finally:
        worker.join(_INTERRUPT_SECONDS)
    if errors:
        raise errors[0]


def version() -> str:
    """Return the version of the engine."""
    import _duckdb

    return str(_duckdb.__version__)
