"""Read a bundle back."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path

from dpbayes_cli.base.canonical import digest_of_blocks
from dpbayes_cli.base.errors import OutputError, VerificationError
from dpbayes_cli.base.grammar import STEERING
from dpbayes_cli.bundle.document import ReleaseDocument, parse_document
from dpbayes_cli.bundle.files import RELEASE

LARGEST_TEXT = 256 << 20
"""Bytes of any file of a bundle but its samples."""
_BLOCK = 1 << 20
_NO_FILE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO}
_ESCAPED = re.compile(r"\\u(?:00[0189]|007f|202[89a-e]|206[6-9])|(?<!\\)\\[bfr]", re.IGNORECASE)
"""What ``STEERING`` finds, as JSON may write it; a line feed and a tab are harmless."""


def read_document(bundle: Path) -> ReleaseDocument:
    """Read the release document of a bundle.

    Raises:
        OutputError: there is no bundle at this path.
        VerificationError: it holds no valid release document.
    """
    content = read_file(bundle / RELEASE)
    if content is None:
        raise OutputError(f"there is no bundle at {str(bundle)!r}", hint="name the directory that release printed")
    document = parse_document(content)
    text = content.decode("utf-8", "replace")
    if STEERING.search(text.replace("\n", "")) or _ESCAPED.search(text):
        raise VerificationError("release.json holds control characters; it is not of dpbayes")
    return document


def open_regular(path: Path) -> int | None:
    """Return the descriptor of a regular file that is open to be read, following no link; None where there is none.

    Raises:
        OutputError: something is there that cannot be opened now, which says nothing about what it is.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _NO_FILE:
            return None
        raise OutputError(f"cannot read {path.name!r}: {os.strerror(error.errno or 0)}") from None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


def file_digest(path: Path, most: int) -> str | None:
    """Return the digest of a regular file, following no link; None where there is none.

    Args:
        path: the file.
        most: how many bytes it can have; one that is larger is not read.

    Raises:
        VerificationError: it is larger.
        OutputError: it cannot be opened now.
    """
    descriptor = open_regular(path)
    if descriptor is None:
        return None
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        if size > most:
            raise VerificationError(f"{path.name} has {size} bytes, and can have {most} at the most")
        blocks = (file.read(min(_BLOCK, size - start)) for start in range(0, size, _BLOCK))
        return digest_of_blocks("file", size, blocks)


def read_file(path: Path) -> bytes | None:
    """Return the content of a regular file, following no link; None where there is none.

    Raises:
        VerificationError: it is larger than any file of a bundle.
        OutputError: it cannot be opened now.
    """
    descriptor = open_regular(path)
    if descriptor is None:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if os.fstat(descriptor).st_size > LARGEST_TEXT:
            raise VerificationError(f"{path.name!r} is larger than {LARGEST_TEXT >> 20} MiB")
        return file.read(LARGEST_TEXT)
