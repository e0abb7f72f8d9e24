"""Convex losses: slopes are derivatives; the bounds on which privacy rests hold and are attained."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import poisson

from dpbayes_cli.core.coefficient_law import CoefficientLaw
from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.design import Design, Feature
from dpbayes_cli.core.losses import (
    CountLoss,
    CurvedLoss,
    HuberLoss,
    LogisticLoss,
    Loss,
    ProbitLoss,
    QuantileLoss,
    SmoothHingeLoss,
)
from dpbayes_cli.models.families.convex_loss import ConvexLossModel
from dpbayes_cli.models.huber_regression import HuberRegression

LOSSES: dict[str, Loss] = {
    "logistic": LogisticLoss(), "probit": ProbitLoss(), "huber": HuberLoss(1.345, 0.1),
    "wide huber": HuberLoss(0.3, 7.0), "median": QuantileLoss(0.5, 0.5, 0.1),
    "quantile": QuantileLoss(0.93, 0.01, 0.7), "low quantile": QuantileLoss(0.1, 3.0, 2.0),
    "hinge": SmoothHingeLoss(0.5), "sharp hinge": SmoothHingeLoss(0.01), "round hinge": SmoothHingeLoss(2.0),
}  # fmt: skip
CLASSES = ("logistic", "probit", "hinge", "sharp hinge", "round hinge")
EVERY = pytest.mark.parametrize("name", LOSSES)


def targets(name: str) -> tuple[float, ...]:
    return (0.0, 1.0) if name in CLASSES else (-1.0, -0.3, 0.0, 1.0)


def far_and_near() -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Points beyond every kink, and many around them."""
    far = np.geomspace(3.0, 1e6, 40)[1:]
    return np.concatenate([-far[::-1], np.linspace(-3.0, 3.0, 6001), far])


@EVERY
def test_the_slope_is_the_derivative_of_the_value(name: str) -> None:
    loss, step = LOSSES[name], 1e-5
    t = np.linspace(-3.0, 3.0, 1201) + 1e-4
    for y in targets(name):
        numeric = (loss.value(t + step, np.asarray(y)) - loss.value(t - step, np.asarray(y))) / (2.0 * step)
        assert np.allclose(numeric, loss.slope(t, np.asarray(y)), atol=loss.curvature_bound * step + 1e-8, rtol=0.0)


@EVERY
def test_slope_bound_holds_and_is_attained(name: str) -> None:
    loss = LOSSES[name]
    points = np.concatenate([far_and_near(), [1e300, -1e300]])
    slopes = np.concatenate([np.abs(loss.slope(points, np.asarray(y))) for y in targets(name)])
    assert slopes.max() <= loss.slope_bound
    assert slopes.max() >= loss.slope_bound * (1.0 - 1e-6)
    assert np.isfinite(slopes).all()


@EVERY
def test_curvature_bound_holds_and_is_attained(name: str) -> None:
    """Slopes never fall, so that the loss is convex, and never rise faster than the bound."""
    loss, t = LOSSES[name], far_and_near()
    rises = np.concatenate([np.diff(loss.slope(t, np.asarray(y))) / np.diff(t) for y in targets(name)])
    rounding = 1e-12 * loss.slope_bound / np.diff(t).min()
    assert rises.min() >= -rounding
    assert rises.max() <= loss.curvature_bound + rounding
    assert rises.max() >= loss.curvature_bound * (1.0 - 1e-4)


def test_losses_match_the_papers() -> None:
    t, y = np.asarray([0.3]), np.asarray([1.0])
    assert LogisticLoss().value(t, y) == pytest.approx(np.log1p(np.exp(-0.3)))
    assert HuberLoss(2.0, 0.5).value(t, y) == pytest.approx(0.5 * (0.7 / 0.5) ** 2)
    assert HuberLoss(0.5, 0.5).value(t, y) == pytest.approx(0.5 * (0.7 / 0.5) - 0.125)
    assert QuantileLoss(0.9, 1e-6, 1.0).value(t, y) == pytest.approx(0.9 * 0.7, abs=1e-6)
    assert QuantileLoss(0.9, 1e-6, 1.0).value(-t, -y) == pytest.approx(0.1 * 0.7, abs=1e-6)
    assert SmoothHingeLoss(1e-6).value(t, y) == pytest.approx(0.7, abs=1e-6)
    assert SmoothHingeLoss(1e-6).value(-4.0 * t, 0.0 * y) == pytest.approx(0.0)
    grown = ProbitLoss().value(np.asarray([40.0, -40.0]), np.asarray([0.0, 0.0]))
    assert grown == pytest.approx([40.0, 0.0])


