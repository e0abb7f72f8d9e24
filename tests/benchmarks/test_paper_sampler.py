"""Effective draws a second against the paper's sampler, and the time of whole calibration cells: ``-m benchmark``.

Effective draws are the bulk effective sample size of the first parameter after warm-up; the time is that of getting
them, set-up and warm-up included, imports not. Both sides run one after the other in one process.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from dpbayes_cli.core.columns import Outside
from dpbayes_cli.core.noisy_observation import NoisyCounts, NoisyObservation, NoisySums, RecordCount
from dpbayes_cli.core.record_law import ScalarLaw
from dpbayes_cli.experiments import peers
from dpbayes_cli.inference.batch import draw_many
from dpbayes_cli.inference.diagnostics import diagnose
from dpbayes_cli.inference.posterior import Method
from dpbayes_cli.inference.solve import infer
from dpbayes_cli.inference.sums.one_parameter import grid_density
from dpbayes_cli.models.gamma_exponential import GammaExponential
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from tests.inference.sum_cells import EPSILONS, SIZES, TRIALS, models, noise_of, policy_of, simulate

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpbayes_cli.base.numeric import Floats

pytestmark = pytest.mark.benchmark

N = 1000
UPPER = 1.0
SWEEPS = 50_000
"""Ten times the paper's: its effective sample size is too small to measure its own speed by."""


def binomial_observation(epsilon: float, n: int = N) -> NoisyCounts:
    """Beta(10, 10), 30 % successes."""
    return NoisyCounts((10.0, 10.0), (int(0.3 * n) + 40, None), DiscreteLaplace(1.0 / epsilon), RecordCount("known", n))


def multinomial_observation(epsilon: float) -> NoisyCounts:
    """Dirichlet(5, 5, 5), three noisy counts of sensitivity 2."""
    return NoisyCounts((5.0,) * 3, (260, 370, 330), DiscreteLaplace(2.0 / epsilon), RecordCount("known", N))


def exponential_observation(epsilon: str, outside: str) -> NoisySums:
    """Gamma(8, rate 2), the bound at the paper's 95 % quantile for a rate of 3."""
    model = GammaExponential(UPPER, 8.0, 2.0, "drop" if outside == "drop" else "clamp")
    policy = policy_of(model, complete=True)
    rng = np.random.default_rng(11)
    drawn = rng.exponential(0.25, N)
    noise = noise_of(model, policy, epsilon)
    (column,) = model.columns
    codes, valid = column.codes(drawn)
    exact = [int(codes.sum())]
    if outside == "drop":
        exact = [int(((2 * codes - column.steps) * valid).sum()), int(column.steps * valid.sum())]
    released = [value + int(z) for value, z in zip(exact, noise.simulate(rng, len(exact)), strict=True)]
    return model.observation(policy, released, noise, N)


def paper(draw: Callable[[np.random.Generator], Floats]) -> float:
    """Return the effective draws a second of the paper's sampler."""
    started = time.perf_counter()
    draws = draw(np.random.default_rng(1))
    seconds = time.perf_counter() - started
    effective = float(diagnose(draws.reshape(1, len(draws), -1)[:, :, :1])[1][0])
    print(f"\n  the paper's sampler: {effective:.0f} effective of {len(draws)} in {seconds:.2f} s: "
          f"{effective / seconds:.0f} a second")  # fmt: skip
    return effective / seconds


def ours(observation: NoisyObservation, method: Method, n_draws: int, rate: float) -> None:
    """Print the effective draws a second of an inference, and the ratio to another."""
    started = time.perf_counter()
    posterior = infer(observation, method, n_draws, np.random.default_rng(1))
    seconds = time.perf_counter() - started
    effective = float(len(posterior.draws))
    if posterior.chains is not None:
        effective = float(diagnose(posterior.chains[:, :, :1])[1][0])
    print(f"  {method}, {n_draws} draws asked for ({posterior.method[:60]}): {effective:.0f} effective in "
          f"{seconds:.3f} s: {effective / seconds:.0f} a second, ratio {effective / seconds / rate:.0f}")  # fmt: skip


