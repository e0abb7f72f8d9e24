"""Simulated records of a linear regression, its default prior, and its plug-in posterior."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaincinv, ndtr

from dpbayes_cli.base.eigen import eigh
from dpbayes_cli.models.families.wishart_records import WishartRecords

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.models.families.regression_coordinates import RegressionCoordinates

_CANDIDATES, _MAX_BATCHES = 64, 8
_PRIOR_DRAWS, _DRAWS_BY_FEATURES = 2000, 4
"""The number of draws of which quantiles of the prior are computed, and how many of them have the same features."""
_LEAST_RECORDS = 20
"""The features' covariance, on which the prior of the parameters depends, is that of at least this many records."""
_MAX_SHARE_OUT = 1e-3
_ROOT_OF_SD = (0.02, 0.999)
_MIN_EIGENVALUE = 1e-12
"""Eigenvalues of a correlation matrix below this are rounding errors."""


def draw_features(law: RegressionCoordinates, n_records: int, rng: np.random.Generator) -> Floats:
    """Draw scaled features of records, shape (n_records, d): numbers in [-1, 1], then indicators.

    Means, standard deviations and the correlations of underlying normal numbers are drawn from the prior of
    ``RegressionMoments``. Each number has a beta law; the shares of a text's values are uniform on the simplex.
    """
    size = law.size - 1 - sum(law.texts)
    mean = rng.uniform(0.0, 1.0, size)
    share = rng.uniform(*_ROOT_OF_SD, size) ** 2
    weight = 1.0 / share**2 - 1.0
    factor = np.eye(size)
    for j in range(1, size):  # uniform on correlation matrices: Student rows
        factor[j, :j] = rng.standard_normal(j) / np.sqrt(rng.chisquare(size + 1.0 - j))
    factor /= np.sqrt((factor**2).sum(axis=1, keepdims=True))
    levels = np.clip(ndtr(rng.standard_normal((n_records, size)) @ factor.T), 1e-12, 1.0 - 1e-12)
    parts = [2.0 * betaincinv(mean * weight, (1.0 - mean) * weight, levels) - 1.0]
    for k in law.texts:
        codes = rng.choice(k + 1, n_records, p=rng.dirichlet(np.ones(k + 1)))
        parts.append((codes[:, None] == np.arange(1, k + 1)).astype(np.float64))
    return np.hstack(parts)


def draw_regressions(law: RegressionCoordinates, x: Floats, size: int, rng: np.random.Generator) -> tuple[Floats, ...]:
    """Draw levels at features of 0, slopes and variances of scaled numbers from the prior, given scaled features.

    Returns:
        At most ``size`` levels, shape (k,), slopes, shape (k, d), and variances, shape (k,), with k >= 1.
    """
    d, center, prior = x.shape[1], x.mean(axis=0), law.conjugate
    if prior is not None:
        variance = np.full(size, law.variance)
        if law.variance is None:
            variance = prior.scatter / rng.chisquare(prior.freedom, size)
        slopes = np.sqrt(variance)[:, None] * rng.standard_normal((size, d)) * np.asarray(prior.slope_scale)
        level = prior.mean[0] + np.sqrt(variance / prior.strength) * rng.standard_normal(size)
        return level - slopes @ np.asarray(prior.mean[1:]), slopes, variance
    mean = rng.uniform(-1.0, 1.0, size)
    sd = rng.uniform(0.0, 1.0, size)
    scale = law.typical_slope * np.exp(rng.standard_normal(size))
    slopes = scale[:, None] * rng.standard_normal((size, d))
    total = sd**2 + np.einsum("ni,ij,nj->n", slopes, np.atleast_2d(np.cov(x.T, bias=True)), slopes)
    log_weight = -0.5 * total * law.tightness(mean)
    kept = np.log(rng.random(size)) < log_weight
    kept[np.argmax(log_weight)] |= not kept.any()
    return (mean - slopes @ center)[kept], slopes[kept], sd[kept] ** 2


