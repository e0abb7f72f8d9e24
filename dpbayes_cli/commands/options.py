"""The options and arguments that several commands share, and the ledger that the options name."""

from __future__ import annotations

import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dpbayes_cli.base.numeric import parse_decimal
from dpbayes_cli.commands.output import output_options, printable

if TYPE_CHECKING:
    from dpbayes_cli.ledger.ledger import Ledger

Command = TypeVar("Command", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)
bundle_argument = click.argument("bundle", type=PATH)
_ANCHOR = "dpbayes_cli.anchor"


class DecimalType(click.ParamType[Decimal]):
    """An exact decimal number."""

    name = "decimal"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        """Return the decimal, parsed exactly; refuse any other text."""
        try:
            return value if isinstance(value, Decimal) else parse_decimal(value)
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


def reason_option(
    text: str = "The reason for the change; kept in the history.", *, required: bool = False
) -> Callable[[Command], Command]:
    """Return a decorator that adds ``--reason``, whose value is a text that the ledger can keep."""

    def check(_context: click.Context, _parameter: click.Parameter, reason: str) -> str:
        if (required and not reason.strip()) or reason != printable(reason):
            raise click.UsageError("--reason must not be empty, and must not hold control characters")
        return reason

    presence: dict[str, Any] = {"required": True} if required else {"default": ""}
    return click.option("--reason", metavar="TEXT", help=text, callback=check, **presence)


def interval_option(function: Command) -> Command:
    """Add ``--interval``, the probability of the intervals that a result shows."""

    def check(_context: click.Context, _parameter: click.Parameter, level: float) -> float:
        if not 0.0 < level < 1.0:
            raise click.UsageError(f"--interval takes a probability between 0 and 1, such as 0.95; it is {level:g}")
        return level

    text = "Probability of intervals [0.9]; groups have 0.9."
    return click.option("--interval", type=float, default=0.9, metavar="P", callback=check, help=text)(function)


def bounds_option(text: str) -> Callable[[Command], Command]:
    """Return a decorator that adds ``--bounds``, which may be repeated; see ``synthesis.cut_numbers``."""
    return click.option("--bounds", multiple=True, metavar="COLUMN=LOW:HIGH", help=text)


def ledger_option(function: Command) -> Command:
    """Add ``--ledger`` and ``--anchor``."""

    def remember_anchor(context: click.Context, _parameter: click.Parameter, value: Path | None) -> None:
        context.meta[_ANCHOR] = value

    anchor = click.option(
        "--anchor",
        "stated_anchor",
        type=PATH,
        metavar="FILE",
        expose_value=False,
        callback=remember_anchor,
        help="Anchor that the ledger must agree with [$DPBAYES_ANCHOR].",
    )
    text = "Ledger: a file, or postgresql://USER@HOST/DB [$DPBAYES_LEDGER]."
    ledger = click.option("--ledger", "ledger_place", type=click.Path(), metavar="FILE", help=text)
    return ledger(anchor(function))


def ledger_options(function: Command) -> Command:
    """Add ``--ledger`` and ``--anchor``, then ``--json``, ``-q`` and ``-v``."""
    return ledger_option(output_options(function))


def open_ledger(place: str | None, *, new_key: Path | None = None) -> Ledger:
    """Return the ledger at the value of ``--ledger``, with the key that the environment names.

    The environment may already name the file ``new_key``, which the command creates if it does not exist.
    """
    from dpbayes_cli.ledger.key import read_key
    from dpbayes_cli.ledger.ledger import Ledger
    from dpbayes_cli.ledger.place import storage_at

    key_file = _path_in_environment("DPBAYES_LEDGER_KEY")
    is_new = key_file is not None and new_key is not None and key_file.absolute() == new_key.absolute()
    key = read_key(key_file) if key_file is not None and not (is_new and not key_file.exists()) else None
    anchor = click.get_current_context().meta.get(_ANCHOR) or _path_in_environment("DPBAYES_ANCHOR")
    return Ledger(storage_at(place), stated_anchor=anchor, key=key)


def _path_in_environment(name: str) -> Path | None:
    value = os.environ.get(name)
    return Path(value) if value else None
