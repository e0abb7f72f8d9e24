"""Public data files of a study, read as integer codes of columns with public domains."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.core.columns import AnyColumn, RecordPolicy
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.location import locate
from dpbayes_cli.sources.packed_codes import CodeReader
from dpbayes_cli.spec.source_section import SourceSection
from dpbayes_cli.workflow.release_data import source_of

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers

POLICY = RecordPolicy(Neighbors.REPLACE_ONE)
"""The policy for files whose columns all have stand-ins: records are complete, and their number is public."""


def absolute(base: Path, path: str | None) -> str | None:
    """Return the absolute path of a file whose path is given relative to the directory of the study file."""
    return None if path is None else os.path.abspath(base / path)  # noqa: PTH100 - links stay as they are named


def file_digest(path: str) -> str:
    """Return the SHA-256 digest of a file, which identifies the data of a study.

    Raises:
        SourceError: the file cannot be read, or is a pipe or a device.
    """
    if locate(path).is_stream:
        raise SourceError(
            f"{path!r} is not a regular file", hint="state a regular file; a study reads its data more than once"
        )
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SourceError(f"cannot read {path!r}: {error.strerror}") from None


def read_codes(path: str, columns: Sequence[AnyColumn]) -> Integers:
    """Return the codes of all records of a file in their order, shape (n_records, n_columns); -1 for an invalid cell.

    Args:
        columns: the columns to read; the ``role`` of a column is its name in the file.

    Raises:
        SourceError: the file cannot be read, or lacks a column.
    """
    blocks: list[Integers] = []
    with closing(source_of(SourceSection(), locate(path))) as source:
        source.check(columns, [column.role for column in columns])
        source.read(CodeReader(columns, POLICY, blocks.append))
    return np.concatenate([np.empty((0, len(columns)), dtype=np.int64), *blocks])
