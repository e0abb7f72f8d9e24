"""Simulate releases of one request without data: parameters from the prior, records from the model, noise from its law.

For one seed, releases at two values of epsilon see the same parameters and records.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import process_time
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import numpy as np

from dpbayes_cli.base.errors import SpecError, nearest
from dpbayes_cli.bundle.report.validity import means_inside
from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.model import Model, NoisyStatistics
from dpbayes_cli.core.noisy_observation import NoisyObservation, with_count_prior
from dpbayes_cli.core.private_quantile import PrivateBounds
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic_values import evaluate_codes
from dpbayes_cli.inference.batch import draw_many
from dpbayes_cli.inference.posterior import Method, interval_ends
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.workflow.pricing import PlannedRelease
from dpbayes_cli.workflow.tested_predictions import TestRecords

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

NORMAL_WIDTH = 2.0 * 1.6448536269514722
"""The width of the central 90 % interval of a normal law, in standard deviations."""
METHODS: tuple[Method, Method] = ("noise-aware", "naive")
_DRAWS = 256
"""Draws from each posterior: the Monte Carlo error of one width is about 6 %, and that of a median is smaller."""
_FIRST_TRIALS = 2
_CAUTION = 0.7
"""The share of the remaining time for which the next batch is planned."""
_MAX_NUMBERS = 1 << 24
_MAX_LISTED = 20
_MOST_REDRAWS = 20
"""After this many draws of parameters that do not fit the bounds, the next draw is used whether it fits or not."""
NO_NOISE = DiscreteLaplace(1e-2)

Drawn = TypeVar("Drawn", bound=tuple[Any, ...])

Progress = Callable[[float], None]
"""A function that is called with the finished fraction of the simulation, from 0 to 1."""


@dataclass(frozen=True)
class Trials:
    """Simulated releases; arrays have shape (n_trials, n_parameters) unless stated otherwise.

    Attributes:
        sd, width: the standard deviation and the width of the central 90 % interval of each parameter, in the posterior
            or in the law of released draws.
        plain_sd, plain_width: the same without privacy.
        covered: for each inference method whether the interval holds the true parameter.
        scores: the scores of predictions with privacy, without privacy and without features, shape (n_trials, 3) or
            (0, 3); see ``TestRecords``.
        errors: the mean squared errors of estimated effects with and without privacy, shape (n_trials, 2) or (0, 2).
    """

    sd: Floats
    width: Floats
    plain_sd: Floats
    plain_width: Floats
    covered: dict[str, Floats]
    scores: Floats
    errors: Floats = field(default_factory=lambda: np.empty((0, 2)))

    @classmethod
    def of_normal_laws(cls, sd: Floats, plain_sd: Floats) -> Self:
        """Return releases of draws from normal laws with these standard deviations."""
        return cls(sd, NORMAL_WIDTH * sd, plain_sd, NORMAL_WIDTH * plain_sd, {}, np.empty((0, 3)))

    def __len__(self) -> int:
        return len(self.sd)

    def joined(self, others: Trials) -> Trials:
        """Return these releases followed by others."""
        names = ("sd", "width", "plain_sd", "plain_width", "scores", "errors")
        arrays = {name: np.concatenate([getattr(self, name), getattr(others, name)]) for name in names}
        covered = {name: np.concatenate([each, others.covered[name]]) for name, each in self.covered.items()}
        return replace(self, **arrays, covered=covered)


class Simulation(ABC):
    """Releases of one request that can be simulated.

    Args:
        planned: the priced request.
        n_records: the number of records in a data set, all of them valid.
        seed: the seed of all random choices.
        parameter: the parameter that the plan's sentences are about; if None, the one that the result reports first.

    Raises:
        SpecError: the model has no such parameter, or it is not simulated.

    Attributes:
        names: the parameters that are simulated.
        listed: the simulated parameters whose intervals the plan states.
        main: the parameter that the plan's sentences are about.
        asked: the request from whose prior coefficients of regressions are drawn.
        widths_only: whether only intervals with privacy are inferred; the other arrays are NaN or empty.
    """

    widths_only = False

    def __init__(self, planned: PlannedRelease, n_records: int, seed: int, parameter: str | None = None) -> None:
        self.planned, self.n_records, self.asked = planned, n_records, planned.spec
        self.model: Model = planned.model
        self.data_rng, self.release_rng = np.random.default_rng(seed).spawn(2)
        names = self.model.parameters
        if len(of_text := [name for name in names if name.endswith(f"[{parameter}]")]) == 1:
            parameter = of_text[0]
        if parameter is not None and parameter not in names:
            message = f"the model has no parameter {parameter!r}"
            raise SpecError(message, where="--parameter", hint=nearest(parameter, names))
        main = self.model.main_fact.parameter if parameter is None else names.index(parameter)
        self.indices = sorted(self._chosen(main))
        self.names = [names[i] for i in self.indices]
        if parameter not in (None, *self.names):
            message = f"draws of {parameter} by {planned.spec.mechanism} are not simulated"
            raise SpecError(message, where="--parameter", hint=f"state one of: {', '.join(self.names)}")
        self.heads = [self.indices.index(i) for i in self.model.compared]
        self.main = names[main] if main in self.indices else self.names[0]
        self.listed = [name for i, name in enumerate(self.names) if i < _MAX_LISTED or name == self.main]

    def _chosen(self, main: int) -> set[int]:
        """Return the indices of the parameters to simulate; ``main`` is the index of the main parameter."""
        return {*self.model.compared, *range(min(len(self.model.parameters), _MAX_LISTED)), main}

    @property
    def most_at_once(self) -> int:
        """The largest number of releases that ``run`` should simulate at a time."""
        return max(1, _MAX_NUMBERS // (_DRAWS * len(self.model.parameters)))

    @property
    def sd_of(self) -> Literal["posterior", "estimate"]:
        """Whether standard deviations are those of a posterior, or errors of an estimate."""
        return "estimate" if self.planned.mechanism.estimates else "posterior"

    @abstractmethod
    def run(self, trials: int) -> Trials:
        """Simulate the next releases."""

    def plausible(self, draw: Callable[[], Drawn]) -> Drawn:
        """Draw parameters and what depends on them, until the mean of each column of numbers is inside its bounds.

        Default priors are wide. Under some of them, one data set in three would have most of its numbers out of bounds.
        A user who states these bounds does not expect that.
        """
        for _ in range(_MOST_REDRAWS):
            drawn = draw()
            if all(means_inside(self.model, drawn[0]).values()):
                return drawn
        return draw()

    def prior_widths(self) -> Floats:
        """Return the width of the prior's central 90 % interval of each parameter of the model; NaN if not known."""
        quantiles = self.model.prior_quantiles(np.array([0.05, 0.95]))
        return np.full(len(self.model.parameters), np.nan) if quantiles is None else quantiles[:, 1] - quantiles[:, 0]


