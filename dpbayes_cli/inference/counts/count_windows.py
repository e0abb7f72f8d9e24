"""The factors of the latent counts' law, and where the counts can be: an interval for each category."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.base.numeric import log_gamma_ratio
from dpbayes_cli.core.noisy_observation import NoisyCounts

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_NATS = 46.0
"""A count this many nats of noise away from what was observed has relative probability exp(-46) = 1e-20."""
_CHAIN_NATS = 200.0


def prior_term(k: int, counts: Integers, observation: NoisyCounts) -> Floats:
    """Return log Gamma(concentration_k + c) - log c!, the prior's factor for the count of one category."""
    return log_gamma_ratio(counts + 1.0, observation.concentration[k] - 1.0)


def observation_term(k: int, counts: Integers, observation: NoisyCounts) -> Floats:
    """Return the log probability of the noise that turns a count of category k into what was observed."""
    observed = observation.observed[k]
    if observed is None:
        raise ValueError("a category without an observation needs a known total of two categories")
    return observation.noise.log_pmf(observed - counts)


def total_term(totals: Integers, observation: NoisyCounts) -> Floats:
    """Return log m! - log Gamma(sum of concentrations + m), the prior's factor for the total."""
    return -log_gamma_ratio(totals + 1.0, sum(observation.concentration) - 1.0)


def largest_total(observation: NoisyCounts) -> int:
    """Return a total that is never exceeded, up to relative probability exp(-200) where it is unbounded."""
    if observation.total.kind != "unbounded":
        return observation.total.n
    reach = observation.noise.radius(_CHAIN_NATS)
    return sum(max(0, observed or 0) + reach for observed in observation.observed)


def windows(observation: NoisyCounts, widening: int = 1) -> tuple[Integers, Integers]:
    """Return the lowest and the highest count looked at, one a category, for observed categories.

    The noise alone bounds them where the prior is flat. A prior that pulls far away from what was observed shows as
    draws at the edges (see ``at_edges``), and the caller widens.

    Args:
        observation: every category observed.
        widening: a factor on the reach.
    """
    n = largest_total(observation)
    low, high = [], []
    for k, observed in enumerate(observation.observed):
        center = min(max(observed or 0, 0), n)
        nats = _NATS
        if observation.concentration[k] < 1.0:  # the prior prefers empty categories; let the window reach them
            pull = prior_term(k, np.array([0, center]), observation)
            nats += float(pull[0] - pull[1])
        reach = widening * observation.noise.radius(nats)
        low.append(max(0, center - reach))
        high.append(min(n, center + reach))
    return np.array(low), np.array(high)


def at_edges(counts: Integers, low: Integers, high: Integers, observation: NoisyCounts) -> bool:
    """Return whether a draw came near an edge of its window that is not an edge of the possible counts."""
    margin = (high - low) // 20
    near_low = (counts <= low + margin) & (low > 0)
    near_high = (counts >= high - margin) & (high < largest_total(observation))
    return bool((near_low | near_high).any())
