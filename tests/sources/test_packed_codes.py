"""The numbers that leave the engine beside the codes: as they are in the file, neither clamped nor rounded."""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pytest

from dpbayes_cli.core.columns import Column, NumericColumn, RecordPolicy
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.location import locate
from dpbayes_cli.sources.packed_codes import NumberReader
from dpbayes_cli.sources.records import Dialect
from dpbayes_cli.sources.source_for import source_for

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

KIND, NUMBER = Column("kind", ("u", "v")), NumericColumn("x", 0.0, 10.0, 100)
CELLS = ["3.14159", " 7 ", "-1e3", "1e999", "", "abc", "NaN", "inf", "12.5", "1e-3", "0x10", "10"]
NUMBERS = [3.14159, 7.0, -1000.0, *[math.nan] * 5, 12.5, 0.001, math.nan, 10.0]
CODES = [31, 70, 0, *[-1] * 5, 100, 0, -1, 100]


def read(path: str, columns: list[Any]) -> tuple[Any, Any]:
    codes, numbers = [], []

    def take(block: Any, values: Any) -> None:
        codes.append(block)
        numbers.append(values)

    reader = NumberReader(columns, RecordPolicy(Neighbors.REPLACE_ONE), 1, take)
    with closing(source_for(locate(path), Dialect(), None)) as source:
        source.check(columns, ["kind", "x"])
        source.read(reader)
    assert reader.records == sum(map(len, codes))
    return np.concatenate(codes), np.concatenate(numbers)


@pytest.mark.parametrize("impute", [None, "5"])
def test_plain_numbers_do_not_depend_on_the_stand_in(place: Path, impute: str | None) -> None:
    Path("x.csv").write_text("x,kind\n" + "".join(f"{cell},{'uvz'[i % 3]}\n" for i, cell in enumerate(CELLS)))
    codes, numbers = read("x.csv", [KIND, replace(NUMBER, impute=impute)])
    np.testing.assert_array_equal(numbers, NUMBERS)
    np.testing.assert_array_equal(codes[:, 1], [50 if code < 0 and impute else code for code in CODES])
    np.testing.assert_array_equal(codes[:, 0], [(0, 1, -1)[i % 3] for i in range(len(CELLS))])


def test_many_blocks_of_parquet_keep_every_digit(place: Path) -> None:
    duckdb.sql("COPY (SELECT 'u' AS kind, i * 1.1e-5::DOUBLE AS x FROM range(150000) t(i)) TO 'x.parquet'")
    codes, numbers = read("x.parquet", [KIND, NUMBER])
    values: Floats = np.arange(150_000, dtype=np.float64) * 1.1e-5
    np.testing.assert_array_equal(numbers, values)
    np.testing.assert_array_equal(codes[:, 1], NUMBER.codes(values)[0])
