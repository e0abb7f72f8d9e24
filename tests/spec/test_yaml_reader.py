from __future__ import annotations

from pathlib import Path

import pytest

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.spec.yaml_reader import parse_yaml, read_spec_file
from tests.conftest import cpu_limit


def test_scalars_stay_texts() -> None:
    document = parse_yaml("a: 0.1\nb: no\nc: [1, 0x10, 1_000]\nd:\ne: ~\nf: ''\ng: 2020-01-01\nh: '~'\n")
    assert document == {
        "a": "0.1", "b": "no", "c": ["1", "0x10", "1_000"], "d": None, "e": None, "f": "", "g": "2020-01-01", "h": "~",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: 1\na: 2\n", "appears twice"), ("a: {b: 1, b: 2}\n", "appears twice"), ("a: &x 1\nb: *x\n", "anchors"),
        ("a: !!python/object:os.system x\n", "tags"), ("a: !!str 1\n", "tags"),
        ("a: 1\n---\nb: 2\n", "more than one document"), ("[" * 100_000, "nested"),
        ("a: " + "{a: " * 50 + "1" + "}" * 50, "nested"), ("- x\n" * 60_000, "values"),
        ("a: [1, 2\n", "line 1, column 4: a bracket is not closed"), ("a: \x00\n", "not valid YAML"),
        ("[a]: 1\n", "key must be a text"), ("? {a: 1}\n: 1\n", "key must be a text"),
    ],
)  # fmt: skip
def test_what_a_spec_does_not_need_is_refused(text: str, why: str) -> None:
    with cpu_limit(20.0), pytest.raises(SpecError, match=why):
        parse_yaml(text)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"x" * (1 << 19), "larger"), (b"\xff\xfe", "UTF-8"), (b"- a\n", "KEY: VALUE"), (b"", "KEY: VALUE"),
        (b"just text", "KEY: VALUE"), (None, "cannot read"),
    ],
)  # fmt: skip
def test_files_that_are_no_specs(content: bytes | None, why: str, place: Path) -> None:
    path = place / "s.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SpecError, match=why):
        read_spec_file(path)
