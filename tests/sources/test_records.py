from __future__ import annotations

import pytest

from dpbayes_cli.sources.records import Dialect, split_record

COMMA = Dialect()


@pytest.mark.parametrize(
    ("line", "fields"),
    [("a,b,c", ["a", "b", "c"]), ("", [""]), (",", ["", ""]), ('"a,b",c', ["a,b", "c"]), (' "a" ,b', ["a", "b"]),
     ('"say ""hi""",x', ['say "hi"', "x"]), ('"",""', ["", ""]), (" a , b ", [" a ", " b "]),
     ('"a', None), ('a"b,c', None), ('"a"b,c', None), ('"a,b', None), ('""",x', None), ('a,"', None)],
)  # fmt: skip
def test_a_record_has_fields_or_is_malformed(line: str, fields: list[str] | None) -> None:
    assert split_record(line, COMMA) == fields


@pytest.mark.parametrize("delimiter", [";", "\t", "|", "^", "]", "-", "\\", "."])
def test_delimiters_that_mean_something_to_a_pattern(delimiter: str) -> None:
    dialect = Dialect(delimiter=delimiter)
    assert split_record(f'a{delimiter}"b{delimiter}c"{delimiter}d', dialect) == ["a", f"b{delimiter}c", "d"]
