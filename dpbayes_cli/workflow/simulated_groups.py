"""Simulate releases of groups: group probabilities from a stated law, records, noise, and the posterior of each group.

The probability of the stated category varies between groups by a Beta law with the prior's mean, and with an intraclass
correlation of 0.04; for a mean of 50 %, the standard deviation over groups is 10 percentage points. The numbers of
records are Poisson with the same mean in all groups. At most 10,000 groups are simulated: further groups hardly
change what the groups have in common, and thus the interval of one group.
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
from dpbayes_cli.inference.groups.counts import infer_category
from dpbayes_cli.models.families.grouped import GroupedModel
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.workflow.expectation import NARROWER, Estimated

if TYPE_CHECKING:
    from dpbayes_cli.workflow.planning import SimulationEffort
    from dpbayes_cli.workflow.pricing import PlannedRelease

_TRIALS, _LEAST_TRIALS = 8, 2
_CORRELATION = 0.04
_MAX_GROUPS, _MAX_COUNTS = 10_000, 1 << 20
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


def simulate_groups(planned: PlannedRelease, n_records: int, effort: SimulationEffort) -> ExpectedGroups | None:
    """Return a summary of simulated releases of groups; None if the model of a group has no categories.

    Args:
        n_records: the number of records of all groups, all of them valid.
        effort: the simulation effort; if it states no number of releases, there are 8, or as many as time allows.

    Raises:
        SpecError: the model of a group has no such parameter.
    """
    model = planned.model
    if not isinstance(model, GroupedModel) or not isinstance(outcome := model.base.group_outcome(), GroupedCounts):
        return None
    names = model.group_parameters
    if effort.parameter not in (None, *names):
        message = f"a group has no parameter {effort.parameter!r}"
        raise SpecError(message, where="--parameter", hint=nearest(effort.parameter, names))
    category = model.base.main_fact.parameter if effort.parameter is None else names.index(effort.parameter)
    a, total = outcome.concentration[category], sum(outcome.concentration)
    mean, kappa = a / total, 1.0 / _CORRELATION - 1.0
    pooling = planned.spec.inference_options.value("pooling")
    n_categories, n_groups = len(outcome.concentration), len(model.keys)
    simulated = min(n_groups, _MAX_GROUPS, max(_MAX_COUNTS // n_categories, 1))
    rng, started = np.random.default_rng(effort.seed), process_time()
    widths: list[tuple[float, float]] = []
    wanted = _TRIALS if effort.trials is None else effort.trials
    while len(widths) < wanted:
        sizes = rng.poisson(n_records / n_groups, simulated)
        counts = np.zeros((simulated, n_categories), dtype=np.int64)
        counts[:, category] = rng.binomial(sizes, rng.beta(mean * kappa, (1.0 - mean) * kappa, simulated))
        counts[:, category - 1] = sizes - counts[:, category]
        both = []
        for noise in (planned.plan.final_step.noise, _NO_NOISE):
            observation = NoisyGroups(outcome, counts + noise.simulate(rng, counts.shape), noise)
            found = infer_category(observation, outcome, category, pooling, rng).summarize(rng).quantiles
            both.append(float(np.median(found[:, 2] - found[:, 0])))
        widths.append((both[0], both[1]))
        late = effort.trials is None and (process_time() - started) * (1.0 + 1.0 / len(widths)) > effort.seconds
        if effort.progress:
            effort.progress(len(widths) / wanted)
        if late and len(widths) >= _LEAST_TRIALS:
            break
    private, plain = (Estimated.of(np.array(each)) for each in zip(*widths, strict=True))
    unseen = (mean * kappa, (1.0 - mean) * kappa) if pooling == "partial" else (a, total - a)
    low, high = betaincinv(*unseen, 0.05), betaincinv(*unseen, 0.95)
    sd = math.sqrt(_CORRELATION * mean * (1.0 - mean))
    return ExpectedGroups(
        n_records, n_groups, len(widths), names[category], mean, sd, private, plain.median, float(high - low)
    )
