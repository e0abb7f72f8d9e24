"""Noise calibrated to a statistic, whose parts may have shares of the budget of their own."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TypeVar

from dpbayes_cli.core.statistic import Part, Statistic
from dpbayes_cli.privacy.laws.part_noise import PartNoise, noise_by_parts
from dpbayes_cli.privacy.noise import NoiseLaw

Law = TypeVar("Law", bound=NoiseLaw)


def calibrated_noise(
    statistic: Statistic,
    total: Decimal,
    calibrate: Callable[[int, Decimal], Law],
    sensitivity: Callable[[Statistic | Part], int],
) -> Law | PartNoise:
    """Calibrate noise to a statistic, in all or part by part where its parts have shares of the budget that differ.

    Args:
        statistic: what is to be noised.
        total: what may be spent.
        calibrate: returns the law for a sensitivity and a share.
        sensitivity: what the noise is calibrated to, of the statistic and of each part.

    Privacy: parts of equal weights are noised as one, by the sensitivity of the whole; see ``noise_by_parts``.
    Source: mechanisms, budget per node.
    """
    parts = statistic.parts
    if len({part.weight for part in parts}) < 2:
        return calibrate(sensitivity(statistic), total)
    sizes, weights = [part.size for part in parts], [part.weight for part in parts]
    return noise_by_parts(total, sizes, weights, lambda i, share: calibrate(sensitivity(parts[i]), share))
