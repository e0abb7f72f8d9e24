"""Groups whose noisy counts have noise of different scales share one law of their success probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from dpbayes_cli.core.noisy_observation import GroupedCounts, NoisyGroups
from dpbayes_cli.inference.groups.infer_groups import infer_groups
from dpbayes_cli.inference.groups.rates_with_noises import infer_rates_with_noises
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.noise import NoiseLaw

LAWS: list[tuple[NoiseLaw, NoiseLaw]] = [
    (DiscreteLaplace(1.0), DiscreteGaussian(2.0)),
    (DiscreteLaplace(4.0), DiscreteLaplace(4.0)),
    (DiscreteGaussian(12.0), DiscreteLaplace(12.0)),
]


def simulated(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """True probabilities, noisy counts and kinds of noise of groups of mean size 30."""
    mean = rng.beta(2.0, 4.0)
    truth = rng.beta(mean * 15.0, (1.0 - mean) * 15.0, n)
    records = rng.poisson(rng.gamma(2.0, 15.0, n))
    successes = rng.binomial(records, truth)
    kind = rng.integers(0, 3, n)
    noise = np.array([[law.simulate(rng, 1)[0] for law in LAWS[k]] for k in kind])
    return truth, np.stack([successes, records - successes], axis=1) + noise, kind


def test_equal_noise_gives_the_posterior_of_groups() -> None:
    _, observed, _ = simulated(20, np.random.default_rng(31))
    law = DiscreteLaplace(3.0)
    groups = NoisyGroups(GroupedCounts((1.0, 1.0)), observed, law)
    expected = infer_groups(groups, "partial", 500, np.random.default_rng(1))
    posterior = infer_rates_with_noises(
        observed, [(law, law)], np.zeros(20, dtype=np.int64), 500, np.random.default_rng(1)
    )
    np.testing.assert_allclose(posterior.means, expected.means)
    np.testing.assert_allclose(posterior.draws, expected.draws)
    assert posterior.draw(7, np.random.default_rng(2)).shape == (7, 20, 1)


@pytest.mark.parametrize("repeats", [pytest.param(20, marks=[pytest.mark.slow, pytest.mark.calibration])])
def test_each_kind_of_noise_is_calibrated_and_one_kind_for_all_is_not(repeats: int) -> None:
    """The limits are 6 standard errors from 0.9, so that this fails without reason with probability below 1e-8."""
    rng = np.random.default_rng(32)
    covered: dict[int, list[bool]] = {k: [] for k in range(3)}
    wrong: list[bool] = []
    for _ in range(repeats):
        truth, observed, kind = simulated(300, rng)
        for laws, kinds in ((LAWS, kind), (LAWS[:1], np.zeros(300, dtype=np.int64))):
            quantiles = infer_rates_with_noises(observed, laws, kinds, 500, rng).quantiles[:, 0]
            inside = (quantiles[:, 0] <= truth) & (truth <= quantiles[:, 2])
            if len(laws) > 1:
                for k in range(3):
                    covered[k] += inside[kind == k].tolist()
            else:
                wrong += inside[kind == 2].tolist()
    for each in covered.values():
        assert abs(np.mean(each) - 0.9) < 6.0 * 0.3 / np.sqrt(len(each))
    assert np.mean(wrong) < 0.7
