"""Which process holds an unfinished reservation, and whether it is still running."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def this_process() -> dict[str, str]:
    """Return what identifies this process on this boot of this host."""
    pid = os.getpid()
    return {"host": socket.gethostname(), "boot": _boot(), "pid": str(pid), "start": _start_time(pid)}


def is_running(owner: dict[str, str]) -> bool:
    """Return whether the process that made a reservation may still be at work.

    A process of another host is taken to be: a fresh release then makes a reservation of its own.
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
    """Return the kernel's start time of a process, an empty text where there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = stat.rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        pass
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return ""
    except PermissionError:
        pass
    return "unknown"


def user_name() -> str:
    """Return the name of the user who runs this process, not what the environment says."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
