"""The Markov chain on latent counts: by Geweke's joint test, and against the exact mixture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.core.noisy_observation import NoisyCounts, RecordCount
from dpbayes_cli.inference.counts import lattice_chain
from dpbayes_cli.inference.counts.lattice_chain import LatticeChain
from dpbayes_cli.inference.posterior import Effort
from dpbayes_cli.inference.solve import infer
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.laws.rounded_gaussian import RoundedGaussian
from tests.inference.sum_cells import (
    FALSE_FAIL,
)
from tests.statistical import assert_follows

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers
from tests.inference.test_scale_mixture_gibbs import ALTERNATIONS, CLOSE, JOINT_CHAINS


class PerChain:
    """Observed counts that differ by chain, indexed by category as in ``LatticeChain``."""

    def __init__(self, values: Integers) -> None:
        self.values = values

    def __len__(self) -> int:
        return int(self.values.shape[1])

    def __getitem__(self, categories: Integers) -> Integers:
        return self.values[:, categories]


COUNTS = {
    "known": NoisyCounts((2.0, 3.0, 0.7), (4, 5, 2), DiscreteLaplace(3.0), RecordCount("known", 12)),
    "at most": NoisyCounts((2.0, 3.0, 0.7), (4, 5, 2), DiscreteLaplace(3.0), RecordCount("at-most", 12)),
    "Gaussian": NoisyCounts((2.0, 3.0, 0.7), (4, 5, 2), DiscreteGaussian(2.5), RecordCount("known", 12)),
    "rounded": NoisyCounts((2.0, 3.0, 0.7), (4, 5, 2), RoundedGaussian(1.2), RecordCount("known", 12)),
}


def joint(case: str, monkeypatch: pytest.MonkeyPatch, seed: int = 1) -> tuple[Integers, Integers, NoisyCounts]:
    """Alternate sweeps of the lattice chain and new releases; return counts and noise before the last release."""
    observation, rng = COUNTS[case], np.random.default_rng(seed)
    monkeypatch.setattr(lattice_chain, "CHAINS", JOINT_CHAINS)
    monkeypatch.setattr(lattice_chain, "WARM_UP", 1)
    chain = LatticeChain(observation, rng)
    n = observation.total.n
    totals = np.full(JOINT_CHAINS, n)
    if observation.total.kind == "at-most":
        totals = rng.integers(0, n, JOINT_CHAINS, endpoint=True)
    theta = rng.dirichlet(observation.concentration, JOINT_CHAINS)
    counts = rng.multinomial(totals, theta)
    chain._state = np.column_stack([counts, n - totals]) if observation.total.kind == "at-most" else counts
    for _ in range(ALTERNATIONS):
        counts = chain._state[:, :3]
        observed = counts + observation.noise.simulate(rng, counts.shape)
        monkeypatch.setattr(chain, "_observed", PerChain(observed))
        chain._sweep()
    return chain._state[:, :3], observed - chain._state[:, :3], observation


@pytest.mark.parametrize("case", list(COUNTS))
def test_the_kernel_keeps_the_joint_law(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts and noise follow their laws: two tests of three columns each, at 1e-6 / 6."""
    counts, noise, observation = joint(case, monkeypatch)
    n, each = observation.total.n, FALSE_FAIL / 6
    support = np.arange(n + 1)
    around = np.arange(-40, 41)
    for k, a in enumerate(observation.concentration):
        rest = sum(observation.concentration) - a
        totals = [n] if observation.total.kind == "known" else list(range(n + 1))
        masses = np.mean([stats.betabinom.pmf(support, m, a, rest) for m in totals], axis=0)
        assert_follows(counts[:, k], support, masses, each)
        assert_follows(noise[:, k], around, np.exp(observation.noise.log_pmf(around)), each)


@pytest.mark.slow
@pytest.mark.parametrize(("n_draws", "ess"), [(20_000, 15_000), (120_000, 100_000)])
def test_the_chain_has_the_exact_posterior_of_a_binomial_count(n_draws: int, ess: int) -> None:
    """20,000 effective draws exceed 0.01 in 4 % of seeds, this one does not; 90,000 with probability 1e-8 (DKW)."""
    observation = NoisyCounts((10.0, 10.0), (340, None), DiscreteLaplace(100.0), RecordCount("known", 1000))
    posterior = infer(observation, "chain", n_draws, np.random.default_rng(1), Effort(ess=ess))
    assert posterior.warnings == ()
    assert posterior.diagnostics["ks_exact"] <= CLOSE
