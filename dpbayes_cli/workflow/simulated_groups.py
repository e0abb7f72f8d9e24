"""Simulate releases of groups: group parameters from a stated law, records, noise, and the posterior of each group.

The probability of one category varies between groups by a Beta law with the prior's mean, and with an intraclass
correlation of 0.04; for a mean of 50 %, the standard deviation over groups is 10 percentage points. The parameter of
numbers varies by a normal law of its coordinate (``inference.groups.population``), in the middle of the public range
and with an eighth of the length of this range as its standard deviation. If the model estimates the standard deviation
of numbers in a group, it is the median of its prior, and taken as known.

The numbers of records are Poisson with the same mean in all groups. At most 20 groups or 50,000 records are simulated,
whichever is more: further groups hardly change what is known about their common law, and thus one group's interval.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy.special import betaincinv

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.noisy_observation import GroupedCounts, GroupedMoments, GroupedSums, NoisyGroups
from dpbayes_cli.core.registry import model_type
from dpbayes_cli.core.section import require_type
from dpbayes_cli.inference.groups.grouped_counts import infer_category
from dpbayes_cli.inference.groups.grouped_sums import fit_sums, summarize_all
from dpbayes_cli.inference.groups.population import draw_coordinates, parameter_moments
from dpbayes_cli.inference.groups.record_moments import RecordMoments
from dpbayes_cli.workflow.expectation import NARROWER, Estimated
from dpbayes_cli.workflow.simulated_releases import NO_NOISE, Simulation, Trials

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.privacy.noise import NoiseLaw
    from dpbayes_cli.workflow.pricing import PlannedRelease

MOST_TRIALS = 8
"""The number of simulated releases if none is stated."""
_CORRELATION, _SPREAD = 0.04, 0.25
_LEAST_GROUPS, _MAX_GROUPS, _MAX_RECORDS = 20, 10_000, 50_000
_MAX_COUNTS = 1 << 20
_MAX_SIZE = 10**6
_MAX_NUMBERS_SIZE = 10**5
"""The limit is lower for groups of numbers, because numbers are drawn one by one."""
_SHARE = 0.25
"""The share of the usual number of draws of hyperparameters."""


def why_no_groups(planned: PlannedRelease, n_records: int) -> str:
    """Return why releases of groups are not simulated, one sentence; empty if they are."""
    n_groups = len(planned.model.group_keys)
    if not n_groups:
        return "A plan does not simulate groups whose keys are found in the data; it states the cost only."
    is_counts = isinstance(_model_of_group(planned).group_outcome(), GroupedCounts)
    most = _MAX_SIZE if is_counts else _MAX_NUMBERS_SIZE
    if n_records > most * n_groups:
        return f"A plan does not simulate groups of more than {most:,} records; it states the cost only."
    return ""


def group_simulation(planned: PlannedRelease, n_records: int, seed: int, parameter: str | None) -> GroupSimulation:
    """Return the simulation of a request with groups; ``why_no_groups`` must give no reason against it."""
    is_counts = isinstance(_model_of_group(planned).group_outcome(), GroupedCounts)
    return (CategorySimulation if is_counts else NumberSimulation)(planned, n_records, seed, parameter)


def _model_of_group(planned: PlannedRelease) -> Model:
    return model_type(planned.spec.model).build(planned.spec.domain, planned.spec.prior)


class GroupSimulation(Simulation):
    """Releases of groups; only the posterior of the main parameter of a group is simulated.

    Attributes:
        n_groups: the number of groups of the request.
        pooling: see ``infer_groups``.
        sd_within: the assumed standard deviation of numbers within a group; None if the model does not estimate it.
    """

    sd_within: float | None = None

    def __init__(self, planned: PlannedRelease, n_records: int, seed: int, parameter: str | None = None) -> None:
        super().__init__(replace(planned, model=_model_of_group(planned)), n_records, seed, parameter)
        if self.main not in planned.model.group_parameters:
            hint = f"state one of: {', '.join(planned.model.group_parameters)}"
            raise SpecError(f"{self.main} is not a parameter of a group", where="--parameter", hint=hint)
        self.n_groups = len(planned.model.group_keys)
        self.pooling = planned.spec.inference_options.value("pooling")
        self._spread = planned.spec.inference_options.value("spread")
        self.names = [self.main]

    @property
    @abstractmethod
    def assumed(self) -> tuple[float, float]:
        """The assumed mean and standard deviation of the parameter over the groups."""

    @property
    @abstractmethod
    def unseen_width(self) -> float:
        """The width for a group without records: that of the assumed law, or, without pooling, of the prior."""

    @abstractmethod
    def _statistics(self, sizes: Integers) -> Integers:
        """Draw the exact statistic of each group, given the number of its records."""

    @abstractmethod
    def _infer(self, observed: Integers, noise: NoiseLaw) -> tuple[Floats, Floats]:
        """Return the standard deviation, shape (n_groups,), and the quantiles of the parameter of each group."""

    def prior_widths(self) -> Floats:
        """Return the width of a group without records, for each parameter."""
        return np.full(len(self.model.parameters), self.unseen_width)

    @property
    def most_at_once(self) -> int:
        """One release at a time."""
        return 1

    def run(self, trials: int) -> Trials:
        """Simulate the next releases."""
        sds, widths, plain_sds, plain_widths = np.array([self._release() for _ in range(trials)]).T[..., None]
        return Trials(sds, widths, plain_sds, plain_widths, {}, np.empty((0, 3)))

    def _release(self) -> tuple[float, ...]:
        """Return the medians over the groups of the standard deviation and the width, with and without privacy."""
        size = self.n_records / self.n_groups
        most = min(
            _MAX_GROUPS, _MAX_COUNTS // max(2, len(self.model.parameters)), max(_LEAST_GROUPS, int(_MAX_RECORDS / size))
        )
        exact = self._statistics(self.data_rng.poisson(size, min(self.n_groups, most)))
        private = self._medians(exact, self.planned.plan.final_step.noise)
        return (*private, *((math.nan, math.nan) if self.widths_only else self._medians(exact, NO_NOISE)))

    def _medians(self, exact: Integers, noise: NoiseLaw) -> tuple[float, float]:
        sds, quantiles = self._infer(exact + noise.simulate(self.release_rng, exact.shape), noise)
        return float(np.median(sds)), float(np.median(quantiles[:, 2] - quantiles[:, 0]))


class CategorySimulation(GroupSimulation):
    """Releases of groups of categories."""

    def __init__(self, planned: PlannedRelease, n_records: int, seed: int, parameter: str | None = None) -> None:
        super().__init__(planned, n_records, seed, parameter)
        self._outcome = require_type(self.model.group_outcome(), GroupedCounts)
        self._category = self.model.parameters.index(self.main)
        a, total = self._outcome.concentration[self._category], sum(self._outcome.concentration)
        records = 1.0 / _CORRELATION - 1.0
        self._law = a / total * records, (1.0 - a / total) * records
        self._unseen_law = self._law if self.pooling == "partial" else (a, total - a)

    @property
    def assumed(self) -> tuple[float, float]:
        """The mean and the standard deviation of the Beta law."""
        mean = self._law[0] / sum(self._law)
        return mean, math.sqrt(_CORRELATION * mean * (1.0 - mean))

    @property
    def unseen_width(self) -> float:
        """The width of the Beta law, or, without pooling, of the prior."""
        low, high = betaincinv(*self._unseen_law, np.array([0.05, 0.95])).tolist()
        return float(high - low)

    def _statistics(self, sizes: Integers) -> Integers:
        counts = np.zeros((len(sizes), len(self._outcome.concentration)), dtype=np.int64)
        counts[:, self._category] = self.data_rng.binomial(sizes, self.data_rng.beta(*self._law, len(sizes)))
        counts[:, self._category - 1] = sizes - counts[:, self._category]
        return counts

    def _infer(self, observed: Integers, noise: NoiseLaw) -> tuple[Floats, Floats]:
        observation = NoisyGroups(self._outcome, observed, noise, spread=self._spread)
        groups = infer_category(observation, self._outcome, self._category, self.pooling, self.release_rng)
        summary = groups.summarize(self.release_rng)
        return summary.sds, summary.quantiles


class NumberSimulation(GroupSimulation):
    """Releases of groups of numbers."""

    def __init__(self, planned: PlannedRelease, n_records: int, seed: int, parameter: str | None = None) -> None:
        super().__init__(planned, n_records, seed, parameter)
        outcome = self.model.group_outcome()
        self._column = require_type(self.model.columns[0], NumericColumn)
        if isinstance(outcome, GroupedMoments):
            steps, self.sd_within = self._column.steps, float(outcome.sd_quantiles(np.array(0.5)))
            outcome = GroupedSums(outcome.law_at(self.sd_within), steps, 2 * steps, steps)
        self._outcome = require_type(outcome, GroupedSums)
        self._moments = RecordMoments(self._outcome)
        low, high = self._outcome.law.public_range
        self._center, self._sd = np.array([(low + high) / 2.0]), np.array([_SPREAD * (high - low) / 2.0])

    @property
    def assumed(self) -> tuple[float, float]:
        """The mean and the standard deviation of the parameter, given the normal law of its coordinate."""
        mean, sd = parameter_moments(self._outcome.law, self._moments.domain, self._center, self._sd)
        return float(mean[0]), float(sd[0])

    @property
    def unseen_width(self) -> float:
        """The width of the assumed law, or, without pooling, of the prior, from draws."""
        rng, law = np.random.default_rng(0), self._outcome.law
        center, spread = (np.repeat(each, 10_000) for each in (self._center, self._sd))
        drawn = draw_coordinates(self._moments.domain, center, spread, rng)[:, None]
        coordinates = drawn if self.pooling == "partial" else law.draw_prior(10_000, rng)
        low, high = np.quantile(law.parameters(coordinates)[:, 0], [0.05, 0.95])
        return float(high - low)

    def _statistics(self, sizes: Integers) -> Integers:
        rng, outcome, law = self.data_rng, self._outcome, self._outcome.law
        center, spread = (np.repeat(each, len(sizes)) for each in (self._center, self._sd))
        parameters = law.parameters(draw_coordinates(self._moments.domain, center, spread, rng)[:, None])[:, 0]
        common, rows = (math.nan, math.nan, self.sd_within or math.nan, math.nan), []
        for parameter, size in zip(parameters.tolist(), sizes.tolist(), strict=True):
            codes, valid = self._column.codes(self.model.draw_outcomes(parameter, common, size, rng))
            codes = codes[valid > 0]
            rows.append(
                (
                    int((2 * codes - outcome.steps).sum()) * outcome.sum_unit,
                    len(codes) * outcome.steps * outcome.size_unit,
                )
            )
        return np.array(rows, dtype=np.int64)

    def _infer(self, observed: Integers, noise: NoiseLaw) -> tuple[Floats, Floats]:
        observation = NoisyGroups(self._outcome, observed, noise, spread=self._spread)
        fit = fit_sums(observation, self._outcome, self.pooling, self.release_rng, _SHARE)
        posterior = summarize_all(fit, observation, 2, self.release_rng)
        return posterior.sds[:, 0], posterior.quantiles[:, 0]


@dataclass(frozen=True)
class ExpectedGroups:
    """The expected width of the 90 % interval of a parameter of one group.

    Attributes:
        n_records: the number of records of all groups.
        n_groups: the number of groups of the request.
        trials: the number of simulated releases.
        parameter: the name of the parameter.
        is_share: whether the parameter is a probability.
        mean, sd: the assumed mean and standard deviation of the parameter over the groups.
        sd_within: the assumed standard deviation of numbers within a group; None if the model does not estimate it.
        width: the width with privacy; the median over the groups of each release.
        nonprivate_width: the width without privacy.
        posterior_sd, nonprivate_sd: the standard deviation with and without privacy, medians like ``width``.
        unseen_width: the width for a group without records: that of the assumed law, or, without pooling, of the prior.
    """

    n_records: int
    n_groups: int
    trials: int
    parameter: str
    is_share: bool
    mean: float
    sd: float
    sd_within: float | None
    width: Estimated
    nonprivate_width: float
    posterior_sd: float
    nonprivate_sd: float
    unseen_width: float

    @classmethod
    def of(cls, simulation: GroupSimulation, trials: Trials) -> Self:
        """Return the summary of simulated releases."""
        plain_width, sd, plain_sd = (
            Estimated.of(each[:, 0]).median for each in (trials.plain_width, trials.sd, trials.plain_sd)
        )
        return cls(
            simulation.n_records,
            simulation.n_groups,
            len(trials),
            simulation.main,
            simulation.model.main_fact.is_share,
            *simulation.assumed,
            simulation.sd_within,
            Estimated.of(trials.width[:, 0]),
            plain_width,
            sd,
            plain_sd,
            simulation.unseen_width,
        )

    @property
    def inflation(self) -> float:
        """The ratio of the standard deviations with and without privacy."""
        return self.posterior_sd / self.nonprivate_sd

    @property
    def is_worthless(self) -> bool:
        """Whether the interval of a group is no narrower than that of a group without records."""
        return self.width.median > NARROWER * self.unseen_width
