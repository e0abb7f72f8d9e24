"""Infer the success probabilities of groups within larger groups from noisy counts of successes and failures.

Model: phi has the stated Beta prior. The mean phi_s of a larger group is Beta(phi nu, (1 - phi) nu), and a group in it
has theta ~ Beta(phi_s kappa, (1 - phi_s) kappa). Both 1 / (1 + nu) and 1 / (1 + kappa) have the prior
of the correlation with one level (``binary``). Numbers of records are negative binomial, with one law for all groups
(``size_law``).

Locations are logits of phi_s (``nested``); the likelihood at -9.2 and 9.2 is that of all locations beyond. A nu above
8,000 is taken as this number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.sparse import csr_array
from scipy.special import betainc, betaincinv, expit, logit

from dpbayes_cli.inference.groups.binary import BinaryPrior, log_correlation_prior, rough_modes
from dpbayes_cli.inference.groups.count_tables import CountLaw
from dpbayes_cli.inference.groups.group_blocks import GroupBlocks, group_blocks
from dpbayes_cli.inference.groups.hyperparameters import find_mode
from dpbayes_cli.inference.groups.nested import LocationGrid, NestedSample, sample_nested
from dpbayes_cli.inference.groups.pair_draws import draw_probabilities

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.inference.groups.component_noise import ComponentNoise

_SPACING, _CORE_STEPS, _MOST_STEPS = 0.2, 20, 46
"""The distance of nodes, which is twice as large further than 20 steps from 0; there are at most 46 on each side."""
_MARGIN, _ERRORS, _TAIL, _LEAST = 0.5, 5.0, 1e-6, 1e-4
_TAIL_CELLS = np.cumsum(_SPACING * 1.2 ** np.arange(36.0))
_FEWEST_STEPS, _TRIM_NODES = 16, 8
_MOST_NATS = 30.0
"""A location at which a group is less likely than at another one by this factor is as good as impossible."""
_LARGEST = np.array([20.0, 9.0, 14.0, 25.0, 8.0])
"""The largest absolute values of logit phi, logit 1/(1 + nu), logit 1/(1 + kappa), log mean size, log shape."""
_SHARES = (0.15, 0.5, 0.85)
"""Guesses of the share of the spread that is between larger groups."""


@dataclass(frozen=True, eq=False)
class NestedCounts:
    """Noisy counts of groups within larger groups; see ``NestedLaw``.

    Attributes:
        blocks: the observed counts.
        parents: for each group the index of the larger group that contains it, shape (n_groups,).
        prior: the prior with one level.
        grid: the logits of the means of larger groups.
    """

    n_upper: ClassVar[int] = 2

    blocks: GroupBlocks
    parents: Integers
    prior: BinaryPrior
    grid: LocationGrid

    @cached_property
    def _memberships(self) -> list[csr_array]:
        """For each block, how many groups of each larger group have each pair, shape (n_larger, n_pairs)."""
        n_larger = int(self.parents.max()) + 1
        return [
            csr_array(
                (np.ones(len(members)), (self.parents[members], pairs.pair_of)), shape=(n_larger, len(pairs.numbers))
            )
            for members, pairs in zip(self.blocks.members, self.blocks.pairs, strict=True)
        ]

    def law_at(self, locations: Floats, lower: Floats) -> CountLaw:
        """Return the law of the counts of a group for each location of its larger group."""
        rho, mean, shape = np.clip(lower, -_LARGEST[2:], _LARGEST[2:])
        kappa, ones = float(np.exp(-rho)), np.ones(len(locations))
        return CountLaw(expit(locations) * kappa, expit(-locations) * kappa, np.exp(mean) * ones, np.exp(shape) * ones)

    def log_likelihoods(self, lower: Floats) -> Floats:
        """Return the log likelihood of each larger group's counts at the nodes, shape (n_larger, n_nodes)."""
        law, result = self.law_at(self.grid.nodes, lower), 0.0
        for members, pairs in zip(self._memberships, self.blocks.pairs, strict=True):
            logs = pairs.log_sums(law)
            # far in the tails, interpolated sums may be negative; polynomials through their logs would overshoot
            result = result + members @ np.maximum(logs, logs.max(axis=0) - _MOST_NATS).T
        return np.asarray(result)

    def log_locations(self, upper: Floats) -> Floats:
        """Return the log probabilities of the cells of the fine grid, shape (n_fine,)."""
        phi, rho = np.clip(upper, -_LARGEST[:2], _LARGEST[:2])
        a, b = float(expit(phi) * np.exp(-rho)), float(expit(-phi) * np.exp(-rho))
        edges = self.grid.edges[1:-1]
        return self.grid.log_masses(betainc(a, b, expit(edges)), betainc(b, a, expit(-edges)))

    def log_prior(self, points: Floats) -> Floats:
        """Return the log prior density of points of hyperparameters, shape (n_points,)."""
        between = log_correlation_prior(points[:, 1], self.prior.spread)
        return np.asarray(self.prior.log_density(points[:, [0, 2, 3, 4]]) + between)

    def draw(self, sample: NestedSample, size: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw the means of larger groups and the groups' probabilities, shapes (size, n_larger), (size, n_groups)."""
        points = sample.points.resample(size, rng)
        means, result = np.empty((size, int(self.parents.max()) + 1)), np.empty((size, len(self.parents)))
        for i, point in enumerate(points):
            locations = self.grid.draw(sample.location_weights(point), rng)
            means[i] = expit(locations)
            laws = self.law_at(locations, point[self.n_upper :])
            for members, pairs in zip(self.blocks.members, self.blocks.pairs, strict=True):
                of = self.parents[members]
                for s in np.unique(of):
                    law = laws.part(slice(s, s + 1))
                    result[i, members[of == s]] = draw_probabilities(pairs.of_groups(of == s), law, rng)
        return means, result


def infer_nested_counts(
    observed: Integers,
    parents: Integers,
    noises: tuple[ComponentNoise, ComponentNoise],
    prior: BinaryPrior,
    rng: np.random.Generator,
) -> tuple[NestedCounts, NestedSample]:
    """Return the groups, and weighted draws of their hyperparameters.

    Args:
        observed: the noisy counts of successes and failures, shape (n_groups, 2).
        parents: for each group the index of the larger group that contains it, from 0, shape (n_groups,).
        noises: the laws of the noise of the two components.
        prior: the prior with one level.
        rng: the generator.
    """
    variance = noises[0].variance + noises[1].variance
    blocks = group_blocks(observed, noises)

    def log_density(points: Floats) -> Floats:
        return np.asarray(prior.log_density(points) + blocks.log_likelihood(prior.law(points)))

    mode, _ = find_mode(log_density, rough_modes(observed, variance, prior))
    phi, rho, *size = mode.tolist()
    starts = np.array([(phi, _logit(share, rho), _logit(1.0 - share, rho), *size) for share in _SHARES])
    grid = _location_grid(observed, parents, variance, prior.law(mode[None]))
    law = NestedCounts(blocks, parents, prior, grid)
    some = grid.nodes[np.linspace(0, len(grid.nodes) - 1, _TRIM_NODES).astype(np.int64)]
    law = replace(law, blocks=blocks.trimmed(law.law_at(some, starts[1, 2:])))
    return law, sample_nested(law, starts, rng)


def _logit(share: float, rho: float) -> float:
    """Return the logit of ``share`` times a correlation, given the logit ``rho`` of the correlation."""
    return float(logit(np.clip(share * expit(rho), 1e-6, 1.0 - 1e-6)))


def _location_grid(observed: Integers, parents: Integers, variance: float, law: CountLaw) -> LocationGrid:
    """Return nodes that cover what the noisy counts of larger groups suggest, but not what one level excludes.

    Args:
        observed, parents: see ``infer_nested_counts``.
        variance: the variance of the noise of a group.
        law: the law of the groups with one level.
    """
    sums = np.stack([np.bincount(parents, weights=observed[:, i]) for i in range(2)], axis=1)
    total = np.maximum(sums.sum(axis=1), 1.0)
    error = _ERRORS * np.sqrt(variance * np.bincount(parents) + total)
    shares = [np.clip((sums[:, 0] + side * error) / total, _LEAST, 1.0 - _LEAST) for side in (-1.0, 1.0)]
    tails = logit(np.clip(betaincinv(law.a[0], law.b[0], np.array([_TAIL, 1.0 - _TAIL])), _LEAST, 1.0 - _LEAST))
    low = int(np.floor((max(float(logit(shares[0]).min()), tails[0]) - _MARGIN) / _SPACING))
    high = int(np.ceil((min(float(logit(shares[1]).max()), tails[1]) + _MARGIN) / _SPACING))
    middle, half = (low + high) // 2, max(high - low, _FEWEST_STEPS) // 2 + 1
    steps = np.arange(max(middle - half, -_MOST_STEPS), min(middle + half, _MOST_STEPS) + 1)
    return LocationGrid(steps[(np.abs(steps) <= _CORE_STEPS) | (steps % 2 == 0)], _SPACING, _TAIL_CELLS)
