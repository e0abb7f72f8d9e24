"""A progress bar for reading a large file, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from dpbayes_cli.commands.output import verbosity

_FIRST_SECONDS, _UPDATE_SECONDS = 2.0, 0.5
"""Time before the bar is first shown, and between updates."""
_BAR_WIDTH = 40


@contextmanager
def reading_shown() -> Iterator[None]:
    """Show which share of the file has been read; the share is by bytes, and says nothing about the records."""
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

    shown, pause = False, _FIRST_SECONDS
    while not done.wait(pause):
        share, pause = share_read(), _UPDATE_SECONDS
        if share:  # unknown for a table, a pipe, or a file that another library reads
            filled = "#" * int(share * _BAR_WIDTH)
            sys.stderr.write(f"\rreading [{filled:{_BAR_WIDTH}}] {share:4.0%}")
            sys.stderr.flush()
            shown = True
    if shown:
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()
