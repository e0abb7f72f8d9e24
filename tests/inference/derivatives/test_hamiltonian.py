"""Hamiltonian chains whose metric or whose start does not suit the law."""

from __future__ import annotations

import numpy as np
import pytest

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.inference.derivatives.hamiltonian import HamiltonianChains

SIZE, CHAINS = 12, 16


def test_one_narrow_direction_does_not_make_the_steps_small() -> None:
    """One of the standard deviations is .01 of what the metric says; draws have it within 20 %, far above its error."""
    sds, n_calls = np.array([0.01, *np.ones(SIZE - 1)]), 0

    def density(z: Floats) -> tuple[Floats, Floats]:
        nonlocal n_calls
        n_calls += 1
        return -0.5 * ((z / sds) ** 2).sum(axis=1), -z / sds**2

    chains = HamiltonianChains(density, np.zeros(SIZE), np.eye(SIZE), CHAINS, np.random.default_rng(1))
    n_calls = 0
    draws = chains.run(100, 1).reshape(-1, SIZE)
    assert draws.std(axis=0) == pytest.approx(sds, rel=0.2)
    assert n_calls < 1000, "a path has fewer than 10 steps"


def test_chains_start_where_draws_are() -> None:
    """At .2 of the metric's scale, the log density is far below that of any draw; chains from there need tiny steps."""
    n_calls = 0

    def density(z: Floats) -> tuple[Floats, Floats]:
        nonlocal n_calls
        n_calls += 1
        return -1e9 * (z**4).sum(axis=1), -4e9 * z**3

    chains = HamiltonianChains(density, np.zeros(SIZE), np.eye(SIZE), CHAINS, np.random.default_rng(2))
    n_calls = 0
    assert chains.least_accepted > 0.5
    assert (chains.run(100, 1).std(axis=1) > 1e-3).all(), "no chain stands still"
    assert n_calls < 1000, "a path has fewer than 10 steps"
