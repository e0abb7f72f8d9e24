"""Chains that stand for exact draws of logistic regression, against quadrature in one and two dimensions."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats
from scipy.special import expit

from dpbayes_cli.experiments.logistic_laws import LogisticLaw, LogisticPosterior, draw_posterior, mode_of

FALSE_FAIL = 1e-6


def test_draws_in_one_dimension_are_those_of_the_posterior() -> None:
    """Six records, far from normal. Kolmogorov-Smirnov of 4,000 independent chains; false fail 1e-6."""
    x, y = np.array([[[1.0], [0.8], [-0.5], [1.0], [0.2], [0.9]]]), np.array([[1.0, 1.0, 0.0, 1.0, 0.0, 1.0]])

    def density(w: float, radius: float | None) -> float:
        t = x[0, :, 0] * w
        inside = radius is None or abs(w) <= radius
        return inside * math.exp(-0.9 * float((np.logaddexp(0.0, t) - y[0] * t).sum()) - 0.05 * w * w)

    places = np.linspace(-12.0, 18.0, 60_001)
    for radius in (None, 3.0):
        posterior = LogisticPosterior(x, y, LogisticLaw(0.9, 0.1, radius))
        draws, acceptance, r_hat = draw_posterior(posterior, 4000, 60, np.random.default_rng(2))
        masses = np.cumsum([density(float(w), radius) for w in places])
        cumulative = np.interp(np.sort(draws[0, 0]), places, masses / masses[-1])
        assert stats.kstest(cumulative, "uniform").pvalue >= FALSE_FAIL
        assert 0.2 < acceptance < 1.0
        assert r_hat < 1.1


def test_draws_in_two_dimensions_have_the_moments_of_quadrature() -> None:
    """Two sets of records at once: means of 4,000 independent chains within 5 standard errors, false fail 4e-6."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1.0, 1.0, (2, 12, 2))
    y = (rng.random((2, 12)) < 0.7).astype(float)
    drawn, *_ = draw_posterior(LogisticPosterior(x, y, LogisticLaw(1.0, 0.3)), 4000, 40, rng)
    line = np.linspace(-14.0, 14.0, 561)
    a, b = (part.ravel() for part in np.meshgrid(line, line))
    for each, classes, (first, second) in zip(x, y, drawn, strict=True):
        t = each @ np.array([a, b])
        log = -(np.logaddexp(0.0, t) - classes[:, None] * t).sum(axis=0) - 0.15 * (a * a + b * b)
        masses = np.exp(log - log.max())
        masses /= masses.sum()
        for expected, values in (
            (masses @ a, first),
            (masses @ (a * b), first * second),
            (masses @ (b * b), second * second),
        ):
            assert abs(values.mean() - expected) <= 5.0 * values.std() / math.sqrt(len(values))


def test_the_mode_is_where_the_gradient_vanishes() -> None:
    """Also where Newton's full step would leave: separable classes and hardly a prior."""
    x = np.array([[[1.0, 0.0], [0.9, 0.1], [-1.0, 0.2], [-0.8, 0.0]]])
    y = np.array([[1.0, 1.0, 0.0, 0.0]])
    (w,) = mode_of(LogisticPosterior(x, y, LogisticLaw(1.0, 1e-4)))
    np.testing.assert_allclose(x[0].T @ (expit(x[0] @ w) - y[0]) + 1e-4 * w, 0.0, atol=1e-6)
