"""Numbers: one published grammar, clamped and rounded to a public grid, the same in SQL as in Python."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbayes_cli.base.cell_grammar import parse_number
from dpbayes_cli.base.errors import SourceError, SpecError
from dpbayes_cli.core.columns import NumericColumn, RecordPolicy
from dpbayes_cli.core.model import BoundedStatistics
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.models.gamma_poisson import GammaPoisson
from dpbayes_cli.models.normal_mean import STEPS, NormalMean
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.delimited import DelimitedSource
from dpbayes_cli.sources.imputation import impute_code
from dpbayes_cli.sources.location import locate
from dpbayes_cli.sources.parquet import ParquetSource
from dpbayes_cli.sources.records import Dialect

DROP = RecordPolicy(Neighbors.REPLACE_ONE)
NORMAL = NormalMean(-3.0, 7.0, 1.0, 0.0, 1.0)
COUNT = GammaPoisson(10, 1.0, 1.0)


def code_of(model: NormalMean, number: float) -> int:
    code = model.column.code(number)
    assert code is not None
    return code


def read(path: Path, model: BoundedStatistics, policy: RecordPolicy = DROP) -> ExactEvidence:
    source: Any = ParquetSource(locate(str(path))) if path.suffix == ".parquet" else None
    source = source or DelimitedSource(locate(str(path)), Dialect())
    source.check(model.columns, (None,))
    statistics: ExactEvidence = source.statistics(model.statistic(policy), policy)
    return statistics


NUMBERS = {
    "1": 1.0, " 1.5 ": 1.5, "+2": 2.0, "-2.25": -2.25, ".5": 0.5, "5.": 5.0, "1e0": 1.0, "2E-1": 0.2, "1e-400": 0.0,
    "1e300": 1e300, "-0": 0.0,
}  # fmt: skip
NO_NUMBERS = ["1e400", "NaN", "inf", "-inf", "1_000", "\uff11", "", "1,5", "0x10", "1e", "e5", ".", "1e1000", "--1",
              "1 2"]  # fmt: skip


def test_every_spelling_has_one_outcome(place: Path) -> None:
    assert {cell: parse_number(cell) for cell in (*NUMBERS, *NO_NUMBERS)} == NUMBERS | dict.fromkeys(NO_NUMBERS)
    path = place / "f.csv"
    path.write_text("x\n" + "".join(f'"{cell}"\n' for cell in NO_NUMBERS), encoding="utf-8")
    assert read(path, NORMAL) == ExactEvidence((0, 0), len(NO_NUMBERS))
    path.write_text("x\n" + "".join(f'"{cell}"\n' for cell in NUMBERS), encoding="utf-8")
    total = sum(2 * code_of(NORMAL, number) - STEPS for number in NUMBERS.values())
    assert read(path, NORMAL) == ExactEvidence((total, STEPS * len(NUMBERS)), len(NUMBERS))


@pytest.mark.parametrize(
    ("cell", "clamped", "dropping"),
    [("3.", 3, 3), ("3.5", None, None), ("3e0", None, None), ("-4", 0, None), ("11", 10, None), ("10.0", 10, 10)],
)
def test_counts_are_integers_and_clamped(cell: str, clamped: int | None, dropping: int | None, place: Path) -> None:
    """Or, if the model says so, dropped: a stand-in replaces a cell without a number, not one out of bounds."""
    path = place / "f.csv"
    path.write_text(f"x\n{cell}\n")
    assert read(path, COUNT) == ExactEvidence((0, 0) if clamped is None else (2 * clamped - 10, 10), 1)
    model, imputing = GammaPoisson(10, 1.0, 1.0, "drop"), RecordPolicy(Neighbors.REPLACE_ONE, "5")
    assert read(path, model) == ExactEvidence((0, 0) if dropping is None else (2 * dropping - 10, 10), 1)
    expected = 5 if clamped is None else dropping
    assert read(path, model, imputing) == ExactEvidence((0, 0) if expected is None else (2 * expected - 10, 10), 1)


numbers = st.floats(-20, 20) | st.sampled_from([-3.0, 7.0, 2.0, -3.0 + 10 / STEPS / 2, 1e308, -1e308])


@settings(max_examples=20)
@given(st.lists(numbers | st.none(), min_size=1, max_size=50))
def test_sql_and_python_give_the_same_integer_from_every_format(cells: list[float | None]) -> None:
    import tempfile

    codes = [code_of(NORMAL, x) for x in cells if x is not None]
    assert all(0 <= code <= STEPS for code in codes)
    with tempfile.TemporaryDirectory() as directory:
        text, parquet = Path(directory) / "f.csv", Path(directory) / "f.parquet"
        text.write_text("x\n" + "".join(f"{'' if x is None else repr(x)}\n" for x in cells))
        pq.write_table(pa.table({"x": pa.array(cells, pa.float64())}), parquet)
        for path in (text, parquet):
            centered = 2 * sum(codes) - STEPS * len(codes)
            assert read(path, NORMAL) == ExactEvidence((centered, STEPS * len(codes)), len(cells))
            imputed = read(path, NORMAL, RecordPolicy(Neighbors.REPLACE_ONE, "2"))
            assert imputed.values == (sum(codes) + code_of(NORMAL, 2.0) * (len(cells) - len(codes)),)


@pytest.mark.parametrize("number", [-1e300, 7.0, math.inf])
def test_a_code_is_on_the_grid_whatever_floats_do(number: float, monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    """Here the width of a step has lost its digits; sensitivities rest on codes being 0..steps, in every engine."""
    monkeypatch.setattr(NumericColumn, "step", 3.0 / STEPS)
    column = NORMAL.column
    codes, _ = column.codes(np.array([number]))
    assert 0 <= codes[0] <= STEPS
    assert 0 <= (column.code(number) or 0) <= STEPS
    path = place / "f.csv"
    path.write_text(f"x\n{number!r}\n")
    total, valid = read(path, NORMAL).values
    assert abs(total) <= valid <= STEPS


@pytest.mark.parametrize("upper", [0.0, 5e-324, 1e-320, 1e-310, 1e-210, math.inf, math.nan])
def test_bounds_without_room_for_a_grid_are_refused(upper: float) -> None:
    with pytest.raises(ValueError, match="bounds"):
        NumericColumn("value", 0.0, upper, STEPS)


def test_rounding_is_to_the_nearest_grid_point() -> None:
    column = NORMAL.columns[0]
    for x in (-3.0, -2.9999, 0.1, 3.14159, 6.99999, 7.0):
        assert abs(column.lower + column.step * code_of(NORMAL, x) - x) <= column.step * 0.5000001
    assert column.code(-math.pi * 1e9) == 0
    assert column.code(1e300) == STEPS


@pytest.mark.parametrize("value", ["x", "7.5", "-4", "nan", ""])
def test_a_stand_in_must_be_in_the_domain(value: str) -> None:
    with pytest.raises(SpecError, match="not in the domain"):
        impute_code(NORMAL.columns[0], RecordPolicy(Neighbors.REPLACE_ONE, value))


def test_a_boolean_column_holds_no_numbers(place: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([True, False])}), place / "b.parquet")
    with pytest.raises((SourceError, SpecError)):
        read(place / "b.parquet", COUNT)
