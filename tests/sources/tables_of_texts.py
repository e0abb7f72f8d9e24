"""Tables of nasty texts; every engine must give the same statistics of them as the embedded reader."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dpbayes_cli.base.cell_grammar import MAX_CELL_BYTES, POINT, NumberMarks
from dpbayes_cli.core.columns import AnyColumn, Column, CutColumn, NumericColumn, RecordPolicy
from dpbayes_cli.core.statistic import (
    CodeCounts,
    CountAt,
    ExactEvidence,
    FoundGroups,
    ProductOf,
    Statistic,
    SumsByGroup,
    TableCounts,
    Witness,
)
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.location import locate
from dpbayes_cli.sources.reader import UnitBound
from dpbayes_cli.sources.records import Dialect
from dpbayes_cli.sources.source import Source
from dpbayes_cli.sources.source_for import source_for

KEY = "0f" * 32
HALF = str(5**1075)
TOP = str(((1 << 54) - 1) << 970)
SPELLINGS = (
    "1", " 01", "+1", "1.0", "1.", "-1", "0", "-0", "+0", "0.0", "00", "-00.0", "1e0", "1_0", "1e400", "-1e400", "nan",
    "NaN", "inf", "-inf", "Infinity", "", " ", "\t1 \t", "?", "NULL", "yes", "Yes", "\u00e9", "e\u0301", "a b", "2.5",
    ".5", "5.", "1e-400", "-1e-400", "1e308", "1.7976931348623157e308", "1.7976931348623159e308", TOP, TOP + ".0",
    str(int(TOP) - 1), f"-{TOP}", f"{HALF}e-1075", f"{HALF}000e-999", f"0.{'0' * (323)}{HALF}", "4.9e-324", "2.5e-324",
    "0.1", "0.30000000000000004", "9007199254740993", "9007199254740992.9999", "1" * 400, "0" * 900 + "7",
    "0." + "0" * 400 + "1", "0." + "3" * 2000, "1e999", "1e-999", "1e1000", "it's", '"', "a" * 3000, "\\", "\\1",
    "%s{}",
    "\uff11", "\u0661", "1\n", "\n1", "1\r\n", "1\u2028", "1\u0085", "\u00a01", "1 \n", "x|", "1|", "|", "1;2", "--1",
    "+-1", ".", "e5", "1e", "1.5e+2", "1E2", "007", "10.", "l7", "$1", "[.]", "TRUE", "2.000000000000000001", "-3", "7",
    "6.9999999999999999999", "0x10", "1d", "1f", "5e-324", "-1.7e308", "1,5", "-1,5", "1,234.5", "1.234,5", "12,34.5",
    "1'234", "1 234", " +1_234,25e-2", "1,234", "1.234", ",5", "5,", "1,234,567", "1,234567", "1234,567", "1,,234",
    "1,234,", ",234", "0,001", "1,234e-3", "1.500e1", "1,5|", "1,234\n", "1,234\u00a0", "1,0", "-003,000",
)  # fmt: skip
COLUMNS: tuple[AnyColumn, ...] = (
    Column("level", ("1", "0", "it's", "\\", "-0", "\u00e9", "yes", '"', "1e400", "x|", "$1", "9007199254740993")),
    Column("other", ("yes", "no", "007"), impute="no", spellings=(("Yes", "1"), ("x|",), ())),
    CutColumn("cut", (-1.0, 5e-324, 0.1, 7.0, 1e300)),
    NumericColumn("number", -3.0, 7.0, 1 << 20),
    NumericColumn("dropped", 0.0, 1e3, 1000, outside="drop", impute="5"),
    NumericColumn("whole", -3.0, 500.0, 503, integers=True),
    NumericColumn("huge", 1e307, 1.2e308, 64),
)
NAMES = tuple(column.role for column in COLUMNS)
NOTHING = Witness(None, None)
DROP = RecordPolicy(Neighbors.ADD_REMOVE)


@dataclass(frozen=True)
class Asked:
    """A statistic of a few columns, to be read from a source."""

    statistic: Statistic
    columns: tuple[AnyColumn, ...]
    policy: RecordPolicy = DROP
    most: int | None = None
    marks: NumberMarks = POINT


def all_requests() -> list[Asked]:
    """Return requests for every kind of statistic, with and without privacy units."""
    level, other, cut, *numbers = COLUMNS
    assert isinstance(level, Column)
    keys, private_keys = replace(level, is_key=True), replace(level, is_key=True, levels=())
    levels = Statistic((), tuple(CountAt("level", i) for i in range(len(level.levels))), 0, NOTHING, 0)
    tables = (TableCounts(("level", "cut"), (12, 6)), TableCounts(("other",), (3,)), TableCounts(("cut",), (6,)))
    number, dropped, whole, huge = (column for column in numbers if isinstance(column, NumericColumn))
    requests = []
    for most in (None, 1, 3):
        imputing = RecordPolicy(Neighbors.REPLACE_ONE, "1", most or 1)
        requests += [
            Asked(levels, (level,), most=most),
            Asked(levels, (level,), imputing, most),
            *(
                Asked(Statistic((), tables, 0, NOTHING, 0, whole_records=whole), (level, other, cut), most=most)
                for whole in (False, True)
            ),
            Asked(Statistic((), (CodeCounts(number),), 0, NOTHING, 0), (number,), most=most),
            Asked(products(number, dropped), (number, dropped), most=most),
            Asked(products(huge, whole), (huge, whole), most=most),
            Asked(products(whole), (whole,), imputing, most),
        ]
    for most in (None, 5):
        imputing = RecordPolicy(Neighbors.REPLACE_ONE, "1", most or 1)
        requests.append(
            Asked(Statistic((), (TableCounts(("level", "cut"), (12, 6)),), 0, NOTHING, 0), (keys, cut), most=most)
        )
        for column, policy in ((number, DROP), (dropped, imputing), (whole, imputing)):
            sums_of = "level", column.role
            sums = Statistic((), (SumsByGroup(sums_of, 12),), 0, NOTHING, 0)
            requests.append(Asked(sums, (keys, column), policy, most))
            requests.append(
                Asked(Statistic((), (FoundGroups(sums_of),), 0, NOTHING, 0), (private_keys, column), policy, most)
            )
        by_level = Statistic((), (FoundGroups(("level", "other")),), 0, NOTHING, 0)
        requests.append(Asked(by_level, (private_keys, other), most=most))
    pairs = Column("level", ("1", "0", "it's", "1", "\u00e9"), is_key=True, within=("yes", "yes", "no", "7", "yes"))
    others = Column("other", ("yes", "no", "7"), is_key=True)
    requests.append(Asked(Statistic((), (TableCounts(("level", "cut"), (5, 6)),), 0, NOTHING, 0), (pairs, others, cut)))
    sums = Statistic((), (SumsByGroup(("level", "number"), 5),), 0, NOTHING, 0)
    requests.append(Asked(sums, (pairs, others, number), most=3))
    for marks in map(NumberMarks, ",,...", (".", "", ",", "'", " ")):
        requests.append(Asked(products(number, dropped), (number, dropped), most=3, marks=marks))
        requests.append(Asked(products(whole), (whole,), imputing, marks=marks))
    tabled = Statistic((), tables, 0, NOTHING, 0)
    return [*requests, Asked(tabled, (level, other, cut), marks=NumberMarks(",", "_"))]


def products(*columns: NumericColumn) -> Statistic:
    """Return all products of one and two codes, and the number of valid records."""
    roles = [column.role for column in columns]
    pairs = [(a, b) for i, a in enumerate(roles) for b in roles[i:]]
    expressions = [ProductOf(()), *(ProductOf((role,)) for role in roles), *(ProductOf(p, 3, True) for p in pairs)]
    return Statistic((), tuple(expressions), 0, NOTHING, 0)


def random_rows(seed: int, n_rows: int) -> list[list[str | None]]:
    """Return rows of the columns and of ``owner``, with each spelling in each column."""
    rng = random.Random(seed)
    rows: list[list[str | None]] = [[text] * len(COLUMNS) for text in SPELLINGS]
    rows += [[rng.choice([*SPELLINGS, None, *("1", "0", "2.5", "yes") * 16]) for _ in COLUMNS] for _ in range(n_rows)]
    owners = ["P1", " 1", "01", "1.0", "+1", "-1", "", None, "-0", "x1.0", "\u00e9", "1\n", "0" * 400 + "1", "it's",
              "\\"]  # fmt: skip
    owned = [[*row, rng.choice(owners)] for row in rows]
    rng.shuffle(owned)
    return owned


def long_rows() -> list[list[str | None]]:
    """Return rows of cells and owners of the maximum length, and one byte longer, which count as missing."""
    most = MAX_CELL_BYTES
    cells = ["1", "0" * (most - 1) + "1", "0" * most + "1", "\u00e9" * (most // 2), "\u00e9" * (most // 2) + "x"]
    rows: list[list[str | None]] = [[cell, *["1"] * (len(COLUMNS) - 1), "P1"] for cell in cells]
    return rows + [[*["1"] * len(COLUMNS), cell] for cell in cells]


def answer(source: Source, asked: Asked) -> tuple[ExactEvidence, int | None]:
    with closing(source):
        source.check(asked.columns, [column.role for column in asked.columns])
        return source.statistics(asked.statistic, asked.policy), source.count()


def bound(asked: Asked) -> UnitBound | None:
    return None if asked.most is None else UnitBound("owner", asked.most, KEY)


def embedded(path: Path, asked: Asked) -> tuple[ExactEvidence, int | None]:
    return answer(source_for(locate(str(path)), Dialect(), None, bound(asked), marks=asked.marks), asked)


def written(path: Path, rows: Sequence[Sequence[str | None]]) -> Path:
    """Write the rows to a Parquet file of texts."""
    cells = zip(*rows, strict=True)
    names = (*NAMES, "owner")
    pq.write_table(pa.table({name: pa.array(list(c), pa.string()) for name, c in zip(names, cells, strict=True)}), path)
    return path
