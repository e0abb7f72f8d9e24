"""The law of the noise of one observed count, or of a sum of several observed counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.privacy.noise import NoiseLaw

REACH_NATS = 20.0
_TABLE_NATS = 30.0


@dataclass(frozen=True, eq=False)
class ComponentNoise:
    """The law of the noise of a component.

    Attributes:
        log_pmf: the log probabilities of integers, elementwise.
        reach: each value of the noise that is further from zero has less than exp(-20) of the largest probability.
        variance: the variance.
    """

    log_pmf: Callable[[Integers], Floats]
    reach: int
    variance: float


def component_noise(law: NoiseLaw, number: int) -> ComponentNoise:
    """Return the law of a sum of independent noises.

    Beyond 30 nats below its maximum, the log probability of a sum of several is extrapolated linearly.

    Args:
        law: the law of each noise.
        number: how many are added, at least 1.
    """
    if number == 1:
        return ComponentNoise(law.log_pmf, law.radius(REACH_NATS), law.variance)
    reach = law.radius(2.0 * _TABLE_NATS)
    mass = np.exp(law.log_pmf(np.arange(-reach, reach + 1)))
    length = number * 2 * reach + 1
    total = np.fft.irfft(np.fft.rfft(mass, length) ** number, length)
    half = total[number * reach :]
    known = int(np.argmax(np.append(half, 0.0) < np.exp(-_TABLE_NATS) * half[0]))
    logs = np.log(half[:known])
    slope = float(logs[-1] - logs[-2]) if known > 1 else -_TABLE_NATS  # at least as steep, if 0 alone is known

    def log_pmf(z: Integers) -> Floats:
        distance = np.abs(z)
        inside = np.minimum(distance, known - 1)
        return np.asarray(logs[inside] + slope * (distance - inside))

    reach = int(np.argmax(np.append(logs, -np.inf) < logs[0] - REACH_NATS))
    return ComponentNoise(log_pmf, reach, law.variance * number)
