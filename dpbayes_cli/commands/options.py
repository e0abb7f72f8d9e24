"""Where the ledger is: the options of it that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from dpbayes_cli.ledger.ledger import Ledger

Command = TypeVar("Command", bound=Callable[..., Any])


def ledger_option(function: Command) -> Command:
    """Add ``--ledger`` and ``--anchor``."""
    function = click.option(
        "--anchor",
        "stated_anchor",
        type=click.Path(path_type=Path),
        metavar="FILE",
        expose_value=False,
        callback=_remember_anchor,
        help="An anchor that must agree [$DPBAYES_ANCHOR].",
    )(function)
    return click.option(
        "--ledger",
        "ledger_place",
        type=click.Path(),
        metavar="FILE",
        help="A file or postgresql://USER@HOST/DB [$DPBAYES_LEDGER].",
    )(function)


def open_ledger(place: str | None, *, new_key: Path | None = None) -> Ledger:
    """Return the ledger that a command works on, with the key that the environment states.

    Args:
        place: what ``--ledger`` says.
        new_key: the file of a key that is to be made, so that it need not be there yet.

    Raises:
        LedgerError: the place or the key cannot be used.
    """
    from dpbayes_cli.ledger.key import read_key
    from dpbayes_cli.ledger.ledger import Ledger
    from dpbayes_cli.ledger.place import storage_at

    named = os.environ.get("DPBAYES_LEDGER_KEY")
    stated = Path(named) if named else None
    made_now = stated is not None and new_key is not None and stated.absolute() == new_key.absolute()
    key = read_key(stated) if stated is not None and not (made_now and not stated.exists()) else None
    return Ledger(storage_at(place), stated_anchor=_stated_anchor(), key=key)


_ANCHOR = "dpbayes_cli.anchor"


def _remember_anchor(context: click.Context, _parameter: click.Parameter, value: Path | None) -> None:
    context.meta[_ANCHOR] = value


def _stated_anchor() -> Path | None:
    """Return the anchor that the command line or the environment states."""
    context = click.get_current_context(silent=True)
    stated: Path | None = context.meta.get(_ANCHOR) if context else None
    named = os.environ.get("DPBAYES_ANCHOR")
    return stated or (Path(named) if named else None)
