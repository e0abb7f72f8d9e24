"""Delimited files: against a record-by-record reference, and every malformed input has one defined outcome."""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path

import pytest

from dpbayes_cli.base.cell_grammar import MAX_CELL_BYTES, check_levels
from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.models.dirichlet_categorical import DirichletCategorical
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources import lines
from dpbayes_cli.sources.delimited import DelimitedSource
from dpbayes_cli.sources.location import Location, locate
from dpbayes_cli.sources.records import Dialect
from tests.conftest import often
from tests.sources.reference import count

DROP = RecordPolicy(Neighbors.REPLACE_ONE)
ATOMS = [b"1", b"0", b"yes", b"no", b'"', b'""', b",", b",", b"\n", b"\n", b"\n", b"\r\n", b"\r", b" ", b"\t", b"\x00",
         b"\xff", b"\xc3\xa9", b'"1"', b'"a,b"', b"a", b"1.0", b"01", b"+1", b"1_000", b"1e400", b"NaN", b"\x02", b"\\",
         b"#", b"'", b"\xe2\x80\xa8", b"\xef\xbb\xbf", "\uff11".encode(), b"-1", b"NULL", b"\\N", b"NA"]  # fmt: skip


def model(*levels: str) -> DirichletCategorical:
    return DirichletCategorical(levels, (1.0,) * len(levels))


