"""Codes and contingency tables of many columns against a record-by-record reference, for every way of counting."""

from __future__ import annotations

import gzip
import itertools
import math
import random
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbayes_cli.core.columns import Column, CutColumn, NumericColumn, RecordPolicy
from dpbayes_cli.core.statistic import Statistic, TableCounts, Witness
from dpbayes_cli.core.statistic_values import count_cells
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.code_readers import CodeReader
from dpbayes_cli.sources.location import locate
from dpbayes_cli.sources.records import Dialect
from dpbayes_cli.sources.source import Source
from dpbayes_cli.sources.source_for import source_for
from tests.conftest import cpu_limit, often
from tests.sources.reference import cells_of, codes_of, physical_lines, table

AnyLevels = Column | CutColumn
Families = Sequence[tuple[str, ...]]
Codes = Sequence[Sequence[int | None]]
Records = Sequence[Sequence[str | None] | None]
DROP = RecordPolicy(Neighbors.REPLACE_ONE)
SPELLINGS = ["1", " 01", "+1", "1.0", "1.", "-1", "0", "-0", "+0", "0.0", "1e0", "1_0", "1e400", "-1e400", "nan", "NaN",
             "inf", "-inf", "", "?", "NA", "NULL", "yes", "Yes", "\u00e9", "a b", "2.5", ".5", "5.", "1e-400",
             "9223372036854775807", "9223372036854775808", "-9223372036854775808", "0x10", "true", "\uff11",
             "1e308", "17976931348623157" + "0" * 292, "4" * 400, "it's", "a" * 2000, "\\", "%s{}", "l7"]  # fmt: skip


def statistic(columns: Sequence[AnyLevels], families: Families, *, whole: bool = False) -> Statistic:
    """Return tables of families of columns; their sensitivity does not matter here."""
    sizes = {column.role: len(column.levels) for column in columns}
    expressions = tuple(TableCounts(family, tuple(sizes[role] for role in family)) for family in families)
    return Statistic((), expressions, 1, Witness(None, None), 1, whole_records=whole)


def opened(path: Path | str, columns: Sequence[AnyLevels], dialect: Dialect | None = None) -> Source:
    source = source_for(locate(str(path)), dialect or Dialect(), None)
    source.check(columns, [column.role for column in columns])
    return source


def counted(
    path: Path | str, columns: Sequence[AnyLevels], families: Families, *, whole: bool = False, dialect: Any = None
) -> tuple[list[int], int]:
    with closing(opened(path, columns, dialect)) as source:
        statistics = source.statistics(statistic(columns, families, whole=whole), DROP)
    return list(statistics.values), statistics.n_records


def coded(
    path: Path | str, columns: Sequence[AnyLevels], policy: RecordPolicy = DROP, dialect: Any = None
) -> list[list[int]]:
    blocks: list[Any] = []
    reader = CodeReader(columns, policy, blocks.append)
    with closing(opened(path, columns, dialect)) as source:
        source.read(reader)
    records = [record for block in blocks for record in block.tolist()]
    assert reader.records == len(records)
    return records


def check_codes(
    path: Path | str, codes: Codes, columns: Sequence[AnyLevels], families: Families, dialect: Any = None
) -> None:
    """Compare tally, reader and ``count_cells`` with the reference, counting whole records or not."""
    numbered = [[-1 if code is None else code for code in record] for record in codes]
    assert coded(path, columns, dialect=dialect) == numbered
    place = {column.role: i for i, column in enumerate(columns)}
    for whole in (False, True):
        expected: list[int] = []
        for family in families:
            axes = [place[role] for role in family]
            expected += table(codes, axes, [len(columns[i].levels) for i in axes], whole)
        assert counted(path, columns, families, whole=whole, dialect=dialect) == (expected, len(codes))
        array = np.array(numbered, dtype=np.int64).reshape(-1, len(columns))
        assert list(count_cells(statistic(columns, families, whole=whole), list(place), array)) == expected


def check_file(
    path: Path, records: Records, columns: Sequence[AnyLevels], families: Families, dialect: Dialect | None = None
) -> None:
    check_codes(path, codes_of(records, columns), columns, families, dialect)


