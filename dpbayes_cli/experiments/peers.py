"""Methods of others, for the study ``benchmark``: samplers that are written from papers, and those of diffprivlib.

The samplers are written in plain NumPy, as a user would write them: nobody publishes them as a package.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

import numpy as np

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import Floats

BURN_IN = 2000
"""Of the experiments of Bernstein and Sheldon, which keep 5,000 sweeps."""


def peer(module: str) -> Any:
    """Return a module of a package of the extra ``peers``.

    Raises:
        SpecError: the package is not installed.
    """
    versioned(module.partition(".")[0])
    return import_module(module)


def versioned(package: str) -> str:
    """Return a package of the extra ``peers`` with its version.

    Raises:
        SpecError: the package is not installed.
    """
    distribution = {"sklearn": "scikit-learn"}.get(package, package)
    try:
        return f"{distribution} {version(distribution)}"
    except PackageNotFoundError:
        hint = "pip install 'dpbayes[peers]', or leave its methods and data out"
        raise SpecError(f"{distribution} is not installed", where="methods", hint=hint) from None


def bernstein_sheldon_binomial(
    y: float, n: int, alpha: float, beta: float, scale: float, sweeps: int, rng: np.random.Generator
) -> Floats:
    """Draw the probability of success given a noisy count (Algorithm 1 in one dimension).

    Args:
        y: the count of successes with Laplace noise.
        n: the number of records.
        alpha, beta: the Beta prior.
        scale: of the noise, sensitivity / epsilon.
        sweeps: how many to keep after ``BURN_IN``.
        rng: the generator.
    """
    draws = np.empty(sweeps)
    s, variance = min(max(y, 0.0), float(n)), 2.0 * scale**2
    for i in range(BURN_IN + sweeps):
        theta = rng.beta(alpha + s, beta + n - s)
        mean, spread = n * theta, n * theta * (1.0 - theta)
        gain = spread / (spread + variance)
        center, sd = mean + gain * (y - mean), math.sqrt(gain * variance)
        s = rng.normal(center, sd)
        while not 0.0 <= s <= n:  # the paper's rejection of impossible statistics
            s = rng.normal(center, sd)
        variance = 1.0 / rng.wald(1.0 / (scale * max(abs(y - s), 1e-12)), 1.0 / scale**2)
        if i >= BURN_IN:
            draws[i - BURN_IN] = theta
    return draws


def bernstein_sheldon_multinomial(
    y: Floats, n: int, concentration: Floats, scale: float, sweeps: int, rng: np.random.Generator
) -> Floats:
    """Draw category probabilities given noisy counts, shape (sweeps, K) (Algorithm 1).

    The covariance of the counts is singular, so that the product of normal laws is drawn by conditioning, which needs
    only the covariance of counts plus noise.
    """
    k = len(y)
    draws = np.empty((sweeps, k))
    s = np.maximum(y, 0.0) + 1.0
    s *= n / s.sum()
    variances = np.full(k, 2.0 * scale**2)
    for i in range(BURN_IN + sweeps):
        theta = rng.standard_gamma(concentration + s)
        theta /= theta.sum()
        mean, root = n * theta, np.sqrt(theta)
        covariance = mean[:, None] * -theta
        covariance.flat[:: k + 1] += mean
        total = covariance.copy()
        total.flat[:: k + 1] += variances
        while True:
            # (diag(root) - theta root') z has covariance diag(theta) - theta theta'
            z = rng.standard_normal(k)
            free = mean + math.sqrt(n) * (root * z - theta * (root @ z))
            noise = np.sqrt(variances) * rng.standard_normal(k)
            s = free + covariance @ np.linalg.solve(total, y - free - noise)
            if s.min() >= 0.0:
                break
        variances = 1.0 / rng.wald(1.0 / (scale * np.maximum(np.abs(y - s), 1e-12)), 1.0 / scale**2)
        if i >= BURN_IN:
            draws[i - BURN_IN] = theta
    return draws


def bernstein_sheldon_exponential(
    y: float,
    n: int,
    shape: float,
    rate: float,
    upper: float,
    scale: float,
    outside: Literal["clamp", "drop"],
    sweeps: int,
    rng: np.random.Generator,
) -> Floats:
    """Draw the rate of exponential times given a noisy sum of those below a bound (Algorithms 2 and 3).

    ``drop`` is the paper's release, the sum of the times up to the bound; ``clamp`` is the same sampler for the sum of
    all times, cut at the bound. The whole sum is what is seen plus what is hidden, jointly normal with the moments of
    one record times n: those of a random sum, and the covariance between regions.

    Args:
        y: the noisy sum.
        n: the number of records.
        shape, rate: the Gamma prior.
        upper: the bound.
        scale: of the Laplace noise, upper / epsilon.
        outside: what became of longer times.
        sweeps: how many to keep after ``BURN_IN``.
        rng: the generator.
    """
    draws = np.empty(sweeps)
    variance = 2.0 * scale**2
    theta = shape / rate
    for i in range(BURN_IN + sweeps):
        mean, hidden, spread, covariance, hidden_spread = _regions(theta, upper, outside)
        gain = n * spread / (n * spread + variance)
        slope, left = covariance / spread, math.sqrt(n * max(hidden_spread - covariance**2 / spread, 0.0))
        center, sd = n * mean + gain * (y - n * mean), math.sqrt(gain * variance)
        while True:
            seen = rng.normal(center, sd)
            total = seen + rng.normal(n * hidden + slope * (seen - n * mean), left)
            if seen >= 0.0 and total >= seen:
                break
        theta = rng.gamma(shape + n, 1.0 / (rate + total))
        variance = 1.0 / rng.wald(1.0 / (scale * max(abs(y - seen), 1e-12)), 1.0 / scale**2)
        if i >= BURN_IN:
            draws[i - BURN_IN] = theta
    return draws


def _regions(theta: float, upper: float, outside: str) -> tuple[float, float, float, float, float]:
    """Return the means of the observed and the hidden part of a record, and their variance, covariance, variance."""

    above = math.exp(-theta * upper)
    first = (1.0 - above * (1.0 + theta * upper)) / theta
    second = (2.0 - above * (2.0 + 2.0 * theta * upper + (theta * upper) ** 2)) / theta**2
    if outside == "drop":
        mean, square, hidden = first, second, above * (upper + 1.0 / theta)
        hidden_square, product = above * (upper**2 + 2.0 * upper / theta + 2.0 / theta**2), 0.0
    else:
        mean, square, hidden = first + above * upper, second + above * upper**2, above / theta
        hidden_square, product = 2.0 * above / theta**2, upper * above / theta
    return mean, hidden, square - mean**2, product - mean * hidden, hidden_square - hidden**2


def ju_sampler(
    y: Floats,
    scale: float,
    propose: Callable[[Floats], Floats],
    statistic: Callable[[Floats], Floats],
    posterior: Callable[[Floats], Floats],
    theta: Floats,
    sweeps: int,
    rng: np.random.Generator,
) -> Floats:
    """Draw parameters given noisy sums by the data augmentation of Ju, Awan, Gong and Rao 2022, sec. 3.

    The confidential records are part of the state. Each in turn is proposed anew from the model, and accepted with the
    ratio of the densities of the release. All data sets take their steps together, which one of them alone cannot.

    Args:
        y: the released sums, with Laplace noise, shape (n_sets, n_sums).
        scale: of the noise.
        propose: returns records from the model, shape (n_records, n_sets), given parameters.
        statistic: returns what each record adds to the sums, shape (n_records, n_sets, n_sums).
        posterior: returns a draw of the parameters given the records.
        theta: the parameters at the start, shape (n_sets, n_parameters).
        sweeps: how many to keep, after as many that are not kept.
        rng: the generator.

    Returns:
        The draws, shape (n_sets, sweeps, n_parameters).
    """
    records, kept = propose(theta), []
    sums = statistic(records).sum(axis=0)
    for sweep in range(2 * sweeps):
        proposed = propose(theta)
        change = statistic(proposed) - statistic(records)
        limit = -scale * rng.standard_exponential(records.shape)
        accepted = np.empty(records.shape, dtype=bool)
        distance = np.abs(y - sums).sum(axis=1)
        for i in range(len(records)):
            moved = sums + change[i]
            new = np.abs(y - moved).sum(axis=1)
            accept = accepted[i]
            np.greater_equal(distance - new, limit[i], out=accept)
            np.copyto(sums, moved, where=accept[:, None])
            np.copyto(distance, new, where=accept)
        np.copyto(records, proposed, where=accepted)
        theta = posterior(records)
        if sweep >= sweeps:
            kept.append(theta)
    return np.stack(kept, axis=1)


def objective_perturbation(x: Floats, y: Floats, epsilon: float, norm: float, seed: int) -> Floats:
    """Return the coefficients of the logistic regression of diffprivlib; the intercept is a column of ones."""
    model = peer("diffprivlib.models").LogisticRegression(
        epsilon=epsilon, data_norm=norm, fit_intercept=False, max_iter=1000, random_state=seed
    )
    return np.asarray(model.fit(x, y).coef_[0])


def functional_mechanism(x: Floats, y: Floats, epsilon: float, bounds: Floats, seed: int) -> Floats:
    """Return intercept and slopes of the linear regression of diffprivlib; the first bounds are those of y."""
    model = peer("diffprivlib.models").LinearRegression(
        epsilon=epsilon, bounds_X=tuple(bounds[1:].T), bounds_y=tuple(bounds[0]), random_state=seed
    )
    fitted = model.fit(x, y)
    return np.concatenate([np.ravel(fitted.intercept_), np.ravel(fitted.coef_)])