def run_in_time(
    simulation: Simulation,
    trials: int | None,
    most: int,
    seconds: float,
    progress: Progress | None = None,
    least: int = 2,
) -> Trials:
    """Simulate a stated number of releases, or as many as time allows.

    Args:
        trials: the number of releases; if None, as many as time allows.
        most: the largest number of releases if ``trials`` is None.
        seconds: the CPU time that the simulation may take if ``trials`` is None.
        progress: called with the finished fraction.
        least: the smallest number of releases if ``trials`` is None, however long they take.
    """
    started, done = process_time(), None
    wanted = most if trials is None else trials
    size = min(wanted, _FIRST_TRIALS if trials is None else simulation.most_at_once)
    while True:
        before = process_time()
        batch = simulation.run(size)
        done = batch if done is None else done.joined(batch)
        now = process_time()
        if progress:
            share = len(done) / wanted
            progress(min(1.0, share if trials is not None else max(share, (now - started) / max(seconds, 1e-9))))
        size = min(wanted - len(done), simulation.most_at_once)
        if trials is None:
            left = _CAUTION * (seconds - (now - started))
            size = min(size, max(least - len(done), int(left / max((now - before) / len(batch), 1e-6))))
        if size <= 0:
            return done


class NoiseSimulation(Simulation):
    """Releases of noisy statistics of simulated records, with inference from each."""

    def run(self, trials: int) -> Trials:
        """Simulate the next releases, and infer all posteriors together."""
        thetas, noisy, exact = zip(*(self._release() for _ in range(trials)), strict=True)
        columns = [self._statistical.components[i] for i in self.indices]
        truth = np.array(thetas)[:, self.indices]

        def infer(observations: Sequence[NoisyObservation], method: Method) -> tuple[Floats, Floats, Floats]:
            draws = draw_many(observations, method, _DRAWS, self.release_rng, short_warm_up=True)
            from_zero = np.array(self.model.can_be_hidden)[self.indices]
            return draws, *interval_ends(draws[:, :, columns], 0.9, from_zero)

        private, *ends = infer(noisy, "noise-aware")
        sd, width = private[:, :, columns].std(axis=1), ends[1] - ends[0]
        if self.widths_only:
            unknown = np.full_like(sd, np.nan)
            return Trials(sd, width, unknown, unknown, {}, np.empty((0, 3)))
        naive = infer(noisy, "naive")[1:]
        covered = {
            str(method): ((low <= truth) & (truth <= high))[:, self.heads].astype(np.float64)
            for method, (low, high) in zip(METHODS, (ends, naive), strict=True)
        }
        plain, low, high = infer(exact, "naive")
        scores = self._scores(thetas, private, plain)
        return Trials(sd, width, plain[:, :, columns].std(axis=1), high - low, covered, scores)

    @property
    def _statistical(self) -> NoisyStatistics:
        return require_type(self.model, NoisyStatistics)

    def _scores(self, thetas: Sequence[Sequence[float]], private: Floats, plain: Floats) -> Floats:
        columns = list(self._statistical.components)
        rows = []
        for theta, draws, exact in zip(thetas, private, plain, strict=True):
            records = TestRecords.draw(self.model, theta, self.release_rng)
            if records is None:
                break
            rows.append(records.scores(draws[:, columns], exact[:, columns]))
        return np.array(rows).reshape(-1, 3)

    def _release(self) -> tuple[tuple[float, ...], NoisyObservation, NoisyObservation]:
        planned, bounds, rng = self.planned, self.planned.spec.private_bounds, self.data_rng
        if bounds is not None:
            return self.plausible(lambda: simulate_with_private_bounds(planned, bounds, self.n_records, rng))
        statistic = planned.plan.final_step.statistic
        theta, values = self.plausible(
            lambda: self._statistical.simulated_statistic(statistic, planned.policy, self.n_records, rng)
        )
        noisy, exact = _observations(planned, values, self.n_records, self.release_rng)
        return theta, noisy, exact