def csv_cell(rng: random.Random, text: str) -> str:
    if any(mark in text for mark in '",') or rng.random() < 0.2:
        return '"' + text.replace('"', '""') + '"'
    return text


COLUMNS: list[AnyLevels] = [
    Column("a", ("1", "0", "?")),
    CutColumn("b", (-1.0, 0.0, 1.0, 2.5)),
    Column("c", ("yes", "NA", "it's", "a,b"), impute="NA"),
    CutColumn("d", (1.0,), impute="-7"),
    Column("e", (*(f"l{i}" for i in range(60)), "1", "1e400", '"', "9223372036854775807")),
    Column("f", tuple(map(str, range(-8, 9)))),
]
FAMILIES = [("a",), ("b", "a"), ("c", "a", "b"), ("d",), ("a", "e"), ("f", "d"), ("f", "b", "e")]


@pytest.mark.parametrize("seed", range(6))
def test_random_files_agree_with_the_reference(seed: int, place: Path) -> None:
    """Every spelling in every column, quoted or not, between malformed lines; all sizes of tables; also no records."""
    rng = random.Random(seed)
    dialect = Dialect(delimiter=rng.choice([",", ";", "\t"]))
    extra = [level for column in COLUMNS if isinstance(column, Column) for level in column.levels]
    lines = []
    for _ in range(rng.choice([0, 1, 40, 300])):
        cells = [csv_cell(rng, rng.choice(SPELLINGS + extra)) for _ in range(len(COLUMNS) + 1)]
        line = dialect.delimiter.join(cells)
        if rng.random() < 0.15:
            half = line[: len(line) // 2]
            line = rng.choice([line + dialect.delimiter, "", '"', half, '"' + line, line + '"', "\x00"])
        lines.append(line.encode() + rng.choice([b"", b"", b"\r"]))
    order = rng.sample(range(len(COLUMNS) + 1), len(COLUMNS) + 1)
    names = ["z" if i == len(COLUMNS) else COLUMNS[i].role for i in order]
    path = place / "f.csv"
    path.write_bytes(b"\n".join([dialect.delimiter.join(names).encode(), *lines]) + b"\n")
    records: list[Sequence[str | None] | None] = []
    for record in physical_lines(path.read_bytes())[1:]:
        cells_found = cells_of(record, dialect, len(names))
        records.append(None if cells_found is None else [cells_found[names.index(c.role)] for c in COLUMNS])
    check_file(path, records, COLUMNS, FAMILIES, dialect)


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.role)
def test_every_spelling_has_one_outcome(column: AnyLevels, place: Path) -> None:
    path = place / "f.csv"
    path.write_text(f"{column.role},z\n" + "".join(f"{cell},\n" for cell in SPELLINGS), encoding="utf-8")
    check_file(path, [[cell] for cell in SPELLINGS], [column], [(column.role,)])


def test_numbers_at_the_edges_of_cuts(place: Path) -> None:
    """A number equal to a cut is above it; cells without a finite number are invalid; minus zero is zero."""
    column = CutColumn("x", (-1e100, -1.0, 0.0, 0.1, 1.0, 1e100))
    cells = {"-1e101": 0, "-1e100": 1, "-1.0000000000000002": 1, "-1": 2, "-1e-320": 2, "-0": 3, "-0.0": 3, "0": 3,
             "0.09999999999999999": 3, "0.1": 4, "0.10": 4, "1e-1": 4, "0.1000000000000000055511151231257827": 4,
             "0.99999999999999999": 5, "0.9999999999999999": 4, "1e100": 6, "1e308": 6, "1e400": -1, "-1e400": -1,
             "nan": -1, "inf": -1, "-inf": -1, "Infinity": -1, "1e0400": -1, "1,": -1, "": -1, "1_0": -1}  # fmt: skip
    path = place / "f.csv"
    path.write_text("x\n" + "".join(f"{cell}\n" for cell in cells), encoding="utf-8")
    assert coded(path, [column]) == [[code] for code in cells.values()]
    check_file(path, [None if cell == "1," else [cell] for cell in cells], [column], [("x",)])


