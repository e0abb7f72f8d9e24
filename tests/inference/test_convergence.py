"""When chains may stop: they agree, and have the effective draws that give the test of agreement its power."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
from scipy.signal import lfilter

from dpbayes_cli.inference import chains as chains_module
from dpbayes_cli.inference.chains import CHAINS, Trace, chain_length, run_until_converged
from dpbayes_cli.inference.convergence import DETECTED_SHIFT, Convergence, judge, required_draws
from dpbayes_cli.inference.posterior import Effort

Case = tuple[int, int, float]
"""Chains, monitored quantities, and the correlation of consecutive draws."""
CASES: list[Case] = [(CHAINS, 1, 0.0), (CHAINS, 4, 0.6), (16, 8, 0.6)]


class Autoregressive:
    """Ideal chains with normal draws, each displaced by a shift, shape (chains, k)."""

    def __init__(self, correlation: float, shift: np.ndarray, rng: np.random.Generator) -> None:
        self._correlation, self._shift, self._rng = correlation, shift, rng
        self._state = rng.standard_normal(shift.shape)

    def run(self, n_draws: int, thinning: int) -> np.ndarray:
        kept = self._correlation**thinning
        noise = self._rng.standard_normal((len(self._shift), n_draws, self._shift.shape[1]))
        start = (kept * self._state)[:, None]
        draws, _ = lfilter([np.sqrt(1.0 - kept**2)], [1.0, -kept], noise, axis=1, zi=start)
        self._state = draws[:, -1]
        return np.asarray(draws + self._shift[:, None])


def convergence_of(
    case: Case, kind: Literal["ideal", "halves", "offsets"], rng: np.random.Generator, effort: Effort | None = None
) -> Convergence:
    """Return the last look at a run whose chains are ideal, or differ by ``DETECTED_SHIFT`` in one quantity."""
    chains, k, correlation = case
    shift = np.zeros((chains, k))
    if kind == "halves":
        shift[: chains // 2, k // 2] = DETECTED_SHIFT
    elif kind == "offsets":
        shift[:, k // 2] = DETECTED_SHIFT * rng.standard_normal(chains)
    source = Autoregressive(correlation, shift, rng)
    length = int(np.ceil(1.25 * required_draws(chains, k) / chains))
    return run_until_converged(source.run, lambda draws: draws, length, effort or Effort()).convergence


@pytest.mark.parametrize("fault", ["place", "spread", "drift", "stuck"])
def test_chains_that_differ_do_not_agree(fault: str) -> None:
    """Different places need ranks, different spread needs folding, and drift within a chain needs its halves."""
    draws = np.random.default_rng(2).standard_normal((4, 800, 2))
    assert judge(draws, Effort()).reached
    if fault == "place":
        draws[0, :, 1] += 0.5
    elif fault == "spread":
        draws[0, :, 1] *= 1.6
    elif fault == "drift":
        draws[:, :, 1] += np.linspace(0.0, 0.5, 800)
    else:
        draws[:, :, 1] = np.arange(4)[:, None]
    seen = judge(draws, Effort())
    assert not seen.agree
    assert "do not use this posterior" in seen.warnings[0]


def test_few_draws_are_too_short_even_if_more_were_not_asked_for() -> None:
    """32 chains of 60 draws agree, but half of them may be 0.3 standard deviations off: 4,034 draws are required."""
    draws = np.random.default_rng(3).standard_normal((CHAINS, 60, 4))
    seen = judge(draws, Effort(ess=50))
    assert required_draws(CHAINS, 4) == pytest.approx(4034, abs=1)
    assert (seen.agree, seen.enough, seen.reached) == (True, False, False)
    (warning,) = seen.warnings
    assert "4,034 are required; the chains agree so far, but a difference between chains of less than " in warning
    assert warning.endswith("dpbayes infer BUNDLE --more")
    assert "do not use" not in warning
    assert judge(draws, Effort(ess=50, more=1)).warnings[0].endswith("dpbayes infer BUNDLE --more --more")


def test_effective_draws_are_counted_within_chains_alone() -> None:
    """At a correlation of 9/11 ten draws are worth one; pooled, they are a handful, for the chains differ."""
    source = Autoregressive(9 / 11, 5.0 * np.arange(CHAINS)[:, None] * np.ones((1, 1)), np.random.default_rng(4))
    seen = judge(source.run(1000, 1), Effort())
    assert seen.diagnosis.ess_within == pytest.approx(CHAINS * 100, rel=0.3)
    assert seen.diagnosis.ess_bulk.max() < 100


def test_a_longer_limit_continues_the_same_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a correlation of 0.9 the chains need about 6,000 steps each; the limits are 600 and 38,400."""
    monkeypatch.setattr(chains_module, "_MAX_LENGTHS", 2)

    def run(effort: Effort) -> chains_module.ChainRun:
        source = Autoregressive(0.9, np.zeros((8, 1)), np.random.default_rng(5))
        return run_until_converged(source.run, lambda draws: draws, 300, effort)

    short, long = run(Effort()), run(Effort(more=2))
    assert not short.convergence.reached
    assert long.convergence.reached
    assert short.draws.shape[1] <= 600
    assert long.draws.shape[1] <= 600


