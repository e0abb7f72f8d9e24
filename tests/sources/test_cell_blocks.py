"""Blocks of cells against a reader of one record at a time: every spelling, layout and malformed line."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbayes_cli.base.cell_grammar import POINT, NumberMarks, parse_number
from dpbayes_cli.core.columns import AnyColumn, Column, NumericColumn
from dpbayes_cli.sources import lines
from dpbayes_cli.sources.code_readers import CodeReader
from dpbayes_cli.sources.location import locate
from dpbayes_cli.sources.records import Dialect
from dpbayes_cli.sources.source_for import source_for
from tests.conftest import often
from tests.sources.reference import cells_of, code_of, physical_lines, with_hidden_newlines
from tests.sources.tables_of_texts import COLUMNS, DROP, NAMES, SPELLINGS

PLAIN = ("1", "0", "yes", "no", "2.5", "7", "-3", "0.1", "3.14159", "12345678.5", "123456789012345", "0.000001", "Yes")
BROKEN = ("\x00", "\ufeff", "\r", "\n", " " * 12)
NO_TEXT = (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xe2\x80")


def code_by_grammar(cell: str | None, column: AnyColumn, marks: NumberMarks) -> int:
    """Return the code of a cell by the public grammar, -1 if it is invalid."""
    if isinstance(column, Column):
        code = code_of(cell, column)
    else:
        integers = isinstance(column, NumericColumn) and column.integers
        number = None if cell is None else parse_number(cell, integers=integers, marks=marks)
        if number is None and column.impute is not None:
            number = parse_number(column.impute)
        code = None if number is None else column.code(number)
    return -1 if code is None else code


def odd_file(seed: int, n_lines: int) -> tuple[bytes, Dialect]:
    """Return a file of lines, many of which are malformed or hold unusual cells; columns are in any order."""
    rng = random.Random(seed)
    delimiter, quote = rng.choice(",,;\t|"), rng.choice('""\'')
    share, quoting = rng.choice([0.02, 0.2, 0.6]), rng.choice([0, 0, 0.1, 1])
    names = rng.sample([*NAMES, "other thing"], len(NAMES) + 1)

    def cell() -> str:
        text = rng.choice(SPELLINGS if rng.random() < share else PLAIN)
        text = "9" if len(text) > 1000 and rng.random() < 0.9 else text
        if rng.random() >= quoting and not any(mark in text for mark in (delimiter, quote, "\n")):
            return text
        text = quote + text.replace(quote, 2 * quote) + quote
        return rng.choice([text, f" {text}", f"{text}  "]) if rng.random() < share else text

    records = []
    for _ in range(n_lines):
        line = delimiter.join(cell() for _ in names)
        if rng.random() < 0.3 * share:
            cut = rng.randrange(len(line) + 1)
            middle = rng.choice([*BROKEN, quote, 2 * quote, delimiter])
            line = rng.choice([line[:cut], quote + line, f"\ufeff{line}", "", line[:cut] + middle + line[cut:]])
        record = line.encode()
        if rng.random() < 0.05 * share:
            cut = rng.randrange(len(record) + 1)
            record = record[:cut] + rng.choice(NO_TEXT) + record[cut:]
        records.append(record)
    end = rng.choice([b"\n", b"\r\n"])
    body = end.join([delimiter.join(names).encode(), *records, b""])
    return body[: len(body) - rng.choice([0, len(end)])], Dialect(delimiter, quote, quoted_newlines=rng.random() < 0.3)


def check_odd_file(seed: int, n_lines: int, place: Path) -> None:
    content, dialect = odd_file(seed, n_lines)
    path = place / "odd.csv"
    path.write_bytes(content)
    if dialect.quoted_newlines:
        content = with_hidden_newlines(content, dialect.quote.encode())
    header, *records = physical_lines(content)
    names = header.decode().rstrip("\r").split(dialect.delimiter)
    cells = [cells_of(record, dialect, len(names)) for record in records]
    place_of = [names.index(column.role) for column in COLUMNS]
    for marks in (POINT, NumberMarks(",", ".")):
        blocks: list[Any] = []
        with closing(source_for(locate(str(path)), dialect, None, marks=marks)) as source:
            source.check(COLUMNS, NAMES)
            source.read(CodeReader(COLUMNS, DROP, blocks.append))
        for i, (column, index) in enumerate(zip(COLUMNS, place_of, strict=True)):
            texts = [None if row is None else row[index] for row in cells]
            codes = {text: code_by_grammar(text, column, marks) for text in set(texts)}
            column_codes = [code for block in blocks for code in block[:, i].tolist()]
            assert column_codes == [codes[text] for text in texts], column.role


@pytest.mark.parametrize("seed", often(range(6), 3))
def test_odd_lines_agree_with_the_reference(seed: int, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK", random.Random(seed).choice([50, 5000, 1 << 18]))
    check_odd_file(seed, 200, place)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 150))
def test_a_million_odd_lines_agree_with_the_reference(seed: int, place: Path) -> None:
    check_odd_file(seed, 20_000, place)


def test_cells_of_at_most_one_byte_agree_with_the_reference(place: Path) -> None:
    path = place / "short.csv"
    records = [b"", *(bytes([byte]) for byte in range(256) if byte not in b'\n\r"')]
    path.write_bytes(b"\n".join([b"x", *records, b""]))
    cells = [None if row is None else row[0] for row in (cells_of(record, Dialect(), 1) for record in records)]
    for column in (Column("x", ("0", "1", "-", "~")), Column("x", ("a", "N"), spellings=(("?",), ("n",)))):
        assert read_codes(path, column) == [code_by_grammar(cell, column, POINT) for cell in cells]


def test_no_text_is_taken_for_a_declared_one(place: Path) -> None:
    """Texts of each length that differ from a declared one in a single byte, or are longer or shorter."""
    rng = random.Random(1)
    levels = ["".join(rng.choices("abcdefghij", k=length)) for length in (*range(1, 40), 64, 65, 200)]
    more = [level * 2 for level in levels] + ["a" * 9, "a" * 16, *(f"k{i:09d}" for i in range(1000))]
    for chosen in (levels, [*levels, *dict.fromkeys(more)]):
        levels_only = list(dict.fromkeys(chosen))
        column = Column("x", tuple(levels_only))
        cells = [*levels_only, "a" * 10, "a" * 15, "a" * 17]
        for level in levels_only[:60]:
            at = rng.randrange(len(level))
            cells += [
                level[:at] + "k" + level[at + 1 :], level[:-1], level + "\0", level + "a", "b" + level, level[::-1],
            ]  # fmt: skip
        path = place / "f.csv"
        path.write_text("x\n" + "".join(f"{cell}\n" for cell in cells), encoding="utf-8")
        codes = read_codes(path, column)
        known = {level: code for code, level in enumerate(levels_only)}
        assert codes == [known.get(cell, -1) for cell in cells]


def test_decimals_are_the_nearest_doubles(place: Path) -> None:
    rng = random.Random(2)
    cells = ["9007199254740993", "9007199254740992", "0.9007199254740993", "1.", ".1", "-.1", "+0.30", "-0", "00.10",
             "1..2", "1.2.3", "12345678.12345678", "1234567812345678", "+-1", "1-", "8+8"]  # fmt: skip
    for _ in range(8_000):
        digits = "".join(rng.choices("0123456789", k=rng.randint(1, 25)))
        at = rng.randrange(len(digits) + 1)
        cells.append(rng.choice(["", "", "-", "+"]) + rng.choice([digits, f"{digits[:at]}.{digits[at:]}"]))
    cells += [f"0.{rng.randrange(10**18):018d}" for _ in range(8_000)]  # some lie near the middle of two doubles
    cells += [repr(rng.random() * 10.0 ** rng.randint(-6, 15)) for _ in range(8_000)]
    cells += [f"{(2 * rng.getrandbits(52) + 1) / 2:.1f}" for _ in range(100)]  # between two doubles, if beyond 2^53
    cells += [str((1 << 53) + 2 * rng.getrandbits(50) + 1) for _ in range(1000)]
    path = place / "f.csv"
    path.write_text("x\n" + "".join(f"{cell}\n" for cell in cells), encoding="utf-8")
    numbers: list[Any] = []
    with closing(source_for(locate(str(path)), Dialect(), None)) as source:
        column = NumericColumn("x", 0.0, 1.0, 8)
        source.check([column], ["x"])
        source.read(CodeReader([column], DROP, lambda _, block: numbers.append(block), number=0))
    expected = [parse_number(cell) for cell in cells]
    np.testing.assert_array_equal(np.concatenate(numbers), np.array(expected, dtype=np.float64))


def read_codes(path: Path, column: AnyColumn) -> list[int]:
    blocks: list[Any] = []
    with closing(source_for(locate(str(path)), Dialect(), None)) as source:
        source.check([column], [column.role])
        source.read(CodeReader([column], DROP, blocks.append))
    return [code for block in blocks for code in block[:, 0].tolist()]