PARQUET: dict[str, tuple[pa.Array, AnyLevels]] = {
    "int8": (pa.array([1, 0, -128, 127, None, 7], pa.int8()), Column("x", ("1", "0", "300", "-128"))),
    "int64": (pa.array([1, 0, -(2**63), 2**63 - 1, None, -1], pa.int64()),
              Column("x", ("9223372036854775807", "-9223372036854775808", "9223372036854775808", "-1", "01"))),
    "no level is an integer": (pa.array([1, 0, None], pa.int64()), Column("x", ("yes", "-0"))),
    "many levels": (pa.array([1, 59, 60, None], pa.int16()), Column("x", tuple(map(str, range(60))))),
    "cut integers": (pa.array([1, 0, 3, -(2**63), 2**63 - 1, None], pa.int64()), CutColumn("x", (0.5, 1.0, 2.0**63))),
    "unsigned": (pa.array([1, 0, 255, None], pa.uint8()), CutColumn("x", (1.0, 255.0))),
    "texts": (pa.array(["1", " 01", "+1", "1.0", "", None, "\u00e9"]), Column("x", ("1", "\u00e9"))),
    "doubles": (pa.array([1.0, 0.0, 2.5, math.nan, math.inf, -math.inf, None]), Column("x", ("1", "0", "2.5"))),
    "cut doubles": (pa.array([1.0, -0.0, 2.5, math.nan, math.inf, None, 1e300]), CutColumn("x", (0.0, 2.5))),
    "booleans": (pa.array([True, False, None]), Column("x", ("true", "false"))),
    "dictionary": (pa.array(["a", "b", None, "c"]).dictionary_encode(), Column("x", ("b", "a"))),
    "decimals": (pa.array([1, 0, None], pa.int64()).cast(pa.decimal128(25, 2)), CutColumn("x", (0.5,))),
    "no rows": (pa.array([], pa.int64()), Column("x", ("1", "0"))),
}  # fmt: skip


@pytest.mark.parametrize("name", PARQUET)
def test_every_type_of_parquet_is_read_as_its_text(name: str, place: Path) -> None:
    array, column = PARQUET[name]
    path = place / "f.parquet"
    pq.write_table(pa.table({"x": array, "y": pa.array(["a"] * len(array))}), path)
    texts = [str(value).lower() if isinstance(value, bool) else value for value in array.to_pylist()]
    records = [[None if text is None else str(text), "a"] for text in texts]
    check_file(path, records, [column, Column("y", ("a", "b"))], [("x",), ("y", "x")])


def test_columns_may_have_the_names_that_the_engine_gives(place: Path) -> None:
    names = ["cell_1", "code_0", "pack_0", "line", 'a"b', "cell_0", "x.y", "SELECT"]
    rows = [["1" if (i >> k) & 1 else "0" for k in range(len(names))] for i in range(40)]
    pq.write_table(pa.table({n: [row[k] for row in rows] for k, n in enumerate(names)}), place / "f.parquet")
    pq.write_table(pa.table({n: [int(row[k]) for row in rows] for k, n in enumerate(names)}), place / "g.parquet")
    columns = [Column(name, ("0", "1")) for name in names]
    for file in ("f.parquet", "g.parquet"):
        check_file(place / file, rows, columns, [("cell_0", "cell_1"), ("line",), ("SELECT", 'a"b')])


def random_codes(
    seed: int, sizes: Sequence[int], n_records: int, path: Path
) -> tuple[list[AnyLevels], list[list[int | None]]]:
    """Write random records, some of whose cells are invalid; return their columns and codes."""
    rng = np.random.default_rng(seed)
    columns: list[AnyLevels] = [Column(f"c{i}", tuple(f"v{k}" for k in range(size))) for i, size in enumerate(sizes)]
    drawn = [[int(rng.integers(0, size + 1)) for size in sizes] for _ in range(n_records)]
    codes = [[None if c == s else c for c, s in zip(record, sizes, strict=True)] for record in drawn]
    lines = [",".join("" if code is None else f"v{code}" for code in record) for record in codes]
    path.write_text("\n".join([",".join(c.role for c in columns), *lines]) + "\n", encoding="utf-8")
    return columns, codes


