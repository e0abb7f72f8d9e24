"""What a command prints: the result on stdout, the talk on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import click

from dpbayes_cli.base.cell_grammar import CONTROL_CHARACTERS
from dpbayes_cli.base.errors import OutputError

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


def print_message(message: str) -> None:
    """Write to stderr; that nobody can read it is no failure, for the release is on disk or not regardless."""
    with suppress(OSError, ValueError, AttributeError):
        click.echo(printable_lines(message), err=True)


def say(message: str) -> None:
    """Tell the user something on stderr, unless told to be quiet."""
    if verbosity() >= 0:
        print_message(message)


def say_already_done() -> None:
    """Tell the user that the command had been carried out before, by a run that was killed or by another one."""
    say("already done: nothing was written")


def detail(message: str) -> None:
    """Tell the user something on stderr that only ``-v`` asks for."""
    if verbosity() >= 1:
        print_message(message)


def emit(text: str, *, nl: bool = True) -> None:
    """Print a part of the result.

    Raises:
        OutputError: standard output cannot be written.
    """
    try:
        click.echo(printable_lines(text), nl=nl)
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is closed"
        raise OutputError(f"the result cannot be written to standard output: {reason}") from None


def emit_json(document: Any) -> None:
    """Print the result as one JSON document."""
    emit(json.dumps(document, indent=2))


def printable(text: str) -> str:
    """Return a text whose control characters, which could fake a line or steer a terminal, are written as escapes."""
    return CONTROL_CHARACTERS.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def printable_lines(text: str) -> str:
    """Return lines of text whose other control characters are written as escapes; see ``printable``."""
    if not CONTROL_CHARACTERS.search(text.replace("\n", "").replace("\t", "")):
        return text
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


def emit_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table as the result: fitted to a terminal, else as wide as its texts."""
    rows = [[printable(cell) for cell in row] for row in rows]
    if sys.stdout is not None and sys.stdout.isatty():
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
        emit("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
