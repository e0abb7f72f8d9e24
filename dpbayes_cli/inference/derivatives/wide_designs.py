"""Coefficients of wide designs from the last noisy gradient, given draws of the Hessian.

Chains over the law of the features would be too slow for wide designs. Here Hessians are drawn (see ``hessian_law``),
and with them the means and the covariance of the rows. Given these, chains are run over the coefficients alone (see
``wide_density``), one for each Hessian.

Source: derived here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.coefficient_law import CoefficientLaw
from dpbayes_cli.core.design import Contrast
from dpbayes_cli.core.noisy_observation import NoisyDerivatives
from dpbayes_cli.inference.convergence import FALSE_ALARM_RATE, drift_p_value
from dpbayes_cli.inference.derivatives.feature_moments import feature_moments
from dpbayes_cli.inference.derivatives.first_round import guess_count, prior_at_guesses
from dpbayes_cli.inference.derivatives.hamiltonian import HamiltonianChains
from dpbayes_cli.inference.derivatives.hessian_law import hessian_law
from dpbayes_cli.inference.derivatives.wide_density import WideDensity
from dpbayes_cli.inference.posterior import Effort

_HESSIANS, _FEW_HESSIANS, _MANY_COLUMNS = 80, 40, 60
"""The number of Hessians, each of which has a chain; the number for wider designs, whose chains take longer; and the
width from which on a design is one."""
_WARM_UP, _LEAST_LENGTH = 8, 15
"""The number of moves of each part of the warm-up, and the least number of draws of a chain. Chains start near their
mode with a metric of their own, so that few moves are enough; results are the same with five times as many. If the
chains drift, their draws so far are a longer warm-up."""
_RUNS = 4
"""How often chains that drift are run again before a warning tells it."""
_LONG, _PATH, _SHORT_PATH = 25, 2.4, 0.8
"""The number of draws above which a chain takes shorter paths, and the lengths of both in standard deviations. With
4,000 draws this saves time; means then err by 5 to 8 % of a standard deviation, with the
longer paths by 3 to 8 %. Average effects are drawn about so many times for each chain."""
_FIRST_STEPS, _STEPS, _STEP = 30, 10, 0.5
"""The numbers of Newton steps to the first coefficients, and from these to those of each Hessian; and their size,
because full steps may diverge."""


class _Newton:
    """Newton's method for the coefficients given the last gradient, for each of the possible moments.

    Attributes:
        moments: the possible moments.
        beta: the present coefficients, shape (n, width).
        known: what the gradient tells: precisions, shape (n, width, width).
    """

    def __init__(self, observation: NoisyDerivatives, hessians: Floats, start: Floats) -> None:
        self._observation, self.moments = observation, feature_moments(observation, hessians)
        self._n = guess_count(observation)
        shape = len(hessians), observation.design.width
        point = np.broadcast_to(observation.points[-1], shape)
        self._at_point = self._n * self.moments.sums(observation.loss, point)[0]
        self.beta = np.broadcast_to(start, shape)

    def step(self, prior: CoefficientLaw) -> None:
        """Go a share of the way to the mode of the quadratic approximation at the present coefficients."""
        means, variances, curvatures = self.moments.sums(self._observation.loss, self.beta)
        drift = self._at_point - self._n * means
        hessians = self._n * curvatures
        total = self._n * variances + self._observation.gradient_sds[-1] ** 2 * np.eye(self.beta.shape[1])
        gains = np.linalg.solve(total, hessians).transpose(0, 2, 1)
        self.known = gains @ hessians
        rest = gains @ (self._observation.gradients[-1] + drift)[:, :, None]
        rest -= prior.precision @ (self.beta - prior.location)[:, :, None]
        self.beta = self.beta + _STEP * np.linalg.solve(self.known + prior.precision, rest)[:, :, 0]


@dataclass(frozen=True, eq=False)
class WideDraws:
    """Draws of the coefficients of a wide design.

    Attributes:
        chains: the coefficients, shape (n_chains, length, width).
        without_noise: their mean covariance given exact derivatives, shape (width, width).
        effects: draws of average effects by the name of the contrast.
    """

    chains: Floats
    without_noise: Floats
    effects: dict[str, Floats]

    @property
    def coefficients(self) -> Floats:
        """The coefficients, shape (n, width); every prefix has draws of all chains."""
        return self.chains.transpose(1, 0, 2).reshape(-1, self.chains.shape[2])

    @property
    def diagnostics(self) -> dict[str, float]:
        """The p-value of agreement between the halves of the chains."""
        return {"halves_p_value": drift_p_value(self.chains)}

    def warnings(self, effort: Effort) -> tuple[str, ...]:
        """Return a warning if chains have not moved, and one if they drift."""
        n, length = self.chains.shape[:2]
        still = int((self.chains[:, 0] == self.chains[:, -1]).all(axis=1).sum())
        warnings = [f"{still} of {n} Markov chains stood still; intervals may be off"] if still else []
        if _drifts(self.chains):
            warnings.append(
                f"the halves of the {n} Markov chains of {length} draws differ: do not use this posterior; to continue "
                f"the chains at no privacy cost: dpbayes infer BUNDLE{' --more' * (effort.more + 1)}"
            )
        return tuple(warnings)

    @property
    def monte_carlo(self) -> float:
        """The largest standard error of a mean, as a fraction of the posterior standard deviation."""
        errors = self.chains.mean(axis=1).std(axis=0, ddof=1) / len(self.chains) ** 0.5
        return float((errors / self.coefficients.std(axis=0)).max())


def draw_coefficients(
    observation: NoisyDerivatives,
    rng: np.random.Generator,
    n_draws: int = 0,
    contrasts: Sequence[Contrast] = (),
    *,
    roughly: bool = False,
    extension: int = 1,
) -> WideDraws:
    """Draw coefficients, at least n_draws.

    Args:
        contrasts: the changes whose average effects are drawn.
        roughly: whether a quarter of the Hessians are enough.
        extension: how many times as long chains are.
    """
    hessians = (_HESSIANS if observation.design.width < _MANY_COLUMNS else _FEW_HESSIANS) // (4 if roughly else 1)
    law, start = hessian_law(observation), mean_coefficients(observation)
    prior = prior_at_guesses(observation)
    newton = _Newton(observation, law.draw(hessians, rng), start)
    for _ in range(_STEPS):
        newton.step(prior)
    density = WideDensity(observation, newton.moments, prior, newton.beta, newton.known + prior.precision)
    width = observation.design.width
    chains = HamiltonianChains(density, np.zeros(width), np.eye(width), hessians, rng, warm_up=_WARM_UP)
    length = max(-(-n_draws // hessians), _LEAST_LENGTH)
    path, length = _PATH if length <= _LONG else _SHORT_PATH, length * extension
    for _ in range(_RUNS):
        draws = density.coefficients(chains.run(length, 1, path))
        if not _drifts(draws):
            break
    curvatures = newton.moments.sums(observation.loss, draws[:, -1])[2]
    without_noise = np.linalg.inv(guess_count(observation) * curvatures + prior.precision).mean(axis=0)
    effects: dict[str, Floats] = {}
    if contrasts:
        first = hessian_law(_first_round(observation))  # the Hessians of other rounds do not weigh all records alike
        population = feature_moments(observation, first.draw(hessians, rng))
        shown = draws[:, :: -(-length // _LONG)].transpose(1, 0, 2)
        parts = [population.effects(observation.loss, each, contrasts) for each in shown]
        effects = {each.name: np.concatenate([part[each.name] for part in parts]) for each in contrasts}
    return WideDraws(draws, without_noise, effects)


def _drifts(chains: Floats) -> bool:
    return drift_p_value(chains) < FALSE_ALARM_RATE


def _first_round(observation: NoisyDerivatives) -> NoisyDerivatives:
    return replace(
        observation,
        points=observation.points[:1],
        gradients=observation.gradients[:1],
        hessians=observation.hessians[:1],
        gradient_sds=observation.gradient_sds[:1],
        hessian_sds=observation.hessian_sds[:1],
    )


def mean_coefficients(observation: NoisyDerivatives) -> Floats:
    """Return the mode of the coefficients given the mean of the Hessian, and a normal law with the prior's scales.

    The number of steps is always the same.
    """
    prior = prior_at_guesses(observation)
    newton = _Newton(observation, hessian_law(observation).means[None], observation.points[-1])
    for _ in range(_FIRST_STEPS):
        newton.step(prior)
    return np.asarray(newton.beta[0])
