from __future__ import annotations

import pytest

from dpbayes_cli.base.cell_grammar import check_levels, normal_cell


@pytest.mark.parametrize("text", ["1", "+1", "01", "001", "1.", "1.0", "1.000", " 1", "1\t", "+01.0"])
def test_the_ways_to_write_one(text: str) -> None:
    assert normal_cell(text) == "1"


@pytest.mark.parametrize(
    "text", ["1_000", "\uff11", "1e0", "1e400", "NaN", "inf", "", "1.5", "--1", "+-1", "1 0", "0x1", "I"]
)
def test_what_does_not_mean_one(text: str) -> None:
    assert normal_cell(text) != "1"


def test_minus_is_kept() -> None:
    assert normal_cell("-01.0") == "-1"


@pytest.mark.parametrize(
    "levels", [("1", "1.0"), ("a", "a"), (" a", "b"), ("a\x00", "b"), ("", "b"), ("a\ufeff", "b"), ("x\ny", "b")]
)
def test_levels_that_could_not_be_told_apart_or_matched_are_refused(levels: tuple[str, ...]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        check_levels(levels)


def test_ordinary_levels_pass() -> None:
    check_levels(("yes", "no", "don't know", "N/A", "-1", "1", "0", "=cmd", "\u00e9", "a,b", '"'))
