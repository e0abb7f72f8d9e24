"""Design matrices: the row of a record, the bound of its norm, and the agreement of sparse and dense rows."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.sparse import issparse

from dpbayes_cli.core import design as module
from dpbayes_cli.core.columns import Column, NumericColumn, RecordPolicy, n_codes
from dpbayes_cli.core.design import Design, DesignMatrix, DesignRows, Feature, check_names
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.code_readers import CodeReader
from dpbayes_cli.sources.location import locate
from dpbayes_cli.sources.records import Dialect
from dpbayes_cli.sources.source_for import source_for

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

AGE = NumericColumn("age", 20.0, 60.0, 1 << 16)
GAIN = NumericColumn("gain", 0.0, 15000.0, 1 << 16)
COLOR = Column("color", ("red", "green", "blue"))
CITY = Column("city", tuple(f"c{i}" for i in range(30)))
Y = Column("y", ("no", "yes"))
TARGET = NumericColumn("t", 10.0, 20.0, 1 << 16)
DROP = RecordPolicy(Neighbors.REPLACE_ONE)

SMALL = Design((Feature(AGE), Feature(COLOR), Feature(GAIN, 0.0)))
WIDE = Design((Feature(AGE), Feature(CITY), Feature(COLOR)))


def codes_of(design: Design, n: int, seed: int = 1) -> Integers:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, n_codes(feature.column), n) for feature in design.features], axis=1)


def dense(rows: Any) -> Floats:
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)


def matrix_of(design: Design, codes: Integers, **more: Any) -> DesignMatrix:
    matrix = DesignMatrix(DesignRows(design, Y, **more), len(codes))
    matrix.take(np.column_stack([codes, np.arange(len(codes)) % 2]))
    return matrix


def test_numbers_are_scaled_and_texts_become_indicators() -> None:
    assert SMALL.names == ("intercept", "age", "color=red", "color=green", "color=blue", "gain")
    codes = np.array([[0, 0, 0], [1 << 15, 2, 1 << 16], [1 << 16, 1, 1 << 15]])
    assert SMALL.rows(codes) == pytest.approx(np.array([[1, -1, 1, 0, 0, 0], [1, 0, 0, 0, 1, 1], [1, 1, 0, 1, 0, 0.5]]))
    assert SMALL.row_norm == pytest.approx(2.0)
    assert Design((Feature(AGE),), intercept=False).names == ("age",)
    assert Feature(AGE, 50.0).scaled(np.array([0, 1 << 16])) == pytest.approx([-1.0, 1.0 / 3.0])


def test_targets_are_codes_or_scaled_numbers() -> None:
    matrix = DesignMatrix(DesignRows(SMALL, TARGET), 3)
    assert matrix.targets(np.array([0, 1 << 15, 1 << 16])) == pytest.approx([-1.0, 0.0, 1.0])
    assert DesignMatrix(DesignRows(SMALL, Y), 3).targets(np.array([1, 0])).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("norm", [None, 1e-6, 0.3, 1.7320508, 5.0])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("design", [SMALL, WIDE, replace(SMALL, intercept=False)], ids=["dense", "sparse", "bare"])
def test_row_norm_is_never_exceeded(
    design: Design, norm: float | None, single: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Roundings count: norms are computed in higher precision than that of the rows."""
    if single:
        monkeypatch.setattr(module, "_MAX_DOUBLE_ENTRIES", 0)
    clipped = replace(design, norm=norm)
    ends = np.array([[0, 0, 0], [1 << 16, 1, 0], [1 << 16, 2, 2]])
    if design is not WIDE:
        ends = np.array([[0, 0, 0], [1 << 16, 1, 1 << 16], [0, 2, 1 << 16]])
    rows = clipped.rows(np.concatenate([codes_of(clipped, 20_000), ends]))
    assert issparse(rows) == (not design.dense)
    assert rows.dtype == (np.float32 if single and design.dense else np.float64)
    exact = dense(rows).astype(np.longdouble)
    lengths = np.sqrt(np.square(exact).sum(axis=1))
    assert lengths.max() <= np.longdouble(clipped.row_norm) * (1.0 + 4e-16)
    assert lengths.max() >= clipped.row_norm * (1.0 - 2e-6)
    if clipped.intercept:
        assert (exact[:, 0] == 1.0).all()


def test_clipping_keeps_directions_and_leaves_short_rows_alone() -> None:
    free, clipped = SMALL, replace(SMALL, norm=1.2)
    codes = codes_of(SMALL, 500)
    long, short = dense(free.rows(codes))[:, 1:], dense(clipped.rows(codes))[:, 1:]
    lengths = np.linalg.norm(long, axis=1)
    inside = lengths <= 1.2 * (1.0 - 1e-6)
    assert inside.any()
    assert (~inside).any()
    assert np.allclose(short[inside], long[inside], rtol=1e-15)
    assert np.allclose(short[~inside] / 1.2, long[~inside] / lengths[~inside, None], rtol=1e-6)


def test_sparse_rows_equal_dense_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = codes_of(WIDE, 300)
    for norm in (None, 1.1):
        wide = replace(WIDE, norm=norm)
        sparse = wide.rows(codes)
        with monkeypatch.context() as patch:
            patch.setattr(module, "_MIN_DENSE_SHARE", 0.0)
            assert issparse(sparse)
            assert (dense(sparse) == wide.rows(codes)).all()


