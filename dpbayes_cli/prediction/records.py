"""Read new records for a predictor: features as in the release, but targets as they are in the file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.bundle.read import Bundle
from dpbayes_cli.core.columns import AnyColumn, NumericColumn, RecordPolicy
from dpbayes_cli.core.predictor import Predictor
from dpbayes_cli.sources.location import Location, locate
from dpbayes_cli.sources.packed_codes import CodeReader, NumberReader
from dpbayes_cli.spec.release_spec import convert_layout
from dpbayes_cli.workflow.release_data import source_of


def read_codes(
    bundle: Bundle,
    predictor: Predictor,
    data: str | Location,
    layout: dict[str, Any],
    *,
    take: Callable[[Integers], None],
) -> None:
    """Read new records as codes, in the order of the predictor's columns.

    An invalid cell gets the release's stand-in value if there is one, otherwise the code -1. The target's column is not
    read: its codes are -1.

    Args:
        data: a path, a glob, ``-`` for standard input, or the address of a table.
        layout: the layout of the file; empty: the layout in the spec of the release.
        take: a function that is called with each block of codes, shape (n_records, n_columns).
    """
    policy = bundle.spec.policy
    chosen = [i for i in range(len(predictor.columns)) if i != predictor.target]

    def place(codes: Integers) -> None:
        whole = np.full((len(codes), len(predictor.columns)), -1, dtype=np.int64)
        whole[:, chosen] = codes
        take(whole)

    columns = [_as_released(predictor.columns[i], policy) for i in chosen]
    reader = CodeReader(columns, RecordPolicy(policy.neighbors), place)
    _read(bundle, layout, data, [predictor.names[i] for i in chosen], reader)


def read_labeled(
    bundle: Bundle,
    predictor: Predictor,
    data: str | Location,
    layout: dict[str, Any],
    *,
    take: Callable[[Integers, Integers | Floats], None],
) -> None:
    """Read new records with their targets; for the arguments see ``read_codes``.

    Targets are read as they are: there is no stand-in for an invalid target, and a number is neither clamped to its
    bounds nor rounded. ``take`` is called with each block of codes and its targets, shape (n_records,). Targets are
    codes of classes, with -1 for an invalid class, or numbers, with NaN for an invalid number.
    """
    policy = bundle.spec.policy
    columns = [_as_released(column, policy) for column in predictor.columns]
    columns[predictor.target] = target = replace(columns[predictor.target], impute=None)
    reader: CodeReader
    if isinstance(target, NumericColumn):
        reader = NumberReader(columns, RecordPolicy(policy.neighbors), predictor.target, take)
    else:
        reader = CodeReader(
            columns, RecordPolicy(policy.neighbors), lambda codes: take(codes, codes[:, predictor.target])
        )
    _read(bundle, layout, data, predictor.names, reader)


def read_columns(
    bundle: Bundle,
    columns: Sequence[AnyColumn],
    names: Sequence[str],
    data: str | Location,
    layout: dict[str, Any],
    *,
    take: Callable[[Integers], None],
) -> None:
    """Read the columns that have these names in the file, as codes with -1 for an invalid cell; see ``read_codes``."""
    plain = [replace(column, impute=None) for column in columns]
    reader = CodeReader(plain, RecordPolicy(bundle.spec.policy.neighbors), take)
    _read(bundle, layout, data, names, reader)


def _read(
    bundle: Bundle, layout: dict[str, Any], data: str | Location, names: Sequence[str], reader: CodeReader
) -> None:
    section = convert_layout(layout) if layout else bundle.spec.source
    location = data if isinstance(data, Location) else locate(data)
    with closing(source_of(section, location)) as source:  # no privacy unit is passed, so that all records are read
        source.check(reader.columns, names)
        source.read(reader)


def _as_released(column: AnyColumn, policy: RecordPolicy) -> AnyColumn:
    return replace(column, impute=column.impute or policy.impute)
