"""What each method makes of a trial's counts: emissions and states to predict by, one set or many draws.

With one state there are no sequences: what is released then are the counts of all records together, and naive Bayes is
learned from them. With more, what is released are the counts of every cell, zeros with noise where cells are held out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import parse_decimal
from dpbayes_cli.core.noisy_observation import NoisyCounts, RecordCount
from dpbayes_cli.core.options import EpsilonOptions
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.experiments.hmm.cell import HmmCell
from dpbayes_cli.experiments.hmm.records import POLICY, HmmTrial
from dpbayes_cli.experiments.hmm.study import HmmStudy, Method, model_of
from dpbayes_cli.experiments.hmm.tempered_chain import chain_power, draw_power, run_chain, state_shares
from dpbayes_cli.experiments.restricted_rows import least_entry
from dpbayes_cli.inference.posterior import Effort, draw_theta
from dpbayes_cli.inference.posterior import Method as Inference
from dpbayes_cli.inference.solve import infer

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.models.hmm import Hmm
    from dpbayes_cli.privacy.noise import NoiseLaw

_EFFORT = Effort(summary_draws=1 << 10, ess=100.0, mcmc_sweeps=80)
"""Enough to predict by: on the log of events 200 sweeps gave the same log-likelihoods to four digits."""


@dataclass(frozen=True)
class HeldOutPrediction:
    """What held-out cells are predicted by.

    Attributes:
        emissions: for each feature draws of shape (n_draws, n_states, n_values).
        states: how likely each state is in each cell, shape (n_draws or 1, n_sequences, n_steps, n_states).
    """

    emissions: tuple[Floats, ...]
    states: Floats


def predictions(cell: HmmCell, trials: Sequence[HmmTrial]) -> list[HeldOutPrediction]:
    """Return what each trial predicts by."""
    return _METHODS[cell.method](cell, model_of(cell.case, cell.states), trials)


def power_of(cell: HmmCell) -> float | None:
    """Return the power of the likelihood, None where the method has none."""
    epsilon, sizes = float(cell.epsilon or "nan"), model_of(cell.case, cell.states).sizes
    if cell.method == "ops":
        return draw_power(epsilon, sizes, least_of(cell, sizes))
    if cell.method == "gibbs":
        return chain_power(epsilon, sizes, least_of(cell, sizes), cell.sweeps)
    return None


def least_of(cell: HmmCell, sizes: Sequence[int]) -> list[float]:
    """Return the public least probability of a value of each feature: the study's, or that of the mechanism."""
    return [least_entry(size) if cell.method == "gibbs" else cell.least_share for size in sizes]


def laws_of(cell: HmmCell, model: Hmm) -> list[NoiseLaw]:
    """Return the law of the noise on each feature's counts, as ``laplace`` plans it.

    Raises:
        SpecError: no guarantee can be given.
    """
    plan = mechanism_type("laplace")().plan(model, POLICY, EpsilonOptions(epsilon=parse_decimal(str(cell.epsilon))))
    (step,) = plan.steps
    firsts = itertools.accumulate((part.size for part in step.statistic.parts[:-1]), initial=0)
    return [step.noise.at(first) for first in firsts]


def check_plans(study: HmmStudy, grid: Sequence[HmmCell]) -> None:
    """Plan every release once, so that what cannot be priced is refused at the start.

    Raises:
        SpecError: no guarantee can be given; the place is that in the study.
    """
    for cell in grid:
        if cell.method == "laplace" and cell.states == study.states[0]:
            try:
                laws_of(cell, model_of(cell.case, cell.states))
            except SpecError as error:
                message = error.message.removeprefix(f"{error.where}: ")
                raise SpecError(f"{message} (epsilon {cell.epsilon})", where=f"cases.{cell.name}") from None


