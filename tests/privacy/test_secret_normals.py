"""Rounded normal numbers: exactly their law, whatever the tail, from the operating system's bits alone."""

from __future__ import annotations

import math
import os

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import norm

from dpbayes_cli.privacy.secret_normals import (
    LOG_ERROR,
    RoundedNormals,
    accepted_normals,
    decide_in_floats,
    decide_with_more_bits,
)
from tests.statistical import FALSE_FAIL, assert_not_uniform, assert_uniform

N = 100_000
FINE = 1.7 * 2.0**36
KEPT = math.sqrt(math.pi / (2.0 * math.e))
"""Fraction of proposals that are accepted: the area below a normal curve that touches the exponential one."""


def words(*values: int) -> NDArray[np.uint64]:
    return np.array(values, dtype=np.uint64)


def some_words(count: int) -> NDArray[np.uint64]:
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def probability(number: int, scale: float) -> float:
    """Return the probability of a rounded normal number, computed without cancellation."""
    size = abs(number)
    return float(norm.sf((size - 0.5) / scale) - norm.sf((size + 0.5) / scale))


@pytest.mark.parametrize("scale", [0.7, 6.3])
def test_the_law_of_all_words_is_that_of_rounded_normals(scale: float) -> None:
    """All words of 10 bits: decided words follow the law, and the undecided ones make up the rest.

    The real code with shorter words; what is said to be unsure may still become a number nearby, or none.
    """
    bits = 10
    every = np.arange(1 << bits, dtype=np.uint64)
    first, second = (each.ravel() for each in np.meshgrid(every, every))
    kept, unsure, numbers = decide_in_floats(first, second, scale, bits)
    far = every[0]  # a word 0 stands for all that is farther out
    for number in range(-12, 13):
        exact = KEPT * probability(number, scale) * 4.0**bits
        sure = np.count_nonzero(kept & (numbers == number))
        near = unsure & ((np.abs(numbers - number) <= 1.0) | (first == far))
        assert sure <= exact <= sure + np.count_nonzero(near)
    assert np.count_nonzero(unsure) < 0.08 * 4.0**bits


def test_more_bits_decide_with_the_probabilities_of_the_law() -> None:
    """5,000 proposals of three bits, so that most need more: false-fail 1e-9 for each of seven frequencies."""
    size, scale = 5000, 1.3
    rng = np.random.default_rng(4)
    numbers = [decide_with_more_bits(int(a), int(b), scale, 3) for a, b in rng.integers(0, 8, (size, 2))]
    limit = float(norm.isf(FALSE_FAIL / 2.0))
    for number in range(-3, 4):
        exact = KEPT * probability(number, scale)
        assert abs(numbers.count(number) / size - exact) < limit * math.sqrt(exact / size)


def test_double_precision_decides_as_exact_decimals_do() -> None:
    first, second = some_words(1000), some_words(1000)
    kept, unsure, numbers = decide_in_floats(first, second, FINE)
    assert np.count_nonzero(unsure) < 20
    for a, b, is_kept, doubtful, number in zip(first, second, kept, unsure, numbers, strict=True):
        exact = decide_with_more_bits(int(a), int(b), FINE)
        assert doubtful or (exact == number if is_kept else exact is None)


def test_logarithms_err_by_no_more_than_assumed() -> None:
    """This machine's logarithms, with the rounding of a word: a quarter of the assumed error."""
    some = some_words(500) >> np.arange(500, dtype=np.uint64) % np.uint64(60)
    logs = -np.log((some.astype(np.float64) + 0.5) * 2.0**-64)
    with mpmath.workdps(40):
        exact = [-mpmath.log((mpmath.mpf(int(word)) + 0.5) / 2**64) for word in some]
        away = [float(abs(mpmath.mpf(a) - b)) for a, b in zip(logs.tolist(), exact, strict=True)]
    assert (np.array(away) <= 0.25 * LOG_ERROR * (1.0 + logs)).all()


def test_no_number_is_too_large_to_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve standard deviations out, where a quantile of 53 bits ends at 8.4: exact to the last digit."""
    first, more = round(math.exp(-12.0) * 2**64), iter([(1 << 64 | 1 << 20).to_bytes(16, "little")])
    monkeypatch.setattr(os, "urandom", lambda size: next(more))
    exact = math.floor(FINE * -math.log((first + 2.0**-64) / 2**64) + 0.5)
    (drawn,) = accepted_normals(words(first), words(1), FINE)
    assert abs(drawn - exact) <= 2.0**-10 * FINE * 2.0**-26
    assert drawn > 11.9 * FINE


def test_a_number_next_to_a_half_and_one_next_to_the_limit_are_left_to_decimals() -> None:
    """Words of which double precision cannot tell how they are rounded, or whether they are kept at all."""
    half = round(math.exp(-(round(FINE) + 0.5) / FINE) * 2**64)
    keep = 1 << 40 | 1
    _, unsure, _ = decide_in_floats(words(half, half + 2**60), words(keep, keep), FINE)
    assert unsure.tolist() == [True, False]
    first = round(math.exp(-2.0) * 2**64)
    limit = round(math.exp(-0.5) * 2**63) << 1
    kept, unsure, _ = decide_in_floats(words(first, first, first), words(limit, limit - 2**20, limit + 2**20), 1.3)
    assert unsure.tolist() == [True, False, False]
    assert kept.tolist() == [False, True, False]


def test_numbers_are_standard_normal() -> None:
    """False-fail 5e-9. The distance misses a scale 10 % off with probability below 1e-9, the moments one 4 % off."""
    z = RoundedNormals(FINE)((N // 2, 2)) / FINE
    assert z.shape == (N // 2, 2)
    assert_uniform(ndtr(z.ravel()))
    assert_not_uniform(ndtr(1.1 * z.ravel()))
    limit = float(norm.isf(FALSE_FAIL / 2.0)) * math.sqrt(N)
    assert abs(np.square(z).sum() - N) < math.sqrt(2.0) * limit
    assert abs((z**4).sum() - 3.0 * N) < math.sqrt(96.0) * limit


def test_numbers_are_independent_of_each_other_and_of_earlier_ones() -> None:
    """Products of different numbers have mean 0: false-fail 1e-9 for all pairs together."""
    draw = RoundedNormals(FINE)
    one, other = draw((N,)) / FINE, draw((N,)) / FINE
    limit = float(norm.isf(FALSE_FAIL / 8.0)) * math.sqrt(N)
    assert abs(float(one @ other)) < limit
    assert abs(float(one[1:] @ one[:-1])) < limit
    assert abs(float(one[: N // 2] @ one[N // 2 :])) < limit
    assert abs(float((one**2 - 1.0) @ (other**2 - 1.0))) < 2.0 * limit


def test_each_number_is_returned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers use the system's random words in order, none twice, whatever the requested shapes."""
    given: list[bytes] = []
    real = os.urandom

    def watched(size: int) -> bytes:
        given.append(real(size))
        return given[-1]

    monkeypatch.setattr(os, "urandom", watched)
    draw = RoundedNormals(1.3)
    drawn = np.concatenate([draw(shape).ravel() for shape in ((3,), (2, 2), (9000,), (1, 5))])
    monkeypatch.undo()
    expected: list[float] = []
    for block in (np.frombuffer(each, dtype=np.uint64) for each in given if len(each) > 16):
        first, second = np.split(block, 2)
        kept, unsure, numbers = decide_in_floats(first, second, 1.3)
        assert not unsure.any()  # at so coarse a scale: false-fail 1e-9
        expected += numbers[kept].tolist()
    assert drawn.tolist() == expected[: len(drawn)]
