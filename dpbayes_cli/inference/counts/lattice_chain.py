"""A Markov chain on latent counts, for observations whose exact draws are too expensive.

Theta is integrated out. A sweep pairs the categories at random. Both counts of a pair are redrawn given their sum, by
slice sampling on the integers, in all pairs and all chains at once. If the total is not known, the difference between
the largest possible total and the total is treated as one more category without an observation. Every update leaves the
exact posterior of the counts invariant.

Source: Neal 2003 (slice sampling); the rest is derived here.
"""

from __future__ import annotations

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers, log_gamma_ratio
from dpbayes_cli.core.noisy_observation import NoisyCounts
from dpbayes_cli.inference.chains import CHAINS
from dpbayes_cli.inference.counts.count_windows import largest_total, total_term

WARM_UP = 200
_MAX_TABLE_ENTRIES = 1 << 22


class LatticeChain:
    """Several chains as one array of counts, shape (chains, n_categories), with another column for an unknown total."""

    def __init__(self, observation: NoisyCounts, rng: np.random.Generator) -> None:
        self._observation = observation
        self._rng = rng
        self._largest = largest_total(observation)
        self._has_slack = observation.total.kind != "known"
        self._observed = np.array([y or 0 for y in observation.observed])
        self._is_observed = np.array([y is not None for y in observation.observed])
        self._concentration = np.asarray(observation.concentration)
        kinds, self._kind = np.unique(self._concentration, return_inverse=True)
        self._table: Floats | None = None
        if len(kinds) * self._largest <= _MAX_TABLE_ENTRIES:
            self._table = log_gamma_ratio(np.arange(self._largest + 1) + 1.0, kinds[:, None] - 1.0)
        self._state = self._start()
        for _ in range(WARM_UP):
            self._sweep()

    def run(self, n_draws: int, thinning: int) -> Integers:
        """Return the next draws, shape (chains, n_draws, n_categories)."""
        categories = len(self._observation.concentration)
        draws = np.empty((CHAINS, n_draws, categories), dtype=np.int64)
        for i in range(n_draws):
            for _ in range(thinning):
                self._sweep()
            draws[:, i] = self._state[:, :categories]
        return draws

    def _start(self) -> Integers:
        """Return starting counts: observed counts minus random noise, scaled to a possible total."""
        noise = self._observation.noise.simulate(self._rng, (CHAINS, len(self._observed)))
        counts = np.clip(self._observed - noise, 0, self._largest)
        totals = counts.sum(axis=1, keepdims=True)
        if self._has_slack:
            scale = np.minimum(1.0, self._largest / np.maximum(totals, 1))
            counts = np.floor(counts * scale).astype(np.int64)
            return np.column_stack([counts, self._largest - counts.sum(axis=1)])
        counts = np.floor((counts + 1) * (self._largest / (totals + counts.shape[1]))).astype(np.int64)
        counts[:, 0] += self._largest - counts.sum(axis=1)
        return np.asarray(counts)

    def _sweep(self) -> None:
        order = self._rng.permutation(self._state.shape[1])
        half = len(order) // 2
        left, right = order[:half], order[half : 2 * half]
        sums = self._state[:, left] + self._state[:, right]
        split = self._slice(self._state[:, left], sums, left, right)
        self._state[:, left], self._state[:, right] = split, sums - split

    def _slice(self, current: Integers, sums: Integers, left: Integers, right: Integers) -> Integers:
        """Redraw the left counts of all pairs given the sums, by a slice sampler that shrinks the interval 0..sum."""
        level = self._log_density(current, sums, left, right) - self._rng.standard_exponential(current.shape)
        low, high = np.zeros_like(current), sums.copy()
        result = current.copy()
        open_ = np.ones(current.shape, dtype=bool)
        while open_.any():
            proposal = self._rng.integers(low, high, endpoint=True)
            inside = self._log_density(proposal, sums, left, right) >= level
            result = np.where(open_ & inside, proposal, result)
            open_ &= ~inside
            low = np.where(open_ & (proposal < current), proposal + 1, low)
            high = np.where(open_ & (proposal > current), proposal - 1, high)
        return result

    def _log_density(self, counts: Integers, sums: Integers, left: Integers, right: Integers) -> Floats:
        return self._factors(counts, left) + self._factors(sums - counts, right)

    def _factors(self, counts: Integers, columns: Integers) -> Floats:
        """Return the log factors of categories at these counts, shape (chains, pairs)."""
        slack = columns == len(self._observed)
        k = np.where(slack, 0, columns)
        noise = self._observation.noise.log_pmf(self._observed[k] - counts)
        terms = self._prior(k, counts) + np.where(self._is_observed[k], noise, 0.0)
        if slack.any():
            terms[:, slack] = total_term(self._largest - counts[:, slack], self._observation)
        return np.asarray(terms)

    def _prior(self, k: Integers, counts: Integers) -> Floats:
        if self._table is not None:
            return np.asarray(self._table[self._kind[k], counts])
        return log_gamma_ratio(counts + 1.0, self._concentration[k] - 1.0)
