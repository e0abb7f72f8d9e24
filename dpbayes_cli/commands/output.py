"""What a command prints: its result on stdout, messages on stderr."""

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
        "-v",
        "--verbose",
        count=True,
        expose_value=False,
        callback=_set_verbose,
        help="Print more; -vv traces errors.",
    )(function)
    return click.option(
        "-q", "--quiet", is_flag=True, expose_value=False, callback=_set_quiet, help="Print only results and errors."
    )(function)


def reset() -> None:
    """Forget the verbosity of an earlier command in this process."""
    _LEVEL[0] = 0


def verbosity() -> int:
    """Return how much to print: -1 quiet, 0 normal, 1 more, 2 with traces."""
    return _LEVEL[0]


_LEVEL = [0]


def _set_verbose(_context: click.Context, _parameter: click.Parameter, value: int) -> None:
    if value:
        _LEVEL[0] = value


def _set_quiet(_context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        _LEVEL[0] = -1


def print_message(message: str) -> None:
    """Print to stderr; a message that cannot be written is dropped, because the result does not depend on it."""
    with suppress(OSError, ValueError, AttributeError):
        click.echo(printable_lines(message), err=True)


def say(message: str) -> None:
    """Print a message to stderr, unless ``-q`` was given."""
    if verbosity() >= 0:
        print_message(message)


def say_already_done() -> None:
    """Print that the command had been carried out before, by a killed run or by another one."""
    say("already done: nothing was written")


def detail(message: str) -> None:
    """Print a message to stderr if ``-v`` was given."""
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
    """Return a text with escapes for its control characters, which could fake a line or control a terminal."""
    return CONTROL_CHARACTERS.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def printable_lines(text: str) -> str:
    """Return lines of text with escapes for all control characters but line feeds and tabs; see ``printable``."""
    if not CONTROL_CHARACTERS.search(text.replace("\n", "").replace("\t", "")):
        return text
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


def emit_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, fitted to the width of a terminal; as wide as its texts if stdout is not a terminal."""
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
