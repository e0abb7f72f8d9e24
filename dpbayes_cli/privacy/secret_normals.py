"""Normal numbers from the operating system's randomness."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpbayes_cli.numeric import Floats

    Words = NDArray[np.uint64]


def secret_normals(shape: tuple[int, ...]) -> Floats:
    """Draw independent standard normal numbers: quantiles of 53 secret bits for the size, one more for the sign.

    Sizes are quantiles of the lower half of [0, 1], where floats are dense: none is infinite, both signs are alike.

    Privacy: they stand in for real normal numbers, which is an assumption that every bundle states; the largest is 8.4.
    Source: mechanisms, Langevin's Gaussian steps run on a generator backed by the operating system.
    """
    import numpy as np

    bits = np.frombuffer(os.urandom(8 * math.prod(shape)), dtype=np.uint64)
    return normal_numbers(bits).reshape(shape)


def normal_numbers(bits: Words) -> Floats:
    """Return the normal numbers of words of 64 bits: the last bit is the sign, the first 53 are the size."""
    import numpy as np
    from scipy.special import ndtri

    below = ndtri(((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-54)
    return np.asarray(np.where(bits & np.uint64(1), below, -below))
