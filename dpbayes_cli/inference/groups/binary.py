"""Infer the success probabilities of groups from noisy counts of successes and failures.

Model: phi has the stated Beta prior, and 1 / (1 + kappa), the correlation of two records of a group, has a Beta(1, 3)
prior: its mean is 1/4, and it is below .63 with probability .95. The success probability of a group is Beta(phi kappa,
(1 - phi) kappa). The numbers of records are negative binomial with unknown mean and shape (``size_law``). Without
pooling, the success probabilities have the stated prior.

Both latent counts of a group are summed out (``noisy_pairs``). The hyperparameters are drawn with importance weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, log_expit

from dpbayes_cli.inference.groups.count_tables import CountLaw
from dpbayes_cli.inference.groups.group_blocks import GroupBlocks, group_blocks
from dpbayes_cli.inference.groups.hyperparameters import WeightedPoints, peak_proposal, sample_around
from dpbayes_cli.inference.groups.pair_draws import draw_probabilities
from dpbayes_cli.inference.groups.pair_summary import PairSummary, mean_probability, summarize_pairs
from dpbayes_cli.inference.groups.size_law import guess_size_law, log_size_prior

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.inference.groups.component_noise import ComponentNoise
    from dpbayes_cli.inference.groups.selection import PublishedSizes

_FEWEST_POINTS, _MOST_POINTS = 256, 1024
_PAIRS = 65_536
"""Each round computes about ``_PAIRS`` pairs of a group and a point of hyperparameters. So the number of points is
large if there are few groups: their hyperparameters have wide posteriors, and points cost little."""
_LEAST_ESS_SHARE = 1.17
_PRECISION = 3.0
_SUMMARY_POINTS = 512
_TRIM_POINTS = 16
_START_KAPPAS = (3.0, 30.0, 300.0)
_SMALLER, _LOG_SHAPES = (0.0, 1.0, 2.5), (-1.0, 0.5)
"""If small groups are missing, the search also starts at these log shapes and at log means that are smaller by this."""
LARGEST = np.array([20.0, 14.0, 25.0, 8.0])
"""The largest absolute values of the coordinates: logit phi, logit 1/(1 + kappa), log mean size, log shape."""


def log_correlation_prior(rho: Floats, spread: float) -> Floats:
    """Return the log prior density of logits of correlations, elementwise, up to a constant; see ``BinaryPrior``."""
    return np.asarray(log_expit(rho) + _PRECISION / spread * log_expit(-rho))


def draw_correlations(spread: float, size: int, rng: np.random.Generator) -> Floats:
    """Draw correlations from their prior, shape (size,)."""
    return rng.beta(1.0, _PRECISION / spread, size)


@dataclass(frozen=True)
class BinaryPrior:
    """The prior of the success probabilities.

    Attributes:
        a: the first parameter of the stated Beta prior.
        b: the second parameter.
        pooled: whether the prior is that of phi; if not, it is that of each group.
        spread: see ``NoisyGroups``; the correlation of two records of a group has a Beta(1, 3 / spread) prior.
    """

    a: float
    b: float
    pooled: bool
    spread: float = 1.0

    def law(self, points: Floats) -> CountLaw:
        """Return the parameters of the law of counts at points of the hyperparameters, shape (n, 4) or (n, 2)."""
        points = np.clip(points, -LARGEST[-points.shape[1] :], LARGEST[-points.shape[1] :])
        mean, shape = np.exp(points[:, -2]), np.exp(points[:, -1])
        if not self.pooled:
            return CountLaw(np.full(len(points), self.a), np.full(len(points), self.b), mean, shape)
        kappa = np.exp(-points[:, 1])
        return CountLaw(expit(points[:, 0]) * kappa, expit(-points[:, 0]) * kappa, mean, shape)

    def log_density(self, points: Floats) -> Floats:
        """Return the log prior density of the coordinates, up to a constant."""
        result = log_size_prior(points[:, -2], points[:, -1])
        if self.pooled:
            phi, rho = points[:, 0], points[:, 1]
            result = result + self.a * log_expit(phi) + self.b * log_expit(-phi)
            result = result + log_correlation_prior(rho, self.spread)
        return np.asarray(result)


@dataclass(frozen=True, eq=False)
class BinaryGroups:
    """The posterior of the success probabilities of groups.

    Attributes:
        blocks: the observed counts.
        prior: the prior.
        hyperparameters: weighted draws of the coordinates that ``BinaryPrior.law`` expects.
        are_found: whether keys were found in the data, so that each group has at least one record.
    """

    blocks: GroupBlocks
    prior: BinaryPrior
    hyperparameters: WeightedPoints
    are_found: bool = False

    def summarize(self, rng: np.random.Generator) -> PairSummary:
        """Return the summaries of all groups."""
        points = rng.permutation(self.hyperparameters.thin(_SUMMARY_POINTS, rng))
        law = self.prior.law(points)
        overall = expit(points[:, 0]) if self.prior.pooled else np.full(len(points), self._mean_over_groups(law))
        parts = [summarize_pairs(pairs, law, overall) for pairs in self.blocks.pairs]
        names = "means", "sds", "quantiles", "sizes", "above"
        gathered = {name: self.blocks.gather([getattr(part, name) for part in parts]) for name in names}
        return PairSummary(**gathered, monte_carlo=max(part.monte_carlo for part in parts))

    def _mean_over_groups(self, law: CountLaw) -> float:
        """Return the mean over groups of their posterior means, for a few values of the hyperparameters."""
        few = law.part(slice(_TRIM_POINTS))
        numbers = [pairs.numbers for pairs in self.blocks.pairs]
        sums = [mean_probability(pairs, few) @ pairs.numbers for pairs in self.blocks.pairs]
        return float(sum(sums) / sum(each.sum() for each in numbers))

    def draw_laws(self, size: int, rng: np.random.Generator) -> CountLaw:
        """Draw the parameters of the law of counts from the posterior."""
        return self.prior.law(self.hyperparameters.resample(size, rng))

    def draw(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw the success probabilities of all groups jointly, shape (size, n_groups)."""
        law = self.draw_laws(size, rng)
        result = np.empty((size, sum(len(each) for each in self.blocks.members)))
        for i in range(size):
            for members, pairs in zip(self.blocks.members, self.blocks.pairs, strict=True):
                result[i, members] = draw_probabilities(pairs, law.part(slice(i, i + 1)), rng)
        return result


