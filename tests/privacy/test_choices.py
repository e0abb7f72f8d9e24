"""Exact choices: integer weights against multiprecision, the window, the laws of the draws."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpbayes_cli.privacy.choices import CHOICE_SLACK, MAX_OUTCOMES, WINDOW_NATS, choice_weights, choose
from tests.statistical import assert_follows


@pytest.mark.parametrize("bits", [16, 29, 40])
def test_weights_are_those_of_multiprecision(bits: int) -> None:
    """A weight errs by less than the slack covers, at every depth of the window, and is never zero."""
    rng = np.random.default_rng(bits)
    depths = np.concatenate(
        [rng.integers(0, WINDOW_NATS << bits, 400), [0, 1, (WINDOW_NATS << bits) - 1, WINDOW_NATS << bits]]
    )
    utilities = np.stack([np.zeros(len(depths), dtype=np.int64), -depths], axis=1) - (1 << 61)
    weights = choice_weights(utilities, bits)
    with mpmath.workdps(50):
        for depth, (largest, weight) in zip(depths.tolist(), weights.tolist(), strict=True):
            assert largest == 1 << 57
            exact = mpmath.ldexp(mpmath.exp(-mpmath.ldexp(depth, -bits)), 57)
            assert abs(mpmath.log(weight / exact)) <= float(CHOICE_SLACK) / 4


def test_the_window_keeps_the_range_of_neighbors() -> None:
    """Random utilities of neighbors, near and beyond the window: log ratios vary by no more than the utilities do."""
    rng, bits = np.random.default_rng(0), 30
    for _ in range(300):
        one = rng.integers(-(40 << bits), 40 << bits, size=(1, 4))
        change = rng.integers(-(6 << bits), 6 << bits, size=(1, 4))
        laws = [choice_weights(utilities, bits)[0].tolist() for utilities in (one, one + change)]
        ratios = [float(mpmath.log(Fraction(a, b))) for a, b in zip(*laws, strict=True)]
        allowed = (int(change.max()) - int(change.min())) / 2**bits + float(CHOICE_SLACK)
        assert max(ratios) - min(ratios) <= allowed


@pytest.mark.parametrize("n_outcomes", [3, 4, MAX_OUTCOMES])
def test_choices_follow_their_weights(n_outcomes: int) -> None:
    """Places have different laws and are independent (chi-square, false-fail 1e-9 each)."""
    bits = 20
    rows = np.random.default_rng(1).integers(-(3 << bits), 0, size=(2, n_outcomes))
    drawn = choose(np.tile(rows, (30_000, 1)), bits).reshape(-1, 2)
    laws = np.exp(rows / 2.0**bits)
    laws /= laws.sum(axis=1, keepdims=True)
    for place in (0, 1):
        assert_follows(drawn[:, place], np.arange(n_outcomes), laws[place])
    pairs = drawn[:, 0] * n_outcomes + drawn[:, 1]
    both = np.multiply.outer(*laws)
    assert_follows(pairs, np.arange(n_outcomes**2), both.ravel())


def test_sizes_beyond_the_proof_are_refused() -> None:
    for outcomes, bits in ((MAX_OUTCOMES + 1, 20), (2, 41), (2, 15)):
        with pytest.raises(ValueError, match="proof of the weights"):
            choice_weights(np.zeros((1, outcomes), dtype=np.int64), bits)
