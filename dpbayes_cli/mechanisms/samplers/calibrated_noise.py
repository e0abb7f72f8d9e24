"""Noise calibrated to a statistic, whose parts may have their own shares of the budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import ClassVar, TypeVar

from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import NoisyStatistics
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.released import Payload
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence, GroupNames, Part, Statistic
from dpbayes_cli.privacy.laws.part_noise import PartNoise, noise_by_parts
from dpbayes_cli.privacy.lazy_numpy import np
from dpbayes_cli.privacy.noise import NoiseLaw

Law = TypeVar("Law", bound=NoiseLaw)


class NoiseMechanism(Mechanism):
    """A mechanism that adds the planned noise to an exact integer statistic."""

    requires: ClassVar[tuple[type, ...]] = (NoisyStatistics,)

    def release(self, plan: Plan, evidence: ExactEvidence) -> Payload:
        """Add the planned noise to the exact statistic.

        Privacy: the guarantee of the plan; only the noisy integers are returned. If keys were found in the data, only
            the keys that pass the threshold of the plan are returned, with their noisy integers.
        Source: see the class; ``KeyThreshold``.
        """
        return self.release_often(plan, evidence, 1)[0]

    def release_often(self, plan: Plan, evidence: ExactEvidence, n_times: int) -> Sequence[Payload]:
        (step,) = plan.steps
        return [self._payload(plan, evidence, noisy) for noisy in step.noise.release_often(evidence.values, n_times)]

    @staticmethod
    def _payload(plan: Plan, evidence: ExactEvidence, noisy: Sequence[int]) -> Payload:
        (step,) = plan.steps
        if plan.threshold is None:
            return Payload(step.statistic.names, tuple(noisy), step.noise)
        components = require_type(step.statistic.names, GroupNames).components
        counts = np.array(noisy, dtype=np.int64).reshape(-1, len(components))
        passing = plan.threshold.passes(counts).tolist()
        keys = tuple(evidence.keys[group] for group in passing)  # sorted, as all keys are
        values = tuple(value for group in passing for value in counts[group].tolist())
        return Payload(GroupNames(keys, components), values, step.noise, keys=keys)


def calibrated_noise(
    statistic: Statistic,
    total: Decimal,
    calibrate: Callable[[int, Decimal], Law],
    sensitivity: Callable[[Statistic | Part], int],
) -> Law | PartNoise:
    """Return noise calibrated to a statistic: as a whole, or part by part if its parts have different weights.

    Args:
        total: the budget.
        calibrate: returns the law for a sensitivity and a share of the budget.
        sensitivity: returns the sensitivity of the statistic, or of a part.

    Privacy: if all weights are equal, one law is calibrated to the sensitivity of the whole statistic; otherwise see
        ``noise_by_parts``.
    Source: derived here.
    """
    parts = statistic.parts
    if len({part.weight for part in parts}) < 2:
        return calibrate(sensitivity(statistic), total)
    sizes, weights = [part.size for part in parts], [part.weight for part in parts]
    return noise_by_parts(total, sizes, weights, lambda i, share: calibrate(sensitivity(parts[i]), share))
