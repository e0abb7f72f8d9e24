"""Data frames: the text of a cell follows from its own value, in every library."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.core.columns import Column, RecordPolicy
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.code_readers import CodeReader
from dpbayes_cli.sources.frame import FrameSource, cell_texts
from dpbayes_cli.sources.location import locate
from dpbayes_cli.sources.reader import UnitBound
from dpbayes_cli.sources.records import Dialect
from dpbayes_cli.sources.source_for import source_for


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        (pd.Series([1, 2]), ["1", "2"]),
        (pd.Series([1, None, 2.5]), ["1", None, "2.5"]),
        (pd.Series([True, False]), ["true", "false"]),
        (pd.Series([True, None], dtype=object), ["true", None]),
        (pd.Series([1, None], dtype="Int64"), ["1", None]),
        (pd.Series(["yes", None], dtype="category"), ["yes", None]),
        (pd.Series([Decimal("1.00"), Decimal("NaN"), 1e-7], dtype=object), ["1", None, "0.0000001"]),
        (pd.Series([0.1, np.inf], dtype=np.float32), ["0.1", None]),
        (pd.Series([[1], "x"], dtype=object), [None, "x"]),
    ],
)
def test_the_text_of_a_cell_follows_from_its_value(column: Any, texts: list[str | None]) -> None:
    assert list(cell_texts(pd.DataFrame({"x": column}), "x")) == texts


def test_arrow_and_pandas_give_the_same_texts() -> None:
    frame = pd.DataFrame({"a": [1, None, 2.5], "b": [True, False, True], "c": ["x", None, "y"]})
    frame["d"] = np.array([0.1, 1e-7, 3], dtype=np.float32)
    table = pa.Table.from_pandas(frame)
    for name in frame:
        assert list(cell_texts(table, str(name))) == list(cell_texts(frame, str(name)))


def codes(source: Any, column: Column, unit: str | None = None) -> list[int]:
    source.check((column,), ("answer",))
    taken: list[int] = []
    source.read(
        CodeReader([column], RecordPolicy(Neighbors.REPLACE_ONE), lambda each: taken.extend(each[:, 0].tolist()))
    )
    return taken


def test_a_frame_and_its_file_have_the_same_codes(tmp_path: Path) -> None:
    frame = pd.DataFrame({"answer": ["yes", "no", None, " yes", "1", "no"], "person": [1, 1, 2, 2, 2, 3]})
    frame.to_csv(tmp_path / "answers.csv", index=False)
    column = Column("answer", ("no", "yes"))
    from_file = source_for(locate(str(tmp_path / "answers.csv")), Dialect(), None)
    assert codes(FrameSource(frame), column) == codes(from_file, column)
    bounded = FrameSource(frame, UnitBound("person", 1))
    assert len(codes(bounded, column)) == 3
    assert FrameSource(frame).count() == 6


def test_no_cell_stops_the_release() -> None:
    """An error would show that a record holds such a cell; a huge exponent must not fill the memory."""
    strange = ["\ud800", "y\udcff", 10**5000, -(10**5000), Fraction(1, 3), Fraction(10**400), b"\xff"]
    huge = [Decimal(f"{sign}E{power}99999999") for sign in ("1", "-1", "0") for power in "+-"]
    for cell in (*strange, *huge, Decimal("sNaN")):
        frame = pd.DataFrame({"answer": pd.Series(["1", cell, "y"], dtype=object)})
        assert codes(FrameSource(frame), Column("x", ("1", "y"))) == [0, -1, 1]


def test_bytes_that_are_not_utf8_are_a_missing_cell() -> None:
    """Arrow reads them from a Parquet file without an error."""
    ends = pa.py_buffer(np.array([0, 1, 2, 3], dtype=np.int32))
    table = pa.table({"x": pa.Array.from_buffers(pa.string(), 3, [None, ends, pa.py_buffer(b"a\xffb")])})
    for frame in (table, table.to_pandas(types_mapper=pd.ArrowDtype)):
        assert list(cell_texts(frame, "x")) == ["a", None, "b"]


def test_a_column_of_dates_is_refused_by_its_type() -> None:
    frame = pd.DataFrame({"answer": pd.to_datetime(["2026-01-01"])})
    with pytest.raises(SourceError, match="cannot be read as text"):
        codes(FrameSource(frame), Column("answer", ("no", "yes")))


def test_a_float_that_may_be_another_integer_is_no_level() -> None:
    """One missing cell makes pandas store 2**53 + 1 as the float 2**53, which is another key."""
    frame = pd.DataFrame({"key": [2**53 + 1, 7, None]})
    assert cell_texts(frame, "key", is_level=True).tolist() == [None, "7", None]
    whole = pd.DataFrame({"key": [2**53 + 1, 7]})
    assert cell_texts(whole, "key", is_level=True).tolist() == [str(2**53 + 1), "7"]
