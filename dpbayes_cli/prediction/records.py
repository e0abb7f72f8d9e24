"""New records for a predictor: read as in the release, but with their targets as they are in the file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from dpbayes_cli.bundle.files import spec_of
from dpbayes_cli.core.columns import AnyColumn, NumericColumn, RecordPolicy
from dpbayes_cli.sources.location import locate
from dpbayes_cli.sources.packed_codes import CodeReader, NumberReader
from dpbayes_cli.spec.release_spec import ReleaseSpec, build_spec
from dpbayes_cli.workflow.question import source_of

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.bundle.document import ReleaseDocument
    from dpbayes_cli.core.predictor import Predictor


def read_codes(
    document: ReleaseDocument, found: Predictor, data: str, layout: dict[str, Any], *, take: Callable[[Integers], None]
) -> int:
    """Read new records as codes, in the order of the predictor's columns; return how many there were.

    A cell that holds no valid value counts as it did in the release where a public value stands for it, and else has
    the code -1. The target's column is not read: its codes are -1.

    Args:
        document: the release.
        found: its predictor.
        data: the file, a pattern, or ``-``.
        layout: what is stated about the file's layout, in place of what the spec of the release says.
        take: called with every block of codes, shape (n_records, n_columns).

    Raises:
        SourceError: the data cannot be read.
    """
    import numpy as np

    spec = _laid_out(spec_of(document), layout)
    chosen = [i for i in range(len(found.columns)) if i != found.target]

    def place(codes: Integers) -> None:
        whole = np.full((len(codes), len(found.columns)), -1, dtype=np.int64)
        whole[:, chosen] = codes
        take(whole)

    columns = [_as_released(found.columns[i], spec.policy) for i in chosen]
    return _read(spec, data, [found.names[i] for i in chosen], CodeReader(columns, _dropping(spec), place))


def read_labelled(
    document: ReleaseDocument,
    found: Predictor,
    data: str,
    layout: dict[str, Any],
    *,
    take: Callable[[Integers, Integers | Floats], None],
) -> int:
    """Read new records with their targets; return how many there were.

    Features are those of ``read_codes``. A target is taken as it is: no public value stands for an invalid one, and a
    number is neither clamped to its bounds nor rounded.

    Args:
        document: the release.
        found: its predictor.
        data: the file, a pattern, or ``-``.
        layout: what is stated about the file's layout, in place of what the spec of the release says.
        take: called with every block of codes, shape (n_records, n_columns), and its targets, shape (n_records,): the
            codes of classes, -1 for an invalid one, or numbers, NaN for an invalid one.

    Raises:
        SourceError: the data cannot be read.
    """
    spec = _laid_out(spec_of(document), layout)
    columns = [_as_released(column, spec.policy) for column in found.columns]
    columns[found.target] = target = replace(columns[found.target], impute=None)
    reader: CodeReader
    if isinstance(target, NumericColumn):
        reader = NumberReader(columns, _dropping(spec), found.target, take)
    else:
        reader = CodeReader(columns, _dropping(spec), lambda codes: take(codes, codes[:, found.target]))
    return _read(spec, data, found.names, reader)


def read_columns(
    document: ReleaseDocument,
    columns: Sequence[AnyColumn],
    names: Sequence[str],
    data: str,
    layout: dict[str, Any],
    *,
    take: Callable[[Integers], None],
) -> int:
    """Read new records of some columns as codes; return how many there were.

    Args:
        document: the release whose spec says how files are laid out.
        columns: what is read; no public value stands for an invalid cell.
        names: the columns' names in the file.
        data, layout: see ``read_codes``.
        take: called with every block of codes, -1 for an invalid one, shape (n_records, n_columns).

    Raises:
        SourceError: the data cannot be read.
    """
    spec = _laid_out(spec_of(document), layout)
    plain = [replace(column, impute=None) for column in columns]
    return _read(spec, data, list(names), CodeReader(plain, _dropping(spec), take))


def _read(spec: ReleaseSpec, data: str, names: list[str] | tuple[str, ...], reader: CodeReader) -> int:
    single = msgspec.structs.replace(spec.privacy, unit=None)  # whose new records are is no matter: all are read
    with closing(source_of(msgspec.structs.replace(spec, privacy=single), locate(data))) as source:
        source.check(reader.columns, names)
        source.read(reader)
    return reader.records


def _dropping(spec: ReleaseSpec) -> RecordPolicy:
    """Return the policy of the release without its value for invalid cells, which the columns have already."""
    return RecordPolicy(spec.policy.neighbors)


def _as_released(column: AnyColumn, policy: RecordPolicy) -> AnyColumn:
    """Return a column whose invalid cells count as they did in the release."""
    return replace(column, impute=column.impute or policy.impute)


def _laid_out(spec: ReleaseSpec, layout: dict[str, Any]) -> ReleaseSpec:
    """Return the spec with the layout that is stated; where one is, nothing of the spec's own is kept."""
    import msgspec

    if not layout:
        return spec
    document = msgspec.to_builtins(spec)
    stated = {key: value for key, value in document.items() if value is not None}
    return build_spec({**stated, "source": layout})
