"""The names of a recorded data source (its files or its table), and the index terms that find its charges.

Two paths to one file (symbolic links, hard links, mounts) are the same data while both exist. A copy, a view or a
second name of a server is not recognized.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from dpbayes_cli.base.canonical import digest

_TABLE = re.compile(r"postgresql://(?:[^@/]*@)?(?P<host>[^/]*?)(?::(?P<port>[0-9]+))?/(?P<table>.*)", re.DOTALL)
_NEXT_PATH = re.compile(re.escape(os.pathsep) + r"(?=/)")
_DESCRIPTORS = ("/dev/fd/", "/proc/")
"""Paths with these prefixes name open files of one process; in another process, they name other data."""


def data_names(source: str) -> set[str]:
    """Return the names of the files or of the table (without its user) in a recorded source; none for a stream."""
    if match := _TABLE.fullmatch(source):
        return {f"postgresql://{match['host'].lower()}:{match['port'] or 5432}/{match['table']}"}
    source = source.removeprefix("file://")
    if not source.startswith("/"):
        return {source} - {"-"}
    return {name for name in _NEXT_PATH.split(source) if not name.startswith(_DESCRIPTORS)}


def is_same_source(recorded: str, source: str) -> bool:
    """Return whether a source is a recorded source, perhaps by other paths to the same files."""
    if recorded == source:
        return True
    names = data_names(source)
    return bool(names) and set(map(resolve_file, names)) == set(map(resolve_file, data_names(recorded)))


def file_numbers(source: str) -> dict[str, int]:
    """Return the inode numbers of the existing files of a source, by file name."""
    identities = {name: resolve_file(name) for name in sorted(data_names(source))}
    return {name: identity[1] for name, identity in identities.items() if isinstance(identity, tuple)}


def data_terms(account: str, source: str, numbers: Mapping[str, int]) -> list[str]:
    """Return the index terms of a charge: the names of its data, the inode numbers, and each name with the account."""
    names = [data_term(name) for name in sorted(data_names(source))]
    names += [f"inode:{number}" for number in sorted(set(numbers.values()))]
    return [*names, *(f"paid by {account} for {name}" for name in names)]


def data_term(name: str) -> str:
    """Return the index term of a file name or table name, which need not be valid Unicode."""
    return f"data:{digest('data name', name.encode('utf-8', 'surrogatepass'))}"


def resolve_file(name: str) -> str | tuple[int, int]:
    """Return the device and inode of the file that a name leads to now; the name itself if there is no such file."""
    if name.startswith("/"):
        try:
            status = os.stat(name)  # noqa: PTH116 - for many names, creating a Path takes longer than this call
        except (OSError, ValueError):
            return name
        return status.st_dev, status.st_ino
    return name
