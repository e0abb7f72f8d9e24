"""Noise calibrated to a statistic, whose parts may have their own shares of the budget."""

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
    """Return noise calibrated to a statistic: as a whole, or part by part if its parts have different weights.

    Args:
        statistic: the statistic to add noise to.
        total: the budget.
        calibrate: returns the law for a sensitivity and a share of the budget.
        sensitivity: returns the sensitivity of the statistic, or of a part.

    Privacy: parts of equal weights are noised as one, by the sensitivity of the whole; see ``noise_by_parts``.
    Source: design notes, budget per node.
    """
    parts = statistic.parts
    if len({part.weight for part in parts}) < 2:
        return calibrate(sensitivity(statistic), total)
    sizes, weights = [part.size for part in parts], [part.weight for part in parts]
    return noise_by_parts(total, sizes, weights, lambda i, share: calibrate(sensitivity(parts[i]), share))
