"""What the mean over groups owes to noise, against the posterior of the same groups without noise."""

from __future__ import annotations

import numpy as np
import pytest

from dpbayes_cli.core.noisy_observation import GroupedCounts, GroupedSums, NoisyGroups
from dpbayes_cli.inference.groups.infer_groups import infer_groups
from dpbayes_cli.inference.groups.without_noise import remaining_shares
from dpbayes_cli.models.normal_mean import NormalMean
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace

N_GROUPS, SEEDS = 100, range(2)


def groups_of_counts(rng: np.random.Generator) -> tuple[GroupedCounts, np.ndarray]:
    sizes = rng.poisson(10, N_GROUPS)
    successes = rng.binomial(sizes, rng.beta(8, 32, N_GROUPS))
    return GroupedCounts((1.0, 1.0)), np.stack([successes, sizes - successes], axis=1)


def groups_of_numbers(rng: np.random.Generator) -> tuple[GroupedSums, np.ndarray]:
    outcome, rows = NormalMean(0.0, 100.0, 144.0, 50.0, 2500.0).group_outcome(), []
    assert isinstance(outcome, GroupedSums)
    for size, center in zip(rng.poisson(20, N_GROUPS), rng.normal(50, 8, N_GROUPS), strict=True):
        codes = np.rint(np.clip(rng.normal(center, 12, size), 0, 100) / 100 * outcome.steps).astype(np.int64)
        rows.append([int((2 * codes - outcome.steps).sum()), size * outcome.steps])
    return outcome, np.array(rows)


@pytest.mark.parametrize("case", ["counts", "numbers"])
def test_what_remains_without_noise_is_what_an_exact_release_leaves(case: str) -> None:
    """The mean of two releases; the seeds are fixed, so that the test fails by chance in no run."""
    stated, exact = [], []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        outcome, statistic = groups_of_counts(rng) if case == "counts" else groups_of_numbers(rng)
        scale = 2.0 if isinstance(outcome, GroupedCounts) else 4.0 * outcome.steps
        noise, sds = DiscreteLaplace(scale), list[float]()
        noisy = NoisyGroups(outcome, statistic + noise.simulate(rng, statistic.shape), noise)
        for observation in (noisy, NoisyGroups(outcome, statistic, DiscreteLaplace(0.01))):
            groups = infer_groups(observation, "partial", 2000, np.random.default_rng(seed))
            sds.append(float(groups.draws[:, 0].std()))
            if observation is noisy:
                stated += remaining_shares(groups, observation)
        exact.append(sds[1] / sds[0])
    assert np.mean(exact) < 0.85
    assert np.mean(stated) == pytest.approx(np.mean(exact), abs=0.1)
