"""Find the files that a path or a glob names, and check them before anything is charged."""

from __future__ import annotations

import glob
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from dpbayes_cli.base.errors import SourceError, near_file
from dpbayes_cli.base.postgres_address import PostgresAddress, is_address, parse_table_address

STDIN = "-"
_COMPRESSED = ".gz"
_TABLE = "table:"
_TABLE_NAME = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+){0,2}", re.ASCII)
_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+]*:/")
_ADDRESS = re.compile(
    r"(?:hdfs|s3a|gs|abfss|file)://(?:[A-Za-z0-9_-]+@)?[A-Za-z0-9_.:-]*/[^@?#\x00-\x20\x7f]*", re.ASCII
)
_PARQUET = (".parquet", ".parq", ".pq")
_READ = (*_PARQUET, ".csv", ".tsv", ".txt", _COMPRESSED)
"""If the user names a directory, the message lists its files with these endings."""


@dataclass(frozen=True)
class Location:
    """The files, or standard input, that hold the data.

    Attributes:
        text: the paths or globs as the user typed them.
        paths: the files that the text names, sorted, each once; empty for standard input.
        pattern: whether the text was a glob.
    """

    text: str
    paths: tuple[Path, ...]
    pattern: bool = False

    @property
    def identity(self) -> str:
        """The source as the ledger records it: the resolved files, or ``-``."""
        files = {os.path.realpath(path) if path.is_file() else str(path.absolute()) for path in self.paths}
        return os.pathsep.join(sorted(files)) or STDIN

    @property
    def is_stream(self) -> bool:
        """Whether the data can be read only once (standard input, a pipe)."""
        return not all(path.is_file() for path in self.paths) or not self.paths

    @property
    def size(self) -> int:
        """The total size of regular files in bytes; a compressed file counts with its unpacked size."""
        return sum(_unpacked_size(path) for path in self.paths)

    @property
    def format(self) -> str:
        """The format of the files, ``parquet`` or ``csv``, according to their names."""
        kinds = {"parquet" if path.suffix.lower() in _PARQUET else "csv" for path in self.paths}
        if len(kinds) > 1:
            raise SourceError("the files have different formats", hint="name files of one format")
        return kinds.pop() if kinds else "csv"

    @property
    def dataset(self) -> str | None:
        """The default name of the data set: the stem of a single regular file; None if the name must be stated."""
        if len(self.paths) != 1 or self.is_stream or self.pattern:
            return None
        parts = self.paths[0].absolute().parts
        if parts[1:3] == ("dev", "fd") or parts[1:2] == ("proc",):
            return None  # a descriptor, whose name says nothing about the data
        return self.paths[0].name.split(".")[0] or None


@dataclass(frozen=True)
class RemoteLocation(Location):
    """Data outside the file system, named by an address that holds no secret.

    Without ``address`` only Spark can find the data: Parquet files in another file system, or a table of Spark's
    catalog.

    Attributes:
        table: the name of the table in Spark's catalog; empty for files and PostgreSQL.
        address: the address of a table on a PostgreSQL server; ``text`` is this address without its options.
    """

    table: str = ""
    address: PostgresAddress | None = None

    @property
    def identity(self) -> str:
        """The source as the ledger records it: the address."""
        return self.text

    @property
    def is_stream(self) -> bool:
        """Always False: a server can read its data again."""
        return False

    @property
    def dataset(self) -> str | None:
        """The default name of the data set: the name of the table; None for files."""
        return self.address.table if self.address else self.table.split(".")[-1] or None


@dataclass(frozen=True)
class FrameLocation(Location):
    """A data frame in memory; the ledger records it like standard input, because its content has no name."""

    frame: Any = field(default=None, repr=False, compare=False)

    @property
    def format(self) -> str:
        """Always ``frame``, because there is no file."""
        return "frame"


def is_frame(data: Any) -> bool:
    """Return whether data are a pandas or Polars data frame or an Arrow table."""
    kind = type(data)
    return kind.__name__ in {"DataFrame", "Table"} and kind.__module__.split(".")[0] in {"pandas", "polars", "pyarrow"}


def _unpacked_size(path: Path) -> int:
    if path.suffix.lower() != _COMPRESSED:
        return path.stat().st_size
    with open_bytes(path) as stream:
        return sum(map(len, iter(lambda: stream.read(1 << 20), b"")))


def is_remote(text: str) -> bool:
    """Return whether a text is an address or the name of a table, instead of a path."""
    return is_address(text) or text.startswith(_TABLE) or _REMOTE.match(text) is not None


def locate_for_spark(*texts: str) -> Location:
    """Return a location that Spark reads: local files, ``table:NAME``, or an address such as ``s3a://``.

    Raises:
        SourceError: there is no such file, the table's name is malformed, or an address may hold a secret.
    """
    if len(texts) != 1 or not is_remote(texts[0]):
        return locate(*texts)
    (text,) = texts
    if text.startswith(_TABLE):
        name = text.removeprefix(_TABLE)
        if not _TABLE_NAME.fullmatch(name):
            raise SourceError("the name of a table has letters, digits and '_', in parts joined by '.'")
        return RemoteLocation(text, (), table=name)
    if is_address(text):
        raise SourceError("PostgreSQL tables are read by their own server, not by Spark", hint="omit --engine")
    if not _ADDRESS.fullmatch(text):
        raise SourceError(
            "the address of the files is malformed or may hold a secret; it was not used",
            hint="write SCHEME://PLACE/PATH, without a password; keys belong in Spark's settings",
        )
    return RemoteLocation(text, ())


