"""Bounded contributions: the kept records against a reference in Python, in any order, layout and partition."""

from __future__ import annotations

import hashlib
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbayes_cli.base.cell_grammar import normal_cell
from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.core.columns import Column, NumericColumn, RecordPolicy
from dpbayes_cli.core.statistic import CountAt, ProductOf, Statistic, TableCounts, Witness
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.location import locate
from dpbayes_cli.sources.reader import UnitBound
from dpbayes_cli.sources.records import Dialect
from dpbayes_cli.sources.source import Source
from dpbayes_cli.sources.source_for import source_for

POLICY = RecordPolicy(Neighbors.REPLACE_ONE, contributions=3)
LEVELS = ("a", "b", "c")
COLUMN = Column("kind", LEVELS)
COUNTS = Statistic(LEVELS, tuple(CountAt("kind", i) for i in range(3)), 2, Witness(("a",), ("b",)), 2)
KEY = "0f" * 32

Rows = list[tuple[str, str]]


def kept(rows: Iterable[tuple[str, str]], most: int, key: str) -> Counter[str | None]:
    """Return the counts of the kept records by the reference, from rows of (unit, kind)."""
    by_unit: dict[str, list[str]] = defaultdict(list)
    for unit, kind in rows:
        code = str(LEVELS.index(normal_cell(kind))) if normal_cell(kind) in LEVELS else ""
        by_unit[normal_cell(unit)].append(f"{code},{normal_cell(unit)}")
    counts: Counter[str | None] = Counter()
    for items in by_unit.values():
        seen: Counter[str] = Counter()
        hashes = []
        for item in items:
            hashes.append((hashlib.sha256(f"{key},{seen[item]},{item}".encode()).hexdigest(), item))
            seen[item] += 1
        for _, item in sorted(hashes)[:most]:
            code = item.partition(",")[0]
            counts[LEVELS[int(code)] if code else None] += 1
    return counts


def some_rows(seed: int, n_units: int = 60) -> Rows:
    """Return units with one to thirty records, with various spellings, missing units and invalid cells."""
    rng = random.Random(seed)
    rows = []
    for i in range(n_units):
        unit = rng.choice([f"P{i}", str(i), f" {i} ", f"0{i}", f"+{i}", f"{i}.0", f"-{i}", f"x{i}.0", ""])
        for _ in range(rng.choice([1, 1, 2, 3, 8, 30])):
            rows.append((unit, rng.choice(["a", "b", "c", " a ", "", "zzz"])))
    rng.shuffle(rows)
    return rows


def opened(where: str, most: int, key: str = KEY, column: Column | NumericColumn = COLUMN, unit: str = "who") -> Source:
    source = source_for(locate(where), Dialect(), None, UnitBound(unit, most, key))
    source.check([column], ["kind"])
    return source


def counted(where: str, most: int, key: str = KEY, statistic: Statistic = COUNTS) -> tuple[tuple[int, ...], int]:
    """Return the counts of a source, and the number of records that it kept."""
    with closing(opened(where, most, key)) as source:
        statistics = source.statistics(statistic, POLICY)
    return statistics.values, statistics.n_records


