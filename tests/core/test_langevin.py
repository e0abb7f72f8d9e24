"""Langevin chains: the law of the last iterate, the gradient, and the grid of released coefficients."""

from __future__ import annotations

import math
import os
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.stats import norm

from dpbayes_cli.core import design as design_module
from dpbayes_cli.core import langevin as module
from dpbayes_cli.core.columns import Column, NumericColumn
from dpbayes_cli.core.design import Design, DesignMatrix, DesignRows, Feature
from dpbayes_cli.core.langevin import Gradient, Langevin, Normals
from dpbayes_cli.core.losses import HuberLoss, LogisticLoss
from tests.statistical import FALSE_FAIL

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

A, B = NumericColumn("a", -1.0, 1.0, 1 << 16), NumericColumn("b", -1.0, 1.0, 1 << 16)
CITY = Column("city", tuple(f"c{i}" for i in range(30)))
Y = NumericColumn("y", -1.0, 1.0, 1 << 16)
DESIGN = Design((Feature(A), Feature(B)))
SPARSE = Design((Feature(A), Feature(CITY)))
CHAINS = 20_000


def matrix_of(design: Design, n: int, seed: int = 3, block: int = 1000) -> DesignMatrix:
    rng = np.random.default_rng(seed)
    limits = [len(f.column.levels) if isinstance(f.column, Column) else (1 << 16) + 1 for f in design.features]
    codes = np.stack([rng.integers(0, limit, n) for limit in (*limits, (1 << 16) + 1)], axis=1)
    matrix = DesignMatrix(DesignRows(design, Y), n)
    for start in range(0, n, block):
        matrix.take(codes[start : start + block])
    return matrix


def everything(matrix: DesignMatrix) -> tuple[Floats, Floats]:
    x = np.concatenate([np.asarray(x.toarray() if hasattr(x, "toarray") else x) for x, _ in matrix.blocks])
    return x.astype(np.float64), np.concatenate([y for _, y in matrix.blocks])


def seeded_normals(seed: int) -> Normals:
    return np.random.default_rng(seed).standard_normal


QUADRATIC = Langevin(
    HuberLoss(1e6, 0.5),
    3,
    likelihood_power=0.3,
    tau=2.0,
    step_size=0.04,
    n_steps=4,
    grid=2.0**-30,
    n_records=12,
    row_norm=math.sqrt(3.0),
)
"""No residual exceeds the threshold: the chain is linear, and its iterates are normal."""


def moments(chain: Langevin, matrix: DesignMatrix) -> tuple[Floats, Floats]:
    """Return the mean and the covariance of the last iterate in closed form."""
    x, y = everything(matrix)
    scale = chain.likelihood_power / 0.5**2
    shrink = np.eye(3) * (1.0 - chain.step_size * chain.tau) - chain.step_size * scale * x.T @ x
    push = chain.step_size * scale * x.T @ y
    mean, covariance = np.zeros(3), np.zeros((3, 3))
    for _ in range(chain.n_steps):
        mean = shrink @ mean + push
        covariance = shrink @ covariance @ shrink + 2.0 * chain.step_size * np.eye(3)
    return mean, covariance


@pytest.mark.parametrize("n_steps", [1, 4, 40])
def test_last_iterate_has_the_moments_of_the_accounted_chain(n_steps: int) -> None:
    """Means and covariances of 20,000 chains within 1e-9 of false-fail altogether (normal approximation).

    A step, a noise or a likelihood power 20 % off moves one of them by more than its limit, with what it may err by.
    """
    chain, matrix = replace(QUADRATIC, n_steps=n_steps), matrix_of(DESIGN, 12)
    drawn = chain.draw(matrix, CHAINS, seeded_normals(n_steps))
    assert drawn.shape == (CHAINS, 3)
    mean, covariance = moments(chain, matrix)
    limit = float(norm.isf(FALSE_FAIL / 24.0)) / math.sqrt(CHAINS)
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < limit * np.sqrt(np.diag(covariance)))
    centered = drawn - mean
    spread = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2)
    assert np.all(np.abs(centered.T @ centered / CHAINS - covariance) < limit * spread)


def test_chain_without_noise_is_gradient_descent_from_zero() -> None:
    chain = replace(QUADRATIC, loss=LogisticLoss(), n_steps=3)
    matrix = matrix_of(DESIGN, 12)
    x, y = everything(matrix)
    w = np.zeros(3)
    for _ in range(3):
        w = w - chain.step_size * (chain.likelihood_power * x.T @ (1.0 / (1.0 + np.exp(-x @ w)) - y) + chain.tau * w)
    quiet = chain.draw(matrix, 2, np.zeros)
    assert quiet == pytest.approx(np.stack([w, w]), abs=1e-8)


def test_several_draws_are_independent_chains() -> None:
    """Of 4,000 pairs of chains: no correlation beyond 6.5 standard errors (false-fail 1e-9); one noise would be 1."""
    matrix = matrix_of(DESIGN, 12)
    drawn = QUADRATIC.draw(matrix, 8000, seeded_normals(9))
    first, second = drawn[:4000], drawn[4000:]
    for i in range(3):
        assert abs(np.corrcoef(first[:, i], second[:, i])[0, 1]) < 6.5 / math.sqrt(4000)
    assert len(np.unique(drawn[:, 0])) > 7900


def test_released_coefficients_are_on_the_public_grid() -> None:
    coarse = replace(QUADRATIC, grid=2.0**-3)
    matrix = matrix_of(DESIGN, 12)
    drawn = coarse.draw(matrix, 200, seeded_normals(4))
    fine = QUADRATIC.draw(matrix, 200, seeded_normals(4))
    assert (drawn * 8.0 == np.round(drawn * 8.0)).all()
    assert np.abs(drawn - fine).max() <= 2.0**-4 + 2.0**-30


