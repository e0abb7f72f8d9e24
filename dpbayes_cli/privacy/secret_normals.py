"""Normal numbers from the operating system's randomness."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpbayes_cli.numeric import Floats


def secret_normals(shape: tuple[int, ...]) -> Floats:
    """Draw independent standard normal numbers: the normal quantiles of uniform numbers of 53 secret bits each.

    Privacy: they stand in for real normal numbers, which is an assumption that every bundle states; the largest is 8.2.
    Source: mechanisms, Langevin's Gaussian steps run on a generator backed by the operating system.
    """
    import numpy as np
    from scipy.special import ndtri

    size = int(np.prod(shape))
    bits = np.frombuffer(os.urandom(8 * size), dtype=np.uint64) >> np.uint64(11)
    return np.asarray(ndtri((bits.astype(np.float64) + 0.5) * 2.0**-53)).reshape(shape)