@pytest.mark.slow
def test_a_record_of_hundreds_of_cells_is_split_once(place: Path) -> None:
    """300 columns of 3,000 records took 49 s when each cell split the line, and take 2 s now."""
    columns, codes = random_codes(7, (2,) * 300, 2000, place / "f.csv")
    families = list(itertools.pairwise(column.role for column in columns))
    with cpu_limit(20.0):
        _, n_records = counted(place / "f.csv", columns, families)
    assert n_records == len(codes)


def test_tables_of_all_orders_of_columns(place: Path) -> None:
    columns, codes = random_codes(6, (2, 3, 5, 9, 12), 1001, place / "f.csv")
    names = [column.role for column in columns]
    families = [tuple(family) for k in (1, 2, 3, 5) for family in itertools.permutations(names, k)][::7]
    check_codes(place / "f.csv", codes, columns, families)


@pytest.mark.parametrize("form", often(["parquet", "csv", "csv.gz"], 3))
def test_more_records_than_a_block(form: str, place: Path) -> None:
    """300,000 records in blocks of 131,072, against NumPy."""
    rng, n = np.random.default_rng(8), 300_000
    a, b, c = rng.integers(0, 4, n), rng.integers(-3, 12, n), rng.integers(0, 40, n)
    c_levels = tuple(map(str, range(35)))
    columns: list[AnyLevels] = [Column("a", ("0", "1", "2")), CutColumn("b", (0.0, 5.0)), Column("c", c_levels)]
    path = place / f"f.{form}"
    if form == "parquet":
        pq.write_table(pa.table({"a": a, "b": b, "c": c}), path, row_group_size=70_000)
    else:
        rows = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
        text = "a,b,c\n" + "".join(f"{x},{y},{z}\n" for x, y, z in rows)
        path.write_bytes(gzip.compress(text.encode(), 1) if form == "csv.gz" else text.encode())
    codes = np.stack([np.where(a < 3, a, -1), np.digitize(b, [0, 5]), np.where(c < 35, c, -1)], axis=1)
    families = [("a", "b", "c"), ("c",), ("b",), ("b", "a")]
    for whole in (False, True):
        subject = statistic(columns, families, whole=whole)
        assert counted(path, columns, families, whole=whole) == (list(count_cells(subject, "abc", codes)), n)
    assert coded(path, columns) == codes.tolist()  # in their order


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_order_and_partition_change_nothing(form: str, place: Path) -> None:
    rng = random.Random(9)
    columns: list[AnyLevels] = [
        Column("a", ("0", "1", "x")),
        CutColumn("b", (0.0, 2.0)),
        Column("c", ("q", "r"), impute="r"),
    ]
    records = [[rng.choice(["0", "1", "x", "?", ""]), str(rng.randrange(-2, 5)), rng.choice("qrs")] for _ in range(500)]

    def write(name: str, rows: Sequence[Sequence[str]]) -> None:
        if form == "parquet":
            texts = {k: pa.array([row[i] for row in rows], pa.string()) for i, k in enumerate("abc")}
            pq.write_table(pa.table(texts), place / name)
        else:
            (place / name).write_text("\n".join(["a,b,c", *map(",".join, rows)]) + "\n", encoding="utf-8")

    families = [("a", "b", "c"), ("c",), ("a", "c")]
    write(f"whole.{form}", records)
    whole = counted(place / f"whole.{form}", columns, families)
    check_file(place / f"whole.{form}", records, columns, families)
    rng.shuffle(records)
    (place / "parts").mkdir()
    for i, (first, last) in enumerate(itertools.pairwise([0, 0, 1, 130, 130, 499, 500])):
        write(f"parts/{i}.{form}", records[first:last])
    assert counted(str(place / "parts" / f"*.{form}"), columns, families) == whole


