"""A family of laws of the features: each law gives weights to atoms by an exponential family of moments."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from dpbayes_cli.base.eigen import eigh
from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.core.design import Design
from dpbayes_cli.inference.derivatives.feature_atoms import FeatureAtoms

_PLACE_SD = 0.5
"""The prior standard deviation of the middle of a number that is scaled to [-1, 1]."""
_TYPICAL_PRECISION, _LOG_PRECISION_SCALE, _FREEDOM = 11.0, 0.8, 4.0
"""Log precisions have Student-t laws: most numbers fill their bounds about equally well, and a few do not at all."""
_EXTREME = 8.0
"""A log precision is cut at this distance from that of the base law, so that weights are finite."""
_CONVEX = 0.03
"""How fast precisions fall below 0. A law of negative precision has most of its mass near the ends of its range."""
_SKEW_SD = 0.5
_FAR = 3.0
"""Beyond this many standard deviations, the skewness has no further effect."""
_LEVEL_SD = 1.5
_NUMBERS_SD, _MIXED_SD, _LEVELS_SD = 0.35, 0.5, 0.7
"""Prior standard deviations of the interaction of two numbers, of a number and a level, and of two levels."""
_MANY_AXES = 4.5
"""With more numbers and levels than this, the prior standard deviations of interactions shrink by the square root of
the ratio. Otherwise few matrices of interactions would belong to a normal law."""


@dataclass(frozen=True, eq=False)
class FeatureLaw:
    """The weights of atoms as a function of parameters with independent priors, which are normal or Student-t laws.

    The parameters are, in this order: the slope, log precision and skewness of each principal component of the numbers;
    the log weight of each level; the interaction of each pair of components or levels of different features. Numbers
    have scores under the base law of the atoms, and u are their principal components under its correlations, with
    variance 1: few matrices of interactions belong to no normal law, however strongly numbers are correlated. An atom
    has the log weight

        slope u - precision u^2 / 2 + skewness (u^3 - 3 u) / 6, summed over components, + the log weights of
        its levels + interaction * u_i u_j, summed over pairs (for a level u is its centered indicator)
        - its log density in the base law.

    where the precision is exp(log precision), less a term that makes it negative if the log precision is far below its
    prior's location. Where all parameters are 0, the law is like the base law, but with equal weights of the levels.

    Attributes:
        statistics: what the natural parameters multiply, shape (n_statistics, n_atoms).
        log_base: see ``FeatureAtoms``, shape (n_atoms,).
        n_numbers, n_levels: the number of numbers and of level weights.
        prior_means, prior_sds: locations and scales of the parameters, shape (n_parameters,).
    """

    statistics: Floats
    log_base: Floats
    n_numbers: int
    n_levels: int
    prior_means: Floats
    prior_sds: Floats

    @property
    def size(self) -> int:
        """The number of parameters."""
        return len(self.prior_means)

    def weights(self, parameters: Floats) -> Floats:
        """Return the weights of the atoms, which sum to 1, for parameters of shape (n, n_parameters)."""
        log_weights = self._natural(parameters) @ self.statistics - self.log_base
        weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def gradient(self, parameters: Floats, weights: Floats, slopes: Floats) -> Floats:
        """Return the gradient of a function of the weights with respect to the parameters.

        Args:
            parameters: shape (n, n_parameters).
            weights: the weights of these parameters, shape (n, n_atoms).
            slopes: the gradient of the function with respect to the weights, as if they were free, of that shape.
        """
        slopes = weights * (slopes - (weights * slopes).sum(axis=1, keepdims=True))
        gradient = slopes @ self.statistics.T
        inside = np.abs(parameters[:, self._precisions]) < _EXTREME
        gradient[:, self._precisions] *= np.where(inside, sum(self._halves_of_precision(parameters)), 0.0)
        return np.asarray(gradient)

    def log_prior(self, parameters: Floats) -> tuple[Floats, Floats]:
        """Return the log prior densities of parameters of shape (n, n_parameters), up to a constant, and gradients."""
        scores = (parameters - self.prior_means) / self.prior_sds
        squares, forces = scores**2, scores
        tails = 1.0 + squares[:, self._precisions] / _FREEDOM
        squares[:, self._precisions] = (_FREEDOM + 1.0) * np.log(tails)
        forces[:, self._precisions] *= (1.0 + 1.0 / _FREEDOM) / tails
        return -0.5 * squares.sum(axis=1), -forces / self.prior_sds

    def _natural(self, parameters: Floats) -> Floats:
        natural = parameters.copy()
        above, below = self._halves_of_precision(parameters)
        natural[:, self._precisions] = above - below
        return natural

    def _halves_of_precision(self, parameters: Floats) -> tuple[Floats, Floats]:
        """Return two terms whose difference is the precision, for log precisions s: exp(s), and a part of exp(-s)."""
        logs = np.clip(parameters[:, self._precisions], -_EXTREME, _EXTREME)
        return np.exp(logs), _CONVEX * np.exp(2.0 * self.prior_means[self._precisions] - logs)

    @property
    def _precisions(self) -> slice:
        return slice(self.n_numbers, 2 * self.n_numbers)


def feature_law(design: Design, atoms: FeatureAtoms) -> FeatureLaw:
    """Return the family of laws on given atoms."""
    base, k = atoms.base, len(design.features)
    numbers = [j for j in range(k) if base.shares[j] is None]
    sds = base.sds[numbers]
    variances, directions = eigh(base.correlations[np.ix_(numbers, numbers)])
    whitening = directions / np.sqrt(variances)
    u = atoms.scores[:, numbers] @ whitening
    axes, owners = [*u.T], [*numbers]
    indicators = []
    for j, shares in enumerate(base.shares):
        if base.spike(j):
            indicators.append(atoms.levels[:, j].astype(np.float64))
            axes.append(indicators[-1] - abs(base.spike(j)))
            owners.append(j)
        if shares is not None:
            levels = range(1, len(shares)) if len(shares) == 2 else range(len(shares))
            for level in levels:
                indicators.append((atoms.levels[:, j] == level).astype(np.float64))
                axes.append(indicators[-1] - shares[level])
                owners.append(j)
    pairs = _pairs(owners)
    kinds = (pairs < len(numbers)).sum(axis=1)
    axes_array = np.array(axes).reshape(len(axes), -1)
    products = axes_array[pairs[:, 0]] * axes_array[pairs[:, 1]]
    limited = np.clip(u.T, -_FAR, _FAR)
    statistics = [
        u.T,
        -0.5 * u.T**2,
        (limited**3 - 3.0 * limited) / 6.0,
        np.array(indicators).reshape(-1, len(u)),
        products,
    ]
    spread_of_pairs = min(1.0, (_MANY_AXES / max(len(axes), 1)) ** 0.5)
    ones = np.ones(len(numbers))
    precisions = np.where(atoms.is_wide[numbers], 0.0, np.log(_TYPICAL_PRECISION * sds**2)) @ directions**2
    means = [atoms.middles[numbers] @ whitening, precisions, 0.0 * ones]
    places = np.sqrt((_PLACE_SD / sds) ** 2 @ whitening**2)
    spreads = [places, _LOG_PRECISION_SCALE * ones, _SKEW_SD * ones, np.full(len(indicators), _LEVEL_SD)]
    return FeatureLaw(
        np.concatenate(statistics),
        atoms.log_base,
        len(numbers),
        len(indicators),
        np.concatenate([*means, np.zeros(len(indicators) + len(pairs))]),
        np.concatenate([*spreads, spread_of_pairs * np.array([_LEVELS_SD, _MIXED_SD, _NUMBERS_SD])[kinds]]),
    )


def _pairs(owners: list[int]) -> Integers:
    pairs = [(i, j) for i, j in itertools.combinations(range(len(owners)), 2) if owners[i] != owners[j]]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)
