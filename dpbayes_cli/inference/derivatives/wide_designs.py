"""Coefficients of wide designs from the last noisy gradient, given draws of the Hessian.

Chains over the law of the features would be too slow for wide designs. Here Hessians are drawn; see ``hessian_law``.
Given the Hessian, and so the means and the covariance of the rows x, the last gradient is

    score + n E[x (mean(x'beta) - mean(x'point))] + noise,

with a score of variance n E[variance(x'beta) x x']. The predictor x'beta, a sum over many columns, is taken for normal;
an error of the expectation that is a tenth of it is allowed for.
The posterior of the coefficients beta is approximated by the normal law at its mode.

Source: derived here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpbayes_cli.base.eigen import eigh
from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.coefficient_law import CoefficientLaw
from dpbayes_cli.core.design import Contrast
from dpbayes_cli.core.losses import CurvedLoss
from dpbayes_cli.core.noisy_observation import NoisyDerivatives
from dpbayes_cli.inference.derivatives.average_effects import average_effects
from dpbayes_cli.inference.derivatives.first_round import guess_count, noisy_moments, prior_at_guesses
from dpbayes_cli.inference.derivatives.hessian_law import hessian_law

HESSIANS = 400
"""The number of Hessians for which coefficients are drawn."""
_BLOCK = 40
"""The number of Hessians that are treated together, which limits the memory."""
_SWEEPS = 20
"""How often coefficients and the precisions of their priors are drawn in turn, under a prior that is not normal."""
_NODES, _REACH = 97, 6.0
"""The number of equally spaced points for means over the linear predictor, and the last one in standard deviations; so
many, because means are steep functions of a predictor that varies much."""
_FIRST_STEPS, _STEPS, _STEP = 30, 10, 0.5
"""The numbers of Newton steps to the first coefficients, and from these to those of each Hessian; and their size,
because full steps may diverge."""
_LEAST_VARIANCE = 1e-12
_DISCREPANCY = 0.1
"""The standard deviation of the error of the normal law, in each entry of the expected change of the gradient between
the point and the coefficients, as a fraction of this change."""


@dataclass(frozen=True, eq=False)
class FeatureMoments:
    """Possible moments of the rows of the design: means, shape (n, width), and covariances, shape (n, width, width)."""

    means: Floats
    covariances: Floats

    def sums(self, loss: CurvedLoss, beta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return means over the rows x of mean(x'beta) x, variance(x'beta) x x' and curvature(x'beta) x x'.

        The rows are taken for normal, so that x is normal given x'beta.

        Args:
            beta: coefficients for each of the moments, shape (n, width).

        Returns:
            Shapes (n, width), (n, width, width) and (n, width, width).
        """
        nodes, shares = _normal_nodes()
        slopes = (self.covariances @ beta[:, :, None])[:, :, 0]
        sds = np.sqrt(np.maximum((slopes * beta).sum(axis=1), _LEAST_VARIANCE))[:, None]
        slopes /= sds
        mean, variance, curvature, _ = loss.moments((self.means * beta).sum(axis=1)[:, None] + sds * nodes)
        products = self.covariances + self.means[:, :, None] * self.means[:, None]
        crossed = self.means[:, :, None] * slopes[:, None]
        crossed += crossed.transpose(0, 2, 1)

        def mean_products(values: Floats) -> Floats:
            flat, tilted, bent = ((values @ (shares * power))[:, None, None] for power in (1.0, nodes, nodes**2 - 1.0))
            return np.asarray(flat * products + tilted * crossed + bent * slopes[:, :, None] * slopes[:, None])

        by_mean, by_slope = (mean @ (shares * power) for power in (1.0, nodes))
        means = by_mean[:, None] * self.means + by_slope[:, None] * slopes
        return means, mean_products(variance), mean_products(curvature)

    def effects(self, loss: CurvedLoss, beta: Floats, contrasts: Sequence[Contrast]) -> dict[str, Floats]:
        """Return average effects, for coefficients for each of the moments, shape (n, width)."""
        nodes, shares = _normal_nodes()
        slopes = (self.covariances @ beta[:, :, None])[:, :, 0]

        def mean_outcomes(columns: slice, instead: Floats) -> Floats:
            own, all_means = beta[:, columns], (self.means * beta).sum(axis=1)
            means = all_means - (self.means[:, columns] * own).sum(axis=1) + instead
            shared = 2.0 * slopes[:, columns] - (self.covariances[:, columns, columns] @ own[:, :, None])[:, :, 0]
            variances = (slopes * beta).sum(axis=1) - (shared * own).sum(axis=1)
            sds = np.sqrt(np.maximum(variances, _LEAST_VARIANCE))
            return np.asarray(loss.mean(means[:, None] + sds[:, None] * nodes) @ shares)

        return average_effects(contrasts, beta, mean_outcomes)


def _normal_nodes() -> tuple[Floats, Floats]:
    """Return equally spaced standard normal numbers and their probabilities."""
    nodes = np.linspace(-_REACH, _REACH, _NODES)
    shares = np.exp(-0.5 * nodes**2)
    return nodes, shares / shares.sum()


