"""Simulate releases of posterior draws or point estimates from exact statistics."""

from __future__ import annotations

import math

import numpy as np

from dpbayes_cli.core.model import NoisyStatistics
from dpbayes_cli.core.section import require_type
from dpbayes_cli.workflow.simulated_releases import Simulation, Trials


class SamplerSimulation(Simulation):
    """Moments of posterior draws or point estimates, given the exact statistics of simulated records.

    Only the parameters in ``Model.compared`` are simulated. Intervals are those of normal laws with the same standard
    deviations. The standard deviation of a point estimate is its root mean square distance from the true parameter.
    """

    def _chosen(self, main: int) -> set[int]:
        slow = self.planned.plan.final_step.law.slow_moments
        return {0} if slow else {*self.model.compared}

    def run(self, trials: int) -> Trials:
        """Simulate the next data sets, and compute the moments of the draws from each."""
        law, model = self.planned.plan.final_step.sampler, require_type(self.model, NoisyStatistics)
        private, plain = [], []
        for _ in range(trials):
            theta, values = self.plausible(lambda: model.simulated(self.planned.policy, self.n_records, self.data_rng))
            moments = [law.moments(values)] if law.slow_moments else law.moments_by_row(values)
            exact = [sd for _, sd in model.exact_moments(values, self.n_records)]
            plain.append(exact or [law.nonprivate_sd(values) or math.nan])
            private.append(
                [
                    math.hypot(sd, mean - theta[i]) if self.sd_of == "estimate" else sd
                    for i, (mean, sd) in zip(self.indices, moments, strict=True)
                ]
            )
        return Trials.of_normal_laws(np.array(private), np.array(plain))
