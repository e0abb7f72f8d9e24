"""Average effects of changes of one feature, and what the records say about them, given noisy derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from shlex import quote

import numpy as np

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.coefficient_law import CoefficientLaw
from dpbayes_cli.core.design import Contrast
from dpbayes_cli.core.noisy_observation import NoisyDerivatives
from dpbayes_cli.inference.derivatives.derivative_density import DerivativeDensity
from dpbayes_cli.inference.derivatives.first_round import prior_at_guesses

_MAX_DRAWS = 1000
_FAR = 1.645
"""An estimate is told if it is so many standard deviations of its prior away from the prior's location."""
_NAMED = 6
"""The largest number of effects that a warning names."""
_UNKNOWN_SHARE = 0.5
"""A change is told if more than this share of the prior's variance of its effect is left: without noise, or with it."""


def average_effects(
    contrasts: Sequence[Contrast], beta: Floats, mean_outcomes: Callable[[slice, Floats], Floats]
) -> dict[str, Floats]:
    """Return draws of the average change of the outcome's mean for each contrast, over the law of the features.

    Each record's feature is raised by a step, or replaced by the first and by another text; other features stay.

    Args:
        contrasts: the changes.
        beta: draws of the coefficients, shape (n_draws, width).
        mean_outcomes: returns the mean outcome of all records for each draw, shape (n_draws,), if a number, of that
            shape, takes the place of these columns' part of the linear predictor.
    """
    effects = {}
    for contrast in contrasts:
        if contrast.is_from_end_to_end:
            columns, start = contrast.columns, -beta[:, contrast.raised]
        elif contrast.lowered is None:
            columns, start = slice(0), np.zeros(len(beta))
        else:
            columns, start = contrast.columns, beta[:, contrast.lowered]
        change = contrast.of_coefficients(beta)
        effects[contrast.name] = mean_outcomes(columns, start + change) - mean_outcomes(columns, start)
    return effects


def effects_of_chains(density: DerivativeDensity, draws: Floats) -> dict[str, Floats]:
    """Return average effects for draws of the parameters of the density, shape (n_draws, size)."""
    law, beta, _ = density.parts(draws[:: -(-len(draws) // _MAX_DRAWS)])
    weights, loss, rows = density.law.weights(law), density.observation.loss, density.atoms.rows
    predictors = beta @ rows.T

    def mean_outcomes(columns: slice, instead: Floats) -> Floats:
        means = loss.mean(predictors - beta[:, columns] @ rows[:, columns].T + instead[:, None])
        return np.asarray((weights * means).sum(axis=1))

    return average_effects(density.observation.design.contrasts, beta, mean_outcomes)


def uninformed(observation: NoisyDerivatives, beta: Floats, without_noise: Floats) -> tuple[str, ...]:
    """Return warnings about effects of which the release, or even the records, tell little, or which the prior shrinks.

    Args:
        beta: draws of the coefficients, shape (n_draws, width).
        without_noise: their covariance without noise, shape (width, width).
    """
    prior = prior_at_guesses(observation)
    unknown: list[Contrast] = []
    hidden: list[Contrast] = []
    shrunk: list[Contrast] = []
    for contrast in observation.design.contrasts:
        effects, variance = contrast.of_coefficients(beta), contrast.variance(prior.covariance)
        if contrast.variance(without_noise) > _UNKNOWN_SHARE * variance:
            unknown.append(contrast)
        elif float(effects.var()) > _UNKNOWN_SHARE * variance:
            hidden.append(contrast)
        elif abs(float(effects.mean() - contrast.of_coefficients(prior.location))) > _FAR * variance**0.5:
            shrunk.append(contrast)
    warnings = []
    if unknown:
        warnings.append(
            f"even without noise, the records would say little about {_some(unknown)}: the value is rare, other "
            "columns nearly determine it, or it separates the outcomes. The prior decides, so state one that you can "
            "defend"
        )
    if hidden:
        has_numbers = any(each.lowered is None for each in hidden)
        remedy = "Bounds closer to the values of a number, or more epsilon," if has_numbers else "More epsilon"
        warnings.append(
            f"the noise hides most of what the records say about {_some(hidden)}: intervals are mainly those of "
            f"the prior, which may exclude a large effect. {remedy} would tell more; a wider prior shows what the "
            f"release itself tells, at no cost: {_wider(observation.prior, hidden)}"
        )
    if shrunk:
        warnings.append(
            f"the estimate of {_some(shrunk)} is outside the 90 % interval of its prior, which draws it toward "
            "the middle of the prior, so that the interval may exclude the true effect. To see a wider prior, at no "
            f"cost: {_wider(observation.prior, shrunk)}"
        )
    return tuple(warnings)


def _wider(prior: CoefficientLaw, contrasts: list[Contrast]) -> str:
    """Return the command that infers with a wider prior of all numbers, and of the first text among contrasts."""
    texts = [each for each in contrasts if each.lowered is not None]
    keys = [prior.wider] if len(texts) < len(contrasts) or prior.tau is not None else []
    if texts and prior.tau is None:
        keys.append(f"scale.{texts[0].feature}={texts[0].change}={2.0 * prior.scales[texts[0].raised]:.3g}")
    return " ".join(["dpbayes infer BUNDLE", *(f"--prior {quote(key)}" for key in keys)])


def _some(contrasts: list[Contrast]) -> str:
    """Return the names of the first contrasts, and how many others there are."""
    more = len(contrasts) - _NAMED
    return ", ".join(each.name for each in contrasts[:_NAMED]) + (
        f" and {more} other{'s' * (more > 1)}" if more > 0 else ""
    )
