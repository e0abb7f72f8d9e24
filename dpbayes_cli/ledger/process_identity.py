"""Identify the process that charged a release, and tell whether the process is still running."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path


def this_process() -> dict[str, str]:
    """Return the identity of this process: host, boot, process ID and start time."""
    pid = os.getpid()
    return {"host": socket.gethostname(), "boot": _boot(), "pid": str(pid), "start": _start_time(pid)}


def is_running(owner: dict[str, str]) -> bool:
    """Return whether the process that charged a release may still be running.

    A process on another host counts as running, so a new release with ``--fresh`` does not take over its charge.
    """
    if owner.get("host") != socket.gethostname():
        return True
    pid = owner.get("pid", "")
    if owner.get("boot") != _boot() or not pid.isdigit():
        return False
    start = _start_time(int(pid))
    return start == owner.get("start") and start != ""


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _start_time(pid: int) -> str:
    """Return the kernel's start time of a process; an empty text if there is no such process."""
    with suppress(OSError, IndexError):
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = stat.rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    try:
        with suppress(PermissionError):
            os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return ""
    return "unknown"


def user_name() -> str:
    """Return the name of the user who runs this process, as the system (not the environment) states it."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
