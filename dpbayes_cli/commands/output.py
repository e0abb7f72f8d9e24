"""What a command prints: the result on stdout, the talk on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def output_options(function: Command) -> Command:
    """Add ``--json``, ``-q`` and ``-v``."""
    function = click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON document.")(function)
    function = click.option(
        "-v", "--verbose", count=True, expose_value=False, callback=_louder, help="Say more; -vv traces errors."
    )(function)
    return click.option(
        "-q", "--quiet", is_flag=True, expose_value=False, callback=_quieter, help="Say nothing but results and errors."
    )(function)


def reset() -> None:
    """Forget what an earlier command in this process was told."""
    _LEVEL[0] = 0


def verbosity() -> int:
    """Return how much to say: -1 quiet, 0 normal, 1 more, 2 with traces."""
    return _LEVEL[0]


_LEVEL = [0]


def _louder(_context: click.Context, _parameter: click.Parameter, value: int) -> None:
    if value:
        _LEVEL[0] = value


def _quieter(_context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        _LEVEL[0] = -1


def say(message: str) -> None:
    """Tell the user something on stderr, unless told to be quiet."""
    if verbosity() >= 0:
        click.echo(message, err=True)


def detail(message: str) -> None:
    """Tell the user something on stderr that only ``-v`` asks for."""
    if verbosity() >= 1:
        click.echo(message, err=True)


def emit_json(document: Any) -> None:
    """Print the result as one JSON document."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def emit_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table as the result: fitted to a terminal, else as wide as its texts."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False)
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        Console().print(table)
        return
    widths = [max([len(column), *(len(row[i]) for row in rows)]) for i, column in enumerate(columns)]
    for row in [columns, *rows]:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
