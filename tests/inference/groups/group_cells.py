"""Groups for tests: simulated releases, and the exact posterior of a few groups by enumeration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaln, expit, gammaln, log_expit

from dpbayes_cli.core.noisy_observation import GroupedCounts, NoisyGroups
from dpbayes_cli.inference.groups.size_law import log_size_prior
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.noise import NoiseLaw

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SimulatedGroups:
    """A simulated release and what it hides.

    Attributes:
        observation: the release.
        theta: the groups' probabilities of all categories, shape (n_groups, n_categories).
        phi: their mean over groups, shape (n_categories,).
        kappa: the precision of their law.
        sizes: the numbers of records, shape (n_groups,).
    """

    observation: NoisyGroups
    theta: Array
    phi: Array
    kappa: float
    sizes: NDArray[np.int64]


def simulate_groups(
    n_groups: int,
    mean_size: float,
    scale: float,
    rng: np.random.Generator,
    *,
    n_categories: int = 2,
    phi: Array | None = None,
    kappa: float | None = None,
    shape: float = 1.5,
    kept: float = 1.0,
) -> SimulatedGroups:
    """Draw hyperparameters that are not given from their prior, then groups, records and Laplace noise.

    Of the records, a share ``kept`` is valid, and the others are dropped.
    """
    prior = (1.0,) * n_categories
    phi = rng.dirichlet(prior) if phi is None else np.asarray(phi, dtype=np.float64)
    if kappa is None:
        rho = rng.beta(1.0, 3.0)
        kappa = (1.0 - rho) / rho
    theta = rng.dirichlet(np.maximum(phi * kappa, 1e-12), n_groups)
    theta = np.where(np.isfinite(theta), theta, 0.0)
    sizes = rng.binomial(rng.poisson(rng.gamma(shape, mean_size / shape, n_groups)), kept)
    counts = np.stack([rng.multinomial(n, row / row.sum()) for n, row in zip(sizes, theta, strict=True)])
    noise = DiscreteLaplace(scale)
    observed = counts + noise.simulate(rng, counts.shape)
    return SimulatedGroups(NoisyGroups(GroupedCounts(prior), observed, noise), theta, phi, kappa, sizes)


def enumerate_groups(
    observed: NDArray[np.int64], noise: NoiseLaw, points: Array, thresholds: Array, most: int
) -> tuple[Array, Array, Array, Array]:
    """Return the exact posteriors of groups for each point of the hyperparameters; both counts are at most ``most``.

    Args:
        observed: noisy counts of successes and failures, shape (n_groups, 2).
        noise: the law of the noise.
        points: logit phi, logit 1 / (1 + kappa), log mean and log shape of the sizes, shape (n_points, 4).
        thresholds: probabilities at which the posterior distribution functions are computed.
        most: the largest count.

    Returns:
        The log joint density of the points and the observations, shape (n_points,); means of theta, shape (n_points,
        n_groups); means of n; distribution functions of theta, shape (n_points, n_groups, n_thresholds).
    """
    s = np.arange(most + 1)
    n = s[:, None] + s
    choose = gammaln(n + 1) - gammaln(s + 1)[:, None] - gammaln(s + 1)
    kernels = [np.exp(noise.log_pmf(observed[:, [i]] - s)) for i in range(2)]
    logs, means, sizes, cdfs = [], [], [], []
    for x in points:
        kappa, mean, shape = np.exp(-x[1]), np.exp(x[2]), np.exp(x[3])
        a, b = expit(x[0]) * kappa, expit(-x[0]) * kappa
        log_size = gammaln(n + shape) - gammaln(shape) - gammaln(n + 1)
        log_size -= shape * np.log1p(mean / shape) + n * np.log1p(shape / mean)
        table = np.exp(log_size + choose + betaln(a + s[:, None], b + s) - betaln(a, b))
        cells = kernels[0][:, :, None] * table * kernels[1][:, None, :]
        total = cells.sum(axis=(1, 2))
        posterior = cells / total[:, None, None]
        prior = (
            log_expit(x[0]) + log_expit(-x[0]) + log_expit(x[1]) + 3.0 * log_expit(-x[1]) + log_size_prior(x[2], x[3])
        )
        logs.append(float(np.log(total).sum() + prior))
        means.append((posterior * ((a + s[:, None]) / (kappa + n))).sum(axis=(1, 2)))
        sizes.append((posterior * n).sum(axis=(1, 2)))
        if len(thresholds):
            below = [betainc(a + s[:, None], b + s, threshold) for threshold in thresholds]
            cdfs.append(np.einsum("gsf,tsf->gt", posterior, np.array(below)))
    return np.array(logs), np.array(means), np.array(sizes), np.array(cdfs)
