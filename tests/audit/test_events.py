"""Lower bounds of the privacy loss, against the exact losses of known laws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from dpbayes_cli.audit.events import CONFIDENCE, best_event, bound_loss, clopper_pearson, event_scores
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace


def test_probabilities_lie_within_their_bounds() -> None:
    """Compared with the binomial tail itself, which has the stated probability at the bound."""
    alpha = (1.0 - CONFIDENCE) / 6.0
    for successes, n in ((0, 50), (50, 50), (7, 50), (4000, 10_000)):
        low, high = clopper_pearson(successes, n, 3)
        assert low == 0.0 if successes == 0 else binom.sf(successes - 1, n, low) == pytest.approx(alpha, rel=1e-6)
        assert high == 1.0 if successes == n else binom.cdf(successes, n, high) == pytest.approx(alpha, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_an_event_bounds_the_loss_of_laplace_noise_from_below(epsilon: float) -> None:
    """With integer noise, 40 times: no bound exceeds the loss (false-fail rate 1e-4); the mean is above half of it."""
    rng, bounds, law = np.random.default_rng(5), [], DiscreteLaplace(1.0 / epsilon)
    for _ in range(40):
        one, other = event_scores(*(shift + law.simulate(rng, (8000, 1)).astype(np.float64) for shift in (0.0, 1.0)))
        event = best_event(one[:4000], other[:4000])
        bounds.append(bound_loss(event, one[4000:], other[4000:], 0.0, 1).epsilon)
    assert max(bounds) <= epsilon
    assert np.mean(bounds) > 0.55 * epsilon


def test_an_event_does_not_separate_equal_laws() -> None:
    rng = np.random.default_rng(6)
    one, other = event_scores(*(rng.normal(size=(4000, 3)) for _ in range(2)))
    assert bound_loss(best_event(one[:2000], other[:2000]), one[2000:], other[2000:], 0.0, 1).epsilon < 0.02
