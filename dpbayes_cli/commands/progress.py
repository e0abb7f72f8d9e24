"""Progress bars, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import Event, Thread
from time import monotonic

from dpbayes_cli.commands.output import verbosity

_FIRST_SECONDS, _UPDATE_SECONDS = 2.0, 0.5
"""The time before ``reading_shown`` and ``delayed_bar`` show a bar, and the time between updates of the former."""


@contextmanager
def progress_bar() -> Iterator[Callable[..., None]]:
    """Yield a function that updates the bar; its arguments are ``completed``, from 0 to 1, and ``description``."""
    if not has_terminal():
        yield lambda **_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        yield partial(bar.update, bar.add_task("", total=1.0, visible=False), visible=True)


@contextmanager
def delayed_bar(description: str) -> Iterator[Callable[[float], None]]:
    """Yield a function that updates a bar, shown after two seconds; its argument is the completed share, 0 to 1."""
    started = monotonic()
    with ExitStack() as shown:
        bars: list[Callable[..., None]] = []

        def report(share: float) -> None:
            if not bars and monotonic() - started > _FIRST_SECONDS:
                bars.append(shown.enter_context(progress_bar()))
            for update in bars:
                update(completed=share, description=description)

        yield report


@contextmanager
def reading_shown(description: str = "reading") -> Iterator[None]:
    """Show how much of a file has been read, which reveals nothing about its records."""
    if not has_terminal():
        yield
        return
    done = Event()
    thread = Thread(target=_show, args=(done, description), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def has_terminal() -> bool:
    """Return whether stderr is a terminal that shows messages."""
    return sys.stderr is not None and sys.stderr.isatty() and verbosity() >= 0


def _show(done: Event, description: str) -> None:
    from dpbayes_cli.sources.location import share_read

    pause = _FIRST_SECONDS
    with ExitStack() as shown:
        update = None
        while not done.wait(pause):
            update, pause = update or shown.enter_context(progress_bar()), _UPDATE_SECONDS
            share = share_read()  # None for a table, a pipe, or a file that another library reads
            update(completed=share, description=description, visible=bool(share))
