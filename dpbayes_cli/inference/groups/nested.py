"""Infer the success probabilities of groups that belong to parents, such as counties within states.

Model: phi has the stated Beta prior. A parent's mean phi_s is Beta(phi nu, (1 - phi) nu), and a group of the parent has
theta ~ Beta(phi_s kappa, (1 - phi_s) kappa). Both 1 / (1 + nu) and 1 / (1 + kappa) are uniform on (0, 1). Numbers of
records are negative binomial (``size_law``).

Given the hyperparameters, the log likelihood of a group is a smooth function of logit phi_s. It is computed at nodes
that are at most 0.15 apart, interpolated by polynomials through 4 nodes to a grid that is 8 times as fine, and added up
for each parent. On this grid phi_s is summed out, with the prior mass of each cell. The grid reaches 1 beyond what the
noisy counts of the parents suggest, and at most from -9 to 9; its end cells have all prior mass beyond. A kappa above
1,100 and a nu above 3,000 are taken as these numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array
from scipy.special import betainc, expit, log_expit, logit, logsumexp

from dpbayes_cli.inference.groups.count_axis import interpolation
from dpbayes_cli.inference.groups.count_tables import CountLaw
from dpbayes_cli.inference.groups.group_blocks import GroupBlocks, group_blocks
from dpbayes_cli.inference.groups.hyperparameters import WeightedPoints, peak_proposal, sample_around
from dpbayes_cli.inference.groups.pair_draws import draw_probabilities
from dpbayes_cli.inference.groups.size_law import guess_size_law, log_size_prior

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.inference.groups.component_noise import ComponentNoise

_FINER, _DEGREE = 8, 4
_SPACING, _LARGEST_LOGIT, _MARGIN = 0.15, 9.0, 1.0
_POINTS, _LEAST_ESS, _TRIM_POINTS = 192, 200.0, 8
_LARGEST = np.array([20.0, 8.0, 7.0, 25.0, 8.0])
_START_PRECISIONS = ((10.0, 10.0), (100.0, 10.0), (30.0, 100.0))


@dataclass(frozen=True, eq=False)
class ParentGrid:
    """The values of a parent's mean at which likelihoods are computed, and the finer grid on which it is summed out.

    Attributes:
        nodes: ascending logits, equally spaced, shape (n_nodes,).
    """

    nodes: Floats

    @cached_property
    def basis(self) -> Floats:
        """The interpolation from the nodes to the fine grid, shape (n_fine, n_nodes)."""
        return np.asarray(interpolation(np.arange(len(self.nodes)) * _FINER, _DEGREE).toarray())

    @cached_property
    def fine(self) -> Floats:
        """The logits of the fine grid, shape (n_fine,)."""
        return np.linspace(self.nodes[0], self.nodes[-1], (len(self.nodes) - 1) * _FINER + 1)

    def log_masses(self, a: float, b: float) -> Floats:
        """Return the log probabilities of the cells of the fine grid under a Beta law, shape (n_fine,)."""
        edges = expit((self.fine[1:] + self.fine[:-1]) / 2.0)
        below = np.concatenate([[0.0], betainc(a, b, edges), [1.0]])
        above = np.concatenate([[1.0], betainc(b, a, 1.0 - edges), [0.0]])
        masses = np.where(below[1:] < 0.5, np.diff(below), -np.diff(above))
        return np.asarray(np.log(np.maximum(masses, 1e-300)))


@dataclass(frozen=True, eq=False)
class NestedGroups:
    """The posterior of the success probabilities of groups that belong to parents.

    Attributes:
        blocks: the observed counts.
        parents: the index of each group's parent, shape (n_groups,).
        prior: the two parameters of the stated Beta prior of phi.
        grid: the values of a parent's mean.
        hyperparameters: weighted draws of logit phi, logit 1 / (1 + nu), logit 1 / (1 + kappa), log mean and log shape
            of the numbers of records.
    """

    blocks: GroupBlocks
    parents: Integers
    prior: tuple[float, float]
    grid: ParentGrid
    hyperparameters: WeightedPoints

    def law_at_nodes(self, point: Floats) -> CountLaw:
        """Return the law of counts for each node of the parent's mean, given the hyperparameters, shape (5,)."""
        _, _, rho, mean, shape = np.clip(point, -_LARGEST, _LARGEST)
        kappa, ones = float(np.exp(-rho)), np.ones(len(self.grid.nodes))
        nodes = self.grid.nodes
        return CountLaw(expit(nodes) * kappa, expit(-nodes) * kappa, np.exp(mean) * ones, np.exp(shape) * ones)

    @cached_property
    def _memberships(self) -> list[csr_array]:
        """For each block the number of groups of each parent with each pair, shape (n_parents, n_pairs)."""
        shape = int(self.parents.max()) + 1
        return [
            csr_array(
                (np.ones(len(members)), (self.parents[members], pairs.pair_of)), shape=(shape, len(pairs.numbers))
            )
            for members, pairs in zip(self.blocks.members, self.blocks.pairs, strict=True)
        ]

    def log_joint(self, point: Floats) -> Floats:
        """Return the log density of each parent's mean and its observations on the fine grid, shape (n_fine, n)."""
        law = self.law_at_nodes(point)
        by_parent = sum(
            members @ pairs.log_sums(law).T for members, pairs in zip(self._memberships, self.blocks.pairs, strict=True)
        )
        phi, rho = np.clip(point[:2], -_LARGEST[:2], _LARGEST[:2])
        nu = float(np.exp(-rho))
        masses = self.grid.log_masses(float(expit(phi)) * nu, float(expit(-phi)) * nu)
        return np.asarray(self.grid.basis @ np.asarray(by_parent).T + masses[:, None])

    def log_density(self, points: Floats) -> Floats:
        """Return the log posterior density of the hyperparameters, up to a constant, shape (n_points,)."""
        a, b = self.prior
        phi, *rhos = points.T[:3]
        result = a * log_expit(phi) + b * log_expit(-phi) + log_size_prior(points[:, 3], points[:, 4])
        result += sum(log_expit(rho) + log_expit(-rho) for rho in rhos)
        return np.asarray(result + np.array([logsumexp(self.log_joint(point), axis=0).sum() for point in points]))

    def parent_weights(self, point: Floats) -> Floats:
        """Return the posterior of each parent's mean on the fine grid, given hyperparameters, shape (n_fine, n)."""
        logs = self.log_joint(point)
        weights = np.exp(logs - logs.max(axis=0))
        return np.asarray(weights / weights.sum(axis=0))

    def draw(self, size: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw the parents' means and the groups' probabilities, shapes (size, n_parents) and (size, n_groups)."""
        points = self.hyperparameters.resample(size, rng)
        means, result = [], np.empty((size, len(self.parents)))
        for i, point in enumerate(points):
            cumulated = np.cumsum(self.parent_weights(point), axis=0)
            place = (cumulated < rng.random(cumulated.shape[1])).sum(axis=0)
            step = self.grid.fine[1] - self.grid.fine[0]
            places = self.grid.fine[np.minimum(place, len(cumulated) - 1)] + step * (rng.random(len(place)) - 0.5)
            means.append(expit(places))
            law = self.law_at_nodes(point).part(slice(0, 1))
            kappa = law.a + law.b
            for members, pairs in zip(self.blocks.members, self.blocks.pairs, strict=True):
                for s in np.unique(self.parents[members]):
                    inside = self.parents[members] == s
                    own = CountLaw(means[-1][s] * kappa, (1.0 - means[-1][s]) * kappa, law.mean, law.shape)
                    result[i, members[inside]] = draw_probabilities(pairs.of_groups(inside), own, rng)
        return np.array(means), result


def infer_nested(
    observed: Integers,
    parents: Integers,
    noises: tuple[ComponentNoise, ComponentNoise],
    prior: tuple[float, float],
    rng: np.random.Generator,
) -> NestedGroups:
    """Return the posterior of the success probabilities of groups that belong to parents.

    Args:
        observed: the noisy counts of successes and failures, shape (n_groups, 2).
        parents: the index of each group's parent, from 0, shape (n_groups,).
        noises: the laws of the noise of the two components.
        prior: the two parameters of the stated Beta prior.
        rng: the generator.
    """
    variance = noises[0].variance + noises[1].variance
    grid = _parent_grid(observed, parents, variance)
    nothing = WeightedPoints(np.zeros((0, 5)), np.zeros(0))
    groups = NestedGroups(group_blocks(observed, noises), parents, prior, grid, nothing)
    size = guess_size_law(observed.sum(axis=1), variance)
    sums = np.maximum(observed.mean(axis=0), 0.0) + 0.05
    phi = float(np.log(sums[0] / sums[1]))
    starts = np.array([(phi, -np.log(nu), -np.log(kappa), *size) for nu, kappa in _START_PRECISIONS])
    proposal = peak_proposal(groups.log_density, starts)
    sample = sample_around(groups.log_density, proposal, _POINTS, _LEAST_ESS, rng)
    return NestedGroups(groups.blocks, parents, prior, grid, sample)


def _parent_grid(observed: Integers, parents: Integers, variance: float) -> ParentGrid:
    """Return nodes that cover what the noisy counts of the parents suggest."""
    sums = np.stack([np.bincount(parents, weights=observed[:, i]) for i in range(2)], axis=1)
    error = 4.0 * np.sqrt(variance * np.bincount(parents))
    total = np.maximum(sums.sum(axis=1), 1.0)
    low = logit(np.clip((sums[:, 0] - error) / total, 1e-4, 1.0 - 1e-4)).min() - _MARGIN
    high = logit(np.clip((sums[:, 0] + error) / total, 1e-4, 1.0 - 1e-4)).max() + _MARGIN
    low, high = max(low, -_LARGEST_LOGIT), min(high, _LARGEST_LOGIT)
    return ParentGrid(np.linspace(low, high, max(16, int(np.ceil((high - low) / _SPACING)) + 1)))
