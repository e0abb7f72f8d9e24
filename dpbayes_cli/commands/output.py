"""What a command prints: its result on stdout, messages on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dpbayes_cli.base.cell_grammar import CONTROL_CHARACTERS
from dpbayes_cli.base.errors import OutputError

if TYPE_CHECKING:
    from dpbayes_cli.bundle.document import ParameterSummary

Command = TypeVar("Command", bound=Callable[..., Any])

_MAX_PARAMETERS = 20
"""The largest number of parameters that a printed posterior shows."""
_VERBOSITY = [0]


def output_options(function: Command) -> Command:
    """Add ``--json``, ``-q`` and ``-v``."""

    def set_verbosity(_context: click.Context, parameter: click.Parameter, value: int) -> None:
        if value:
            _VERBOSITY[0] = -1 if parameter.name == "quiet" else value

    kept: dict[str, Any] = {"expose_value": False, "callback": set_verbosity}
    quiet = click.option("-q", "--quiet", is_flag=True, help="Print only the result and errors.", **kept)
    verbose = click.option("-v", "--verbose", count=True, help="Print more; -vv: also where an error arose.", **kept)
    as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON document.")
    return quiet(verbose(as_json(function)))


def reset() -> None:
    """Forget the verbosity of an earlier command in this process."""
    _VERBOSITY[0] = 0


def verbosity() -> int:
    """Return how much to print: -1 quiet, 0 normal, 1 more, 2 with traces."""
    return _VERBOSITY[0]


def print_message(message: str) -> None:
    """Print to stderr; a message that cannot be written is dropped, because the result does not depend on it."""
    with suppress(OSError, ValueError, AttributeError):
        click.echo(printable_lines(message), err=True)


def say(message: str) -> None:
    """Print a message to stderr, unless ``-q`` was given."""
    if verbosity() >= 0:
        print_message(message)


def say_already_done() -> None:
    """Print that an earlier run of the command has already made the change."""
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


def emit_result(document: Any, *lines: str, as_json: bool) -> None:
    """Print the result as one JSON document or, without ``--json``, as lines of text."""
    if as_json:
        emit_json(document)
    elif lines:
        emit("\n".join(lines))


def printable(text: str) -> str:
    """Return a text with escapes for its control characters, which could fake a line or control a terminal."""
    return CONTROL_CHARACTERS.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def printable_lines(text: str) -> str:
    """Return lines of text with escapes for all control characters but line feeds and tabs; see ``printable``."""
    if not CONTROL_CHARACTERS.search(text.replace("\n", "").replace("\t", "")):
        return text
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


def emit_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table. Long cells are wrapped on a terminal, and nowhere else."""
    rows = [[printable(cell) for cell in row] for row in rows]
    if sys.stdout is not None and sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Column, Table
        from rich.text import Text

        table = Table(*(Column(column, overflow="fold") for column in columns), box=None, pad_edge=False)
        for row in rows:
            table.add_row(*map(Text, row))
        Console().print(table)
        return
    widths = [max([len(column), *(len(row[i]) for row in rows)]) for i, column in enumerate(columns)]
    for row in [columns, *rows]:
        emit("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def posterior_lines(
    posterior: Mapping[str, ParameterSummary], warnings: Sequence[str], head: str = "posterior"
) -> list[str]:
    """Return a table of the posterior and its warnings, as lines of text; ``head`` titles the first column."""
    shown = list(posterior.items())[:_MAX_PARAMETERS]
    width = max(9, *(len(name) for name, _ in shown))
    lines = [f"{head:{width}} {'mean':>9} {'sd':>9} {'5 %':>9} {'median':>9} {'95 %':>9}"]
    for name, p in shown:
        sd = f"{'-':>9}" if p.sd is None else f"{p.sd:9.3g}"
        quantiles = (f"{'-':>9}" if q is None else f"{q:9.4g}" for q in (p.q05, p.q50, p.q95))
        lines.append(" ".join([f"{name:{width}} {p.mean:9.4g}", sd, *quantiles]))
    if len(posterior) > len(shown):
        lines.append(f"... and {len(posterior) - len(shown)} more in release.json")
    return [*lines, *(f"WARNING: {warning}" for warning in warnings)]
