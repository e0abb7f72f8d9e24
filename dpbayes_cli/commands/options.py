"""The options that say where the ledger is, for all commands that use it."""

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
        help="Anchor file that must agree [$DPBAYES_ANCHOR].",
    )(function)
    return click.option(
        "--ledger",
        "ledger_place",
        type=click.Path(),
        metavar="FILE",
        help="A file or postgresql://USER@HOST/DB [$DPBAYES_LEDGER].",
    )(function)


def open_ledger(place: str | None, *, new_key: Path | None = None) -> Ledger:
    """Return the ledger of a command, with the key that the environment names.

    Args:
        place: the value of ``--ledger``; None: the default place.
        new_key: a key file that the command is about to create, so that it need not exist yet.

    Raises:
        LedgerError: the place or the key cannot be used.
    """
    from dpbayes_cli.ledger.key import read_key
    from dpbayes_cli.ledger.ledger import Ledger
    from dpbayes_cli.ledger.place import storage_at

    named = os.environ.get("DPBAYES_LEDGER_KEY")
    key_file = Path(named) if named else None
    is_new = key_file is not None and new_key is not None and key_file.absolute() == new_key.absolute()
    key = read_key(key_file) if key_file is not None and not (is_new and not key_file.exists()) else None
    return Ledger(storage_at(place), stated_anchor=_stated_anchor(), key=key)


_ANCHOR = "dpbayes_cli.anchor"


def _remember_anchor(context: click.Context, _parameter: click.Parameter, value: Path | None) -> None:
    context.meta[_ANCHOR] = value


def _stated_anchor() -> Path | None:
    context = click.get_current_context(silent=True)
    file: Path | None = context.meta.get(_ANCHOR) if context else None
    named = os.environ.get("DPBAYES_ANCHOR")
    return file or (Path(named) if named else None)