def _inferred(cell: HmmCell, model: Hmm, trials: Sequence[HmmTrial]) -> list[HeldOutPrediction]:
    """Infer from counts: exact ones, or those of a simulated release."""
    noises: list[NoiseLaw | None] = [None] * len(model.sizes) if cell.epsilon is None else [*laws_of(cell, model)]
    method: Inference = "naive" if cell.method == "laplace-naive" else "noise-aware"
    noise_seeds, seeds = cell.noise_seed().spawn(len(trials)), cell.inference_seed().spawn(len(trials))
    found = []
    for trial, noise_seed, seed in zip(trials, noise_seeds, seeds, strict=True):
        drawn, rng = np.random.default_rng(noise_seed), np.random.default_rng(seed)
        exact = trial.train if model.states > 1 else tuple(each.sum(axis=(0, 1)) for each in trial.train)
        counts = tuple(
            each if law is None else each + law.simulate(drawn, each.shape)
            for each, law in zip(exact, noises, strict=True)
        )
        if model.states > 1:
            posterior = infer(model.observed(counts, tuple(noises), complete=True), method, cell.draws, rng, _EFFORT)
            if posterior.states is None:
                raise TypeError("the posterior tells nothing about states")
            found.append(HeldOutPrediction(tuple(model.split(posterior.draws)[0]), posterior.states[None]))
        else:
            emissions = [
                _row(each, law, model.emission, trial.n_train, method, cell.draws, rng)[:, None]
                for each, law in zip(counts, noises, strict=True)
            ]
            found.append(HeldOutPrediction(tuple(emissions), np.ones((1, *trial.held.shape, 1))))
    return found


def _row(
    counts: Integers,
    law: NoiseLaw | None,
    concentration: float,
    n_records: int,
    method: Inference,
    n_draws: int,
    rng: np.random.Generator,
) -> Floats:
    """Return draws of one feature's probabilities from the counts of all records, shape (n_draws, n_values)."""
    prior = (concentration,) * len(counts)
    if law is None:
        return draw_theta(np.tile(counts, (n_draws, 1)), prior, rng)
    observation = NoisyCounts(prior, tuple(counts.tolist()), law, RecordCount("known", n_records))
    return infer(observation, method, n_draws, rng, _EFFORT).draws


def _drawn(cell: HmmCell, model: Hmm, trials: Sequence[HmmTrial]) -> list[HeldOutPrediction]:
    """Take the last point of a chain that was given what no release has: sweeps with more of the likelihood at first.

    From random states on under the final power, chains stay for thousands of sweeps where all cells are in one state.
    """
    power, half = float(power_of(cell) or 0.0), cell.converged / 2.0
    powers = [power] if cell.states == 1 else [power ** min(1.0, i / half) for i in range(cell.converged)]
    return _walked(cell, model, trials, powers, as_released=False)


def _released(cell: HmmCell, model: Hmm, trials: Sequence[HmmTrial]) -> list[HeldOutPrediction]:
    """Take the last point of a chain of which every sweep is paid for.

    More of its points are public, but so far apart that a mean of their likelihoods is a mixture of its own, which
    holds cells together as states do.
    """
    return _walked(cell, model, trials, [float(power_of(cell) or 0.0)] * cell.sweeps, as_released=True)


def _walked(
    cell: HmmCell, model: Hmm, trials: Sequence[HmmTrial], powers: Sequence[float], *, as_released: bool
) -> list[HeldOutPrediction]:
    """Run the chains of all trials, and predict by where they end."""
    features = zip(*(trial.train for trial in trials), strict=True)
    counts = tuple(np.stack(each) for each in features)
    rng = np.random.default_rng(cell.inference_seed())
    last = run_chain(model, counts, powers, least_of(cell, model.sizes), rng, as_released=as_released)
    shares = state_shares(last.states, last.transition, last.initial)
    return [
        HeldOutPrediction(tuple(each[i : i + 1] for each in last.emissions), shares[i : i + 1])
        for i in range(len(trials))
    ]


_METHODS: dict[Method, Callable[[HmmCell, Hmm, Sequence[HmmTrial]], list[HeldOutPrediction]]] = {
    "non-private": _inferred,
    "laplace": _inferred,
    "laplace-naive": _inferred,
    "ops": _drawn,
    "gibbs": _released,
}
