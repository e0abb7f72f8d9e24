"""OpenDP's measurements on vectors of integers, built once per scale, and one draw from them.

The noise comes from OpenSSL's generator, which the operating system seeds; a forked process seeds its own again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from dpbayes_cli.base.address_space import check_address_space
from dpbayes_cli.base.errors import DpbayesError


def add_noise(measurement: Any, values: Sequence[int]) -> list[int]:
    """Return values with the noise of a measurement.

    Raises:
        DpbayesError: no noise could be drawn, e.g. because the operating system gives no randomness; there is no
            fallback.
    """
    from opendp.mod import OpenDPException

    try:
        return [int(value) for value in measurement(values)]
    except OpenDPException:
        raise no_randomness_error() from None


def no_randomness_error() -> DpbayesError:
    """Return the error for noise that cannot be drawn."""
    return DpbayesError(
        "no noise could be drawn: the operating system gives no random numbers; nothing is released",
        hint="run the same command again when it does; what was charged is not charged again",
    )


@lru_cache(maxsize=64)
def opendp_laplace(scale: float) -> Any:
    """Return OpenDP's discrete Laplace measurement on vectors of integers."""
    check_address_space()
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    return make_laplace(vector_domain(atom_domain(T="i64")), l1_distance(T="i64"), scale=scale)


@lru_cache(maxsize=64)
def opendp_gaussian(scale: float) -> Any:
    """Return OpenDP's discrete Gaussian measurement on vectors of integers."""
    check_address_space()
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    return make_gaussian(vector_domain(atom_domain(T="i64")), l2_distance(T="f64"), scale=scale)