def test_a_stand_in_of_the_policy_and_one_of_the_column(place: Path) -> None:
    columns: list[AnyLevels] = [Column("a", ("0", "1")), Column("b", ("1", "2"), impute="2.0"), CutColumn("c", (1.0,)),
               CutColumn("d", (5.0,), impute="1e1")]  # fmt: skip
    (place / "f.csv").write_text("a,b,c,d\n,,,\n0,1,0,0\n?,2,x,\n1\n", encoding="utf-8")
    policy = RecordPolicy(Neighbors.REPLACE_ONE, "1")
    assert coded(place / "f.csv", columns, policy) == [[1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1]]
    assert coded(place / "f.csv", columns) == [[-1, 1, -1, 1], [0, 0, 0, 0], [-1, 1, -1, 1], [-1, 1, -1, 1]]


def test_no_value_stops_a_reading(place: Path) -> None:
    """Bytes that are not UTF-8, overlong cells, huge numbers and SQL are invalid cells."""
    cells = [b"\xff\xfe", b"'; DROP TABLE x; --", b"9" * 5000, b"1e" + b"9" * 5000, b"\x00", b"\\x", b'"',
             b"\xf0\x9f\x98\x80", b"\xed\xa0\x80", b"a" * 70_000, b"-", b".", b"1e", b"\xef\xbb\xbf1"]  # fmt: skip
    c_levels = tuple(f"l{i}" for i in range(80))
    columns: list[AnyLevels] = [Column("a", ("1", "2")), CutColumn("b", (0.0,)), Column("c", c_levels)]
    (place / "f.csv").write_bytes(b"a,b,c\n" + b"".join(b",".join([cell] * 3) + b"\n" for cell in cells))
    assert [record[2] for record in coded(place / "f.csv", columns)] == [-1] * len(cells)
    text = pa.Array.from_buffers(pa.string(), len(cells), pa.array(cells).buffers())
    pq.write_table(pa.table({"a": text, "b": text, "c": text}), place / "f.parquet")
    assert len(coded(place / "f.parquet", columns)) == len(cells)


KIND, NUMBER = Column("kind", ("u", "v")), NumericColumn("x", 0.0, 10.0, 100)
NUMBER_CELLS = ["3.14159", " 7 ", "-1e3", "1e999", "", "abc", "NaN", "inf", "12.5", "1e-3", "0x10", "10"]
NUMBERS = [3.14159, 7.0, -1000.0, *[math.nan] * 5, 12.5, 0.001, math.nan, 10.0]
CODES = [31, 70, 0, *[-1] * 5, 100, 0, -1, 100]


def read_numbers(path: str, columns: list[Any]) -> tuple[Any, Any]:
    codes, numbers = [], []

    def take(block: Any, values: Any) -> None:
        codes.append(block)
        numbers.append(values)

    reader = CodeReader(columns, DROP, take, number=1)
    with closing(opened(path, columns)) as source:
        source.read(reader)
    assert reader.records == sum(map(len, codes))
    return np.concatenate(codes), np.concatenate(numbers)


@pytest.mark.parametrize("impute", [None, "5"])
def test_plain_numbers_do_not_depend_on_the_stand_in(place: Path, impute: str | None) -> None:
    Path("x.csv").write_text("x,kind\n" + "".join(f"{cell},{'uvz'[i % 3]}\n" for i, cell in enumerate(NUMBER_CELLS)))
    codes, numbers = read_numbers("x.csv", [KIND, replace(NUMBER, impute=impute)])
    np.testing.assert_array_equal(numbers, NUMBERS)
    np.testing.assert_array_equal(codes[:, 1], [50 if code < 0 and impute else code for code in CODES])
    np.testing.assert_array_equal(codes[:, 0], [(0, 1, -1)[i % 3] for i in range(len(NUMBER_CELLS))])


def test_many_blocks_of_parquet_keep_every_digit(place: Path) -> None:
    duckdb.sql("COPY (SELECT 'u' AS kind, i * 1.1e-5::DOUBLE AS x FROM range(150000) t(i)) TO 'x.parquet'")
    codes, numbers = read_numbers("x.parquet", [KIND, NUMBER])
    values: Any = np.arange(150_000, dtype=np.float64) * 1.1e-5
    np.testing.assert_array_equal(numbers, values)
    np.testing.assert_array_equal(codes[:, 1], NUMBER.codes(values)[0])
