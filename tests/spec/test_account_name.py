"""Names of accounts, and valid names that are like a text."""

from __future__ import annotations

import pytest

from dpbayes_cli.spec.account_name import check_name, plain_name


@pytest.mark.parametrize(
    ("text", "plain"),
    [("blood samples", "blood-samples"), ("survey_", "survey_"), ("_2024", "2024"), ("x" * 101, "x" * 100), ("é", "")],
)
def test_a_text_that_is_no_valid_name_gets_one_that_is_like_it(text: str, plain: str) -> None:
    assert plain_name(text) == plain
    if plain:
        check_name(plain)
    if text != plain:
        with pytest.raises(ValueError, match=f"such as '{plain}'" if plain else "not a valid name"):
            check_name(text)
