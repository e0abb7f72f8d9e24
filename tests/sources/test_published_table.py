"""Reading tables of noisy counts that other tools published."""

from __future__ import annotations

import gzip
from pathlib import Path

import duckdb
import numpy as np
import pytest

from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.sources.published_table import read_published_table

TABLE = 'a,b,"c, d"\n x ,1,-2\n"y\nz",+3.0,4\n\n,1e2,5\n'


def write_parquet(table: Path, target: Path) -> None:
    duckdb.sql(f"COPY (SELECT * FROM read_csv('{table}')) TO '{target}' (FORMAT parquet)")


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "T.TSV"])
def test_cells_are_read_as_texts_with_their_lines(place: Path, name: str) -> None:
    content = ("\ufeff" + TABLE).encode()
    (place / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    table = read_published_table(place / name, ["c, d", "a", "b"])
    assert table.columns["a"] == ["x", "y\nz", ""]
    assert list(table.places) == ["line 2", "line 4", "line 6"]
    assert table.numbers("b", whole=False).tolist() == [1.0, 3.0, 100.0]
    assert table.numbers("c, d", whole=True).tolist() == [-2.0, 4.0, 5.0]


def test_another_delimiter(place: Path) -> None:
    (place / "t.csv").write_text("a;b\n1;2\n")
    assert read_published_table(place / "t.csv", ["b"], ";").columns["b"] == ["2"]
    with pytest.raises(SourceError, match="has no column 'b'"):
        read_published_table(place / "t.csv", ["b"])


def test_parquet_columns_of_any_type(place: Path) -> None:
    duckdb.sql("COPY (SELECT 1 AS a, 2.5 AS b, NULL::INTEGER AS c, ' k ' AS \"d\"\"e\") TO 't.parquet'")
    table = read_published_table(place / "t.parquet", ["a", "b", "c", 'd"e'])
    assert {name: cells[0] for name, cells in table.columns.items()} == {"a": "1", "b": "2.5", "c": "", 'd"e': "k"}
    assert list(table.places) == ["row 1"]
    assert np.isnan(table.numbers("c", whole=True, may_be_empty=True)).all()


@pytest.mark.parametrize("cell", ["nan", "inf", "1_000", "0x10", "1e400", "1e16", "2.5"])
def test_what_is_no_whole_number_is_refused_and_quoted(place: Path, cell: str) -> None:
    (place / "t.csv").write_text(f"a\n1\n{cell}\n")
    with pytest.raises(SourceError, match=f"line 3: column 'a' holds '{cell}'; expected a whole number"):
        read_published_table(place / "t.csv", ["a"]).numbers("a", whole=True)


def test_files_that_cannot_be_read(place: Path) -> None:
    (place / "counts.csv").write_bytes(b"a\n\xff\n")
    (place / "t.parquet").write_bytes(b"no Parquet")
    (place / "twice.csv").write_text("a,a\n1,2\n")
    (place / "quote.csv").write_text('a\n"1\n')
    (place / "cut.csv.gz").write_bytes(gzip.compress(b"a\n1\n")[:-9])
    for name, message in [
        ("count.csv", "cannot read the table"), ("counts.csv", "is not UTF-8 text"),
        ("t.parquet", "cannot be read as Parquet"), ("twice.csv", "has two columns 'a'"),
        ("quote.csv", "unexpected end of data"), ("cut.csv.gz", "cannot read the table"),
        (".", "is not a regular file"), ("a\0b", "NUL"),
    ]:  # fmt: skip
        with pytest.raises(SourceError, match=message):
            read_published_table(place / name, ["a"])
    with pytest.raises(SourceError) as caught:
        read_published_table(place / "count.csv", ["a"])
    assert "counts.csv" in caught.value.hint
