"""The law of the Hessian of a wide design, shrunk to a simple structure.

The Hessian of the first round, where all records have the same curvature, is estimated from all rounds, each multiplied
by the ratio of traces. A priori an entry of two different features is what it would be if the features were
independent, up to a normal error whose size is estimated; entries on the diagonal and of the intercept have flat
priors. What this shrinks although it is clear of the noise, because many features have it in common, is added again.

Source: derived here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpbayes_cli.base.eigen import eigh
from dpbayes_cli.base.numeric import Booleans, Floats, Integers
from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.design import Design
from dpbayes_cli.core.noisy_observation import NoisyDerivatives

_PROJECTIONS = 4
_ERROR_RANGE = 0.02, 0.5
"""The smallest and largest error of independence, as a fraction of the roots of the diagonal."""


@dataclass(frozen=True, eq=False)
class IndicatorStructure:
    """What holds for the Hessian of every data set, because the indicators of a text sum to 1 and exclude each other.

    Attributes:
        span: the orthogonal projection to the space of all rows of the design, shape (width, width).
        zeros: which entries belong to two levels of one text.
        levels: the columns that are indicators, if the design has an intercept; the entry of an indicator and the
            intercept equals that on the diagonal.
    """

    span: Floats
    zeros: Booleans
    levels: Integers

    def project(self, matrices: Floats) -> Floats:
        """Return symmetric matrices, shape (..., width, width), moved toward those for which all this holds."""
        for _ in range(_PROJECTIONS):
            matrices = np.where(self.zeros, 0.0, self.span @ matrices @ self.span)
            if len(self.levels):
                i = self.levels
                shared = (matrices[..., i, i] + 2.0 * matrices[..., 0, i]) / 3.0
                matrices[..., i, i] = matrices[..., 0, i] = matrices[..., i, 0] = shared
        return np.asarray(matrices)


def indicator_structure(design: Design) -> IndicatorStructure:
    """Return the structure of the Hessian; nothing is known if rows are clipped."""
    sizes = [len(feature.names) for feature in design.features]
    texts = [not isinstance(feature.column, NumericColumn) for feature in design.features]
    owners = np.repeat(np.arange(len(sizes)), sizes)
    is_level = np.repeat(texts, sizes)
    owners = np.concatenate([[-1] if design.intercept else [], owners])
    is_level = np.concatenate([[False] if design.intercept else [], is_level]).astype(bool)
    width = design.width
    if design.radius < design.largest:
        return IndicatorStructure(np.eye(width), np.zeros((width, width), dtype=bool), np.zeros(0, dtype=np.int64))
    zeros = (owners[:, None] == owners) & is_level[:, None] & ~np.eye(width, dtype=bool)
    # differences of sums that are equal: of the levels of a text and of the intercept or another text
    sums = [np.where((owners == j) & is_level, 1.0, 0.0) for j, text in enumerate(texts) if text]
    if design.intercept:
        sums.append(np.eye(width)[0])
    span = np.eye(width)
    if len(sums) > 1:
        differences = np.linalg.qr(np.array([each - sums[-1] for each in sums[:-1]]).T)[0]
        span -= differences @ differences.T
    return IndicatorStructure(
        span, zeros, np.flatnonzero(is_level) if design.intercept else np.zeros(0, dtype=np.int64)
    )


@dataclass(frozen=True, eq=False)
class HessianLaw:
    """A normal law of the Hessian of the first round.

    Attributes:
        means: the means of its entries, shape (width, width).
        noise: the standard deviations of the noise on its entries, of that shape.
        shares: the factors by which errors are smaller than the noise, of that shape.
        common: the directions that are kept as they were found, a projection whose eigenvalues are their shares that
            are not shrunk, of that shape; errors there are as large as the noise.
        structure: what holds for the Hessian of every data set.
    """

    means: Floats
    noise: Floats
    shares: Floats
    common: Floats
    structure: IndicatorStructure

    def draw(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw symmetric matrices, shape (n, width, width); some may have negative eigenvalues."""
        upper = np.triu(rng.standard_normal((n, *self.means.shape)))
        errors = self.noise * (upper + np.triu(upper, 1).transpose(0, 2, 1))
        rest = np.eye(len(self.common)) - self.common
        others = rest @ errors @ rest
        return np.asarray(self.means + self.structure.project(errors - others + self.shares * others))


def hessian_law(observation: NoisyDerivatives) -> HessianLaw:
    """Return the law of the Hessian of the first round given all noisy Hessians."""
    sizes = np.maximum(np.trace(observation.hessians, axis1=1, axis2=2), 1e-6)
    scales = sizes[0] / sizes
    scales = np.where(sizes > 4.0 * observation.hessian_sds[:, 0] * observation.design.width**0.5, scales, 0.0)
    scales[0] = 1.0
    used = scales > 0.0
    precisions = 1.0 / (scales[used] * observation.hessian_sds[used, 0]) ** 2
    structure = indicator_structure(observation.design)
    pooled = np.tensordot(precisions * scales[used], observation.hessians[used], 1) / precisions.sum()
    pooled = structure.project(pooled)
    diagonal_sd = 1.0 / precisions.sum() ** 0.5
    width = observation.design.width
    noise = np.full((width, width), diagonal_sd / 2.0**0.5)
    np.fill_diagonal(noise, diagonal_sd)
    expected, free = _independent(observation, pooled, diagonal_sd)
    others = ~free & ~structure.zeros
    roots = np.sqrt(np.maximum(np.diag(pooled), diagonal_sd))
    scale = np.outer(roots, roots)
    error = 0.0
    if others.any():
        excess = ((pooled - expected) ** 2 - noise**2)[others] * scale[others] ** 2
        error = float(excess.sum() / (scale[others] ** 4).sum())
    error = float(np.clip(max(error, 0.0) ** 0.5, *_ERROR_RANGE))
    prior = np.where(free, np.inf, (error * scale) ** 2)
    trust = 1.0 / (1.0 + noise**2 / prior)
    away = np.where(others, pooled - expected, 0.0)
    shared, common = _common_directions((1.0 - trust) * away, float((noise * (1.0 - trust)).max()), structure)
    means = np.where(others, expected + trust * away + shared, pooled)
    return HessianLaw(structure.project(means), noise, trust**0.5, common, structure)


def _common_directions(rest: Floats, noise_sd: float, structure: IndicatorStructure) -> tuple[Floats, Floats]:
    """Return the part of a noisy symmetric matrix of few directions, and the projection to them.

    Eigenvalues of the noise alone are below 2 sd sqrt(rank). Larger ones are shrunk so that the square error is least.

    Source: Donoho, Gavish and Johnstone 2018 (optimal shrinkage of eigenvalues in the spiked model).
    """
    values, vectors = eigh(rest)
    bulk = 4.0 * noise_sd**2 * float(np.trace(structure.span))
    kept = np.sqrt(1.0 - bulk / np.maximum(values**2, bulk))  # 0 below; the same work for any number of directions
    return (vectors * kept * values) @ vectors.T, (vectors * kept) @ vectors.T


def _independent(observation: NoisyDerivatives, pooled: Floats, error: float) -> tuple[Floats, Booleans]:
    """Return the Hessian of independent features, and which entries have flat priors."""
    width = observation.design.width
    expected, free = np.zeros((width, width)), np.eye(width, dtype=bool)
    if observation.design.intercept:
        free[0] = free[:, 0] = True
        expected = np.outer(pooled[0], pooled[0]) / max(float(pooled[0, 0]), error)
    return expected, free