def test_a_start_far_away_is_treated_as_warm_up() -> None:
    source = Autoregressive(0.5, np.zeros((8, 1)), np.random.default_rng(6))
    source._state += 200.0
    steps = 0

    def run(n_draws: int, thinning: int) -> np.ndarray:
        nonlocal steps
        trend = 20.0 * np.exp(-(steps + thinning * np.arange(n_draws)) / 100.0)
        steps += thinning * n_draws
        return source.run(n_draws, thinning) + trend[:, None]

    seen = run_until_converged(run, lambda draws: draws, 400, Effort())
    assert seen.convergence.reached
    assert abs(seen.draws.mean()) < 0.2


def test_a_trace_is_evenly_thinned() -> None:
    trace = Trace(8)
    for i in range(1, 101):
        trace.add(np.full((2, 3), float(i)))
    kept = trace.values()[0, :, 0]
    assert 4 <= len(kept) <= 8
    assert len(set(np.diff(kept))) == 1
    trace.clear()
    trace.add(np.zeros((2, 3)))
    assert trace.values().shape == (2, 1, 3)


def test_the_length_lets_ideal_draws_pass_at_once() -> None:
    length = chain_length(4000, 400.0, 4)
    assert length * CHAINS > required_draws(CHAINS, 4)
    assert chain_length(64_000, 400.0, 4) == 2000
    assert chain_length(10, 400.0, 1 << 20) == 50


@pytest.mark.slow
@pytest.mark.calibration
@pytest.mark.parametrize("case", CASES, ids=str)
def test_ideal_chains_pass_in_999_of_1000_runs(case: Case) -> None:
    """1,000 complete runs a case. If one in 1,000 is refused, then more than 5 are with probability 6e-4 a case."""
    rng = np.random.default_rng(7)
    assert sum(not convergence_of(case, "ideal", rng).reached for _ in range(1000)) <= 5


@pytest.mark.slow
@pytest.mark.calibration
@pytest.mark.parametrize("kind", ["halves", "offsets"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_chains_that_differ_by_a_third_of_a_standard_deviation_are_refused(
    case: Case, kind: Literal["halves", "offsets"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """300 runs a case, which end with about twice the required draws; they can pass from the required draws on.

    If one in 100 passes, then more than 10 of 300 pass with probability 3e-4 a case.
    """
    monkeypatch.setattr(chains_module, "_MAX_LENGTHS", math.ceil(2.0 * (1.0 + case[2]) / (1.0 - case[2])))
    rng = np.random.default_rng(9)
    assert sum(convergence_of(case, kind, rng).reached for _ in range(300)) <= 10
