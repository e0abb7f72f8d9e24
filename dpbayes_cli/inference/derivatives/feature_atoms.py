"""Possible records of a design, drawn from a base law of the features; other laws of the features reweight them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from dpbayes_cli.base.eigen import eigh
from dpbayes_cli.base.numeric import Booleans, Floats, Integers
from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.design import Design, Feature
from dpbayes_cli.core.section import require_type
from dpbayes_cli.inference.derivatives.number_law import BaseNumberLaw

_ONE_SIDED, _SPIKED = 0.15, 0.5
"""A number has a spike at the bound that is nearer to its mean if its variance is more than this share of the largest
that its mean allows: as if more than a third of the numbers were there, and the others uniform."""
_UNIFORM_SD, _LEAST_SPIKE = 3.0**-0.5, 1e-3
_UNIFORM_SHARE = 0.1
_MAX_LISTED_CODES = 4
"""A column of numbers with at most this many codes has a probability for each code."""
_NEAR_BOUNDS, _CLEAR = 0.1, 0.1
"""A number is taken to be always at a bound if the mean of 1 - x^2 is at most this share of 1 - mean^2 (of a uniform
number it is two thirds of it), and if the noise is small enough to tell."""
_WIDE_ERROR, _NEARLY_UNIFORM_SD = 0.2, 0.55
"""If the errors of moments are larger than the first, no number starts with a larger sd than the second: noise alone
would often give numbers most of their mass near the bounds."""
_MEAN_SD, _TYPICAL_SD = 0.4, 0.3
"""A typical mean of a number, to which its error is compared, and the sd of the base law where the noise hides that of
the number. Laws on few atoms are hardly narrower than the base law."""
_CLEAR_ERRORS = 3.0
"""A variance is half trusted if it differs from the typical one by this many errors."""
_SMALLEST_SD = 0.02
_TYPICAL_CORRELATION = 0.4
"""An estimate whose error is as large as this is shrunk by half."""
_BEHIND = 1.25
"""How much larger the correlation of a normal variable is than that of an indicator of its sign."""
_LEAST_EIGENVALUE = 0.02
"""Of the matrix of correlations, so that no atom has a density that is much larger than others'."""
_SEED = 20260


@dataclass(frozen=True, eq=False)
class BaseLaw:
    """Laws of the features, joined by a normal copula, from which atoms are drawn.

    Attributes:
        means, sds: of each number scaled to [-1, 1], without the records at its spike; unused for listed codes.
        shares: for each feature with listed codes the probability of each code; None for other features. A number that
            is always at one of its bounds has two codes.
        correlations: of the normal variables behind numbers and texts of two levels; 0 for other texts. Shape
            (n_features, n_features).
        spikes: for each number the share of records that are at one of its bounds, with a minus if it is the lower one;
            0 if there is no spike.
    """

    means: Floats
    sds: Floats
    shares: tuple[Floats | None, ...]
    correlations: Floats
    spikes: tuple[float, ...] = ()

    def spike(self, j: int) -> float:
        """Return the spike of a feature; see ``spikes``."""
        return self.spikes[j] if self.spikes else 0.0


