"""The log posterior density given noisy derivatives, and its gradient, for many parameters at once.

Given the law w of the features (weights of atoms x_k), the coefficients beta and the number of records n:

    H_t = n sum_k w_k curvature(x_k'b_t) x_k x_k' + noise + discrepancy,
    G_t = S + n sum_k w_k x_k (mean(x_k'beta) - mean(x_k'b_t)) + noise + discrepancy,

where mean(t) is the mean of the outcome. The score S is common to all rounds; it is normal
with mean zero and variance n sum_k w_k variance(x_k'beta) x_k x_k', and is integrated out. Discrepancies stand for
the differences between the records and the family of laws; their variances are fixed beforehand.

Source: derived here.
"""

from __future__ import annotations

import numpy as np

from dpbayes_cli.base.eigen import eigh
from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.noisy_observation import NoisyDerivatives
from dpbayes_cli.inference.derivatives.feature_atoms import FeatureAtoms
from dpbayes_cli.inference.derivatives.feature_law import FeatureLaw, feature_law
from dpbayes_cli.inference.derivatives.latent_count import count_and_prior, n_unknowns

_DISCREPANCY = 0.05
"""The standard deviation of the discrepancy of an entry of the Hessian, as a fraction of the geometric mean of the
diagonal entries in its row and its column."""
_GRADIENT_DISCREPANCY = 0.02
"""The standard deviation of the discrepancy of an entry of a gradient, as a fraction of the root mean square of the
entries, without their noise. It matters for many records: no law on so few atoms matches their gradients as closely as
the noise allows, and the chains would be slow."""
_SMALLEST_EFFECT = 0.5
"""A combination of Hessian entries is left out if n times the norm of its function of the atoms is below this many
noise standard deviations. The norm of the weights is about 0.1, so such a combination hardly tells laws apart."""
_LEAST_ATOMS = 0.06
_SPREAD_SD = 0.3
"""The atoms do not represent a law well if its effective number of atoms is below the share ``_LEAST_ATOMS`` of all
atoms. Such a law gets a penalty: a normal log density of the log of this number, with standard deviation
``_SPREAD_SD`` and the limit as its mean."""


