"""The posterior of regression coefficients given noisy gradients and Hessians, by Markov chains."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.design import Design
from dpbayes_cli.core.noisy_observation import NoisyDerivatives
from dpbayes_cli.inference.chains import run_until_converged
from dpbayes_cli.inference.convergence import required_draws
from dpbayes_cli.inference.derivatives.average_effects import effects_of_chains, uninformed
from dpbayes_cli.inference.derivatives.derivative_density import DerivativeDensity
from dpbayes_cli.inference.derivatives.first_round import guess_count, noise_on_spreads, prior_at_guesses
from dpbayes_cli.inference.derivatives.hamiltonian import HamiltonianChains, factor_at
from dpbayes_cli.inference.derivatives.posterior_mode import find_mode, plug_in
from dpbayes_cli.inference.derivatives.wide_designs import draw_coefficients, mean_coefficients
from dpbayes_cli.inference.dirichlet_rows import summarize_draws
from dpbayes_cli.inference.posterior import NAIVE_WARNING, Effort, Method, Posterior

MAX_CHAIN_WIDTH = 24
"""Up to this width of the design, chains are run over the law of the features; see ``wide_designs`` for wider ones."""
_LEAST_ACCEPTED, _MORE_ATOMS = 0.35, 5.4
"""If a chain accepts a smaller share of its moves at the end of the warm-up, the density is rough, because few atoms
carry the weight. Then chains are started again on so many times as many atoms."""
_FEW_NUMBERS, _HIDING, _BLURRING = 5, 0.27, 0.02
"""With a larger noise on spreads (see ``noise_on_spreads``) than the first limit, intervals of more than a few numbers
were too narrow in simulations; with a larger one than the second, those of a few numbers were too wide."""
_CHAINS = 16
"""The number of chains. More chains would need more draws in all, because each has a warm-up."""


def infer_derivatives(
    observation: NoisyDerivatives, method: Method, n_draws: int, rng: np.random.Generator, effort: Effort
) -> Posterior:
    """Return the posterior of the coefficients given noisy derivatives; see ``solve.infer``.

    The part of a marginal's variance that would remain without noise is approximated by the inverse of the expected
    Hessian, averaged over the posterior.
    """
    if method == "naive":
        return _plug_in(observation, n_draws, rng)
    if observation.design.width > MAX_CHAIN_WIDTH:
        return _wide(observation, n_draws, rng, effort)
    chains, density = _start_chains(observation, rng)
    size = density.law.size

    def coefficients(draws: Floats) -> Floats:
        return draws[..., size : size + density.width]

    length = math.ceil(max(n_draws, 1.25 * max(effort.ess, required_draws(_CHAINS, density.width))) / _CHAINS)
    run = run_until_converged(chains.run, coefficients, length, effort)
    flat = run.draws.transpose(1, 0, 2).reshape(-1, density.size)  # every prefix has draws of all chains
    information = density.information(flat[:: max(len(flat) // 256, 1)]).mean(axis=0)
    prior = prior_at_guesses(observation)
    without_noise = np.linalg.inv(information + prior.precision)
    excess = known_excess(observation, guess_count(observation))
    return Posterior(
        summarize_draws(coefficients(flat), np.diag(without_noise)),
        coefficients(flat)[:n_draws],
        f"{len(flat)} draws from {_CHAINS} Markov chains (Hamiltonian Monte Carlo over the coefficients and the law of "
        "the features; the score of the records is approximated as normal)"
        f"{observation.total.prior_in_words}{excess and f'; {excess}'}",
        exact=False,
        monte_carlo=run.error,
        diagnostics=dict(run.convergence.diagnostics),
        warnings=(
            *known_miscalibration(observation, guess_count(observation)),
            *run.convergence.warnings,
            *uninformed(observation, coefficients(flat), without_noise),
        ),
        chains=coefficients(run.draws),
        effects=effects_of_chains(density, flat),
        contrast_sds=_contrast_sds(observation.design, without_noise),
    )


def _start_chains(
    observation: NoisyDerivatives, rng: np.random.Generator
) -> tuple[HamiltonianChains, DerivativeDensity]:
    """Return chains at the end of their warm-up, and their density."""
    for atoms in (1.0, _MORE_ATOMS):
        mode = find_mode(observation, atoms=atoms)
        chains = HamiltonianChains(mode.density, mode.point, factor_at(mode.density, mode.point), _CHAINS, rng)
        if chains.least_accepted >= _LEAST_ACCEPTED:
            break
    return chains, mode.density


def draw_roughly(observation: NoisyDerivatives, n_draws: int, rng: np.random.Generator) -> Floats:
    """Return draws of the coefficients, shape (n, width) with n >= n_draws, for studies of many releases.

    They are the next draws after the warm-up, whether the chains have converged or not.
    """
    if observation.design.width > MAX_CHAIN_WIDTH:
        return rng.permutation(draw_coefficients(observation, rng, n_draws).coefficients)[:n_draws]
    chains, density = _start_chains(observation, rng)
    draws = chains.run(math.ceil(n_draws / _CHAINS), 1).reshape(-1, density.size)
    return density.parts(draws)[1]


def next_point(observation: NoisyDerivatives, *, even: bool = False) -> Floats:
    """Return the next public point: the posterior mode of the coefficients given the rounds so far.

    It is a function of released numbers and never fails: where no mode is found, it is the last point.

    Args:
        even: whether the work is the same whatever the numbers are; see ``maximize``.
    """
    with np.errstate(all="ignore"):
        try:
            wide = observation.design.width > MAX_CHAIN_WIDTH
            point = mean_coefficients(observation) if wide else find_mode(observation, even=even).coefficients
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):
            point = observation.points[-1]
    return point if np.isfinite(point).all() else observation.points[-1]


def normal_approximation(observation: NoisyDerivatives) -> tuple[Floats, Floats]:
    """Return an estimate of the coefficients and a square root of their covariance, shape (width, ...), for plans.

    They are the mode and the curvature there or, for a wide design, mean and covariance of a few draws.
    """
    if observation.design.width > MAX_CHAIN_WIDTH:
        values = draw_coefficients(observation, np.random.default_rng(0), roughly=True).coefficients
        centered = values - values.mean(axis=0)
        return values.mean(axis=0), centered.T / len(values) ** 0.5
    mode = find_mode(observation)
    first = mode.density.law.size
    factor = factor_at(mode.density, mode.point)
    return mode.coefficients, factor[first : first + mode.density.width]


def known_miscalibration(observation: NoisyDerivatives, n_records: float | None) -> tuple[str, ...]:
    """Return a warning if intervals may be too narrow.

    Args:
        observation: one round or more, of which only the noise matters.
        n_records: the number of records, at least roughly; None if it is unknown.
    """
    width = observation.design.width
    if width > MAX_CHAIN_WIDTH:
        effects = ", and 81 to 97 % of the average changes" if observation.loss.largest_outcome == 1 else ""
        return (
            f"the design has {width} columns: with more than {MAX_CHAIN_WIDTH}, 90 % intervals may be too narrow; in "
            "simulations they contained 86 to 98 % of the coefficients, 80 to 98 % (on average 89 %) of the odds and "
            f"rate ratios{effects}",
        )
    many = sum(observation.prior.per_sd) > _FEW_NUMBERS
    if n_records is None or not (many and noise_on_spreads(observation, n_records) > _HIDING):
        return ()
    return (
        "the noise hides how widely numbers vary, on which the default prior depends: 90 % intervals may be too "
        "narrow; in simulations they contained 84 % of the coefficients of ten normal numbers and 91 % of those of ten "
        "skewed ones (1,000 records with epsilon 0.5 or 1, or 250 with epsilon 3)",
    )


def known_excess(observation: NoisyDerivatives, n_records: float | None) -> str:
    """Return by how much intervals are too wide, or nothing; see ``known_miscalibration``."""
    few = 0 < sum(observation.prior.per_sd) <= _FEW_NUMBERS and observation.design.width <= MAX_CHAIN_WIDTH
    if n_records is None or not (few and noise_on_spreads(observation, n_records) > _BLURRING):
        return ""
    numbers = (
        "logistic regressions of three and five numbers they contained 93 to 97 % (normal or skewed numbers) and, on "
        "average, 87 to 92 % (narrow, correlated, or often at a bound)"
    )
    if observation.loss.largest_outcome > 1:
        numbers = "Poisson regressions of five numbers they contained 90 % (normal numbers) and 94 % (skewed ones)"
    return (
        "because the noise leaves uncertain how widely numbers vary, 90 % intervals may be a little too wide: in "
        f"simulations of {numbers} of the coefficients"
    )


def _wide(observation: NoisyDerivatives, n_draws: int, rng: np.random.Generator, effort: Effort) -> Posterior:
    contrasts = observation.design.contrasts if observation.loss.largest_outcome == 1 else ()
    drawn = draw_coefficients(observation, rng, n_draws, contrasts=contrasts, extension=effort.extension)
    values = drawn.coefficients
    return Posterior(
        summarize_draws(values, np.diag(drawn.without_noise)),
        values[:n_draws],
        f"{len(values)} draws from {len(drawn.chains)} Markov chains (Hamiltonian Monte Carlo), each for a draw of the "
        "Hessian, whose entries of different features are shrunk to those of independent features and of a few common "
        "factors; linear predictors are taken for normal; the gradient of the last round alone is used",
        exact=False,
        monte_carlo=drawn.monte_carlo,
        diagnostics=drawn.diagnostics,
        warnings=(
            *known_miscalibration(observation, guess_count(observation)),
            *drawn.warnings(effort),
            *uninformed(observation, values, drawn.without_noise),
        ),
        effects=drawn.effects,
        contrast_sds=_contrast_sds(observation.design, drawn.without_noise),
    )


def _contrast_sds(design: Design, covariance: Floats) -> dict[str, float]:
    return {contrast.name: max(contrast.variance(covariance), 0.0) ** 0.5 for contrast in design.contrasts}


def _plug_in(observation: NoisyDerivatives, n_draws: int, rng: np.random.Generator) -> Posterior:
    mean, covariance = plug_in(observation)
    values = rng.multivariate_normal(mean, covariance, max(n_draws, 1 << 15), method="eigh")
    marginals = summarize_draws(values, np.diag(covariance))
    return Posterior(
        tuple(replace(marginal, sd_data=marginal.sd, sd_noise=0.0) for marginal in marginals),
        values[:n_draws],
        "normal posterior from the gradient and the Hessian of the last round, as if they were exact",
        exact=False,
        warnings=(NAIVE_WARNING,),
    )
