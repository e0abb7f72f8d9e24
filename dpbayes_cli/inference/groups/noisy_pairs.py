"""Sum functions of the two latent counts of each group over the noise of the two observed counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.inference.groups.count_axis import CountAxis, make_axis
from dpbayes_cli.inference.groups.count_tables import CountGrid, CountLaw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.inference.groups.component_noise import ComponentNoise

_TABLE_ENTRIES = 1 << 19
_PAIR_COST = 12
_TRIM_PAIRS = 256
_TRIMMED_MASS = 1e-11


@dataclass(frozen=True, eq=False)
class NoisyPairs:
    """Pairs of observed counts, and for each how many groups have it.

    Attributes:
        successes: the axis of the first component.
        failures: the axis of the second component.
        first: for each distinct pair the index of its first component in ``successes.observed``, shape (n_pairs,).
        second: the index of its second component in ``failures.observed``, shape (n_pairs,).
        numbers: the number of groups with each pair, shape (n_pairs,).
        pair_of: the index of each group's pair, shape (n_groups,).
        may_be_empty: whether a group may have no records.
    """

    successes: CountAxis
    failures: CountAxis
    first: Integers
    second: Integers
    numbers: Integers
    pair_of: Integers
    may_be_empty: bool = True

    @cached_property
    def grid(self) -> CountGrid:
        """The pairs of counts at which the joint law is tabulated."""
        return CountGrid(self.successes.nodes, self.failures.nodes, may_be_empty=self.may_be_empty)

    def batches(self, law: CountLaw) -> Iterator[slice]:
        """Yield slices of the values of the parameters whose tables fit into memory together."""
        per_value = self.grid.n.size + len(self.successes.observed) * len(self.failures.nodes) + len(self.numbers)
        size = max(1, _TABLE_ENTRIES // per_value)
        for start in range(0, len(law), size):
            yield slice(start, min(start + size, len(law)))

    def sums(self, tables: Floats) -> Floats:
        """Return the sums of tables times noise probabilities for each pair, shape (n_tables, n_pairs)."""
        left, right = self.successes.weights @ tables, self.failures.weights
        if len(left[0]) * len(right) <= _PAIR_COST * len(self.numbers):
            return np.asarray((left @ right.T)[:, self.first, self.second])
        result = np.empty((len(tables), len(self.numbers)))
        for i, each in enumerate(left):
            result[i] = np.einsum("uf,uf->u", each[self.first], right[self.second])
        return result

    def log_likelihood(self, law: CountLaw) -> Floats:
        """Return the log probability of all observations, up to a constant, shape (n_values,)."""
        result = np.empty(len(law))
        for part in self.batches(law):
            tables, logs = self.grid.tables(law.part(part))
            sums = np.maximum(self.sums(tables), 1e-280)
            result[part] = np.log(sums) @ self.numbers + logs * self.numbers.sum()
        return result

    def log_sums(self, law: CountLaw) -> Floats:
        """Return the log probability of each pair, up to a constant of the pair, shape (n_values, n_pairs)."""
        result = np.empty((len(law), len(self.numbers)))
        for part in self.batches(law):
            tables, logs = self.grid.tables(law.part(part))
            result[part] = np.log(np.maximum(self.sums(tables), 1e-280)) + logs[:, None]
        return result

    def of_groups(self, chosen: NDArray[np.bool_]) -> NoisyPairs:
        """Return the same pairs for some of the groups."""
        return replace(self, pair_of=self.pair_of[chosen])

    def trimmed(self, law: CountLaw) -> NoisyPairs:
        """Return the pairs without the largest counts, which are improbable given the observations.

        Args:
            law: probable values of the parameters.
        """
        largest = (self.first, self.second, self.first + self.second)
        chosen = np.unique(np.concatenate([np.argsort(each)[-_TRIM_PAIRS:] for each in largest]))
        left = self.successes.weights[self.first[chosen]]
        right = self.failures.weights[self.second[chosen]]
        mass_s, mass_f = np.zeros(left.shape[1]), np.zeros(right.shape[1])
        for i in range(len(law)):
            table = self.grid.tables(law.part(slice(i, i + 1)))[0][0]
            by_s, by_f = left * (right @ table.T), right * (left @ table)
            total = np.maximum(by_s.sum(axis=1, keepdims=True), 1e-280)
            mass_s = np.maximum(mass_s, np.abs(by_s / total).max(axis=0))
            mass_f = np.maximum(mass_f, np.abs(by_f / total).max(axis=0))
        axes = self.successes.cut(_last(mass_s)), self.failures.cut(_last(mass_f))
        return replace(self, successes=axes[0], failures=axes[1])


def _last(mass: Floats) -> int:
    """Return the number of nodes after which all have negligible mass."""
    return int(np.flatnonzero(mass > _TRIMMED_MASS)[-1]) + 1


def noisy_pairs(
    observed: Integers, noises: tuple[ComponentNoise, ComponentNoise], *, may_be_empty: bool = True
) -> NoisyPairs:
    """Return the distinct pairs of observed counts with their axes.

    Args:
        observed: the noisy counts of successes and failures, shape (n_groups, 2).
        noises: the laws of the noise of the two components.
        may_be_empty: whether a group may have no records.
    """
    firsts, first = np.unique(observed[:, 0], return_inverse=True)
    seconds, second = np.unique(observed[:, 1], return_inverse=True)
    keys, pair_of, numbers = np.unique(first * len(seconds) + second, return_inverse=True, return_counts=True)
    successes, failures = make_axis(firsts, noises[0]), make_axis(seconds, noises[1])
    places = keys // len(seconds), keys % len(seconds)
    return NoisyPairs(successes, failures, *places, numbers, pair_of, may_be_empty)
