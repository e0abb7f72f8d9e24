"""What a command prints: its result on stdout, messages on stderr, both in lines that fit the terminal.

Words, such as IDs, times and hashes, are never broken.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dpbayes_cli.base.cell_grammar import CONTROL_CHARACTERS, escape, make_visible
from dpbayes_cli.base.errors import OutputError

if TYPE_CHECKING:
    from dpbayes_cli.bundle.document import ReleaseDocument
    from dpbayes_cli.bundle.report.intervals import Intervals

Command = TypeVar("Command", bound=Callable[..., Any])

_MAX_PARAMETERS = 20  # the largest number of parameters that a printed posterior shows
_VERBOSITY = [0]
_AS_JSON = [False]
_GAP = 2  # the number of blanks between two columns
_NUMBER = re.compile(r"[-+]?[0-9.,]+(e[-+]?[0-9]+)?( ?%)?|-|")


def output_options(function: Command) -> Command:
    """Add ``--json``, ``-q`` and ``-v``."""

    def set_verbosity(_context: click.Context, parameter: click.Parameter, value: int) -> None:
        if value:
            _VERBOSITY[0] = -1 if parameter.name == "quiet" else value

    def note_json(_context: click.Context, _parameter: click.Parameter, value: bool) -> bool:
        _AS_JSON[0] = value
        return value

    kept: dict[str, Any] = {"expose_value": False, "callback": set_verbosity}
    quiet = click.option("-q", "--quiet", is_flag=True, help="Print only the result and errors.", **kept)
    verbose = click.option(
        "-v", "--verbose", count=True, help="Print more; -vv: errors also show where they arose.", **kept
    )
    as_json = click.option(
        "--json", "as_json", is_flag=True, callback=note_json, help="Print the result as one JSON document."
    )
    return quiet(verbose(as_json(function)))


def reset() -> None:
    """Forget the output options of an earlier command in this process."""
    _VERBOSITY[0], _AS_JSON[0] = 0, False


def is_json() -> bool:
    """Return whether the result is to be one JSON document."""
    return _AS_JSON[0]


def verbosity() -> int:
    """Return how much to print: -1 quiet, 0 normal, 1 more, 2 with tracebacks."""
    return _VERBOSITY[0]


def print_message(message: str) -> None:
    """Print a message to stderr; if stderr cannot be written, drop the message and go on."""
    with suppress(OSError, ValueError, AttributeError):
        text = printable_lines(message)
        is_log = not os.environ.get("COLUMNS") and not sys.stderr.isatty()  # a log keeps one message on one line
        click.echo(text if is_log else fill_lines(text, 2), err=True)


def shows_both_streams() -> bool:
    """Return whether the result and the messages go to one place, such as a terminal."""
    with suppress(OSError, ValueError, AttributeError):
        return os.path.samestat(os.fstat(sys.stdout.fileno()), os.fstat(sys.stderr.fileno()))
    return False


def say(message: str) -> None:
    """Print a message to stderr, unless ``-q`` was given."""
    if verbosity() >= 0:
        print_message(message)


def say_already_done() -> None:
    """Print that an earlier run of the command has already made the change."""
    say("already done: nothing was written")


def say_detail(message: str) -> None:
    """Print a message to stderr if ``-v`` was given."""
    if verbosity() >= 1:
        print_message(message)


def emit(text: str) -> None:
    """Print lines of the result, broken to fit the terminal; see ``emit_document``."""
    emit_document(fill_lines(printable_lines(text)))


def emit_document(text: str) -> None:
    """Print a part of the result that has its own lines, such as JSON, CSV or Markdown."""
    try:
        click.echo(printable_lines(text), nl=not text.endswith("\n"))
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is closed"
        raise OutputError(f"the result cannot be written to standard output: {reason}") from None


def emit_json(document: Any) -> None:
    """Print the result as one JSON document."""
    emit_document(json.dumps(document, indent=2))


def emit_result(document: Any, *lines: str, as_json: bool) -> None:
    """Print the result as one JSON document or, without ``--json``, as lines of text."""
    if as_json:
        emit_json(document)
    elif lines:
        emit("\n".join(lines))


def printable(text: str) -> str:
    """Return a text with its control characters and invisible marks escaped: they could forge a line or a name."""
    return make_visible(text)


def printable_lines(text: str) -> str:
    """Return a text with all control characters escaped except line feeds and tabs; invisible marks stay."""
    if not CONTROL_CHARACTERS.search(text.replace("\n", "").replace("\t", "")):
        return text
    return "\n".join("\t".join(map(escape, line.split("\t"))) for line in text.split("\n"))


def emit_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, optional: Sequence[str] = ()) -> None:
    """Print a table that fits the terminal; with ``-v``, no column is left out. See ``table_lines``."""
    rows = [[printable(cell) for cell in row] for row in rows]
    emit_document("\n".join(table_lines(columns, rows, line_width(), () if verbosity() > 0 else optional)))


def emit_posterior(document: ReleaseDocument, intervals: Intervals) -> None:
    """Print the first lines of a result, then the posterior with these intervals as a table."""
    from dpbayes_cli.bundle.report.report_tables import average_effects_table, effects_table, posterior_table
    from dpbayes_cli.bundle.report.result_sentence import findings_of, result_lines
    from dpbayes_cli.bundle.stated_request import model_of

    table = posterior_table(document, model_of(document), intervals, _MAX_PARAMETERS)
    emit("\n".join(result_lines(document, intervals)).replace("`", ""))
    emit("")
    for effects in effects_table(document, model_of(document), intervals), average_effects_table(document, intervals):
        if effects.rows:
            emit_table(effects.columns, effects.rows)
            emit("")
    _emit_groups(document)
    if findings_of(document).caption:
        emit(f"{table.caption}:")
    emit_table(table.columns, table.rows, optional=("sd", *table.columns[6:], "mean"))  # [6:] is the prior
    if left_out := table.n_rows - len(table.rows):
        emit(f"... and {left_out} more in release.json")
    emit("")


def _emit_groups(document: ReleaseDocument) -> None:
    """Print what a result says about its groups; a table of all groups comes first."""
    from dpbayes_cli.bundle.report.group_results import extreme_tables, group_sentences

    sentences, tables = group_sentences(document), extreme_tables(document)
    are_all = bool(tables) and not any(table.file for table in tables)
    for sentence in () if are_all else sentences:
        emit(sentence)
    for table in tables:
        emit(("" if are_all else "\n") + f"{table.caption}{f' ({table.file} holds all groups)' * bool(table.file)}:")
        emit_table(table.columns, table.rows)
        emit("")
    for sentence in sentences if are_all else ():
        emit(sentence)
    if are_all:
        emit("")


def line_width() -> int:
    """Return the number of characters of a line: that of the terminal, 80 if there is no terminal."""
    return max(shutil.get_terminal_size().columns, 20)


def fill_lines(text: str, hanging: int = 0) -> str:
    """Return a text with lines that fit the terminal; the rest of a broken line has ``hanging`` more blanks."""
    width = line_width()
    return "\n".join(part for line in text.split("\n") for part in _broken(line, width, hanging))


def _broken(line: str, width: int, hanging: int = 0) -> list[str]:
    """Return a line in parts that fit; a number stays with its percent sign."""
    if len(line) <= width:
        return [line]
    text = line.lstrip()
    indent = " " * (len(line) - len(text) + (2 if text.startswith("- ") else hanging))
    parts = textwrap.wrap(
        line.replace(" %", "\u00a0%"),
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    return [part.replace("\u00a0%", " %") for part in parts]


def table_lines(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, optional: Sequence[str] = ()
) -> list[str]:
    """Return a table as lines of a width; numbers are flush right, and empty columns are left out.

    If the table is too wide, optional columns are left out, the first of them first, until each row fits on one line.
    Then long cells are broken between words. If this is not enough, each row becomes a paragraph.
    """
    table = [column for column in zip(columns, *rows, strict=True) if any(column[1:]) or not rows]
    for name in optional:
        if _total([max(map(len, [*head.split(), *cells])) for head, *cells in table]) <= width:
            break
        table = [column for column in table if column[0] != name]
    widths = _fitting_widths([max(map(len, column)) for column in table], [*map(_least_width, table)], width)
    lines = list(zip(*table, strict=True))
    if _total(widths) > width:
        return [part for line in lines for part in _broken("  ".join(filter(None, line)), width, 4)]
    is_number = [all(map(_NUMBER.fullmatch, column[1:])) for column in table]
    return [part for line in lines for part in _aligned(line, widths, is_number)]


def _aligned(cells: Sequence[str], widths: Sequence[int], is_number: Sequence[bool]) -> Iterator[str]:
    """Yield the lines of one row, whose cells are broken to fit the widths."""
    for texts in zip_longest(*map(_broken, cells, widths), fillvalue=""):
        parts = zip(texts, widths, is_number, strict=True)
        aligned = (text.rjust(width) if flush_right else text.ljust(width) for text, width, flush_right in parts)
        yield (" " * _GAP).join(aligned).rstrip()


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _least_width(cells: Sequence[str]) -> int:
    """Return the width of a column whose cells are broken between words; numbers with their units stay whole."""
    return max(max(map(len, [cell] if _NUMBER.fullmatch(cell) else cell.split()), default=0) for cell in cells)


def _fitting_widths(natural: Sequence[int], least: Sequence[int], width: int) -> list[int]:
    """Return column widths: the widest columns are narrowed, but to no less than their longest words."""
    widths = list(natural)
    while _total(widths) > width:
        narrowable = [k for k in range(len(widths)) if widths[k] > least[k]]
        if not narrowable:
            break
        widths[max(narrowable, key=lambda k: widths[k])] -= 1
    return widths
