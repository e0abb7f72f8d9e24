"""Repeated draws: tests of their law, of independence, and of equal draws in two processes."""

from __future__ import annotations

import numpy as np
import pytest

from dpbayes_cli.audit.checks import Check
from dpbayes_cli.audit.laws import AddedNoise, Choices
from dpbayes_cli.audit.repeats import ProcessDraws, compare_draws
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace


def checks(law: DiscreteLaplace, *seeds: int) -> list[Check]:
    """The checks of noise on two components, 2000 times in each of some processes."""
    stream = AddedNoise(DiscreteLaplace(2.0), (5, 7)).stream()
    drawn = [law.simulate(np.random.default_rng(seed), (2000, 2)).astype(float) for seed in seeds]
    return list(compare_draws([stream], [ProcessDraws((rows,), ()) for rows in drawn]))


def test_draws_follow_their_law_and_do_not_repeat() -> None:
    """Fixed seeds; with another seed, a false alarm has probability 1e-10."""
    assert all(check.ok for check in checks(DiscreteLaplace(2.0), 1, 2))
    assert not all(check.ok for check in checks(DiscreteLaplace(2.3), 1, 2))
    (law, again) = checks(DiscreteLaplace(2.0), 1, 1)
    assert (law.ok, again.ok) == (True, False)


@pytest.mark.parametrize("law", [DiscreteLaplace(1e9), DiscreteGaussian(2.0)])
def test_repeated_noise_is_found_in_one_process(law: DiscreteLaplace | DiscreteGaussian) -> None:
    stream = AddedNoise(law, (0, 0)).stream()
    drawn = np.array([stream.again() for _ in range(1000)])
    for rows in (drawn, np.repeat(drawn[:1], 1000, axis=0), np.repeat(drawn[::2], 2, axis=0), drawn[:, [0, 0]]):
        (check,) = compare_draws([stream], [ProcessDraws((rows,), ())])
        assert check.ok == (rows is drawn)


def test_of_many_choices_the_first_are_tested() -> None:
    """1,000 records have as many hidden states. 400 fair coins in each of 32 places; a false alarm: 1e-10."""
    rng = np.random.default_rng(1)
    stream = Choices("coins", np.log(np.full((40, 2), 0.5)), lambda: rng.integers(0, 2, 40).tolist()).stream()
    assert stream is not None
    drawn = np.array([stream.again() for _ in range(400)], dtype=float)
    assert all(check.ok for check in compare_draws([stream], [ProcessDraws((drawn,), ())]))
