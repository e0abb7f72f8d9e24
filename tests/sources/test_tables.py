"""Contingency tables of many columns against a record-by-record reference, for every way of counting and splitting."""

from __future__ import annotations

import gzip
import itertools
import math
import random
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbayes_cli.base.cell_grammar import normal_cell
from dpbayes_cli.base.errors import DpbayesError
from dpbayes_cli.core.columns import Column, CutColumn, RecordPolicy
from dpbayes_cli.core.statistic import Statistic, TableCounts, Witness, count_cells
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources import packed_codes
from dpbayes_cli.sources.location import locate
from dpbayes_cli.sources.packed_codes import CodeReader, TableTally
from dpbayes_cli.sources.records import Dialect
from dpbayes_cli.sources.source import Source
from dpbayes_cli.sources.source_for import source_for
from tests.conftest import often
from tests.sources.reference import cells_of, codes_of, physical_lines, table

AnyLevels = Column | CutColumn
Families = Sequence[tuple[str, ...]]
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
    path: Path | str,
    columns: Sequence[AnyLevels],
    families: Families,
    policy: RecordPolicy = DROP,
    *,
    whole: bool = False,
    dialect: Dialect | None = None,
) -> tuple[list[int], int]:
    with closing(opened(path, columns, dialect)) as source:
        statistics = source.statistics(statistic(columns, families, whole=whole), policy)
    return list(statistics.values), statistics.n_records


def coded(
    path: Path | str, columns: Sequence[AnyLevels], policy: RecordPolicy = DROP, dialect: Dialect | None = None
) -> list[list[int]]:
    blocks: list[Any] = []
    reader = CodeReader(columns, policy, blocks.append)
    with closing(opened(path, columns, dialect)) as source:
        source.read(reader)
    records = [record for block in blocks for record in block.tolist()]
    assert reader.records == len(records)
    return records


def expected(
    codes: Sequence[Sequence[int | None]], columns: Sequence[AnyLevels], families: Families, *, whole: bool = False
) -> tuple[list[int], int]:
    place = {column.role: i for i, column in enumerate(columns)}
    values = []
    for family in families:
        axes = [place[role] for role in family]
        values += table(codes, axes, [len(columns[i].levels) for i in axes], whole)
    return values, len(codes)


def with_minus(codes: Sequence[Sequence[int | None]]) -> list[list[int]]:
    return [[-1 if code is None else code for code in record] for record in codes]


def check_file(
    path: Path,
    records: Sequence[Sequence[str | None] | None],
    columns: Sequence[AnyLevels],
    families: Families,
    dialect: Dialect | None = None,
) -> None:
    """Compare tally, reader and ``count_cells`` with the reference, counting whole records or not."""
    for whole in (False, True):
        codes = codes_of(records, columns)
        assert coded(path, columns, dialect=dialect) == with_minus(codes)
        counts = counted(path, columns, families, whole=whole, dialect=dialect)
        assert counts == expected(codes, columns, families, whole=whole)
        numbered = np.array(with_minus(codes), dtype=np.int64).reshape(-1, len(columns))
        direct = count_cells(statistic(columns, families, whole=whole), [c.role for c in columns], numbered)
        assert list(direct) == counts[0]


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


@pytest.mark.parametrize("seed", range(12))
def test_random_files_agree_with_the_reference(seed: int, place: Path) -> None:
    """Every spelling in every column, quoted or not, between malformed lines; all sizes of tables."""
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


def test_a_question_mark_is_a_level_where_it_is_declared_and_missing_where_not(place: Path) -> None:
    path = place / "f.csv"
    path.write_text("x,y\n?,?\n a , ?\n,a\n", encoding="utf-8")
    columns = [Column("x", ("a", "?")), Column("y", ("a", "b"))]
    assert coded(path, columns) == [[1, -1], [0, -1], [-1, 0]]
    assert counted(path, columns, [("x",), ("y",), ("x", "y")]) == ([1, 1, 1, 0, 0, 0, 0, 0], 3)


