"""Keep the operating system from saving the memory of a process that has read the data."""

from __future__ import annotations

import ctypes
import resource
import sys

_PR_SET_DUMPABLE = 4


def disable_core_dumps() -> None:
    """Write no core file if this process crashes, and let only root attach to it.

    A limit of zero does not stop a core dump that the kernel pipes to a program, so the process is made undumpable too.
    Only root can keep memory out of swap and hibernation images.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
