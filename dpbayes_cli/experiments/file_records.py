"""Read the public data files of a study as integer codes of columns with public domains."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from dpbayes_cli.base.errors import SourceError, SpecError
from dpbayes_cli.base.numeric import Integers
from dpbayes_cli.core.columns import AnyColumn
from dpbayes_cli.experiments.study import DROPPED
from dpbayes_cli.sources.code_readers import CodeReader
from dpbayes_cli.sources.location import locate
from dpbayes_cli.spec.source_section import SourceSection
from dpbayes_cli.workflow.release_data import source_of

POLICY = DROPPED
"""The policy for files whose columns all have stand-ins: no record is dropped, and the number of records is public."""


def check_stand_ins(columns: Iterable[AnyColumn], where: str) -> None:
    """Refuse a column without a public stand-in for invalid cells; ``where`` is their place in the spec."""
    for column in columns:
        if column.impute is None:
            hint = "state impute: VALUE for every column; the number of records is then public"
            message = f"{column.role}: cells that hold no valid value need a public stand-in"
            raise SpecError(message, where=where, hint=hint)


def file_digest(path: str) -> str:
    """Return the SHA-256 digest of a file, which identifies the data of a study."""
    if locate(path).is_stream:
        hint = "state a regular file; a study reads its data more than once"
        raise SourceError(f"{path!r} is not a regular file", hint=hint)
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SourceError(f"cannot read {path!r}: {error.strerror}") from None


def read_codes(path: str, columns: Sequence[AnyColumn]) -> Integers:
    """Return the codes of the records of a file, shape (n_records, n_columns); -1 stands for an invalid cell."""
    blocks: list[Integers] = [np.empty((0, len(columns)), dtype=np.int64)]
    with closing(source_of(SourceSection(), locate(path))) as source:
        source.check(columns, [column.role for column in columns])
        source.read(CodeReader(columns, POLICY, blocks.append))
    return np.concatenate(blocks)
