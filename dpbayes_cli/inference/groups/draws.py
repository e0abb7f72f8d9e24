"""Draws that several kinds of groups need: places in rows of masses, latent counts near noisy ones, probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.inference.groups.component_noise import ComponentNoise


def choose(masses: Floats, rng: np.random.Generator) -> Integers:
    """Draw a column for each row, with probabilities proportional to masses; rounding errors may be negative."""
    cumulated = np.cumsum(np.maximum(masses, 0.0), axis=1)
    level = rng.random(len(masses)) * cumulated[:, -1]
    return np.asarray(np.minimum((cumulated < level[:, None]).sum(axis=1), masses.shape[1] - 1))


def noise_windows(observed: Integers, noise: ComponentNoise) -> tuple[Integers, Floats]:
    """Return the counts near observed counts and the log probabilities of the noise, each row less its maximum.

    Rows with fewer counts end with log probabilities of minus infinity.
    """
    low = np.maximum(observed - noise.reach, 0)
    lengths = np.maximum(observed, 0) + noise.reach + 1 - low
    step = np.arange(int(lengths.max(initial=1)))
    counts = low[:, None] + step
    logs = np.where(step < lengths[:, None], noise.log_pmf(observed[:, None] - counts), -np.inf)
    return counts, logs - logs.max(axis=1, keepdims=True)


def draw_dirichlet(concentration: Floats, rng: np.random.Generator) -> Floats:
    """Draw probabilities from Dirichlet laws, one in each row; parameters may be tiny."""
    gammas = rng.standard_gamma(concentration) + 1e-300
    return np.asarray(gammas / gammas.sum(axis=1, keepdims=True))
