"""The embedded DuckDB: one private in-memory engine a process, whose own error texts never get out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from threading import Thread
from typing import TYPE_CHECKING, Any

from dpbayes_cli.base.address_space import check_address_space
from dpbayes_cli.base.errors import DpbayesError

if TYPE_CHECKING:
    import duckdb
    from numpy.typing import NDArray


_BLOCK = 64
"""A block of rows, in vectors of the engine: 131,072 rows."""
_PATIENCE = 10.0
"""Seconds that an interrupted query gets to end."""


@lru_cache(maxsize=1)
def _engine() -> duckdb.DuckDBPyConnection:
    """Start the engine: no extensions from the network, no spilling to disk.

    The package ``duckdb`` re-exports the extension module ``_duckdb`` beside 5,000 lines of Python that are not needed
    here; importing the module alone takes 0.08 s off a release of 0.5 s.
    """
    check_address_space()
    import _duckdb

    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "temp_directory": "",
        "preserve_insertion_order": True,  # the first records of a file, where a limit is stated, are the first ones
    }
    return _duckdb.connect(":memory:", config=config)


@contextmanager
def cursor(failure: DpbayesError) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a cursor of the engine.

    Args:
        failure: what to raise where the engine fails; its own text, which may quote a cell, is discarded.
    """
    import _duckdb

    try:
        opened = _engine().cursor()
        try:
            yield opened
        finally:
            with suppress(_duckdb.Error):  # an error on closing must not stand for what ended the block
                opened.close()
    except _duckdb.Error:
        raise failure from None


@contextmanager
def one_thread(engine: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Have the engine use one thread, so that it holds what one thread holds."""
    import _duckdb

    engine.execute("SET threads = 1")
    try:
        yield
    finally:
        with suppress(_duckdb.Error):  # as above: the block may have ended because the engine was interrupted
            engine.execute("RESET threads")


def fetch(engine: duckdb.DuckDBPyConnection, query: str, abort: Callable[[], None]) -> list[tuple[Any, ...]]:
    """Run a query and return its rows.

    Args:
        engine: an open cursor.
        query: the SQL.
        abort: what ends the query early, called where this thread is interrupted.
    """
    rows: list[tuple[Any, ...]] = []
    _aside(lambda: rows.extend(engine.execute(query).fetchall()), abort)
    return rows


def stream(
    engine: duckdb.DuckDBPyConnection,
    query: str,
    abort: Callable[[], None],
    take: Callable[[Sequence[NDArray[Any]]], None],
) -> None:
    """Run a query and hand its rows over in blocks of columns, so that no more than a block is held.

    Args:
        engine: an open cursor.
        query: the SQL.
        abort: what ends the query early, called where this thread is interrupted.
        take: called with every block, one array a column.
    """

    def work() -> None:
        engine.execute(query)
        while len(block := engine.fetch_df_chunk(_BLOCK)):
            take([block[name].to_numpy() for name in block.columns])

    _aside(work, abort)


def _aside(action: Callable[[], None], abort: Callable[[], None]) -> None:
    """Run an action in a thread of its own, so that a signal is heard while the engine reads."""
    failure: list[BaseException] = []

    def work() -> None:
        try:
            action()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            failure.append(error)

    worker = Thread(target=work, name="engine", daemon=True)
    worker.start()
    try:
        while worker.is_alive():
            worker.join(0.5)
    except BaseException:
        abort()
        worker.join(_PATIENCE)
        raise
    if failure:
        raise failure[0]


def version() -> str:
    """Return the version of the engine."""
    import _duckdb

    return str(_duckdb.__formatted_python_version__)
