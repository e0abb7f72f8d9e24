"""The mode of the posterior given noisy derivatives; atoms are drawn again from laws ever closer to that of the mode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.noisy_observation import NoisyDerivatives
from dpbayes_cli.inference.derivatives.derivative_density import DerivativeDensity
from dpbayes_cli.inference.derivatives.feature_atoms import BaseLaw, make_atoms, vague_base
from dpbayes_cli.inference.derivatives.latent_count import start_of

_N_ATOMS = 512
_PASSES = 3
_MAX_STEPS = 150


@dataclass(frozen=True, eq=False)
class Mode:
    """The mode of a density, shape (size,)."""

    density: DerivativeDensity
    point: Floats

    @property
    def coefficients(self) -> Floats:
        """The coefficients at the mode, shape (width,)."""
        return np.asarray(self.density.parts(self.point[None])[1][0])


def find_mode(observation: NoisyDerivatives, passes: int = _PASSES, max_steps: int = _MAX_STEPS) -> Mode:
    """Return the mode; the same observation gives the same mode."""
    base = vague_base(observation.design)
    coefficients, n, count = np.zeros(observation.design.width), _guess_count(observation), None
    mode = None
    for _ in range(passes):
        mode, base, n = _improved(observation, base, coefficients, n, count, max_steps, mode)
        coefficients = mode.coefficients
        count = mode.point[mode.density.law.size + mode.density.width :]
    assert mode is not None
    return mode


def _improved(
    observation: NoisyDerivatives,
    base: BaseLaw,
    coefficients: Floats,
    n: float,
    count: Floats | None,
    max_steps: int,
    last: Mode | None,
) -> tuple[Mode, BaseLaw, float]:
    n_atoms = _N_ATOMS * (1 if len(base.means) <= 5 else 2)
    atoms = make_atoms(observation.design, base, n_atoms)
    uniform = np.full(n_atoms, 1.0 / n_atoms)
    density = DerivativeDensity(observation, atoms, uniform, n)
    start = density.start()
    law, width = density.law, density.width
    if last is None:
        start[law.size + width :] = start_of(observation.total, n)
    else:
        k = law.n_numbers
        start[: 2 * k] = 0.0
        start[2 * k : law.size] = last.point[2 * k : law.size]
        start[law.size : law.size + width] = coefficients
        start[law.size + width :] = count
    point = maximize(density, start, max_steps)
    weights = law.weights(point[None, : law.size])[0]
    return Mode(density, point), atoms.adapted_base(weights), float(density.records(point[None])[0])


def maximize(density: DerivativeDensity, start: Floats, max_steps: int) -> Floats:
    """Return a point with a gradient near zero, or the best point after ``max_steps`` steps."""
    from scipy.optimize import minimize

    scales = np.concatenate([density.law.prior_sds, np.ones(density.size - density.law.size)])

    def negative(point: Floats) -> tuple[float, Floats]:
        value, gradient = density((point * scales)[None])
        return -float(value[0]), -gradient[0] * scales

    found = minimize(
        negative, start / scales, jac=True, method="L-BFGS-B", options={"maxiter": max_steps, "maxcor": 20}
    )
    return np.asarray(found.x * scales)


def _guess_count(observation: NoisyDerivatives) -> float:
    if observation.total.kind != "unbounded":
        return float(observation.total.n)
    curvature = float(observation.loss.curvature(np.zeros(1))[0])
    if observation.design.intercept:
        return max(float(observation.hessians[0, 0, 0]) / curvature, 10.0)
    return max(float(np.trace(observation.hessians[0])) / (curvature * observation.design.radius**2), 10.0)