COLUMNS = tuple(NumericColumn(name, -1.0, 1.0, 16) for name in ("a", "b", "y"))


@EVERY
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_two_records_have_gradients_farther_apart_than_the_sensitivity(name: str, seed: int) -> None:
    loss, rng = LOSSES[name], np.random.default_rng(seed)
    design = Design((Feature(COLUMNS[0]), Feature(COLUMNS[1])), norm=float(rng.uniform(0.1, 2.0)))
    model = HuberRegression(design, COLUMNS[2], loss, CoefficientLaw.common(design.width, 1.0))
    x = design.rows(rng.integers(0, 17, (200, 2)))
    y = rng.choice(targets(name), 200)
    w = rng.normal(size=3) * 10.0 ** rng.uniform(-2, 3)
    gradients = x * loss.slope(x @ w, y)[:, None]
    bounds = ConvexLossModel.curvature(model, 200, 2)
    assert np.linalg.norm(gradients, axis=1).max() <= bounds.slope * (1.0 + 1e-12)
    apart = np.linalg.norm(gradients[:, None] - gradients[None, :], axis=2).max()
    assert 0.7 * apart <= bounds.gradient_sensitivity(0.7) * (1.0 + 1e-12)


@EVERY
def test_adversarial_records_attain_the_smoothness(name: str) -> None:
    """Identical records, at the point of largest curvature."""
    loss, n, step = LOSSES[name], 5, 1e-6
    design = Design((Feature(COLUMNS[0]),))
    model = HuberRegression(design, COLUMNS[2], loss, CoefficientLaw.common(design.width, 1.0))
    x = design.rows(np.full((n, 1), 16))
    y = np.full(n, targets(name)[-1])
    u = x[0] / np.linalg.norm(x[0])
    bends = [
        (x.T @ (loss.slope(x @ (u * (s + step)), y) - loss.slope(x @ (u * s), y))) @ u / step
        for s in np.linspace(-3.0, 3.0, 2001)
    ]
    smoothness = ConvexLossModel.curvature(model, n, 2).smoothness
    assert max(bends) <= smoothness * (1.0 + 1e-6)
    assert max(bends) >= smoothness * 0.999


@pytest.mark.parametrize("upper", [1, 3, 40])
def test_moments_of_clamped_counts_are_those_of_their_law(upper: int) -> None:
    t, step = np.linspace(-6.0, np.log(upper) + 2.0, 41), 1e-5
    counts = np.arange(upper * 12 + 60)
    law, clamped = poisson.pmf(counts, np.exp(t)[:, None]), np.minimum(counts, upper).astype(float)
    mean, variance, mean_slope, variance_slope = CountLoss(upper).moments(t)
    assert np.allclose(mean, law @ clamped, rtol=1e-9)
    assert np.allclose(variance, law @ clamped**2 - (law @ clamped) ** 2, atol=1e-8)
    values = [CountLoss(upper).value(t[t < np.log(upper)] + away, np.ones(1)) for away in (step, -step)]
    assert np.allclose((values[0] - values[1]) / (2.0 * step), mean[t < np.log(upper)] - 1.0, atol=1e-3)
    above, below = (CountLoss(upper).moments(each) for each in (t + step, t - step))
    assert np.allclose((above[0] - below[0]) / (2.0 * step), mean_slope, atol=1e-5)
    assert np.allclose((above[1] - below[1]) / (2.0 * step), variance_slope, atol=1e-5)


def test_moments_by_one_exponential_are_those_by_the_functions_of_the_loss() -> None:
    t = far_and_near()
    fast, slow = LogisticLoss().moments(t), CurvedLoss.moments(LogisticLoss(), t)
    assert np.allclose(fast[0], slow[0], rtol=1e-12, atol=1e-300)
    assert np.allclose(fast[2], slow[2], rtol=1e-12, atol=1e-300)
    assert np.array_equal(fast[1], fast[2])  # slow[1], mean * (1 - mean), loses digits for large t
    assert np.allclose(fast[3], slow[3], rtol=1e-12, atol=1e-16)