def written(path: Path, rows: Rows) -> str:
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"who": [u for u, _ in rows], "kind": [k for _, k in rows]}), path, row_group_size=50)
    else:
        path.write_text("who,kind\n" + "".join(f"{unit},{kind}\n" for unit, kind in rows), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("most", [1, 2, 100])
def test_kept_records_are_those_of_the_reference(place: Path, most: int, ending: str) -> None:
    for seed in range(2):
        rows = some_rows(seed)
        expected = kept(rows, most, KEY)
        counts, n_records = counted(written(place / f"data.{ending}", rows), most)
        assert counts == tuple(expected[level] for level in LEVELS)
        assert n_records == expected.total()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_kept_records_do_not_depend_on_order_or_partition(place: Path, ending: str) -> None:
    rows = some_rows(5)
    whole = counted(written(place / f"whole.{ending}", rows), 2)
    for seed in range(3):
        random.Random(seed).shuffle(rows)
        assert counted(written(place / f"shuffled.{ending}", rows), 2) == whole
        cut = len(rows) // 3
        for i, part in enumerate((rows[:cut], rows[cut : cut + 1], rows[cut + 1 :])):
            written(place / f"part-{i}.{ending}", part)
        assert counted(str(place / f"part-*.{ending}"), 2) == whole, "a unit may have records in several files"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_units_of_large_files_are_read_in_parts(place: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    rows = some_rows(8)
    where = written(place / f"data.{ending}", rows)
    whole = counted(where, 2)
    monkeypatch.setattr("dpbayes_cli.sources.delimited._PART_BYTES", 500)
    monkeypatch.setattr("dpbayes_cli.sources.parquet._PART_ROWS", 100)
    assert opened(where, 2).parts > 3
    assert counted(where, 2) == whole


def test_dropped_record_differs_from_imputed_record(place: Path) -> None:
    column = NumericColumn("kind", 0.0, 10.0, 10, outside="drop", impute="3")
    valid = Statistic(("valid",), (ProductOf(()),), 1, Witness(("1",), None), 1)
    rows = [(f"u{i}", cell) for i in range(40) for cell in ("99", "none")]
    outcomes = set()
    for i, order in enumerate((rows, rows[::-1])):
        where = written(place / f"{i}.csv", order)
        outcomes.add(opened(where, 1, column=column).statistics(valid, POLICY).values)
    assert len(outcomes) == 1, "the keyed hash chooses between them, not their order"
    assert outcomes != {(0,), (40,)}
    assert 5 < outcomes.pop()[0] < 35


def test_tables_count_the_kept_records(place: Path) -> None:
    rows = some_rows(6)
    table = Statistic(LEVELS, (TableCounts(("kind",), (3,)),), 2, Witness(("a",), ("b",)), 2)
    where = written(place / "data.csv", rows)
    assert counted(where, 2, statistic=table) == counted(where, 2)


def test_unit_with_too_many_records_changes_only_its_own_counts(place: Path) -> None:
    """Each unit has its own level; the counts of all other units stay the same."""
    units = [f"u{i}" for i in range(40)]
    column = Column("kind", tuple(units))
    table = Statistic(tuple(units), tuple(CountAt("kind", i) for i in range(40)), 2, Witness(("u0",), ("u1",)), 2)
    rows = [(unit, unit) for i, unit in enumerate(units) for _ in range(1 + i % 5)]

    def counts(more: Rows) -> tuple[int, ...]:
        return opened(written(place / "d.csv", rows + more), 3, column=column).statistics(table, POLICY).values

    before = counts([])
    assert before == tuple(min(3, 1 + i % 5) for i in range(40))
    after = counts([("u7", "u7")] * 5000 + [("u7", "u8")] * 3)
    assert sum(abs(a - b) for i, (a, b) in enumerate(zip(before, after, strict=True)) if i not in {7, 8}) == 0
    assert sum(abs(a - b) for a, b in zip(before, after, strict=True)) <= 2 * 3


def test_every_record_of_a_unit_is_equally_likely_kept(place: Path) -> None:
    """One of ten records of each unit differs and is kept with probability 0.3; 6 sd of 600 units, false-fail 1e-8."""
    where = written(place / "data.csv", [(f"p{i}", kind) for i in range(600) for kind in "aaaaaaaaab"])
    kept_counts = [counted(where, 3, key=f"{seed:064x}")[0][1] for seed in range(5)]
    assert all(abs(count - 180) <= 6.0 * (600 * 0.3 * 0.7) ** 0.5 for count in kept_counts)
    assert len(set(kept_counts)) > 1, "the key decides"


def test_records_without_a_unit_and_malformed_ones_are_one_unit(place: Path) -> None:
    path = place / "data.csv"
    path.write_text("who,kind\n" + ",a\n" * 9 + " ,a\n" * 9 + "x,a,a\n" * 9 + '"x,a\n' * 9 + "p,a\n", encoding="utf-8")
    (a, _, _), n_records = counted(str(path), 2)
    assert n_records == 3, "two of the unit without a value, and the record of p"
    assert 1 <= a <= 3


def test_units_are_counted(place: Path) -> None:
    where = written(place / "data.csv", [(u, "a") for u in ("p", "q", " p ", "", "7", "07")] * 3)
    assert opened(where, 2).count() == 4
    assert source_for(locate(where), Dialect(), None).count() == 18


def test_keys_are_new_for_every_reading() -> None:
    keys = {UnitBound("who", 1).key for _ in range(50)}
    assert len(keys) == 50
    assert all(len(key) == 64 for key in keys)
    assert KEY not in repr(UnitBound("who", 1, KEY))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_column_that_is_not_there_is_refused(place: Path, ending: str) -> None:
    with pytest.raises(SourceError, match="no column 'whom'"):
        opened(written(place / f"data.{ending}", [("p", "a")]), 1, unit="whom")


def test_integer_units_have_their_normal_form(place: Path) -> None:
    table: Any = pa.table({"who": pa.array([1, 1, 2, None, None], pa.int64()), "kind": ["a"] * 5})
    pq.write_table(table, place / "data.parquet")
    assert counted(str(place / "data.parquet"), 1) == ((3, 0, 0), 3)