def test_invalid_record_is_counted_but_adds_no_row() -> None:
    codes = np.column_stack([codes_of(SMALL, 6), [0, 1, 0, 1, 0, 1]])
    holes = codes.copy()
    holes[1, 0], holes[3, 1], holes[5, 3] = -1, -1, -1
    matrix = DesignMatrix(DesignRows(SMALL, Y), 6)
    matrix.take(holes)
    ((x, y),) = matrix.blocks
    assert matrix.n_records == 6
    assert (dense(x) == dense(SMALL.rows(codes[[0, 2, 4], :-1]))).all()
    assert y.tolist() == [0.0, 0.0, 0.0]
    none = DesignMatrix(DesignRows(SMALL, Y), 2)
    none.take(np.full((2, 4), -1))
    assert (none.n_records, none.blocks) == (2, [])


@pytest.mark.parametrize("block", [1, 2, 3, 100])
@pytest.mark.parametrize("max_records", [1, 4, 7, 50])
def test_adding_a_record_changes_at_most_two_rows(block: int, max_records: int) -> None:
    """Under add-remove with a record limit: wherever a record is added, at most one row enters and one leaves."""
    rng = np.random.default_rng(max_records)
    codes = np.column_stack([codes_of(SMALL, 9), rng.integers(0, 2, 9)])
    codes[rng.random(9) < 0.3, 0] = -1

    def read(records: Integers) -> Counter[tuple[float, ...]]:
        matrix = DesignMatrix(DesignRows(SMALL, Y, max_records), max_records)
        for start in range(0, len(records), block):
            matrix.take(records[start : start + block])
        assert matrix.n_records == min(max_records, len(records))
        return Counter((*row, t) for x, y in matrix.blocks for row, t in zip(dense(x).tolist(), y, strict=True))

    whole = read(codes)
    for place in range(9):
        fewer = read(np.delete(codes, place, axis=0))
        assert (whole - fewer).total() <= 1
        assert (fewer - whole).total() <= 1


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("design", [SMALL, WIDE], ids=["dense", "sparse"])
def test_memory_estimate_matches_the_matrix(design: Design, single: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if single:
        monkeypatch.setattr(module, "_MAX_DOUBLE_ENTRIES", 0)
    n = 5000
    ((x, y),) = matrix_of(design, codes_of(design, n)).blocks
    held = y.nbytes + (x.nbytes if design.dense else x.data.nbytes + x.indices.nbytes + x.indptr.nbytes)
    assert 0.9 * design.memory(n) <= held <= design.memory(n)


def test_precision_depends_on_the_expected_record_count_only() -> None:
    """Not on the number of records read or valid, which is private."""
    expected = module._MAX_DOUBLE_ENTRIES // SMALL.width + 1
    few, many = DesignMatrix(DesignRows(SMALL, Y), expected - 1), DesignMatrix(DesignRows(SMALL, Y), expected)
    codes = np.column_stack([codes_of(SMALL, 3), [0, 1, 0]])
    for matrix in (few, many):
        matrix.take(codes)
    assert (few.blocks[0][0].dtype, many.blocks[0][0].dtype) == (np.float64, np.float32)


def test_cells_of_a_file_become_rows(place: Path) -> None:
    """The engine clamps, imputes and drops cells as the columns state."""
    data = place / "d.csv"
    data.write_text("gain,age,y,color\n0,10,no,red\n1e9,60, yes ,blue\nNaN,40,no,green\n1,40,maybe,red\n7500,40,yes\n")
    design = replace(SMALL, features=(Feature(replace(AGE, impute="40")), *SMALL.features[1:]))
    matrix = DesignMatrix(DesignRows(design, Y), 5)
    source = source_for(locate(str(data)), Dialect(), None)
    with closing(source):
        source.check(matrix.rows.columns, [column.role for column in matrix.rows.columns])
        source.read(CodeReader(matrix.rows.columns, DROP, matrix.take))
    ((x, y),) = matrix.blocks
    assert matrix.n_records == 5
    assert x == pytest.approx(np.array([[1, -1, 1, 0, 0, 0], [1, 1, 0, 0, 1, 1]]))
    assert y.tolist() == [0.0, 1.0]


def test_repeated_column_names_are_refused() -> None:
    check_names(("a", "b=c"))
    with pytest.raises(ValueError, match="'b=c'"):
        check_names(("b=c", "a", "b=c"))


def test_a_number_from_0_to_1_is_compared_over_its_whole_range() -> None:
    """Others by a step near a tenth of their range, but by at least 1 if they may be counts."""
    bounds = {"smoke": (0.0, 1.0), "age": (18.0, 90.0), "share": (0.0, 0.5), "children": (0.0, 3.0)}
    features = tuple(Feature(NumericColumn(name, *ends, 1 << 16)) for name, ends in bounds.items())
    assert [each.name for each in Design(features).contrasts] == [
        "smoke + 1",
        "age + 10",
        "share + 0.1",
        "children + 1",
    ]


def test_the_variance_of_a_contrast_uses_the_covariance_of_its_coefficients() -> None:
    """The squared step times the variance of a number; Var(b - a) = Var(b) - 2 Cov(a, b) + Var(a) of a text."""
    features = Feature(NumericColumn("age", 20.0, 60.0, 1 << 16)), Feature(Column("arm", ("a", "b")))
    number, text = Design(features).contrasts
    root = np.random.default_rng(3).standard_normal((4, 4))
    covariance = root @ root.T
    assert number.variance(covariance) == pytest.approx(number.factor**2 * covariance[1, 1])
    assert text.variance(covariance) == pytest.approx(covariance[2, 2] - 2.0 * covariance[2, 3] + covariance[3, 3])
