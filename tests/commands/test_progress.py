"""Reading a large file shows its progress on a terminal only, and ends when it is interrupted."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path

import pytest

from dpbayes_cli.commands import progress
from dpbayes_cli.sources.location import open_bytes, share_read


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_progress_is_shown_on_a_terminal_only(
    stream: type[io.StringIO], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "data.csv").write_bytes(bytes(4 << 20))
    monkeypatch.setattr(progress, "_FIRST_SECONDS", 0.01)
    monkeypatch.setattr(progress, "_UPDATE_SECONDS", 0.01)
    shown = stream()
    monkeypatch.setattr(sys, "stderr", shown)
    with progress.reading_shown(), open_bytes(place / "data.csv") as file:
        file.read(2 << 20)
        for _ in range(100 if stream is Terminal else 5):
            time.sleep(0.02)
            if "50%" in shown.getvalue():
                break
    assert share_read() is None
    assert ("reading " in shown.getvalue()) == ("50%" in shown.getvalue()) == (stream is Terminal)
    assert stream is not Terminal or "\033[2K" in shown.getvalue().rpartition("50%")[2]
