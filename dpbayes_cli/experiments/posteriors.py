"""Posteriors of many trials at once: draws, and where the true parameters rank among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.inference.batch import draw_many
from dpbayes_cli.inference.posterior import Method

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.core.noisy_observation import NoisyObservation


def draws_of(
    observations: Sequence[NoisyObservation],
    method: Method,
    n_draws: int,
    components: Sequence[int],
    rng: np.random.Generator,
) -> Floats:
    """Draw from the posterior of every observation.

    Args:
        observations: one a trial.
        method: how the posterior is computed.
        n_draws: how many draws an observation.
        components: which components of a posterior to return, in this order.
        rng: the generator.

    Returns:
        Shape (n_problems, n_draws, n_components).
    """
    return draw_many(observations, method, n_draws, rng)[:, :, list(components)]


def ranks_of(
    observations: Sequence[NoisyObservation],
    thetas: Floats,
    method: Method,
    n_draws: int,
    components: Sequence[int],
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Return where the true parameters fall in their posteriors, and the draws by which that was found.

    Args:
        observations: one a trial.
        thetas: the true parameters, shape (n_problems, n_components).
        method, n_draws, components, rng: those of ``draws_of``.

    Returns:
        Ranks in (0, 1), shape (n_problems, n_components); and the draws.
    """
    drawn = draws_of(observations, method, n_draws, components, rng)
    return ranks_among(thetas, drawn, rng), drawn


def ranks_among(thetas: Floats, draws: Floats, rng: np.random.Generator) -> Floats:
    """Return (number of draws below theta + a uniform number) / (number of draws + 1).

    That is exactly uniform where theta and the draws are independent draws from one posterior.

    Args:
        thetas: shape (n_trials, n_parameters).
        draws: shape (n_trials, n_draws, n_parameters).
        rng: the generator of the uniform numbers.
    """
    below = (draws < thetas[:, None, :]).sum(axis=1)
    return np.asarray((below + rng.random(below.shape)) / (draws.shape[1] + 1))
