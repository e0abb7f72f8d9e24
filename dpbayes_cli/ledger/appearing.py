"""Files that are there whole or not at all: written beside their place, synced, and linked there without replacing."""

from __future__ import annotations

import errno
import glob
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """Yield an empty file for its owner alone that gets its name when the block ends well.

    Args:
        target: the file to be; nothing that is there is ever replaced.

    Raises:
        FileExistsError: something has its name.
        OSError: it cannot be written.
    """
    partial = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.partial")
    _remove_dead(target)
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600))
    try:
        yield partial
        sync(partial)
        _give_name(partial, target)
    finally:
        partial.unlink(missing_ok=True)
        sync(target.parent)


def finish_appearing(target: Path) -> None:
    """Do what a creator that was killed right after it gave a file its name has left undone.

    Raises:
        OSError: it cannot be done.
    """
    _remove_dead(target)
    sync(target.parent)


def _give_name(partial: Path, target: Path) -> None:
    """Name a file, replacing nothing."""
    try:
        os.link(partial, target)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}:
            raise
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # no links here: take the name first
        partial.replace(target)


def _remove_dead(target: Path) -> None:
    """Remove what killed creators left behind."""
    for path in target.parent.glob(f".{glob.escape(target.name)}.*.partial*"):
        pid = path.name.removeprefix(f".{target.name}.").partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Bring a file, or the names in a directory, to the disk.

    Raises:
        OSError: it cannot be.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