def _draw_targets(
    law: RegressionCoordinates, x: Floats, rng: np.random.Generator
) -> Iterator[tuple[float, Floats, float, Floats]]:
    """Yield levels, slopes and variances from the prior, each with targets of the records with the features ``x``.

    With the default prior, parameters are skipped if the target is out of bounds in more than one of 1,000 records,
    unless too many were skipped.
    """
    for _ in range(_MAX_BATCHES):
        for level, slopes, variance in zip(*draw_regressions(law, x, _CANDIDATES, rng), strict=True):
            y = level + x @ slopes + np.sqrt(variance) * rng.standard_normal(len(x))
            if law.conjugate is not None or (np.abs(y) > 1.0).mean() <= _MAX_SHARE_OUT:
                yield level, slopes, variance, y
    while True:
        yield level, slopes, variance, y


def draw_records(law: RegressionCoordinates, n_records: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw parameters from the prior, and records, target first, in the units of the columns."""
    x = draw_features(law, max(n_records, _LEAST_RECORDS), rng)
    level, slopes, variance, y = next(_draw_targets(law, x, rng))
    half, middle = law.half_and_middle
    parameters = law.reported(np.array([level]), slopes[None], np.array([variance]))[0]
    return parameters, middle + half * np.column_stack([y, x])[:n_records]


def prior_quantiles(law: RegressionCoordinates, levels: Floats) -> Floats:
    """Return quantiles of the default prior, from fixed draws, shape (n_parameters, n_levels)."""
    return np.asarray(np.quantile(_prior_draws(law), levels, axis=0).T)


@lru_cache(maxsize=1)
def _prior_draws(law: RegressionCoordinates) -> Floats:
    """Return parameters drawn from the prior; a release asks for their quantiles several times."""
    rng, drawn = np.random.default_rng(0), []
    for _ in range(_PRIOR_DRAWS // _DRAWS_BY_FEATURES):
        targets = _draw_targets(law, draw_features(law, _LEAST_RECORDS, rng), rng)
        drawn += [each[:3] for each in islice(targets, _DRAWS_BY_FEATURES)]
    return law.reported(*(np.array(each) for each in zip(*drawn, strict=True)))


def draw_plug_in(
    law: RegressionCoordinates, observed: Floats, n_records: float, size: int, rng: np.random.Generator
) -> Floats:
    """Draw from the conjugate regression posterior given the nearest positive semidefinite second moments.

    The prior adds positive numbers to the diagonal of the moments. Thus slopes are finite and the residual sum of
    squares is bounded from below, even if the moments are singular. Because the added numbers may be lost by rounding,
    eigenvalues of the features' correlation matrix are raised to at least 1e-12. The default prior is replaced by a
    conjugate one that weighs a hundredth of a record.
    """
    d, prior = law.size, law.conjugate
    scatter, freedom, strength, center = np.full(d, 4e-5), 2.0, 0.01, (0.0,) * d
    if prior is not None:
        scatter = np.concatenate([[prior.scatter], np.asarray(prior.slope_scale) ** -2.0])
        freedom, strength, center = prior.freedom, prior.strength, prior.mean
    moments = WishartRecords(center, tuple(np.sqrt(scatter).tolist()), strength, d + 2.0, law.columns, law.counted)
    posterior = moments.conjugate(law.with_squares(observed), n_records)
    root = np.sqrt(np.diagonal(posterior.scale)[1:])
    values, vectors = eigh(posterior.scale[1:, 1:] / np.outer(root, root))
    half_inverse = vectors / np.sqrt(np.maximum(values, _MIN_EIGENVALUE)) / root[:, None]
    standard = half_inverse.T @ posterior.scale[1:, 0]
    rest = max(posterior.scale[0, 0] - float(standard @ standard), scatter[0])
    chi = rng.chisquare(freedom + posterior.n_records, size)
    variance = rest / chi if law.variance is None else np.full(size, law.variance)
    drawn = standard + np.sqrt(variance)[:, None] * rng.standard_normal((size, d - 1))
    slopes = drawn @ half_inverse.T
    level = posterior.location[0] + np.sqrt(variance / posterior.strength) * rng.standard_normal(size)
    return law.reported(level - slopes @ posterior.location[1:], slopes, variance)
