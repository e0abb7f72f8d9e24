"""The factors of the posterior of latent counts, and windows of plausible counts."""

from __future__ import annotations

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers, log_gamma_ratio
from dpbayes_cli.core.noisy_observation import NoisyCounts

_WINDOW_NATS = 46.0
"""Outside the window of a count, the noise would be less than exp(-46) = 1e-20 times as probable as zero noise."""
_TOTAL_NATS = 200.0


def prior_term(k: int, counts: Integers, observation: NoisyCounts) -> Floats:
    """Return log Gamma(concentration_k + c) - log c!, the prior's factor for a count c of category k."""
    return log_gamma_ratio(counts + 1.0, observation.concentration[k] - 1.0)


def observation_term(k: int, counts: Integers, observation: NoisyCounts) -> Floats:
    """Return the log probability of the noisy count of category k, given each of the latent ``counts``."""
    observed = observation.observed[k]
    if observed is None:
        raise ValueError("an unobserved count needs two categories and a known record count")
    return observation.noise.log_pmf(observed - counts)


def total_term(totals: Integers, observation: NoisyCounts) -> Floats:
    """Return log m! - log Gamma(sum of concentrations + m), the prior's factor for the total m."""
    return -log_gamma_ratio(totals + 1.0, sum(observation.concentration) - 1.0)


def largest_total(observation: NoisyCounts) -> int:
    """Return an upper bound on the total, which an unbounded total exceeds only with negligible probability."""
    if observation.total.kind != "unbounded":
        return observation.total.n
    radius = observation.noise.radius(_TOTAL_NATS)
    return sum(max(0, observed or 0) + radius for observed in observation.observed)


def windows(observation: NoisyCounts, widening: int = 1) -> tuple[Integers, Integers]:
    """Return the lowest and the highest plausible count of each category, shape (n_categories,) each.

    The noise determines the windows. If the prior pulls counts far away from the observed ones, some draws are near the
    edges of their windows (see ``at_edges``); callers then repeat the draws with windows ``widening`` times as wide.
    """
    n = largest_total(observation)
    low, high = [], []
    for k, observed in enumerate(observation.observed):
        center = min(max(observed or 0, 0), n)
        nats = _WINDOW_NATS
        if observation.concentration[k] < 1.0:  # the prior favors empty categories, so the window includes 0
            pull = prior_term(k, np.array([0, center]), observation)
            nats += float(pull[0] - pull[1])
        half_width = widening * observation.noise.radius(nats)
        low.append(max(0, center - half_width))
        high.append(min(n, center + half_width))
    return np.array(low), np.array(high)


def at_edges(counts: Integers, low: Integers, high: Integers, observation: NoisyCounts) -> bool:
    """Return whether any draw is near an edge of its window beyond which counts are possible."""
    margin = (high - low) // 20
    near_low = (counts <= low + margin) & (low > 0)
    near_high = (counts >= high - margin) & (high < largest_total(observation))
    return bool((near_low | near_high).any())