def parquet_text(value: Any) -> str | None:
    """Return the engine's text of a value, for levels and numbers."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


PARQUET: dict[str, tuple[pa.Array, AnyLevels]] = {
    "int8": (pa.array([1, 0, -128, 127, None, 7], pa.int8()), Column("x", ("1", "0", "300", "-128"))),
    "int32": (pa.array([1, 0, -5, 2**31 - 1, None], pa.int32()), Column("x", ("-5", "0", "01", "2147483647", "yes"))),
    "int64": (pa.array([1, 0, -(2**63), 2**63 - 1, None, -1], pa.int64()),
              Column("x", ("9223372036854775807", "-9223372036854775808", "9223372036854775808", "-1"))),
    "no level is an integer": (pa.array([1, 0, None], pa.int64()), Column("x", ("yes", "no"))),
    "minus zero": (pa.array([1, 0, None], pa.int64()), Column("x", ("-0", "1"))),
    "many levels": (pa.array([1, 59, 60, None], pa.int16()), Column("x", tuple(map(str, range(60))))),
    "cut integers": (pa.array([1, 0, 3, -(2**63), 2**63 - 1, None], pa.int64()), CutColumn("x", (0.5, 1.0, 2.0**63))),
    "unsigned": (pa.array([1, 0, 255, None], pa.uint8()), CutColumn("x", (1.0, 255.0))),
    "texts": (pa.array(["1", " 01", "+1", "1.0", "", None, "\u00e9"]), Column("x", ("1", "\u00e9"))),
    "text numbers": (pa.array(["1", "1e400", "nan", "-0", None, "2.5"]), CutColumn("x", (0.0, 2.5))),
    "doubles": (pa.array([1.0, 0.0, 2.5, math.nan, math.inf, -math.inf, None]), Column("x", ("1", "0", "2.5"))),
    "cut doubles": (pa.array([1.0, -0.0, 2.5, math.nan, math.inf, None, 1e300]), CutColumn("x", (0.0, 2.5))),
    "booleans": (pa.array([True, False, None]), Column("x", ("true", "false"))),
    "dictionary": (pa.array(["a", "b", None, "c"]).dictionary_encode(), Column("x", ("b", "a"))),
    "decimals": (pa.array([1, 0, None], pa.int64()).cast(pa.decimal128(25, 2)), CutColumn("x", (0.5,))),
    "nothing": (pa.array([None, None], pa.string()), Column("x", ("a", "b"))),
    "no rows": (pa.array([], pa.int64()), Column("x", ("1", "0"))),
}  # fmt: skip


@pytest.mark.parametrize("name", PARQUET)
def test_every_type_of_parquet_is_read_as_its_text(name: str, place: Path) -> None:
    array, column = PARQUET[name]
    path = place / "f.parquet"
    pq.write_table(pa.table({"x": array, "y": pa.array(["a"] * len(array))}), path)
    records = [[parquet_text(value), "a"] for value in array.to_pylist()]
    check_file(path, records, [column, Column("y", ("a", "b"))], [("x",), ("y", "x")])


def test_columns_may_have_the_names_that_the_engine_gives(place: Path) -> None:
    names = ["cell_1", "code_0", "pack_0", "line", 'a"b', "cell_0", "x.y", "SELECT"]
    rows = [["1" if (i >> k) & 1 else "0" for k in range(len(names))] for i in range(40)]
    pq.write_table(pa.table({n: [row[k] for row in rows] for k, n in enumerate(names)}), place / "f.parquet")
    pq.write_table(pa.table({n: [int(row[k]) for row in rows] for k, n in enumerate(names)}), place / "g.parquet")
    columns = [Column(name, ("0", "1")) for name in names]
    for file in ("f.parquet", "g.parquet"):
        check_file(place / file, rows, columns, [("cell_0", "cell_1"), ("line",), ("SELECT", 'a"b')])


def random_codes(rng: np.random.Generator, sizes: Sequence[int], count: int) -> list[list[int]]:
    """Return codes of random records; an invalid cell has the code after the last."""
    return [[int(rng.integers(0, size + 1)) for size in sizes] for _ in range(count)]


def write_codes(path: Path, names: Sequence[str], codes: Sequence[Sequence[int]], sizes: Sequence[int]) -> None:
    lines = [",".join("" if c == s else f"v{c}" for c, s in zip(record, sizes, strict=True)) for record in codes]
    path.write_text("\n".join([",".join(names), *lines]) + "\n", encoding="utf-8")


@pytest.mark.parametrize("sizes", often([(2,) * 90, (3, 2, 7, 8, 15, 16, 17) * 9, (400, 2, 300, 5) * 3], 2))
def test_codes_of_more_than_one_word_do_not_overlap(sizes: tuple[int, ...], place: Path) -> None:
    """More than 62 bits per record, at sizes that need one more bit."""
    names = [f"c{i}" for i in range(len(sizes))]
    columns = [Column(n, tuple(f"v{k}" for k in range(s))) for n, s in zip(names, sizes, strict=True)]
    assert sum(size.bit_length() for size in sizes) > 62
    codes = random_codes(np.random.default_rng(5), sizes, 120)
    write_codes(place / "f.csv", names, codes, sizes)
    plain = [[None if c == s else c for c, s in zip(record, sizes, strict=True)] for record in codes]
    assert coded(place / "f.csv", columns) == with_minus(plain)
    families = [(name,) for name in names] + list(itertools.pairwise(names))
    for whole in (False, True):
        counts = counted(place / "f.csv", columns, families, whole=whole)
        assert counts == expected(plain, columns, families, whole=whole)


def test_a_record_of_hundreds_of_cells_is_split_once(place: Path) -> None:
    """300 columns of 3,000 records took 49 s when each cell split the line, and take 2 s now; the bound is generous."""
    sizes, names = (2,) * 300, [f"c{i}" for i in range(300)]
    columns = [Column(name, ("v0", "v1")) for name in names]
    codes = random_codes(np.random.default_rng(7), sizes, 2000)
    write_codes(place / "f.csv", names, codes, sizes)
    plain = [[None if c == 2 else c for c in record] for record in codes]
    started = time.perf_counter()
    assert counted(place / "f.csv", columns, list(itertools.pairwise(names))) == expected(
        plain, columns, list(itertools.pairwise(names))
    )
    assert time.perf_counter() - started < 15.0


def test_bitmaps_and_indices_count_the_same(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, names = (2, 3, 5, 9, 12), list("abcde")
    columns = [Column(n, tuple(f"v{k}" for k in range(s))) for n, s in zip(names, sizes, strict=True)]
    codes = random_codes(np.random.default_rng(6), sizes, 1001)
    write_codes(place / "f.csv", names, codes, sizes)
    plain = [[None if c == s else c for c, s in zip(record, sizes, strict=True)] for record in codes]
    families = [tuple(family) for k in (1, 2, 3, 5) for family in itertools.permutations(names, k)][::7]
    for whole, most in itertools.product((False, True), (0, 1, 30, 256, 1 << 20)):
        monkeypatch.setattr(packed_codes, "_MAX_BITMAP_CELLS", most)
        counts = counted(place / "f.csv", columns, families, whole=whole)
        assert counts == expected(plain, columns, families, whole=whole)


@pytest.mark.parametrize("form", often(["csv", "csv.gz", "parquet"], 2))
def test_more_records_than_a_block(form: str, place: Path) -> None:
    """300,000 records in blocks of 131,072, against NumPy."""
    rng, n = np.random.default_rng(8), 300_000
    a, b, c = rng.integers(0, 4, n), rng.integers(-3, 12, n), rng.integers(0, 40, n)
    columns: list[AnyLevels] = [
        Column("a", ("0", "1", "2")),
        CutColumn("b", (0.0, 5.0)),
        Column("c", tuple(map(str, range(35)))),
    ]
    path = place / f"f.{form}"
    if form == "parquet":
        pq.write_table(pa.table({"a": a, "b": b, "c": c}), path, row_group_size=70_000)
    else:
        text = "a,b,c\n" + "".join(f"{x},{y},{z}\n" for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True))
        path.write_bytes(gzip.compress(text.encode(), 1) if form == "csv.gz" else text.encode())
    codes = np.stack([np.where(a < 3, a, -1), np.digitize(b, [0, 5]), np.where(c < 35, c, -1)], axis=1)
    families = [("a", "b", "c"), ("c",), ("b",), ("b", "a")]
    for whole in (False, True):
        subject = statistic(columns, families, whole=whole)
        assert counted(path, columns, families, whole=whole) == (list(count_cells(subject, "abc", codes)), n)
    assert coded(path, columns) == codes.tolist()  # in their order


def test_no_records_and_no_file(place: Path) -> None:
    columns: list[AnyLevels] = [Column("a", ("0", "1")), CutColumn("b", (0.0,))]
    (place / "f.csv").write_text("a,b\n", encoding="utf-8")
    pq.write_table(pa.table({"a": pa.array([], pa.string()), "b": pa.array([], pa.float64())}), place / "f.parquet")
    for name in ("f.csv", "f.parquet"):
        assert counted(place / name, columns, [("a", "b"), ("b",)], whole=True) == ([0] * 6, 0)
        assert coded(place / name, columns) == []
    (place / "g.csv").write_bytes(b"")
    with pytest.raises(DpbayesError, match="empty"):
        counted(place / "g.csv", columns, [("a",)])


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
    assert whole == expected(codes_of(records, columns), columns, families)
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


def test_no_value_stops_a_reading_or_is_repeated(place: Path) -> None:
    """Bytes that are not UTF-8, overlong cells, huge numbers and SQL give codes and nothing else."""
    secret = b"person-0042"
    cells = [b"\xff\xfe", b"'; DROP TABLE x; --", b"9" * 5000, b"1e" + b"9" * 5000, b"\x00", b"\\x", secret, b'"',
             b"\xf0\x9f\x98\x80", b"\xed\xa0\x80", b"a" * 70_000, b"-", b".", b"1e", b"\xef\xbb\xbf1"]  # fmt: skip
    columns: list[AnyLevels] = [
        Column("a", ("1", "2")),
        CutColumn("b", (0.0,)),
        Column("c", tuple(f"l{i}" for i in range(80))),
    ]
    (place / "f.csv").write_bytes(b"a,b,c\n" + b"".join(b",".join([cell] * 3) + b"\n" for cell in cells))
    records = coded(place / "f.csv", columns)
    assert len(records) == len(cells)
    assert [record[2] for record in records] == [-1] * len(cells)
    raw = pa.array(cells)
    text = pa.Array.from_buffers(pa.string(), len(cells), raw.buffers())
    pq.write_table(pa.table({"a": text, "b": text, "c": text}), place / "f.parquet")
    assert len(coded(place / "f.parquet", columns)) == len(cells)


TEXTS = st.one_of(
    st.sampled_from(SPELLINGS), st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=6)
)
LEVELS = st.lists(
    st.text(alphabet="01-+. ?ab'é\\,\"", min_size=1, max_size=3)
    .map(lambda text: text.strip(" "))
    .filter(lambda text: text != ""),
    min_size=2, max_size=6, unique_by=normal_cell,
)  # fmt: skip
CUTS = st.lists(st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 1e9]), min_size=1, max_size=4, unique=True).map(sorted)


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_table_of_texts_is_read_as_the_reference_reads_it(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.one_of(LEVELS, CUTS), min_size=1, max_size=4))
    columns: list[AnyLevels] = []
    for name, kind in zip("abcd", kinds, strict=False):
        levels = tuple(map(str, kind))
        cut = isinstance(kind[0], float)
        impute = data.draw(st.sampled_from([None, "1" if cut else levels[0]]))
        columns.append(CutColumn(name, tuple(map(float, kind)), impute) if cut else Column(name, levels, impute))
    own = [level for column in columns if isinstance(column, Column) for level in column.levels]
    cells = st.one_of(TEXTS, st.sampled_from([*own, "1"]))
    rows = data.draw(st.lists(st.lists(cells, min_size=len(columns), max_size=len(columns)), max_size=12))
    names = [column.role for column in columns]
    families = [tuple(names), *((name,) for name in names), tuple(reversed(names))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f.csv"
        quoted = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows]
        path.write_text("\n".join([",".join(names), *quoted]) + "\n", encoding="utf-8", newline="")
        records = [cells_of(line, Dialect(), len(columns)) for line in physical_lines(path.read_bytes())[1:]]
        check_file(path, records, columns, families)
        texts = {name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(names)}
        pq.write_table(pa.table(texts), Path(folder) / "f.parquet")
        check_file(Path(folder) / "f.parquet", rows, columns, families)


def test_a_tally_of_tables_reads_levels_only() -> None:
    columns = [Column("a", ("0", "1"))]
    assert TableTally(columns, statistic(columns, [("a",)]), DROP).statistics().values == (0, 0)
