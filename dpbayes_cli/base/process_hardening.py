"""What the operating system could keep of a process that has read the data: nothing that it is asked not to."""

from __future__ import annotations

import ctypes
import resource
import sys

_PR_SET_DUMPABLE = 4


def disable_core_dumps() -> None:
    """Leave no image of this process's memory on a disk where it crashes, and let nobody but root attach to it.

    A limit of zero does not stop a core file that the kernel pipes to a program; a process that is not dumpable has
    none at all. Memory that is swapped out and hibernation are root's business.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
