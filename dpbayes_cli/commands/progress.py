"""Progress bars, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import Event, Thread

from dpbayes_cli.commands.output import verbosity

_FIRST_SECONDS, _UPDATE_SECONDS = 2.0, 0.5
"""How long ``reading_shown`` waits before it shows a progress bar, and between two updates."""


@contextmanager
def progress_bar() -> Iterator[Callable[..., None]]:
    """Yield a function that draws the bar; its arguments are ``completed``, from 0 to 1, and ``description``."""
    if not _has_terminal():
        yield lambda **_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        yield partial(bar.update, bar.add_task("", total=1.0, visible=False), visible=True)


@contextmanager
def reading_shown() -> Iterator[None]:
    """Show the share of the file's bytes that have been read; it reveals nothing about the records."""
    if not _has_terminal():
        yield
        return
    done = Event()
    thread = Thread(target=_show, args=(done,), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _has_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty() and verbosity() >= 0


def _show(done: Event) -> None:
    from dpbayes_cli.sources.location import share_read

    pause = _FIRST_SECONDS
    with ExitStack() as shown:
        update = None
        while not done.wait(pause):
            update, pause = update or shown.enter_context(progress_bar()), _UPDATE_SECONDS
            share = share_read()  # None for a table, a pipe, or a file that another library reads
            update(completed=share, description="reading", visible=bool(share))