def infer_binary(
    observed: Integers,
    noises: tuple[ComponentNoise, ComponentNoise],
    prior: BinaryPrior,
    rng: np.random.Generator,
    published: PublishedSizes | None = None,
) -> BinaryGroups:
    """Return the posterior of the success probabilities of groups.

    Args:
        observed: the noisy counts of successes and failures, shape (n_groups, 2).
        noises: the laws of the noise of the two components.
        prior: the prior.
        rng: the generator.
        published: the probability that a group is published; None if all groups are.
    """
    starts = rough_modes(observed, noises[0].variance + noises[1].variance, prior, is_selected=published is not None)
    return infer_blocks(group_blocks(observed, noises, may_be_empty=published is None), starts, prior, rng, published)


def infer_blocks(
    blocks: GroupBlocks,
    starts: Floats,
    prior: BinaryPrior,
    rng: np.random.Generator,
    published: PublishedSizes | None = None,
) -> BinaryGroups:
    """Return the posterior of the success probabilities of groups, given guesses of the hyperparameters."""
    n_groups = sum(len(each) for each in blocks.members)

    def log_density(points: Floats) -> Floats:
        law = prior.law(points)
        result = prior.log_density(points) + blocks.log_likelihood(law)
        return np.asarray(
            result if published is None else result - n_groups * published.log_probability(law.mean, law.shape)
        )

    proposal = peak_proposal(log_density, starts)
    blocks = blocks.trimmed(prior.law(proposal.draw(_TRIM_POINTS, rng)))
    n_points = int(np.clip(_PAIRS // sum(len(each) for each in blocks.members), _FEWEST_POINTS, _MOST_POINTS))
    sample = sample_around(log_density, proposal, n_points, _LEAST_ESS_SHARE * n_points, rng)
    blocks = blocks.trimmed(prior.law(sample.thin(_TRIM_POINTS, rng)))
    return BinaryGroups(blocks, prior, sample, published is not None)


def rough_modes(observed: Integers, variance: float, prior: BinaryPrior, *, is_selected: bool = False) -> Floats:
    """Return rough guesses of the mode of the hyperparameters; without small groups, also with smaller mean sizes."""
    size = guess_size_law(observed.sum(axis=1), variance)
    sizes = [size]
    if is_selected:
        sizes = [(size[0] - less, shape) for less in _SMALLER for shape in (size[1], *_LOG_SHAPES)]
    if not prior.pooled:
        return np.array(sizes)
    sums = np.maximum(observed.mean(axis=0), 0.0) + 0.05
    phi = float(np.log(sums[0] / sums[1]))
    return np.array([(phi, -np.log(kappa), *each) for kappa in _START_KAPPAS for each in sizes])
