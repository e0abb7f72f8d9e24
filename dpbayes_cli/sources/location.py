"""Which files are meant: a path, a glob or standard input, checked before anything is charged."""

from __future__ import annotations

import glob
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from dpbayes_cli.errors import SourceError

STDIN = "-"
_COMPRESSED = ".gz"
_PARQUET = (".parquet", ".parq", ".pq")


@dataclass(frozen=True)
class Location:
    """Where the data are.

    Attributes:
        text: what the user wrote.
        paths: the files that it names, sorted; empty for standard input.
    """

    text: str
    paths: tuple[Path, ...]

    @property
    def identity(self) -> str:
        """What the ledger records to recognise the same source: absolute paths, or ``-``."""
        return os.pathsep.join(str(path.absolute()) for path in self.paths) or STDIN

    @property
    def is_stream(self) -> bool:
        """Whether the data can be read only once (standard input, a pipe)."""
        return not all(path.is_file() for path in self.paths) or not self.paths

    @property
    def format(self) -> str:
        """``parquet`` or ``csv``, by the names of the files."""
        kinds = {"parquet" if path.suffix.lower() in _PARQUET else "csv" for path in self.paths}
        if len(kinds) > 1:
            raise SourceError("the files are of different formats", hint="name files of one format")
        return kinds.pop() if kinds else "csv"

    @property
    def dataset(self) -> str | None:
        """The name of the data set that one regular file implies: its stem; None where it must be stated."""
        if len(self.paths) != 1 or self.is_stream or _is_pattern(self.text):
            return None
        return self.paths[0].name.split(".")[0] or None


def locate(text: str) -> Location:
    """Find the files that a path, a glob or ``-`` names.

    Raises:
        SourceError: a remote address, nothing there, a directory, or no permission.
    """
    if text == STDIN:
        return Location(text, ())
    if "://" in text:
        raise SourceError("remote sources are not supported", hint="copy the file, or pipe it into '-'")
    if Path(text).exists() or not _is_pattern(text):
        paths = [Path(text)]
    else:
        paths = [Path(name) for name in sorted(glob.glob(text, recursive=True))]  # noqa: PTH207 - any pattern
    if not paths:
        raise SourceError(f"no file matches {text!r}")
    for path in paths:
        _check_readable(path)
    return Location(text, tuple(paths))


def _is_pattern(text: str) -> bool:
    return any(mark in text for mark in "*?[")


def _check_readable(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise SourceError(f"cannot read {str(path)!r}: {os.strerror(error.errno or 0)}") from None
    if stat.S_ISDIR(mode):
        raise SourceError(f"{str(path)!r} is a directory", hint=f"name its files: {str(path / '*.parquet')!r}")
    if not os.access(path, os.R_OK):
        raise SourceError(f"cannot read {str(path)!r}: permission denied")


@contextmanager
def opened(path: Path | None) -> Iterator[BinaryIO]:
    """Open a file (``None``: standard input) for reading bytes, decompressed by its name.

    Raises:
        SourceError: it cannot be opened, read or decompressed; the text of the cause is discarded.
    """
    import gzip
    import zlib

    try:
        if path is None:
            yield sys.stdin.buffer
            return
        with path.open("rb") as raw:
            if path.suffix.lower() == _COMPRESSED:
                with gzip.GzipFile(fileobj=raw) as unpacked:
                    yield cast(BinaryIO, unpacked)
            else:
                yield raw
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise SourceError(f"{str(path)!r} is not a complete gzip file") from None
    except OSError as error:
        raise SourceError(f"cannot read {str(path or STDIN)!r}: {os.strerror(error.errno or 0)}") from None
