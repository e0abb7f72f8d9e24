"""A table in PostgreSQL: the same integers as from files, in one read-only snapshot; errors quote no cell."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dpbayes_cli.base.errors import SourceError, SpecError
from dpbayes_cli.base.postgres_address import parse_table_address
from dpbayes_cli.core.columns import Column, NumericColumn
from dpbayes_cli.core.statistic import CountAt, Statistic
from dpbayes_cli.sources.code_readers import CodeReader
from dpbayes_cli.sources.location import locate
from dpbayes_cli.sources.postgres import PostgresSource
from tests.conftest import Cli
from tests.postgres_server import Server
from tests.sources.tables_of_texts import (
    DROP,
    NAMES,
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
ROWS = """
model: logistic-regression
mechanism: gibbs-posterior
privacy: {epsilon: 3, delta: 1e-6}
prior: {precision: 4}
records: 100
on_invalid: impute:0
domain:
  target: {column: y, values: [no, yes], impute: no}
  norm: 3
  features:
    x: {lower: 0, upper: 1, impute: 0}
"""


def fill(server: Server, database: str, rows: Sequence[Sequence[str | None]], table: str = "texts") -> None:
    """Create a table of texts with a collation that does not compare by bytes."""
    nasty = "CREATE COLLATION IF NOT EXISTS blind (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
    with server.connect(database) as connection:
        connection.execute(nasty)
        columns = ", ".join(f'"{name}" text COLLATE blind' for name in (*NAMES, "owner"))
        connection.execute(f"CREATE TABLE {table} ({columns})")
        with connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)


def source(server: Server, database: str, asked: Asked, table: str = "texts") -> PostgresSource:
    return PostgresSource(parse_table_address(f"{server.url(database)}/{table}"), bound(asked), asked.marks)


@pytest.mark.parametrize("every", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_postgres_agrees_with_the_embedded_reader(every: int, postgres: Server, database: str, tmp_path: Path) -> None:
    rows = random_rows(1, 100)
    fill(postgres, database, rows)
    fill(postgres, database, rows[::-1], "backwards")
    path = written(tmp_path / "rows.parquet", rows)
    for i, asked in enumerate(all_requests()[::every]):
        expected = embedded(path, asked)
        for table in ("texts", "backwards")[: 2 if i % 4 == 3 else 1]:
            assert answer(source(postgres, database, asked, table), asked) == expected


def test_cells_longer_than_a_record_are_missing_in_every_engine(
    postgres: Server, database: str, tmp_path: Path
) -> None:
    rows = long_rows()
    fill(postgres, database, rows)
    path = written(tmp_path / "rows.parquet", rows)
    for asked, valid, units in ((all_requests()[0], 7, 10), (all_requests()[8], 3, 4)):
        expected = embedded(path, asked)
        assert (expected[0].values[0], expected[1]) == (valid, units)
        assert answer(source(postgres, database, asked), asked) == expected


@pytest.mark.slow
def test_a_cell_that_no_server_can_convert_is_missing(postgres: Server) -> None:
    postgres.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    asked = all_requests()[0]  # converted to UTF-8 the cell has twice its bytes, and PostgreSQL holds at most 1 GiB
    with postgres.connect("latin") as connection:
        connection.execute(
            "CREATE TABLE texts AS SELECT unnest(ARRAY['1', repeat(chr(233), 540000000)]) AS level, '' owner"
        )
    (statistics, _) = answer(source(postgres, "latin", asked), asked)
    assert statistics.values[0] == 1
    postgres.execute("DROP DATABASE latin WITH (FORCE)")


def test_a_database_whose_bytes_have_no_meaning_is_refused(postgres: Server) -> None:
    postgres.execute("CREATE DATABASE meaningless ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    with closing(source(postgres, "meaningless", all_requests()[0])) as table, pytest.raises(SourceError, match="SQL_"):
        table._connected()
    postgres.execute("DROP DATABASE meaningless WITH (FORCE)")


def test_a_release_reads_a_table_and_charges_its_account(
    postgres: Server, database: str, dpbayes: Cli, place: Path, ledger_path: Path, coin: Path
) -> None:
    with postgres.connect(database) as connection:
        connection.execute("CREATE SCHEMA ward; CREATE TABLE ward.coin (id uuid, x numeric, seen date)")
        cells = [line or None for line in coin.read_text().split("\n")[1:201]]
        with connection.cursor() as cursor, cursor.copy("COPY ward.coin FROM STDIN") as copy:
            for i, cell in enumerate(cells):
                copy.write_row((f"{i // 2:032x}", cell, "2020-01-01"))
    data = f"{postgres.url(database)}/ward.coin"

    def asked(*more: str, column: str = "x") -> Any:
        common = ("--model", "beta-bernoulli", "--column", column, "--eps", "1", "--ledger", ledger_path, "--json")
        return dpbayes("release", data, *common, *more)

    assert asked("--on-invalid", "impute:0", "--mechanism", "ops", "--out", "a").code == 0
    apart = ["--separate-population", "--reason", "a test", "--ledger", ledger_path]
    assert dpbayes("budget", "open", "ward", "--epsilon", "3", "--unit", "id", *apart).code == 0
    assert asked("--unit", "id", "--max-contributions", "2", "--dataset", "ward", "--out", "b").code == 0
    assert data in dpbayes("budget", "history", "--ledger", ledger_path, "--json").out
    wrong = asked("--records", "199", "--out", "c")
    assert (wrong.code, "200 records, but 199" in wrong.err) == (4, True)
    dates = asked("--out", "d", column="seen")
    assert (dates.code, "type date cannot be read as text" in dates.err) == (4, True)


@pytest.mark.parametrize(
    "address",
    [f"postgresql://ada:{SECRET}@db/clinic/patients", f"postgresql://ada@db/clinic/patients?password={SECRET}",
     f"postgresql://ada:{SECRET}@db/clinic", f"postgres://ada:a/{SECRET}@db/clinic/patients",
     f"postgresql://ada@db/clinic/ward.patients.{SECRET}", f"postgresql://ada@db/clinic/?{SECRET}",
     f"POSTGRESQL:{SECRET}"],
)  # fmt: skip
def test_an_address_that_is_not_understood_is_not_repeated(address: str, dpbayes: Cli, place: Path) -> None:
    with pytest.raises(SourceError) as failure:
        locate(address)
    assert SECRET not in f"{failure.value} {failure.value.hint}"
    done = dpbayes("release", address, "--model", "beta-bernoulli", "--eps", "1")
    assert done.code != 0
    assert SECRET not in done.out + done.err
    assert not list(place.iterdir())


def test_an_address_names_its_table_in_one_way() -> None:
    short = locate("postgres://ada@db:5433/clinic/patients?sslmode=require")
    assert (short.identity, short.dataset) == ("postgresql://ada@db:5433/clinic/public.patients", "patients")
    assert locate(short.identity).identity == short.identity
    odd = parse_table_address("postgresql:///clinic/the%20ward.pat%2Eients")
    assert (odd.schema, odd.table) == ("the ward", "pat.ients")
    assert parse_table_address(odd.location) == odd


def test_postgres_reads_one_snapshot_and_writes_nothing(postgres: Server, database: str) -> None:
    fill(postgres, database, [["1"] * 8] * 3)
    asked = all_requests()[0]
    with closing(source(postgres, database, asked)) as table:
        table.check(asked.columns, ["level"])
        assert table.count_records() == 3
        postgres.execute("INSERT INTO texts SELECT * FROM texts", database)
        assert table.statistics(asked.statistic, DROP).n_records == 3
        with pytest.raises(SourceError):
            table._rows("DELETE FROM texts RETURNING 1")
    with closing(source(postgres, database, asked)) as table:
        table.check(asked.columns, ["level"])
        assert table.count() == 6


def test_no_error_of_the_server_is_shown(postgres: Server, database: str) -> None:
    secret = "cell-of-a-person"
    postgres.execute(f"CREATE TABLE cells AS SELECT '{secret}'::text AS cell", database)
    postgres.execute("CREATE VIEW broken AS SELECT CAST(cell AS integer)::text AS level FROM cells", database)
    asked = all_requests()[0]
    with closing(source(postgres, database, asked, "broken")) as table:
        table.check(asked.columns, ["level"])
        with pytest.raises(SourceError) as failure:
            table.statistics(asked.statistic, DROP)
    assert secret not in f"{failure.value} {failure.value.hint}"
    assert failure.value.__cause__ is None
    with pytest.raises(SourceError, match="no table"), closing(source(postgres, database, asked, "nowhere")) as table:
        table.check(asked.columns, ["level"])
    elsewhere = PostgresSource(parse_table_address("postgresql://ada@/clinic/t?host=/nonexistent"))
    with pytest.raises(SourceError, match="cannot connect"):
        elsewhere.check(asked.columns, ["level"])


def test_types_that_have_one_text_form_are_read(postgres: Server, database: str) -> None:
    postgres.execute(
        "CREATE TYPE mood AS ENUM ('yes', 'no'); CREATE DOMAIN grade AS bigint; CREATE TABLE typed (e mood, i grade, "
        "n numeric(10, 3), d double precision, b boolean, c char(9), r real, j json); INSERT INTO typed VALUES "
        "('yes', 1, 1.000, 0.1, true, 'yes', 1, '1'), ('no', -1, 2.5, 5e-324, false, 'no', 1, '1'), "
        "(NULL, NULL, 'NaN', 'Infinity', NULL, NULL, NULL, NULL)",
        database,
    )

    def counts(name: str, column: Any) -> Any:
        levels = Statistic((), tuple(CountAt("level", i) for i in range(2)), 0, NOTHING, 0)
        statistic = products(column) if isinstance(column, NumericColumn) else levels
        with closing(source(postgres, database, Asked(statistic, (column,)), "typed")) as table:
            table.check((column,), [name])
            return table.statistics(statistic, DROP).values[:2]

    for name, levels in (("e", "yes no"), ("c", "yes no"), ("i", "1 -1"), ("n", "1 2.500"), ("b", "false true")):
        assert counts(name, Column("level", tuple(levels.split()))) == (1, 1)
    assert counts("d", NumericColumn("d", 0.0, 1.0, 10)) == (2, 1)
    assert counts("n", NumericColumn("n", 0.0, 10.0, 100)) == (2, 35)
    digits, integers = Column("level", ("1", "2")), NumericColumn("d", 0, 9, 9, integers=True)
    for name, column in (("d", digits), ("d", integers), ("r", NumericColumn("r", 0, 1, 2)), ("j", digits)):
        with pytest.raises(SourceError, match="text"):
            counts(name, column)
    with pytest.raises(SpecError, match="boolean"):
        counts("b", Column("level", ("1", "0")))


def test_mechanisms_on_records_are_refused_before_the_charge(
    postgres: Server, database: str, dpbayes: Cli, place: Path, ledger_path: Path
) -> None:
    postgres.execute("CREATE TABLE points (x float8, y text)", database)
    spec = place / "spec.yaml"
    spec.write_text(ROWS, encoding="ascii")
    done = dpbayes("release", f"{postgres.url(database)}/points", "--spec", spec, "--ledger", ledger_path)
    assert done.code != 0
    assert "gives out only statistics" in done.err
    assert not ledger_path.exists(), "nothing was charged"
    asked = all_requests()[0]
    with pytest.raises(SourceError, match="one by one"):
        source(postgres, database, asked).read(CodeReader(asked.columns, DROP, lambda codes: None))
