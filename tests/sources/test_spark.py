"""Parquet files and tables read by Spark: the same integers as by the embedded reader, in any partition."""

from __future__ import annotations

import shutil
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from dpbayes_cli.base.cell_grammar import POINT
from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.base.postgres_address import parse_table_address
from dpbayes_cli.core.columns import Column, NumericColumn, RecordPolicy
from dpbayes_cli.core.statistic import CountAt, Statistic, TableCounts
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.location import locate_for_spark
from dpbayes_cli.sources.postgres import PostgresSource
from dpbayes_cli.sources.spark import SparkSource, _kind, _session
from tests.conftest import Cli
from tests.postgres_server import Server
from tests.sources.tables_of_texts import (
    DROP,
    NOTHING,
    Asked,
    all_requests,
    answer,
    bound,
    embedded,
    long_rows,
    products,
    random_rows,
    written,
)  # fmt: skip

SECRET = "hunter2-in-the-address"
"""No output may repeat it."""
N_RECORDS = 3_000_000
ROWS = f"""
SELECT ['a', 'b', '1', ' 01', 'é', '', '?'][1 + (hash(i, 1) % 7)::INT] AS level,
  CASE WHEN hash(i, 2) % 11 = 0 THEN NULL ELSE ['yes', 'no'][1 + (hash(i, 3) % 2)::INT] END AS other,
  (((hash(i, 4) % 2400000)::BIGINT - 1200000) / 1000000)::DECIMAL(9, 6)::VARCHAR AS number,
  CASE WHEN hash(i, 5) % 13 = 0 THEN '-' ELSE (hash(i, 6) % 1000)::VARCHAR END AS dropped,
  CASE WHEN i % 1000 = 0 THEN NULL ELSE CASE WHEN hash(i, 7) % 3 = 0 THEN '0' ELSE '' END
    || (hash(i, 8) % {N_RECORDS // 5})::VARCHAR END AS owner
FROM range({N_RECORDS}) AS t(i)
"""
"""Texts with several spellings of one value; units with up to about twenty records, and one with three thousand."""


def spark(test: Any) -> Any:
    """Mark a test that starts Spark."""
    for mark in (
        pytest.mark.slow,
        pytest.mark.engines,
        pytest.mark.skipif(find_spec("pyspark") is None, reason="pyspark is not installed"),
        pytest.mark.skipif(shutil.which("java") is None, reason="no Java is installed"),
        pytest.mark.filterwarnings("ignore"),
    ):
        test = mark(test)
    return test


def source(where: Any, asked: Asked | None = None) -> SparkSource:
    bounds = (None, POINT) if asked is None else (bound(asked), asked.marks)
    return SparkSource(locate_for_spark(str(where)), "local[2]", *bounds)


@spark
def test_spark_agrees_with_the_embedded_reader(tmp_path: Path) -> None:
    rows = random_rows(2, 200)
    whole = written(tmp_path / "whole.parquet", rows)
    for i in range(3):
        written(tmp_path / f"part-{i}.parquet", rows[::-1][i::3])
    for asked in all_requests():
        expected = embedded(whole, asked)
        assert answer(source(tmp_path / "part-*.parquet", asked), asked) == expected
    long = written(tmp_path / "long.parquet", long_rows())
    for asked in (all_requests()[0], all_requests()[8]):
        assert answer(source(long, asked), asked) == embedded(long, asked)


@spark
def test_a_release_by_spark_is_the_release_of_the_same_request(dpbayes: Cli, place: Path, ledger_path: Path) -> None:
    written(place / "rows.parquet", [["1"] * 8] * 30 + [["0"] * 8] * 20)
    common = ("--model", "beta-bernoulli", "--column", "level", "--eps", "1", "--ledger", ledger_path)
    dpbayes("release", "rows.parquet", *common, "--engine", "spark", "--master", "local[2]", "--out", "a").exits(0)
    # what reads the data is no part of the question
    dpbayes("release", "rows.parquet", *common, "--out", "b").exits(0, "shown again")


@spark
def test_a_table_of_the_catalog_is_read(tmp_path: Path) -> None:
    rows = "(CAST(1 AS INT), 0.5D, 1.50BD), (0, double('NaN'), NULL)"
    _session("local[2]").sql(f"SELECT * FROM VALUES {rows} AS t(i, d, n)").createTempView("typed")
    asked = all_requests()[0]
    with closing(source("table:typed")) as table:
        table.check((Column("level", ("1", "0")),), ["i"])
        assert table.statistics(asked.statistic, DROP).values[:2] == (1, 1)
    with closing(source("table:typed")) as table, pytest.raises(SourceError, match="unique text form"):
        table.check((Column("level", ("1", "0")),), ["d"])
    with closing(source("table:nowhere")) as table, pytest.raises(SourceError, match="could not read"):
        table.check((Column("level", ("1", "0")),), ["d"])


