"""The posterior given noisy derivatives: a tiny case against quadrature, gradients, hostile input of the next point."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.columns import Column
from dpbayes_cli.core.design import Design, Feature
from dpbayes_cli.core.losses import LogisticLoss, ProbitLoss
from dpbayes_cli.core.noisy_observation import NoisyDerivatives, RecordCount
from dpbayes_cli.inference.derivatives.infer_derivatives import next_point
from dpbayes_cli.inference.derivatives.posterior_mode import find_mode
from dpbayes_cli.inference.posterior import NAIVE_WARNING, Effort
from dpbayes_cli.inference.solve import infer
from tests.inference.derivatives.derivative_studies import Cell, naive, simulated

N = 400
TWO_LEVELS = Design((Feature(Column("x", ("a", "b"))),), intercept=False)


def two_level_observation() -> NoisyDerivatives:
    """Two rounds of 400 records, 120 of them b; 40 of a and 90 of b have the outcome 1."""
    sizes, ones, points = np.array([280.0, 120.0]), np.array([40.0, 90.0]), np.array([[0.0, 0.0], [-1.0, 0.6]])
    gradient_sds, hessian_sds = np.array([40.0, 12.0]), np.array([[30.0, 20.0], [12.0, 9.0]])
    means = expit(points)
    noise = np.array([[0.8, -0.5], [-0.3, 0.9]])
    gradients = ones - sizes * means + noise * gradient_sds[:, None]
    hessians = np.array([np.diag(sizes * m * (1.0 - m) + sd * z) for m, z, (sd, _) in zip(means, noise, hessian_sds)])
    return NoisyDerivatives(
        TWO_LEVELS, LogisticLoss(), 0.5, points, gradients, hessians, gradient_sds, hessian_sds, RecordCount("known", N)
    )


def quadrature(observation: NoisyDerivatives) -> tuple[Floats, Floats]:
    """Return means and sds of the coefficients: the score of each level is integrated on a grid with beta and q."""
    beta, logit = np.linspace(-5.0, 5.0, 161), np.linspace(-3.0, 1.5, 121)
    share = expit(logit)
    densities = []
    for j, size in enumerate((N * (1.0 - share), N * share)):
        log_density = np.zeros((len(beta), len(logit)))
        mean = expit(beta)[:, None]
        score_variance = size * mean * (1.0 - mean)
        covariance = np.diag(observation.gradient_sds**2) + score_variance[..., None, None]
        shift = size[None, :, None] * (mean[..., None] - expit(observation.points[:, j]))
        rest = observation.gradients[:, j] - shift
        log_density -= 0.5 * np.einsum("...i,...ij,...j", rest, np.linalg.inv(covariance), rest)
        log_density -= 0.5 * np.linalg.slogdet(covariance)[1] + 0.5 * observation.precision * beta[:, None] ** 2
        curvature = expit(observation.points[:, j]) * expit(-observation.points[:, j])
        hessians = (observation.hessians[:, j, j] - np.outer(size, curvature)) / observation.hessian_sds[:, 0]
        densities.append(np.exp(log_density - 0.5 * (hessians**2).sum(axis=1)))
    prior = np.exp(-0.5 * (logit / 1.5) ** 2)
    joint = [densities[0] * prior * densities[1].sum(axis=0), densities[1] * prior * densities[0].sum(axis=0)]
    margins = [each.sum(axis=1) / each.sum() for each in joint]
    means = np.array([margin @ beta for margin in margins])
    return means, np.sqrt([margin @ beta**2 for margin in margins] - means**2)


def test_the_posterior_of_two_levels_is_that_of_quadrature() -> None:
    """Means err by 1.6 % of an sd; with a margin of 10 % for the discrepancy a false failure is at most 1e-6."""
    observation = two_level_observation()
    posterior = infer(observation, "noise-aware", 400, np.random.default_rng(1), Effort())
    means, sds = quadrature(observation)
    assert posterior.warnings == ()
    assert [(m.mean, m.sd) for m in posterior.marginals] == [
        (pytest.approx(mean, abs=0.1 * sd), pytest.approx(sd, rel=0.08)) for mean, sd in zip(means, sds, strict=True)
    ]
    assert all(m.sd_data**2 + m.sd_noise**2 == pytest.approx(m.sd**2) for m in posterior.marginals)
    assert infer(observation, "naive", 5, np.random.default_rng(1)).warnings == (NAIVE_WARNING,)
