"""Three million records, several per person: three engines give the same statistics in any order of rows."""

from __future__ import annotations

import itertools
import shutil
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from dpbayes_cli.base.postgres_address import parse_table_address
from dpbayes_cli.core.columns import AnyColumn, Column, NumericColumn, RecordPolicy
from dpbayes_cli.core.statistic import CountAt, Statistic, TableCounts
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.location import locate_for_spark
from dpbayes_cli.sources.postgres import PostgresSource
from dpbayes_cli.sources.spark import SparkSource
from tests.postgres_server import Server
from tests.sources.tables_of_texts import NOTHING, Asked, answer, bound, embedded, products

N_RECORDS = 3_000_000
LEVELS: tuple[AnyColumn, ...] = (
    Column("level", ("a", "b", "1", "\u00e9"), impute="b"), Column("other", ("yes", "no")),
)  # fmt: skip
NUMBERS = (NumericColumn("number", -1.0, 1.0, 1 << 20), NumericColumn("dropped", 0.0, 900.0, 900, outside="drop"))
POLICY = RecordPolicy(Neighbors.ADD_REMOVE, None, 3)
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


def questions() -> list[Asked]:
    """Return requests for counts, tables and sums of products, with at most three records per unit."""
    counts = Statistic((), tuple(CountAt("level", i) for i in range(4)), 0, NOTHING, 0)
    tables = Statistic((), (TableCounts(("level", "other"), (4, 2)),), 0, NOTHING, 0)
    return [
        Asked(counts, LEVELS[:1], POLICY, 3),
        Asked(tables, LEVELS, POLICY, 3),
        Asked(products(*NUMBERS), NUMBERS, POLICY, 3),
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(find_spec("pyspark") is None, reason="pyspark is not installed")
@pytest.mark.skipif(shutil.which("java") is None, reason="no Java is installed")
def test_three_engines_give_the_same_integers(postgres: Server, database: str, tmp_path: Path) -> None:
    import duckdb

    whole, text = tmp_path / "whole.parquet", tmp_path / "shuffled.csv"
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE rows AS {ROWS}")
        engine.execute(f"COPY rows TO '{whole}' (ROW_GROUP_SIZE 50000)")
        engine.execute(f"COPY (FROM rows ORDER BY hash(rows)) TO '{text}' (HEADER false, NULL '', FORCE_QUOTE *)")
        for i in range(5):
            part = f"SELECT * FROM rows WHERE hash(owner, number) % 5 = {i} ORDER BY hash(number, {i})"
            engine.execute(f"COPY ({part}) TO '{tmp_path}/part-{i}.parquet'")
    names = ("level", "other", "number", "dropped", "owner")
    with postgres.connect(database) as connection, text.open("rb") as lines:
        connection.execute(f"CREATE TABLE people ({', '.join(f'{name} text' for name in names)})")
        with connection.cursor() as cursor, cursor.copy("COPY people FROM STDIN (FORMAT csv)") as copy:
            while block := lines.read(1 << 20):
                copy.write(block)
    address = parse_table_address(f"{postgres.url(database)}/people")
    parts = locate_for_spark(str(tmp_path / "part-*.parquet"))
    for asked in questions():
        times = [time.perf_counter()]
        expected = embedded(whole, asked)
        times.append(time.perf_counter())
        assert answer(PostgresSource(address, bound(asked)), asked) == expected
        times.append(time.perf_counter())
        assert answer(SparkSource(parts, "local[2]", bound(asked)), asked) == expected
        times.append(time.perf_counter())
        took = " ".join(f"{after - before:.1f} s" for before, after in itertools.pairwise(times))
        print(f"\n{asked.statistic.expressions[0]}: DuckDB, PostgreSQL, Spark {took}")
        kept, units = expected
        assert units is not None
        assert N_RECORDS // 5 * 0.99 < units <= N_RECORDS // 5 + 1
        assert 0.5 * N_RECORDS < kept.n_records < 0.6 * N_RECORDS, "most units have more records than three"
        assert embedded(whole, replace(asked, most=None))[0] != kept