def feature_moments(observation: NoisyDerivatives, hessians: Floats) -> FeatureMoments:
    """Return the moments to which Hessians, shape (n, width, width), are proportional.

    The weight of all records, and the means, are products with the intercept or, without one, with the sum of a text's
    indicators. Without either, the means are taken for 0.
    """
    ones = observation.design.ones
    if ones.any():
        weights = np.maximum(ones @ hessians @ ones, observation.hessian_sds[0, 0])
        means = hessians @ ones / weights[:, None]
    else:
        first, _ = noisy_moments(observation, guess_count(observation))
        weights = np.trace(hessians, axis1=1, axis2=2) / max(float(np.trace(first)), _LEAST_VARIANCE)
        means = np.zeros(hessians.shape[:2])
    covariances = hessians / weights[:, None, None] - means[:, :, None] * means[:, None]
    variances, vectors = eigh(covariances)
    variances = np.maximum(variances, 0.0)  # negative ones are errors
    return FeatureMoments(means, vectors @ (variances[:, :, None] * vectors.transpose(0, 2, 1)))


class _Newton:
    """Newton's method for the coefficients given the last gradient, for each of the possible moments.

    Attributes:
        beta: the present coefficients, shape (n, width).
        known: what the gradient tells: precisions, shape (n, width, width).
        hessians: the expected Hessians at the coefficients, shape (n, width, width).
    """

    def __init__(
        self, observation: NoisyDerivatives, hessians: Floats, start: Floats, discrepancy: float = _DISCREPANCY
    ) -> None:
        self._observation, self._moments = observation, feature_moments(observation, hessians)
        self._discrepancy = discrepancy
        self._n = guess_count(observation)
        shape = len(hessians), observation.design.width
        point = np.broadcast_to(observation.points[-1], shape)
        self._at_point = self._n * self._moments.sums(observation.loss, point)[0]
        self.beta = np.broadcast_to(start, shape)

    def step(self, prior: CoefficientLaw, precisions: Floats) -> None:
        """Go a share of the way to the mode of the quadratic approximation at the present coefficients."""
        means, variances, curvatures = self._moments.sums(self._observation.loss, self.beta)
        drift = self._at_point - self._n * means
        noise = self._observation.gradient_sds[-1] ** 2 + self._discrepancy**2 * drift**2
        self.hessians = self._n * curvatures
        total = self._n * variances + noise[:, :, None] * np.eye(self.beta.shape[1])
        gains = np.linalg.solve(total, self.hessians).transpose(0, 2, 1)
        self.known = gains @ self.hessians
        rest = gains @ (self._observation.gradients[-1] + drift)[:, :, None]
        rest -= precisions @ (self.beta - prior.location)[:, :, None]
        self.beta = self.beta + _STEP * np.linalg.solve(self.known + precisions, rest)[:, :, 0]


def draw_coefficients(
    observation: NoisyDerivatives,
    rng: np.random.Generator,
    each: int,
    hessians: int = HESSIANS,
    contrasts: Sequence[Contrast] = (),
) -> tuple[Floats, Floats, dict[str, Floats]]:
    """Return draws of coefficients, shape (n, width), their mean covariance given exact derivatives, and effects.

    Under a Student-t or Laplace prior, coefficients and the precisions of their priors are drawn in turn.

    Args:
        each: the number of draws for each Hessian.
        hessians: the number of Hessians, a multiple of ``_BLOCK``.
        contrasts: the changes whose average effects are drawn, one for each Hessian.
    """
    law, start = hessian_law(observation), mean_coefficients(observation)
    prior, width = prior_at_guesses(observation), observation.design.width
    population = hessian_law(_first_round(observation))  # the Hessians of other rounds do not weigh all records alike
    draws, covariance, effects = [], np.zeros((width, width)), []
    for _ in range(hessians // _BLOCK):
        newton = _Newton(observation, law.draw(_BLOCK, rng), start)
        precisions = np.broadcast_to(prior.precision, (_BLOCK, width, width))
        for _ in range(_STEPS):
            newton.step(prior, precisions)
        for _ in range(0 if prior.is_normal else _SWEEPS):
            precisions = prior.mixing_precisions(_draw(newton, precisions, 1, rng)[0], rng)
            newton.step(prior, precisions)
        draws.append(_draw(newton, precisions, each, rng))
        if contrasts:
            moments = feature_moments(observation, population.draw(_BLOCK, rng))
            effects.append(moments.effects(observation.loss, draws[-1][0], contrasts))
        covariance += np.linalg.inv(newton.hessians + precisions).sum(axis=0) / hessians
    joined = {each.name: np.concatenate([part[each.name] for part in effects]) for each in contrasts}
    return np.concatenate(draws, axis=1).reshape(-1, width), covariance, joined


def _first_round(observation: NoisyDerivatives) -> NoisyDerivatives:
    return replace(
        observation,
        points=observation.points[:1],
        gradients=observation.gradients[:1],
        hessians=observation.hessians[:1],
        gradient_sds=observation.gradient_sds[:1],
        hessian_sds=observation.hessian_sds[:1],
    )


def _draw(newton: _Newton, precisions: Floats, n: int, rng: np.random.Generator) -> Floats:
    """Return draws given each of the moments, shape (n, n_moments, width)."""
    roots = np.linalg.cholesky(newton.known + precisions).transpose(0, 2, 1)
    steps = np.linalg.solve(roots, rng.standard_normal((*newton.beta.shape, n)))
    return np.asarray(newton.beta + np.moveaxis(steps, 2, 0))


def mean_coefficients(observation: NoisyDerivatives) -> Floats:
    """Return the mode of the coefficients given the mean of the Hessian, and a normal law with the prior's scales.

    The number of steps is always the same. Discrepancies are not allowed for: shrunk more toward the prior, the next
    point would be farther from the coefficients.
    """
    prior = prior_at_guesses(observation)
    newton = _Newton(observation, hessian_law(observation).means[None], observation.points[-1], discrepancy=0.0)
    for _ in range(_FIRST_STEPS):
        newton.step(prior, prior.precision[None])
    return np.asarray(newton.beta[0])
