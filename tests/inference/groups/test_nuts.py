"""The posterior of 200 groups agrees with NUTS on the likelihood with all latent counts summed out (NumPyro)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dpbayes_cli.inference.groups import size_law
from dpbayes_cli.inference.groups.binary import BinaryPrior, infer_binary
from dpbayes_cli.inference.groups.component_noise import component_noise
from tests.inference.groups.group_cells import enumerate_groups, simulate_groups

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.core.noisy_observation import NoisyGroups

MOST = 70
"""Counts of successes and of failures are summed up to this number."""
WARM_UP, DRAWS = 400, 1600


def nuts(observation: NoisyGroups, start: Floats) -> tuple[Floats, Floats]:
    """Return draws of logit phi, logit 1 / (1 + kappa), log mean and log shape, and their effective sample sizes."""
    numpyro = pytest.importorskip("numpyro", reason="the extra `nuts` (400 MB) is not installed")
    import jax
    import jax.numpy as jnp
    from jax.nn import log_sigmoid, sigmoid
    from jax.scipy.special import gammaln

    numpyro.enable_x64()
    s, n = jnp.arange(MOST + 1.0), jnp.arange(2.0 * MOST + 1.0)
    places = np.arange(MOST + 1)[:, None] + np.arange(MOST + 1)
    counts = np.arange(MOST + 1)
    first, second = (
        jnp.asarray(np.exp(observation.noise.log_pmf(observation.observed[:, [k]] - counts))) for k in (0, 1)
    )

    def potential(x: Any) -> Any:
        kappa, mean, shape = jnp.exp(-x[1]), jnp.exp(x[2]), jnp.exp(x[3])
        a, b = sigmoid(x[0]) * kappa, sigmoid(-x[0]) * kappa
        by_s = gammaln(a + s) - gammaln(a) - gammaln(s + 1.0)
        by_f = gammaln(b + s) - gammaln(b) - gammaln(s + 1.0)
        by_n = gammaln(kappa) - gammaln(kappa + n) + gammaln(shape + n) - gammaln(shape)
        by_n += -shape * jnp.log1p(mean / shape) - n * jnp.log1p(shape / mean)
        table = jnp.exp(by_s[:, None] + by_f + by_n[places])
        log_prior = log_sigmoid(x[0]) + log_sigmoid(-x[0]) + log_sigmoid(x[1]) + 3.0 * log_sigmoid(-x[1])
        for value, (center, sd) in ((x[2], size_law._LOG_MEAN), (x[3], size_law._LOG_SHAPE)):
            log_prior -= ((value - center) / sd) ** 2 / 2.0
        return -(log_prior + jnp.log(jnp.sum((first @ table) * second, axis=1)).sum())

    kernel = numpyro.infer.NUTS(potential_fn=potential)
    run = numpyro.infer.MCMC(kernel, num_warmup=WARM_UP, num_samples=DRAWS, progress_bar=False)
    run.run(jax.random.PRNGKey(0), init_params=jnp.asarray(start))
    draws = np.asarray(run.get_samples())
    return draws, np.asarray(numpyro.diagnostics.effective_sample_size(draws[None]))


@pytest.mark.slow
def test_200_groups_agree_with_nuts() -> None:
    """Each of 8 moments is within 6 standard errors: a false failure has a probability below 1e-7.

    The levels of the reported quantiles of five groups, given the draws of NUTS, are within 0.03.
    """
    rng = np.random.default_rng(12)
    observation = simulate_groups(200, 8.0, 2.0, rng, phi=np.array([0.3, 0.7]), kappa=6.0).observation
    groups = infer_binary(
        observation.observed, (component_noise(observation.noise, 1),) * 2, BinaryPrior(1, 1, True), rng
    )
    points, weights = groups.hyperparameters.points, groups.hyperparameters.weights
    mean = weights @ points
    sd = np.sqrt(weights @ (points - mean) ** 2)
    draws, ess = nuts(observation, mean)
    error = np.sqrt(1.0 / ess + 1.0 / groups.hyperparameters.ess)
    assert np.abs((draws.mean(axis=0) - mean) / sd / error).max() < 6.0
    assert np.abs(np.log(draws.std(axis=0) / sd) / error).max() < 6.0
    few, chosen, summary = draws[:: DRAWS // 200], [0, 50, 100, 150, 199], groups.summarize(rng)
    thresholds = summary.quantiles[chosen].ravel()
    _, means, _, cdfs = enumerate_groups(observation.observed, observation.noise, few, thresholds, MOST)
    spread = np.maximum(means.std(axis=0), 0.02 * summary.sds)
    assert np.abs((means.mean(axis=0) - summary.means) / spread).max() < 6.0 * (2.0 / 200) ** 0.5
    levels = cdfs.mean(axis=0)[chosen].reshape(5, 5, 3)[range(5), range(5)]
    assert np.abs(levels - [0.05, 0.5, 0.95]).max() < 0.03
