"""Simulate releases of groups: group probabilities from a stated law, records, noise, and the posterior of each group.

The probability of the stated category varies between groups by a Beta law with the prior's mean, and with an intraclass
correlation of 0.04; for a mean of 50 %, the standard deviation over groups is 10 percentage points. The numbers of
records are Poisson with the same mean in all groups. At most 20 groups or 50,000 records are simulated, whichever is
more: further groups hardly change what is known about their common law, and thus the interval of one group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import process_time
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaincinv

from dpbayes_cli.base.errors import SpecError, nearest
from dpbayes_cli.core.noisy_observation import GroupedCounts, NoisyGroups
from dpbayes_cli.core.section import require_type
from dpbayes_cli.inference.groups.counts import infer_category
from dpbayes_cli.models.families.grouped import GroupedModel
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.workflow.expectation import NARROWER, Estimated

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers
    from dpbayes_cli.privacy.noise import NoiseLaw
    from dpbayes_cli.workflow.planning import SimulationEffort
    from dpbayes_cli.workflow.pricing import PlannedRelease

_TRIALS, _LEAST_TRIALS = 8, 2
_CORRELATION = 0.04
_LEAST_GROUPS, _MAX_GROUPS, _MAX_RECORDS = 20, 10_000, 50_000
_MAX_COUNTS = 1 << 20
_MAX_SIZE = 10**6
_NO_NOISE = DiscreteLaplace(1e-2)


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
        unseen_width: the width for a group without records: that of the assumed law, or without pooling of the prior.
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

    @property
    def is_worthless(self) -> bool:
        """Whether the interval of a group is no narrower than that of a group without records."""
        return self.width.median > NARROWER * self.unseen_width


@dataclass(frozen=True)
class _Groups:
    """Groups that can be simulated; ``a`` and ``b`` are the parameters of the Beta law of their probabilities."""

    planned: PlannedRelease
    outcome: GroupedCounts
    category: int
    mean_size: float
    n_groups: int
    a: float
    b: float

    def widths(self, rng: np.random.Generator) -> tuple[float, float]:
        """Return the median width of the groups' intervals in one simulated release, with and without privacy."""
        sizes = rng.poisson(self.mean_size, self.n_groups)
        counts = np.zeros((self.n_groups, len(self.outcome.concentration)), dtype=np.int64)
        counts[:, self.category] = rng.binomial(sizes, rng.beta(self.a, self.b, self.n_groups))
        counts[:, self.category - 1] = sizes - counts[:, self.category]
        noise = self.planned.plan.final_step.noise
        return self._width(counts, noise, rng), self._width(counts, _NO_NOISE, rng)

    def _width(self, counts: Integers, noise: NoiseLaw, rng: np.random.Generator) -> float:
        observation = NoisyGroups(self.outcome, counts + noise.simulate(rng, counts.shape), noise)
        pooling = self.planned.spec.inference_options.value("pooling")
        quantiles = infer_category(observation, self.outcome, self.category, pooling, rng).summarize(rng).quantiles
        return float(np.median(quantiles[:, 2] - quantiles[:, 0]))


def why_no_groups(planned: PlannedRelease, n_records: int) -> str:
    """Return why releases of groups are not simulated, one sentence; empty if they are."""
    model = require_type(planned.model, GroupedModel)
    if not isinstance(model.base.group_outcome(), GroupedCounts):
        return f"Plan does not simulate groups of {model.name}; it states the price only."
    if n_records > _MAX_SIZE * len(model.keys):
        return f"Plan does not simulate groups of more than {_MAX_SIZE:,} records; it states the price only."
    return ""


def simulate_groups(planned: PlannedRelease, n_records: int, effort: SimulationEffort) -> ExpectedGroups:
    """Return a summary of simulated releases of groups, if ``why_no_groups`` gives no reason against it.

    Args:
        n_records: the number of records of all groups, all of them valid.
        effort: the simulation effort; if it states no number of releases, there are 8, or as many as time allows.

    Raises:
        SpecError: the model of a group has no such parameter.
    """
    model = require_type(planned.model, GroupedModel)
    outcome, names = require_type(model.base.group_outcome(), GroupedCounts), model.group_parameters
    if effort.parameter is not None and effort.parameter not in names:
        message = f"a group has no parameter {effort.parameter!r}"
        raise SpecError(message, where="--parameter", hint=nearest(effort.parameter, names))
    category = model.base.main_fact.parameter if effort.parameter is None else names.index(effort.parameter)
    prior = outcome.concentration[category], sum(outcome.concentration) - outcome.concentration[category]
    mean, size = prior[0] / sum(prior), n_records / len(model.keys)
    a, b = (share * (1.0 / _CORRELATION - 1.0) for share in (mean, 1.0 - mean))
    most = min(_MAX_GROUPS, _MAX_COUNTS // len(outcome.concentration), max(_LEAST_GROUPS, int(_MAX_RECORDS / size)))
    simulation = _Groups(planned, outcome, category, size, min(len(model.keys), most), a, b)
    widths = np.array(_in_time(simulation, effort))
    unseen = (a, b) if planned.spec.inference_options.value("pooling") == "partial" else prior
    return ExpectedGroups(
        n_records=n_records,
        n_groups=len(model.keys),
        trials=len(widths),
        parameter=names[category],
        mean=mean,
        sd=math.sqrt(_CORRELATION * mean * (1.0 - mean)),
        width=Estimated.of(widths[:, 0]),
        nonprivate_width=Estimated.of(widths[:, 1]).median,
        unseen_width=float(betaincinv(*unseen, 0.95) - betaincinv(*unseen, 0.05)),
    )


def _in_time(simulation: _Groups, effort: SimulationEffort) -> list[tuple[float, float]]:
    """Return the widths of each release."""
    rng, started = np.random.default_rng(effort.seed), process_time()
    widths: list[tuple[float, float]] = []
    wanted = _TRIALS if effort.trials is None else effort.trials
    while len(widths) < wanted:
        widths.append(simulation.widths(rng))
        if effort.progress:
            effort.progress(len(widths) / wanted)
        each = (process_time() - started) / len(widths)
        if effort.trials is None and len(widths) >= _LEAST_TRIALS and each * (len(widths) + 1) > effort.seconds:
            break
    return widths