def test_draws_without_valid_records_are_noise_alone() -> None:
    """A data set without valid records is a neighbor, too: the chain must run, and adds noise only."""
    matrix = DesignMatrix(DesignRows(DESIGN, Y), 3)
    matrix.take(np.full((3, 3), -1))
    chain = replace(QUADRATIC, n_steps=30)
    drawn = chain.draw(matrix, 4000, seeded_normals(5))
    shrunk = (1.0 - chain.step_size * chain.tau) ** 2
    variance = 2.0 * chain.step_size * (1.0 - shrunk**30) / (1.0 - shrunk)
    limit = 6.5 / math.sqrt(4000)
    assert np.all(np.abs(drawn.mean(axis=0)) < limit * math.sqrt(variance))
    assert np.all(np.abs(drawn.var(axis=0) / variance - 1.0) < limit * math.sqrt(2.0))


def test_draws_have_unbounded_support(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten standard deviations out after one step: no outcome of one data set is impossible under a neighbor.

    Quantiles of 53 bits ended at 8.37, with gaps from 7.6 on: at mu = 1 what a neighbor could not give had the
    probability 1.1e-11, and the Gaussian curve allows 9.8e-23 at epsilon 10.
    """
    real, calls = os.urandom, iter(range(1000))
    far, certain = round(math.exp(-10.0) * 2**64).to_bytes(8, "little"), (1).to_bytes(8, "little")

    def rigged(size: int) -> bytes:
        if next(calls):  # the bits that decide whether so large a number is kept: it is
            return (1 << 20).to_bytes(size, "little")
        return (far * 3 + real(max(size // 2 - 24, 0)) + certain * 3 + real(size))[:size]

    monkeypatch.setattr(os, "urandom", rigged)
    chain = replace(QUADRATIC, n_steps=1)
    matrix = DesignMatrix(DesignRows(DESIGN, Y), 3)  # no valid record: noise alone
    assert chain.draw(matrix, 1)[0] == pytest.approx(10.0 * math.sqrt(2.0 * chain.step_size), rel=1e-6)


def test_released_zeros_have_no_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbors may reach zero from different sides, and noise may be zero: the sign must not tell."""
    chain = replace(QUADRATIC, n_steps=1)
    for sign in (1.0, -1.0):
        monkeypatch.setattr(Langevin, "noiseless_step", lambda _, __, w, sign=sign: np.copysign(0.0 * w, sign))
        drawn = chain.draw(DesignMatrix(DesignRows(DESIGN, Y), 3), 4, lambda shape: np.full(shape, -0.0))
        assert not drawn.any()
        assert not np.signbit(drawn).any()


def test_draws_use_secret_randomness_by_default() -> None:
    matrix = matrix_of(DESIGN, 12)
    assert (QUADRATIC.draw(matrix, 1) != QUADRATIC.draw(matrix, 1)).any()


@pytest.mark.parametrize("design", [DESIGN, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("single", [False, True])
def test_gradient_does_not_depend_on_the_number_of_threads(
    design: Design, size: int, single: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if single:
        monkeypatch.setattr(design_module, "_MAX_DOUBLE_ENTRIES", 0)
    matrix = matrix_of(design, 40_000, block=17_000)
    x, y = everything(matrix)
    w = np.random.default_rng(2).normal(size=(design.width, size))
    loss = HuberLoss(0.7, 0.5)
    direct = x.T @ loss.slope(x @ w, y[:, None])
    gradients = []
    for many in (1 << 40, 0):
        monkeypatch.setattr(module, "_MIN_PARALLEL_ENTRIES", many)
        with ExitStack() as stack:
            gradient = Gradient(matrix, loss, stack)
            gradients.append(gradient(w))
            assert (gradient(w) == gradients[-1]).all()  # in the order of the pieces, whichever thread is first
    for result in gradients:
        assert result.shape == (design.width, size)
        assert result.dtype == np.float64
        assert result == pytest.approx(direct, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("design", [DESIGN, SPARSE], ids=["dense", "sparse"])
def test_gradient_of_many_chains_bounds_memory(design: Design, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = matrix_of(design, 2000)
    w = np.random.default_rng(2).normal(size=(design.width, 50))
    seen: list[int] = []

    class Watched(HuberLoss):
        def slope(self, t: Floats, y: Floats) -> Floats:
            seen.append(t.size)
            return super().slope(t, y)

    gradients = []
    for room in (1 << 24, 10_000):
        monkeypatch.setattr(module, "_MAX_PREDICTORS", room)
        with ExitStack() as stack:
            gradients.append(Gradient(matrix, Watched(0.7, 0.5), stack, 50)(w))
    assert max(seen[:-10]) >= 50_000
    assert seen[-10:] == [10_000] * 10
    assert gradients[0] == pytest.approx(gradients[1])


def test_gradient_is_double_precision_on_single_precision_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slopes and sums are in double precision, so that the bound of a row bounds the gradient."""
    monkeypatch.setattr(design_module, "_MAX_DOUBLE_ENTRIES", 0)
    matrix = matrix_of(replace(DESIGN, norm=1.0), 1)
    ((x, _),) = matrix.blocks
    assert x.dtype == np.float32
    with ExitStack() as stack:
        gradient = Gradient(matrix, HuberLoss(1.0, 1e-3), stack)(np.full((3, 1), 5.0))[:, 0]
    assert np.linalg.norm(gradient) <= 1e3 * math.sqrt(2.0) * (1.0 + 4e-16)
    assert np.linalg.norm(gradient) >= 1e3 * np.linalg.norm(x.astype(np.float64)) * (1.0 - 1e-15)
