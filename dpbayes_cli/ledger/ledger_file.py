"""The ledger's file as a file: it has one name, and it stays the same file for as long as it is open."""

from __future__ import annotations

import time
from pathlib import Path

from dpbayes_cli.base.atomic_file import remove_abandoned, sync
from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.base.mounts import is_mount_point, network_file_system, read_mount_table

_ATTEMPTS, _PAUSE = 10, 0.05
"""How often, and after how many seconds, a second name is looked at: another process may be removing what is left."""


def file_identity(path: Path) -> tuple[int, int] | None:
    """Return which file has a name; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def make_directories(directory: Path) -> None:
    """Make a directory and those that it is in, for their owner alone; their names are on disk when this returns.

    What is there already is synced too: whoever made it may have been killed before that.

    Raises:
        OSError: one cannot be made, or not brought to the disk.
    """
    if directory == directory.parent:
        return
    make_directories(directory.parent)
    made = not directory.is_dir()
    if made:
        directory.mkdir(mode=0o700, exist_ok=True)
    try:
        sync(directory.parent)
    except OSError:
        if made:  # else it is not ours, as the root of a file system that is only read
            raise


def check_local(path: Path) -> None:
    """Refuse a path on a network's file system.

    Raises:
        LedgerError: it is on one.
    """
    kind = network_file_system(path)
    if kind:
        raise LedgerError(
            f"the ledger {str(path)!r} would be on a network's file system ({kind}), whose locks a ledger in a file "
            "cannot rely on",
            hint="keep it on a disk of this host, or, where several hosts share it, in PostgreSQL: "
            "--ledger postgresql://HOST/DATABASE; an anchor may be on a network",
        )


def check_one_name(path: Path) -> None:
    """Refuse a file that has another name too: SQLite leaves its journal beside the name that was used.

    After a crash the users of one name undo what the other's had begun; who uses the other name sees no journal, and
    what they charge meanwhile is rolled back.

    Raises:
        LedgerError: it has several names, or is mounted by itself.
    """
    if is_mount_point(path, read_mount_table()):
        raise LedgerError(
            f"the ledger {str(path)!r} is mounted as a single file, beside which no journal is seen",
            hint="mount the directory that it is in",
        )
    for _ in range(_ATTEMPTS):
        if _links(path) == 1:
            return
        remove_abandoned(path.parent)  # a crash while the ledger got its name may have left another one
        time.sleep(_PAUSE)
    if (links := _links(path)) > 1:
        raise LedgerError(
            f"the ledger {str(path)!r} has {links} names (hard links): after a crash its users would lose charges",
            hint=f"keep one name and remove the others: find DIRECTORY -samefile {path}",
        )


def _links(path: Path) -> int:
    """Return how many names a file has; one if it is not there."""
    try:
        return path.stat().st_nlink
    except OSError:
        return 1