class DerivativeDensity:
    """The log posterior density of (law parameters, beta, log-scale number of records), up to a constant."""

    def __init__(self, observation: NoisyDerivatives, atoms: FeatureAtoms, n: float) -> None:
        """Prepare the density; the variance of the discrepancy is that of the atoms' base law and a given n."""
        self.observation, self.atoms = observation, atoms
        self.law: FeatureLaw = feature_law(observation.design, atoms)
        self.width = observation.design.width
        self.size = self.law.size + self.width + n_unknowns(observation.total)
        x, loss = atoms.rows, observation.loss
        self._rows, self._columns = np.triu_indices(self.width)
        self._products = x[:, self._rows] * x[:, self._columns]
        self._powers = np.concatenate([x, x**2], axis=1)
        self._doubled = np.where(self._rows == self._columns, 1.0, 2.0)
        predictors = x @ observation.points.T
        means = loss.mean(predictors)
        self._offsets = np.concatenate([x * mean[:, None] for mean in means.T], axis=1)
        noise = observation.gradient_sds**2
        signal = np.maximum((observation.gradients**2).mean(axis=1) - noise, 0.0)
        self._precisions = 1.0 / (noise + _GRADIENT_DISCREPANCY**2 * signal)
        curvatures = loss.curvature(predictors)
        functions = np.concatenate([self._products * each[:, None] for each in curvatures.T], axis=1)
        center = np.zeros((1, self.law.size))
        self._observed, self._functions = self._independent(functions, self.law.weights(center)[0], n)

    def _independent(self, functions: Floats, weights: Floats, n: float) -> tuple[Floats, Floats]:
        """Return the noisy Hessians as uncorrelated observations with variance 1 of n times means of functions.

        Combinations of the entries that vary less with the weights than the noise are left out.
        """
        observation = self.observation
        sds = np.where(self._rows == self._columns, observation.hessian_sds[:, :1], observation.hessian_sds[:, 1:])
        diagonal = (n * (weights @ functions)).reshape(len(observation.points), -1)[:, self._rows == self._columns]
        discrepancy = _DISCREPANCY**2 * diagonal[:, self._rows] * diagonal[:, self._columns]
        observed = observation.hessians[:, self._rows, self._columns].ravel()
        variances = (sds**2 + discrepancy).ravel()
        mean = weights @ self.law.statistics.T
        centered = self.law.statistics - mean[:, None]
        root = np.sqrt(weights)[:, None]
        explained = np.linalg.lstsq(root * centered.T, root * (functions - weights @ functions), rcond=1e-6)[0]
        residual = functions - weights @ functions - centered.T @ explained
        variances += n * (weights @ residual**2)
        sds = np.sqrt(variances)
        functions, observed = functions / sds, observed / sds
        # eigenvectors of the smaller matrix of inner products; LAPACK's SVD may fail if many atoms are equal
        if functions.shape[0] < functions.shape[1]:
            squares, combinations = eigh(functions @ functions.T)
            kept = n**2 * squares > _SMALLEST_EFFECT**2
            scaled = combinations[:, kept] * np.sqrt(squares[kept])
            return (combinations[:, kept].T @ functions @ observed) / np.sqrt(squares[kept]), scaled
        squares, entries = eigh(functions.T @ functions)
        kept = n**2 * squares > _SMALLEST_EFFECT**2
        return observed @ entries[:, kept], functions @ entries[:, kept]

    def start(self) -> Floats:
        """Return the law of the atoms and the prior location of the coefficients, shape (size,); 0 stands for n."""
        count = np.zeros(self.size - self.law.size - self.width)
        return np.concatenate([np.zeros(self.law.size), self.observation.prior.location, count])

    def parts(self, parameters: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the parameters of the law, the coefficients, and the coordinate of n, which may have no columns."""
        first, last = self.law.size, self.law.size + self.width
        return parameters[:, :first], parameters[:, first:last], parameters[:, last:]

    def records(self, parameters: Floats) -> Floats:
        """Return the numbers of records, shape (n,)."""
        count = self.parts(parameters)[2]
        if not count.shape[1]:
            return np.full(len(parameters), float(self.observation.total.n))
        return count_and_prior(self.observation.total, count[:, 0])[0]

    def information(self, parameters: Floats) -> Floats:
        """Return the expected Hessians at the coefficients, shape (n, width, width)."""
        law, beta, _ = self.parts(parameters)
        curvatures = self.observation.loss.curvature(beta @ self.atoms.rows.T)
        entries = (self.law.weights(law) * curvatures) @ self._products * self.records(parameters)[:, None]
        return self._symmetric(entries)

    def __call__(self, parameters: Floats) -> tuple[Floats, Floats]:
        """Return log densities and gradients for parameters of shape (n, size)."""
        observation, x = self.observation, self.atoms.rows
        law, beta, count = self.parts(parameters)
        weights = self.law.weights(law)
        value, gradient, by_weight = self._prior(law, beta, weights)
        squares = (weights**2).sum(axis=1)
        excess = np.maximum(np.log(squares * weights.shape[1] * _LEAST_ATOMS), 0.0) / _SPREAD_SD**2
        value -= 0.5 * (excess * _SPREAD_SD) ** 2
        n = np.full((len(parameters), 1), float(observation.total.n))
        if count.shape[1]:
            n[:, 0], slope, log_prior, prior_slope = count_and_prior(observation.total, count[:, 0])
            value += log_prior
        # the Hessians
        means = weights @ self._functions
        scaled = self._observed - n * means
        value -= 0.5 * (scaled**2).sum(axis=1)
        by_weight += n * (scaled @ self._functions.T) - (2.0 * excess / squares)[:, None] * weights
        by_n = (scaled * means).sum(axis=1)
        # the gradients: their precision-weighted mean holds the score, and the differences from it hold the noise alone
        predictors = beta @ x.T
        mean, variance, curvature, variance_slope = observation.loss.moments(predictors)
        rounds = observation.gradients.shape
        drifts = ((weights * mean) @ x)[:, None] - (weights @ self._offsets).reshape(-1, *rounds)
        rest = observation.gradients - n[:, :, None] * drifts
        shares = self._precisions / self._precisions.sum()
        score = shares @ rest
        entries = (weights * variance) @ self._products
        covariance = n[:, :, None] * self._symmetric(entries)
        covariance[:, range(self.width), range(self.width)] += 1.0 / self._precisions.sum()
        inverse = np.linalg.inv(covariance)
        solved = (inverse @ score[:, :, None])[:, :, 0]
        rest -= score[:, None]
        value -= 0.5 * np.linalg.slogdet(covariance)[1] + 0.5 * (solved * score).sum(axis=1)
        value -= 0.5 * (self._precisions @ (rest**2).sum(axis=2).T)
        by_drift = shares[:, None] * solved[:, None] + self._precisions[:, None] * rest
        by_entry = 0.5 * (solved[:, :, None] * solved[:, None] - inverse)[:, self._rows, self._columns] * self._doubled
        forces, spreads = by_drift.sum(axis=1) @ x.T, by_entry @ self._products.T
        by_weight += n * (mean * forces + variance * spreads - by_drift.reshape(len(n), -1) @ self._offsets.T)
        by_n += (by_drift * drifts).sum(axis=(1, 2)) + (by_entry * entries).sum(axis=1)
        by_predictor = n * weights * (curvature * forces + variance_slope * spreads)
        gradient[:, : self.law.size] += self.law.gradient(law, weights, by_weight)
        gradient[:, self.law.size :] += by_predictor @ x
        if count.shape[1]:
            gradient = np.concatenate([gradient, (by_n * slope + prior_slope)[:, None]], axis=1)
        return value, gradient

    def _prior(self, law: Floats, beta: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
        """Return log densities, and their gradients with respect to the parameters and to the weights."""
        prior, by_weight = self.observation.prior, np.zeros_like(weights)
        log_prior, by_law = self.law.log_prior(law)
        if not prior.per_sd:
            value, slopes = prior.log_density(beta)
        else:  # a law of the coefficients of standardized columns
            moments = weights @ self._powers
            means, squares = moments[:, : self.width], moments[:, self.width :]
            sds = np.where(prior.per_sd, prior.sds(means, squares), 1.0)
            centers = np.where(prior.centered, means, 0.0)
            away = beta - prior.location
            away[:, 0] += (centers * beta).sum(axis=1)
            away *= sds
            value, slopes = prior.of_effects.log_density(prior.location + away)
            value += np.log(sds).sum(axis=1)
            by_variance = np.where(prior.per_sd, (1.0 + slopes * away) / (2.0 * sds**2), 0.0)
            by_mean = np.zeros_like(means) if prior.about_zero else -2.0 * by_variance * means
            slopes *= sds
            by_mean += np.where(prior.centered, slopes[:, :1] * beta, 0.0)
            by_weight = np.concatenate([by_mean, by_variance], axis=1) @ self._powers.T
            slopes += slopes[:, :1] * centers
        return value + log_prior, np.concatenate([by_law, slopes], axis=1), by_weight

    def _symmetric(self, entries: Floats) -> Floats:
        full = np.empty((len(entries), self.width, self.width))
        full[:, self._rows, self._columns] = entries
        full[:, self._columns, self._rows] = entries
        return full
