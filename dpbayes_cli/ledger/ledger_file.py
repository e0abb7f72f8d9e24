"""Check that the ledger's file is on a local disk and has only one name; wait for locks."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dpbayes_cli.base.atomic_file import remove_abandoned
from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.base.mounts import is_mount_point, network_file_system, read_mount_table

_ATTEMPTS, _RETRY_SECONDS = 10, 0.05
"""How often to check for a second name, which another process may be removing, and the seconds between checks."""
Result = TypeVar("Result")


def file_identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a file; None if there is no such file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def retry_while_locked(lock: Callable[[], Result], seconds: float) -> Result:
    """Repeat a call until it raises no ``BlockingIOError``; after ``seconds``, raise the error."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return lock()
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)


def check_local(path: Path) -> None:
    """Raise ``LedgerError`` if a path is on a network file system."""
    kind = network_file_system(path)
    if kind:
        raise LedgerError(
            f"the ledger {str(path)!r} is on a network file system ({kind}), whose locks are not reliable",
            hint="keep it on a disk of this host, or in PostgreSQL if several hosts share it: "
            "--ledger postgresql://HOST/DATABASE",
        )


def check_one_name(path: Path) -> None:
    """Raise ``LedgerError`` if a file has several names, or is mounted as a single file.

    SQLite keeps the journal beside the name by which the file was opened. If a process crashes, a second process that
    opens the file by another name does not see the journal. Its charges would be rolled back when a third process opens
    the file by the first name.
    """
    if is_mount_point(path, read_mount_table()):
        raise LedgerError(
            f"the ledger {str(path)!r} is mounted as a single file, so that its journal cannot be seen",
            hint="mount the directory of the ledger instead",
        )
    for _ in range(_ATTEMPTS):
        if _links(path) == 1:
            return
        remove_abandoned(path.parent)  # a crash while the ledger was created may have left a second name
        time.sleep(_RETRY_SECONDS)
    if (links := _links(path)) > 1:
        raise LedgerError(
            f"the ledger {str(path)!r} has {links} names (hard links): after a crash charges could be lost",
            hint=f"keep one name and remove the others: find DIRECTORY -samefile {path}",
        )


def _links(path: Path) -> int:
    try:
        return path.stat().st_nlink
    except OSError:
        return 1