def locate(*texts: str) -> Location:
    """Return the location of all files that paths and globs name, of standard input, or of a PostgreSQL table.

    Several files form one data set; their order does not matter.

    Args:
        texts: one or more paths and globs; or only ``-``; or only the address of a table.

    Raises:
        SourceError: an address is not supported, a file does not exist or cannot be read, a path is a directory, or one
            of several texts is a stream or a table.
    """
    if len(texts) == 1:
        return _locate_one(texts[0])
    locations = [_locate_one(text) for text in texts]
    if any(location.is_stream for location in locations):
        raise SourceError("several files are named, and one of them is a pipe", hint="name regular files")
    if not all(location.paths for location in locations):
        raise SourceError(
            "several sources are named, but only files can be combined", hint="name one table, or several files"
        )
    paths = _distinct(sorted({path for location in locations for path in location.paths}))
    return Location(" ".join(texts), paths, pattern=True)


def _locate_one(text: str) -> Location:
    if text in {STDIN, "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"}:
        return Location(STDIN, ())
    if is_address(text):
        address = parse_table_address(text)
        return RemoteLocation(address.location, (), address=address)
    if "://" in text:
        raise SourceError("remote sources are not supported", hint="copy the file, or pipe it into '-'")
    if "\0" in text:
        raise SourceError("the path of the data holds a NUL character")
    pattern = not os.path.lexists(text) and any(mark in text for mark in "*?[")
    paths = [Path(n) for n in sorted(glob.glob(text, recursive=True))] if pattern else [Path(text)]  # noqa: PTH207
    if not paths:
        raise SourceError(f"no file matches {text!r}")
    for path in paths:
        _check_readable(path)
    if len(paths) > 1 and not all(path.is_file() for path in paths):
        raise SourceError("several files are named, and one of them is a pipe", hint="name regular files")
    return Location(text, _distinct(paths), pattern)


def _distinct(paths: list[Path]) -> tuple[Path, ...]:
    """Return each file once: a file with several names must not count several times."""
    distinct: dict[tuple[int, int], Path] = {}
    for path in paths:
        status = path.stat()
        distinct.setdefault((status.st_dev, status.st_ino), path)
    return tuple(distinct.values())


def _check_readable(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise SourceError(
            f"cannot read {str(path)!r}: {os.strerror(error.errno or 0)}",
            hint=near_file(path) or "name a file, as ls shows it",
        ) from None
    if stat.S_ISDIR(mode):
        kinds = sorted({child.suffix for child in path.iterdir() if child.suffix in _READ}) or [".csv"]
        names = " or ".join(repr(str(path / f"*{kind}")) for kind in kinds)
        raise SourceError(f"{str(path)!r} is a directory; expected a file", hint=f"name its files: {names}")
    _check_kind(str(path), mode)
    if not os.access(path, os.R_OK):
        raise SourceError(f"cannot read {str(path)!r}: permission denied")


def _check_kind(name: str, mode: int) -> None:
    """Refuse anything but a file or a pipe: a device may have no end."""
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        raise SourceError(f"{name!r} is neither a file nor a pipe", hint="name a file, or pipe the data into '-'")


_OPEN_FILES: list[BinaryIO] = []


def share_read() -> float | None:
    """Return the fraction of the current file on disk that has been read; None if no file is being read."""
    try:
        descriptor = _OPEN_FILES[-1].fileno()
        return os.lseek(descriptor, 0, os.SEEK_CUR) / max(os.fstat(descriptor).st_size, 1)
    except (IndexError, OSError, ValueError):
        return None  # closed meanwhile, or a pipe


@contextmanager
def open_bytes(path: Path | None) -> Iterator[BinaryIO]:
    """Open a file, or standard input for None, to read its bytes; a ``.gz`` file is decompressed.

    Raises:
        SourceError: the file cannot be opened, read or decompressed; the message does not repeat the library's.
    """
    import gzip
    import zlib

    try:
        if path is None:
            if sys.stdin is None:
                raise SourceError(
                    "the data cannot be read from standard input, because it is closed",
                    hint="pipe the data in, or name a file",
                )
            yield sys.stdin.buffer
            return
        with path.open("rb") as raw:
            _check_kind(str(path), os.fstat(raw.fileno()).st_mode)  # it may have been replaced meanwhile
            _OPEN_FILES.append(raw)
            try:
                is_compressed = path.suffix.lower() == _COMPRESSED
                with gzip.GzipFile(fileobj=raw) if is_compressed else nullcontext(raw) as stream:
                    yield cast(BinaryIO, stream)
            finally:
                _OPEN_FILES.remove(raw)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        if "Not a gzipped file" in str(error):
            message = f"{str(path)!r} is not compressed by gzip, although its name ends in .gz"
            raise SourceError(message, hint="give it a name without .gz") from None
        problem = "damaged" if isinstance(error, gzip.BadGzipFile) else "not complete"
        hint = "copy or export it again; gzip -t FILE tests a file"
        raise SourceError(f"the gzip file {str(path)!r} is {problem}", hint=hint) from None
    except OSError as error:
        raise SourceError(f"cannot read {str(path or STDIN)!r}: {os.strerror(error.errno or 0)}") from None
