"""Normal numbers from the operating system: their law, their tails, and that none comes twice."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import norm

from dpbayes_cli.privacy.secret_normals import normal_numbers, secret_normals
from tests.statistical import FALSE_FAIL, assert_not_uniform, assert_uniform

N = 200_000


def words(*values: int) -> NDArray[np.uint64]:
    return np.array(values, dtype=np.uint64)


def test_they_are_standard_normal() -> None:
    """False-fail 5e-9. The distance misses a scale 10 % off with probability below 1e-9, the moments one 4 % off."""
    z = secret_normals((N // 2, 2))
    assert z.shape == (N // 2, 2)
    assert_uniform(ndtr(z.ravel()))
    assert_not_uniform(ndtr(1.1 * z.ravel()))
    limit = float(norm.isf(FALSE_FAIL / 2.0)) * math.sqrt(N)
    assert abs(np.square(z).sum() - N) < math.sqrt(2.0) * limit
    assert abs((z**4).sum() - 3.0 * N) < math.sqrt(96.0) * limit


def test_they_are_independent_of_each_other_and_of_those_before() -> None:
    """Products of different numbers have mean 0: false-fail 1e-9 for all pairs together."""
    one, other = secret_normals((N,)), secret_normals((N,))
    limit = float(norm.isf(FALSE_FAIL / 8.0)) * math.sqrt(N)
    assert abs(float(one @ other)) < limit
    assert abs(float(one[1:] @ one[:-1])) < limit
    assert abs(float(one[: N // 2] @ one[N // 2 :])) < limit
    assert abs(float((one**2 - 1.0) @ (other**2 - 1.0))) < 2.0 * limit


def test_none_comes_twice() -> None:
    """Some pair of 200,000 sizes of 53 bits is alike with probability 2e-6; false-fail 1e-17: three pairs are."""
    assert len(np.unique(np.abs(secret_normals((N,))))) > N - 3


def test_no_word_is_infinite_and_both_signs_are_alike() -> None:
    extreme = normal_numbers(words(0, 1, 2**64 - 1, 2**64 - 2, 2**63, 2**63 + 1))
    assert np.isfinite(extreme).all()
    assert extreme[0] == -extreme[1] == pytest.approx(8.3744, abs=1e-4)
    assert abs(extreme[2]) == abs(extreme[3]) < 1e-15
    assert extreme[4] == -extreme[5] == pytest.approx(norm.isf(0.25))
    some = np.frombuffer(os.urandom(8000), dtype=np.uint64)
    assert (normal_numbers(some) == -normal_numbers(some ^ np.uint64(1))).all()


def test_the_bits_are_those_of_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def zeros(size: int) -> bytes:
        asked.append(size)
        return bytes(size)

    monkeypatch.setattr(os, "urandom", zeros)
    assert (secret_normals((3, 2)) == normal_numbers(words(0))[0]).all()
    assert asked == [48]
