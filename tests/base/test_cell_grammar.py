"""The normal form of cells, and the levels that no cell or two cells could match."""

from __future__ import annotations

import pytest

from dpbayes_cli.base.cell_grammar import check_levels, normal_cell


@pytest.mark.parametrize("text", ["1", "+1", "01", "001", "1.", "1.0", "1.000", " 1", "1\t", "+01.0"])
def test_normal_cell_of_ways_to_write_one(text: str) -> None:
    assert normal_cell(text) == "1"


@pytest.mark.parametrize(
    "text", ["1_000", "\uff11", "1e0", "1e400", "NaN", "inf", "", "1.5", "--1", "+-1", "1 0", "0x1", "I"]
)
def test_normal_cell_of_texts_that_are_not_one(text: str) -> None:
    assert normal_cell(text) != "1"


def test_normal_cell_keeps_a_minus() -> None:
    assert normal_cell("-01.0") == "-1"


@pytest.mark.parametrize(
    "levels", [("1", "1.0"), ("a", "a"), (" a", "b"), ("a\x00", "b"), ("", "b"), ("a\ufeff", "b"), ("x\ny", "b")]
)
def test_check_levels_refuses_ambiguous_and_unmatchable_levels(levels: tuple[str, ...]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        check_levels(levels)


def test_check_levels_accepts_ordinary_levels() -> None:
    check_levels(("yes", "no", "don't know", "N/A", "-1", "1", "0", "=cmd", "\u00e9", "a,b", '"'))
