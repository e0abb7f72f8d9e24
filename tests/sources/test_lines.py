from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbayes_cli.sources import lines
from dpbayes_cli.sources.lines import INVALID, MAX_RECORD_BYTES, clean_line, first_line, record_blocks
from tests.sources.reference import physical_lines

fragments = st.lists(
    st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"\x00", b"\xff", b"\xc3\xa9", b"\xef\xbb\xbf", b'"', b",", b"\t"]),
    max_size=40,
).map(b"".join)


def read(content: bytes, block: int, *, skip_header: bool = False, quote: bytes = b"") -> list[bytes]:
    original, lines.BLOCK = lines.BLOCK, block
    try:
        joined = b"".join(record_blocks(io.BytesIO(content), skip_header=skip_header, quote=quote))
    finally:
        lines.BLOCK = original
    assert not joined or joined.endswith(b"\n")
    return joined.split(b"\n")[:-1]


@given(fragments, st.integers(3, 50))
def test_the_number_of_records_is_the_number_of_physical_lines(content: bytes, block: int) -> None:
    assert len(read(content, block)) == len(physical_lines(content))


@given(fragments, st.integers(3, 50))
def test_how_the_file_is_cut_into_blocks_changes_nothing(content: bytes, block: int) -> None:
    assert read(content, block) == read(content, 1 << 20)


@given(fragments, fragments, fragments, st.integers(3, 50))
def test_a_record_depends_on_nothing_but_itself(before: bytes, record: bytes, after: bytes, block: int) -> None:
    record = record.replace(b"\n", b"")
    alone = read(b"h\n" + record + b"\n", 1 << 20)[1]
    among = read(b"h\n" + before + b"\n" + record + b"\n" + after, block)
    assert among[len(physical_lines(b"h\n" + before + b"\n"))] == alone


@given(fragments)
def test_what_comes_out_is_harmless_text(content: bytes) -> None:
    for record in read(content, 7):
        assert not set(clean_line(record).encode()) & (set(range(32)) - {2, 9})


def test_endings_and_marks() -> None:
    content = b"\xef\xbb\xbfa\r\nb\nc\rd\n\xef\xbb\xbfe\nf\x00g\nh\xef\xbb\xbfi\xff\nj\r"
    expected = ["a", "b", "c\x02d", "e", "f\x02g", "h\x02i\ufffd", "j"]
    assert [clean_line(record) for record in read(content, 1 << 20)] == expected
    assert read(b"a\n\n\nb", 1 << 20) == [b"a", b"", b"", b"b"]
    assert read(b"", 1 << 20) == []
    assert read(b"head", 1 << 20, skip_header=True) == []
    assert read(b"head\nx\n", 1 << 20, skip_header=True) == [b"x"]


@pytest.mark.parametrize("length", [MAX_RECORD_BYTES, MAX_RECORD_BYTES + 1, 3 * MAX_RECORD_BYTES])
@pytest.mark.parametrize("prefix", [0, 1000, MAX_RECORD_BYTES - 3])
def test_a_record_that_is_too_long_is_one_invalid_record_wherever_it_stands(length: int, prefix: int) -> None:
    expected = INVALID if length > MAX_RECORD_BYTES else b"y" * length
    assert read(b"x" * prefix + b"\n" + b"y" * length + b"\nz\n", 1 << 20) == [b"x" * prefix, expected, b"z"]


def test_a_carriage_return_counts_toward_the_length_the_same_way_everywhere() -> None:
    for prefix in (0, 1, MAX_RECORD_BYTES - 1, MAX_RECORD_BYTES):
        content = b"x" * prefix + b"\n" + b"y" * MAX_RECORD_BYTES + b"\r\nz\n"
        assert read(content, 1 << 20)[1] == INVALID


def test_memory_stays_bounded_for_one_endless_line(tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "endless"
    with path.open("wb") as file:
        for _ in range(64):
            file.write(b"z" * (1 << 20))
    tracemalloc.start()
    with path.open("rb") as stream:
        assert sum(block.count(b"\n") for block in record_blocks(stream, skip_header=False)) == 1
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()


def test_quoted_line_feeds_stay_inside_their_record() -> None:
    content = b'a,b\n1,"x\ny"\n2,z\n3,"p\nq\nr"\n'
    for block in (*range(3, 30), 1 << 20):
        joined = b"\n".join(read(content, block, quote=b'"'))
        assert joined == b'a,b\n1,"x%by"\n2,z\n3,"p%bq%br"' % (INVALID, INVALID, INVALID)


def test_the_first_line_is_read_without_its_ending() -> None:
    assert first_line(io.BytesIO(b"\xef\xbb\xbfa,b\r\n1,2\n")) == b"a,b"
    assert first_line(io.BytesIO(b"")) is None
    assert first_line(io.BytesIO(b"only")) == b"only"
