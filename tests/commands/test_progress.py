"""Reading a large file shows its progress on a terminal only, and ends when it is interrupted."""

from __future__ import annotations

import gzip
import io
import os
import pty
import select
import sys
import time
import zlib
from pathlib import Path

import pytest

from dpbayes_cli.commands import progress
from dpbayes_cli.sources.location import opened, share_read


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
    with progress.reading_shown(), opened(place / "data.csv") as file:
        file.read(2 << 20)
        for _ in range(100 if stream is Terminal else 5):
            time.sleep(0.02)
            if "50%" in shown.getvalue():
                break
    assert share_read() is None
    assert ("reading " in shown.getvalue()) == ("50%" in shown.getvalue()) == (stream is Terminal)
    assert stream is not Terminal or "\033[2K" in shown.getvalue().rpartition("50%")[2]


@pytest.mark.slow
def test_a_billion_empty_lines_are_interrupted_at_a_terminal(place: Path) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    lines = packer.compress(b"\n" * 10**8) + packer.flush()
    (place / "data.csv.gz").write_bytes(gzip.compress(b"x\n1\n") + lines * 10)
    pid, terminal = pty.fork()
    if pid == 0:
        options = ["release", "data.csv.gz", "--model", "beta-bernoulli", "--eps", "1", "--out", "out"]
        os.execv(sys.executable, [sys.executable, "-W", "ignore", "-m", "dpbayes_cli", *options])
    printed, interrupted = b"", False
    try:
        while select.select([terminal], [], [], 60.0)[0] and (read := os.read(terminal, 1 << 16)):
            printed += read
            if b"reading " in printed and not interrupted:
                os.write(terminal, b"\x03")
                interrupted = True
    except OSError:
        pass  # its end is closed
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    assert b"Error: interrupted" in printed
    assert b"run the same command again to finish it" in printed