def simulate_with_private_bounds(
    planned: PlannedRelease, law: PrivateBounds, n_records: int, rng: np.random.Generator
) -> tuple[tuple[float, ...], NoisyObservation, NoisyObservation]:
    """Simulate a release with private bounds; return the true parameters, the noisy and the exact observation."""
    full_range = law.grid.column("value", law.outside)
    theta, histogram = planned.model.simulated_histogram(full_range, n_records, rng)
    lower, upper = law.simulate(histogram, rng)
    narrowed = planned.at_choice(law.values_at((lower, upper)))
    column = require_type(narrowed.model.columns[0], NumericColumn)
    codes = law.codes(histogram, lower, upper, column)
    values = evaluate_codes(narrowed.plan.final_step.statistic, column, codes)
    noisy, exact = _observations(narrowed, values, n_records, rng)
    return theta, noisy, exact


def _observations(
    planned: PlannedRelease, values: Sequence[int], n_records: int, rng: np.random.Generator
) -> Iterator[NoisyObservation]:
    """Yield the observation of the noisy values, then the observation of the exact values."""
    noise, public = planned.plan.final_step.noise, planned.policy.neighbors is Neighbors.REPLACE_ONE
    for law, errors in ((noise, noise.simulate(rng, len(values))), (NO_NOISE, [0] * len(values))):
        released = [int(value + error) for value, error in zip(values, errors, strict=True)]
        count = n_records if public else None
        observation = planned.mechanism.observation(planned.model, planned.policy, released, law, count)
        yield with_count_prior(observation, planned.spec.inference_options.value("count_prior"))


def root_mean_square(values: Floats) -> float:
    """Return the root mean square of all values."""
    return math.sqrt(float(np.mean(np.square(values))))
