"""Write files and directories that exist whole or not at all: write to a partial directory, then rename.

The partial directory is beside the target. Its writer locks it with ``flock``. The kernel releases the lock even if the
writer is killed, and every process of the host sees the lock, even from another container. So a partial directory whose
lock is free was abandoned, and the next writer to the same parent removes it. A process ID would not identify the
writer, because each container counts from 1.
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
"""Names of partial directories that any writer may remove if their lock is free. Two kinds of directories have names
that do not match, because nobody sees a lock that is in use: those of earlier versions, which took no lock, and those
on a network file system (``unheld``), whose lock other hosts may not see."""


@contextmanager
def locked_directory(target: Path) -> Iterator[Path]:
    """Yield an empty locked directory beside a target, readable by its owner only; remove it afterward."""
    parent = target.absolute().parent
    remove_abandoned(parent)
    partial, descriptor = _make(parent, target.name)
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        os.close(descriptor)  # not LOCK_UN, which would also release the lock for a forked child


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """Yield an empty file, readable by its owner only; if the block ends well, rename it to the new target."""
    with locked_directory(target) as directory:
        partial = directory / "file"
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        yield partial
        sync(partial)
        rename_without_replacing(partial, target)
        sync(target.absolute().parent)


def is_partial(name: str) -> bool:
    """Return whether a name belongs to a partial directory that other writers may remove."""
    return _HELD.fullmatch(name) is not None


def remove_abandoned(directory: Path) -> None:
    """Remove the partial directories that killed writers of this user left; keep those whose lock is held."""
    with suppress(OSError):
        for name in filter(is_partial, os.listdir(directory)):  # noqa: PTH208 - names alone
            with suppress(OSError):
                _remove_if_unlocked(directory / name)


def _remove_if_unlocked(partial: Path) -> None:
    """Remove a partial directory if its lock is free and it still has its name."""
    if network_file_system(partial):
        return
    descriptor = _open_directory(partial)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # its writer may have renamed it into place and released the lock since its name was listed
        if _is_path_of(partial, descriptor) and os.fstat(descriptor).st_uid == os.getuid():
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
                descriptor = _open_directory(partial)
            except FileNotFoundError:
                continue  # another writer removed it before it was locked
            undo.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            except OSError:  # no locks on this file system: use a name that nobody else removes
                if kind == "held":
                    kind = "unheld"
                    continue
            if _is_path_of(partial, descriptor):
                undo.pop_all()
                return partial, descriptor


def _open_directory(directory: Path) -> int:
    return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _is_path_of(path: Path, descriptor: int) -> bool:
    """Return whether a path still leads to the directory that a descriptor holds open."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def rename_without_replacing(source: Path, target: Path) -> None:
    """Rename atomically; fail with EEXIST if the target exists (os.rename would replace an empty directory)."""
    libc = ctypes.CDLL(None, use_errno=True)
    rename = getattr(libc, "renameat2", None) if sys.platform == "linux" else None
    if rename is not None:
        result = rename(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE)
        code = ctypes.get_errno()
        if result == 0:
            return
        if code not in {errno.EINVAL, errno.ENOSYS}:
            raise OSError(code, os.strerror(code))
    # The file system has no such call: claim the name with an empty directory or file, and rename over it.
    if source.is_dir():
        target.mkdir(mode=0o700)
        source.rename(target)
        return
    try:
        os.link(source, target)  # so that nobody sees an empty file
    except OSError as error:
        if error.errno not in {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}:
            raise
        target.touch(mode=0o600, exist_ok=False)
        source.rename(target)


def sync(path: Path) -> None:
    """Write a file, or the names in a directory, to the disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directories(directory: Path) -> None:
    """Make a directory and its parents, accessible to their owner only, and wait until they are on disk.

    Existing directories are synced too: the process that made them may have been killed before its own sync.
    """
    if directory == directory.parent:
        return
    make_directories(directory.parent)
    is_new = not directory.is_dir()
    if is_new:
        directory.mkdir(mode=0o700, exist_ok=True)
    try:
        sync(directory.parent)
    except OSError:
        if is_new:  # another program's directory need not allow a sync, e.g. on a read-only file system
            raise
