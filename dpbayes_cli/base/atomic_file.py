"""Files and directories that are there whole or not at all: made in a directory beside their place, and renamed.

Its writer holds that directory by a lock of the kernel (``flock``), which ends with the writer however it ends, and
which every process of this host sees, in whichever container. Whose lock is free is dead, and the next writer to the
same parent removes it. A process id says nothing: another container counts its processes from 1, as this one does.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from dpbayes_cli.base.mounts import network_file_system

_RENAME_NOREPLACE = 1
_AT_FDCWD = -100
_HELD = re.compile(r"\..+\.held-[0-9a-f]{16}\.partial", re.DOTALL)
"""What may be removed where its lock is free. What an earlier version left has the number of a process in its name and
no lock; what lies on a network's file system, where a lock may hold on one host alone, is named ``unheld``: neither is
ever removed by another process than its writer."""


@contextmanager
def locked_directory(target: Path) -> Iterator[Path]:
    """Yield an empty directory beside a target, for its owner alone, removed afterwards if it is still there.

    Args:
        target: the file or directory to be.

    Raises:
        OSError: it cannot be made.
    """
    parent = target.absolute().parent
    remove_abandoned(parent)
    partial, descriptor = _make(parent, target.name)
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        os.close(descriptor)  # never LOCK_UN: that would free the lock also for a child that was forked meanwhile


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """Yield an empty file for its owner alone that gets its name when the block ends well.

    Args:
        target: the file to be; nothing that is there is ever replaced.

    Raises:
        FileExistsError: something has its name.
        OSError: it cannot be written.
    """
    with locked_directory(target) as directory:
        partial = directory / "file"
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        yield partial
        sync(partial)
        rename_without_replacing(partial, target)
        sync(target.absolute().parent)


def is_partial(name: str) -> bool:
    """Return whether a name is of the form that a later writer may remove."""
    return _HELD.fullmatch(name) is not None


def remove_abandoned(directory: Path) -> None:
    """Remove what killed writers left in a directory; what is held, not ours, or not to be told stays."""
    with suppress(OSError):
        for name in filter(is_partial, os.listdir(directory)):  # noqa: PTH208 - names alone
            with suppress(OSError):
                _remove_if_dead(directory / name)


def _remove_if_dead(partial: Path) -> None:
    """Remove a directory if its lock is free and it still has its name."""
    if network_file_system(partial):
        return
    descriptor = _opened(partial)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # its writer may have renamed it into place and let go since its name was read: then it is no longer here
        if _names(partial, descriptor) and os.fstat(descriptor).st_uid == os.getuid():
            shutil.rmtree(partial, ignore_errors=True)
    finally:
        os.close(descriptor)


def _make(parent: Path, name: str) -> tuple[Path, int]:
    """Make an empty directory and lock it; return its path and the descriptor that holds the lock."""
    kind = "unheld" if network_file_system(parent) else "held"
    while True:
        partial = parent / f".{name}.{kind}-{secrets.token_hex(8)}.partial"
        partial.mkdir(mode=0o700)
        with ExitStack() as undo:
            undo.callback(shutil.rmtree, partial, ignore_errors=True)
            try:
                descriptor = _opened(partial)
            except FileNotFoundError:
                continue  # another writer found it before it was locked, and removed it, empty as it was
            undo.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            except OSError:  # no locks here: it gets a name under which nobody removes it
                if kind == "held":
                    kind = "unheld"
                    continue
            if _names(partial, descriptor):
                undo.pop_all()
                return partial, descriptor


def _opened(directory: Path) -> int:
    """Open a directory without following a link; a program that is run meanwhile does not inherit its lock."""
    return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _names(path: Path, descriptor: int) -> bool:
    """Return whether a path is still the name of what is open."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def rename_without_replacing(source: Path, target: Path) -> None:
    """Rename atomically, failing with EEXIST where anything is at the target (os.rename replaces empty directories)."""
    libc = ctypes.CDLL(None, use_errno=True)
    rename = getattr(libc, "renameat2", None) if sys.platform == "linux" else None
    if rename is not None:
        result = rename(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE)
        code = ctypes.get_errno()
        if result == 0:
            return
        if code not in {errno.EINVAL, errno.ENOSYS}:
            raise OSError(code, os.strerror(code))
    # The file system cannot: claim the name with something empty of our own, and rename over that.
    if source.is_dir():
        target.mkdir(mode=0o700)
        source.rename(target)
        return
    try:
        os.link(source, target)  # a file need not be seen empty
    except OSError as error:
        if error.errno not in {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}:
            raise
        target.touch(mode=0o600, exist_ok=False)
        source.rename(target)


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
