"""The probability that a group is published, if its key is found in the data, given the law of the sizes.

A group has n >= 1 records, whose number is negative binomial, restricted to positive numbers. It is published if n plus
the noise of its counts reaches the threshold. Published groups are larger than others, and their noise is mostly
positive. So the likelihood of the law of the sizes is that of the noisy counts of a group, divided by the probability
that the group is published. Given the law and the noisy counts, the posterior of a group needs no such factor, because
its noisy counts determine that it is published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betainc

from dpbayes_cli.inference.groups.count_axis import STEP, interpolation, spaced_counts
from dpbayes_cli.inference.groups.size_law import log_sizes

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.privacy.key_threshold import KeyThreshold

_SURE = 1e-12
"""If the probability that a group is not published is below this, it is treated as zero."""
_LEAST = 1e-280


class PublishedSizes:
    """The probability that a group is published."""

    def __init__(self, threshold: KeyThreshold) -> None:
        """Compute the weights of sizes of groups, at nodes between which the law of the sizes is interpolated.

        Args:
            threshold: the rule by which groups are published.
        """
        from dpbayes_cli.privacy.key_threshold import noise_tails

        tails = noise_tails(threshold.noise, threshold.n_counts, float(threshold.delta))
        missing = noise_tails(threshold.noise, threshold.n_counts, _SURE)
        reach = missing.first * missing.grain + np.flatnonzero(missing.tails <= _SURE)[0] * missing.grain
        self._most = max(1, -(-(threshold.value + int(reach)) // threshold.step))
        nodes = spaced_counts(0, self._most + 1, STEP)
        counts = np.arange(int(nodes[-1]) + 1)
        gap = threshold.value - threshold.step * counts
        # the noise is symmetric: P(noise >= gap) = 1 - P(noise >= 1 - gap)
        published = np.where(gap > 0, tails.above(gap), 1.0 - missing.above(1 - gap))
        weights = np.where((counts >= 1) & (counts <= self._most), published, 0.0)
        self._nodes, self._weights = nodes.astype(np.float64), interpolation(nodes).T @ weights

    def log_probability(self, mean: Floats, shape: Floats) -> Floats:
        """Return the log probability that a group has at least one record and is published, shape (n_laws,).

        Args:
            mean, shape: parameters of the negative binomial law of the sizes, shape (n_laws,).
        """
        known = np.exp(log_sizes(self._nodes, mean[:, None], shape[:, None])) @ self._weights
        larger = betainc(self._most + 1.0, shape, mean / (mean + shape))
        return np.asarray(np.log(np.maximum(known + larger, _LEAST)))


def mean_of_nonempty(mean: Floats, shape: Floats) -> Floats:
    """Return the mean of a size that is at least 1, given parameters of the negative binomial law."""
    return np.asarray(mean / -np.expm1(-shape * np.log1p(mean / shape)))
