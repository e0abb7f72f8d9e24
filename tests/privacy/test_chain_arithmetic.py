"""A chain in double precision keeps the inequality behind its cost, for neighbors and points far out."""

from __future__ import annotations

import math
from contextlib import ExitStack
from fractions import Fraction
from typing import TYPE_CHECKING

import mpmath
import numpy as np
import pytest

from dpbayes_cli.core.columns import Column, NumericColumn
from dpbayes_cli.core.design import Design, DesignMatrix, DesignRows, Feature
from dpbayes_cli.core.langevin import Gradient, Langevin
from dpbayes_cli.core.losses import HuberLoss, LogisticLoss, Loss, ProbitLoss, QuantileLoss, SmoothHingeLoss
from dpbayes_cli.privacy.chain_arithmetic import SLOPE_ERROR
from dpbayes_cli.privacy.noisy_descent import contraction_gap, descent_mu

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

A, B = NumericColumn("a", -1.0, 1.0, 1 << 16), NumericColumn("b", -1.0, 1.0, 1 << 16)
DESIGN = Design((Feature(A), Feature(B)))
CLASS, NUMBER = Column("y", ("0", "1")), NumericColumn("y", -1.0, 1.0, 1 << 16)
N, POWER, TAU = 40, 0.05, 1.5
LOSSES: dict[str, Loss] = {
    "logistic": LogisticLoss(), "probit": ProbitLoss(), "huber": HuberLoss(1.345, 0.1),
    "quantile": QuantileLoss(0.7, 0.5, 0.1), "hinge": SmoothHingeLoss(0.5),
}  # fmt: skip


def target_of(loss: Loss) -> Column | NumericColumn:
    return NUMBER if isinstance(loss, HuberLoss | QuantileLoss) else CLASS


def chain_of(loss: Loss, n_steps: int = 30, power: float = POWER) -> Langevin:
    smoothness = power * loss.curvature_bound * 3.0 * N + TAU
    return Langevin(loss, 3, power, TAU, 1.0 / smoothness, n_steps, 2.0**-20, N, math.sqrt(3.0))


def records_of(loss: Loss, last: int) -> DesignMatrix:
    """Return records whose last one is at one end or the other: neighbors at the largest distance."""
    rng = np.random.default_rng(5)
    top = 1 << 16 if isinstance(target_of(loss), NumericColumn) else 1
    codes = np.column_stack([rng.integers(0, (1 << 16) + 1, (N, 2)), rng.integers(0, top + 1, N)])
    codes[-1] = (1 << 16, 1 << 16, top * last)
    matrix = DesignMatrix(DesignRows(DESIGN, target_of(loss)), N)
    matrix.take(codes)
    return matrix


def points_of(chain: Langevin, seed: int, count: int) -> Floats:
    """Return points of the lattice of all sizes, from its spacing to twice the box."""
    lattice, reach = chain.arithmetic.lattice, chain.arithmetic.reach
    rng = np.random.default_rng(seed)
    sizes = np.exp(rng.uniform(math.log(lattice), math.log(2.0 * reach), count))
    return np.asarray(np.rint(rng.normal(size=(3, count)) * sizes / lattice) * lattice)


@pytest.mark.parametrize("name", LOSSES)
def test_neighbors_keep_the_inequality_of_the_proof(name: str) -> None:
    """|F(x) - F'(y)| <= c |x - y| + h D (1 + widening), for equal points, near ones and any; nearly attained."""
    chain = chain_of(LOSSES[name])
    smoothness = chain.likelihood_power * chain.loss.curvature_bound * 3.0 * N + TAU
    contraction = 1.0 - contraction_gap(chain.step_size, TAU, smoothness)
    allowed = chain.step_size * 2.0 * chain.likelihood_power * chain.loss.slope_bound * chain.row_norm
    x, y = points_of(chain, 1, 4000), points_of(chain, 2, 4000)
    y[:, :2000] = x[:, :2000]
    y[:, 1000:2000] += chain.arithmetic.lattice * np.random.default_rng(3).integers(-40, 41, (3, 1000))
    with ExitStack() as stack:
        one, other = (chain.noiseless_step(Gradient(records_of(chain.loss, last), chain.loss, stack, 4000), w)
                      for last, w in ((0, x), (1, y)))  # fmt: skip
    apart = np.linalg.norm(one - other, axis=0) - contraction * np.linalg.norm(x - y, axis=0)
    assert apart.max() <= allowed * (1.0 + chain.arithmetic.widening)
    assert apart.max() > 0.49 * allowed  # of losses whose slopes at one point differ by as much as one of them
    assert chain.arithmetic.widening < 1e-5


def exact_move(chain: Langevin, matrix: DesignMatrix, point: Floats) -> list[mpmath.mpf]:
    """Return w - h grad U(w) in 60 digits."""
    w = [mpmath.mpf(float(each)) for each in point]
    drift = [chain.tau * each for each in w]
    for x, y in ((row, target) for rows, targets in matrix.blocks for row, target in zip(rows, targets, strict=True)):
        t = mpmath.fdot(zip(map(mpmath.mpf, x.tolist()), w, strict=True))
        slope = mpmath.mpf(chain.likelihood_power) * exact_slope(chain.loss, t, mpmath.mpf(float(y)))
        drift = [d + slope * mpmath.mpf(float(each)) for d, each in zip(drift, x, strict=True)]
    return [each - mpmath.mpf(chain.step_size) * d for each, d in zip(w, drift, strict=True)]


