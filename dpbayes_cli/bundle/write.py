"""Write a bundle: beside its place, whole, synced, then renamed into place without replacing anything."""

from __future__ import annotations

import ctypes
import errno
import glob
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from dpbayes_cli.errors import OutputError

_RENAME_NOREPLACE = 1
_AT_FDCWD = -100
_PARTIAL = ".partial"


def check_target(target: Path) -> None:
    """Refuse a target that cannot be written, by trying beside it.

    Raises:
        OutputError: something is there already, or its directory is missing or not writable.
    """
    try:
        str(target).encode("utf-8")
    except UnicodeEncodeError:
        raise OutputError(f"the name {str(target)!r} is not UTF-8", hint="choose another --out") from None
    if os.path.lexists(target):
        raise OutputError(f"{str(target)!r} exists already", hint="choose another --out; nothing is ever replaced")
    if os.path.lexists(target.absolute().parent / "release.json"):
        raise OutputError(f"{str(target)!r} lies inside a bundle", hint="choose another --out: bundles do not change")
    probe = _beside(target)
    try:
        probe.mkdir(mode=0o700)
        probe.rmdir()
    except OSError as error:
        raise OutputError(f"cannot write {str(target)!r}: {error.strerror}", hint="choose another --out") from None


@contextmanager
def new_directory(target: Path, moment: datetime | None = None) -> Iterator[Path]:
    """Yield a private directory beside the target that becomes the target when the block ends well.

    Everything in it is synced to disk first, with mode 0600; the directory gets 0700. Where the block raises, the
    directory is removed and nothing becomes visible.

    Args:
        target: the directory to be.
        moment: when all of it is to have been last changed, as file systems, copies and archives tell it; None: now.

    Raises:
        OutputError: it cannot be written, or something else has taken the place meanwhile.
    """
    with scratch_directory(target) as partial:
        yield partial
        for path in sorted(partial.iterdir()):
            _sync(path, 0o600, moment)
        _sync(partial, 0o700, moment)
        _rename_without_replacing(partial, target)
        _sync(target.absolute().parent, None)


@contextmanager
def scratch_directory(target: Path) -> Iterator[Path]:
    """Yield a private directory beside a target, removed afterwards if it is still there.

    Raises:
        OutputError: it cannot be made or written.
    """
    _remove_dead(target)
    partial = _beside(target)
    try:
        partial.mkdir(mode=0o700)
        try:
            yield partial
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise OutputError(f"cannot write {str(target)!r}: {error.strerror}") from None


def new_file(target: Path, content: bytes) -> None:
    """Write one file that is there whole or not at all, for its owner alone.

    Raises:
        OutputError: it cannot be written, or something is there.
    """
    with scratch_directory(target) as partial:
        path = partial / target.name
        write_new(path, content)
        _sync(path, 0o600)
        _rename_without_replacing(path, target)
        _sync(target.absolute().parent, None)


def write_new(path: Path, content: bytes) -> None:
    """Write a file that must not exist, for its owner alone, following no link."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "wb") as file:  # noqa: PTH123 - a descriptor
        file.write(content)


def _beside(target: Path) -> Path:
    return target.absolute().parent / f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}{_PARTIAL}"


def _remove_dead(target: Path) -> None:
    """Remove what a killed writer of the same target left behind."""
    for path in target.absolute().parent.glob(f".{glob.escape(target.name)}.*{_PARTIAL}"):
        pid = path.name.removeprefix(f".{target.name}.").partition("-")[0]
        with suppress(OSError):
            if pid.isdigit() and not _runs(int(pid)) and path.lstat().st_uid == os.getuid():
                shutil.rmtree(path, ignore_errors=True)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _sync(path: Path, mode: int | None, moment: datetime | None = None) -> None:
    """Set the mode and the time of a file or directory of ours and bring it to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if mode is not None:
            if not (stat.S_ISREG(os.fstat(descriptor).st_mode) or stat.S_ISDIR(os.fstat(descriptor).st_mode)):
                raise OutputError(f"{path.name!r} is not a regular file")
            os.fchmod(descriptor, mode)
        if moment is not None:
            os.utime(descriptor, (moment.timestamp(), moment.timestamp()))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rename_without_replacing(source: Path, target: Path) -> None:
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
    else:
        target.touch(mode=0o600, exist_ok=False)
    source.rename(target)
