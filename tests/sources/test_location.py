from __future__ import annotations

import os
from pathlib import Path

import pytest

from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.sources.location import locate


def test_a_file_names_its_data_set(place: Path) -> None:
    (place / "clinic.csv.gz").touch()
    location = locate("clinic.csv.gz")
    assert (location.dataset, location.format, location.is_stream) == ("clinic", "csv", False)
    assert location.identity == str(place / "clinic.csv.gz")


def test_globs_streams_and_descriptors_name_no_data_set(place: Path) -> None:
    for name in ("a.parquet", "b.parquet", "clinic.csv"):
        (place / name).touch()
    both, stream = locate("*.parquet"), locate("-")
    assert (both.dataset, both.format) == (None, "parquet")
    assert (stream.dataset, stream.identity, stream.is_stream) == (None, "-", True)
    assert locate("/dev/stdin") == stream
    with (place / "clinic.csv").open() as file:
        assert locate(f"/dev/fd/{file.fileno()}").dataset is None
    with pytest.raises(SourceError, match="different formats"):
        assert locate("*").format


def test_a_file_is_read_once_by_however_many_names(place: Path) -> None:
    (place / "2024.csv").touch()
    (place / "latest.csv").symlink_to("2024.csv")
    os.link("2024.csv", "hard.csv")
    (place / "sub").mkdir()
    (place / "sub" / "x.csv").touch()
    assert len(locate("*.csv").paths) == 1
    assert len(locate("**/**/*.csv").paths) == 2


def test_a_pipe_is_a_stream_and_stands_alone(place: Path) -> None:
    (place / "a.csv").touch()
    os.mkfifo(place / "b.csv")
    assert (locate("b.csv").is_stream, locate("b.csv").dataset) == (True, None)
    with pytest.raises(SourceError, match="pipe"):
        locate("*.csv")


@pytest.mark.parametrize(
    "text", ["missing.csv", "*.nothing", "https://example.org/x.csv", "s3://bucket/x.parquet", "."]
)
def test_unreadable_locations_are_refused(text: str, place: Path) -> None:
    with pytest.raises(SourceError):
        locate(text)


def test_several_files_are_one_data_set_in_any_order(place: Path) -> None:
    for name in ("a.csv", "b.csv", "c.csv"):
        (place / name).write_text("x\n1\n")
    first, second = locate("b.csv", "a*.csv", "c.csv"), locate("c.csv", "a.csv", "b.csv", "b.csv")
    assert [path.name for path in first.paths] == ["a.csv", "b.csv", "c.csv"]
    assert first.identity == second.identity
    assert first.dataset is None
    with pytest.raises(SourceError, match="one of them is a pipe"):
        locate("a.csv", "-")
    with pytest.raises(SourceError, match="cannot read"):
        locate("a.csv", "d.csv")
