"""Whether the libraries that compute will find the address space that they need: where they do not, some just crash."""

from __future__ import annotations

import os
import resource

from dpbayes_cli.base.errors import DpbayesError

_NEED = 3 << 30
"""Of one core; a release of the sample data with 14 columns takes 2.4 GiB on two, most of which is never touched."""
_NEED_OF_A_CORE = 256 << 20
"""The stack and the allocator's reserve of a thread of DuckDB, of which each core has one."""


def needed() -> int:
    """Return how many bytes of address space a command may need on this machine."""
    return _NEED + _NEED_OF_A_CORE * (os.cpu_count() or 1)


def check_address_space() -> None:
    """Refuse to go on under a limit (``ulimit -v``, ``ulimit -d``) that OpenDP or DuckDB could be killed by.

    Raises:
        DpbayesError: the limit is lower than ``needed``.
    """
    for limit, option in ((resource.RLIMIT_AS, "-v"), (resource.RLIMIT_DATA, "-d")):
        soft, _ = resource.getrlimit(limit)
        if soft != resource.RLIM_INFINITY and soft < needed():
            raise DpbayesError(
                f"this needs {needed() >> 20} MiB of address space on this machine, and the limit is {soft >> 20} MiB",
                hint=f"ulimit {option} {needed() >> 10}, or ulimit {option} unlimited; most of it is never touched",
            )
