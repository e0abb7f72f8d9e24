"""Write files next to their target, sync them to disk, then rename them to the target, which must not exist."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from dpbayes_cli.base.atomic_file import (
    is_partial,
    locked_directory,
    make_directories,
    new_file,
    rename_without_replacing,
    sync,
)
from dpbayes_cli.base.errors import OutputError


def check_target(target: Path, option: str = "--out") -> None:
    """Refuse a target at which no new file or directory can be written; make its missing parent directories."""
    another = f"choose another {option}"
    try:
        str(target).encode("utf-8")
    except UnicodeEncodeError:
        raise OutputError(f"the name {str(target)!r} is not valid UTF-8", hint=another) from None
    if os.path.lexists(target):
        raise OutputError(f"{str(target)!r} exists already", hint=f"{another}: dpbayes never replaces a file")
    if os.path.lexists(target.absolute().parent / "release.json"):
        raise OutputError(f"{str(target)!r} lies inside a bundle", hint=f"{another}: bundles do not change")
    if is_partial(target.name):
        raise OutputError(
            f"{str(target)!r} has the name of a temporary file, which dpbayes may remove",
            hint=another,
        )
    try:
        if not (parent := target.absolute().parent).is_dir():
            make_directories(parent)
        with locked_directory(target):
            pass
    except OSError as error:
        raise OutputError(f"cannot write {str(target)!r}: {error.strerror}", hint=another) from None


@contextmanager
def new_directory(target: Path, moment: datetime | None = None) -> Iterator[Path]:
    """Yield a private directory next to the target, and rename it to the target if the block ends without an error.

    Before that, its files get mode 0600, the directory gets mode 0700, and all are synced to disk. If the block raises
    an error, the directory is removed, and nothing becomes visible. Files keep the times at which they were written
    unless ``moment`` is given. An ``OutputError`` says that the directory cannot be written, or that the target exists.
    """
    with scratch_directory(target) as partial:
        yield partial
        for path in sorted(partial.iterdir()):
            _sync(path, 0o600, moment)
        _sync(partial, 0o700, moment)
        rename_without_replacing(partial, target)
        sync(target.absolute().parent)


@contextmanager
def scratch_directory(target: Path) -> Iterator[Path]:
    """Yield a private directory next to a target, and remove it afterward if it still exists."""
    try:
        with locked_directory(target) as partial:
            yield partial
    except OSError as error:
        raise OutputError(f"cannot write {str(target)!r}: {error.strerror}") from None


def publish_file(target: Path, content: bytes) -> None:
    """Write a new file completely or not at all, readable by its owner alone."""
    try:
        with new_file(target) as partial:
            partial.write_bytes(content)
    except OSError as error:
        raise OutputError(f"cannot write {str(target)!r}: {error.strerror}") from None


def write_new(path: Path, content: bytes) -> None:
    """Write a new file, readable by its owner alone; neither replace a file nor follow a link."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "wb") as file:  # noqa: PTH123 - a descriptor
        file.write(content)


def _sync(path: Path, mode: int, moment: datetime | None) -> None:
    """Set the mode and the time of a file or directory, and sync it to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not (stat.S_ISREG(os.fstat(descriptor).st_mode) or stat.S_ISDIR(os.fstat(descriptor).st_mode)):
            raise OutputError(f"{path.name!r} is not a regular file")
        os.fchmod(descriptor, mode)
        if moment is not None:
            os.utime(descriptor, (moment.timestamp(), moment.timestamp()))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
