"""Simulate releases of groups: group probabilities from a stated law, records, noise, and the posterior of each group.

The probability of one category varies between groups by a Beta law with the prior's mean, and with an intraclass
correlation of 0.04; for a mean of 50 %, the standard deviation over groups is 10 percentage points. The numbers of
records are Poisson with the same mean in all groups. At most 20 groups or 50,000 records are simulated, whichever is
more: further groups hardly change what is known about their common law, and thus the interval of one group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy.special import betaincinv

from dpbayes_cli.core.model import Model
from dpbayes_cli.core.noisy_observation import GroupedCounts, NoisyGroups
from dpbayes_cli.core.registry import model_type
from dpbayes_cli.core.section import require_type
from dpbayes_cli.inference.groups.counts import infer_category
from dpbayes_cli.workflow.expectation import NARROWER, Estimated
from dpbayes_cli.workflow.simulated_releases import NO_NOISE, Simulation, Trials

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers
    from dpbayes_cli.privacy.noise import NoiseLaw
    from dpbayes_cli.workflow.pricing import PlannedRelease

MOST_TRIALS = 8
"""The number of simulated releases if none is stated."""
_CORRELATION = 0.04
_LEAST_GROUPS, _MAX_GROUPS, _MAX_RECORDS = 20, 10_000, 50_000
_MAX_COUNTS = 1 << 20
_MAX_SIZE = 10**6


def why_no_groups(planned: PlannedRelease, n_records: int) -> str:
    """Return why releases of groups are not simulated, one sentence; empty if they are."""
    if not isinstance(_model_of_group(planned).group_outcome(), GroupedCounts):
        return f"Plan does not simulate groups of {planned.model.name}; it states the price only."
    if n_records > _MAX_SIZE * len(_keys(planned)):
        return f"Plan does not simulate groups of more than {_MAX_SIZE:,} records; it states the price only."
    return ""


def _model_of_group(planned: PlannedRelease) -> Model:
    return model_type(planned.spec.model).build(planned.spec.domain, planned.spec.prior)


def _keys(planned: PlannedRelease) -> tuple[str, ...]:
    return () if planned.spec.by is None else planned.spec.by.keys


class GroupSimulation(Simulation):
    """Releases of groups of categories; only widths of the main parameter of a group are simulated.

    ``why_no_groups`` must give no reason against the simulation.

    Attributes:
        n_groups: the number of groups of the request.
        law: the parameters of the Beta law of the main parameter over the groups.
        unseen_law: the parameters of the law of a group without records: ``law``, or without pooling the prior.
    """

    def __init__(self, planned: PlannedRelease, n_records: int, seed: int, parameter: str | None = None) -> None:
        model = _model_of_group(planned)
        super().__init__(replace(planned, model=model), n_records, seed, parameter)
        self.n_groups, self.outcome = len(_keys(planned)), require_type(model.group_outcome(), GroupedCounts)
        self.category = self.model.parameters.index(self.main)
        a, total = self.outcome.concentration[self.category], sum(self.outcome.concentration)
        records = 1.0 / _CORRELATION - 1.0
        self.law = a / total * records, (1.0 - a / total) * records
        self.pooling = planned.spec.inference_options.value("pooling")
        self.unseen_law = self.law if self.pooling == "partial" else (a, total - a)

    def run(self, trials: int) -> Trials:
        """Simulate the next releases."""
        widths, unknown = np.array([self._release() for _ in range(trials)]), np.full((trials, 1), np.nan)
        return Trials(unknown, widths[:, :1], unknown, widths[:, 1:], {}, np.empty((0, 3)))

    def _release(self) -> tuple[float, float]:
        """Return the median width of the groups' intervals in one release, with and without privacy."""
        size, n_categories = self.n_records / self.n_groups, len(self.outcome.concentration)
        most = min(_MAX_GROUPS, _MAX_COUNTS // n_categories, max(_LEAST_GROUPS, int(_MAX_RECORDS / size)))
        sizes = self.data_rng.poisson(size, min(self.n_groups, most))
        counts = np.zeros((len(sizes), n_categories), dtype=np.int64)
        counts[:, self.category] = self.data_rng.binomial(sizes, self.data_rng.beta(*self.law, len(sizes)))
        counts[:, self.category - 1] = sizes - counts[:, self.category]
        return self._width(counts, self.planned.plan.final_step.noise), self._width(counts, NO_NOISE)

    def _width(self, counts: Integers, noise: NoiseLaw) -> float:
        rng = self.release_rng
        observation = NoisyGroups(self.outcome, counts + noise.simulate(rng, counts.shape), noise)
        posterior = infer_category(observation, self.outcome, self.category, self.pooling, rng)
        quantiles = posterior.summarize(rng).quantiles
        return float(np.median(quantiles[:, 2] - quantiles[:, 0]))


@dataclass(frozen=True)
class ExpectedGroups:
    """The expected width of the 90 % interval of a group's probability of one category.

    Attributes:
        n_records: the number of records of all groups.
        n_groups: the number of groups of the request.
        trials: the number of simulated releases.
        parameter: the name of the probability.
        mean, sd: the assumed mean and standard deviation of the probability over the groups.
        width: the width with privacy; the median over the groups of each release.
        nonprivate_width: the width without privacy.
        unseen_width: the width for a group without records: the width of the assumed law, or of the prior if groups are
            not pooled.
    """

    n_records: int
    n_groups: int
    trials: int
    parameter: str
    mean: float
    sd: float
    width: Estimated
    nonprivate_width: float
    unseen_width: float

    @classmethod
    def of(cls, simulation: GroupSimulation, trials: Trials) -> Self:
        """Return the summary of simulated releases."""
        mean = simulation.law[0] / sum(simulation.law)
        low, high = betaincinv(*simulation.unseen_law, np.array([0.05, 0.95])).tolist()
        return cls(
            simulation.n_records,
            simulation.n_groups,
            len(trials),
            simulation.main,
            mean,
            math.sqrt(_CORRELATION * mean * (1.0 - mean)),
            Estimated.of(trials.width[:, 0]),
            Estimated.of(trials.plain_width[:, 0]).median,
            high - low,
        )

    @property
    def is_worthless(self) -> bool:
        """Whether the interval of a group is no narrower than that of a group without records."""
        return self.width.median > NARROWER * self.unseen_width
