from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbayes_cli.base.errors import SourceError, SpecError
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.models.beta_bernoulli import BetaBernoulli
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.location import locate
from dpbayes_cli.sources.parquet import ParquetSource

DROP = RecordPolicy(Neighbors.REPLACE_ONE)
COIN = BetaBernoulli("1", "0", 1.0, 1.0)


def read(path: Path | str, column: str | None = None, model: BetaBernoulli = COIN) -> ExactEvidence:
    source = ParquetSource(locate(str(path)))
    source.check(model.columns, (column,))
    statistics = source.statistics(model.statistic(DROP), DROP)
    assert source.count_records() == statistics.n_records
    return statistics


def write(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_booleans_are_the_texts_true_and_false(place: Path) -> None:
    path = write(place / "f.parquet", x=pa.array([True, False, True, None]))
    assert read(path, model=BetaBernoulli("true", "false", 1.0, 1.0)) == ExactEvidence((2, 1), 4)
    with pytest.raises(SpecError, match="boolean"):
        read(path)


def test_text_that_is_not_utf8_is_an_invalid_record(place: Path) -> None:
    raw = pa.array([b"1", b"\xff\xfe", b"0"])
    text = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    assert read(write(place / "f.parquet", x=text)) == ExactEvidence((1, 1), 3)


@pytest.mark.parametrize("values", [pa.array([[1], [0]]), pa.array([b"1", b"0"]), pa.array([{"a": 1}, {"a": 0}])])
def test_types_without_a_text_are_refused(values: pa.Array, place: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read as text"):
        read(write(place / "f.parquet", x=values))


def test_a_column_without_any_value_holds_invalid_records(place: Path) -> None:
    """Writers that infer types give it a type of its own, which must not turn one person's cell into an exit code."""
    assert read(write(place / "f.parquet", x=pa.nulls(3))) == ExactEvidence((0, 0), 3)


def test_integers_that_a_float_cannot_hold_are_refused(place: Path) -> None:
    large = BetaBernoulli("123456789012345678", "5", 1.0, 1.0)
    integers = write(place / "i.parquet", x=pa.array([123456789012345678, 5]))
    assert read(integers, model=large) == ExactEvidence((1, 1), 2)
    with pytest.raises(SpecError, match="DOUBLE"):
        read(write(place / "d.parquet", x=pa.array([1.2e17, 5.0])), model=large)


def test_a_column_must_be_named_where_there_are_several(place: Path) -> None:
    path = write(place / "f.parquet", x=pa.array([1]), **{'odd "name"; --': pa.array([0])})
    with pytest.raises(SourceError, match="more than one column"):
        read(path)
    assert read(path, 'odd "name"; --') == ExactEvidence((0, 1), 1)


def test_a_name_that_looks_like_a_pattern_is_a_name(place: Path) -> None:
    write(place / "f1.parquet", x=pa.array([0, 0, 0]))
    path = write(place / "f[1].parquet", x=pa.array([1]))
    assert read(path) == ExactEvidence((1, 0), 1)


def test_files_of_a_glob_add_up_and_must_agree(place: Path) -> None:
    write(place / "a.parquet", x=pa.array([1, 0]))
    write(place / "b.parquet", x=pa.array([1, 1]))
    assert read(str(place / "*.parquet")) == ExactEvidence((3, 1), 4)
    write(place / "c.parquet", x=pa.array(["1"]))
    with pytest.raises(SourceError, match="different schemas"):
        read(str(place / "*.parquet"))