@spark
def test_no_file_is_left_out_and_no_name_is_a_pattern(tmp_path: Path) -> None:
    column = (NumericColumn("number", 0, 1, 10),)
    for name in ("_hidden.parquet", "a[1].parquet"):
        path = written(tmp_path / name, [["1"] * 8])
        with closing(source(path)) as table, pytest.raises(SourceError, match="Spark"):
            table.check(column, ["number"])


@spark
def test_no_error_of_spark_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    secret = "cell-of-a-person"
    view = f"SELECT string(raise_error(concat('{secret}', id))) AS level FROM range(3)"
    _session("local[2]").sql(view).createTempView("broken")
    asked = all_requests()[0]
    with closing(source("table:broken")) as table:
        table.check(asked.columns, ["level"])
        with pytest.raises(SourceError) as failure:
            table.statistics(asked.statistic, DROP)
    printed = capfd.readouterr()
    assert secret not in f"{failure.value} {failure.value.hint} {printed.out} {printed.err}"
    assert failure.value.__cause__ is None


def test_text_files_are_refused(place: Path) -> None:
    (place / "a.csv").write_text("x\n1\n", encoding="ascii")
    with pytest.raises(SourceError, match="not text files"):
        source("a.csv")
    with pytest.raises(SourceError, match="their own server"):
        locate_for_spark("postgresql://ada@db/clinic/patients")


@pytest.mark.parametrize(
    "text",
    [f"s3a://key:{SECRET}@bucket/a", f"s3a://bucket/a?token={SECRET}", f"jdbc:postgresql://db/{SECRET}",
     f"https://example.org/{SECRET}", f"table:a;{SECRET}", f"s3a://key:{SECRET}/b@bucket/a"],
)  # fmt: skip
def test_malformed_address_is_not_repeated(text: str) -> None:
    with pytest.raises(SourceError) as failure:
        locate_for_spark(text)
    assert SECRET not in f"{failure.value} {failure.value.hint}"


def test_a_table_names_its_account() -> None:
    assert locate_for_spark("table:lake.ward.patients").dataset == "patients"
    remote = locate_for_spark("s3a://bucket/year=2020/*.parquet")
    assert (remote.identity, remote.dataset) == ("s3a://bucket/year=2020/*.parquet", None)


def test_types_of_spark_have_kinds() -> None:
    named = ("decimal(10,2)", "decimal(38,7)", "varchar(3)", "float", "bigint", "map<string,string>")
    assert [_kind(name) for name in named] == ["decimal", "double", "text", "float", "integer", "map<string,string>"]


@spark
def test_three_engines_give_the_same_integers(postgres: Server, database: str, tmp_path: Path) -> None:
    """Three million records, several per person, in any order of rows."""
    import duckdb

    whole, text = tmp_path / "whole.parquet", tmp_path / "shuffled.csv"
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE rows AS {ROWS}")
        engine.execute(f"COPY rows TO '{whole}' (ROW_GROUP_SIZE 50000)")
        engine.execute(f"COPY (FROM rows ORDER BY hash(rows)) TO '{text}' (HEADER false, NULL '', FORCE_QUOTE *)")
        for i in range(5):
            part = f"SELECT * FROM rows WHERE hash(owner, number) % 5 = {i} ORDER BY hash(number, {i})"
            engine.execute(f"COPY ({part}) TO '{tmp_path}/part-{i}.parquet'")
    with postgres.connect(database) as connection, text.open("rb") as lines:
        connection.execute("CREATE TABLE people (level text, other text, number text, dropped text, owner text)")
        with connection.cursor() as cursor, cursor.copy("COPY people FROM STDIN (FORMAT csv)") as copy:
            while block := lines.read(1 << 20):
                copy.write(block)
    address = parse_table_address(f"{postgres.url(database)}/people")
    levels = (Column("level", ("a", "b", "1", "\u00e9"), impute="b"), Column("other", ("yes", "no")))
    numbers = (NumericColumn("number", -1.0, 1.0, 1 << 20), NumericColumn("dropped", 0.0, 900.0, 900, outside="drop"))
    counts = Statistic((), tuple(CountAt("level", i) for i in range(4)), 0, NOTHING, 0)
    tables = Statistic((), (TableCounts(("level", "other"), (4, 2)),), 0, NOTHING, 0)
    for columns, statistic in ((levels[:1], counts), (levels, tables), (numbers, products(*numbers))):
        asked = Asked(statistic, columns, RecordPolicy(Neighbors.ADD_REMOVE, None, 3), 3)
        expected = embedded(whole, asked)
        assert answer(PostgresSource(address, bound(asked), asked.marks), asked) == expected
        assert answer(source(tmp_path / "part-*.parquet", asked), asked) == expected
        kept, units = expected
        assert units is not None
        assert N_RECORDS // 5 * 0.99 < units <= N_RECORDS // 5 + 1
        assert 0.5 * N_RECORDS < kept.n_records < 0.6 * N_RECORDS, "most units have more records than three"
