"""Numbers with other decimal and thousands marks: the same exact grammar from text files and from Parquet."""

from __future__ import annotations

from contextlib import closing
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbayes_cli.base.cell_grammar import POINT, NumberMarks, parse_number
from dpbayes_cli.core.columns import CutColumn, NumericColumn
from dpbayes_cli.sources.code_readers import CodeReader
from dpbayes_cli.sources.location import locate
from dpbayes_cli.sources.records import Dialect
from dpbayes_cli.sources.source_for import source_for
from dpbayes_cli.spec.release_spec import build_spec
from tests.sources.tables_of_texts import DROP, SPELLINGS

GRAMMAR = {
    (".", ","): {"1,234.5": 1234.5, "1234.5": 1234.5, "-1,234,567": -1234567.0, "12,34.5": None, "1,234567": None,
                 "1234,567": None, "1,,234": None, ",234": None, "1,234,": None, "1,5": None, "1.234,5": None},
    (",", ""): {"1,5": 1.5, ",5": 0.5, "5,": 5.0, "1.5": None, "1,234": 1.234, "1,2,3": None, "1,5e2": 150.0},
    (",", "."): {"1.234,5": 1234.5, "1.5": None, "1.234": 1234.0, "1,234.5": None, "1.234.567,25": 1234567.25},
    (".", "'"): {"1'234.5": 1234.5, "1,234": None, "'1234": None},
    (",", " "): {"1 234,5": 1234.5, " 1 234 ": 1234.0, "1  234": None},
}  # fmt: skip


@pytest.mark.parametrize("marks", GRAMMAR)
def test_groups_have_three_digits_and_marks_are_the_stated_ones(marks: tuple[str, str]) -> None:
    for text, number in GRAMMAR[marks].items():
        assert parse_number(text, marks=NumberMarks(*marks)) == number, text


@pytest.mark.parametrize("marks", GRAMMAR)
def test_text_files_and_parquet_read_the_numbers_of_the_grammar(marks: tuple[str, str], tmp_path: Path) -> None:
    stated = NumberMarks(*marks)
    texts = [*(text for grammar in GRAMMAR.values() for text in grammar)]
    texts += [text for text in SPELLINGS if text.isprintable() and '"' not in text and "|" not in text]
    columns = (
        NumericColumn("a", -2000.0, 2000.0, 1 << 20, outside="drop"),
        NumericColumn("b", -2000.0, 2000.0, 4000, integers=True),
        CutColumn("c", (-1.0, 0.75, 1000.0)),
    )
    expected = [
        [_code(column, parse_number(text, integers=column == columns[1], marks=stated)) for column in columns]
        for text in texts
    ]
    pq.write_table(pa.table({name: pa.array(texts) for name in "abc"}), tmp_path / "a.parquet")
    lines = ["a|b|c", *(f"{text}|{text}|{text}" for text in texts)]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name in ("a.parquet", "a.csv"):
        blocks: list[np.ndarray] = []
        with closing(source_for(locate(str(tmp_path / name)), Dialect("|"), None, marks=stated)) as source:
            source.check(columns, "abc")
            source.read(CodeReader(columns, DROP, blocks.append))
        assert np.concatenate(blocks).tolist() == expected


def _code(column: NumericColumn | CutColumn, number: float | None) -> int:
    code = None if number is None else column.code(number)
    return -1 if code is None else code


def test_columns_of_numbers_have_no_marks(tmp_path: Path) -> None:
    decimals = [Decimal("1.50"), Decimal("2.25")]
    pq.write_table(pa.table({"a": [1.5, 2.25], "b": ["1,5", "2.25"], "c": decimals}), tmp_path / "a.parquet")
    columns = tuple(NumericColumn(name, 0.0, 10.0, 1000) for name in "abc")
    blocks: list[np.ndarray] = []
    with closing(source_for(locate(str(tmp_path / "a.parquet")), Dialect(), None, marks=NumberMarks(","))) as source:
        source.check(columns, "abc")
        source.read(CodeReader(columns, DROP, blocks.append))
    assert np.concatenate(blocks).tolist() == [[150, 150, 150], [225, -1, 225]]


def test_marks_are_part_of_the_request_only_if_they_say_something_new() -> None:
    def digest(**source: str) -> str:
        return build_spec({"model": "beta-bernoulli", "privacy": {"epsilon": "1"}, "source": source}).request_digest

    assert digest() == digest(decimal=".")
    assert len({digest(), digest(decimal=","), digest(thousands=","), digest(thousands="'")}) == 4
    assert digest(thousands="space") == digest(thousands=" ")
    assert NumberMarks() == POINT
