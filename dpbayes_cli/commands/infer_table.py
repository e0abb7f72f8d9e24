"""``dpbayes infer --table``: the posterior of a table of noisy counts that another tool published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dpbayes_cli.commands.output import emit, emit_json, emit_table, say

_SAMPLES = 4000
_MOST_SAMPLES = 1_000_000
_MAX_ROWS = 24
"""The largest number of rows that a printed posterior shows."""


def infer_published(
    table: Path,
    spec_path: Path | None,
    changes: dict[str, Any],
    *,
    seed: int | None,
    out: Path | None,
    interval: float,
    as_json: bool,
) -> None:
    """Infer what a spec asks of a table, print the result, and write it to a directory if ``out`` names one.

    Args:
        changes: the options of inference that flags state, by section.
    """
    import msgspec

    from dpbayes_cli.bundle.table_files import shown_table, some_of_each, table_document, write_table_files
    from dpbayes_cli.bundle.write import check_target
    from dpbayes_cli.spec.table_spec import read_table_spec
    from dpbayes_cli.workflow.noisy_table import infer_table

    samples, file_format = _options(changes)
    if spec_path is None:
        raise click.UsageError("--table needs --spec FILE; to start from a template: dpbayes spec init table")
    spec = read_table_spec(spec_path)
    if out is not None:
        check_target(out)
    inferred = infer_table(table, spec, samples, interval, seed or 0)
    document = table_document(inferred, table, _stated(msgspec.to_builtins(spec)))
    if out is not None:
        write_table_files(out, document, file_format)
        say(f"wrote {len(inferred.rows):,} posteriors to {out}")
    for warning in inferred.warnings:
        say(f"warning: {warning}")
    if as_json:
        emit_json(document)
        return
    columns, rows = shown_table(some_of_each(document["posterior"], _MAX_ROWS), interval)
    emit_table(columns, rows, optional=("sd",))
    if left_out := len(inferred.rows) - len(rows):
        emit(f"... and {left_out:,} more; all: --json, or --out DIR")


def _options(changes: dict[str, Any]) -> tuple[int, str]:
    from dpbayes_cli.commands.request_command import parse_count

    options = changes.pop("inference", {})
    text = f"--samples takes a whole number from 100 to {_MOST_SAMPLES:,}"
    samples = parse_count(options.pop("samples", _SAMPLES), range(100, _MOST_SAMPLES + 1), text)
    file_format = options.pop("format", "parquet")
    if file_format not in {"parquet", "csv"}:
        raise click.UsageError("--samples-format takes parquet or csv with --table")
    if changes or options:
        raise click.UsageError("with --table, only --samples, --samples-format, --seed, --out and --interval apply")
    return samples, file_format


def _stated(value: Any) -> Any:
    """Return a spec without the keys that are empty."""
    if isinstance(value, dict):
        kept = {key: _stated(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each is not None and each not in ({}, [])}
    return [_stated(each) for each in value] if isinstance(value, list) else value