@dataclass(frozen=True, eq=False)
class FeatureAtoms:
    """Records drawn from a base law.

    Attributes:
        levels: of features with listed codes, which of these; of numbers, 1 at the spike, else 0. Shape (n_atoms,
            n_features).
        values: the features that are numbers, scaled to [-1, 1], shape (n_atoms, n_features); 0 for texts.
        rows: the rows of the design, shape (n_atoms, width).
        scores: the features that are numbers, standardized by the base law, shape (n_atoms, n_features); 0 for texts
            and at spikes. They are normal scores of a number that is wide.
        is_wide: see ``BaseNumberLaw``, shape (n_features,).
        middles: the score of the middle of each number's range, shape (n_features,).
        log_base: the log density of each atom in the base law, up to a constant, if its texts depended neither on each
            other nor on the numbers: so the laws that reweight the atoms keep these dependences. Shape (n_atoms,). It
            is relative to the normal law of the scores.
        base: the base law.
    """

    levels: Integers
    values: Floats
    scores: Floats
    is_wide: Booleans
    middles: Floats
    rows: Floats
    log_base: Floats
    base: BaseLaw

    def adapted_base(self, weights: Floats, error: float) -> BaseLaw:
        """Return the base law with the means, sds and shares of weighted atoms.

        Args:
            error: the standard deviation of the errors of moments. Where it is large, the weights at a mode follow the
                noise, and their sds would be too large.
        """
        listed = np.array([old is not None for old in self.base.shares])
        apart = np.where(listed, 1.0, 1.0 - self.levels) * weights[:, None]  # without the records at a spike
        spikes = np.clip(1.0 - apart.sum(axis=0), _LEAST_SPIKE, 1.0)  # a spike stays, so that the law keeps its size
        apart /= np.maximum(apart.sum(axis=0), 1e-9)
        means = (apart * self.values).sum(axis=0)
        variances = (apart * (self.values - means) ** 2).sum(axis=0)
        sds = np.sqrt(np.maximum(_shrunk(variances, error), _SMALLEST_SD**2))
        shares = tuple(
            None if old is None else np.asarray(np.bincount(self.levels[:, j], weights, len(old)), dtype=np.float64)
            for j, old in enumerate(self.base.shares)
        )
        two = np.array([old is not None and len(old) == 2 for old in self.base.shares])
        axes = np.where(two, self.levels, self.values)
        centered = axes - weights @ axes
        covariance = (centered.T * weights) @ centered
        correlations = _correlations(covariance, np.diag(covariance), self.base.shares)
        signs = np.sign([self.base.spike(j) for j in range(len(means))])
        return BaseLaw(means, sds, shares, correlations, tuple((signs * spikes).tolist()))


def n_listed(feature: Feature) -> int:
    """Return the number of codes of a feature if each code has a probability of its own, else 0."""
    column = feature.column
    if not isinstance(column, NumericColumn):
        return len(column.levels)
    return column.steps + 1 if column.steps < _MAX_LISTED_CODES else 0


def _is_clear(feature: Feature, mean: float, error: float) -> bool:
    """Return whether the noise, of this standard deviation, lets one see if many numbers are at a bound."""
    ends = feature.scaled(np.array([0, require_type(feature.column, NumericColumn).steps]))
    return ends.tolist() == [-1.0, 1.0] and error < _CLEAR * (1.0 - mean**2)


def _is_at_bounds(mean: float, square: float, error: float) -> bool:
    """Return whether a number is nearly always at one of its bounds, such as 0 and 1 for no and yes.

    Args:
        mean, square: the estimated means of the scaled number and of its square; the latter is then 1.
        error: the standard deviation of their errors.
    """
    return 1.0 - square < _NEAR_BOUNDS * (1.0 - mean**2) + error


