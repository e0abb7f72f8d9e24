"""The mode of the posterior given noisy derivatives, on atoms of laws that come closer to that of the mode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpbayes_cli.base.eigen import eigh
from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.noisy_observation import NoisyDerivatives
from dpbayes_cli.inference.derivatives.derivative_density import DerivativeDensity
from dpbayes_cli.inference.derivatives.feature_atoms import BaseLaw, base_from_moments, make_atoms
from dpbayes_cli.inference.derivatives.first_round import guess_count, noisy_moments, prior_at_guesses
from dpbayes_cli.inference.derivatives.hamiltonian import factor_at
from dpbayes_cli.inference.derivatives.latent_count import start_of

_N_ATOMS, _MORE_ATOMS, _MANY_FEATURES = 512, 768, 5
"""The number of atoms with at most ``_MANY_FEATURES`` features, and with more."""
_PASSES = 3
"""The number of times that atoms are drawn, each time from a law that is closer to that of the mode."""
_MAX_STEPS = 40, 80
"""The largest numbers of steps of the two searches; the second one uses coordinates of unit curvature."""
_LINE_SEARCH = 20
"""The largest number of evaluations of a line search."""


@dataclass(frozen=True, eq=False)
class Mode:
    """The mode of a density, shape (size,), and its log density."""

    density: DerivativeDensity
    point: Floats
    value: float

    @property
    def coefficients(self) -> Floats:
        """The coefficients at the mode, shape (width,)."""
        return np.asarray(self.density.parts(self.point[None])[1][0])


def find_mode(observation: NoisyDerivatives, *, even: bool = False, atoms: float = 1.0) -> Mode:
    """Return the mode; the same observation gives the same mode.

    Args:
        even: see ``maximize``.
        atoms: by how much to multiply the usual number of atoms.
    """
    n = guess_count(observation)
    moments, error = noisy_moments(observation, n)
    base = base_from_moments(observation.design, moments, error, even=even)
    n_atoms = round(atoms * (_N_ATOMS if len(base.means) <= _MANY_FEATURES else _MORE_ATOMS))
    mode = _mode_on(observation, base, n, None, n_atoms, even)
    for _ in range(_PASSES - 1):
        weights = mode.density.law.weights(mode.point[None, : mode.density.law.size])[0]
        base, n = mode.density.atoms.adapted_base(weights, error), float(mode.density.records(mode.point[None])[0])
        mode = _mode_on(observation, base, n, mode, n_atoms, even)
    return mode


def _mode_on(
    observation: NoisyDerivatives, base: BaseLaw, n: float, last: Mode | None, n_atoms: int, even: bool
) -> Mode:
    """Return the mode on atoms of a base law, found from that on other atoms and from plug-in coefficients."""
    density = DerivativeDensity(observation, make_atoms(observation.design, base, n_atoms), n)
    start, law, width = density.start(), density.law, density.width
    start[law.size + width :] = start_of(observation.total, n)
    if last is not None:
        marginal = slice(2 * law.n_numbers, 3 * law.n_numbers + law.n_levels)  # the other parameters are the base law's
        start[marginal], start[law.size :] = last.point[marginal], last.point[law.size :]
    starts = [start]
    if last is None:
        starts.append(start.copy())
        starts[1][law.size : law.size + width] = plug_in(observation)[0]
    return max((Mode(density, *maximize(density, each, even=even)) for each in starts), key=lambda mode: mode.value)


def maximize(density: DerivativeDensity, start: Floats, *, even: bool = False) -> tuple[Floats, float]:
    """Return a point with a gradient near zero, and its log density.

    Args:
        even: whether to evaluate the density equally often wherever the search ends. If a release is interrupted after
            a round, its numbers are drawn again, so the running time must not tell anything about the first numbers.
    """
    from scipy.optimize import minimize

    point, value = start, -np.inf
    factor = np.diag(np.concatenate([density.law.prior_sds, np.ones(density.size - density.law.size)]))
    for max_steps in _MAX_STEPS:
        most = max_steps + max_steps // 2
        left = most + _LINE_SEARCH if even else 0  # the last line search may go beyond the limit

        def negative(z: Floats, origin: Floats = point, factor: Floats = factor) -> tuple[float, Floats]:
            nonlocal left
            left -= 1
            value, gradient = density((origin + factor @ z)[None])
            return -float(value[0]), -gradient[0] @ factor

        minimum = minimize(
            negative,
            np.zeros(density.size),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": max_steps, "maxfun": most, "maxcor": 20, "maxls": _LINE_SEARCH},
        )
        while left > 0:
            negative(minimum.x)
        point, value = point + factor @ minimum.x, -float(minimum.fun)
        factor = factor_at(density, point)
    return np.asarray(point), value


def plug_in(observation: NoisyDerivatives) -> tuple[Floats, Floats]:
    """Return the mean and the covariance of the coefficients if the last derivatives were exact."""
    hessian, gradient, point = observation.hessians[-1], observation.gradients[-1], observation.points[-1]
    curvatures, vectors = eigh(hessian)
    hessian = (vectors * np.maximum(curvatures, 0.0)) @ vectors.T
    prior = prior_at_guesses(observation)
    covariance: Floats = np.asarray(np.linalg.inv(hessian + prior.precision))
    return covariance @ (gradient + hessian @ point + prior.precision @ prior.location), covariance
