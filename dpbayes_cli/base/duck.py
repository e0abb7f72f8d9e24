"""The embedded DuckDB: one in-memory engine per process. Its error texts are never shown, as they may quote a cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from threading import Thread
from typing import TYPE_CHECKING, Any

from dpbayes_cli.base.address_space import check_address_space
from dpbayes_cli.base.errors import DpbayesError

if TYPE_CHECKING:
    import duckdb
    from numpy.typing import NDArray


_BLOCK_VECTORS = 64  # the number of DuckDB vectors in a block; together they hold 131,072 rows
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


def use_one_thread(engine: duckdb.DuckDBPyConnection) -> AbstractContextManager[None]:
    """Make the engine use one thread, which needs less memory."""
    return _setting(engine, "threads", "1")


def keep_join_order(engine: duckdb.DuckDBPyConnection) -> AbstractContextManager[None]:
    """Make the engine keep the right side of each join in memory, and stream the left side."""
    return _setting(engine, "disabled_optimizers", "'join_order,build_side_probe_side'")


@contextmanager
def _setting(engine: duckdb.DuckDBPyConnection, name: str, value: str) -> Iterator[None]:
    import _duckdb

    engine.execute(f"SET {name} = {value}")
    try:
        yield
    finally:
        with suppress(_duckdb.Error):  # the block may have ended because the engine was interrupted
            engine.execute(f"RESET {name}")


def fetch(engine: duckdb.DuckDBPyConnection, query: str, abort: Callable[[], None]) -> list[tuple[Any, ...]]:
    """Run a query and return its rows; if this thread is interrupted, call ``abort``, which must end the query."""
    rows: list[tuple[Any, ...]] = []
    _run_in_thread(lambda: rows.extend(engine.execute(query).fetchall()), abort)
    return rows


def stream(
    engine: duckdb.DuckDBPyConnection,
    query: str,
    abort: Callable[[], None],
    take: Callable[[Sequence[NDArray[Any]]], None],
) -> None:
    """Run a query like ``fetch``, but pass its rows to ``take`` in blocks, one array per column, to save memory."""

    def work() -> None:
        engine.execute(query)
        while len(block := engine.fetch_df_chunk(_BLOCK_VECTORS)):
            take([block[name].to_numpy() for name in block.columns])

    _run_in_thread(work, abort)


def _run_in_thread(action: Callable[[], None], abort: Callable[[], None]) -> None:
    """Run an action in its own thread, so that signals are handled while the engine reads."""
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
        worker.join(_INTERRUPT_SECONDS)
        raise
    if failure:
        raise failure[0]


def version() -> str:
    """Return the version of the engine."""
    import _duckdb

    return str(_duckdb.__version__)