def base_from_moments(design: Design, moments: Floats, error: float, *, even: bool = False) -> BaseLaw:
    """Return a base law with the means and variances of rows of the design, as far as these are known.

    Args:
        design: the design; if it has no intercept, the means are assumed to be zero.
        moments: estimated means of products of a row's entries, shape (width, width).
        error: the standard deviation of the errors of the moments.
        even: whether the number of listed codes must not depend on the moments.
    """
    means, sds, shares, columns, centers, variances, spikes = [], [], [], [], [], [], []
    first = int(design.intercept)
    for feature in design.features:
        size = n_listed(feature)
        if isinstance(feature.column, NumericColumn):
            trust = _MEAN_SD**2 / (_MEAN_SD**2 + error**2)
            mean = trust * float(np.clip(moments[0, first], -1.0, 1.0)) if design.intercept else 0.0
            variance = float(np.clip(moments[first, first] - mean**2, 0.0, 1.0))
            means.append(mean)
            sds.append(math.sqrt(max(_shrunk(variance, error), error**2, _SMALLEST_SD**2)))
            share = np.full(size, 1.0 / size) if size else None
            is_clear = not (size or even) and design.intercept and _is_clear(feature, mean, error)
            if is_clear and _is_at_bounds(mean, moments[first, first], error):
                upper = float(np.clip((1.0 + mean) / 2.0, error, 1.0 - error))
                share = np.array([1.0 - upper, upper])
            shares.append(share)
            spikes.append(0.0)
            columns.append(first)
            centers.append(mean)
            variances.append(sds[-1] ** 2)
            if is_clear and share is None and _is_one_sided(mean, sds[-1]):
                spikes[-1], means[-1], sds[-1] = mean, 0.0, _UNIFORM_SD  # the other records: uniform
            first += 1
        else:
            estimates = np.clip(np.diag(moments)[first : first + size], 0.0, 1.0) + error + 1e-3
            of_levels: Floats = estimates / estimates.sum()
            shares.append(of_levels)
            spikes.append(0.0)
            means.append(0.0)
            sds.append(1.0)
            columns.append(first + size - 1)  # of two levels, the second
            centers.append(float(of_levels[-1]))
            variances.append(centers[-1] * (1.0 - centers[-1]))
            first += size
    covariance = moments[np.ix_(columns, columns)] - np.outer(centers, centers)
    trusts = 1.0 / (1.0 + (error / _TYPICAL_CORRELATION) ** 2 / np.outer(variances, variances))
    correlations = _correlations(trusts * covariance, np.array(variances), shares)
    largest = 1.0 if error < _WIDE_ERROR else _NEARLY_UNIFORM_SD
    return BaseLaw(np.array(means), np.minimum(np.array(sds), largest), tuple(shares), correlations, tuple(spikes))


def _is_one_sided(mean: float, sd: float) -> bool:
    """Return whether a number spreads widely although most are near one bound, as if many were at it."""
    return abs(mean) > _ONE_SIDED and sd**2 > _SPIKED * (1.0 - mean**2)


def _shrunk(variances: Any, error: float) -> Any:
    """Return variances of numbers that are drawn toward the typical one, unless they are clearly different."""
    away = variances - _TYPICAL_SD**2
    clear = np.maximum(_TYPICAL_SD**2, np.abs(away) / _CLEAR_ERRORS)
    return _TYPICAL_SD**2 + away / (1.0 + (error / clear) ** 4)


