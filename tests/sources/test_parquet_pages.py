"""Pages that become row groups hold the same records, whoever wrote them and however."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbayes_cli.base.duck import cursor
from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.sources import parquet
from dpbayes_cli.sources.parquet_pages import copy_text_column, text_column
from dpbayes_cli.sources.source import unreadable
from tests.sources.tables_of_texts import NAMES, all_requests, embedded, random_rows, written

SMALL = {"row_group_size": 37, "data_page_size": 64, "write_batch_size": 5}
WRITERS: dict[str, dict[str, Any]] = {
    "dictionaries": {**SMALL, "compression": "snappy"},
    "plain, version 2": {**SMALL, "compression": "zstd", "use_dictionary": False, "data_page_version": "2.0"},
    "dictionaries that overflow": {**SMALL, "compression": "gzip", "dictionary_pagesize_limit": 40},
    "deltas": {**SMALL, "compression": "brotli", "use_dictionary": False, "data_page_version": "2.0",
               "column_encoding": dict.fromkeys((*NAMES, "owner"), "DELTA_BYTE_ARRAY")},
    "one page": {"compression": "lz4"},
    "not compressed": {**SMALL, "compression": "none", "data_page_version": "2.0"},
}  # fmt: skip


def rewritten(path: Path, whole: Path, **options: Any) -> Path:
    """Write a table of texts again, with an additional required column and one of integers."""
    table = pq.read_table(whole)
    required = pa.field("always", pa.string(), nullable=False)
    table = table.append_column(required, pa.array(["x" * (i % 50) for i in range(len(table))]))
    pq.write_table(table.append_column("i", pa.array(range(len(table)))), path, store_schema=False, **options)
    return path


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(options, id=name, marks=() if name == "dictionaries" else pytest.mark.slow)
        for name, options in WRITERS.items()
    ],
)
def test_repaged_files_give_the_same_statistics(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = written(tmp_path / "whole.parquet", random_rows(5, 150))
    requests = (all_requests()[0], all_requests()[8]) if options["compression"] == "snappy" else all_requests()[::3]
    expected = [embedded(whole, request) for request in requests]
    path = rewritten(tmp_path / "pages.parquet", whole, **options)
    monkeypatch.setattr(parquet, "_MAX_VECTOR_BYTES", -1)
    monkeypatch.setattr(parquet, "_REPAGED_ROWS", 100)
    assert [embedded(path, request) for request in requests] == expected
    monkeypatch.setattr(parquet, "text_column", lambda engine, file, name: _only(name, engine, file))
    assert [embedded(path, request) for request in requests] == expected, "next to columns that are not repaged"


def _only(name: str, engine: Any, file: str) -> Any:
    return text_column(engine, file, name) if name in NAMES[::2] else None


def test_repaging_keeps_cells_and_their_order(tmp_path: Path) -> None:
    table = pa.table({"i": [[1]] * 900, "x": [None if i % 7 == 0 else f"{i % 11}" * (i % 300) for i in range(900)]})
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=450, data_page_size=128, write_batch_size=20)
    with (tmp_path / "f.parquet").open("rb") as file, cursor(unreadable()) as engine:
        name = f"'/dev/fd/{file.fileno()}'"
        column = text_column(engine, name, "x")
        assert column is not None
        assert len(column.chunks) == 2
        assert text_column(engine, name, "i") is None
        with open(copy_text_column(file.fileno(), column, range(2)), "rb") as paged:  # noqa: PTH123 - a descriptor
            cells = engine.execute(f"SELECT cell FROM read_parquet('/dev/fd/{paged.fileno()}')").fetchall()
            pages = engine.execute(f"SELECT DISTINCT row_group_id FROM parquet_metadata('/dev/fd/{paged.fileno()}')")
            assert len(pages.fetchall()) > 20
    assert [cell for (cell,) in cells] == table["x"].to_pylist()


def test_damaged_page_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"x": ["a" * i for i in range(300)]}), path, compression="none", use_dictionary=False)
    content = path.read_bytes()
    with path.open("rb") as file, cursor(unreadable()) as engine:
        column = text_column(engine, f"'/dev/fd/{file.fileno()}'", "x")
    assert column is not None
    start = column.chunks[0].start
    path.write_bytes(content[:start] + b"\xff" * 40 + content[start + 40 :])
    with path.open("rb") as file, pytest.raises(SourceError, match="header"):
        copy_text_column(file.fileno(), column, range(1))