def read(
    path: Path | str,
    levels: tuple[str, ...],
    column: str | None = None,
    dialect: Dialect | None = None,
    policy: RecordPolicy = DROP,
) -> ExactEvidence:
    subject = model(*levels)
    source = DelimitedSource(locate(str(path)), dialect or Dialect())
    try:
        source.check(subject.columns, (column,))
        return source.statistics(subject.statistic(policy), policy)
    finally:
        source.close()


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("seed", often(range(25), 3))
def test_random_files_agree_with_the_reference(seed: int, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(lines, "BLOCK", rng.choice([3, 7, 64, 1 << 20]))
    width, delimiter = rng.choice([1, 1, 2, 3]), rng.choice([",", ";", "\t"])
    header = delimiter.join("abc"[:width]).encode() + rng.choice([b"\n", b"\r\n"])
    body = b"".join(rng.choice(ATOMS) for _ in range(rng.choice([0, 3, 30, 400])))
    levels = rng.choice([("1", "0"), ("1", "0", "yes", "\u00e9", "a,b", "-1", '"', "no")])
    if rng.random() < 0.3:
        levels = (*(f"l{i}" for i in range(60)), *levels)
    dialect, index = Dialect(delimiter=delimiter), rng.randrange(width)
    path = write(place / "f.csv", header + body)
    statistics = read(path, levels, "abc"[index], dialect)
    assert (list(statistics.values), statistics.n_records) == count(header + body, dialect, index, width, levels)


def test_one_stray_quote_changes_one_record_and_not_five_hundred(place: Path) -> None:
    rows = ["a,yes"] * 250 + ["b,no"] * 250
    clean = read(write(place / "clean.csv", "k,v\n" + "\n".join(rows) + "\n"), ("yes", "no"), "v")
    for spoiled in ('"a,yes', 'a,"yes', 'a,y"es', '"'):
        rows[100] = spoiled
        statistics = read(write(place / "spoiled.csv", "k,v\n" + "\n".join(rows) + "\n"), ("yes", "no"), "v")
        assert statistics.n_records == clean.n_records
        assert statistics.values == (clean.values[0] - 1, clean.values[1])


def test_changing_one_record_changes_the_statistic_by_at_most_the_sensitivity(place: Path) -> None:
    """Records are independent end to end: replacing one line by any other moves the counts by at most 2."""
    base = [b"a,1", b"b,0", b"c,1", b'"d",0', b"e,"]
    variants = [b"a,1", b"a,0", b"", b'"', b'"a,1\r', b"\xff\xfe,1", b"a,1,1", b"\x00", b'a,"1"', b"a,1\r",
                b",", b"a\r1"]  # fmt: skip
    for position in (0, 2, 4):
        of_files = []
        for variant in variants:
            records = [*base[:position], variant, *base[position + 1 :]]
            of_files.append(read(write(place / "f.csv", b"k,v\n" + b"\n".join(records) + b"\n"), ("1", "0"), "v"))
        assert {statistics.n_records for statistics in of_files} == {5}
        for left, right in itertools.combinations(of_files, 2):
            assert sum(abs(x - y) for x, y in zip(left.values, right.values, strict=True)) <= 2


ONES = ["1", " 1 ", "1.0", "+1", "01", '"1"', '" 1 "', "1.", "\ufeff1"]
ZEROS = ["0", "0.00"]
NEITHER = ["NaN", "inf", "-inf", "1_000", "1e400", "1e0", "\uff11", "", "true", "yes", "2", "-1", "'1'", "1 1", "=1",
           "NULL", "\\N", "1;0", "1\ufeff", "#1"]  # fmt: skip


def test_every_spelling_has_one_outcome(place: Path) -> None:
    for cells, expected in ((ONES, (len(ONES), 0)), (ZEROS, (0, len(ZEROS))), (NEITHER, (0, 0))):
        first = write(place / "f.csv", "x,y\n" + "".join(f"{cell},z\n" for cell in cells))
        alone = write(place / "g.csv", "x\n" + "".join(f"{cell}\n" for cell in cells))
        assert read(first, ("1", "0"), "x") == read(alone, ("1", "0")) == ExactEvidence(expected, len(cells))


def test_ragged_rows_are_invalid_records(place: Path) -> None:
    rows = ["1", "1,2,3", "", ",,", "1,2,", '"1"', '"1","2","3"', '"1",2,', '"1","2""', '"1"x,z', '1,z""']
    for valid in ("1,z", '"1",z'):
        path = write(place / "f.csv", "\n".join(["x,y", *rows, valid, ""]))
        assert read(path, ("1", "0"), "x") == ExactEvidence((1, 0), len(rows) + 1)


def test_an_empty_first_cell_before_quotes_is_a_cell_like_any_other(place: Path) -> None:
    path = write(place / "f.csv", 'x,y,z\n,1,"a"\n,"0",\n"",1,b\n,,"1"\n')
    assert read(path, ("1", "0"), "y") == ExactEvidence((2, 1), 4)
    assert read(path, ("1", "0"), "z") == ExactEvidence((1, 0), 4)


def test_imputed_values_count_as_the_stated_level(place: Path) -> None:
    path = write(place / "f.csv", "x\n1\n\nNA\nmaybe\n0\n")
    policy = RecordPolicy(Neighbors.REPLACE_ONE, "0")
    assert read(path, ("1", "0"), policy=policy) == ExactEvidence((1, 4), 5)


def test_the_header_may_be_quoted_marked_windows_like_or_missing(place: Path) -> None:
    path = write(place / "f.csv", b'\xef\xbb\xbf"a, b", c \r\n1,0\r\n0,1\r\n')
    assert read(path, ("1", "0"), "c") == ExactEvidence((1, 1), 2)
    assert read(path, ("1", "0"), "a, b") == ExactEvidence((1, 1), 2)
    path = write(place / "g.csv", "1,a\n0,b\n")
    assert read(path, ("1", "0"), "v", Dialect(header=False, names=("v", "w"))) == ExactEvidence((1, 1), 2)


def test_files_are_one_data_set_if_their_headers_agree(place: Path) -> None:
    for name in "ab":
        write(place / f"{name}.csv", "x,y\n1,0\n")
    assert read(str(place / "*.csv"), ("1", "0"), "x") == ExactEvidence((2, 0), 2)
    write(place / "b.csv", "y,x\n1,0\n")
    with pytest.raises(SourceError, match="different headers"):
        read(str(place / "*.csv"), ("1", "0"), "x")


def test_quoted_newlines_are_one_record_only_when_asked_for(place: Path) -> None:
    path = write(place / "f.csv", 'x,y\n1,"a\nb"\n0,c\n')
    assert read(path, ("1", "0"), "x", Dialect(quoted_newlines=True)) == ExactEvidence((1, 1), 2)
    assert read(path, ("1", "0"), "x") == ExactEvidence((0, 1), 3)


def test_a_stream_is_read_once_header_and_all(place: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"x,y\n1,0\n0,0\n1,1\n")
    os.close(writer)
    subject = model("1", "0")
    source = DelimitedSource(Location(f"/dev/fd/{reader}", (Path(f"/dev/fd/{reader}"),)), Dialect())
    source.check(subject.columns, ("x",))
    assert source.count_records() is None
    assert source.statistics(subject.statistic(DROP), DROP) == ExactEvidence((2, 1), 3)
    source.close()
    os.close(reader)


def test_many_columns(place: Path) -> None:
    for width in (255, 256, 257, 5000):
        header = ",".join(f"c{i}" for i in range(width))
        row = ",".join("1" if i == width - 1 else "0" for i in range(width))
        path = write(place / "wide.csv", f"{header}\n{row}\n{row},0\n")
        assert read(path, ("1", "0"), f"c{width - 1}") == ExactEvidence((1, 0), 2)


@pytest.mark.parametrize("others", [0, 1])
def test_a_cell_of_more_bytes_than_4_kib_is_missing(others: int, place: Path) -> None:
    """As in every other engine and format."""
    cells = ["0" * (MAX_CELL_BYTES + more) + "1" for more in (-1, 0)]
    cells += ["\u00e9" * (MAX_CELL_BYTES // 2 + more) for more in (0, 1)]
    rows = [*cells, *(f' "{cell}" ' for cell in cells), "1"]
    names = ["x", *(f"c{i}" for i in range(others))]
    filler = "," + "y" * MAX_CELL_BYTES if others else ""
    body = ",".join(names) + "\n" + "".join(row + filler + ",0" * (others - 1) + "\n" for row in rows)
    levels = ("1", "\u00e9" * (MAX_CELL_BYTES // 2))
    statistics = read(write(place / "f.csv", body), levels, "x")
    assert (statistics.values, statistics.n_records) == ((3, 2), 9)
    assert count(body.encode(), Dialect(), 0, len(names), levels) == ([3, 2], 9)
    with pytest.raises(ValueError, match="longer than 4096 bytes"):
        check_levels(["\u00e9" * (MAX_CELL_BYTES // 2 + 1)])
