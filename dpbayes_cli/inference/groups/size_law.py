"""The law of the number of valid records of a group: negative binomial, with a learned mean and shape.

The law is a gamma mixture of Poisson laws: rate ~ Gamma(shape, mean / shape), number ~ Poisson(rate). A priori, the
log of the mean is normal around log 30 with standard deviation 4, and the log of the shape is normal around 0 with
standard deviation 2. So the mean is between .01 and 76,000 with probability .95, and the shape between .02 and 50.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_LOG_MEAN = (math.log(30.0), 4.0)
_LOG_SHAPE = (0.0, 2.0)
_POISSON_SHAPE = 1e8
"""Beyond this shape the law is as good as Poisson, and differences of log Gamma would lose digits."""


def log_size_prior(log_mean: Floats, log_shape: Floats) -> Floats:
    """Return the log prior density of (log mean, log shape), up to a constant, elementwise."""
    first = (log_mean - _LOG_MEAN[0]) / _LOG_MEAN[1]
    second = (log_shape - _LOG_SHAPE[0]) / _LOG_SHAPE[1]
    return np.asarray(-(first**2 + second**2) / 2.0)


def draw_size_prior(size: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw means and shapes from the prior, each of shape (size,)."""
    return np.exp(rng.normal(*_LOG_MEAN, size)), np.exp(rng.normal(*_LOG_SHAPE, size))


def log_sizes(n: Floats, mean: Floats, shape: Floats) -> Floats:
    """Return the log probability that a group has n valid records, elementwise; all arguments must broadcast."""
    n, mean, shape = (np.asarray(each, dtype=np.float64) for each in (n, mean, shape))
    shape = np.minimum(shape, _POISSON_SHAPE)
    choose = gammaln(shape + n) - gammaln(shape) - gammaln(n + 1.0)
    return np.asarray(choose - shape * np.log1p(mean / shape) - n * np.log1p(shape / mean))


def guess_size_law(observed: Floats | Integers, variance: float) -> tuple[float, float]:
    """Return a rough log mean and log shape of the size law, as a starting point.

    Args:
        observed: noisy numbers of records of the groups, shape (n_groups,).
        variance: the variance of their noise.
    """
    mean = max(float(np.mean(observed)), 0.5)
    spread = float(np.var(observed)) - variance - mean
    shape = mean**2 / spread if spread > 0 else 20.0
    return math.log(mean), math.log(min(max(shape, 0.05), 20.0))
