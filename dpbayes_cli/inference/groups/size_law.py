"""The law of the groups' sizes: negative binomial, with a learned mean and shape."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_CENTER, _SD = (math.log(20.0), math.log(2.0)), (3.0, 2.0)
"""The means and standard deviations of the normal priors of the logarithms of mean and shape."""


def log_size_prior(log_mean: Floats, log_shape: Floats) -> Floats:
    """Return the log prior density of (log mean, log shape), up to a constant, elementwise."""
    parts = zip((log_mean, log_shape), _CENTER, _SD, strict=True)
    return np.asarray(sum(-0.5 * ((value - center) / sd) ** 2 for value, center, sd in parts))


def draw_size_prior(size: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw logarithms of mean and shape from their prior."""
    mean, shape = (rng.normal(center, sd, size) for center, sd in zip(_CENTER, _SD, strict=True))
    return mean, shape


def log_size(numbers: Floats, log_mean: Floats, log_shape: Floats) -> Floats:
    """Return log P(number of records) under a negative binomial law, for arrays that broadcast."""
    shape, mean = np.exp(log_shape), np.exp(log_mean)
    chosen = gammaln(numbers + shape) - gammaln(shape) - gammaln(numbers + 1.0)
    return np.asarray(chosen - shape * np.log1p(mean / shape) - numbers * np.log1p(shape / mean))
