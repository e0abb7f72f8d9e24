"""Inference of wide designs: sums over normal rows, the density, the law of the Hessian, and coverage."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.losses import CountLoss, CurvedLoss, LogisticLoss, ProbitLoss
from dpbayes_cli.inference.convergence import drift_p_value
from dpbayes_cli.inference.derivatives.feature_moments import FeatureMoments, feature_moments
from dpbayes_cli.inference.derivatives.first_round import guess_count, prior_at_guesses
from dpbayes_cli.inference.derivatives.hamiltonian import HamiltonianChains
from dpbayes_cli.inference.derivatives.hessian_law import hessian_law
from dpbayes_cli.inference.derivatives.infer_derivatives import known_miscalibration
from dpbayes_cli.inference.derivatives.wide_density import _DISCREPANCY, WideDensity
from dpbayes_cli.inference.derivatives.wide_designs import WideDraws, draw_coefficients
from dpbayes_cli.inference.posterior import Effort
from dpbayes_cli.inference.solve import infer
from tests.inference.derivatives.derivative_studies import Cell, simulated

LOSSES = pytest.mark.parametrize(
    "loss", [LogisticLoss(), ProbitLoss(), CountLoss(9)], ids=["logistic", "probit", "poisson"]
)


@LOSSES
def test_sums_over_normal_rows_are_those_of_simulated_ones(loss: CurvedLoss) -> None:
    """Of a million rows the errors are below .003; .012 is more than four of them. The seed is fixed."""
    rng = np.random.default_rng(1)
    means, root, beta = np.array([1.0, 0.3, -0.2]), 0.6 * rng.normal(size=(3, 3)), np.array([0.2, 1.0, -0.7])
    root[0] = 0.0  # the intercept
    rows = means + rng.standard_normal((1_000_000, 3)) @ root.T
    sums = FeatureMoments(means[None], (root @ root.T)[None]).sums(loss, beta[None])
    mean, variance, curvature, _ = loss.moments(rows @ beta)
    expected = [mean @ rows, *((each[:, None] * rows).T @ rows for each in (variance, curvature))]
    for value, sum_ in zip(sums, expected, strict=True):
        assert value[0] == pytest.approx(sum_ / len(rows), abs=0.012)


def test_average_effects_of_wide_designs_are_means_over_the_records() -> None:
    """Predictors of ten features are nearly normal; effects of up to .2 are off by at most .01."""
    cell, rng = Cell("mixed", 10, 20_000, 1.0), np.random.default_rng(3)
    design, codes = cell.design(), cell.codes(20_000, rng)
    rows, beta = np.asarray(design.rows(codes)), 0.5 * rng.standard_normal(design.width)
    moments = FeatureMoments(rows.mean(axis=0)[None], np.cov(rows.T)[None])
    contrasts = [replace(each, factor=2.0) if each.feature == "x0" else each for each in design.contrasts]
    assert contrasts[0].is_from_end_to_end
    effects = moments.effects(LogisticLoss(), beta[None], contrasts)
    for contrast in contrasts:
        low, high = rows.copy(), rows.copy()
        if contrast.lowered is not None:
            low[:, contrast.columns] = high[:, contrast.columns] = 0.0
            low[:, contrast.lowered] = high[:, contrast.raised] = 1.0
        elif contrast.is_from_end_to_end:
            low[:, contrast.raised], high[:, contrast.raised] = -1.0, 1.0
        else:
            high[:, contrast.raised] += contrast.factor
        expected = (expit(high @ beta) - expit(low @ beta)).mean()
        assert effects[contrast.name][0] == pytest.approx(expected, abs=0.01)


@pytest.mark.slow
def test_average_effects_of_wide_designs_weigh_all_records_alike() -> None:
    """Seeded. With moments of the second Hessian, which weighs records by curvature, .45 of the effects are covered."""
    cell, covered = Cell("categorical", 8, 50_000, 3.0), []
    for seed in range(3):
        truth, observation = simulated(cell, np.random.default_rng(seed))
        rows = cell.design().rows(cell.codes(cell.n, np.random.default_rng(seed)))
        contrasts = cell.design().contrasts
        drawn = draw_coefficients(observation, np.random.default_rng(5), contrasts=contrasts, roughly=True)
        for contrast in contrasts:
            others = rows @ truth - rows[:, contrast.columns] @ truth[contrast.columns]
            low, high = (expit(others + truth[column]).mean() for column in (contrast.lowered, contrast.raised))
            ends = np.quantile(drawn.effects[contrast.name], [0.05, 0.95])
            covered.append(ends[0] <= high - low <= ends[1])
    assert np.mean(covered) > 0.65


@LOSSES
def test_the_density_is_that_of_the_gradient(loss: CurvedLoss) -> None:
    """For two possible moments; its own gradient is that of differences."""
    rng = np.random.default_rng(1)
    _, observation = simulated(Cell("mixed", 9, 500, 2.0, loss), rng)
    width, prior = observation.design.width, prior_at_guesses(observation)
    moments = feature_moments(observation, hessian_law(observation).draw(2, rng))
    centers, precisions = rng.normal(0.0, 0.3, (2, width)), np.array([np.eye(width), 4.0 * np.eye(width)])
    density = WideDensity(observation, moments, prior, centers, precisions)

    def directly(beta: Floats) -> Floats:
        n, at = guess_count(observation), np.broadcast_to(observation.points[-1], beta.shape)
        here, variances, _ = moments.sums(loss, beta)
        drift = n * (moments.sums(loss, at)[0] - here)
        at_center = n * (moments.sums(loss, at)[0] - moments.sums(loss, centers)[0])
        noise = observation.gradient_sds[-1] ** 2 + _DISCREPANCY**2 * at_center**2
        total = n * variances + noise[:, :, None] * np.eye(width)
        rest = observation.gradients[-1] + drift
        squares = (rest * np.linalg.solve(total, rest[:, :, None])[:, :, 0]).sum(axis=1)
        log_determinants = np.linalg.slogdet(total)[1] - np.log(noise).sum(axis=1)
        return np.asarray(prior.log_density(beta)[0] - 0.5 * log_determinants - 0.5 * squares)

    z = rng.normal(0.0, 0.5, (2, width))
    beta = centers + z / np.array([[1.0], [2.0]])
    assert density.coefficients(z[:, None])[:, 0] == pytest.approx(beta)
    value, gradient = density(z)
    assert value == pytest.approx(directly(beta), rel=1e-9)
    for column in range(width):
        step = 1e-5 * np.array([np.arange(width) == column] * 2)
        slope = (density(z + step)[0] - density(z - step)[0]) / 2e-5
        assert gradient[:, column] == pytest.approx(slope, rel=1e-5, abs=1e-4)


def test_directions_that_many_features_share_are_kept() -> None:
    """Texts with two common factors. The largest variance is about 1.5; entries alone, shrunk, would leave .5 of it."""
    cell = Cell("binary", 25, 5000, 1.0)
    for seed in range(2):
        _, observation = simulated(cell, np.random.default_rng([7, seed]))
        rows = np.asarray(cell.design().rows(cell.codes(cell.n, np.random.default_rng([7, seed]))))
        exact = np.linalg.eigvalsh(np.cov(rows.T))[-1]
        found = feature_moments(observation, hessian_law(observation).means[None]).covariances[0]
        assert np.linalg.eigvalsh(found)[-1] == pytest.approx(exact, rel=0.25)


def test_noise_alone_has_no_common_directions() -> None:
    """Seeded: an eigenvalue of noise may exceed 2 sd sqrt(rank) by a little, of which little is kept."""
    cell = Cell("binary", 25, 60, 1.0)
    _, observation = simulated(cell, np.random.default_rng(3))
    assert np.abs(hessian_law(observation).common).max() < 0.1


@pytest.mark.slow
def test_contrasts_of_steep_regressions_are_covered() -> None:
    """Seeded: .85 of 90 rate ratios; the normal law at the mode of the squares alone covers about half of them."""
    covered = []
    for seed in range(3):
        rng = np.random.default_rng([7, seed])
        beta, observation = simulated(Cell("categorical", 10, 20_000, 3.0, CountLoss(20)), rng)
        draws = draw_coefficients(observation, rng, roughly=True).coefficients
        for contrast in observation.design.contrasts:
            low, high = np.quantile(contrast.of_coefficients(draws), [0.05, 0.95])
            covered.append(low <= contrast.of_coefficients(beta) <= high)
    assert np.mean(covered) > 0.7


def test_the_posterior_of_a_wide_design() -> None:
    _, observation = simulated(Cell("categorical", 8, 2000, 3.0), np.random.default_rng(4))
    posterior = infer(observation, "noise-aware", 400, np.random.default_rng(5))
    assert posterior.draws.shape == (400, 33)
    assert posterior.warnings[:1] == known_miscalibration(observation, None)
    assert {each.size for each in posterior.effects.values()} == {1200}
    assert 0.02 < posterior.monte_carlo < 0.2
    assert posterior.diagnostics["halves_p_value"] > 1e-3
    chains = np.random.default_rng(1).normal(size=(4, 5, 2))
    assert WideDraws(chains, np.eye(2), {}).warnings(Effort()) == ()
    chains[1] = 0.7
    assert "1 of 4 Markov chains stood still" in WideDraws(chains, np.eye(2), {}).warnings(Effort())[0]


def test_chains_that_drift_are_found() -> None:
    """Of 200 sets of steady chains at most 20 are expected below .1, and more than 36 with probability 1e-4."""
    rng = np.random.default_rng(1)
    own_laws = rng.normal(size=(200, 40, 1, 30))
    steady = own_laws + rng.normal(size=(200, 40, 14, 30))
    assert sum(drift_p_value(each) < 0.1 for each in steady) <= 36
    moving, widening = steady[0].copy(), steady[0].copy()
    moving[:, 7:, 3] += 0.5
    widening[:, 7:, 3] = 4.0 * (widening[:, 7:, 3] - own_laws[0, :, :, 3]) + own_laws[0, :, :, 3]
    assert drift_p_value(moving) < 1e-3
    assert drift_p_value(widening) < 1e-3
    (warning,) = WideDraws(moving, np.eye(30), {}).warnings(Effort(more=1))
    assert warning.endswith("dpbayes infer BUNDLE --more --more")


def test_chains_of_wide_designs_that_drift_are_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    _, observation = simulated(Cell("categorical", 8, 2000, 3.0), np.random.default_rng(4))
    lengths, run = [], HamiltonianChains.run

    def drifting(chains: HamiltonianChains, length: int, thinning: int, path: float) -> Floats:
        lengths.append(length)
        drift = 3.0 * np.arange(length)[:, None] / length if len(lengths) < 3 else 0.0
        return run(chains, length, thinning, path) + drift

    monkeypatch.setattr(HamiltonianChains, "run", drifting)
    drawn = draw_coefficients(observation, np.random.default_rng(5), roughly=True, extension=2)
    assert lengths == 3 * [30]
    assert drawn.chains.shape[:2] == (20, 30)
    assert drawn.warnings(Effort()) == ()
