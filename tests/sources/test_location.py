from __future__ import annotations

import os
from pathlib import Path

import pytest

from dpbayes_cli.errors import SourceError
from dpbayes_cli.sources.location import locate


def test_a_file_names_its_data_set(place: Path) -> None:
    (place / "clinic.csv.gz").touch()
    location = locate("clinic.csv.gz")
    assert (location.dataset, location.format, location.is_stream) == ("clinic", "csv", False)
    assert location.identity == str(place / "clinic.csv.gz")


def test_a_glob_and_a_stream_do_not(place: Path) -> None:
    (place / "a.parquet").touch()
    (place / "b.parquet").touch()
    assert locate("*.parquet").dataset is None
    assert locate("*.parquet").format == "parquet"
    assert locate("-").dataset is None
    assert locate("-").identity == "-"
    assert locate("-").is_stream


def test_a_pipe_is_a_stream(place: Path) -> None:
    os.mkfifo(place / "pipe")
    assert locate("pipe").is_stream
    assert locate("pipe").dataset is None


@pytest.mark.parametrize(
    "text", ["missing.csv", "*.nothing", "https://example.org/x.csv", "s3://bucket/x.parquet", "."]
)
def test_what_cannot_be_read_is_refused(text: str, place: Path) -> None:
    with pytest.raises(SourceError):
        locate(text)


def test_mixed_formats_are_refused(place: Path) -> None:
    (place / "a.csv").touch()
    (place / "b.parquet").touch()
    with pytest.raises(SourceError, match="different formats"):
        assert locate("*").format