def exact_slope(loss: Loss, t: mpmath.mpf, y: mpmath.mpf) -> mpmath.mpf:
    if isinstance(loss, LogisticLoss):
        return 1 / (1 + mpmath.exp(-t)) - y
    if isinstance(loss, ProbitLoss):
        return mpmath.ncdf(t) - y
    if isinstance(loss, HuberLoss):
        return min(max((t - y) / loss.scale, -loss.threshold), mpmath.mpf(loss.threshold)) / loss.scale
    if isinstance(loss, QuantileLoss):
        share = min(max(mpmath.mpf(0.5) + (t - y) / (2 * mpmath.mpf(loss.smoothing) * loss.scale), 0), 1)
        return (share - loss.level) / loss.scale
    assert isinstance(loss, SmoothHingeLoss)
    sign = 2 * y - 1
    return -sign * min(max((1 - sign * t) / loss.smoothing, 0), 1)


@pytest.mark.parametrize("name", LOSSES)
def test_a_step_errs_by_no_more_than_is_covered(name: str) -> None:
    chain = chain_of(LOSSES[name])
    matrix, arithmetic = records_of(chain.loss, 1), chain.arithmetic
    points = np.clip(points_of(chain, 7, 20), -arithmetic.reach, arithmetic.reach)
    with ExitStack() as stack:
        after = chain.noiseless_step(Gradient(matrix, chain.loss, stack, 20), points)
    allowed = (
        chain.step_size * 2.0 * chain.likelihood_power * chain.loss.slope_bound * chain.row_norm * arithmetic.widening
    )
    error = (allowed - math.sqrt(3.0) * arithmetic.lattice) / 2.0
    with mpmath.workdps(60):
        for i in range(20):
            exact = exact_move(chain, matrix, points[:, i])
            away = [float(mpmath.mpf(float(a)) - b) for a, b in zip(after[:, i], exact, strict=True)]
            assert np.linalg.norm(away) <= error
    assert error > math.sqrt(3.0) * arithmetic.lattice / 2.0  # rounding to the lattice is not all of it


@pytest.mark.parametrize("name", LOSSES)
def test_slopes_err_by_no_more_than_assumed(name: str) -> None:
    """This machine's libraries, at predictors of all sizes: well below the assumed error."""
    loss = LOSSES[name]
    rng = np.random.default_rng(6)
    t = rng.normal(size=300) * np.exp(rng.uniform(-20.0, 4.0, 300))
    y = rng.integers(0, 2, 300).astype(np.float64)
    allowed = SLOPE_ERROR * loss.slope_bound + loss.curvature_bound * 8.0 * 2.0**-53 * (np.abs(t) + 1.0)
    with mpmath.workdps(30):
        exact = [exact_slope(loss, mpmath.mpf(a), mpmath.mpf(b)) for a, b in zip(t.tolist(), y.tolist(), strict=True)]
        away = [abs(mpmath.mpf(a) - b) for a, b in zip(loss.slope(t, y).tolist(), exact, strict=True)]
    assert (np.array(away, dtype=np.float64) <= 0.3 * allowed).all()


@pytest.mark.parametrize("power", [1e-6, 0.05, 1.0])
def test_sums_on_the_lattice_are_exact(power: float) -> None:
    """However far out a point is: whole multiples below 2^53, which the noise does not round."""
    chain = chain_of(LOSSES["huber"], power=power)
    arithmetic = chain.arithmetic
    points = points_of(chain, 8, 200) * 1e3
    noise = np.rint(np.random.default_rng(9).normal(size=points.shape) * 40.0 * arithmetic.noise / arithmetic.lattice)
    with ExitStack() as stack:
        after = chain.noiseless_step(Gradient(records_of(chain.loss, 0), chain.loss, stack, 200), points)
    for a, b in zip(after.ravel(), noise.ravel(), strict=True):
        assert Fraction(a) + Fraction(arithmetic.lattice) * Fraction(b) == Fraction(a + arithmetic.lattice * b)
    for each in (arithmetic.lattice, arithmetic.reach):
        assert math.frexp(each)[0] == 0.5


@pytest.mark.parametrize("n_steps", [1, 30])
def test_wider_noise_pays_for_what_is_lost_and_the_cost_stays(n_steps: int) -> None:
    chain = chain_of(LOSSES["logistic"], n_steps)
    d, smoothness = 2.0 * chain.likelihood_power * chain.row_norm, chain.likelihood_power * 0.25 * 3.0 * N + TAU
    cost = descent_mu(d, chain.step_size, n_steps, TAU, smoothness)
    lost = descent_mu(d * (1.0 + chain.arithmetic.widening), chain.step_size, n_steps, TAU, smoothness)
    assert chain.arithmetic.noise == pytest.approx(math.sqrt(2.0 * chain.step_size) * lost / cost, rel=1e-15)
    assert chain.arithmetic.noise > math.sqrt(2.0 * chain.step_size)
