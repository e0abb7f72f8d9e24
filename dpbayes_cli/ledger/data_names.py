"""By which names a recorded source goes: which files or table it is, and the words by which its charges are found.

What the ledger records of a source is a text. Two names of one file are found out by the file system as long as both
lead to it: symbolic links, hard links, mounts. A copy, a view or another name of a server is not found out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from dpbayes_cli.base.canonical import digest

_TABLE = re.compile(r"postgresql://(?:[^@/]*@)?(?P<host>[^/]*?)(?::(?P<port>[0-9]+))?/(?P<table>.*)", re.DOTALL)
_NEXT_PATH = re.compile(re.escape(os.pathsep) + r"(?=/)")
_DESCRIPTORS = ("/dev/fd/", "/proc/")
"""Their names say nothing about the data."""


def data_names(source: str) -> set[str]:
    """Return the names of the files or the table that a recorded source holds; none if it is a stream.

    A table is the same whoever reads it, so that the user is no part of its name.
    """
    if match := _TABLE.fullmatch(source):
        return {f"postgresql://{match['host'].lower()}:{match['port'] or 5432}/{match['table']}"}
    source = source.removeprefix("file://")
    if not source.startswith("/"):
        return {source} - {"-"}
    return {name for name in _NEXT_PATH.split(source) if not name.startswith(_DESCRIPTORS)}


def is_same_source(recorded: str, source: str) -> bool:
    """Return whether a source is the recorded one, by whatever names their files go now."""
    if recorded == source:
        return True
    names = data_names(source)
    return bool(names) and set(map(resolve_file, names)) == set(map(resolve_file, data_names(recorded)))


def file_numbers(source: str) -> dict[str, int]:
    """Return the number that the file system gives to each file of a source that is there now."""
    identities = {name: resolve_file(name) for name in sorted(data_names(source))}
    return {name: identity[1] for name, identity in identities.items() if isinstance(identity, tuple)}


def data_terms(account: str, source: str, numbers: Mapping[str, int]) -> list[str]:
    """Return the words by which a charge is found again from its data, or from the files that these were."""
    names = [data_term(name) for name in sorted(data_names(source))]
    names += [f"inode:{number}" for number in sorted(set(numbers.values()))]
    return [*names, *(f"paid by {account} for {name}" for name in names)]


def data_term(name: str) -> str:
    """Return the word for a name, which may be no Unicode text."""
    return f"data:{digest('data name', name.encode('utf-8', 'surrogatepass'))}"


def resolve_file(name: str) -> str | tuple[int, int]:
    """Return what is behind a name: the file that it leads to now, else the name itself."""
    if name.startswith("/"):
        try:
            status = os.stat(name)  # noqa: PTH116 - for many names, and a Path for each takes longer than this
        except (OSError, ValueError):
            return name
        return status.st_dev, status.st_ino
    return name
