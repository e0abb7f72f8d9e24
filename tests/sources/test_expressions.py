"""The shared expressions, run by the embedded engine, against the embedded reader."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from dpbayes_cli.base.duck import cursor
from dpbayes_cli.sources.cell_expressions import literal
from dpbayes_cli.sources.engine import EngineSource, Kind, Rows
from dpbayes_cli.sources.source import unreadable
from tests.conftest import often
from tests.sources.tables_of_texts import Asked, all_requests, answer, bound, embedded, random_rows, written


class ByExpressions(EngineSource):
    """A Parquet file of texts, read by the expressions of the other engines."""

    dialect = "duckdb"

    def __init__(self, path: Path, asked: Asked) -> None:
        super().__init__(bound(asked), asked.marks)
        self._path = path

    def close(self) -> None:
        """Nothing stays open."""

    def _kinds(self) -> Mapping[str, Kind | str]:
        with cursor(unreadable()) as engine:
            rows = engine.execute(f"DESCRIBE SELECT * FROM '{self._path}'").fetchall()
        return {str(row[0]): "text" for row in rows}

    def _relation(self, named: Mapping[str, str]) -> str:
        texts = (f"{name} AS {new}" for new, name in named.items())
        return f"SELECT {', '.join(texts)} FROM '{self._path}'"

    def _rows(self, query: str) -> Rows:
        with cursor(RuntimeError("failed")) as engine:  # type: ignore[arg-type]
            rows: Rows = engine.execute(query).fetchall()
        return rows


@pytest.mark.parametrize("number", often(range(len(all_requests())), 5))
def test_expressions_agree_with_the_embedded_reader(number: int, tmp_path: Path) -> None:
    asked = all_requests()[number]
    path = written(tmp_path / "rows.parquet", random_rows(number, 300))
    result = answer(ByExpressions(path, asked), asked)
    assert result == embedded(path, asked)
    assert any(result[0].values) or result[0].histogram


def test_literal_cannot_be_escaped() -> None:
    assert literal("it's; DROP TABLE x --") == "'it''s; DROP TABLE x --'"