def _correlations(covariance: Floats, variances: Floats, shares: Sequence[Floats | None]) -> Floats:
    """Return the correlations behind numbers and texts of two levels: a positive definite matrix near the estimates.

    Args:
        covariance: of the numbers and of the indicators of second levels.
        variances: of each of them.
        shares: see ``BaseLaw``.
    """
    listed = np.array([each is not None for each in shares])
    others = np.array([each is not None and len(each) > 2 for each in shares])
    scale = np.sqrt(np.maximum(variances, _SMALLEST_SD**2))
    estimates = np.clip(covariance / np.outer(scale, scale), -1.0, 1.0)
    # an indicator tells less than the normal variable behind it
    estimates *= np.where(listed, _BEHIND, 1.0) * np.where(listed, _BEHIND, 1.0)[:, None]
    estimates = np.where(others | others[:, None], 0.0, estimates)
    np.fill_diagonal(estimates, 1.0)
    values, vectors = eigh(estimates)
    kept = (vectors * np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T
    scales = np.sqrt(np.diag(kept))
    return np.asarray(kept / np.outer(scales, scales))


def make_atoms(design: Design, base: BaseLaw, n_atoms: int) -> FeatureAtoms:
    """Return atoms of a base law; equal arguments give equal atoms."""
    rng = np.random.default_rng(_SEED)
    k = len(design.features)
    codes, listed = np.zeros((n_atoms, k), dtype=np.int64), np.zeros((n_atoms, k), dtype=np.int64)
    values, scores = np.zeros((n_atoms, k)), np.zeros((n_atoms, k))
    is_wide, middles = np.zeros(k, dtype=bool), np.zeros(k)
    log_base = np.zeros(n_atoms)
    levels = _joined(_even_points(n_atoms, k, rng), base.correlations)
    numbers = [j for j in range(k) if base.shares[j] is None]
    log_base += _log_copula(levels[:, numbers], base.correlations[np.ix_(numbers, numbers)])
    for j, feature in enumerate(design.features):
        shares, column = base.shares[j], feature.column
        if shares is not None:
            shares = (1.0 - _UNIFORM_SHARE) * shares / shares.sum() + _UNIFORM_SHARE / len(shares)
            listed[:, j] = np.minimum(np.searchsorted(np.cumsum(shares), levels[:, j]), len(shares) - 1)
            log_base += np.log(shares)[listed[:, j]]
            codes[:, j] = listed[:, j]
            if isinstance(column, NumericColumn):
                codes[:, j] *= column.steps // (len(shares) - 1)
                values[:, j] = feature.scaled(codes[:, j])
            continue
        if not isinstance(column, NumericColumn):
            raise TypeError("a text has listed codes")
        law, ranks, spike = BaseNumberLaw.of(base.means[j], base.sds[j]), levels[:, j], base.spike(j)
        if spike:
            share = float(np.clip(abs(spike), _UNIFORM_SHARE, 1.0 - _UNIFORM_SHARE))
            listed[:, j] = ranks < share if spike < 0.0 else ranks > 1.0 - share
            ranks = (ranks - share * (spike < 0.0)) / (1.0 - share)
        scaled = law.at_ranks(ranks)
        ends = feature.scaled(np.array([0, column.steps]))  # one of the ends is -1 or 1
        shares_of_range = (scaled + 1.0) / 2.0 if np.ptp(ends) >= 2.0 else (scaled - ends[0]) / np.ptp(ends)
        codes[:, j] = np.clip(np.rint(shares_of_range * column.steps), 0, column.steps)
        codes[:, j] = np.where(listed[:, j], column.steps * (spike > 0.0), codes[:, j])
        values[:, j] = feature.scaled(codes[:, j])
        log_densities = law.log_densities(values[:, j])
        if spike:  # with the parameter 0, as many records are at the spike as elsewhere
            at_spike = math.log(share) + math.log(float(law.density.max()))
            log_densities = np.where(listed[:, j], at_spike, math.log(1.0 - share) + log_densities)
        is_wide[j], middles[j] = law.is_wide, law.scores(np.zeros(1))[0]
        scores[:, j] = (1.0 - listed[:, j]) * law.scores(values[:, j])
        log_base += log_densities - (1.0 - listed[:, j]) * law.log_slope(values[:, j])
    rows = design.rows(codes)
    rows = rows if isinstance(rows, np.ndarray) else rows.toarray()
    return FeatureAtoms(listed, values, scores, is_wide, middles, np.asarray(rows, dtype=np.float64), log_base, base)


def _joined(points: Floats, correlations: Floats) -> Floats:
    """Return points of a normal copula that are evenly spread in every coordinate."""
    joined = ndtri(points) @ np.linalg.cholesky(correlations).T
    return np.asarray((np.argsort(np.argsort(joined, axis=0), axis=0) + 0.5) / len(points))


def _log_copula(points: Floats, correlations: Floats) -> Floats:
    """Return the log density of a normal copula at points."""
    normal, excess = ndtri(points), np.linalg.inv(correlations) - np.eye(len(correlations))
    return np.asarray(-0.5 * ((normal @ excess) * normal).sum(axis=1) - 0.5 * np.linalg.slogdet(correlations)[1])


def _even_points(n: int, k: int, rng: np.random.Generator) -> Floats:
    """Return points in the unit cube that are evenly spread in every coordinate, shape (n, k)."""
    ranks = np.argsort(rng.random((n, k)), axis=0)
    return np.asarray((ranks + rng.random((n, k))) / n)
