"""How far a long reading is, on a terminal; where the output is a file or a pipe, nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from dpbayes_cli.commands.output import verbosity

_PATIENCE, _PAUSE = 2.0, 0.5
"""Seconds before the first sight of it, and between two."""
_WIDTH = 40


@contextmanager
def reading_shown() -> Iterator[None]:
    """Show how much of the file on disk has been read, which says nothing about what is in it."""
    if sys.stderr is None or not sys.stderr.isatty() or verbosity() < 0:
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


def _show(done: Event) -> None:
    from dpbayes_cli.sources.location import share_read

    shown, pause = False, _PATIENCE
    while not done.wait(pause):
        share, pause = share_read(), _PAUSE
        if share:  # what is read by another library, from a table or a pipe, has no place that could be told
            filled = "#" * int(share * _WIDTH)
            sys.stderr.write(f"\rreading [{filled:{_WIDTH}}] {share:4.0%}")
            sys.stderr.flush()
            shown = True
    if shown:
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()
