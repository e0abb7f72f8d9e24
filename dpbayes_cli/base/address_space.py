"""Check for enough address space before loading libraries that crash without it."""

from __future__ import annotations

import os
import resource

from dpbayes_cli.base.errors import DpbayesError

_BASE_BYTES = 3 << 30
"""On two cores, a release of the sample data with 14 columns reserves 2.4 GiB of memory and uses little of it."""
_BYTES_PER_CORE = 256 << 20
"""DuckDB runs one thread per core; each thread needs a stack, and address space that the allocator reserves."""


def needed_address_space() -> int:
    """Return the address space, in bytes, that a command may need on this machine."""
    return _BASE_BYTES + _BYTES_PER_CORE * (os.cpu_count() or 1)


def check_address_space() -> None:
    """Raise ``DpbayesError`` if ``ulimit -v`` or ``ulimit -d`` is so low that OpenDP or DuckDB could crash."""
    needed = needed_address_space()
    for limit, option in ((resource.RLIMIT_AS, "-v"), (resource.RLIMIT_DATA, "-d")):
        soft, _ = resource.getrlimit(limit)
        if soft != resource.RLIM_INFINITY and soft < needed:
            raise DpbayesError(
                f"this command needs {needed >> 20} MiB of address space on this machine, but the limit is "
                f"{soft >> 20} MiB",
                hint=f"ulimit {option} {needed >> 10}, or ulimit {option} unlimited; most of this is only reserved, "
                "never used",
            )