def compare(observation: NoisyObservation, draw: Callable[[np.random.Generator], Floats]) -> None:
    """Measure the default and the chain against the paper's sampler."""
    for method in ("noise-aware", "chain"):
        infer(observation, method, 100, np.random.default_rng(0))  # imports
    rate = paper(draw)
    for n_draws in (4000, 100_000):
        ours(observation, "noise-aware", n_draws, rate)
    for n_draws in (4000, 100_000):
        ours(observation, "chain", n_draws, rate)


@pytest.mark.parametrize("epsilon", [0.01, 0.1])
def test_binomial(epsilon: float) -> None:
    observation = binomial_observation(epsilon)
    y = float(observation.observed[0] or 0)
    compare(observation, lambda rng: peers.bernstein_sheldon_binomial(y, N, 10.0, 10.0, 1.0 / epsilon, SWEEPS, rng))


@pytest.mark.parametrize("epsilon", [0.01, 0.1])
def test_multinomial(epsilon: float) -> None:
    observation = multinomial_observation(epsilon)
    y = np.array(observation.observed, dtype=np.float64)
    compare(
        observation, lambda rng: peers.bernstein_sheldon_multinomial(y, N, np.full(3, 5.0), 2.0 / epsilon, SWEEPS, rng)
    )


@pytest.mark.parametrize("outside", ["clamp", "drop"])
@pytest.mark.parametrize("epsilon", ["0.01", "0.1"])
def test_exponential(epsilon: str, outside: Outside) -> None:
    """Clamped: one release, two samplers. Dropped: the paper releases one sum; ours also the number of records."""
    observation = exponential_observation(epsilon, outside)
    step = UPPER / observation.law.span if isinstance(observation.law, ScalarLaw) else 0.0
    y = sum(observation.observed) / len(observation.observed) * step
    scale = UPPER / float(epsilon)
    compare(
        observation, lambda rng: peers.bernstein_sheldon_exponential(y, N, 8.0, 2.0, UPPER, scale, outside, SWEEPS, rng)
    )


@pytest.mark.parametrize("complete", [True, False], ids=["complete", "dropped"])
@pytest.mark.parametrize("name", ["beta-geometric", "gamma-exponential", "gamma-poisson", "normal-mean"])
def test_a_calibration_cell_of_one_parameter(name: str, complete: bool) -> None:
    print()
    for n in SIZES:
        for epsilon in EPSILONS:
            trials = TRIALS if complete else TRIALS // 10
            cell = simulate(models()[name], complete, n, epsilon, trials)
            law = cell.observation.law
            assert isinstance(law, ScalarLaw)
            started, busy = time.perf_counter(), time.process_time()
            grid_density(cell.observation, law, cell.observed)
            seconds, busy = time.perf_counter() - started, time.process_time() - busy
            print(f"  {name}, n = {n}, epsilon {epsilon}: {trials} trials in {seconds:.2f} s ({busy:.2f} s of CPU)")


@pytest.mark.parametrize("name", ["normal", "multivariate-normal"])
def test_a_calibration_cell_of_chains(name: str) -> None:
    """300 observations, 199 draws of each, as in a study."""
    print()
    for n in SIZES:
        for epsilon in EPSILONS:
            cell = simulate(models()[name], True, n, epsilon)
            started, busy = time.perf_counter(), time.process_time()
            observations = [replace(cell.observation, observed=tuple(map(int, row))) for row in cell.observed]
            draw_many(observations, "noise-aware", 199, np.random.default_rng(1))
            print(f"  {name}, n = {n}, epsilon {epsilon}: {time.perf_counter() - started:.2f} s "
                  f"({time.process_time() - busy:.2f} s of CPU)")  # fmt: skip
